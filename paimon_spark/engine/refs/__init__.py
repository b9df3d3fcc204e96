"""Tags, branches and consumers: what keeps snapshots, and their creation, change and deletion."""

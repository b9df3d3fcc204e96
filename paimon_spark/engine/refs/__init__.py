"""Tags, branches and consumers, which protect snapshots: creation, change and deletion."""

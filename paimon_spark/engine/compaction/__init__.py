"""Compaction bucket by bucket, of data files, manifests and file indexes: tasks, then one commit."""

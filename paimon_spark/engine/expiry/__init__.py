"""Deletion of snapshots, changelogs, partitions and orphan files: what is old, unused, or named by a CALL."""

"""Compaction: picking files (pure policy) and rewriting them, from tasks to commit messages."""

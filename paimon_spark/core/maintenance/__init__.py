"""File deletion: what may be deleted, and deleting it safely."""

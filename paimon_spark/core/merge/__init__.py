"""Sorted runs in, one row a key out."""

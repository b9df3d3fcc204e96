"""Merging: sorted runs in, one row per key out."""

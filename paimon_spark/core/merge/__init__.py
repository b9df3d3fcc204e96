"""Merging sorted runs into one row per key."""

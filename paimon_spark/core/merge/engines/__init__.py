"""Merge engines, one file each: the versions of a key in, what a reader sees of them out."""

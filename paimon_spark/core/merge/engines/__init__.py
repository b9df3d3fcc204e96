"""Merge engines, one per file: all versions of a key in, its merged row out."""

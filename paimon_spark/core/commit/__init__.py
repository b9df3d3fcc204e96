"""Commit messages in, one snapshot out."""

"""Choosing what to compact (pure) and rewriting it."""

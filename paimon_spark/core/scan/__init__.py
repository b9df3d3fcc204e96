"""Scan planning: a snapshot and a predicate in, splits out."""

"""A snapshot and a predicate in, splits out."""

"""Aggregate functions, one family per file: the inputs of a column in, one value per key out."""

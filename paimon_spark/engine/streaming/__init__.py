"""Streams from and to tables: starting positions, micro-batches of splits, and idempotent writes of micro-batches."""

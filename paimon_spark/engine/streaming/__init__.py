"""Streams from and to tables: where a stream starts, its batches of splits, and batches that may be replayed."""

"""Compaction that moves rows between files or buckets: sorted, rescaled, or out of postponed buckets."""

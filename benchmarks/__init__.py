"""Benchmarks: this project beside its peers, in the same run, on the same data (docs/performance.md)."""

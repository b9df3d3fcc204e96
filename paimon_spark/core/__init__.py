"""The LSM table: scan, merge, write, compact, commit, retention."""

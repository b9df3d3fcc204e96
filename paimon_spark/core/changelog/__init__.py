"""Changelog producers: from the versions of keys that a compaction merges to the rows of its changelog."""

"""Streams of changes for PySpark: a table as a stream, and aggregates that follow it."""

from __future__ import annotations

from paimon_spark.spark.changelog_aggregates import (
    changelog_avg,
    changelog_count,
    changelog_kind,
    changelog_max,
    changelog_min,
    changelog_sum,
    changes,
)

__all__ = [
    "changelog_avg",
    "changelog_count",
    "changelog_kind",
    "changelog_max",
    "changelog_min",
    "changelog_sum",
    "changes",
]

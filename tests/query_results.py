"""What Spark answers to queries and conditions, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rows(spark: SparkSession, sql: str) -> list[tuple]:
    """Return the rows of a query."""
    return [tuple(r) for r in spark.sql(sql).collect()]


def answers(spark: SparkSession, table: str, conditions: Sequence[str]) -> dict[str, list[int]]:
    """Return the numbers of the rows for which each condition holds, each found by a scan of its own."""
    found: dict[str, list[int]] = {c: [] for c in conditions}
    for start in range(0, len(conditions), 40):
        batch = list(enumerate(conditions))[start : start + 40]
        scans = (f"SELECT {i} AS c, id FROM {table} WHERE {condition}" for i, condition in batch)
        for i, number in rows(spark, " UNION ALL ".join(scans)):
            found[conditions[i]].append(number)
    return {c: sorted(n) for c, n in found.items()}

"""Streams of changes, and aggregates over them: `-U` and `-D` retract earlier rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from paimon_spark.core.columns import AUDIT_ROW_KIND
from paimon_spark.spec.quoted_text import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "changelog_avg",
    "changelog_count",
    "changelog_kind",
    "changelog_max",
    "changelog_min",
    "changelog_sum",
    "changes",
]


def changes(session: SparkSession, table: str, options: Mapping[str, str] | None = None) -> DataFrame:
    """Return the changes of a table as a stream: the current rows, then the changes of each commit.

    Args:
        session: a session prepared by `paimon_spark.configure`.
        table: the name of the table in SQL.
        options: options of the stream, such as `scan.mode` or `consumer-id`.

    Returns:
        A stream of the table's columns after a column `rowkind` with `+I`, `-U`, `+U` or `-D`.
    """
    return session.readStream.options(**{**(options or {}), "read.changelog": "true"}).table(table)


def changelog_kind() -> Column:
    """Return the column `rowkind` of an aggregated group: `-D` if it has lost its last row, else `+U`."""
    return _call("kind").alias(AUDIT_ROW_KIND)


def changelog_count(value: Column | str | None = None) -> Column:
    """Return the number of rows of a group, or of its values that are not NULL."""
    return _call("count") if value is None else _call("count", value)


def changelog_sum(value: Column | str) -> Column:
    """Return the sum of the values of a group; that of FLOAT and DOUBLE values is rounded with each change."""
    return _call("sum", value)


def changelog_avg(value: Column | str) -> Column:
    """Return the mean of the values of a group."""
    return _call("avg", value)


def changelog_min(value: Column | str) -> Column:
    """Return the least value of a group. The state of the query keeps all different values of a group."""
    return _call("min", value)


def changelog_max(value: Column | str) -> Column:
    """Return the greatest value of a group. The state of the query keeps all different values of a group."""
    return _call("max", value)


def _call(name: str, *values: Column | str) -> Column:
    columns = [f.col(quoted_name(v)) if isinstance(v, str) else v for v in values]
    return f.call_function(f"changelog_{name}", *columns, f.col(AUDIT_ROW_KIND))

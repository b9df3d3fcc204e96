"""ANALYZE TABLE: the JVM computes the statistics with Spark's aggregates, the engine stores them."""

from __future__ import annotations

from typing import Any

from paimon_spark.bridge.protocol import Request
from paimon_spark.bridge.tables import load_to_change
from paimon_spark.core.table import Table
from paimon_spark.engine.analyze import commit_statistics, plan_analyze
from paimon_spark.engine.maintenance import maintain_after_commit
from paimon_spark.spark.values import value_from_jvm
from paimon_spark.spec.table_statistics import ColumnStatistics, statistics_text

Json = dict[str, Any]


def plan_analyze_table(request: Request) -> Json:
    """Return the snapshot to analyze, null for an empty table, and the columns."""
    args = request.args
    table = load_to_change(request.envelope, args["table"])
    plan = plan_analyze(table, args["columns"], all_columns=args["all_columns"])
    return {"snapshot": plan.snapshot.id if plan.snapshot else None, "columns": list(plan.columns)}


def analyze_table(request: Request) -> Json:
    """Store the statistics of a snapshot."""
    args = request.args
    table = load_to_change(request.envelope, args["table"])
    columns = {name: _column(table, name, raw) for name, raw in args["columns"].items()}
    commit_statistics(table, table.snapshots.get(args["snapshot"]), args["rows"], columns)
    maintain_after_commit(table)
    return {}


def _column(table: Table, name: str, raw: Json) -> ColumnStatistics:
    field = table.schema.field(name)
    return ColumnStatistics(
        col_id=field.id,
        distinct_count=raw["distinct_count"],
        min=statistics_text(value_from_jvm(raw["min"], field.type)),
        max=statistics_text(value_from_jvm(raw["max"], field.type)),
        null_count=raw["null_count"],
        avg_len=raw["avg_len"],
        max_len=raw["max_len"],
    )


HANDLERS = {h.__name__: h for h in (plan_analyze_table, analyze_table)}

"""ANALYZE TABLE: the JVM computes the statistics with Spark's aggregates, the engine stores them."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from paimon_spark.bridge.protocol import Request
from paimon_spark.bridge.tables import TableToken, described, load_to_change, load_token, newest_token
from paimon_spark.core.metadata.statistics import statistics_of
from paimon_spark.core.table import Table
from paimon_spark.engine.analyze import commit_statistics, plan_analyze
from paimon_spark.engine.post_commit import maintain_after_commit
from paimon_spark.errors import PaimonError
from paimon_spark.spark.values import value_from_jvm, value_to_jvm
from paimon_spark.spec.privileges import Privilege
from paimon_spark.spec.table_statistics import ColumnStatistics, statistics_text, statistics_value
from paimon_spark.spec.types import DataField

Json = dict[str, Any]
_log = logging.getLogger(__name__)


def plan_analyze_table(request: Request) -> Json:
    """Return the snapshot to analyze and the table that reads it, both null for an empty table, and the columns."""
    args = request.args
    newest = newest_token(request.envelope, args["table"])
    table = load_to_change(request.envelope, newest)
    plan = plan_analyze(table, args["columns"], all_columns=args["all_columns"])
    if plan.snapshot is None:
        return {"snapshot": None, "table": None, "columns": list(plan.columns)}
    token = replace(TableToken.of(newest), analyzed=plan.snapshot.id)
    read = described(request.envelope, table, token)
    return {"snapshot": plan.snapshot.id, "table": read, "columns": list(plan.columns)}


def analyze_table(request: Request) -> Json:
    """Store the statistics of a snapshot."""
    args = request.args
    table = load_to_change(request.envelope, args["table"])
    columns = {name: _column(table, name, raw) for name, raw in args["columns"].items()}
    commit_statistics(table, table.snapshots.get(args["snapshot"]), args["rows"], columns)
    for warning in maintain_after_commit(table).warnings:
        _log.warning("%s: %s", table.name, warning)
    return {}


def _column(table: Table, name: str, raw: Json) -> ColumnStatistics:
    field = table.schema.field(name)
    return ColumnStatistics(
        col_id=field.id,
        distinct_count=raw["distinct_count"],
        min=statistics_text(value_from_jvm(raw["min"], field.type), field.type),
        max=statistics_text(value_from_jvm(raw["max"], field.type), field.type),
        null_count=raw["null_count"],
        avg_len=raw["avg_len"],
        max_len=raw["max_len"],
    )


def scan_statistics(request: Request) -> Json:
    """Return the stored statistics of the columns of a read; none if the file is unreadable, as they are optional."""
    args = request.args
    table = load_token(request.envelope, TableToken.of(args["table"]), args["options"])
    table.require(Privilege.SELECT)
    snapshot = None if args["snapshot"] is None else table.snapshots.find(args["snapshot"])
    try:
        found = statistics_of(table, snapshot)
    except PaimonError as e:
        _log.warning("The statistics of %s are not used: %s", table.name, e)
        return {}
    stored = {} if found is None else found.col_stats
    known = [c for c in args["columns"] if c in stored and c in table.schema.field_names]
    return {c: _shown(stored[c], table.schema.field(c)) for c in known}


def _shown(stats: ColumnStatistics, field: DataField) -> Json:
    """Return the statistics of a column with bounds as Spark's internal values; none if its id or type has changed."""
    if stats.col_id != field.id:
        return {}
    bounds = {"min": statistics_value(stats.min, field.type), "max": statistics_value(stats.max, field.type)}
    return {
        "distinct_count": stats.distinct_count,
        "null_count": stats.null_count,
        "avg_len": stats.avg_len,
        "max_len": stats.max_len,
        **{k: value_to_jvm(v) for k, v in bounds.items()},
    }


HANDLERS = {h.__name__: h for h in (plan_analyze_table, analyze_table, scan_statistics)}

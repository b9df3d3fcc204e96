"""Reading as an operation: which snapshot, which files, which rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from paimon_spark.core.columns import ROW_KIND_FIELD
from paimon_spark.core.metadata.time_travel import resolve_snapshot
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.read.split_reader import first_rows, read_split
from paimon_spark.core.scan.result import ScanCounts
from paimon_spark.core.scan.scan import scan_buckets
from paimon_spark.core.scan.splits import Split, plan_splits
from paimon_spark.core.table import Table
from paimon_spark.engine.postpone_read import with_postponed
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.spec.features import check_readable
from paimon_spark.spec.predicate import TRUE, Predicate, columns_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectPlan:
    """What a query reads. `table` is at the schema of the query; `row_count` is known where metadata tells it."""

    table: Table
    snapshot_id: int | None
    splits: tuple[Split, ...] = ()
    counts: ScanCounts = field(default_factory=ScanCounts)
    columns: tuple[str, ...]
    predicate: Predicate = TRUE
    limit: int | None = None
    keep_kinds: bool = False
    row_count: int | None = None

    @property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema of the rows."""
        fields = [self.table.schema.field(c) for c in self.columns]
        return to_arrow_schema([*fields, ROW_KIND_FIELD] if self.keep_kinds else fields)


@translate_io_errors()
def plan_select(
    table: Table,
    *,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    limit: int | None = None,
    version: str | int | None = None,
    timestamp_millis: int | None = None,
    levels: Collection[int] | None = None,
    keep_kinds: bool = False,
) -> SelectPlan:
    """Plan a query.

    Args:
        table: the table with the options of the statement; its scan options may name the snapshot.
        columns: columns to read; all if not given.
        predicate: filter over any columns.
        limit: how many rows are enough, if any.
        version: snapshot id or tag to travel to.
        timestamp_millis: time to travel to.
        levels: only files of these levels.
        keep_kinds: keep retracts and tell the kind of every row.
    """
    snapshot, schema = resolve_snapshot(table, version=version, timestamp_millis=timestamp_millis)
    table = table.with_schema(schema)
    names = tuple(schema.field(c).name for c in columns) if columns is not None else schema.field_names
    check_readable(table.effective_schema, names)
    condition = predicate or TRUE
    for column in columns_of(condition):
        schema.field(column)
    only = None if table.options.scan_bucket is None else (table.options.scan_bucket,)
    found = scan_buckets(
        table, snapshot, statistics=False, predicate=condition, levels=levels, buckets=only, visible_only=True
    )
    splits = plan_splits(table, found, always_merge=keep_kinds)
    splits = splits if levels is not None else with_postponed(table, snapshot, condition, splits, only)
    whole = columns_of(condition) <= set(schema.partition_keys) and not keep_kinds
    if whole and limit is not None:
        splits = _enough(splits, limit)
    return SelectPlan(
        table=table,
        snapshot_id=snapshot.id if snapshot else None,
        splits=tuple(splits),
        counts=found.counts,
        columns=names,
        predicate=condition,
        limit=limit,
        keep_kinds=keep_kinds,
        row_count=_row_count(splits) if whole and limit is None else None,
    )


def _row_count(splits: Iterable[Split]) -> int | None:
    """Return the number of rows of all splits, or None where one is unknown."""
    counts = [s.row_count for s in splits]
    known = [c for c in counts if c is not None]
    return sum(known) if len(known) == len(counts) else None


def _enough(splits: list[Split], limit: int) -> list[Split]:
    """Return the leading splits that hold `limit` rows; all of them where a count is unknown."""
    rows, out = 0, []
    for split in splits:
        if rows >= limit:
            break
        if split.row_count is None:
            return splits
        out.append(split)
        rows += split.row_count
    return out


def read_batches(plan: SelectPlan) -> Iterator[pa.RecordBatch]:
    """Return the rows of a plan, read in this process, up to its limit."""
    batches = (
        batch
        for split in plan.splits
        for batch in read_split(plan.table, split, plan.columns, plan.predicate, keep_kinds=plan.keep_kinds)
    )
    return first_rows(batches, plan.limit)


def read_arrow(
    table: Table,
    *,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    limit: int | None = None,
    version: str | int | None = None,
    timestamp_millis: int | None = None,
) -> pa.Table:
    """Read rows in this process; the arguments are those of `plan_select`."""
    plan = plan_select(
        table,
        columns=columns,
        predicate=predicate,
        limit=limit,
        version=version,
        timestamp_millis=timestamp_millis,
    )
    return pa.Table.from_batches(read_batches(plan), schema=plan.schema)

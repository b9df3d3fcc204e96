"""Planning and running of queries: the snapshot, the files, the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo

import pyarrow as pa

from paimon_spark.core.clustered_files import has_unsorted_keys
from paimon_spark.core.columns import ROW_KIND_FIELD
from paimon_spark.core.file_schemas import FileSchemas
from paimon_spark.core.metadata.change_range import resolve_changes
from paimon_spark.core.metadata.row_ranges import evolves
from paimon_spark.core.metadata.scan_modes import ScanStart, scan_start
from paimon_spark.core.metadata.time_travel import ReadStart, resolve_start
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.read.split_reader import first_rows, read_split
from paimon_spark.core.scan.changes import ChangeFilter, plan_changes
from paimon_spark.core.scan.limits import enough_splits
from paimon_spark.core.scan.result import Scan, ScanCounts, YoungFiles
from paimon_spark.core.scan.scan import scan_buckets
from paimon_spark.core.scan.splits import Split, plan_splits
from paimon_spark.core.scan.top import RowOrder, top_splits
from paimon_spark.core.table import Table
from paimon_spark.core.write.rolling import wall_clock_millis
from paimon_spark.engine.postpone_read import with_postponed
from paimon_spark.errors import UnsupportedError
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.spec.bounds import LEAST_MILLIS, MOST_MILLIS
from paimon_spark.spec.features import check_readable
from paimon_spark.spec.predicate import TRUE, Predicate, columns_of
from paimon_spark.spec.privileges import Privilege
from paimon_spark.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The mode of a read.

    Attributes:
        keep_kinds: keep retracts and return the kind of every row.
        top_level_only: read only files of the highest level of a primary key table.
        drop_retracts: without `keep_kinds`, leave -U and -D out of changes; otherwise they are returned as rows.
        local_zone: time zone of texts without one in scan options; that of this machine by default.
        order: the order that the first rows of a limit are in; by default, any rows.
    """

    keep_kinds: bool = False
    top_level_only: bool = False
    drop_retracts: bool = False
    local_zone: tzinfo | None = None
    order: RowOrder | None = None


DEFAULT_READ = ReadOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectPlan:
    """The plan of a query. `table` is at the schema of the query.

    `row_count` is set if metadata determines it. With an `order`, `top` is the number of requested rows.
    """

    table: Table
    snapshot_id: int | None
    splits: tuple[Split, ...] = ()
    counts: ScanCounts = field(default_factory=ScanCounts)
    columns: tuple[str, ...]
    predicate: Predicate = TRUE
    limit: int | None = None
    order: RowOrder | None = None
    top: int | None = None
    keep_kinds: bool = False
    row_count: int | None = None
    changes: str = ""
    """A description of the changes that are read; empty for a state of the table."""
    pinned: bool = True
    """Whether reading the snapshot by its id gives the same rows."""

    @property
    def whole_partitions(self) -> bool:
        """Return whether the filter selects whole partitions, and readers return all their rows."""
        keys = set(self.table.schema.partition_keys)
        return columns_of(self.predicate) <= keys and not self.keep_kinds

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
    how: ReadOptions = DEFAULT_READ,
    begin: ReadStart | None = None,
) -> SelectPlan:
    """Plan a query.

    Args:
        table: the table with the options of the statement; its scan options may name the snapshot, or changes.
        columns: columns to read; all if not given.
        predicate: filter over any columns.
        limit: number of rows that suffice, if any.
        version: snapshot id or tag to travel to.
        timestamp_millis: time to travel to.
        how: the mode of the read.
        begin: where the read starts; by default, version, time and scan options determine it.

    Raises:
        AccessDeniedError: the user does not have the privilege SELECT.
    """
    table.require(Privilege.SELECT)
    start = scan_start(table.options) if begin is None and version is None and timestamp_millis is None else None
    if start is not None and start.reads_changes:
        found = _changes(table, start, predicate or TRUE, columns, how)
    else:
        begin = begin or resolve_start(
            table, version=version, timestamp_millis=timestamp_millis, local_zone=how.local_zone
        )
        enough = limit if how.order is None else None
        found = _state(table.as_of(begin.schema), begin, predicate or TRUE, columns, how, enough)
    return _limited(found, limit, how.order)


def _limited(plan: SelectPlan, limit: int | None, order: RowOrder | None) -> SelectPlan:
    """Return a plan with the splits of its first rows, and the row count if these are all rows."""
    if order is not None and limit is not None:
        if not plan.whole_partitions or plan.changes:
            return plan
        top = top_splits(plan.table, plan.splits, order, limit)
        return replace(_with_splits(plan, top), order=order, top=limit)
    if limit is None:
        return replace(plan, row_count=known_total(s.row_count for s in plan.splits) if plan.whole_partitions else None)
    if plan.whole_partitions:
        return replace(_with_splits(plan, enough_splits(plan.splits, limit)), limit=limit)
    return replace(plan, limit=limit)


def _with_splits(plan: SelectPlan, splits: Sequence[Split]) -> SelectPlan:
    """Return a plan with a part of its splits, and their counts."""
    files, partitions = sum(s.file_count for s in splits), len({s.partition for s in splits})
    return replace(plan, splits=tuple(splits), counts=replace(plan.counts, files=files, partitions=partitions))


def _state(
    table: Table,
    start: ReadStart,
    condition: Predicate,
    columns: Sequence[str] | None,
    how: ReadOptions,
    enough: int | None,
) -> SelectPlan:
    names = _checked_names(table, columns, condition)
    merges = table.is_primary_key_table and not has_unsorted_keys(table)
    levels = (table.stored_options.num_levels - 1,) if how.top_level_only and merges else None
    scanned: Scan = scan_buckets(
        table,
        start.snapshot,
        statistics=False,
        predicate=condition,
        levels=levels,
        buckets=_wanted_buckets(table),
        visible_only=True,
        enough_rows=enough if start.files_created_from is None else None,
    )
    since = None if start.files_created_from is None else _stored_time(start.files_created_from)
    if since is not None:
        _check_whole_rows(table)
        scanned = YoungFiles(scanned, since)
    splits = plan_splits(table, scanned, always_merge=how.keep_kinds)
    if levels is None:
        splits = with_postponed(table, start.snapshot, condition, splits, _wanted_buckets(table), since)
    if start.snapshot is not None and splits:
        _check_definition(table, start.snapshot)
    return SelectPlan(
        table=table,
        snapshot_id=start.snapshot.id if start.snapshot else None,
        splits=tuple(splits),
        counts=scanned.counts,
        columns=names,
        predicate=condition,
        keep_kinds=how.keep_kinds,
        pinned=start.files_created_from is None,
    )


def _changes(
    table: Table, start: ScanStart, condition: Predicate, columns: Sequence[str] | None, how: ReadOptions
) -> SelectPlan:
    """Plan a read of changes, which are read with the latest schema."""
    if how.top_level_only:
        raise UnsupportedError(
            f"The option '{start.option}' does not apply to the system table $ro of table {table.name}: changes are "
            "not at the top level.",
            hint="Read the table itself, or its $audit_log.",
        )
    names = _checked_names(table, columns, condition)
    changes = resolve_changes(table, start, how.local_zone)
    plan = SelectPlan(
        table=table,
        snapshot_id=None,
        columns=names,
        predicate=condition,
        keep_kinds=how.keep_kinds,
        changes=str(changes or "none"),
        pinned=False,
    )
    if changes is None:
        return plan
    wanted = ChangeFilter(predicate=condition, buckets=_wanted_buckets(table))
    splits, counts = plan_changes(table, changes, wanted, drop_retracts=how.drop_retracts)
    _check_changes(table, splits)
    return replace(plan, splits=tuple(splits), counts=counts)


def _check_definition(table: Table, snapshot: Snapshot) -> None:
    """Reject a snapshot of before or after a REPLACE TABLE, whose rows are not read by the rules of this table."""
    found = FileSchemas(table).replaced([snapshot.schema_id])
    if found is None:
        return
    again = "Run the statement again; create a DataFrame again."
    asked = (
        f"Read it with VERSION AS OF {snapshot.id}. If another statement replaces the table just now, run this again."
    )
    raise UnsupportedError(
        f"Snapshot {snapshot.id} of table {table.name} is not read by this query: it has schema {snapshot.schema_id}, "
        f"and the query schema {table.schema.id}. In between, the table was replaced by one with another {found[1]}.",
        hint=again if snapshot.schema_id > table.schema.id else asked,
    )


def _check_changes(table: Table, splits: Iterable[Split]) -> None:
    """Reject changes with files of before or after a REPLACE TABLE, which are not read by the rules of this table."""
    found = FileSchemas(table).replaced(i for s in splits for i in s.schema_ids)
    if found is not None:
        raise UnsupportedError(
            f"The changes of table {table.name} have files of schema {found[0]}, and the query schema "
            f"{table.schema.id}. In between, the table was replaced by one with another {found[1]}.",
            hint="Compare the states: read both snapshots with VERSION AS OF, each as the table was then.",
        )


def _checked_names(table: Table, columns: Sequence[str] | None, condition: Predicate) -> tuple[str, ...]:
    """Return the names of the columns to read.

    Raises:
        NotFoundError: there is no such column.
        UnsupportedError: this release cannot read the table.
    """
    schema = table.schema
    names = tuple(schema.field(c).name for c in columns) if columns is not None else schema.field_names
    check_readable(table.effective_schema, names)
    for column in columns_of(condition):
        schema.field(column)
    return names


def _check_whole_rows(table: Table) -> None:
    if evolves(table):
        raise UnsupportedError(
            f"Files of table {table.name} cannot be chosen by the time of their creation: with "
            "'data-evolution.enabled' = 'true', a row is in several files.",
            hint="Give a snapshot, a tag or a time of the table instead.",
        )


def _wanted_buckets(table: Table) -> tuple[int, ...] | None:
    return None if table.options.scan_bucket is None else (table.options.scan_bucket,)


def _stored_time(millis: int) -> int:
    """Return an epoch time in the encoding of the creation times of files."""
    return wall_clock_millis(min(max(millis, LEAST_MILLIS), MOST_MILLIS))


def known_total(counts: Iterable[int | None]) -> int | None:
    """Return the sum of numbers of rows, or None if one is unknown."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def read_batches(plan: SelectPlan) -> Iterator[pa.RecordBatch]:
    """Return the rows of a plan, read in this process, up to its limit."""
    batches = (
        batch
        for split in plan.splits
        for batch in read_split(plan.table, split, plan.columns, plan.predicate, keep_kinds=plan.keep_kinds)
    )
    return first_rows(batches, plan.limit)

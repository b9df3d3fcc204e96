"""Reads over two branches: `scan.fallback-branch` and `scan.primary-branch` (docs/spec/semantics.md, Y8).

A partition is read from the preferred branch if that has files of it, otherwise from the other branch. Writes and
row-level changes concern only the branch of the statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from paimon_spark.core.metadata.branches import on_branch
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.time_travel import resolve_snapshot
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.read.split_reader import first_rows
from paimon_spark.core.scan.scan import live_entries
from paimon_spark.core.table import TRAVEL_OPTIONS, Table
from paimon_spark.engine.select import DEFAULT_READ, ReadOptions, SelectPlan, plan_select, read_batches
from paimon_spark.errors import OptionError, UsageError
from paimon_spark.spec.predicate import Predicate
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.support import Scope, scope_of
from paimon_spark.spec.types import DataType, not_null

FALLBACK = "scan.fallback-branch"
PRIMARY = "scan.primary-branch"
OTHER_BRANCH = (FALLBACK, PRIMARY)
"""Options that name another branch to read from."""
_OWN_OPTIONS = (*TRAVEL_OPTIONS, "scan.mode", *OTHER_BRANCH)
"""Options that do not apply to the other branch."""


@dataclass(frozen=True, slots=True)
class _Pair:
    """The two branches of a read; `own_first` means that the branch of the statement is preferred."""

    own: Table
    other: Table
    own_first: bool


@translate_io_errors()
def plan_reads(
    table: Table,
    *,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    limit: int | None = None,
    version: str | int | None = None,
    timestamp_millis: int | None = None,
    how: ReadOptions = DEFAULT_READ,
) -> tuple[SelectPlan, ...]:
    """Plan a query: one plan, or two if an option names another branch to read partitions from.

    The arguments are those of `plan_select`. The first plan is that of the table's own branch. Changes are read of that
    branch only.

    Raises:
        OptionError: both options are set, or the branch is the table's own.
        NotFoundError: there is no such branch.
        UsageError: the branches have different columns.
    """
    pair = _pair(table)
    own = plan_select(
        table,
        columns=columns,
        predicate=predicate,
        limit=limit if pair is None or pair.own_first else None,
        version=version,
        timestamp_millis=timestamp_millis,
        how=how,
    )
    if pair is None or own.changes:
        return (own,)
    snapshot, _ = resolve_snapshot(table, version=version, timestamp_millis=timestamp_millis, local_zone=how.local_zone)
    travels = version is not None or timestamp_millis is not None or _travels(table)
    reader, seen = _other_side(pair.other, snapshot if travels else None)
    if seen is None:
        return (own,)
    other = plan_select(reader, columns=own.columns, predicate=predicate, how=how)
    if pair.own_first:
        return own, _without(other, _partitions(pair.own, snapshot))
    return _without(own, _partitions(pair.other, seen)), other


def read_plans(plans: Sequence[SelectPlan], limit: int | None = None) -> Iterator[pa.RecordBatch]:
    """Return the rows of all plans of a query, read in this process, up to a limit."""
    schema = plans[0].schema
    batches = (pa.RecordBatch.from_arrays(b.columns, schema=schema) for plan in plans for b in read_batches(plan))
    return first_rows(batches if len(plans) > 1 else read_batches(plans[0]), limit)


def total_rows(plans: Sequence[SelectPlan]) -> int | None:
    """Return the number of rows of all plans, or None if the rows must be read."""
    counts = [p.row_count for p in plans]
    known = [c for c in counts if c is not None]
    return sum(known) if len(known) == len(counts) else None


def reads_other_branch(table: Table) -> bool:
    """Return whether an option of the table names another branch to read from."""
    return bool(table.options.scan_fallback_branch or table.options.scan_primary_branch)


def _pair(table: Table) -> _Pair | None:
    """Return the branches of a read, or None if it concerns one branch only."""
    fallback, primary = table.options.scan_fallback_branch, table.options.scan_primary_branch
    if not fallback and not primary:
        return None
    if fallback and primary:
        raise OptionError(
            f"The options '{FALLBACK}' and '{PRIMARY}' of table {table.name} exclude each other.",
            hint="Set only one of them.",
        )
    name = fallback or primary
    if name == table.branch:
        return None
    other = on_branch(table, name)
    _check_columns(table.schema, other.schema, table, name)
    given = {k: v for k, v in table.options.values.items() if k not in _OWN_OPTIONS and _is_scan_option(k)}
    return _Pair(table, other.with_options(given) if given else other, bool(fallback))


def _is_scan_option(key: str) -> bool:
    return scope_of(key) is Scope.READ


def _check_columns(one: TableSchema, other: TableSchema, table: Table, name: str) -> None:
    if _shape(one) != _shape(other) or one.partition_keys != other.partition_keys:
        raise UsageError(
            f"The branches '{table.branch}' and '{name}' of table {table.identifier.base.full_name} cannot be read "
            "together: their columns differ.",
            hint="Give both branches the same columns and partition columns with ALTER TABLE.",
        )


def _shape(schema: TableSchema) -> list[tuple[str, DataType]]:
    """Return names and types of the columns, without nullability: keys are NOT NULL in one branch only."""
    return [(f.name, not_null(f.type)) for f in schema.fields]


def _travels(table: Table) -> bool:
    values = table.options.values
    return any((values.get(k) or "").strip() for k in (*TRAVEL_OPTIONS, "scan.mode"))


def _other_side(other: Table, snapshot: Snapshot | None) -> tuple[Table, Snapshot | None]:
    """Return the other branch and the snapshot to read of it: the latest, or that at the time of `snapshot`."""
    if snapshot is None:
        return other, other.snapshots.latest()
    seen = other.snapshots.at_or_before(snapshot.time_millis)
    return (other, None) if seen is None else (other.with_options({"scan.snapshot-id": str(seen.id)}), seen)


def _partitions(table: Table, snapshot: Snapshot | None) -> frozenset[bytes]:
    """Return the partitions with files in a snapshot."""
    if snapshot is None:
        return frozenset()
    store = ManifestStore(table)
    return frozenset(e.partition for e in live_entries(store, store.data_manifests(snapshot)))


def _without(plan: SelectPlan, partitions: frozenset[bytes]) -> SelectPlan:
    """Return a plan without the splits of some partitions."""
    splits = tuple(s for s in plan.splits if s.partition not in partitions)
    if len(splits) == len(plan.splits):
        return plan
    counts = [s.row_count for s in splits]
    known = [c for c in counts if c is not None]
    rows = sum(known) if plan.row_count is not None and len(known) == len(counts) else None
    return replace(plan, splits=splits, row_count=rows)

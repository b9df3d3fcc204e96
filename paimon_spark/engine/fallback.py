"""Reads over several branches: fallback and primary branches, and chain tables (docs/spec/semantics.md, Y8, Y9).

With `scan.fallback-branch` or `scan.primary-branch`, a partition is read from the preferred branch if that has files of
it, otherwise from the other branch. Writes and row-level changes concern only the branch of the statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from paimon_spark.core.metadata.scan_modes import scan_start
from paimon_spark.core.metadata.time_travel import ReadStart, resolve_snapshot, resolve_start
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.read.split_reader import first_rows
from paimon_spark.core.scan.chain_splits import BranchState
from paimon_spark.core.table import Table
from paimon_spark.engine.branch_reads import (
    FALLBACK,
    PRIMARY,
    Query,
    other_branch,
    start_at,
    travels,
    without_partitions,
)
from paimon_spark.engine.chain_read import is_chain_read, open_chain, plan_chain_reads
from paimon_spark.engine.select import DEFAULT_READ, ReadOptions, SelectPlan, known_total, plan_select, read_batches
from paimon_spark.errors import OptionError
from paimon_spark.spec.predicate import Predicate
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.snapshot import Snapshot


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
    begin: ReadStart | None = None,
) -> tuple[SelectPlan, ...]:
    """Plan a query: one plan, or several if options name other branches to read partitions from.

    The arguments are those of `plan_select`. The first plan is that of the table's own branch. Changes are read of that
    branch only, and so are rows from a given `begin`.

    Raises:
        OptionError: both options are set, or the branch is the table's own.
        NotFoundError: there is no such branch.
        UsageError: the branches have different columns.
    """
    query = Query(
        columns=columns,
        predicate=predicate,
        limit=limit,
        version=version,
        timestamp_millis=timestamp_millis,
        how=how,
    )
    if begin is not None:
        return (query.plan(table, limit, begin),)
    if is_chain_read(table):
        return plan_chain_reads(table, query)
    pair = _pair(table)
    return (query.plan(table, limit),) if pair is None else _plan_pair(pair, query)


def _plan_pair(pair: _Pair, query: Query) -> tuple[SelectPlan, ...]:
    if query.reads_changes(pair.own):
        return (query.plan(pair.own, query.limit),)
    start = query.start(pair.own)
    own = query.plan(pair.own, query.limit if pair.own_first else None, start)
    begin = _start_of_other(pair.other, start.snapshot if query.travels(pair.own) else None, query)
    if begin.snapshot is None:
        return (own,)
    other = plan_select(pair.other, columns=own.columns, predicate=query.predicate, how=query.how, begin=begin)
    if pair.own_first:
        return own, without_partitions(other, BranchState(pair.own, start.snapshot).partitions())
    return without_partitions(own, BranchState(pair.other, begin.snapshot).partitions()), other


@translate_io_errors()
def schema_of_read(
    table: Table, *, version: str | int | None = None, timestamp_millis: int | None = None
) -> TableSchema:
    """Return the schema that a query sees: with time travel, that of the snapshot. The arguments are of `plan_reads`.

    Raises:
        NotFoundError: there is no such snapshot or tag.
    """
    if is_chain_read(table) or not travels(table, version, timestamp_millis):
        return table.schema
    if version is None and timestamp_millis is None and scan_start(table.options).reads_changes:
        return table.schema
    return resolve_start(table, version=version, timestamp_millis=timestamp_millis).schema


def read_plans(plans: Sequence[SelectPlan], limit: int | None = None) -> Iterator[pa.RecordBatch]:
    """Return the rows of all plans of a query, read in this process, up to a limit."""
    schema = plans[0].schema
    read = (batch for plan in plans for batch in read_batches(plan))
    if len(plans) > 1 and len(schema):  # without columns, a batch of arrays has no rows
        read = (pa.RecordBatch.from_arrays(b.columns, schema=schema) for b in read)
    return first_rows(read, limit)


def total_rows(plans: Sequence[SelectPlan]) -> int | None:
    """Return the number of rows of all plans, or None if the rows must be read."""
    return known_total(p.row_count for p in plans)


def reads_other_branch(table: Table) -> bool:
    """Return whether options of the table name other branches to read from."""
    return is_chain_read(table) or bool(table.options.scan_fallback_branch or table.options.scan_primary_branch)


def read_branches(table: Table) -> tuple[Table, ...]:
    """Return the table at each branch that a query of its newest rows reads; the errors are those of `plan_reads`."""
    if is_chain_read(table):
        chain = open_chain(table)
        return table, chain.snapshots.table, chain.deltas.table
    pair = _pair(table)
    return (table,) if pair is None else (pair.own, pair.other)


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
    return _Pair(table, other_branch(table, name), bool(fallback))


def _start_of_other(other: Table, snapshot: Snapshot | None, query: Query) -> ReadStart:
    """Return where the read of the other branch starts: by its own options, or at the time of `snapshot`."""
    if snapshot is None:
        return ReadStart(*resolve_snapshot(other, local_zone=query.how.local_zone))
    return start_at(other, snapshot.time_millis)

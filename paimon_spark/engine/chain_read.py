"""Reads of chain tables: partitions of the own branch, whole ones of the snapshot branch, and merged ones.

(docs/spec/semantics.md, Y9)
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import tzinfo

from paimon_spark.core.metadata.scan_modes import scan_start
from paimon_spark.core.metadata.time_travel import ReadStart, millis_of_text
from paimon_spark.core.scan.chain_splits import BranchState, Selection, chain_splits, key_filter
from paimon_spark.core.scan.pruning import matching_partitions
from paimon_spark.core.scan.result import ScanCounts
from paimon_spark.core.table import START_OPTIONS, Table
from paimon_spark.engine.branch_reads import Query, columns_differ, other_branch, start_at, without_partitions
from paimon_spark.engine.select import ReadOptions, SelectPlan, plan_select
from paimon_spark.errors import UnsupportedError, UsageError
from paimon_spark.spec.chain_tables import (
    DELTA_BRANCH,
    ENABLED,
    SNAPSHOT_BRANCH,
    ChainBranches,
    ChainOrder,
    chain_branches,
    is_chain_table,
)
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.predicate import TRUE, Predicate, project
from paimon_spark.spec.privileges import Privilege
from paimon_spark.spec.quoted_text import sql_path
from paimon_spark.spec.types import DataType, not_null

_TIME_TEXT = "scan.timestamp"
_BY_CREATION = ("scan.file-creation-time-millis", "scan.creation-time-millis")


@dataclass(frozen=True, slots=True)
class ChainTable:
    """The branches of a chain table, as a read sees them.

    Attributes:
        reader: the delta branch, by whose rules partitions are merged, at the schema of the state to read.
        snapshots: the snapshot branch.
        deltas: the delta branch.
    """

    reader: Table
    snapshots: BranchState
    deltas: BranchState


def is_chain_read(table: Table) -> bool:
    """Return whether reads of a table are of a chain: not those of its snapshot and delta branch."""
    branches = chain_branches(table.options)
    return branches is not None and table.branch not in branches


def open_chain(table: Table, moment: int | None = None) -> ChainTable:
    """Return the branches of a chain table at their latest snapshots, or at a moment in epoch milliseconds.

    Raises:
        NotFoundError: a branch does not exist.
        UsageError: the branches have different columns, or one is not that of a chain table.
    """
    names = _names(table)
    snapshot, delta = other_branch(table, names.snapshot), other_branch(table, names.delta)
    for branch in (snapshot, delta):
        _check_enabled(table, branch)
    if _identity(snapshot) != _identity(delta):
        raise columns_differ(table, *names)
    deltas = _state(delta, moment)
    return ChainTable(_reader(deltas.table, names), _state(snapshot, moment), deltas)


def chain_deltas(table: Table) -> Table:
    """Return the delta branch of a chain table, for reads of files of both branches.

    Raises:
        NotFoundError: the branch does not exist.
        UsageError: the branch has other columns than the table, or is not that of a chain table.
    """
    names = _names(table)
    delta = other_branch(table, names.delta)
    _check_enabled(table, delta)
    return _reader(delta, names)


def _names(table: Table) -> ChainBranches:
    names = chain_branches(table.options)
    if names is None:
        raise ValueError(table.name)
    return names


def _check_enabled(table: Table, branch: Table) -> None:
    """Reject a branch whose compactions drop deletions, or whose overwrites break chains."""
    if not is_chain_table(branch.options):
        name = sql_path(branch.identifier.database, branch.identifier.object_name)
        raise UsageError(
            f"The chain table {table.name} cannot be read: its branch '{branch.branch}' does not have '{ENABLED}' = "
            "'true'.",
            hint=f"Set it: ALTER TABLE {name} SET TBLPROPERTIES ('{ENABLED}' = 'true').",
        )


def _identity(table: Table) -> list[tuple[int, str, DataType]]:
    """Return the columns with their ids, by which files of both branches are read as one."""
    return [(f.id, f.name, not_null(f.type)) for f in table.schema.fields]


def _reader(delta: Table, names: ChainBranches) -> Table:
    """Return the delta branch for reads of files of both branches: the levels of a file say nothing about its age."""
    own = {SNAPSHOT_BRANCH: names.snapshot, DELTA_BRANCH: names.delta, "force-lookup": "false"}
    return replace(delta, options=CoreOptions({**delta.options.values, **own}))


def _state(branch: Table, moment: int | None) -> BranchState:
    """Return a branch at the schema by which its snapshot is read."""
    begin = start_at(branch, moment)
    return BranchState(branch.as_of(begin.schema), begin.snapshot)


def plan_chain_reads(table: Table, query: Query) -> tuple[SelectPlan, ...]:
    """Plan a query of a chain table.

    The plans are those of the own branch, of whole partitions of the snapshot branch, and of merged partitions. At a
    time before its first snapshot, the own branch has no rows.

    Raises:
        NotFoundError: a branch, or the state to travel to, does not exist.
        UsageError: the branches cannot be read together.
        UnsupportedError: an option chooses files by their age.
        AccessDeniedError: the user does not have the privilege SELECT on one of the branches.
    """
    _check_options(table)
    time = asked_time(table, query.version, query.timestamp_millis, query.how.local_zone)
    moment: int | None = time
    if time is not None and table.snapshots.at_or_before(time) is None:
        own, before = _no_rows(table, query), BranchState(table, None)
    elif query.reads_changes(table):
        return (query.plan(table, query.limit),)
    else:
        start = query.start(table)
        own, before = query.plan(table, query.limit, start), BranchState(table, start.snapshot)
        if time is None and query.travels(table) and before.snapshot is not None:
            moment = before.snapshot.time_millis
    chain = open_chain(table, moment)
    chain.reader.require(Privilege.SELECT)
    kept, full = before.partitions(), chain.snapshots.partitions()
    whole = _whole_partitions(chain.snapshots, own.columns, query)
    merged = plan_merged(chain, full, own.columns, query.predicate or TRUE, query.how, kept | full)
    others = (*(without_partitions(p, kept) for p in whole), merged)
    return (own, *(p for p in others if p.splits))


def _whole_partitions(branch: BranchState, columns: tuple[str, ...], query: Query) -> tuple[SelectPlan, ...]:
    """Return the plan of the partitions of the snapshot branch; none without a snapshot."""
    if branch.snapshot is None:
        return ()
    begin = ReadStart(branch.snapshot, branch.table.schema)
    return (plan_select(branch.table, columns=columns, predicate=query.predicate, how=query.how, begin=begin),)


def plan_merged(
    chain: ChainTable,
    snapshots: Collection[bytes],
    columns: tuple[str, ...],
    condition: Predicate,
    how: ReadOptions,
    left_out: Collection[bytes] = (),
) -> SelectPlan:
    """Plan the read of the partitions of the delta branch, each merged with what it builds upon.

    Args:
        chain: the branches.
        snapshots: the partitions of the snapshot branch.
        columns: the columns to read.
        condition: filter over any columns.
        how: the mode of the read.
        left_out: partitions that are not read.
    """
    reader, deltas = chain.reader, chain.deltas.partitions()
    on_partitions = project(condition, reader.schema.partition_keys)
    wanted = matching_partitions(reader, deltas.difference(left_out), on_partitions)
    order = ChainOrder.of(chain.snapshots.table.schema, chain.snapshots.table.options)
    chains = list(order.chains(wanted, snapshots, deltas))
    bucket = reader.options.scan_bucket
    selection = Selection(
        key_filter(reader, condition),
        None if bucket is None else (bucket,),
        (reader.stored_options.num_levels - 1,) if how.top_level_only else None,
    )
    splits, counts = chain_splits(reader, chain.snapshots, chain.deltas, chains, selection, always_merge=how.keep_kinds)
    known = [s.row_count for s in splits if s.row_count is not None]
    plan = SelectPlan(
        table=reader,
        snapshot_id=chain.deltas.snapshot.id if chain.deltas.snapshot else None,
        splits=tuple(splits),
        counts=counts,
        columns=columns,
        predicate=condition,
        keep_kinds=how.keep_kinds,
        pinned=False,
    )
    exact = plan.whole_partitions and len(known) == len(splits)
    return replace(plan, row_count=sum(known)) if exact else plan


def _check_options(table: Table) -> None:
    for key in _BY_CREATION:
        if (table.options.get(key) or "").strip():
            raise UnsupportedError(
                f"The option '{key}' does not apply to the chain table {table.name}: its rows are merged from files of "
                "several branches.",
                hint="Read one branch: `t$branch_<name>`.",
            )


def asked_time(
    table: Table, version: str | int | None, timestamp_millis: int | None, local_zone: tzinfo | None
) -> int | None:
    """Return the time that a query travels to, in epoch milliseconds; None if it names a snapshot, or none."""
    if version is not None or timestamp_millis is not None:
        return timestamp_millis if version is None else None
    start = scan_start(table.options)
    if start.option == _TIME_TEXT:
        return millis_of_text(_TIME_TEXT, start.value, local_zone)
    return start.number() if start.option == "scan.timestamp-millis" else None


def _no_rows(table: Table, query: Query) -> SelectPlan:
    """Return the plan of a branch without rows at the time of a query."""
    values = {k: v for k, v in table.options.values.items() if k not in (*START_OPTIONS, "scan.mode")}
    latest = replace(query, timestamp_millis=None)
    plan = latest.plan(replace(table, options=CoreOptions(values)), None)
    return replace(plan, splits=(), counts=ScanCounts(), snapshot_id=None, row_count=0)

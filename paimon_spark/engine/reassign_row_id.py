"""New row ids for partitions of tables with data evolution whose ids have gaps: those of a partition become one run.

Only manifests are written again. Rows get the ids after the last one in use, in the order of their partitions and of
the ids that they had. Earlier snapshots keep the old ids. (docs/spec/semantics.md, A12)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from paimon_spark.core.commit.manifest_rewrite import Manifests, publish_rewritten
from paimon_spark.core.maintenance.deletion import WRITE, Action
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.row_ranges import RowRange, evolves, row_ranges
from paimon_spark.core.metadata.row_tracking import stored_tracking
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.scan.pruning import matching_partitions
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.core.table import Table
from paimon_spark.errors import UnsupportedError, UsageError
from paimon_spark.spec.features import check_writable
from paimon_spark.spec.kinds import CommitKind
from paimon_spark.spec.manifest import DataFileMeta, ManifestEntry
from paimon_spark.spec.predicate import Predicate
from paimon_spark.spec.snapshot import Snapshot

_PURPOSE = "reassign-row-id"
_NOTHING = "no partition requires row-id reassignment"


@dataclass(frozen=True, slots=True)
class _Moves:
    """The new ids of the rows of one partition: the first ids of its ranges, in order, before and after."""

    ranges: tuple[RowRange, ...]
    firsts: tuple[int, ...]

    @property
    def rows(self) -> int:
        """Return the number of rows, deleted ones included."""
        return sum(r.rows for r in self.ranges)

    def first_of(self, file: DataFileMeta) -> int | None:
        """Return the id of the first row of a file; None if its rows keep their ids."""
        own = file.first_row_id or 0
        at = bisect_right(self.ranges, own, key=lambda r: r.first) - 1
        if at < 0 or own >= self.ranges[at].first + self.ranges[at].rows:
            return None
        return self.firsts[at] + own - self.ranges[at].first


@dataclass(frozen=True, slots=True)
class ReassignPlan:
    """The partitions that get new row ids; none, and the reason, if there is nothing to do."""

    table: Table
    partitions: Predicate | None
    snapshot_id: int
    next_row_id: int
    actions: tuple[Action, ...] = ()
    reason: str = _NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignResult:
    """A new snapshot with other row ids."""

    snapshot_before: int
    snapshot_after: int
    next_before: int
    next_after: int
    files: int
    rows: int


@translate_io_errors()
def plan_reassign(table: Table, partitions: Predicate | None = None) -> ReassignPlan:
    """Plan new row ids for partitions whose ids have gaps; nothing is changed.

    Args:
        table: the table.
        partitions: filter over the partition columns; None means all partitions.

    Raises:
        UnsupportedError: it is not a table with data evolution, cannot be written, or its row ids cannot change.
        UsageError: the table has no snapshot.
    """
    if not evolves(table):
        raise UnsupportedError(
            f"Table {table.name} has no 'data-evolution.enabled' = 'true', so its row ids are not reassigned.",
            hint="Only tables with data evolution read rows by ranges of their ids.",
        )
    check_writable(table.effective_schema)
    latest = table.snapshots.latest()
    if latest is None:
        raise UsageError(f"Table {table.name} is empty, so it has no row ids.", hint="Write to it first.")
    following = latest.next_row_id or 0
    if not table.schema.partition_keys:
        return ReassignPlan(table, partitions, latest.id, following, reason="table is not partitioned")
    moves = _moves(ManifestStore(table), latest, partitions)
    actions = tuple(_action(table, partition, found) for partition, found in moves.items())
    return ReassignPlan(table, partitions, latest.id, following, actions)


@translate_io_errors()
def execute_reassign(plan: ReassignPlan) -> ReassignResult | None:
    """Commit the new ids on top of the latest snapshot, in its state; None if there is nothing to do.

    Raises:
        ConflictError: every attempt conflicted with another commit.
        UnsupportedError: the row ids cannot change.
    """
    if not plan.actions:
        return None
    done: list[ReassignResult] = []

    def rewrite(store: ManifestStore, base: Snapshot) -> Manifests:
        moves = _moves(store, base, plan.partitions)
        entries = [_moved(e, moves) for e in live_in_partitions(store, base, None)]
        before, rows = base.next_row_id or 0, sum(m.rows for m in moves.values())
        done[:] = [
            ReassignResult(
                snapshot_before=base.id,
                snapshot_after=base.id + 1,
                next_before=before,
                next_after=before + rows,
                files=sum(e.file.first_row_id is not None and e.file.first_row_id >= before for e in entries),
                rows=rows,
            )
        ]
        return Manifests(store.write(entries), base.total_record_count, before + rows)

    number = publish_rewritten(plan.table, rewrite, CommitKind.OVERWRITE, purpose=_PURPOSE)
    return replace(done[0], snapshot_after=number)


def _moves(store: ManifestStore, base: Snapshot, partitions: Predicate | None) -> dict[bytes, _Moves]:
    """Return the new ids of the partitions whose ids have gaps, in the order of the partitions' values."""
    table = store.table
    files: dict[bytes, list[DataFileMeta]] = {}
    for entry in live_in_partitions(store, base, None):
        files.setdefault(entry.partition, []).append(entry.file)
    chosen = files.keys() if partitions is None else matching_partitions(table, set(files), partitions)
    longest = table.options.number("data-evolution.reassign.skip-contiguous-row-count")
    found: dict[bytes, _Moves] = {}
    following = base.next_row_id or 0
    for partition in sorted(chosen, key=lambda p: _order(table, p)):
        runs = _runs(row_ranges(files[partition]))
        moved = [run for run in runs if longest <= 0 or sum(r.rows for r in run) <= longest]
        if len(runs) < 2 or len(moved) < 2:
            continue
        _check_movable(table, files[partition])
        ranges = tuple(r for run in moved for r in run)
        firsts = []
        for r in ranges:
            firsts.append(following)
            following += r.rows
        found[partition] = _Moves(ranges, tuple(firsts))
    _check_no_global_index(store, base, found)
    return found


def _order(table: Table, partition: bytes) -> tuple[tuple[bool, object], ...]:
    return tuple((value is not None, value) for value in table.partition_values(partition))


def _runs(ranges: Sequence[RowRange]) -> list[list[RowRange]]:
    """Return the row ranges, those that follow each other together."""
    runs: list[list[RowRange]] = []
    for found in ranges:
        if not runs or found.first != runs[-1][-1].first + runs[-1][-1].rows:
            runs.append([])
        runs[-1].append(found)
    return runs


def _check_movable(table: Table, files: Iterable[DataFileMeta]) -> None:
    for file in files:
        if file.first_row_id is None or stored_tracking(file):
            raise UnsupportedError(
                f"The rows of the file '{file.file_name}' of table {table.name} have ids of their own, which are not "
                "reassigned.",
                hint="Leave its partition out by the argument 'partitions'.",
            )


def _check_no_global_index(store: ManifestStore, base: Snapshot, moves: Mapping[bytes, _Moves]) -> None:
    for e in store.index_entries(base) if moves else ():
        if e.file.global_index is not None and e.partition in moves:
            table = store.table
            raise UnsupportedError(
                f"The partition '{table.partition_text(e.partition)}' of table {table.name} has the global index "
                f"'{e.file.file_name}' of type {e.file.index_type}, which names rows by their ids.",
                hint="Drop the index, reassign the ids, and create the index again.",
            )


def _moved(entry: ManifestEntry, moves: Mapping[bytes, _Moves]) -> ManifestEntry:
    found = moves.get(entry.partition)
    first = None if found is None else found.first_of(entry.file)
    return entry if first is None else replace(entry, file=replace(entry.file, first_row_id=first))


def _action(table: Table, partition: bytes, moves: _Moves) -> Action:
    last = moves.firsts[-1] + moves.ranges[-1].rows - 1
    what = f"{moves.rows} rows in {len(moves.ranges)} row ranges get the ids {moves.firsts[0]} to {last}"
    return Action(WRITE, table.path, 0, f"{table.partition_text(partition)}: {what}")

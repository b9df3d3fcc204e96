"""Repair of the hint of the earliest snapshot, for tables with a gap in their snapshots."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.core.maintenance.deletion import WRITE, Action
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.errors import ArgumentError, ErrorKind, NotFoundError


@dataclass(frozen=True, slots=True)
class EarliestPlan:
    """The hint to write; there is no action if it has that value already."""

    previous_id: int
    earliest_id: int
    actions: tuple[Action, ...] = ()


@translate_io_errors()
def plan_earliest(table: Table, snapshot_id: int) -> EarliestPlan:
    """Plan that a snapshot becomes the earliest; nothing is changed.

    Raises:
        NotFoundError: the table has no snapshot, or there is no such snapshot.
        ArgumentError: the snapshot is not the first after a gap, or snapshots after it are missing.
    """
    store = table.snapshots
    previous, latest, ids = store.earliest_id(), store.latest_id(), set(store.ids())
    if previous is None or latest is None:
        raise NotFoundError(
            f"Table {table.name} has no snapshot.", hint="Write to it first.", kind=ErrorKind.SNAPSHOT_NOT_FOUND
        )
    if snapshot_id not in ids:
        raise _no_snapshot(table, snapshot_id, previous, latest)
    gap = next((i for i in range(snapshot_id, latest + 1) if i not in ids), None)
    if gap is not None:
        raise ArgumentError(
            f"Snapshot {gap} of table {table.name} does not exist, which is after snapshot {snapshot_id}.",
            hint=f"Give the first snapshot after the last gap: {max(i for i in ids if i - 1 not in ids)}.",
        )
    if snapshot_id < previous or (snapshot_id != previous and snapshot_id - 1 in ids):
        raise ArgumentError(
            f"Snapshot {snapshot_id} of table {table.name} does not follow a gap: the earliest is {previous}.",
            hint="To remove older snapshots, call sys.expire_snapshots.",
        )
    path = table.paths.earliest_hint
    text = str(snapshot_id)
    if table.file_io.exists(path) and table.file_io.read(path).decode("ascii", "replace").strip() == text:
        return EarliestPlan(previous, snapshot_id)
    return EarliestPlan(
        previous, snapshot_id, (Action(WRITE, path, len(text), f"snapshot {snapshot_id} is the earliest"),)
    )


def _no_snapshot(table: Table, snapshot_id: int, earliest: int, latest: int) -> NotFoundError:
    """Return the error for a missing snapshot."""
    return NotFoundError(
        f"Table {table.name} has no snapshot {snapshot_id}; it has snapshots between {earliest} and {latest}.",
        hint="See its $snapshots table.",
        kind=ErrorKind.SNAPSHOT_NOT_FOUND,
    )


@translate_io_errors()
def execute_earliest(table: Table, plan: EarliestPlan) -> None:
    """Write the hint.

    Raises:
        NotFoundError: the snapshot has expired since planning.
    """
    if not plan.actions:
        return
    if not table.snapshots.exists(plan.earliest_id):
        raise _no_snapshot(table, plan.earliest_id, plan.previous_id, table.snapshots.latest_id() or plan.previous_id)
    table.file_io.write(table.paths.earliest_hint, str(plan.earliest_id).encode("ascii"))

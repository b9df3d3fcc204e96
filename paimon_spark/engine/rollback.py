"""Rollback of a table to a snapshot or tag.

Data files of removed snapshots stay on disk; the schema does not change.
"""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.core.cancellation import uninterrupted
from paimon_spark.core.maintenance.deletion import WRITE, Action
from paimon_spark.core.maintenance.rollback import Target, deletions, find_target, remove_newer
from paimon_spark.core.maintenance.trash import TrashRun
from paimon_spark.core.metadata_io import create_once, translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.errors import ArgumentError, CorruptTableError, ErrorKind, NotFoundError, UsageError


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """`previous_id` is the latest snapshot now, `target` the latest after the rollback."""

    previous_id: int
    target: Target
    writes: tuple[Action, ...] = ()
    deletions: tuple[Action, ...] = ()

    @property
    def current_id(self) -> int:
        """Return the id of the latest snapshot after the rollback."""
        return self.target.snapshot.id

    @property
    def actions(self) -> list[Action]:
        """Return all actions in execution order; empty if the target is the latest snapshot already."""
        return [*self.writes, *self.deletions]


@dataclass(frozen=True, slots=True)
class RollbackResult:
    """The latest snapshot before and after, and what was deleted."""

    previous_snapshot_id: int
    current_snapshot_id: int
    files: int = 0
    bytes: int = 0


@translate_io_errors()
def plan_rollback(table: Table, *, snapshot_id: int | None = None, tag: str | None = None) -> RollbackPlan:
    """Plan a rollback; nothing is changed. If both are given, the tag takes precedence.

    Raises:
        ArgumentError: neither is given, or tags hold different snapshots of the id, which has expired.
        NotFoundError: the target does not exist, or the table has no snapshot.
        UsageError: the table has another snapshot with the id of the tag's.
        CorruptTableError: the target cannot be read.
    """
    if snapshot_id is None and tag is None:
        raise ArgumentError("A rollback needs a target.", hint="Give a snapshot id or the name of a tag.")
    previous = table.snapshots.latest_id()
    if previous is None:
        raise NotFoundError(
            f"Table {table.name} has no snapshot to roll back from.",
            hint="Write to it first.",
            kind=ErrorKind.SNAPSHOT_NOT_FOUND,
        )
    target = find_target(table, snapshot_id=snapshot_id, tag=tag)
    _check_id(table, target)
    actions = deletions(table, target.snapshot)
    ended = table.snapshots.rollback_target() is None and table.snapshots.latest_hint() in (None, target.snapshot.id)
    if not actions and not target.expired and ended:
        return RollbackPlan(previous, target)
    return RollbackPlan(previous, target, _writes(table, target), tuple(actions))


def _check_id(table: Table, target: Target) -> None:
    """Raise if the table has another snapshot with the id of the target, which then cannot get its place."""
    if not target.expired and table.snapshots.has_other(target.snapshot):
        name, snapshot_id = table.identifier.full_name, target.snapshot.id
        raise UsageError(
            f"Table {table.name} cannot be rolled back to the tag '{target.tag}': snapshot {snapshot_id} of the table "
            "is another one than that of the tag, as after a fast-forward.",
            hint=f"Restore its rows in a new snapshot: CALL sys.rollback_to_as_latest(table => '{name}', tag => "
            f"'{target.tag}').",
        )


@uninterrupted()
@translate_io_errors()
def execute_rollback(table: Table, plan: RollbackPlan, trash: TrashRun | None = None) -> RollbackResult:
    """Execute the plan; snapshots and tags above the target that are created before it ends are removed too.

    The target becomes the latest snapshot in a single step: when the hint records the rollback or, if the target is
    restored from a tag, when its file is created. All later steps only remove files. If they are interrupted, the next
    rollback or commit completes them.

    Args:
        table: the table.
        plan: the plan.
        trash: receives the removed files.

    Raises:
        CorruptTableError: the target has expired since the rollback was planned.
    """
    current = plan.current_id
    if not plan.actions:
        return RollbackResult(plan.previous_id, current)
    _check(table, plan.target)
    if trash is not None:
        trash.begin(target=current, created=[f"snapshot-{current}"] if plan.target.expired else ())
    table.snapshots.begin_rollback(current, None if trash is None else trash.record.run)
    _restore(table, plan.target)
    deleted = remove_newer(table, current, trash=trash)
    return RollbackResult(plan.previous_id, current, deleted.files, deleted.bytes)


def _writes(table: Table, target: Target) -> tuple[Action, ...]:
    snapshot, paths = target.snapshot, table.paths
    hint = Action(WRITE, paths.latest_hint, len(str(snapshot.id)), f"snapshot {snapshot.id} is the newest then")
    if not target.expired:
        return (hint,)
    reason = f"snapshot {snapshot.id} has expired and comes back from tag '{target.tag}'"
    return (
        Action(WRITE, paths.snapshot(snapshot.id), len(snapshot.to_json().encode()), reason),
        Action(WRITE, paths.earliest_hint, len(str(snapshot.id)), f"snapshot {snapshot.id} is the oldest then"),
        hint,
    )


def _check(table: Table, target: Target) -> None:
    if not target.expired and not table.snapshots.exists(target.snapshot.id):
        raise CorruptTableError(
            f"Snapshot {target.snapshot.id} of table {table.name} has expired since the rollback was planned.",
            hint="Pick a newer snapshot, or a tag.",
            kind=ErrorKind.FILE_MISSING,
        )


def _restore(table: Table, target: Target) -> None:
    snapshot, store = target.snapshot, table.snapshots
    if target.expired and not store.exists(snapshot.id):
        create_once(table.file_io, table.paths.snapshot(snapshot.id), snapshot.to_json().encode())
        store.write_earliest_hint(snapshot.id)

"""Roll a table back to a snapshot or tag.

Data files of what is removed stay on disk; the schema stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.core.cancellation import uninterrupted
from paimon_spark.core.deletion import DELETE, WRITE, Action, Deleted, SafeDeleter
from paimon_spark.core.refs import RefStore
from paimon_spark.core.rollback import Target, above, find_target
from paimon_spark.core.stored import create_once, store_errors
from paimon_spark.core.table import Table
from paimon_spark.errors import ArgumentError, CorruptTableError, ErrorKind, NotFoundError

_ROUNDS = 5
"""How often is looked for snapshots that were committed meanwhile."""


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """`previous_id` is the newest snapshot now, `target` what it becomes."""

    previous_id: int
    target: Target
    writes: tuple[Action, ...] = ()
    deletions: tuple[Action, ...] = ()

    @property
    def current_id(self) -> int:
        """Return the id of the newest snapshot after the rollback."""
        return self.target.snapshot.id

    @property
    def actions(self) -> list[Action]:
        """Return everything in the order of execution; empty if the table is there already."""
        return [*self.writes, *self.deletions]


@dataclass(frozen=True, slots=True)
class RollbackResult:
    """Newest snapshot before and after, and what was deleted."""

    previous_snapshot_id: int
    current_snapshot_id: int
    files: int = 0
    bytes: int = 0


@store_errors()
def plan_rollback(table: Table, *, snapshot_id: int | None = None, tag: str | None = None) -> RollbackPlan:
    """Plan a rollback; nothing is changed. If both are given, the tag wins.

    Raises:
        ArgumentError: neither is given.
        NotFoundError: the target, or any snapshot, does not exist.
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
    deletions = SafeDeleter(table).measure(_deletions(table, target.snapshot.id))
    if not deletions and not target.expired and table.snapshots.latest_hint() in (None, target.snapshot.id):
        return RollbackPlan(previous, target)
    return RollbackPlan(previous, target, _writes(table, target), tuple(deletions))


@uninterrupted()
@store_errors()
def execute_rollback(table: Table, plan: RollbackPlan) -> RollbackResult:
    """Do what the plan says; what is committed or tagged above the target until this ends goes too.

    Snapshots go from the newest down, so at every step readers see one whole snapshot, and a rollback that dies leaves
    the table at one of them. Readers trust the hint of the newest snapshot only while the next one does not exist. So
    the hint goes first, unless the target has to come back from a tag: the snapshot after it is missing then.
    """
    current = plan.current_id
    if not plan.actions:
        return RollbackResult(plan.previous_id, current)
    _restore(table, plan.target)
    if not plan.target.expired:
        table.snapshots.write_latest_hint(current)
    deleted = Deleted()
    deleter = SafeDeleter(table)
    for _ in range(_ROUNDS):
        doomed = _deletions(table, current)
        if not doomed:
            break
        for action in doomed:
            deleted += deleter.delete(deleter.measure([action]))
    table.snapshots.write_latest_hint(current)
    _note_changelogs(table, plan.deletions)
    return RollbackResult(plan.previous_id, current, deleted.files, deleted.bytes)


def _deletions(table: Table, target_id: int) -> list[Action]:
    refs, paths = above(table, target_id), table.paths
    reason = f"newer than snapshot {target_id}"
    return [
        *(Action(DELETE, paths.snapshot(i), 0, f"snapshot {i} is {reason}") for i in refs.snapshots),
        *(Action(DELETE, paths.changelog(i), 0, f"changelog {i} is {reason}") for i in refs.changelogs),
        *(Action(DELETE, paths.tag(name), 0, f"tag '{name}' is {reason}") for name in refs.tags),
    ]


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


def _restore(table: Table, target: Target) -> None:
    snapshot, store = target.snapshot, table.snapshots
    if store.exists(snapshot.id):
        return
    if not target.expired:
        raise CorruptTableError(
            f"Snapshot {snapshot.id} of table {table.name} has expired since the rollback was planned.",
            hint="Pick a newer snapshot, or a tag.",
            kind=ErrorKind.FILE_MISSING,
        )
    create_once(table.file_io, table.paths.snapshot(snapshot.id), snapshot.to_json().encode())
    store.write_earliest_hint(snapshot.id)


def _note_changelogs(table: Table, deletions: tuple[Action, ...]) -> None:
    """Correct the hint of the newest long-lived changelog if any of them went; -1 stands for none."""
    directory = table.paths.changelog_dir
    if any(a.path.startswith(directory + "/") for a in deletions):
        newest = max(RefStore.of(table).changelog_ids(), default=-1)
        table.file_io.write(f"{directory}/LATEST", str(newest).encode("ascii"))

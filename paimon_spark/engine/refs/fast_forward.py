"""Fast-forward: the main branch gets the state and history of another branch.

With E the earliest snapshot of the branch, the main branch loses its own snapshots, changelogs and tags from E on, and
gets all snapshots, schemas and tags of the branch. Snapshots are replaced in place, the latest of both branches last,
so every reader sees the main branch before the statement or a snapshot of the branch.

The main branch keeps the records of loads that are part of the branch too: up to the newest snapshot that both branches
have, as a snapshot or a tag. E is not that one if snapshots of the branch have expired. The others go first: a record
without its rows would keep a file from ever being loaded.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from paimon_spark.core.cancellation import uninterrupted
from paimon_spark.core.maintenance.deletion import DELETE, WRITE, Action, SafeDeleter
from paimon_spark.core.maintenance.rollback import complete_rollback, remove_newer
from paimon_spark.core.metadata.branches import branch_exists, no_such_branch, on_branch, require_branches
from paimon_spark.core.metadata.load_records import LoadRecords
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.metadata_io import in_parallel, read_if_there, read_needed, translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.errors import ArgumentError, ErrorKind, NotFoundError, PaimonError, UsageError
from paimon_spark.fs.base import FileIO
from paimon_spark.spec.paths import MAIN_BRANCH
from paimon_spark.spec.schema import parse_schema
from paimon_spark.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Change:
    """A file of the main branch and its content after the fast-forward; None deletes it."""

    path: str
    data: bytes | None
    reason: str

    @property
    def action(self) -> Action:
        """Return the action on the file."""
        size = 0 if self.data is None else len(self.data)
        return Action(DELETE if self.data is None else WRITE, self.path, size, self.reason)


@dataclass(frozen=True, slots=True)
class FastForwardPlan:
    """Changes of the main branch in the order of execution, and the latest snapshot before and after."""

    latest_id: int
    previous_id: int | None
    loads: tuple[Change, ...] = ()
    schemas: tuple[Change, ...] = ()
    snapshots: tuple[Change, ...] = ()
    newer: tuple[Change, ...] = ()
    refs: tuple[Change, ...] = ()

    @property
    def actions(self) -> tuple[Action, ...]:
        """Return all actions."""
        return tuple(c.action for c in (*self.loads, *self.schemas, *self.snapshots, *self.newer, *self.refs))


@dataclass(slots=True)
class _Journal:
    """Applies changes, and undoes them if a later step fails."""

    file_io: FileIO
    _before: list[tuple[str, bytes | None]] = field(default_factory=list)

    def apply(self, change: Change) -> None:
        self._before.append((change.path, read_if_there(self.file_io, change.path)))
        self._set(change.path, change.data)

    def undo(self) -> None:
        while self._before:
            self._set(*self._before.pop())

    def _set(self, path: str, data: bytes | None) -> None:
        if data is None:
            self.file_io.delete(path)
        else:
            self.file_io.write(path, data)


@translate_io_errors()
def plan_fast_forward(table: Table, name: str) -> FastForwardPlan:
    """Plan fast-forwarding the main branch to another branch; nothing is changed.

    Args:
        table: the table on its main branch.
        name: the branch.

    Raises:
        ArgumentError: the branch is the main branch.
        NotFoundError: there is no such branch, or it has no snapshot.
        CorruptTableError: the manifests of the branch's latest snapshot cannot be read.
        UsageError: earlier snapshots of the main branch have schemas that the branch has with other contents.
        AccessDeniedError: the user may not change both branches.
    """
    require_branches(table, MAIN_BRANCH, name.strip())
    main, name = on_branch(table, MAIN_BRANCH), name.strip()
    if name == MAIN_BRANCH:
        raise ArgumentError("The main branch cannot be fast-forwarded to itself.", hint="Name another branch.")
    if not branch_exists(table, name):
        raise no_such_branch(table, name)
    branch = on_branch(table, name)
    first, latest = branch.snapshots.earliest(), branch.snapshots.latest()
    if first is None or latest is None:
        raise NotFoundError(
            f"The branch '{name}' of table {main.name} has no snapshot.",
            hint="Write to the branch first, or delete it.",
            kind=ErrorKind.SNAPSHOT_NOT_FOUND,
        )
    ManifestStore(branch).data_manifests(latest)
    schemas = _schema_changes(main, branch, first.id, first.schema_id)
    return FastForwardPlan(
        latest.id,
        main.snapshots.latest_id(),
        loads=_load_changes(main, branch),
        schemas=schemas,
        snapshots=_snapshot_changes(main, branch, first.id, latest.id),
        newer=tuple(_own_snapshot(main, i) for i in reversed(main.snapshots.listed_ids()) if i > latest.id),
        refs=_ref_changes(main, branch, first.id),
    )


def _schema_changes(main: Table, branch: Table, first_id: int, first_schema: int) -> tuple[Change, ...]:
    own = {i: _content(main, main.paths.schema(i)) for i in main.schema_store.ids()}
    new = {i: _content(branch, branch.paths.schema(i)) for i in branch.schema_store.ids()}
    changed = [i for i in sorted(new) if own.get(i) != new[i]]
    _check_schemas(main, branch, first_id, [i for i in changed if i in own and _differ(own[i], new[i])])
    written = [Change(main.paths.schema(i), new[i], f"schema {i} of branch '{branch.branch}'") for i in changed]
    gone = [i for i in sorted(own, reverse=True) if i >= first_schema and i not in new]
    reason = f"branch '{branch.branch}' has no schema"
    return (*written, *(Change(main.paths.schema(i), None, f"{reason} {i}") for i in gone))


def _differ(one: bytes, other: bytes) -> bool:
    """Return whether rows written with one of two schemas of the same id are read differently with the other."""
    a, b = parse_schema(one, "schema"), parse_schema(other, "schema")
    return (a.fields, a.partition_keys, a.primary_keys) != (b.fields, b.partition_keys, b.primary_keys)


def _check_schemas(main: Table, branch: Table, first_id: int, replaced: list[int]) -> None:
    """Raise if a snapshot or tag that stays on the main branch needs a schema that is replaced."""
    if not replaced:
        return
    store = main.snapshots
    found = [store.find(i) for i in store.ids() if i < first_id]
    found += [t.snapshot for t in RefStore.of(main).tags().values() if t.snapshot.id < first_id]
    needing = max((s for s in found if s is not None), key=lambda s: s.schema_id, default=None)
    if needing is not None and needing.schema_id >= min(replaced):
        raise UsageError(
            f"The main branch of table {main.name} cannot be fast-forwarded to branch '{branch.branch}': snapshot "
            f"{needing.id} stays, and its schema {min(replaced)} differs from that of the branch.",
            hint=f"Expire the snapshots below {first_id} and delete their tags first.",
        )


def _snapshot_changes(main: Table, branch: Table, first_id: int, latest_id: int) -> tuple[Change, ...]:
    ids = [i for i in branch.snapshots.ids() if first_id <= i <= latest_id]
    found = [
        Change(
            main.paths.snapshot(i),
            _content(branch, branch.paths.snapshot(i)),
            f"snapshot {i} of branch '{branch.branch}'",
        )
        for i in ids
    ]
    between = [i for i in main.snapshots.listed_ids() if first_id <= i <= latest_id and i not in ids]
    return (
        *(c for c in found if read_if_there(main.file_io, c.path) != c.data),
        *(_own_snapshot(main, i) for i in between),
    )


def _own_snapshot(main: Table, snapshot_id: int) -> Change:
    return Change(main.paths.snapshot(snapshot_id), None, f"the main branch's own snapshot {snapshot_id}")


def _ref_changes(main: Table, branch: Table, first_id: int) -> tuple[Change, ...]:
    own, new = RefStore.of(main), RefStore.of(branch)
    names = new.tag_names()
    written = [
        Change(main.paths.tag(n), _content(branch, branch.paths.tag(n)), f"tag '{n}' of branch '{branch.branch}'")
        for n in names
    ]
    gone = [
        Change(main.paths.tag(n), None, f"tag '{n}' points to snapshot {t.snapshot.id}")
        for n, t in own.tags().items()
        if t.snapshot.id >= first_id and n not in names
    ]
    stale = [
        Change(main.paths.changelog(i), None, f"the main branch's own changelog {i}")
        for i in reversed(own.changelog_ids())
        if i >= first_id
    ]
    return (*(c for c in written if read_if_there(main.file_io, c.path) != c.data), *gone, *stale)


def _load_changes(main: Table, branch: Table) -> tuple[Change, ...]:
    """Return the deletion of the records of loads that the branch is not known to have."""
    records = LoadRecords.of(main)
    files = records.files()
    if not files:
        return ()
    shared = _newest_shared(main, branch)
    reason = "no snapshot of both branches is known" if shared is None else f"newer than snapshot {shared.id} of both"
    going = files if shared is None else records.above(shared.id, shared.time_millis, files)
    return tuple(Change(s.path, None, f"the main branch's own load: {reason}") for s in going)


def _newest_shared(main: Table, branch: Table) -> Snapshot | None:
    """Return the newest snapshot that is equal in both branches, as a snapshot or a tag."""
    own, new = ({t.snapshot.id: t.snapshot for t in RefStore.of(b).tags().values()} for b in (main, branch))
    ids = (own.keys() | set(main.snapshots.listed_ids())) & (new.keys() | set(branch.snapshots.listed_ids()))
    for i in sorted(ids, reverse=True):
        one, other = main.snapshots.find(i) or own.get(i), branch.snapshots.find(i) or new.get(i)
        if one is not None and one == other:
            return one
    return None


def _content(table: Table, path: str) -> bytes:
    return read_needed(table.file_io, path, "metadata file")


@uninterrupted()
@translate_io_errors()
def execute_fast_forward(table: Table, plan: FastForwardPlan) -> None:
    """Execute the plan. Snapshots that other jobs commit to the main branch meanwhile are removed.

    If a step fails before the branch's latest snapshot is that of the main branch, all steps are undone.
    """
    if not plan.actions:
        return
    main = on_branch(table, MAIN_BRANCH)
    complete_rollback(main)
    journal = _Journal(main.file_io)
    try:
        in_parallel(journal.apply, plan.loads)
        for change in (*_written(plan.schemas), *plan.snapshots, *_written(plan.refs)):
            journal.apply(change)
        main.snapshots.begin_rollback(plan.latest_id)
    except (PaimonError, OSError):
        journal.undo()
        raise
    remove_newer(main, plan.latest_id)
    SafeDeleter(main).delete([c.action for c in (*plan.schemas, *plan.refs) if c.data is None])
    _note_hints(main, plan)


def _written(changes: tuple[Change, ...]) -> list[Change]:
    return [c for c in changes if c.data is not None]


def _note_hints(main: Table, plan: FastForwardPlan) -> None:
    """Update the hints of the earliest snapshot and of the newest long-lived changelog."""
    first = min(main.snapshots.listed_ids(), default=None)
    if first is not None:
        main.snapshots.write_earliest_hint(first)
    directory = main.paths.changelog_dir
    if any(c.path.startswith(directory + "/") for c in plan.refs):
        newest = max(RefStore.of(main).changelog_ids(), default=-1)
        main.file_io.write(f"{directory}/LATEST", str(newest).encode("ascii"))

"""Fast-forward: the main branch gets the state and history of another branch.

With E the earliest snapshot of the branch, the main branch loses its own snapshots, changelogs and tags from E on, and
gets all snapshots, schemas and tags of the branch. Snapshots are replaced in place, the latest of both branches last,
so every reader sees the main branch before the statement or a snapshot of the branch.

Snapshots and changelogs below E stay only if E continues them. Otherwise, because the first snapshots of the branch
have expired, ids would have a gap, or two consecutive ones would belong to different histories: changes between them
would be wrong. Their tags stay.

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
from paimon_spark.core.scan.scan import live_entries
from paimon_spark.core.table import Table
from paimon_spark.errors import ArgumentError, ErrorKind, NotFoundError, PaimonError, UsageError
from paimon_spark.fs.base import FileIO
from paimon_spark.spec.column_options import is_about_columns
from paimon_spark.spec.paths import MAIN_BRANCH
from paimon_spark.spec.schema import TableSchema, parse_schema
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.stored_files import is_about_files


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
    older: tuple[Change, ...] = ()

    @property
    def actions(self) -> tuple[Action, ...]:
        """Return all actions."""
        steps = (self.loads, self.schemas, self.snapshots, self.newer, self.refs, self.older)
        return tuple(c.action for changes in steps for c in changes)


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
        UsageError: a tag that stays needs a schema that the branch does not have, or has with other columns.
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
    schemas, lost = _schema_changes(main, branch, first.schema_id)
    _check_tags(main, branch, first.id, lost)
    listed, stays = main.snapshots.listed_ids(), _continues(main, branch, first, lost)
    why = f"branch '{branch.branch}' begins with snapshot {first.id} and does not continue snapshot"
    return FastForwardPlan(
        latest.id,
        main.snapshots.latest_id(),
        loads=_load_changes(main, branch),
        schemas=schemas,
        snapshots=_snapshot_changes(main, branch, first.id, latest.id),
        newer=tuple(_own_snapshot(main, i) for i in reversed(listed) if i > latest.id),
        refs=_ref_changes(main, branch, first.id if stays else 0, first.id),
        older=tuple(Change(main.paths.snapshot(i), None, f"{why} {i}") for i in listed if i < first.id and not stays),
    )


def _schema_changes(main: Table, branch: Table, first_schema: int) -> tuple[tuple[Change, ...], int | None]:
    """Return the changes of schemas, and the first schema with which the main branch cannot read its own rows then."""
    own = {i: _content(main, main.paths.schema(i)) for i in main.schema_store.ids()}
    new = {i: _content(branch, branch.paths.schema(i)) for i in branch.schema_store.ids()}
    changed = [i for i in sorted(new) if own.get(i) != new[i]]
    written = [Change(main.paths.schema(i), new[i], f"schema {i} of branch '{branch.branch}'") for i in changed]
    gone = [i for i in sorted(own, reverse=True) if i >= first_schema and i not in new]
    reason = f"branch '{branch.branch}' has no schema"
    deleted = [Change(main.paths.schema(i), None, f"{reason} {i}") for i in gone]
    lost = [*gone, *(i for i in changed if i in own and _differ(own[i], new[i]))]
    return (*written, *deleted), min(lost, default=None)


def _differ(one: bytes, other: bytes) -> bool:
    """Return whether rows written with one of two schemas of the same id are read differently with the other."""
    a, b = parse_schema(one, "schema"), parse_schema(other, "schema")
    return _rules(a) != _rules(b)


def _rules(schema: TableSchema) -> object:
    options = {k: v for k, v in schema.options.items() if is_about_files(k) or is_about_columns(k)}
    return schema.fields, schema.partition_keys, schema.primary_keys, options


def _check_tags(main: Table, branch: Table, first_id: int, lost: int | None) -> None:
    """Raise if a tag that stays on the main branch needs a schema that is lost."""
    if lost is None:
        return
    replaced = RefStore.of(branch).tag_names()
    staying = {n: t.snapshot for n, t in RefStore.of(main).tags().items() if n not in replaced}
    for name, snapshot in staying.items():
        if snapshot.id < first_id and snapshot.schema_id >= lost:
            table = main.identifier.base.full_name
            raise UsageError(
                f"The main branch of table {main.name} cannot be fast-forwarded to branch '{branch.branch}': the tag "
                f"'{name}' stays, and the branch lacks its schema {lost} or has it with other columns.",
                hint=f"Delete the tag first: CALL sys.delete_tag('{table}', '{name}'). To keep its rows, create a "
                "branch from it before.",
            )


def _continues(main: Table, branch: Table, first: Snapshot, lost: int | None) -> bool:
    """Return whether the earliest snapshot of the branch follows what the main branch has below it."""
    before = main.snapshots.find(first.id - 1)
    if before is not None:
        return (lost is None or before.schema_id < lost) and _follows(ManifestStore(branch), first, before)
    if any(i < first.id for i in main.snapshots.listed_ids()):
        return False
    own = main.snapshots.find(first.id) or RefStore.of(main).find_changelog(first.id)
    return own is not None and own.is_commit_of(first)


def _follows(store: ManifestStore, snapshot: Snapshot, before: Snapshot) -> bool:
    """Return whether a snapshot is based on the files of the one before it; manifests may have been merged since."""
    base = store.read_list(snapshot.base_manifest_list, snapshot.base_manifest_list_size)
    there = store.data_manifests(before)
    if sorted(m.file_name for m in base) == sorted(m.file_name for m in there):
        return True
    live, live_there = ({e.identity for e in live_entries(store, metas)} for metas in (base, there))
    return live == live_there


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


def _ref_changes(main: Table, branch: Table, first_changelog: int, first_tag: int) -> tuple[Change, ...]:
    """Return the changes of tags and changelogs, without the main branch's own ones from two ids on."""
    own, new = RefStore.of(main), RefStore.of(branch)
    names = new.tag_names()
    written = [
        Change(main.paths.tag(n), _content(branch, branch.paths.tag(n)), f"tag '{n}' of branch '{branch.branch}'")
        for n in names
    ]
    gone = [
        Change(main.paths.tag(n), None, f"tag '{n}' points to snapshot {t.snapshot.id}")
        for n, t in own.tags().items()
        if t.snapshot.id >= first_tag and n not in names
    ]
    stale = [
        Change(main.paths.changelog(i), None, f"the main branch's own changelog {i}")
        for i in reversed(own.changelog_ids())
        if i >= first_changelog
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
    _note_earliest(main, plan.latest_id)
    remove_newer(main, plan.latest_id)
    deleter = SafeDeleter(main)
    for changes in (plan.refs, plan.older, plan.schemas):
        deleter.delete([c.action for c in changes if c.data is None])
    _note_changelogs(main, plan)


def _written(changes: tuple[Change, ...]) -> list[Change]:
    return [c for c in changes if c.data is not None]


def _note_earliest(main: Table, latest_id: int) -> None:
    """Write the hint of the earliest snapshot: the first from which on none is missing."""
    ids = set(main.snapshots.listed_ids())
    first = latest_id
    while first - 1 in ids:
        first -= 1
    main.snapshots.write_earliest_hint(first)


def _note_changelogs(main: Table, plan: FastForwardPlan) -> None:
    """Update the hint of the newest long-lived changelog."""
    directory = main.paths.changelog_dir
    if any(c.path.startswith(directory + "/") for c in plan.refs):
        newest = max(RefStore.of(main).changelog_ids(), default=-1)
        main.file_io.write(f"{directory}/LATEST", str(newest).encode("ascii"))

"""Undo: the files of a run of the trash go back, then the references to them.

The plan checks everything first: no path may be in use, the snapshot ids must be without gaps, and every file that a
restored snapshot, tag or changelog needs must exist in the table or in the run. Data and metadata files go back first,
so that no reference ever points to a missing file. An interrupted undo is completed by the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from paimon_spark.core.cancellation import uninterrupted
from paimon_spark.core.maintenance.deletion import DELETE, WARN, WRITE, Action
from paimon_spark.core.maintenance.rollback import newer_refs
from paimon_spark.core.maintenance.trash import (
    TrashKind,
    TrashPaths,
    TrashRecord,
    TrashRun,
    TrashState,
    find_run,
    forget,
    mark,
    run_files,
    runs,
)
from paimon_spark.core.maintenance.trash_check import missing_files
from paimon_spark.core.maintenance.trash_refs import BRANCH_FILE, CONSUMER, read_ref, reference_of
from paimon_spark.core.metadata.branches import branch_exists
from paimon_spark.core.metadata.refs import ProtectingRef, RefKind, RefStore
from paimon_spark.core.metadata_io import create_once, in_parallel, read_if_there, translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.engine.undo_aside import impossible, put_back, removed_snapshot
from paimon_spark.fs.base import FileIO
from paimon_spark.spec.paths import MAIN_BRANCH

RESTORE = "restore"
_COMPARED_BYTES = 1 << 20
_SCHEMA = "/schema/schema-"
"""In the paths of the schemas of a branch, which are restored last."""


@dataclass(frozen=True, slots=True)
class TrashedRun:
    """Where a run keeps its files: their directory, which stands for the root of the table of this length."""

    files: str
    root_length: int


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file in the trash: its run, its path in the table, and its size."""

    run: TrashedRun
    path: str
    size: int

    @property
    def kept(self) -> str:
        """Return its path in the trash."""
        return f"{self.run.files}{self.path[self.run.root_length :]}"


@dataclass(slots=True)
class _Contents:
    """The files of a run by what they are; `count` includes those that the run itself created."""

    count: int = 0
    files: list[KeptFile] = field(default_factory=list)
    snapshots: dict[int, KeptFile] = field(default_factory=dict)
    changelogs: dict[int, KeptFile] = field(default_factory=dict)
    tags: dict[str, KeptFile] = field(default_factory=dict)
    consumers: dict[str, KeptFile] = field(default_factory=dict)
    branches: dict[str, list[KeptFile]] = field(default_factory=dict)
    without_schema: list[str] = field(default_factory=list)

    @property
    def references(self) -> list[KeptFile]:
        """Return the snapshots, changelogs, tags and consumers."""
        return [f for group in (self.snapshots, self.changelogs, self.tags, self.consumers) for f in group.values()]

    @property
    def everything(self) -> list[KeptFile]:
        """Return all files in the order in which they go back."""
        return [*self.files, *self.references, *(f for files in self.branches.values() for f in files)]


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """The files that go back; `removed` are the snapshots that are rolled back after a purge is undone.

    `lost` is the warning about files that the run had and the trash has not any more.
    """

    table: Table
    record: TrashRecord
    contents: _Contents
    removed: tuple[int, ...] = ()
    actions: tuple[Action, ...] = ()
    lost: str = ""


@dataclass(frozen=True, slots=True)
class UndoResult:
    """What an undo has restored."""

    files: int
    bytes: int
    snapshots: int
    changelogs: int
    tags: int
    branches: int


@translate_io_errors()
def plan_undo(table: Table, record: TrashRecord) -> UndoPlan:
    """Plan the undo of a run; nothing is changed.

    Args:
        table: the table; the branch is that of the run.
        record: the run.

    Raises:
        ConflictError: the run cannot be undone; the error says what to do first.
        CorruptTableError: a file of the run is malformed.
    """
    table = replace(table, branch=record.branch)
    if record.state is TrashState.EMPTYING:
        raise impossible(record, "its deletion has begun, so files may be missing", "It can only be deleted.")
    contents = _contents(table, record)
    _check_branches(table, record, contents)
    _check_unused(table, record, contents)
    removed = _check_snapshots(table, record, contents)
    _check_files(table, record, contents)
    lost, actions = _lost(record, contents), _actions(table, record, contents, removed)
    if lost:
        actions = (Action(WARN, TrashPaths(table).files(record.run), 0, lost), *actions)
    return UndoPlan(table, record, contents, removed, actions, lost)


@uninterrupted()
@translate_io_errors()
def execute_undo(plan: UndoPlan) -> UndoResult:
    """Restore the files, then the references, and delete the run.

    Raises:
        ConflictError: another program has used a path meanwhile; what is restored until then is consistent.
    """
    table, contents = plan.table, plan.contents
    _check_kept(table, plan.record)
    record = mark(table, plan.record, TrashState.UNDOING)
    if put_back(table, record):
        _check_nothing_above(table, record, ())
    in_parallel(lambda f: _put_back(table.file_io, record, f), contents.files)
    _restore_snapshots(table, record, contents)
    for changelog in _in_order(contents.changelogs, record):
        _bring_back(table.file_io, record, changelog)
    for reference in (*contents.tags.values(), *contents.consumers.values()):
        _bring_back(table.file_io, record, reference)
    for files in contents.branches.values():
        for file in sorted(files, key=lambda f: _SCHEMA in f.path):
            _bring_back(table.file_io, record, file)
    _delete_created(table, record, RefKind.CHANGELOG)
    created = any(name.startswith(RefKind.CHANGELOG) for name in record.created)
    if contents.changelogs or created or plan.record.state is TrashState.UNDOING:
        _write_changelog_hints(table)
    if plan.removed:
        first = (i for i in contents.snapshots if i > (record.latest or 0))
        _remove_empty(table, record, sorted({*plan.removed, *first}, reverse=True))
    forget(table, record)
    everything = contents.everything
    return UndoResult(
        len(everything),
        sum(f.size for f in everything),
        sum(record.kind is not TrashKind.PURGE or i <= (record.latest or 0) for i in contents.snapshots),
        len(contents.changelogs),
        len(contents.tags),
        len(contents.branches),
    )


# ---- planning


def _contents(table: Table, record: TrashRecord) -> _Contents:
    """Return the files of a run, without snapshots and changelogs that the run itself created."""
    paths, found = TrashPaths(table), _Contents()
    run = TrashedRun(paths.files(record.run), len(paths.root))
    groups = {RefKind.TAG: found.tags, CONSUMER: found.consumers}
    for status in run_files(table, record.run):
        found.count += 1
        file = KeptFile(run, paths.original(record.run, status.path), status.size)
        reference = reference_of(table, file.path)
        branch = BRANCH_FILE.fullmatch(file.path[len(paths.root) + 1 :])
        if reference is not None and file.path.rpartition("/")[2] in record.created:
            continue
        if reference is not None and reference[0] in groups:
            groups[reference[0]][reference[1]] = file
        elif reference is not None:
            (found.snapshots if reference[0] == RefKind.SNAPSHOT else found.changelogs)[int(reference[1])] = file
        elif branch is not None and branch[1] != record.branch:
            found.branches.setdefault(branch[1], []).append(file)
        else:
            found.files.append(file)
    for name in [n for n, files in found.branches.items() if not any(_SCHEMA in f.path for f in files)]:
        found.files += found.branches.pop(name)  # orphans beside its metadata: a deleted branch has a schema
        found.without_schema.append(name)
    return found


def _lost(record: TrashRecord, contents: _Contents) -> str:
    """Return a warning if a complete run has fewer files than it took; empty otherwise."""
    if record.state is not TrashState.DONE or record.files is None or contents.count >= record.files:
        return ""
    return f"{record.files - contents.count} of the {record.files} files of the run are missing in the trash"


def _check_branches(table: Table, record: TrashRecord, contents: _Contents) -> None:
    if record.branch != MAIN_BRANCH and not branch_exists(table, record.branch):
        raise impossible(
            record,
            f"the branch '{record.branch}' does not exist any more",
            _first(table, record, f"{table.paths.schema_dir}/", "Create the branch again."),
        )
    for name in contents.without_schema:
        if not branch_exists(table, name):
            raise impossible(
                record,
                f"it has files of the branch '{name}', which does not exist, and no schema of it",
                "If another run has the schema, undo that one first.",
            )
    if record.state is TrashState.UNDOING:
        return
    for name in contents.branches:
        if branch_exists(table, name):
            raise impossible(
                record,
                f"a branch '{name}' exists again",
                f"Rename it first: CALL sys.rename_branch('{table.name}', '{name}', '…').",
            )


def _check_unused(table: Table, record: TrashRecord, contents: _Contents) -> None:
    """Raise if a path is in use by another file of the same kind."""
    for kind, group in (("snapshot", contents.snapshots), ("changelog", contents.changelogs)):
        for number in sorted(group):
            if _differs(table.file_io, group[number]):
                raise impossible(
                    record,
                    f"{kind} {number} exists again: the table has been written to since",
                    _later_purge(table, record)
                    or "To give up these commits, roll back to the snapshot before them with sys.rollback_to first. If "
                    "they are to stay, the run cannot be undone.",
                )
    for kind, refs in (("tag", contents.tags), ("consumer", contents.consumers)):
        for name, file in refs.items():
            if _differs(table.file_io, file):
                raise impossible(record, f"a {kind} '{name}' exists again", f"Rename or delete the {kind} first.")


def _differs(file_io: FileIO, file: KeptFile) -> bool:
    return file_io.exists(file.path) and not _same(file_io, file)


def _check_snapshots(table: Table, record: TrashRecord, contents: _Contents) -> tuple[int, ...]:
    """Return the snapshots that an undone purge removes; raise if the snapshots would have gaps, or others are lost."""
    listed = table.snapshots.listed_ids()
    removed: tuple[int, ...] = ()
    if record.kind is TrashKind.PURGE and record.latest is not None:  # else the table had no snapshots to go back to
        removed = tuple(_above(table, record.latest)[::-1])
        _check_empty(table, record, record.latest)
    present = {i for i in listed if f"snapshot-{i}" not in record.created}
    restored = contents.snapshots.keys() - present
    if not restored:
        return removed
    if record.kind is TrashKind.ROLLBACK:
        _check_newest(table, record, listed)
    elif present and max(restored) > min(present):
        raise impossible(
            record,
            f"the table has been rolled back since; its latest snapshot is {max(present)}",
            _first(table, record, table.paths.snapshot(max(restored) + 1), "The run cannot be undone."),
        )
    gap = _gap(restored | present)
    if gap is not None:
        raise impossible(
            record,
            f"snapshot {gap}, which is between those that it restores and those of the table, does not exist",
            _first(table, record, table.paths.snapshot(gap), "It was deleted for good, so the run cannot be undone."),
        )
    return removed


def _gap(ids: Iterable[int]) -> int | None:
    """Return the first id that is missing between others."""
    return next((one + 1 for one, after in pairwise(sorted(ids)) if after != one + 1), None)


def _check_newest(table: Table, record: TrashRecord, listed: Sequence[int]) -> None:
    """Raise unless the table is as a rollback left it; a rollback or undo that was interrupted may have left more."""
    hint, target, stray = table.snapshots.rollback_target(), record.target, _stray(record, listed)
    if not stray and (hint == target or (hint is None and record.state is TrashState.UNDOING)):
        return
    newest = max(listed, default=0)
    if target is None or stray or newest > target:
        raise impossible(
            record,
            f"the table has been written to since the rollback to snapshot {target}; its latest snapshot is {newest}",
            _later_purge(table, record) or f"To give up these commits, roll back to snapshot {target} first.",
        )
    if newest < target or hint is not None:
        raise impossible(
            record,
            f"the table has been rolled back since; its latest snapshot is {table.snapshots.latest_id()}",
            _first(table, record, table.paths.snapshot(target), "Complete the interrupted rollback first."),
        )


def _stray(record: TrashRecord, listed: Iterable[int]) -> list[int]:
    """Return the snapshots between the target of a rollback that had expired and the earliest of that time."""
    return [i for i in listed if (record.target or 0) < i < (record.earliest or 0)]


def _check_empty(table: Table, record: TrashRecord, latest: int) -> None:
    """Raise if rows were written, or tags created, after a purge."""
    above = _above(table, latest)
    for i in above:
        snapshot = table.snapshots.find(i)
        if snapshot is not None and snapshot.total_record_count != 0:
            raise impossible(
                record,
                f"the table has been written to since: snapshot {i} has rows",
                f"To give up these rows, roll back to snapshot {above[0]} first."
                if i != above[0]
                else "To give up these rows, purge the table again first.",
            )
    tags = newer_refs(table, latest).tags
    if tags:
        raise impossible(record, f"the tag '{tags[0]}' was created since", "Delete it first.")


def _above(table: Table, latest: int) -> list[int]:
    return [i for i in table.snapshots.listed_ids() if i > latest]


def _check_files(table: Table, record: TrashRecord, contents: _Contents) -> None:
    """Raise if a file that a restored reference needs is neither in the table nor in the run."""
    refs = list(_restored_refs(table, contents))
    if not refs:
        return
    kept = {f.path: f.kept for f in contents.files}
    missing = missing_files(table, refs, kept)
    if missing:
        raise impossible(
            record,
            f"{len(missing)} files that its snapshots and tags need do not exist, among them {missing[0]}",
            _first(table, record, missing[0], "They were deleted for good."),
        )


def _restored_refs(table: Table, contents: _Contents) -> Iterable[ProtectingRef]:
    """Yield the snapshots, changelogs and tags of a run, those of its branches included."""
    groups = [(table.branch, contents.references), *contents.branches.items()]
    for branch, files in groups:
        found = (read_ref(replace(table, branch=branch), f.path, f.kept) for f in files)
        yield from (ref for ref in found if ref is not None)


def _actions(table: Table, record: TrashRecord, contents: _Contents, removed: Sequence[int]) -> tuple[Action, ...]:
    paths = table.paths
    back = [Action(RESTORE, f.path, f.size, f"{record.procedure} removed it") for f in contents.everything]
    created = [
        Action(DELETE, f"{paths.metadata_root}/{name.partition('-')[0]}/{name}", 0, f"{record.procedure} created it")
        for name in record.created
    ]
    gone = [Action(DELETE, paths.snapshot(i), 0, "the empty table after the purge") for i in removed]
    hints = [Action(WRITE, paths.latest_hint, 0, "the latest snapshot")] if record.kind is not TrashKind.REMOVAL else []
    return (*back, *(a for a in created if table.file_io.exists(a.path)), *gone, *hints)


def _first(table: Table, record: TrashRecord, path: str, otherwise: str) -> str:
    """Return the hint to undo first the run that has a file; `path` may be the beginning of a directory."""
    paths = TrashPaths(table)
    for other in runs(table):
        kept = paths.kept(other.run, path)
        if other.run != record.run and kept is not None and table.file_io.exists(kept.rstrip("/")):
            return _undo_first(table, other)
    return otherwise


def _later_purge(table: Table, record: TrashRecord) -> str:
    """Return the hint to undo first a later purge, whose snapshots have new ids; empty without one."""
    later = (r for r in runs(table) if r.time_millis > record.time_millis and r.kind is TrashKind.PURGE)
    return next((_undo_first(table, r) for r in later), "")


def _undo_first(table: Table, other: TrashRecord) -> str:
    return f"Undo the run of {other.procedure} first: CALL sys.undo('{table.name}', '{other.run}')."


# ---- execution


def _check_kept(table: Table, record: TrashRecord) -> None:
    """Raise if the run has been deleted since the plan, or its deletion has begun."""
    found = find_run(table, record.run)
    if found is None or found.state is TrashState.EMPTYING:
        raise impossible(record, "it has been deleted meanwhile", "It cannot be restored.")


def _bring_back(file_io: FileIO, record: TrashRecord, file: KeptFile) -> None:
    """Create a file whose name is not unique, as a commit does; one that an interrupted undo has restored is left.

    A rename does not fail on every store if another client creates the file meanwhile.
    """
    try:
        data = file_io.read(file.kept)
    except FileNotFoundError:
        _check_restored(file_io, record, file)
        return
    if not create_once(file_io, file.path, data):
        raise impossible(record, f"{file.path} exists again", "Another program writes to the table: stop it first.")
    file_io.delete(file.kept)


def _check_restored(file_io: FileIO, record: TrashRecord, file: KeptFile) -> None:
    if not file_io.exists(file.path):
        raise impossible(record, f"{file.kept} has vanished", "Another undo may be running: look at sys.trash.")


def _put_back(file_io: FileIO, record: TrashRecord, file: KeptFile) -> None:
    """Move a file with a unique name back; one that an interrupted undo has moved already is left as it is."""
    try:
        if file_io.rename(file.kept, file.path) or not file_io.exists(file.kept):
            return
    except FileNotFoundError:
        _check_restored(file_io, record, file)
        return
    if not _same(file_io, file):
        raise impossible(record, f"{file.path} exists again", "Another program writes to the table: stop it first.")
    file_io.delete(file.kept)


def _same(file_io: FileIO, file: KeptFile) -> bool:
    """Return whether the file in the table is that of the trash; large files have unique names, so the size tells."""
    if file_io.status(file.path).size != file.size:
        return False
    return file.size > _COMPARED_BYTES or file_io.read(file.path) == file_io.read(file.kept)


def _in_order(group: dict[int, KeptFile], record: TrashRecord) -> list[KeptFile]:
    """Return snapshots or changelogs in the order in which no gap opens next to those that exist."""
    return [group[i] for i in sorted(group, reverse=record.kind is not TrashKind.ROLLBACK)]


def _restore_snapshots(table: Table, record: TrashRecord, contents: _Contents) -> None:
    """Restore snapshots: those of a rollback one after the other upwards, others downwards from the earliest.

    Upwards, each is the latest for a moment, and a commit that comes between is built on it and stops the undo.
    """
    if record.kind is TrashKind.ROLLBACK:
        _restore_newer(table, record, contents)
    else:
        for snapshot in _in_order(contents.snapshots, record):
            _bring_back(table.file_io, record, snapshot)
    ids = table.snapshots.listed_ids()
    if ids:  # always: an interrupted undo may have restored the snapshots, but not written the hint
        table.snapshots.write_earliest_hint(ids[0])


def _restore_newer(table: Table, record: TrashRecord, contents: _Contents) -> None:
    """Restore the snapshots that a rollback removed.

    If the rollback had restored its target from a tag, there is a gap between the target and the others. They stay
    hidden by the hint of a rollback until the target is removed again; a commit before that completes the rollback.
    """
    store, snapshots = table.snapshots, _in_order(contents.snapshots, record)
    restored_target = next((i for i in store.listed_ids() if f"snapshot-{i}" in record.created), None)
    if restored_target is not None and snapshots:
        store.begin_rollback(restored_target, record.run)
    elif store.rollback_target() == record.target and restored_target is None:
        store.end_rollback(max(store.listed_ids()))  # the rollback was interrupted; what it left counts again
    for snapshot in snapshots:
        _bring_back(table.file_io, record, snapshot)
    ids = store.listed_ids()
    if restored_target is not None:
        committed = bool(snapshots) and store.rollback_target() != restored_target
        if committed or _stray(record, ids):
            back = TrashRun(table, record, resumed=True)
            for snapshot in reversed(snapshots):
                back.move(snapshot.path, snapshot.size)
            raise impossible(record, "a snapshot was committed meanwhile", "Stop the writers of the table first.")
        _delete_created(table, record, RefKind.SNAPSHOT)
        ids = store.listed_ids()
    store.write_latest_hint(ids[-1])


def _remove_empty(table: Table, record: TrashRecord, removed: Sequence[int]) -> None:
    """Remove the empty snapshots of a purge from the newest down, and nothing that was committed meanwhile.

    A commit of this project completes the rollback and is built on the snapshots that are back.
    """
    store, latest, paths = table.snapshots, record.latest or 0, table.paths
    _check_empty(table, record, latest)
    _check_nothing_above(table, record, removed)
    kept = {i: read_if_there(table.file_io, paths.snapshot(i)) for i in removed}
    store.begin_rollback(latest)
    for position, (i, data) in enumerate(kept.items()):
        _check_nothing_above(table, record, removed[position:])
        if store.rollback_target() != latest:
            break
        if data is None or not removed_snapshot(table, record, i, data):
            continue
        if any(other > i for other in store.listed_ids()):
            create_once(table.file_io, paths.snapshot(i), data)  # a commit was built on it
    if any(data is not None and read_if_there(table.file_io, paths.snapshot(i)) == data for i, data in kept.items()):
        _check_nothing_above(table, record, ())
    if store.rollback_target() == latest:
        store.end_rollback(latest)


def _check_nothing_above(table: Table, record: TrashRecord, removed: Sequence[int]) -> None:
    """Raise, and end the rollback, if there are snapshots above those of before a purge and those of the purge."""
    store = table.snapshots
    above = [i for i in _above(table, record.latest or 0) if i not in removed]
    if not above:
        return
    if store.rollback_target() == record.latest:
        store.end_rollback(above[-1])
    raise impossible(
        record,
        f"snapshot {above[-1]} was committed meanwhile",
        "Stop the writers of the table. To give up the commit, roll back to the snapshot before it, and undo again.",
    )


def _delete_created(table: Table, record: TrashRecord, kind: RefKind) -> None:
    """Delete the files that the run created, if what they stood for is back."""
    ids = table.snapshots.listed_ids()
    for name in record.created:
        sort, _, number = name.partition("-")
        back = int(number) in ids if kind is RefKind.CHANGELOG else bool(ids) and ids[-1] > int(number)
        if sort == kind and back:
            table.file_io.delete(f"{table.paths.metadata_root}/{sort}/{name}")


def _write_changelog_hints(table: Table) -> None:
    ids, directory = RefStore.of(table).changelog_ids(), table.paths.changelog_dir
    if not ids and not table.file_io.exists(f"{directory}/LATEST"):
        return
    table.file_io.write(f"{directory}/LATEST", str(ids[-1] if ids else -1).encode("ascii"))
    if ids:
        table.file_io.write(f"{directory}/EARLIEST", str(ids[0]).encode("ascii"))
    else:
        table.file_io.delete(f"{directory}/EARLIEST")

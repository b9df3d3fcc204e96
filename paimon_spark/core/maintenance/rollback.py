"""Rollback: its target, the snapshots, changelogs, tags and load records newer than the target, and their removal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paimon_spark.core.changelog.lookup_change import merges_differ
from paimon_spark.core.file_schemas import FileSchemas
from paimon_spark.core.maintenance.deletion import DELETE, Action, Deleted, SafeDeleter
from paimon_spark.core.maintenance.trash import TrashRun, unfinished_rollback
from paimon_spark.core.metadata.load_records import LoadRecords
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.refs import RefStore, tag_files
from paimon_spark.core.table import Table
from paimon_spark.errors import CorruptTableError, ErrorKind, NotFoundError, UsageError
from paimon_spark.fs.base import FileStatus
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.snapshot import Snapshot

_ROUNDS = 5
"""How often newly committed snapshots are looked for."""


@dataclass(frozen=True, slots=True)
class Target:
    """The snapshot to roll back to. `expired` means that only a tag still has it; `tag` is that tag's name."""

    snapshot: Snapshot
    tag: str | None = None
    expired: bool = False


@dataclass(frozen=True, slots=True)
class NewerRefs:
    """Snapshots, changelogs and tags that a rollback removes, each in order of removal."""

    snapshots: tuple[int, ...] = ()
    changelogs: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()


def find_target(table: Table, *, snapshot_id: int | None = None, tag: str | None = None) -> Target:
    """Return the target of a rollback. A tag takes precedence over an id; an expired id is looked up among the tags.

    Raises:
        NotFoundError: there is no such snapshot or tag, or the table has no snapshot at all.
        ArgumentError: the snapshot of the id has expired, and tags hold different ones.
        CorruptTableError: the manifests of the target cannot be read, so a rollback would lose the table.
        UsageError: the table was replaced since, or its options changed, so that the rows of the target would be merged
            into other ones.
    """
    target = _tagged(table, tag) if tag is not None else _numbered(table, snapshot_id)
    _check_definition(table, target.snapshot)
    ManifestStore(table).data_manifests(target.snapshot)
    _check_merges(table, target.snapshot)
    return target


def _check_merges(table: Table, snapshot: Snapshot) -> None:
    if snapshot.schema_id == table.schema.id:
        return
    before = CoreOptions(table.schema_store.get(snapshot.schema_id).options)
    if merges_differ(table, snapshot, before, table.stored_options):
        raise UsageError(
            f"Table {table.name} cannot be rolled back to snapshot {snapshot.id}: since then, the options that make "
            "compaction look up older rows, such as 'changelog-producer' = 'lookup', were switched on or off. The rows "
            "would be merged with another result.",
            hint="Compact the table fully, set the options to what they were, and roll back then.",
        )


def _check_definition(table: Table, snapshot: Snapshot) -> None:
    found = FileSchemas(table).replaced([snapshot.schema_id])
    if found is not None:
        raise UsageError(
            f"Table {table.name} cannot be rolled back to snapshot {snapshot.id}: the table was replaced since by one "
            f"with another {found[1]}.",
            hint=f"Read the snapshot with VERSION AS OF {snapshot.id}, or first replace the table by one with its "
            "former definition: the snapshots stay.",
        )


def newer_refs(table: Table, snapshot_id: int) -> NewerRefs:
    """Return the references on the table's branch that are newer than a snapshot."""
    refs = RefStore.of(table)
    tagged = sorted(((t.snapshot.id, n) for n, t in refs.tags().items() if t.snapshot.id > snapshot_id), reverse=True)
    return NewerRefs(
        snapshots=tuple(i for i in reversed(table.snapshots.listed_ids()) if i > snapshot_id),
        changelogs=tuple(i for i in reversed(refs.changelog_ids()) if i > snapshot_id),
        tags=tuple(name for _, name in tagged),
    )


def deletions(table: Table, target: Snapshot) -> list[Action]:
    """Return the removal of everything newer than a snapshot, in order, with sizes.

    Load records are first: one must not outlast the snapshot of its load, whose id is used again.
    """
    loads = _load_deletions(target.id, LoadRecords.of(table).above(target.id, target.time_millis))
    return [*loads, *SafeDeleter(table).measure(_ref_deletions(table, target.id))]


def _load_deletions(target_id: int, records: Sequence[FileStatus]) -> list[Action]:
    return [Action(DELETE, s.path, s.size, f"the load is newer than snapshot {target_id}") for s in records]


def _ref_deletions(table: Table, target_id: int) -> list[Action]:
    refs, paths = newer_refs(table, target_id), table.paths
    reason = f"newer than snapshot {target_id}"
    return [
        *(Action(DELETE, paths.snapshot(i), 0, f"snapshot {i} is {reason}") for i in refs.snapshots),
        *(Action(DELETE, paths.changelog(i), 0, f"changelog {i} is {reason}") for i in refs.changelogs),
        *(Action(DELETE, path, 0, f"tag '{n}' is {reason}") for n in refs.tags for path in tag_files(table, n)),
    ]


def remove_newer(table: Table, target_id: int, *, insist: bool = True, trash: TrashRun | None = None) -> Deleted:
    """Remove everything newer than the target of a rollback that has begun, and end the rollback.

    Load records are removed first, several at a time, and snapshots after them from the newest down. Each round reads
    only the load records that the rounds before it have not seen.

    Args:
        table: the table.
        target_id: the snapshot to roll back to.
        insist: also remove what is committed or tagged above the target before this returns. Otherwise stop once
            another client has completed or replaced the rollback: anything above the target is then new.
        trash: takes what is removed.

    Raises:
        CorruptTableError: the target has expired meanwhile; newer snapshots are kept.
    """
    store, deleter, deleted = table.snapshots, SafeDeleter(table, trash), Deleted()
    target, records, seen = store.find(target_id), LoadRecords.of(table), set[str]()
    since = None if target is None else target.time_millis
    for _ in range(_ROUNDS):
        files = [s for s in records.files() if s.path not in seen]
        seen.update(s.path for s in files)
        loads = _load_deletions(target_id, records.above(target_id, since, files))
        refs = _ref_deletions(table, target_id)
        if not loads and not refs:
            break
        for step in (*([loads] if loads else []), *([a] for a in refs)):
            if store.rollback_target() != target_id:
                if not insist:
                    return deleted
                _check_there(table, target_id)
                store.begin_rollback(target_id, None if trash is None else trash.record.run)
            deleted += deleter.delete(step if step is loads else deleter.measure(step))
        _note_changelogs(table, refs)
    if insist or store.rollback_target() == target_id:
        store.end_rollback(target_id)
    return deleted


def _check_there(table: Table, target_id: int) -> None:
    """Raise if the target of a rollback has expired; the newest remaining snapshot then becomes the latest."""
    store = table.snapshots
    if store.exists(target_id):
        return
    left = max(store.listed_ids(), default=None)
    if left is not None:
        store.end_rollback(left)
    raise CorruptTableError(
        f"Snapshot {target_id} of table {table.name} expired while the table was being rolled back to it; the newest "
        f"snapshot is now {left}.",
        hint="Pick a newer snapshot, or a tag.",
        kind=ErrorKind.FILE_MISSING,
    )


def complete_rollback(table: Table) -> None:
    """Complete an interrupted rollback, if there is one: no commit may build on its intermediate state.

    Remaining files go to the same run of the trash as those of the interrupted rollback, if it has one.
    """
    target = table.snapshots.rollback_target()
    if target is None:
        return
    trash = unfinished_rollback(table, target)
    remove_newer(table, target, insist=False, trash=trash)
    if trash is not None:
        trash.settle()


def _note_changelogs(table: Table, removed: list[Action]) -> None:
    """Update the hint of the newest long-lived changelog if any was removed; -1 means none."""
    directory = table.paths.changelog_dir
    if any(a.path.startswith(directory + "/") for a in removed):
        newest = max(RefStore.of(table).changelog_ids(), default=-1)
        table.file_io.write(f"{directory}/LATEST", str(newest).encode("ascii"))


def _tagged(table: Table, name: str) -> Target:
    found = RefStore.of(table).get_tag(name).snapshot
    return Target(found, name, expired=not table.snapshots.exists(found.id))


def _numbered(table: Table, snapshot_id: int | None) -> Target:
    if snapshot_id is None:
        raise NotFoundError("No snapshot or tag is given.", hint="Give one.", kind=ErrorKind.SNAPSHOT_NOT_FOUND)
    found = table.snapshots.find(snapshot_id)
    if found is not None:
        return Target(found)
    tagged = RefStore.of(table).tag_of(snapshot_id)
    if tagged is not None:
        return Target(tagged[1], tagged[0], expired=True)
    return Target(table.snapshots.get(snapshot_id))

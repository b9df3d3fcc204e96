"""Purging a table: deletes rows, snapshots, tags, branches, consumers and load records; the schemas are kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from paimon_spark.core.commit.committer import Committed, FileStoreCommit
from paimon_spark.core.commit.snapshot_builder import CommitMetadata
from paimon_spark.core.maintenance.deletion import DELETE, WRITE, Action, SafeDeleter
from paimon_spark.core.maintenance.orphans import emptied
from paimon_spark.core.maintenance.reachability import Reachability
from paimon_spark.core.maintenance.trash import TrashRun
from paimon_spark.core.metadata.load_records import LoadRecords
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.refs import ProtectingRef, RefKind, RefStore, branch_name, branches, tag_files
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact_manifest import execute_compact_manifest, plan_compact_manifest
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.expiry.expire_changelogs import execute_expire_changelogs, plan_expire_changelogs
from paimon_spark.engine.expiry.orphans import execute_orphans, list_files, plan_orphans
from paimon_spark.engine.refs.branches import DeleteBranchesPlan, execute_delete_branches, plan_delete_branches
from paimon_spark.engine.refs.consumers import ClearPlan, execute_clear, plan_clear
from paimon_spark.engine.refs.tags import execute_delete_tags, plan_delete_tags
from paimon_spark.engine.runner import TaskRunner
from paimon_spark.errors import ArgumentError
from paimon_spark.fs.base import FileStatus
from paimon_spark.spec.bounds import MOST_MILLIS
from paimon_spark.spec.features import check_writable
from paimon_spark.spec.kinds import Operation
from paimon_spark.spec.paths import MAIN_BRANCH
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.units import MAX_INT


@dataclass(frozen=True, slots=True)
class PurgePlan:
    """What is deleted: branches, tags, consumers, and the files and directories of `actions`."""

    table: Table
    clock_millis: int
    branches: DeleteBranchesPlan
    tags: tuple[str, ...]
    consumers: ClearPlan
    directories: tuple[str, ...]
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class PurgeResult:
    """The number and size of the deleted files, and the committed snapshot, if there is one."""

    files: int
    bytes: int
    snapshot_id: int | None = None


@translate_io_errors()
def plan_purge(table: Table, runner: TaskRunner, clock_millis: int) -> PurgePlan:
    """Plan the purge; nothing is changed.

    Files of the table's directories that were modified at `clock_millis` or later are kept.

    Raises:
        ArgumentError: the table is a branch.
        UsageError: an option of the table names a branch.
        UnsupportedError: the table does not store its data in Paimon files.
    """
    if table.branch != MAIN_BRANCH:
        raise ArgumentError(
            f"The argument 'table' names the branch '{table.branch}' of {table.name}. Branches share their files.",
            hint="Name the table itself, or delete the branch by sys.delete_branch.",
        )
    check_writable(table.effective_schema)
    names = [branch_name(d) for d in branches(table)]
    dropped = plan_delete_branches(table, ",".join(names)) if names else DeleteBranchesPlan((), ())
    tags, consumers = tuple(RefStore.of(table).tag_names()), plan_clear(table)
    latest = table.snapshots.latest()
    commits = _commits(table, latest)
    actions = [
        *dropped.actions,
        *consumers.actions,
        *_deletions(LoadRecords.of(table).files()),
        *_references(table, latest, commits),
    ]
    kept = _kept(table, latest, replaced=commits > 0)
    listing = list_files(table, runner, clock_millis)
    files = sorted((f for f in listing.files if f.path.rpartition("/")[2] not in kept), key=lambda f: f.path)
    actions += [Action(DELETE, f.path, f.size, "no snapshot needs it then") for f in files]
    directories = tuple(emptied(listing, (f.path for f in files)))
    actions += [Action(DELETE, d, 0, "nothing is left in it") for d in directories]
    return PurgePlan(table, clock_millis, dropped, tags, consumers, directories, tuple(actions))


def _deletions(records: Iterable[FileStatus]) -> list[Action]:
    return [Action(DELETE, s.path, s.size, "the load has no rows then") for s in records]


def _loads(table: Table, before: Sequence[FileStatus], bound: int) -> list[Action]:
    """Return the deletion of the records of loads whose rows a purge has removed.

    These are the records `before` it looked for rows, and later ones of loads before the snapshot `bound`.
    """
    records, known = LoadRecords.of(table), {s.path for s in before}
    later = [s for s in records.files() if s.path not in known]
    return _deletions([*before, *records.up_to(bound - 1, later)])


def _commits(table: Table, latest: Snapshot | None) -> int:
    """Return the number of snapshots to commit: one that removes the files, and one that removes their entries."""
    if latest is None:
        return 0
    store = ManifestStore(table)
    has_files = bool(live_in_partitions(store, latest, None) or store.index_entries(latest))
    return has_files + bool(store.data_manifests(latest))


def _references(table: Table, latest: Snapshot | None, commits: int) -> Iterator[Action]:
    """Yield the last commit, and the deletion of tags, snapshots and changelogs."""
    paths, refs = table.paths, RefStore.of(table)
    found = [
        Action(DELETE, path, 0, f"tag '{name}' is deleted")
        for name in refs.tag_names()
        for path in tag_files(table, name)
    ]
    if latest is not None:
        if commits:
            yield Action(WRITE, paths.snapshot(latest.id + commits), 0, "a snapshot without rows")
        gone = [i for i in table.snapshots.listed_ids() if commits or i != latest.id]
        found += [Action(DELETE, paths.snapshot(i), 0, f"snapshot {i} expires") for i in gone]
    found += [Action(DELETE, paths.changelog(i), 0, f"changelog {i} expires") for i in refs.changelog_ids()]
    yield from SafeDeleter(table).measure(found)


def _kept(table: Table, latest: Snapshot | None, *, replaced: bool) -> set[str]:
    """Return the names of the existing files that the last snapshot needs, which are metadata."""
    if latest is None:
        return set()
    if replaced:
        newest = max(table.schema_store.ids(), default=table.schema.id)
        return {latest.statistics} if latest.statistics is not None and latest.schema_id == newest else set()
    ref = ProtectingRef(RefKind.SNAPSHOT, table.branch, str(latest.id), latest)
    return set(Reachability(ManifestStore(table), [ref]).metadata_refs())


@translate_io_errors()
def execute_purge(plan: PurgePlan, runner: TaskRunner, trash: TrashRun | None = None) -> PurgeResult:
    """Delete branches, tags and consumers, commit snapshots without rows, and delete all that the last does not need.

    Every step leaves a table that can be read; an interrupted purge is completed by the next one. The trash takes the
    files, if there is one.

    Raises:
        ConflictError: every attempt conflicted with another commit.
    """
    table, now = plan.table, plan.clock_millis
    everything = ExpireConfig(retain_max=1, retain_min=1, older_than_millis=MOST_MILLIS, max_deletes=MAX_INT)
    branches_gone = execute_delete_branches(table, plan.branches, trash)
    tags_plan = plan_delete_tags(table, plan.tags) if plan.tags else None
    tags_gone = execute_delete_tags(table, tags_plan, trash) if tags_plan else None
    consumers_gone = execute_clear(table, plan.consumers, trash)
    records, seen = LoadRecords.of(table).files(), table.snapshots.latest_id() or 0
    done = FileStoreCommit(table).overwrite([], CommitMetadata(operation=Operation.TRUNCATE))
    emptied_id = execute_compact_manifest(plan_compact_manifest(table))
    first = done.snapshot_ids[0] if isinstance(done, Committed) else emptied_id
    if trash is not None and first is not None:
        trash.begin(latest=first - 1)  # others may have committed since the purge was planned
    bound = done.snapshot_ids[0] if isinstance(done, Committed) else seen + 1
    loads_gone = SafeDeleter(table, trash).delete(_loads(table, records, bound))
    snapshots_gone = execute_expire(table, plan_expire(table, everything, now), trash)
    changelogs_plan = plan_expire_changelogs(table, everything, now, everything=True)
    changelogs_gone = execute_expire_changelogs(table, changelogs_plan, trash)
    left_gone = execute_orphans(plan_orphans([table], runner, clock_millis=now + 1, older_than=now), lambda _: trash)
    for directory in plan.directories:
        table.file_io.delete_empty_dir(directory)
    gone = (branches_gone, tags_gone, loads_gone, snapshots_gone, changelogs_gone, left_gone)
    deleted = [d for d in gone if d is not None]
    sizes = dict(zip(plan.consumers.names, (a.bytes for a in plan.consumers.actions), strict=True))
    return PurgeResult(
        len(consumers_gone) + sum(d.files for d in deleted),
        sum(sizes[name] for name in consumers_gone) + sum(d.bytes for d in deleted),
        emptied_id or (done.snapshot_ids[-1] if isinstance(done, Committed) else None),
    )

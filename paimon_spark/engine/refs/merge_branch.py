"""Merging a branch of an append table into another: the files that the target lacks are added in one commit.

Without a record of where a branch started, two histories can be compared only if both are complete and have never
removed a file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from paimon_spark.core.commit.change_set import Change
from paimon_spark.core.commit.committer import Committed, FileStoreCommit
from paimon_spark.core.commit.snapshot_builder import CommitMetadata
from paimon_spark.core.maintenance.deletion import WRITE, Action
from paimon_spark.core.metadata.branches import on_branch, require_branches
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.row_tracking import tracks_rows
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.row_level.upserted_rows import upserts
from paimon_spark.core.scan.scan import live_entries
from paimon_spark.core.table import Table
from paimon_spark.errors import ArgumentError, ErrorKind, NotFoundError, UnsupportedError, UsageError
from paimon_spark.spec.features import check_writable
from paimon_spark.spec.kinds import CommitKind, FileKind, Operation
from paimon_spark.spec.manifest import DataFileKey, ManifestEntry
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.snapshot import Snapshot

_FIRST = 1
_KEEPING = (CommitKind.APPEND, CommitKind.ANALYZE)
"""Kinds of commits that remove no file."""


@dataclass(frozen=True, slots=True)
class MergeBranchPlan:
    """The target of a merge, and the files of the source that it lacks."""

    target: Table
    source_branch: str
    previous_id: int
    files: tuple[ManifestEntry, ...] = ()

    @property
    def actions(self) -> tuple[Action, ...]:
        """Return one action per file: it becomes a file of the target."""
        reason = f"file of branch '{self.source_branch}'"
        paths = self.target.paths
        return tuple(
            Action(WRITE, paths.data_file(e.partition, e.bucket, e.file), e.file.file_size, reason) for e in self.files
        )


@translate_io_errors()
def plan_merge_branch(table: Table, source: str, target: str) -> MergeBranchPlan:
    """Plan a merge; nothing is changed.

    Raises:
        ArgumentError: source and target are the same branch.
        NotFoundError: a branch does not exist or has no snapshot.
        UnsupportedError: a branch has a primary key, or a feature that a merge cannot keep.
        UsageError: the schemas or histories of the branches do not allow a merge.
        AccessDeniedError: the user may not change both branches.
    """
    source, target = source.strip(), target.strip()
    if source == target:
        raise ArgumentError(f"The branch '{source}' cannot be merged into itself.", hint="Name two branches.")
    require_branches(table, source, target)
    giver, taker = on_branch(table, source), on_branch(table, target)
    newest = _latest(giver), _latest(taker)
    for side in (giver, taker):
        _check_kind(side)
    for side, latest in zip((giver, taker), newest, strict=True):
        _check_history(side, latest)
    if tracks_rows(giver) != tracks_rows(taker):
        raise UsageError(
            f"The branch '{source}' cannot be merged into '{target}': only one of them has 'row-tracking.enabled'.",
            hint="A merge needs the same setting on both branches.",
        )
    if giver.schema.fields != taker.schema.fields or giver.schema.partition_keys != taker.schema.partition_keys:
        raise UsageError(
            f"The branch '{source}' cannot be merged into '{target}': their columns differ.",
            hint="Give both branches the same columns with ALTER TABLE, in the same order of changes.",
        )
    check_writable(taker.effective_schema)
    store = ManifestStore(giver)
    offered = tuple(live_entries(store, store.data_manifests(newest[0])))
    missing = _missing(offered, ManifestStore(taker), newest[1])
    _check_file_schemas(giver, taker, missing)
    return MergeBranchPlan(taker, source, newest[1].id, missing)


@translate_io_errors()
def execute_merge_branch(plan: MergeBranchPlan) -> int | None:
    """Commit the files to the target; return the new snapshot, or None if the target lacks no file."""
    if not plan.files:
        return None
    offered = plan.files
    if tracks_rows(plan.target):
        offered = tuple(replace(e, file=replace(e.file, first_row_id=None)) for e in offered)

    def change(store: ManifestStore, base: Snapshot | None) -> Change:
        return Change(kind=CommitKind.APPEND, entries=_missing(offered, store, base))

    committer = FileStoreCommit(plan.target)
    done = committer.commit_plan(change, CommitKind.APPEND, CommitMetadata(operation=Operation.WRITE))
    return done.snapshot_ids[-1] if isinstance(done, Committed) else None


def _latest(side: Table) -> Snapshot:
    found = side.snapshots.latest()
    if found is None:
        raise NotFoundError(
            f"The branch '{side.branch}' of table {side.name} has no snapshot to merge.",
            hint="Write to it first.",
            kind=ErrorKind.SNAPSHOT_NOT_FOUND,
        )
    return found


def _check_kind(side: Table) -> None:
    if side.is_primary_key_table:
        raise UnsupportedError(
            f"The branch '{side.branch}' has a primary key; only branches of append tables can be merged.",
            hint="Use fast_forward, or INSERT INTO … SELECT … FROM the branch.",
        )
    if upserts(side):
        raise UnsupportedError(
            f"The branch '{side.branch}' has 'upsert-key'; merging could add rows with keys that are there already.",
            hint="Use INSERT INTO … SELECT … FROM the branch, which replaces them.",
        )
    if side.options.flag("data-evolution.enabled"):
        raise UnsupportedError(
            f"The branch '{side.branch}' has 'data-evolution.enabled' and cannot be merged.",
            hint="Use INSERT INTO … SELECT … FROM the branch.",
        )


def _check_history(side: Table, latest: Snapshot) -> None:
    """Raise unless the branch has all its snapshots and none of them removed a file."""
    for snapshot_id in range(_FIRST, latest.id + 1):
        found = side.snapshots.find(snapshot_id)
        if found is None:
            fault = f"its snapshot {snapshot_id} does not exist any more"
        elif found.commit_kind not in _KEEPING:
            fault = f"its snapshot {snapshot_id} is of the kind {found.commit_kind}"
        else:
            continue
        raise UsageError(
            f"The branch '{side.branch}' cannot be merged: {fault}.",
            hint="A merge needs all snapshots of both branches, and only inserts. Use INSERT INTO … SELECT … instead.",
        )


def _missing(
    offered: tuple[ManifestEntry, ...], store: ManifestStore, base: Snapshot | None
) -> tuple[ManifestEntry, ...]:
    """Return the offered files that are not live in a snapshot."""
    metas = store.data_manifests(base) if base else []
    present = {_key(e) for e in live_entries(store, metas)}
    return tuple(replace(e, kind=FileKind.ADD) for e in offered if _key(e) not in present)


def _key(entry: ManifestEntry) -> DataFileKey:
    return DataFileKey(entry.partition, entry.bucket, entry.file.file_name)


def _check_file_schemas(giver: Table, taker: Table, files: tuple[ManifestEntry, ...]) -> None:
    there = set(taker.schema_store.ids())
    for schema_id in sorted({e.file.schema_id for e in files}):
        if schema_id not in there or not _same(giver.schema_store.get(schema_id), taker.schema_store.get(schema_id)):
            raise UsageError(
                f"The branch '{giver.branch}' cannot be merged into '{taker.branch}': its files have schema "
                f"{schema_id}, which '{taker.branch}' has otherwise or not at all.",
                hint="Use INSERT INTO … SELECT … FROM the branch.",
            )


def _same(one: TableSchema, other: TableSchema) -> bool:
    return (one.fields, one.partition_keys, one.options) == (other.fields, other.partition_keys, other.options)

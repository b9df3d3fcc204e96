"""Repair of tables with missing files: entries of missing data files and missing manifests are removed.

The rows of these files are lost; the rest of the table can be read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from paimon_spark.core.commit.change_set import Change
from paimon_spark.core.commit.committer import Committed, FileStoreCommit
from paimon_spark.core.commit.manifest_rewrite import Manifests, publish_rewritten
from paimon_spark.core.maintenance.deletion import Action
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata_io import THREADS, in_parallel, translate_io_errors
from paimon_spark.core.scan.scan import live_entries, live_in_partitions
from paimon_spark.core.table import Table
from paimon_spark.errors import ArgumentError
from paimon_spark.spec.features import check_writable
from paimon_spark.spec.kinds import CommitKind
from paimon_spark.spec.manifest import FileIdentity, ManifestEntry, ManifestFileMeta
from paimon_spark.spec.snapshot import Snapshot

REMOVE = "remove entry"


@dataclass(frozen=True, slots=True)
class MissingFilesPlan:
    """The live entries whose data files do not exist."""

    table: Table
    files: tuple[str, ...] = ()
    identities: frozenset[FileIdentity] = frozenset()
    bytes: int = 0
    actions: tuple[Action, ...] = ()


@translate_io_errors()
def plan_missing_files(table: Table, parallelism: int | None = None) -> MissingFilesPlan:
    """Find the data files of the latest snapshot that do not exist; nothing is changed.

    Args:
        table: the table.
        parallelism: number of directories that are listed concurrently.

    Raises:
        ArgumentError: `parallelism` is not positive.
    """
    if parallelism is not None and parallelism < 1:
        raise ArgumentError(f"parallelism is {parallelism}.", hint="Give 1 or more.")
    check_writable(table.effective_schema)
    live = live_in_partitions(ManifestStore(table), table.snapshots.latest(), None)
    missing = sorted(_missing(table, live, parallelism or THREADS), key=lambda found: found[0])
    actions = tuple(
        Action(REMOVE, path, e.file.file_size, f"the file does not exist; its {e.file.row_count} rows are lost")
        for path, e in missing
    )
    return MissingFilesPlan(
        table,
        tuple(path for path, _ in missing),
        frozenset(e.identity for _, e in missing),
        sum(e.file.file_size for _, e in missing),
        actions,
    )


def _missing(table: Table, live: Iterable[ManifestEntry], threads: int) -> Iterator[tuple[str, ManifestEntry]]:
    """Yield the entries of missing files. Files missing in a listing are looked up: listings may be stale."""
    directories: dict[str, dict[str, ManifestEntry]] = {}
    for e in live:
        path = table.paths.data_file(e.partition, e.bucket, e.file)
        directories.setdefault(path.rpartition("/")[0], {})[path] = e

    def look(directory: str) -> list[str]:
        there = {s.path for s in table.file_io.list(directory) if not s.is_dir}
        return [path for path in directories[directory] if path not in there and not table.file_io.exists(path)]

    for directory, paths in zip(directories, in_parallel(look, list(directories), threads), strict=True):
        yield from ((path, directories[directory][path]) for path in paths)


@translate_io_errors()
def execute_missing_files(plan: MissingFilesPlan) -> int | None:
    """Commit the removal of the entries; return the snapshot, None if there was nothing to remove.

    Raises:
        ConflictError: every attempt conflicted with another commit.
    """

    def change(store: ManifestStore, base: Snapshot | None) -> Change:
        live = live_in_partitions(store, base, None)
        gone = tuple(e.flipped() for e in live if e.identity in plan.identities)
        return Change(kind=CommitKind.OVERWRITE, entries=gone)

    if not plan.identities:
        return None
    done = FileStoreCommit(plan.table).commit_plan(change, CommitKind.OVERWRITE)
    return done.snapshot_ids[-1] if isinstance(done, Committed) else None


@dataclass(frozen=True, slots=True)
class MissingManifestsPlan:
    """The manifests of the latest snapshot that do not exist."""

    table: Table
    names: frozenset[str] = frozenset()
    actions: tuple[Action, ...] = ()


@translate_io_errors()
def plan_missing_manifests(table: Table) -> MissingManifestsPlan:
    """Find the data manifests of the latest snapshot that do not exist; nothing is changed.

    Raises:
        CorruptTableError: a manifest list is missing; only a rollback repairs that.
    """
    check_writable(table.effective_schema)
    latest = table.snapshots.latest()
    if latest is None:
        return MissingManifestsPlan(table)
    metas = ManifestStore(table).data_manifests(latest)
    there = in_parallel(lambda m: table.file_io.exists(table.paths.manifest(m.file_name)), metas)
    missing = [m for m, exists in zip(metas, there, strict=True) if not exists]
    actions = tuple(Action(REMOVE, table.paths.manifest(m.file_name), m.file_size, _lost(m)) for m in missing)
    return MissingManifestsPlan(table, frozenset(m.file_name for m in missing), actions)


def _lost(meta: ManifestFileMeta) -> str:
    return (
        f"the manifest does not exist; the files that it added ({meta.num_added_files}) are lost, those that it "
        f"removed ({meta.num_deleted_files}) come back"
    )


@translate_io_errors()
def execute_missing_manifests(plan: MissingManifestsPlan) -> int | None:
    """Commit a snapshot without the missing manifests; return it, None if none is missing.

    Raises:
        ConflictError: every attempt conflicted with another commit.
    """

    def rewrite(store: ManifestStore, base: Snapshot) -> Manifests:
        kept = [m for m in store.data_manifests(base) if m.file_name not in plan.names]
        return Manifests(kept, sum(e.file.row_count for e in live_entries(store, kept)))

    if not plan.names:
        return None
    return publish_rewritten(plan.table, rewrite, CommitKind.OVERWRITE, purpose="remove-unexisting-manifests")

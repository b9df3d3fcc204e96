"""Compaction of manifests: all small ones, and those with entries of removed files, become few large ones."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.core.commit.manifest_rewrite import Manifests, publish_rewritten
from paimon_spark.core.maintenance.deletion import Action
from paimon_spark.core.metadata.manifest_merge import plan_full_merge
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.spec.features import check_writable
from paimon_spark.spec.kinds import CommitKind
from paimon_spark.spec.manifest import ManifestFileMeta
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.units import format_memory

MERGE = "merge"


@dataclass(frozen=True, slots=True)
class CompactManifestPlan:
    """The manifests to merge; none if merging them would change nothing.

    Attributes:
        table: the table.
        summary: counts and sizes of the manifests of the latest snapshot.
        merged: the manifests to merge.
        files_out: number of manifests that replace them.
        actions: one action a manifest to merge.
    """

    table: Table
    summary: str
    merged: tuple[ManifestFileMeta, ...] = ()
    files_out: int = 0
    actions: tuple[Action, ...] = ()


@translate_io_errors()
def plan_compact_manifest(table: Table) -> CompactManifestPlan:
    """Plan a compaction of the manifests of the latest snapshot; nothing is changed."""
    check_writable(table.effective_schema)
    latest = table.snapshots.latest()
    if latest is None:
        return CompactManifestPlan(table, "no snapshot exists")
    store = ManifestStore(table)
    metas = store.data_manifests(latest)
    merge = plan_full_merge(store, metas)
    files_out = store.file_count(merge.entries)
    if files_out >= len(merge.merged) and not any(m.num_deleted_files for m in metas):
        return CompactManifestPlan(table, _summary(table, metas))
    target = table.options.manifest_target_file_size
    actions = tuple(
        Action(MERGE, table.paths.manifest(m.file_name), m.file_size, _reason(m, target)) for m in merge.merged
    )
    return CompactManifestPlan(table, _summary(table, metas), tuple(merge.merged), files_out, actions)


@translate_io_errors()
def execute_compact_manifest(plan: CompactManifestPlan) -> int | None:
    """Commit the compaction on top of the latest snapshot; return the new snapshot, None if there is nothing to do.

    Raises:
        ConflictError: every attempt conflicted with another commit.
    """

    def rewrite(store: ManifestStore, base: Snapshot) -> Manifests:
        merge = plan_full_merge(store, store.data_manifests(base))
        return Manifests([*merge.kept, *store.write(merge.entries)], base.total_record_count)

    if not plan.actions:
        return None
    return publish_rewritten(plan.table, rewrite, CommitKind.COMPACT, purpose="compact-manifest")


def _reason(meta: ManifestFileMeta, target: int) -> str:
    if meta.num_deleted_files:
        return f"{meta.num_deleted_files} of its entries remove files"
    small = meta.file_size < target
    return f"smaller than {format_memory(target)}" if small else "some of its entries are removed by others"


def _summary(table: Table, metas: list[ManifestFileMeta]) -> str:
    size, target = sum(m.file_size for m in metas), table.options.manifest_target_file_size
    removing = [m.num_deleted_files for m in metas if m.num_deleted_files]
    small = sum(m.file_size < target for m in metas)
    return (
        f"{len(metas)} manifest files ({size} bytes), {sum(removing)} deleted entries in {len(removing)} files, "
        f"{small} undersized files (< {format_memory(target)})"
    )

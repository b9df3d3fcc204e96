"""Builds the next snapshot from a base snapshot and a change, and writes its manifests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from paimon_spark.core.commit.change_set import Change, combine_index
from paimon_spark.core.commit.conflict_check import check_change, conflict_error
from paimon_spark.core.commit.conflict_detection import VectorChanged
from paimon_spark.core.commit.deletion_vector_rewrite import RewrittenVectors, rewrite_deletion_vectors
from paimon_spark.core.commit.strict_mode import StrictMode
from paimon_spark.core.file_schemas import FileSchemas
from paimon_spark.core.metadata.manifest_merge import merge_manifests
from paimon_spark.core.metadata.manifest_store import ManifestStore, may_hold_partition
from paimon_spark.core.metadata.row_tracking import assign_row_ids, tracks_rows
from paimon_spark.core.metadata.sequence_numbers import properties_with_max_sequence
from paimon_spark.core.metadata.snapshot_order import assign_snapshot
from paimon_spark.core.scan.entry_filter import deleted_entries, in_partitions
from paimon_spark.core.scan.scan import live_entries
from paimon_spark.core.table import Table
from paimon_spark.errors import ConflictError
from paimon_spark.spec.kinds import BATCH_COMMIT_IDENTIFIER, CommitKind, FileKind, Operation
from paimon_spark.spec.manifest import ManifestEntry, ManifestFileMeta
from paimon_spark.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """Metadata of a commit that its snapshot records."""

    identifier: int = BATCH_COMMIT_IDENTIFIER
    operation: Operation | None = None
    watermark: int | None = None
    properties: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class BuiltSnapshot:
    """A snapshot whose manifests are written. The `superseded` files can be deleted once it is published."""

    snapshot: Snapshot
    superseded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SnapshotBuilder:
    """Builds the snapshots of one commit, each on top of the base of its attempt.

    Args:
        table: the table.
        commit_user: the committing user.
        metadata: other properties of the snapshots.
        clock: epoch seconds.
        strict: refuses changes of partitions that other users have changed.
    """

    table: Table
    commit_user: str
    metadata: CommitMetadata
    clock: Callable[[], float] = field(repr=False)
    strict: StrictMode | None = None

    def build(self, store: ManifestStore, base: Snapshot | None, change: Change, schema_id: int) -> BuiltSnapshot:
        """Return the snapshot that follows `base`; its manifests are written through `store`.

        Args:
            store: manifests of the table.
            base: snapshot that the change follows.
            change: the change to commit.
            schema_id: the newest schema of the table.

        Raises:
            ConflictError: the change conflicts with `base`, or leaves files of it that the table's schema cannot read.
        """
        _check_definition(store, base, change)
        if self.strict is not None:
            self.strict.check(store, base, change)
        check_change(store, base, change)
        rewritten = self._rewrite_vectors(store, base, change)
        return BuiltSnapshot(self._snapshot(store, base, rewritten.change, schema_id), rewritten.superseded)

    def _rewrite_vectors(self, store: ManifestStore, base: Snapshot | None, change: Change) -> RewrittenVectors:
        without = self.table.is_primary_key_table and not self.table.options.deletion_vectors_enabled
        if without or not change.needs_check:
            return RewrittenVectors(change)
        rewritten = rewrite_deletion_vectors(store, store.index_entries(base), change)
        if isinstance(rewritten, VectorChanged):
            raise conflict_error(self.table, rewritten)
        return rewritten

    def _orders(self, change: Change) -> bool:
        """Return whether the added rows are newer than all others; files of earlier commits keep their order."""
        adds_rows = change.kind is not CommitKind.COMPACT and not change.readds_files
        return adds_rows and self.table.is_primary_key_table and self.table.options.snapshot_ordering

    def _snapshot(self, store: ManifestStore, base: Snapshot | None, change: Change, schema_id: int) -> Snapshot:
        snapshot_id = base.id + 1 if base else 1
        next_row_id = base.next_row_id or 0 if base else 0
        if tracks_rows(self.table):
            if base is not None and base.next_row_id is None:
                next_row_id = _free_row_id(store, base)
            grouped = self.table.options.flag("row-tracking.partition-group-on-commit")
            entries, next_row_id = assign_row_ids(change.entries, snapshot_id, next_row_id, grouped=grouped)
            change = replace(change, entries=entries)
        if self._orders(change):
            change = replace(change, entries=assign_snapshot(change.entries, snapshot_id))
        base_list, base_size = store.write_list(_base_manifests(store, base, change) if base else [])
        delta_list, delta_size = store.write_list(store.write(change.entries))
        changelog_list, changelog_size = _write_changelog(store, change)
        delta_rows = _row_balance(change.entries)
        now = int(self.clock() * 1000)
        return Snapshot(
            id=snapshot_id,
            schema_id=schema_id,
            base_manifest_list=base_list,
            base_manifest_list_size=base_size,
            delta_manifest_list=delta_list,
            delta_manifest_list_size=delta_size,
            changelog_manifest_list=changelog_list,
            changelog_manifest_list_size=changelog_size,
            index_manifest=_write_index(store, base, change),
            commit_user=self.commit_user,
            commit_identifier=self.metadata.identifier,
            commit_kind=change.kind,
            time_millis=max(now, base.time_millis) if base else now,
            total_record_count=(base.total_record_count if base else 0) + delta_rows,
            delta_record_count=delta_rows,
            changelog_record_count=sum(e.file.row_count for e in change.changelog) if change.changelog else None,
            watermark=_later(base.watermark if base else None, self.metadata.watermark),
            statistics=change.statistics or (base.statistics if base and base.schema_id == schema_id else None),
            properties=properties_with_max_sequence(store, base, change.entries, self.metadata.properties),
            next_row_id=next_row_id,
            operation=self.metadata.operation,
        )


def _check_definition(store: ManifestStore, base: Snapshot | None, change: Change) -> None:
    """Reject a change that leaves files from before a REPLACE TABLE, whose snapshot is missing."""
    replaced = None if base is None else FileSchemas(store.table).replaced([base.schema_id])
    if base is not None and replaced is not None and _leaves_files(store, base, change):
        raise ConflictError(
            f"Nothing was committed to table {store.table.name}: it has files from before it was replaced by a table "
            f"with another {replaced[1]}.",
            hint="Run the statement again if another one just replaces the table. If that one was interrupted, repeat "
            "it first.",
        )


def _leaves_files(store: ManifestStore, base: Snapshot, change: Change) -> bool:
    removed = {e.identity for e in change.entries if e.kind is FileKind.DELETE}
    return any(e.identity not in removed for e in live_entries(store, store.data_manifests(base)))


def _free_row_id(store: ManifestStore, base: Snapshot) -> int:
    """Return the first free row id if a release without row tracking has omitted it from its snapshots."""
    snapshots = store.table.snapshots
    older = (snapshots.find(i) for i in sorted(snapshots.ids(), reverse=True) if i < base.id)
    recorded = next((s.next_row_id for s in older if s is not None and s.next_row_id is not None), 0)
    live = live_entries(store, store.data_manifests(base))
    return max([recorded, *(e.file.first_row_id + e.file.row_count for e in live if e.file.first_row_id is not None)])


def _base_manifests(store: ManifestStore, base: Snapshot, change: Change) -> list[ManifestFileMeta]:
    """Return the manifests of the base: merged or, if the change adds removed files again, only with live entries.

    A DELETE cancels every ADD of its file in the manifests of a snapshot, whatever their order.
    """
    metas = store.data_manifests(base)
    again = change.readds_files or _adds_deleted(store, metas, change)
    return store.write(list(live_entries(store, metas))) if again else merge_manifests(store, metas)


def _adds_deleted(store: ManifestStore, metas: Sequence[ManifestFileMeta], change: Change) -> bool:
    """Return whether a file that the change moves to another level had that level before: some DELETE names it."""
    gone = {e.file.file_name for e in change.entries if e.kind is FileKind.DELETE}
    moved = {e.identity for e in change.entries if e.kind is FileKind.ADD and e.file.file_name in gone}
    if not moved:
        return False
    partitions, buckets = {i.partition for i in moved}, [i.bucket for i in moved]
    near = [m for m in metas if may_hold_partition(m, partitions, store.table.partition_types)]
    found = deleted_entries(store, near, lambda c: in_partitions(c, partitions) & np.isin(c.bucket, buckets))
    return any(e.identity in moved for e in found)


def _write_changelog(store: ManifestStore, change: Change) -> tuple[str | None, int | None]:
    """Write the changelog's manifests; return the name and size of their list, if there is any."""
    if not change.changelog:
        return None, None
    return store.write_list(store.write(change.changelog))


def _write_index(store: ManifestStore, base: Snapshot | None, change: Change) -> str | None:
    """Return the name of the index manifest, which is that of the base unless index files change."""
    if not change.index_changes:
        return base.index_manifest if base else None
    mode = store.table.bucket_mode
    return store.write_index(combine_index(mode, store.index_entries(base), change.index_changes))


def _row_balance(entries: Sequence[ManifestEntry]) -> int:
    return sum(e.file.row_count if e.kind is FileKind.ADD else -e.file.row_count for e in entries)


def _later(previous: int | None, given: int | None) -> int | None:
    known = [w for w in (previous, given) if w is not None]
    return max(known, default=None)

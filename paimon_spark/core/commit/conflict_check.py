"""Checks of a change against the current table: read its metadata, compare, and raise ConflictError.

The comparison itself is in `conflict_detection`, whose functions do no I/O.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence

from paimon_spark.core.commit.change_set import Change
from paimon_spark.core.commit.conflict_detection import (
    BucketChanged,
    Conflict,
    FileAdded,
    IndexedRowsMoved,
    KeysMoved,
    RowsAdded,
    bucket_count_conflict,
    describe,
    find_conflict,
    find_index_conflict,
    global_index_conflict,
    hash_index_conflict,
    vector_added_twice,
    vector_of_missing_file,
)
from paimon_spark.core.compact.global_indexes import GlobalIndexTask, RowSpan
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.scan.bucket_totals import bucket_totals
from paimon_spark.core.scan.indexed_rows import ColumnRows, column_rows
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.core.table import Table
from paimon_spark.errors import ConflictError
from paimon_spark.spec.kinds import BucketMode, CommitKind, FileKind
from paimon_spark.spec.manifest import BucketKey
from paimon_spark.spec.options import POSTPONE_BUCKET
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.types import DataField


def check_change(store: ManifestStore, base: Snapshot | None, change: Change) -> None:
    """Check that a change does not conflict with a snapshot; `rewrite_deletion_vectors` checks deletion vectors.

    Args:
        store: manifests of the table.
        base: snapshot that the change follows.
        change: the change to commit.

    Raises:
        ConflictError: the change conflicts with the snapshot.
    """
    conflict = _conflict(store, base, change)
    if conflict is not None:
        raise conflict_error(store.table, conflict)


def check_hash_index(
    store: ManifestStore, base: Snapshot | None, change: Change, known: Mapping[bytes, Mapping[int, str]]
) -> None:
    """Check that the hash indexes that writers used to assign dynamic buckets are still current.

    Args:
        store: manifests of the table.
        base: snapshot that the change follows.
        change: the change of the writers.
        known: hash index files that the writers read, by partition and bucket.

    Raises:
        ConflictError: a hash index of a changed partition has changed.
    """
    conflict = hash_index_conflict(store.index_entries(base), known, change.partitions)
    if conflict is not None:
        raise conflict_error(store.table, conflict)


def check_same_keys(store: ManifestStore, base: Snapshot | None, snapshot_id: int) -> None:
    """Check that no rows were committed since writers looked up the partitions of all keys.

    Args:
        store: manifests of the table.
        base: snapshot that the change follows.
        snapshot_id: snapshot that the writers read; 0 if there was none.

    Raises:
        ConflictError: another commit wrote rows, or the snapshots in between have expired.
    """
    latest = base.id if base is not None else 0
    for number in range(snapshot_id + 1, latest + 1):
        found = store.table.snapshots.find(number)
        if found is None or found.commit_kind not in (CommitKind.COMPACT, CommitKind.ANALYZE):
            raise conflict_error(store.table, KeysMoved(b"", 0, number))


def check_same_rows(store: ManifestStore, base: Snapshot | None, change: Change, snapshot_id: int) -> None:
    """Check that no rows were written to buckets of the changed partitions since their sequence numbers were read.

    Args:
        store: manifests of the table.
        base: snapshot that the change follows.
        change: the change to commit.
        snapshot_id: snapshot that the sequence numbers are of.

    Raises:
        ConflictError: another commit wrote rows, or the snapshots in between have expired.
    """
    for number in range(snapshot_id + 1, (base.id if base is not None else 0) + 1):
        found = store.table.snapshots.find(number)
        if found is not None and found.commit_kind is CommitKind.COMPACT:
            continue
        added = [] if found is None else store.delta_entries(found)
        rows = [e for e in added if e.kind is FileKind.ADD and e.bucket >= 0 and e.partition in change.partitions]
        if found is None or rows:
            raise conflict_error(store.table, RowsAdded(rows[0].partition if rows else b"", 0, number))


def check_same_buckets(store: ManifestStore, base: Snapshot | None, change: Change, snapshot_id: int) -> None:
    """Check that no rows were written to the buckets that a change removes files from since their files were read.

    New rows of the change must belong to as many buckets as the rows of their partitions.

    Args:
        store: manifests of the table.
        base: snapshot that the change follows.
        change: the change to commit.
        snapshot_id: snapshot that the files were read in.

    Raises:
        ConflictError: another commit changed the rows of a bucket, or the snapshots in between have expired.
    """
    buckets = {e.bucket_key for e in change.entries if e.kind is FileKind.DELETE}
    if not buckets:
        return
    places = buckets | {BucketKey(b.partition, POSTPONE_BUCKET) for b in buckets}
    for number in range(snapshot_id + 1, (base.id if base is not None else 0) + 1):
        found = store.table.snapshots.find(number)
        if found is not None and found.commit_kind in (CommitKind.COMPACT, CommitKind.ANALYZE):
            continue
        changed = min(buckets) if found is None else _changed_place(store, found, places)
        if changed is not None:
            raise conflict_error(store.table, BucketChanged(changed.partition, changed.bucket, number))
    counts = bucket_count_conflict(bucket_totals(store, base, change.partitions), change.entries)
    if counts is not None:
        raise conflict_error(store.table, counts)


def _changed_place(store: ManifestStore, snapshot: Snapshot, places: Collection[BucketKey]) -> BucketKey | None:
    """Return one of the buckets that a snapshot changes, or None."""
    return next((e.bucket_key for e in store.delta_entries(snapshot) if e.bucket_key in places), None)


def check_whole_partitions(store: ManifestStore, base: Snapshot | None, change: Change) -> None:
    """Check that a change removes all files of the partitions that it changes.

    Args:
        store: manifests of the table.
        base: snapshot that the change follows.
        change: the change to commit.

    Raises:
        ConflictError: another commit added files.
    """
    removed = {e.identity for e in change.entries if e.kind is FileKind.DELETE}
    for entry in live_in_partitions(store, base, change.partitions):
        if entry.bucket >= 0 and entry.identity not in removed:
            raise conflict_error(store.table, FileAdded(entry.partition, entry.bucket, entry.file.file_name))


def check_indexed_rows(
    store: ManifestStore, base: Snapshot | None, change: Change, column: DataField, tasks: Sequence[GlobalIndexTask]
) -> None:
    """Check that new global indexes have the values of the table, of rows that no index has yet.

    Args:
        store: manifests of the table.
        base: snapshot that the change follows.
        change: the change to commit.
        column: the indexed column.
        tasks: the indexed rows, and the files that their values were read from.

    Raises:
        ConflictError: the values are elsewhere, or another commit indexed the same rows.
    """
    units: dict[BucketKey, list[ColumnRows]] = {}
    for unit in column_rows(store.table, live_in_partitions(store, base, {t.partition for t in tasks}), column):
        if unit.first is not None:
            units.setdefault(unit.key, []).append(unit)
    for found in units.values():
        found.sort(key=_first_row)
    for task in tasks:
        for span in task.spans:
            if not _is_in_place(span, units.get(BucketKey(task.partition, span.bucket), [])):
                raise conflict_error(store.table, IndexedRowsMoved(task.partition, span.bucket, span.first, span.end))
    conflict = global_index_conflict(store.index_entries(base), change.index_changes)
    if conflict is not None:
        raise conflict_error(store.table, conflict)


def _first_row(unit: ColumnRows) -> int:
    return unit.first or 0


def _is_in_place(span: RowSpan, units: Sequence[ColumnRows]) -> bool:
    """Return whether the values of a span are in the file that they were read from; units are in order."""
    at = bisect_right(units, span.first, key=_first_row) - 1
    if at < 0:
        return False
    unit, name = units[at], None if span.file is None else span.file.file_name
    return unit.file_name == name and span.end <= _first_row(unit) + unit.rows


def conflict_error(table: Table, conflict: Conflict) -> ConflictError:
    """Return the error for a conflict."""
    what, hint = describe(conflict, table.partition_text)
    return ConflictError(f"The commit to table {table.name} is refused. {what}", hint=hint)


def _conflict(store: ManifestStore, base: Snapshot | None, change: Change) -> Conflict | None:
    table = store.table
    if not change.needs_check and table.bucket_mode not in (BucketMode.HASH_FIXED, BucketMode.POSTPONE):
        return None
    if not change.needs_check:
        return bucket_count_conflict(bucket_totals(store, base, change.partitions), change.entries)
    live = live_in_partitions(store, base, change.partitions) if change.partitions else []
    conflict = find_conflict(live, change.entries, change.kind, table.key_types)
    if conflict is not None:
        return conflict
    index = store.index_entries(base)
    there = [*live, *(e for e in change.entries if e.kind is FileKind.ADD)]
    return (
        vector_added_twice(change.index_changes)
        or vector_of_missing_file(there, change.data_files_with_new_vectors)
        or find_index_conflict(index, [e for e in change.index_changes if e.kind is FileKind.DELETE])
    )

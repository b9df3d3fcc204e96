"""Checks of the row ranges of a table with data evolution, whose files hold different columns of the same rows.

New column files must cover rows as the table's files do now, and nobody else may have changed the same columns of the
same rows since they were read. A compaction must not leave files that cover a row range only in part. No stale global
index may remain, unless the table's options allow it. (docs/spec/semantics.md, Z6)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from paimon_spark.core.commit.change_set import Change
from paimon_spark.core.commit.conflict_check import conflict_error
from paimon_spark.core.commit.conflict_detection import ColumnsChanged, RowRangeGone, RowRangesOverlap
from paimon_spark.core.file_schemas import FileSchemas
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.row_ranges import is_blob_file, is_vector_file
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.core.table import Table
from paimon_spark.errors import UnsupportedError
from paimon_spark.format.manifest.codec import indexed_columns
from paimon_spark.spec.kinds import CommitKind, FileKind
from paimon_spark.spec.manifest import DataFileMeta, IndexManifestEntry, ManifestEntry
from paimon_spark.spec.snapshot import Snapshot

_REFUSE, _DROP, _LEAVE = "THROW_ERROR", "DROP_PARTITION_INDEX", "IGNORE"


@dataclass(frozen=True, slots=True, order=True)
class Ids:
    """Consecutive row ids: the first, and the one after the last."""

    first: int
    end: int

    def overlaps(self, other: Ids) -> bool:
        """Return whether an id is in both."""
        return self.first < other.end and other.first < self.end

    def covers(self, other: Ids) -> bool:
        """Return whether all ids of another range are in this one."""
        return self.first <= other.first and other.end <= self.end


def _ids(file: DataFileMeta) -> Ids:
    first = file.first_row_id or 0
    return Ids(first, first + file.row_count)


def _placed(entries: Iterable[ManifestEntry]) -> list[tuple[Ids, ManifestEntry]]:
    """Return the entries of files that have row ids, in the order of these."""
    found = [(_ids(e.file), e) for e in entries if e.file.first_row_id is not None]
    return sorted(found, key=lambda p: p[0])


def check_row_ranges(store: ManifestStore, base: Snapshot | None, change: Change) -> None:
    """Check that the files of a change cover the same rows as those of the snapshot that it follows.

    Args:
        store: manifests of the table.
        base: snapshot that the change follows.
        change: the change to commit.

    Raises:
        ConflictError: another commit removed rows of its files, or put them into files of other ranges.
    """
    if all(e.file.first_row_id is None for e in change.entries):
        return
    live = live_in_partitions(store, base, change.partitions)
    conflict = missing_range(live, change) or overlapping_ranges(live, change) or left_behind(live, change)
    if conflict is not None:
        raise conflict_error(store.table, conflict)


def check_same_columns(store: ManifestStore, base: Snapshot | None, change: Change, snapshot_id: int) -> None:
    """Check that no other commit changed columns of the rows whose columns a change replaces since they were read.

    Args:
        store: manifests of the table.
        base: snapshot that the change follows.
        change: the change to commit.
        snapshot_id: the snapshot that the rows were read from, or an earlier one.

    Raises:
        ConflictError: another commit did, or the snapshots in between have expired.
    """
    table = store.table
    mine = _ChangedColumns(table, change)
    if mine.is_empty:
        return
    for number in range(snapshot_id + 1, (base.id if base is not None else 0) + 1):
        found = table.snapshots.find(number)
        if found is not None and found.commit_kind is CommitKind.COMPACT:
            continue
        theirs = [] if found is None else [e for e in store.delta_entries(found) if e.partition in change.partitions]
        clash = next((e for e in theirs if mine.include(e.file)), None)
        if clash is not None:
            raise conflict_error(table, ColumnsChanged(clash.partition, clash.bucket, number))
        if found is None:
            raise conflict_error(table, ColumnsChanged(min(change.partitions), 0, number))


def with_index_action(store: ManifestStore, base: Snapshot | None, change: Change) -> Change:
    """Return a change, without the global indexes of columns that it replaces if the table's options drop these.

    They would name the old values. By 'global-index.column-update-action', the change is refused, indexes of its
    partitions are dropped, or they are left, and readers use none.

    Args:
        store: manifests of the table.
        base: snapshot that the change follows.
        change: the change to commit.

    Raises:
        UnsupportedError: there is such an index, and the options refuse the change.
    """
    action = (store.table.options.get("global-index.column-update-action") or _REFUSE).upper()
    changed = _ChangedColumns(store.table, change).columns if action != _LEAVE else set()
    indexes = [e for e in store.index_entries(base) if e.partition in change.partitions] if changed else []
    stale = [e for e in indexes if not changed.isdisjoint(indexed_columns(e.file))]
    if stale and action != _DROP:
        raise _indexed(store.table, stale[0], min(changed.intersection(indexed_columns(stale[0].file))))
    dropped = (replace(e, kind=FileKind.DELETE) for e in stale)
    return replace(change, index_changes=(*change.index_changes, *dropped))


def _indexed(table: Table, entry: IndexManifestEntry, column: int) -> UnsupportedError:
    name = next((f.name for f in table.schema.fields if f.id == column), str(column))
    return UnsupportedError(
        f"The column '{name}' of table {table.name} has a global index, '{entry.file.file_name}' of type "
        f"{entry.file.index_type}, which would keep the old values.",
        hint="Nothing was written. Drop the index, change the column, and create the index again; or set "
        f"'global-index.column-update-action' = '{_DROP}' in the table.",
    )


def missing_range(live: Iterable[ManifestEntry], change: Change) -> RowRangeGone | None:
    """Return an added file for whose rows the table has no data file, or None.

    A file of new values needs a data file of the same rows, and one of BLOB or VECTOR values a data file that covers
    them. The output of a compaction may cover the rows of several.

    Args:
        live: live entries of the changed partitions.
        change: the change to commit; its files for new rows have no ids yet.
    """
    there: dict[tuple[bytes, int], set[Ids]] = {}
    for ids, e in _placed(live):
        if not _is_dedicated(e.file):
            there.setdefault(e.bucket_key, set()).add(ids)
    joined = {key: list(_adjoining(ids)) for key, ids in there.items()}
    for wanted, e in _placed(e for e in change.entries if e.kind is FileKind.ADD):
        ranges, whole = there.get(e.bucket_key, set()), joined.get(e.bucket_key, [])
        if change.kind is CommitKind.COMPACT:
            known = any(ids.covers(wanted) for ids in whole)
        elif _is_dedicated(e.file):
            known = any(ids.covers(wanted) for ids in ranges)
        else:
            known = wanted in ranges
        if not known:
            return RowRangeGone(e.partition, e.bucket, e.file.file_name)
    return None


def overlapping_ranges(live: Iterable[ManifestEntry], change: Change) -> RowRangesOverlap | None:
    """Return two files that would hold some, but not all, of the same rows after a change, or None.

    Args:
        live: live entries of the changed partitions.
        change: the change to commit.
    """
    removed = {e.identity for e in change.entries if e.kind is FileKind.DELETE}
    after = [e for e in live if e.identity not in removed]
    placed = _placed([*after, *(e for e in change.entries if e.kind is FileKind.ADD)])
    data = [(ids, e) for ids, e in placed if not _is_dedicated(e.file)]
    for (one, first), (two, second) in pairwise(data):
        if one != two and one.overlaps(two):
            return RowRangesOverlap(second.partition, second.bucket, first.file.file_name, second.file.file_name)
    at = 0
    for ids, e in placed:
        if not _is_dedicated(e.file):
            continue
        while at < len(data) and data[at][0].end <= ids.first:
            at += 1
        if at == len(data) or not data[at][0].covers(ids):
            other = data[at][1] if at < len(data) else e
            return RowRangesOverlap(e.partition, e.bucket, other.file.file_name, e.file.file_name)
    return None


def left_behind(live: Iterable[ManifestEntry], change: Change) -> RowRangesOverlap | None:
    """Return a file whose rows a compaction gives new ids, and one of other columns of them that stays, or None.

    Args:
        live: live entries of the changed partitions.
        change: the change to commit.
    """
    gone = _renumbered(change)
    if not gone:
        return None
    removed = {e.identity for e in change.entries if e.kind is FileKind.DELETE}
    staying = _placed(e for e in live if e.identity not in removed and not _is_dedicated(e.file))
    for ids, old in gone:
        at = bisect_right(staying, ids.first, key=lambda p: p[0].end)
        if at < len(staying) and staying[at][0].overlaps(ids):
            return RowRangesOverlap(old.partition, old.bucket, old.file.file_name, staying[at][1].file.file_name)
    return None


def without_moved_indexes(store: ManifestStore, base: Snapshot | None, change: Change) -> Change:
    """Return a change, without the global indexes of the partitions in which it gives rows new ids.

    Args:
        store: manifests of the table.
        base: snapshot that the change follows.
        change: the change to commit.
    """
    partitions = {e.partition for _, e in _renumbered(change)}
    indexes = [e for e in store.index_entries(base) if e.partition in partitions] if partitions else []
    dropped = (replace(e, kind=FileKind.DELETE) for e in indexes if e.file.global_index is not None)
    return replace(change, index_changes=(*change.index_changes, *dropped))


def _renumbered(change: Change) -> list[tuple[Ids, ManifestEntry]]:
    """Return the data files that a compaction removes, and whose row ids no added file has, in the order of these."""
    if change.kind is not CommitKind.COMPACT:
        return []
    data = [e for e in change.entries if not _is_dedicated(e.file)]
    kept = list(_adjoining(ids for ids, _ in _placed(e for e in data if e.kind is FileKind.ADD)))
    gone = _placed(e for e in data if e.kind is FileKind.DELETE)
    return [(ids, e) for ids, e in gone if not any(k.covers(ids) for k in _near(kept, ids))]


def _near(ranges: Sequence[Ids], ids: Ids) -> Sequence[Ids]:
    """Return the one of some ranges, in order, that may cover another."""
    at = bisect_right(ranges, ids.first, key=lambda r: r.end)
    return ranges[at : at + 1]


def _adjoining(ranges: Iterable[Ids]) -> Iterator[Ids]:
    """Yield the ranges joined with those that follow them directly."""
    current: Ids | None = None
    for ids in sorted(ranges):
        if current is None or ids.first > current.end:
            if current is not None:
                yield current
            current = ids
        else:
            current = Ids(current.first, max(current.end, ids.end))
    if current is not None:
        yield current


def _is_dedicated(file: DataFileMeta) -> bool:
    return is_blob_file(file) or is_vector_file(file)


class _ChangedColumns:
    """The ids of the columns that a change replaces, by row range."""

    def __init__(self, table: Table, change: Change) -> None:
        self._schemas = FileSchemas(table)
        self._ranges: list[tuple[Ids, set[int]]] = []
        added = [e.file for e in change.entries if e.kind is FileKind.ADD and e.file.first_row_id is not None]
        for file in sorted(added, key=lambda f: f.first_row_id or 0):
            ids = _ids(file)
            if self._ranges and self._ranges[-1][0].overlaps(ids):
                before, columns = self._ranges[-1]
                ids = Ids(before.first, max(before.end, ids.end))
                self._ranges[-1] = (ids, columns | self._held(file))
            else:
                self._ranges.append((ids, self._held(file)))

    @property
    def is_empty(self) -> bool:
        """Return whether the change replaces no columns."""
        return not self._ranges

    @property
    def columns(self) -> set[int]:
        """Return the columns."""
        return set().union(*(columns for _, columns in self._ranges))

    def include(self, file: DataFileMeta) -> bool:
        """Return whether a file holds some of the columns of some of the rows."""
        if file.first_row_id is None:
            return False
        ids = _ids(file)
        at = bisect_right(self._ranges, ids.first, key=lambda r: r[0].end)
        while at < len(self._ranges) and self._ranges[at][0].first < ids.end:
            if not self._ranges[at][1].isdisjoint(self._held(file)):
                return True
            at += 1
        return False

    def _held(self, file: DataFileMeta) -> set[int]:
        fields = self._schemas.of(file.schema_id).fields
        return {f.id for f in fields if file.write_cols is None or f.name in file.write_cols}

"""Kinds of commit conflicts, and pure functions that detect them; `conflict_check` reads the metadata they compare.

A conflict is final for its commit, because files that the commit relied on have changed. Losing the race for a snapshot
id is not a conflict: `commit_retry` retries it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from paimon_spark.core.levels import key_range
from paimon_spark.core.metadata.deletion_vectors import NO_VECTOR
from paimon_spark.spec.global_indexes import Range, added_indexes
from paimon_spark.spec.kinds import CommitKind, FileKind
from paimon_spark.spec.manifest import (
    HASH_INDEX,
    BucketKey,
    DataFileKey,
    FileIdentity,
    IndexFileMeta,
    IndexManifestEntry,
    ManifestEntry,
)
from paimon_spark.spec.types import DataType


@dataclass(frozen=True, slots=True)
class FileGone:
    """A file to be removed is not live: another commit compacted or overwrote it."""

    partition: bytes
    bucket: int
    level: int
    file_name: str


@dataclass(frozen=True, slots=True)
class FileLive:
    """A file to be added is live already."""

    partition: bytes
    bucket: int
    level: int
    file_name: str


@dataclass(frozen=True, slots=True)
class FileRepeated:
    """The change names one file twice: added twice, removed twice, or both added and removed."""

    partition: bytes
    bucket: int
    level: int
    file_name: str


@dataclass(frozen=True, slots=True)
class BucketCountChanged:
    """A partition is organised in another number of buckets than the change assumes."""

    partition: bytes
    bucket: int
    existing: int
    wanted: int


@dataclass(frozen=True, slots=True)
class KeyRangesOverlap:
    """Two files of one level above 0 would hold overlapping keys."""

    partition: bytes
    bucket: int
    level: int
    first_file: str
    second_file: str


@dataclass(frozen=True, slots=True)
class IndexFileGone:
    """An index file to be replaced no longer belongs to the table."""

    partition: bytes
    bucket: int
    index_type: str
    file_name: str


@dataclass(frozen=True, slots=True)
class HashIndexMoved:
    """The hash index by which buckets were assigned no longer belongs to the table."""

    partition: bytes
    bucket: int


@dataclass(frozen=True, slots=True)
class KeysMoved:
    """Rows were written after a cross-partition upsert looked up the partitions of its keys."""

    partition: bytes
    bucket: int
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class RowsAdded:
    """Rows were written to buckets to which a compaction replays postponed rows."""

    partition: bytes
    bucket: int
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class BucketChanged:
    """Rows were written to a bucket after a statement read the files that it rewrites there."""

    partition: bytes
    bucket: int
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class FileAdded:
    """A partition that a change rewrites as a whole has a file that the change does not remove."""

    partition: bytes
    bucket: int
    file_name: str


@dataclass(frozen=True, slots=True)
class VectorChanged:
    """The deleted rows of a data file are not those that the change was based on."""

    partition: bytes
    bucket: int
    file_name: str


@dataclass(frozen=True, slots=True)
class IndexedRowsMoved:
    """The values that a new global index has of some rows are not in the file that they were read from."""

    partition: bytes
    bucket: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class RowRangeGone:
    """A file holds columns of rows of which the table has no data file of the same range."""

    partition: bytes
    bucket: int
    file_name: str


@dataclass(frozen=True, slots=True)
class RowsIndexed:
    """Another commit added a global index of the same kind, column and rows."""

    partition: bytes
    bucket: int
    index_type: str
    file_name: str


@dataclass(frozen=True, slots=True)
class RowRangesOverlap:
    """Two files would hold some, but not all, of the same rows."""

    partition: bytes
    bucket: int
    first_file: str
    second_file: str


@dataclass(frozen=True, slots=True)
class ColumnsChanged:
    """Other values were written to columns of rows after a statement read them to replace the same columns."""

    partition: bytes
    bucket: int
    snapshot_id: int


Conflict = (
    FileGone
    | FileLive
    | FileRepeated
    | BucketCountChanged
    | KeyRangesOverlap
    | IndexFileGone
    | HashIndexMoved
    | KeysMoved
    | RowsAdded
    | BucketChanged
    | FileAdded
    | VectorChanged
    | IndexedRowsMoved
    | RowsIndexed
    | RowRangeGone
    | RowRangesOverlap
    | ColumnsChanged
)


def find_conflict(
    base: Iterable[ManifestEntry], delta: Sequence[ManifestEntry], kind: CommitKind, key_types: Sequence[DataType]
) -> Conflict | None:
    """Return the first conflict of a change with the live files, or None.

    Args:
        base: live entries of (at least) the changed partitions.
        delta: entries of the change.
        kind: kind of the snapshot to be; an OVERWRITE may change the number of buckets.
        key_types: types of the trimmed primary key; empty for append tables, whose levels are not checked.
    """
    live = {e.identity: e for e in base}
    repeated = _repeated(delta)
    if repeated is not None:
        return repeated
    if kind is not CommitKind.OVERWRITE:
        changed = bucket_count_conflict(live.values(), delta)
        if changed is not None:
            return changed
    for entry in delta:
        known = entry.identity in live
        if entry.kind is FileKind.DELETE and not known:
            return FileGone(entry.partition, entry.bucket, entry.file.level, entry.file.file_name)
        if entry.kind is FileKind.ADD and known:
            return FileLive(entry.partition, entry.bucket, entry.file.level, entry.file.file_name)
    return _overlap(live, delta, key_types) if key_types else None


class Counted(Protocol):
    """Files of a partition that count the same number of buckets."""

    @property
    def partition(self) -> bytes:
        """Return the partition."""

    @property
    def total_buckets(self) -> int:
        """Return the number of buckets; 0 or less if it is unknown."""


def bucket_count_conflict(base: Iterable[Counted], delta: Iterable[ManifestEntry]) -> BucketCountChanged | None:
    """Return the first partition whose files count other buckets than the added files do (values ≤ 0 are ignored)."""
    counts = {e.partition: e.total_buckets for e in base if e.total_buckets > 0}
    for entry in delta:
        if entry.kind is FileKind.DELETE or entry.total_buckets <= 0:
            continue
        existing = counts.setdefault(entry.partition, entry.total_buckets)
        if existing != entry.total_buckets:
            return BucketCountChanged(entry.partition, entry.bucket, existing, entry.total_buckets)
    return None


def find_index_conflict(
    live: Sequence[IndexManifestEntry], removed: Iterable[IndexManifestEntry]
) -> IndexFileGone | None:
    """Return the first index file that a change removes by name though the table does not have it, or None.

    Args:
        live: the table's index entries now.
        removed: index entries that the change removes by name.
    """
    names = {e.file.file_name for e in live}
    for gone in removed:
        if gone.file.file_name not in names:
            return IndexFileGone(gone.partition, gone.bucket, gone.file.index_type, gone.file.file_name)
    return None


def global_index_conflict(
    live: Iterable[IndexManifestEntry], added: Iterable[IndexManifestEntry]
) -> RowsIndexed | None:
    """Return an index file of the table that has rows of an added file of the same kind, columns and partition."""
    new: dict[tuple[bytes, str, tuple[int, ...]], list[Range]] = {}
    for e, i in added_indexes(added):
        new.setdefault((e.partition, e.file.index_type, i.field_ids), []).append((i.first_row, i.last_row + 1))
    for e, i in added_indexes(live):
        ranges = new.get((e.partition, e.file.index_type, i.field_ids), ())
        if any(first <= i.last_row and i.first_row < end for first, end in ranges):
            return RowsIndexed(e.partition, e.bucket, e.file.index_type, e.file.file_name)
    return None


def vector_of_missing_file(base: Iterable[ManifestEntry], marked: Collection[DataFileKey]) -> FileGone | None:
    """Return a data file of which a change deletes rows though the table does not have it, or None.

    Args:
        base: live entries of (at least) the partitions of these files, and those that the change adds.
        marked: the data files.
    """
    live = {DataFileKey(e.partition, e.bucket, e.file.file_name) for e in base} if marked else set()
    for place in sorted(marked):
        if place not in live:
            partition, bucket, name = place
            return FileGone(partition, bucket, 0, name)
    return None


def vector_added_twice(changes: Iterable[IndexManifestEntry]) -> FileRepeated | None:
    """Return a data file that gets more than one deletion vector, of which readers would apply only one, or None."""
    seen: set[DataFileKey] = set()
    for e in changes:
        for r in (e.file.deletion_ranges or ()) if e.kind is FileKind.ADD else ():
            place = DataFileKey(e.partition, e.bucket, r.data_file)
            if place in seen:
                return FileRepeated(e.partition, e.bucket, 0, r.data_file)
            seen.add(place)
    return None


def vector_conflict(
    touched: Iterable[DataFileKey], seen: Mapping[DataFileKey, int], now: Mapping[DataFileKey, int]
) -> VectorChanged | None:
    """Return a data file whose deleted rows are not those that the change was based on, or None.

    Args:
        touched: the data files that the change removes, or of which it deletes rows.
        seen: fingerprints of the vectors that the change is based on; a file that is not named had none.
        now: fingerprints of the current vectors of the table.
    """
    for place in sorted(touched):
        if seen.get(place, NO_VECTOR) != now.get(place, NO_VECTOR):
            return VectorChanged(*place)
    return None


def hash_index_conflict(
    live: Iterable[IndexManifestEntry], known: Mapping[bytes, Mapping[int, str]], partitions: Collection[bytes]
) -> HashIndexMoved | None:
    """Return a bucket whose hash index is not the one that the writers read, or None.

    Another writer may have put a new key into another bucket than these writers did: both would stay.

    Args:
        live: the table's index entries now.
        known: names or external paths of the hash index files that the writers read, by partition and bucket.
        partitions: those that the writers wrote to.
    """
    found: dict[BucketKey, str] = {
        e.bucket_key: hash_file_name(e.file) for e in live if e.file.index_type == HASH_INDEX
    }
    expected = {BucketKey(p, bucket): name for p, files in known.items() for bucket, name in files.items()}
    for key in sorted({k for k in (*found, *expected) if k.partition in partitions}):
        if found.get(key) != expected.get(key):
            return HashIndexMoved(*key)
    return None


def hash_file_name(file: IndexFileMeta) -> str:
    """Return the identity of an index file: its external path, or its name."""
    return file.external_path or file.file_name


def describe(conflict: Conflict, partition_text: Callable[[bytes], str]) -> tuple[str, str]:
    """Return the error message and its hint."""
    where = _place(conflict, partition_text)
    again = "Nothing of this commit was written. Run the statement again: it will start from the new state."
    match conflict:
        case FileGone(file_name=name, level=level):
            return (
                f"The file '{name}' (level {level}) of {where}, which this commit replaces, is gone: another commit "
                "compacted or overwrote it.",
                again + " Let one job at a time compact a bucket.",
            )
        case FileLive(file_name=name, level=level):
            return f"The file '{name}' (level {level}) is already part of {where}.", again
        case FileRepeated(file_name=name, level=level):
            return (
                f"This commit names the file '{name}' (level {level}) of {where} twice.",
                "Nothing was written. Commit every file once.",
            )
        case BucketCountChanged(existing=existing, wanted=wanted):
            return (
                f"The files of {where} are spread over {existing} buckets, but this commit uses {wanted}.",
                "Rewrite the partition with INSERT OVERWRITE before writing with the new number of buckets.",
            )
        case KeyRangesOverlap(level=level, first_file=first, second_file=second):
            return (
                f"The files '{first}' and '{second}' of {where} would overlap in level {level}: another commit put "
                "files there.",
                again + " Let one job at a time compact a bucket.",
            )
        case IndexFileGone(index_type=index_type, file_name=name):
            return (
                f"The {index_type} index file '{name}' of {where}, which this commit replaces, is gone: another "
                "commit wrote the bucket.",
                again + " Let one job at a time write a table with dynamic buckets.",
            )
        case RowRangeGone() | RowRangesOverlap() | ColumnsChanged():
            return _describe_ranges(conflict, where, again)
        case _:
            return _describe_moved(conflict, where, again)


def _describe_moved(
    conflict: HashIndexMoved
    | KeysMoved
    | RowsAdded
    | BucketChanged
    | FileAdded
    | VectorChanged
    | IndexedRowsMoved
    | RowsIndexed,
    where: str,
    again: str,
) -> tuple[str, str]:
    """Return the error message and its hint for changes of what this commit looked up."""
    match conflict:
        case HashIndexMoved():
            return (
                f"Another commit added keys to {where}, or replaced it, after this write looked up the buckets of its "
                "keys.",
                again + " Let one job at a time write new keys to a partition with dynamic buckets.",
            )
        case KeysMoved(snapshot_id=number):
            return (
                f"Another commit wrote rows (snapshot {number}) after this write looked up the partitions of its keys.",
                again + " Let one job at a time write a table whose primary key lacks partition columns.",
            )
        case RowsAdded(snapshot_id=number):
            return (
                f"Another commit (snapshot {number}) wrote rows to the buckets that this compaction adds postponed "
                "rows to, so their order is open.",
                again,
            )
        case BucketChanged(snapshot_id=number):
            return f"Another commit (snapshot {number}) changed rows of {where}, which this statement rewrites.", again
        case FileAdded(file_name=name):
            return (
                f"Another commit added the file '{name}' to {where}, which this commit rewrites as a whole.",
                again,
            )
        case IndexedRowsMoved(first=first, end=end):
            return (
                f"Another commit moved, removed or updated some of the rows {first} to {end - 1} of {where}, "
                "which were indexed.",
                again,
            )
        case RowsIndexed(index_type=kind, file_name=name):
            return f"Another commit added the {kind} index file '{name}' for the same rows of {where}.", again
        case VectorChanged(file_name=name):
            return f"Another commit deleted rows of the file '{name}' of {where}, which this commit changes.", again


def _describe_ranges(
    conflict: RowRangeGone | RowRangesOverlap | ColumnsChanged, where: str, again: str
) -> tuple[str, str]:
    """Return the error message and its hint for changes of row ranges."""
    match conflict:
        case RowRangeGone(file_name=name):
            return (
                f"Another commit removed or compacted the rows of {where} of which '{name}' holds columns.",
                again,
            )
        case RowRangesOverlap(first_file=first, second_file=second):
            return (
                f"The files '{first}' and '{second}' of {where} would hold columns of some of the same rows, but not "
                "of all: another commit changed or compacted them.",
                again,
            )
        case ColumnsChanged(snapshot_id=number):
            return (
                f"Another commit (snapshot {number}) changed the same columns of rows of {where} that this statement "
                "changes.",
                again,
            )


def _place(conflict: Conflict, partition_text: Callable[[bytes], str]) -> str:
    partition = partition_text(conflict.partition) if conflict.partition else ""
    return f"bucket {conflict.bucket} of partition '{partition}'" if partition else f"bucket {conflict.bucket}"


def _repeated(delta: Iterable[ManifestEntry]) -> FileRepeated | None:
    seen: set[FileIdentity] = set()
    for entry in delta:
        if entry.identity in seen:
            return FileRepeated(entry.partition, entry.bucket, entry.file.level, entry.file.file_name)
        seen.add(entry.identity)
    return None


def _overlap(
    live: dict[FileIdentity, ManifestEntry], delta: Sequence[ManifestEntry], key_types: Sequence[DataType]
) -> KeyRangesOverlap | None:
    added = {e.identity: e for e in delta if e.kind is FileKind.ADD and e.file.level > 0}
    removed = {e.identity for e in delta if e.kind is FileKind.DELETE}
    levels: dict[tuple[bytes, int, int], list[ManifestEntry]] = {
        (e.partition, e.bucket, e.file.level): [] for e in added.values()
    }
    for identity, entry in (live | added).items():
        files = levels.get((entry.partition, entry.bucket, entry.file.level))
        if files is not None and identity not in removed:
            files.append(entry)
    for (partition, bucket, level), files in levels.items():
        ranged = sorted(((key_range(e.file, key_types), e.file.file_name) for e in files), key=lambda item: item[0])
        for (one, first), (two, second) in pairwise(ranged):
            if two[0] <= one[1]:
                return KeyRangesOverlap(partition, bucket, level, first, second)
    return None

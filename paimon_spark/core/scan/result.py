"""Scan results: one protocol, `Scan`, with two storages: objects, and packed records on disk for very large scans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter, itemgetter
from typing import Protocol

from paimon_spark.core.bin_packing import bin_packed
from paimon_spark.core.scan.packed_files import Numbers, PackedFileStore, Record
from paimon_spark.spec.manifest import (
    BucketKey,
    DataFileMeta,
    IndexManifestEntry,
    ManifestEntry,
)
from paimon_spark.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanCounts:
    """How many files of a snapshot a scan considered and selected."""

    manifests: int = 0
    manifests_read: int = 0
    files_seen: int = 0
    files: int = 0
    partitions_seen: int = 0
    partitions: int = 0
    rows: int = 0


class ScannedBucket(Protocol):
    """The selected files of one bucket."""

    @property
    def partition(self) -> bytes:
        """Return the partition as a binary row."""
        ...

    @property
    def bucket(self) -> int:
        """Return the number of the bucket."""
        ...

    @property
    def total_buckets(self) -> int:
        """Return how many buckets the partition has."""
        ...

    @property
    def files(self) -> Sequence[DataFileMeta]:
        """Return the files, in the order of the entries."""
        ...

    def keep(self, files: Sequence[DataFileMeta]) -> Sequence[DataFileMeta]:
        """Return a subset of the files in the storage of the scan, in the given order."""
        ...

    def groups_by_sequence(self, target: int, open_cost: int) -> Iterator[Sequence[DataFileMeta]]:
        """Yield all files in groups of about `target` bytes, ordered by first sequence number, then name."""
        ...


class Scan(Protocol):
    """The files of a snapshot that may have matching rows."""

    @property
    def snapshot(self) -> Snapshot | None:
        """Return the scanned snapshot; None if there is nothing to read."""
        ...

    @property
    def index_entries(self) -> Sequence[IndexManifestEntry]:
        """Return the index entries of the buckets with selected files."""
        ...

    @property
    def counts(self) -> ScanCounts:
        """Return the scan counts."""
        ...

    def buckets(self) -> Iterator[ScannedBucket]:
        """Yield the selected files by bucket, in the order of their first entries."""
        ...


@dataclass(frozen=True, slots=True)
class Bucket:
    """The selected files of one bucket, as objects."""

    partition: bytes
    bucket: int
    total_buckets: int
    files: list[DataFileMeta]

    def keep(self, files: Sequence[DataFileMeta]) -> Sequence[DataFileMeta]:
        """Return the files unchanged."""
        return tuple(files)

    def groups_by_sequence(self, target: int, open_cost: int) -> Iterator[Sequence[DataFileMeta]]:
        """Yield all files in groups; see `ScannedBucket`."""
        ordered = sorted(sorted(self.files, key=attrgetter("file_name")), key=attrgetter("min_sequence_number"))
        return map(tuple, bin_packed(ordered, attrgetter("file_size"), target, open_cost))


@dataclass(frozen=True)
class PackedBucket:
    """The selected files of one bucket, packed; decoded on demand."""

    partition: bytes
    bucket: int
    total_buckets: int
    pool: PackedFileStore
    numbers: Numbers

    @cached_property
    def files(self) -> list[DataFileMeta]:
        """Return the files, decoded once."""
        return list(map(self.pool.unpack, self._records))

    def keep(self, files: Sequence[DataFileMeta]) -> Sequence[DataFileMeta]:
        """Return a subset of the files, packed."""
        return self.pool.choose([self._record_of[f.file_name] for f in files])

    def groups_by_sequence(self, target: int, open_cost: int) -> Iterator[Sequence[DataFileMeta]]:
        """Yield all files in groups; see `ScannedBucket`."""
        records = self.pool.records(self.pool.in_order(self.numbers))
        return map(self.pool.choose, bin_packed(records, itemgetter(1), target, open_cost))

    @cached_property
    def _records(self) -> list[Record]:
        return list(self.pool.records(self.numbers))

    @cached_property
    def _record_of(self) -> dict[str, Record]:
        return dict(zip((f.file_name for f in self.files), self._records, strict=True))


@dataclass(frozen=True, slots=True)
class ScanResult:
    """A scan whose entries are objects."""

    snapshot: Snapshot | None
    entries: tuple[ManifestEntry, ...] = ()
    index_entries: tuple[IndexManifestEntry, ...] = ()
    counts: ScanCounts = field(default_factory=ScanCounts)

    def buckets(self) -> Iterator[Bucket]:
        """Yield the files by bucket, in entry order."""
        found: dict[tuple[bytes, int], list[ManifestEntry]] = {}
        for entry in self.entries:
            found.setdefault((entry.partition, entry.bucket), []).append(entry)
        for (partition, bucket), entries in found.items():
            yield Bucket(partition, bucket, entries[0].total_buckets, [e.file for e in entries])


@dataclass(frozen=True, slots=True)
class PackedScan:
    """A very large scan: files are packed, and decoded one bucket at a time."""

    snapshot: Snapshot
    pool: PackedFileStore
    bucket_keys: tuple[tuple[BucketKey, int], ...]
    """The buckets with files, and the total number of buckets of each one's partition."""
    numbers: tuple[Numbers, ...]
    """The file numbers of each bucket in the packed file store."""
    index_entries: tuple[IndexManifestEntry, ...]
    counts: ScanCounts

    def buckets(self) -> Iterator[PackedBucket]:
        """Yield the files by bucket, in entry order."""
        for (key, total), numbers in zip(self.bucket_keys, self.numbers, strict=True):
            yield PackedBucket(*key, total, self.pool, numbers)


@dataclass(frozen=True, slots=True)
class YoungFiles:
    """The files of a scan that were created at or after a time, which is given as creation times are stored."""

    scanned: Scan
    created_from: int

    @property
    def snapshot(self) -> Snapshot | None:
        """Return the scanned snapshot."""
        return self.scanned.snapshot

    @property
    def index_entries(self) -> Sequence[IndexManifestEntry]:
        """Return the index entries of the buckets."""
        return self.scanned.index_entries

    @property
    def counts(self) -> ScanCounts:
        """Return the counts of the scan, older files included."""
        return self.scanned.counts

    def buckets(self) -> Iterator[Bucket]:
        """Yield the younger files by bucket."""
        for b in self.scanned.buckets():
            young = [f for f in b.files if f.creation_time is not None and f.creation_time >= self.created_from]
            if young:
                yield Bucket(b.partition, b.bucket, b.total_buckets, young)

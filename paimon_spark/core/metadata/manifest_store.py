"""The manifest files of a table: cached reads, rolling writes, merging."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paimon_spark.core.cancellation import checkpoint
from paimon_spark.core.levels import comparable
from paimon_spark.core.manifest_cache import PROCESS_CACHE, ManifestCache, cached
from paimon_spark.core.metadata_io import delete_best_effort, read_needed
from paimon_spark.core.table import Table
from paimon_spark.errors import CorruptTableError
from paimon_spark.format.manifest.codec import (
    Compression,
    open_manifest,
    read_index_manifest,
    read_manifest_list,
    write_index_manifest,
    write_manifest,
    write_manifest_list,
)
from paimon_spark.format.manifest.lazy_manifest import LazyManifest, Manifest, Rows
from paimon_spark.spec.kinds import FileKind
from paimon_spark.spec.manifest import (
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
    SimpleStats,
)
from paimon_spark.spec.rows import decode_row, encode_row, row_arity
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.types import DataType

_FULL = 105
"""Percentage of the target size at which a manifest is closed; manifests of equal entry counts differ in size."""
_RESTORE = "Restore the file from a backup, or roll the table back to a snapshot that does not need it."


@dataclass(slots=True)
class ManifestStore:
    """Reads and writes the manifests of one table; records the written files, to synchronise them or delete them."""

    table: Table
    written: list[str] = field(default_factory=list)
    """Paths of the files written through this store. Their names are unique: nothing else writes them."""
    _list_names: Iterator[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._list_names = self.table.paths.new_manifest_list_names()

    @property
    def cache(self) -> ManifestCache:
        """Return the cache of decoded manifests."""
        return self.table.manifest_cache or PROCESS_CACHE

    def read_list(self, name: str, size: int | None = None) -> tuple[ManifestFileMeta, ...]:
        """Return the records of a manifest list."""
        path = self.table.paths.manifest(name)
        return cached(self.cache.lists, path, lambda: read_manifest_list(self._bytes(path), path, size))

    def read(self, meta: ManifestFileMeta) -> tuple[ManifestEntry, ...]:
        """Return all entries of a manifest as objects; for large manifests, use `open` and decode on demand."""
        return tuple(self.open(meta).entries())

    def open(self, meta: ManifestFileMeta, *, remember: bool = True) -> Manifest:
        """Return a manifest; with `remember` off, it is not cached: large scans would evict everything else."""
        path = self.table.paths.manifest(meta.file_name)

        fewest = self.cache.limits.fewest_blocks

        def load() -> tuple[Manifest]:
            return (self._sound(open_manifest(self._bytes(path), path, meta.file_size, fewest_blocks=fewest), path),)

        if remember:
            return cached(self.cache.manifests, path, load)[0]
        return (self.cache.manifests.get(path) or load())[0]

    def entries(self, manifest: Manifest, rows: Rows) -> list[ManifestEntry]:
        """Return entries of an opened manifest; those of a packed manifest are cached."""
        if isinstance(manifest, LazyManifest):
            return self.cache.entries.of(manifest, rows)
        return list(manifest.entries(rows))

    def read_index(self, name: str | None) -> tuple[IndexManifestEntry, ...]:
        """Return the entries of an index manifest; none if `name` is None."""
        if name is None:
            return ()
        path = self.table.paths.manifest(name)
        return cached(self.cache.indexes, path, lambda: read_index_manifest(self._bytes(path), path))

    def index_entries(self, snapshot: Snapshot | None) -> tuple[IndexManifestEntry, ...]:
        """Return the index files of a snapshot; none for no snapshot."""
        return self.read_index(snapshot.index_manifest if snapshot else None)

    def data_manifests(self, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """Return the manifests of a snapshot: the base list, then the delta list."""
        return [
            *self.read_list(snapshot.base_manifest_list, snapshot.base_manifest_list_size),
            *self.read_list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
        ]

    def lists_key(self, snapshot: Snapshot) -> str:
        """Return a key that identifies the data files of a snapshot: the paths of its manifest lists."""
        names = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
        return "\n".join(self.table.paths.manifest(name) for name in names)

    def delta_entries(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """Return the entries that a snapshot's own commit added and deleted, in order."""
        metas = self.read_list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
        return [e for m in metas for e in self.read(m)]

    def changelog_entries(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """Return the changelog entries of a snapshot's commit."""
        if snapshot.changelog_manifest_list is None:
            return []
        metas = self.read_list(snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size)
        return [e for m in metas for e in self.read(m)]

    def write(self, entries: Sequence[ManifestEntry]) -> list[ManifestFileMeta]:
        """Write entries as manifests of about the target size; without entries, write nothing.

        All manifests but the last reach the target: each commit would merge, and so rewrite, a smaller one.

        Args:
            entries: entries to write, in order.
        """
        if not entries:
            return []
        data = write_manifest(entries, self._compression)
        step = self._entries_a_file(len(entries), len(data))
        if step >= len(entries):
            return [self._write_one(tuple(entries), data)]
        chunks = [tuple(entries[i : i + step]) for i in range(0, len(entries), step)]
        return [self._write_one(chunk, write_manifest(chunk, self._compression)) for chunk in chunks]

    def file_count(self, entries: Sequence[ManifestEntry]) -> int:
        """Return how many manifests `write` would write."""
        if not entries:
            return 0
        size = len(write_manifest(entries, self._compression))
        return -(-len(entries) // self._entries_a_file(len(entries), size))

    def _entries_a_file(self, count: int, size: int) -> int:
        wanted = max(1, self.table.options.manifest_target_file_size) * _FULL
        return -(-count * wanted // (size * 100))

    def write_list(self, metas: Iterable[ManifestFileMeta]) -> tuple[str, int]:
        """Write a manifest list; return its name and size."""
        records = tuple(metas)
        name, data = next(self._list_names), write_manifest_list(records, self._compression)
        self.cache.lists.put(self._put(name, data), records)
        return name, len(data)

    def write_index(self, entries: Iterable[IndexManifestEntry]) -> str:
        """Write an index manifest; return its name."""
        records = tuple(entries)
        name = self.table.paths.new_index_manifest_name()
        self.cache.indexes.put(self._put(name, write_index_manifest(records, self._compression)), records)
        return name

    def write_index_file(self, path: str, data: bytes) -> None:
        """Write an index file that belongs to this commit."""
        self.written.append(path)
        self.table.file_io.write(path, data)

    def sync(self) -> None:
        """Make the files written through this store durable; only then may a snapshot that names them be published."""
        if self.written:
            self.table.file_io.sync(self.written)

    def discard(self) -> None:
        """Delete the files written through this store. Call this only if no snapshot can reference them."""
        delete_best_effort(self.table.file_io, self.written)
        self.written.clear()

    def _write_one(self, entries: tuple[ManifestEntry, ...], data: bytes) -> ManifestFileMeta:
        name = self.table.paths.new_manifest_name()
        path = self._put(name, data)
        if len(entries) <= self.cache.limits.few_entries:
            self.cache.manifests.put(path, (Manifest(entries),))
        buckets, levels = [e.bucket for e in entries], [e.file.level for e in entries]
        rows = [(e.file.first_row_id, e.file.row_count) for e in entries]
        ranged = [(first, first + count - 1) for first, count in rows if first is not None]
        tracked = len(ranged) == len(rows)
        return ManifestFileMeta(
            file_name=name,
            file_size=len(data),
            num_added_files=sum(e.kind is FileKind.ADD for e in entries),
            num_deleted_files=sum(e.kind is FileKind.DELETE for e in entries),
            partition_stats=partition_stats(Counter(e.partition for e in entries), self._partition_types),
            schema_id=max(e.file.schema_id for e in entries),
            min_bucket=min(buckets),
            max_bucket=max(buckets),
            min_level=min(levels),
            max_level=max(levels),
            min_row_id=min(first for first, _ in ranged) if tracked else None,
            max_row_id=max(last for _, last in ranged) if tracked else None,
        )

    def _sound(self, manifest: Manifest, path: str) -> Manifest:
        """Return the manifest after checking that its partitions decode as rows of the partition columns."""
        types = self._partition_types
        for partition in manifest.partitions:
            try:
                arity, _ = row_arity(partition), decode_row(partition, types)
            except CorruptTableError as e:
                raise CorruptTableError(
                    f"{path} names a partition that cannot be read: {e.message}", hint=_RESTORE
                ) from e
            if arity != len(types):
                raise CorruptTableError(
                    f"{path} names a partition of {arity} columns; table {self.table.name} has {len(types)}.",
                    hint=_RESTORE,
                )
        return manifest

    @property
    def _compression(self) -> Compression:
        options = self.table.options
        return Compression(options.manifest_codec, options.number("file.compression.zstd-level"))

    @property
    def _partition_types(self) -> list[DataType]:
        return [f.type for f in self.table.schema.partition_fields]

    def _put(self, name: str, data: bytes) -> str:
        path = self.table.paths.manifest(name)
        self.written.append(path)
        self.table.file_io.write(path, data)
        return path

    def _bytes(self, path: str) -> bytes:
        checkpoint()
        return read_needed(self.table.file_io, path, "metadata file")


def partition_stats(counts: Mapping[bytes, int], types: Sequence[DataType]) -> SimpleStats:
    """Return exact statistics of serialized partition rows, given the count of each."""
    rows = [(decode_row(p, types), n) for p, n in counts.items()]
    lows, highs, nulls = [], [], []
    for i in range(len(types)):
        known = [row[i] for row, _ in rows if row[i] is not None]
        lows.append(min(known, key=_order, default=None))
        highs.append(max(known, key=_order, default=None))
        nulls.append(sum(n for row, n in rows if row[i] is None))
    return SimpleStats(encode_row(lows, types), encode_row(highs, types), tuple(nulls))


def _order(value: Any) -> Any:
    return comparable((value,))


def may_hold_partition(meta: ManifestFileMeta, partitions: Iterable[bytes], types: Sequence[DataType]) -> bool:
    """Return whether partition statistics allow a manifest to have entries of any of the partitions."""
    stats = meta.partition_stats
    if not types or row_arity(stats.min_values) < len(types):
        return True
    low, high = decode_row(stats.min_values, types), decode_row(stats.max_values, types)
    bounds = list(zip(low, high, stats.null_counts or (None,) * len(types), strict=True))
    return any(all(_inside(v, b) for v, b in zip(decode_row(p, types), bounds, strict=True)) for p in partitions)


def _inside(value: Any, bounds: tuple[Any, Any, int | None]) -> bool:
    low, high, nulls = bounds
    if value is None:
        return nulls is None or nulls > 0
    if low is None or high is None:
        return nulls is None
    return bool(_order(low) <= _order(value) <= _order(high))

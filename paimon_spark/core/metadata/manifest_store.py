"""The manifest files of a table: read through a cache, written in rolled pieces, merged as the list grows."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from paimon_spark.core.cancellation import checkpoint
from paimon_spark.core.levels import comparable
from paimon_spark.core.metadata_io import delete_leftovers, read_needed
from paimon_spark.core.table import Table
from paimon_spark.errors import CorruptTableError
from paimon_spark.format.manifests import (
    open_manifest,
    read_index_manifest,
    read_manifest_list,
    write_index_manifest,
    write_manifest,
    write_manifest_list,
)
from paimon_spark.format.packed_manifest import ENTRY_BYTES, Manifest, PackedManifest, Rows, entries_bytes
from paimon_spark.spec.kinds import FileKind
from paimon_spark.spec.manifest import (
    FileIdentity,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
    SimpleStats,
)
from paimon_spark.spec.rows import decode_row, encode_row, row_arity
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.types import DataType

_T = TypeVar("_T")
_CACHED_BYTES = 64 << 20
_LIVE_BYTES = 144 << 20
_UNPACKED = 130
"""Percent of its size in the store that a manifest of many entries takes in memory."""
_RECORD_BYTES = 800
"""About what the record of a manifest or of an index file takes."""
_FEW = 1_000
"""A manifest of more entries is not kept as it was written: read from the file it is smaller."""
_FULL = 105
"""Percent of the target size that a manifest is cut at; pieces of one size in entries differ a little in bytes."""
_RESTORE = "Restore the file from a backup, or roll the table back to a snapshot that does not need it."


class _Bounded(Generic[_T]):
    """Items by the path they are from, the least recently used out first. Files are immutable, names unique.

    Args:
        limit: about the most bytes that all items may take.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._weights: dict[str, int] = {}
        self._held = 0
        self._items: OrderedDict[str, _T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: str) -> _T | None:
        """Return the item from a path if it is here."""
        with self._lock:
            found = self._items.get(path)
            if found is not None:
                self._items.move_to_end(path)
            return found

    def _hold(self, path: str, item: _T, weight: int) -> None:
        """Keep an item, under the lock; it takes `weight` more bytes than what was there before."""
        self._items[path] = item
        self._items.move_to_end(path)
        self._weights[path] = self._weights.get(path, 0) + weight
        self._held += weight
        while self._held > self._limit:
            oldest, _ = self._items.popitem(last=False)
            self._held -= self._weights.pop(oldest)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._items.clear()
            self._weights.clear()
            self._held = 0


class RecordCache(_Bounded[tuple[_T, ...]]):
    """Decoded records of whole files.

    Args:
        limit: about the most bytes that all records may take.
        weigh: about how many bytes some records take.
    """

    def __init__(
        self, limit: int, weigh: Callable[[tuple[_T, ...]], int] = lambda records: len(records) * _RECORD_BYTES
    ) -> None:
        super().__init__(limit)
        self._weigh = weigh

    def put(self, path: str, records: tuple[_T, ...]) -> None:
        """Keep the records from a path, unless they alone take too much."""
        weight = _RECORD_BYTES + self._weigh(records)
        with self._lock:
            if path not in self._items and weight <= self._limit:
                self._hold(path, records, weight)


class _Unpacked(_Bounded[Mapping[int, ManifestEntry]]):
    """Entries of packed manifests that were asked for, by their places."""

    def of(self, manifest: Manifest, rows: Rows) -> list[ManifestEntry]:
        """Return the entries at some places of a manifest."""
        known = self.get(manifest.where) or {}
        missing = [row for row in rows.tolist() if row not in known]
        if missing:
            new = dict(zip(missing, manifest.entries(np.array(missing, np.int64)), strict=True))
            self._keep(manifest.where, new)
            known = {**known, **new}
        return [known[row] for row in rows.tolist()]

    def _keep(self, path: str, new: Mapping[int, ManifestEntry]) -> None:
        weight = entries_bytes(tuple(new.values()))
        if weight <= self._limit:
            with self._lock:
                self._hold(path, {**self._items.get(path, {}), **new}, weight)


def _bytes_of(manifests: Iterable[Manifest]) -> int:
    return sum(m.nbytes for m in manifests)


_MANIFESTS: RecordCache[Manifest] = RecordCache(_CACHED_BYTES, _bytes_of)
_LISTS: RecordCache[ManifestFileMeta] = RecordCache(_CACHED_BYTES // 2)
_INDEXES: RecordCache[IndexManifestEntry] = RecordCache(_CACHED_BYTES // 2)
LIVE: RecordCache[Manifest] = RecordCache(_LIVE_BYTES, _bytes_of)
"""The entries of whole snapshots of few files that nothing cancels, as one manifest would have them."""
_UNPACKED_ENTRIES = _Unpacked(_CACHED_BYTES)


def clear_cache() -> None:
    """Forget every decoded manifest of this process."""
    for cache in (_MANIFESTS, _LISTS, _INDEXES, LIVE, _UNPACKED_ENTRIES):
        cache.clear()


@dataclass(slots=True)
class ManifestStore:
    """Reads and writes the manifests of one table; remembers the names it wrote so that they can be taken back."""

    table: Table
    written: list[str] = field(default_factory=list)
    """Paths of the files written through this store, for cleaning up after a certain failure."""
    superseded: list[str] = field(default_factory=list)
    """Paths of files that writers brought and that others take the place of, once the commit has succeeded."""

    def read_list(self, name: str, size: int | None = None) -> tuple[ManifestFileMeta, ...]:
        """Return the records of a manifest list."""
        path = self.table.paths.manifest(name)
        return cached(_LISTS, path, lambda: read_manifest_list(self._bytes(path), path, size))

    def read(self, meta: ManifestFileMeta) -> tuple[ManifestEntry, ...]:
        """Return the entries of a manifest, for manifests of few entries; `open` gives those that are asked for."""
        return tuple(self.open(meta).entries())

    def open(self, meta: ManifestFileMeta, *, remember: bool = True) -> Manifest:
        """Return a manifest; who reads more than the cache can hold does not `remember` any, or others would go."""
        path = self.table.paths.manifest(meta.file_name)

        def load() -> tuple[Manifest]:
            return (self._sound(open_manifest(self._bytes(path), path, meta.file_size), path),)

        if remember:
            return cached(_MANIFESTS, path, load)[0]
        return (_MANIFESTS.get(path) or load())[0]

    def entries(self, manifest: Manifest, rows: Rows) -> list[ManifestEntry]:
        """Return entries of a manifest that `open` gave; those of a packed one are remembered for the next time."""
        if isinstance(manifest, PackedManifest):
            return _UNPACKED_ENTRIES.of(manifest, rows)
        return list(manifest.entries(rows))

    def read_index(self, name: str | None) -> tuple[IndexManifestEntry, ...]:
        """Return the entries of an index manifest; none for no name."""
        if name is None:
            return ()
        path = self.table.paths.manifest(name)
        return cached(_INDEXES, path, lambda: read_index_manifest(self._bytes(path), path))

    def data_manifests(self, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """Return the manifests of a snapshot: the base list, then the delta list."""
        return [
            *self.read_list(snapshot.base_manifest_list, snapshot.base_manifest_list_size),
            *self.read_list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
        ]

    def lists_key(self, snapshot: Snapshot) -> str:
        """Return what tells the data files of a snapshot from those of any other: the paths of its lists."""
        names = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
        return "\n".join(self.table.paths.manifest(name) for name in names)

    def delta_entries(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """Return what a snapshot's own commit added and removed, in order."""
        metas = self.read_list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
        return [e for m in metas for e in self.read(m)]

    def changelog_entries(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """Return the changelog files of a snapshot's commit."""
        if snapshot.changelog_manifest_list is None:
            return []
        metas = self.read_list(snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size)
        return [e for m in metas for e in self.read(m)]

    def write(self, entries: Sequence[ManifestEntry], schema_id: int) -> list[ManifestFileMeta]:
        """Write entries as manifests of about the target size; nothing for no entries.

        All but the last reach the target: a smaller one would be merged, and so written again, by every commit.

        Args:
            entries: what to write, in order.
            schema_id: recorded where the entries themselves name no newer schema.
        """
        if not entries:
            return []
        data = write_manifest(entries)
        wanted = max(1, self.table.options.manifest_target_file_size) * _FULL
        step = -(-len(entries) * wanted // (len(data) * 100))
        if step >= len(entries):
            return [self._write_one(tuple(entries), data, schema_id)]
        chunks = [tuple(entries[i : i + step]) for i in range(0, len(entries), step)]
        return [self._write_one(chunk, write_manifest(chunk), schema_id) for chunk in chunks]

    def write_list(self, metas: Iterable[ManifestFileMeta]) -> tuple[str, int]:
        """Write a manifest list; return its name and size."""
        records = tuple(metas)
        name, data = self.table.paths.new_manifest_list_name(), write_manifest_list(records)
        _LISTS.put(self._put(name, data), records)
        return name, len(data)

    def write_index(self, entries: Iterable[IndexManifestEntry]) -> str:
        """Write an index manifest; return its name."""
        records = tuple(entries)
        name = self.table.paths.new_index_manifest_name()
        _INDEXES.put(self._put(name, write_index_manifest(records)), records)
        return name

    def write_index_file(self, path: str, data: bytes) -> None:
        """Write an index file that only this commit needs."""
        self.written.append(path)
        self.table.file_io.write(path, data, overwrite=False)

    def discard(self) -> None:
        """Delete what was written through this store. Only when it is certain that no snapshot refers to it."""
        delete_leftovers(self.table.file_io, self.written)
        self.written.clear()

    def _write_one(self, entries: tuple[ManifestEntry, ...], data: bytes, schema_id: int) -> ManifestFileMeta:
        name = self.table.paths.new_manifest_name()
        path = self._put(name, data)
        if len(entries) <= _FEW:
            _MANIFESTS.put(path, (Manifest(entries),))
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
            schema_id=max([e.file.schema_id for e in entries], default=schema_id),
            min_bucket=min(buckets),
            max_bucket=max(buckets),
            min_level=min(levels),
            max_level=max(levels),
            min_row_id=min(first for first, _ in ranged) if tracked else None,
            max_row_id=max(last for _, last in ranged) if tracked else None,
        )

    def _sound(self, manifest: Manifest, path: str) -> Manifest:
        """Return the manifest if its partitions are rows of the partition columns."""
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
    def _partition_types(self) -> list[DataType]:
        return [f.type for f in self.table.schema.partition_fields]

    def _put(self, name: str, data: bytes) -> str:
        path = self.table.paths.manifest(name)
        self.written.append(path)
        self.table.file_io.write(path, data, overwrite=False)
        return path

    def _bytes(self, path: str) -> bytes:
        checkpoint()
        return read_needed(self.table.file_io, path, "metadata file")


def fit_cache(metas: Sequence[ManifestFileMeta]) -> bool:
    """Return whether the cache can hold some manifests together: those of few entries as objects."""
    counts = ((m.num_added_files + m.num_deleted_files, m.file_size) for m in metas)
    return sum(n * ENTRY_BYTES if n <= _FEW else size * _UNPACKED // 100 for n, size in counts) <= _CACHED_BYTES


def cached(cache: RecordCache[_T], path: str, load: Callable[[], Iterable[_T]]) -> tuple[_T, ...]:
    """Return the records from a path, loading them if they are not in the cache."""
    found = cache.get(path)
    if found is None:
        found = tuple(load())
        cache.put(path, found)
    return found


def partition_stats(counts: Mapping[bytes, int], types: Sequence[DataType]) -> SimpleStats:
    """Return exact statistics over serialized partition rows, given how often each occurs."""
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
    """Return whether a manifest may have entries of one of the partitions, by its partition statistics."""
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


def merge_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Return entries without the pairs that cancel; a DELETE whose ADD is not among them stays."""
    live: dict[FileIdentity, ManifestEntry] = {}
    for entry in entries:
        if entry.kind is FileKind.ADD or entry.identity not in live:
            live[entry.identity] = entry
        elif live[entry.identity].kind is FileKind.ADD:
            del live[entry.identity]
    return list(live.values())


def merge_manifests(store: ManifestStore, metas: Sequence[ManifestFileMeta], schema_id: int) -> list[ManifestFileMeta]:
    """Return a list that says the same with fewer, larger manifests; new ones are written through `store`."""
    full = _merge_full(store, metas, schema_id)
    return full if full is not None else _merge_minor(store, metas, schema_id)


def _merge_full(
    store: ManifestStore, metas: Sequence[ManifestFileMeta], schema_id: int
) -> list[ManifestFileMeta] | None:
    options = store.table.options
    changing = {m.file_name for m in metas if m.num_deleted_files or m.file_size < options.manifest_target_file_size}
    size = sum(m.file_size for m in metas if m.file_name in changing)
    if size < options.manifest_full_compaction_threshold_size or len(metas) < 2:
        return None
    removed = {e.identity for m in metas if m.num_deleted_files for e in store.read(m) if e.kind is FileKind.DELETE}
    partitions = {identity[0] for identity in removed}
    types = [f.type for f in store.table.schema.partition_fields]
    kept: list[ManifestFileMeta] = []
    rewritten: list[ManifestEntry] = []
    for meta in metas:
        if meta.file_name not in changing and not (removed and may_hold_partition(meta, partitions, types)):
            kept.append(meta)
            continue
        entries = store.read(meta)
        live = [e for e in entries if e.kind is FileKind.ADD and e.identity not in removed]
        if meta.file_name not in changing and len(live) == len(entries):
            kept.append(meta)
        else:
            rewritten += live
    return kept + store.write(rewritten, schema_id)


def _merge_minor(store: ManifestStore, metas: Sequence[ManifestFileMeta], schema_id: int) -> list[ManifestFileMeta]:
    """Merge neighbours below the target size once they reach it together, or are many; none that reaches it alone.

    A large one would be written again only for the sake of a small one before it, and with the next commit the next.
    """
    target = store.table.options.manifest_target_file_size
    out: list[ManifestFileMeta] = []
    group: list[ManifestFileMeta] = []
    size = 0
    for meta in metas:
        if meta.file_size >= target:
            out += [*_merge_many(store, group, schema_id), meta]
            group, size = [], 0
            continue
        group.append(meta)
        size += meta.file_size
        if size >= target:
            out += _merge_group(store, group, schema_id)
            group, size = [], 0
    return out + _merge_many(store, group, schema_id)


def _merge_many(store: ManifestStore, group: Sequence[ManifestFileMeta], schema_id: int) -> list[ManifestFileMeta]:
    many = len(group) >= store.table.options.manifest_merge_min_count
    return _merge_group(store, group, schema_id) if many else list(group)


def _merge_group(store: ManifestStore, group: Sequence[ManifestFileMeta], schema_id: int) -> list[ManifestFileMeta]:
    if len(group) == 1:
        return list(group)
    return store.write(merge_entries(e for m in group for e in store.read(m)), schema_id)

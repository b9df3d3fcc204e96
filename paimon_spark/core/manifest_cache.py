"""Process-wide cache of decoded manifests by path: files are immutable and names are unique."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from paimon_spark.format.manifest.lazy_manifest import ENTRY_BYTES, FEWEST_BLOCKS, Manifest, Rows, entries_bytes
from paimon_spark.spec.manifest import (
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
)

_T = TypeVar("_T")
_RECORD_BYTES = 800
"""Approximate size in memory of the record of a manifest or an index file."""
_PACKED_PERCENT = 130
"""Size in memory of a manifest of many entries, as a percentage of its size in the store."""


class _WeightedCache(Generic[_T]):
    """An LRU cache of items by path, bounded by weight. Files are immutable and names are unique.

    Args:
        limit: approximate total size of the items in bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._weights: dict[str, int] = {}
        self._weight = 0
        self._items: OrderedDict[str, _T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: str) -> _T | None:
        """Return the cached item of a path, or None."""
        with self._lock:
            found = self._items.get(path)
            if found is not None:
                self._items.move_to_end(path)
            return found

    def _put(self, path: str, item: _T, weight: int) -> None:
        """Store an item and evict the oldest ones; the caller holds the lock. `weight` adds to that of the path."""
        self._items[path] = item
        self._items.move_to_end(path)
        self._weights[path] = self._weights.get(path, 0) + weight
        self._weight += weight
        while self._weight > self._limit:
            oldest, _ = self._items.popitem(last=False)
            self._weight -= self._weights.pop(oldest)

    def clear(self) -> None:
        """Remove all items."""
        with self._lock:
            self._items.clear()
            self._weights.clear()
            self._weight = 0


class RecordCache(_WeightedCache[tuple[_T, ...]]):
    """A cache of the decoded records of whole files.

    Args:
        limit: approximate total size of the records in bytes.
        weigh: returns the approximate size of records in bytes.
    """

    def __init__(
        self, limit: int, weigh: Callable[[tuple[_T, ...]], int] = lambda records: len(records) * _RECORD_BYTES
    ) -> None:
        super().__init__(limit)
        self._weigh = weigh

    def put(self, path: str, records: tuple[_T, ...]) -> None:
        """Cache the records of a path, unless they exceed the limit on their own."""
        weight = _RECORD_BYTES + self._weigh(records)
        with self._lock:
            if path not in self._items and weight <= self._limit:
                self._put(path, records, weight)


class EntryCache(_WeightedCache[Mapping[int, ManifestEntry]]):
    """A cache of single entries of packed manifests, by row."""

    def of(self, manifest: Manifest, rows: Rows) -> list[ManifestEntry]:
        """Return the entries at the given rows of a manifest."""
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
                self._put(path, {**self._items.get(path, {}), **new}, weight)


def _bytes_of(manifests: Iterable[Manifest]) -> int:
    return sum(m.nbytes for m in manifests)


@dataclass(frozen=True, slots=True)
class ManifestLimits:
    """Thresholds above which metadata is kept packed instead of as objects, and cache sizes.

    Attributes:
        cached_bytes: approximate size of cached manifests; lists and index manifests have half of it each.
        live_bytes: approximate size of the cached live entries of whole snapshots.
        few_entries: a manifest with more entries is not cached when written; it is smaller when read back from its
            file.
        fewest_blocks: a manifest with more Avro blocks stays packed, and its entries are decoded on demand.
        many_files: a scan of manifests with more files keeps its result packed, on the local disk.
    """

    cached_bytes: int = 64 << 20
    live_bytes: int = 144 << 20
    few_entries: int = 1_000
    fewest_blocks: int = FEWEST_BLOCKS
    many_files: int = 110_000


class ManifestCache:
    """All manifest caches of one process."""

    def __init__(self, limits: ManifestLimits = ManifestLimits()) -> None:
        half = limits.cached_bytes // 2
        self.limits = limits
        self.manifests: RecordCache[Manifest] = RecordCache(limits.cached_bytes, _bytes_of)
        self.lists: RecordCache[ManifestFileMeta] = RecordCache(half)
        self.indexes: RecordCache[IndexManifestEntry] = RecordCache(half)
        self.live: RecordCache[Manifest] = RecordCache(limits.live_bytes, _bytes_of)
        """The live entries of whole small snapshots, combined like one manifest."""
        self.entries = EntryCache(limits.cached_bytes)

    def clear(self) -> None:
        """Remove all items from all caches."""
        for cache in (self.manifests, self.lists, self.indexes, self.live, self.entries):
            cache.clear()

    def fits(self, metas: Sequence[ManifestFileMeta]) -> bool:
        """Return whether the cache has room for all the given manifests, those with few entries counted as objects."""
        few = self.limits.few_entries
        counts = ((m.num_added_files + m.num_deleted_files, m.file_size) for m in metas)
        taken = sum(n * ENTRY_BYTES if n <= few else size * _PACKED_PERCENT // 100 for n, size in counts)
        return taken <= self.limits.cached_bytes


PROCESS_CACHE = ManifestCache()
"""The cache of tables without a cache of their own."""


def clear_cache() -> None:
    """Remove all decoded manifests of this process."""
    PROCESS_CACHE.clear()


def cached(cache: RecordCache[_T], path: str, load: Callable[[], Iterable[_T]]) -> tuple[_T, ...]:
    """Return the records of a path from the cache, or load and cache them."""
    found = cache.get(path)
    if found is None:
        found = tuple(load())
        cache.put(path, found)
    return found

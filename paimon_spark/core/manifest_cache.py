"""Decoded manifests of this process, remembered by path: files are immutable and their names unique."""

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
"""About what the record of a manifest or of an index file takes."""
_PACKED_PERCENT = 130
"""Percent of its size in the store that a manifest of many entries takes in memory."""


class _WeightedCache(Generic[_T]):
    """Items by the path they are from, the least recently used out first. Files are immutable, names unique.

    Args:
        limit: about the most bytes that all items may take.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._weights: dict[str, int] = {}
        self._weight = 0
        self._items: OrderedDict[str, _T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: str) -> _T | None:
        """Return the item from a path if it is here."""
        with self._lock:
            found = self._items.get(path)
            if found is not None:
                self._items.move_to_end(path)
            return found

    def _put(self, path: str, item: _T, weight: int) -> None:
        """Keep an item, under the lock; it takes `weight` more bytes than what was there before."""
        self._items[path] = item
        self._items.move_to_end(path)
        self._weights[path] = self._weights.get(path, 0) + weight
        self._weight += weight
        while self._weight > self._limit:
            oldest, _ = self._items.popitem(last=False)
            self._weight -= self._weights.pop(oldest)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._items.clear()
            self._weights.clear()
            self._weight = 0


class RecordCache(_WeightedCache[tuple[_T, ...]]):
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
                self._put(path, records, weight)


class EntryCache(_WeightedCache[Mapping[int, ManifestEntry]]):
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
                self._put(path, {**self._items.get(path, {}), **new}, weight)


def _bytes_of(manifests: Iterable[Manifest]) -> int:
    return sum(m.nbytes for m in manifests)


@dataclass(frozen=True, slots=True)
class ManifestLimits:
    """From where on metadata is kept packed rather than as objects, and how much of it is remembered.

    Attributes:
        cached_bytes: about the most bytes of decoded manifests; lists and index manifests have half as many.
        live_bytes: about the most bytes of the live entries of whole snapshots.
        few_entries: a manifest of more entries is not kept as it was written: read from the file it is smaller.
        fewest_blocks: a manifest of more Avro blocks stays packed, its entries decoded one by one as they are needed.
        many_files: a scan of manifests with more files keeps what it finds packed, on the local disk.
    """

    cached_bytes: int = 64 << 20
    live_bytes: int = 144 << 20
    few_entries: int = 1_000
    fewest_blocks: int = FEWEST_BLOCKS
    many_files: int = 110_000


class ManifestCache:
    """What one process remembers of manifests."""

    def __init__(self, limits: ManifestLimits = ManifestLimits()) -> None:
        half = limits.cached_bytes // 2
        self.limits = limits
        self.manifests: RecordCache[Manifest] = RecordCache(limits.cached_bytes, _bytes_of)
        self.lists: RecordCache[ManifestFileMeta] = RecordCache(half)
        self.indexes: RecordCache[IndexManifestEntry] = RecordCache(half)
        self.live: RecordCache[Manifest] = RecordCache(limits.live_bytes, _bytes_of)
        """The entries of whole snapshots of few files that nothing cancels, as one manifest would have them."""
        self.entries = EntryCache(limits.cached_bytes)

    def clear(self) -> None:
        """Forget everything."""
        for cache in (self.manifests, self.lists, self.indexes, self.live, self.entries):
            cache.clear()

    def fits(self, metas: Sequence[ManifestFileMeta]) -> bool:
        """Return whether there is room for some manifests together: those of few entries as objects."""
        few = self.limits.few_entries
        counts = ((m.num_added_files + m.num_deleted_files, m.file_size) for m in metas)
        taken = sum(n * ENTRY_BYTES if n <= few else size * _PACKED_PERCENT // 100 for n, size in counts)
        return taken <= self.limits.cached_bytes


PROCESS_CACHE = ManifestCache()
"""The cache of tables that name no other."""


def clear_cache() -> None:
    """Forget every decoded manifest of this process."""
    PROCESS_CACHE.clear()


def cached(cache: RecordCache[_T], path: str, load: Callable[[], Iterable[_T]]) -> tuple[_T, ...]:
    """Return the records from a path, loading them if they are not in the cache."""
    found = cache.get(path)
    if found is None:
        found = tuple(load())
        cache.put(path, found)
    return found

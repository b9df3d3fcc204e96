"""The live files of a snapshot as sums by bucket: one pass over the columns of its manifests, no object per file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.scan.entry_filter import SelectedEntries, every_entry, select_live
from paimon_spark.core.table import Table
from paimon_spark.format.manifest.lazy_manifest import EntryColumns
from paimon_spark.spec.manifest import DELETION_VECTORS_INDEX, BucketKey, ManifestFileMeta
from paimon_spark.spec.snapshot import Snapshot

Counts = npt.NDArray[np.int64]
SIZE_CLASSES = 48
"""Class n of the size histogram has the files of 2^(n-1) to 2^n - 1 bytes."""
_LEVELS = 32
"""Levels from this one on are counted together."""
SHOWN_LEVELS = 10
"""Of a bucket, levels from the last of these on are counted together."""
_FIRST = 64


class _Sums:
    """Growing columns of sums, one row per bucket."""

    def __init__(self, names: Sequence[str]) -> None:
        self._columns = {name: np.zeros(_FIRST, np.int64) for name in names}

    def add(self, name: str, rows: npt.NDArray[Any], values: npt.NDArray[Any] | None = None) -> None:
        column = self._columns[name]
        if len(rows):
            total = np.bincount(rows, values, minlength=len(column))
            column += total.astype(np.int64)

    def grow(self, count: int) -> None:
        for name, column in self._columns.items():
            if count > len(column):
                self._columns[name] = np.concatenate((column, np.zeros(max(count, len(column)), np.int64)))

    def column(self, name: str, count: int) -> Counts:
        return self._columns[name][:count]


_COLUMNS = ("files", "size", "rows", "small_files", "small_size", "level0_files")
_OF_LEVELS = tuple(f"size {level}" for level in range(SHOWN_LEVELS))


@dataclass(frozen=True, slots=True)
class Layout:
    """Sums over the live files of a snapshot. The arrays have one element per bucket, in the order of `buckets`.

    Attributes:
        buckets: partition and number of each bucket.
        total_buckets: number of buckets of each one's partition, as its files say.
        files: number of files.
        size: bytes.
        rows: rows in files; those that a merge will drop are included.
        small_files: files smaller than `small_limit`.
        small_size: their bytes.
        level0_files: files at level 0.
        sizes_by_level: bytes per bucket and level, see `SHOWN_LEVELS`; a matrix.
        levels: number of levels from 1 up with files.
        level_files: files per level, for the whole snapshot.
        size_classes: number of files per size class, see `SIZE_CLASSES`.
        deleted: rows marked by deletion vectors; -1 if a vector does not say how many.
        small_limit: size in bytes below which a file is small.
    """

    buckets: tuple[BucketKey, ...]
    total_buckets: Counts
    files: Counts
    size: Counts
    rows: Counts
    small_files: Counts
    small_size: Counts
    level0_files: Counts
    sizes_by_level: Counts
    levels: Counts
    level_files: Counts
    size_classes: Counts
    deleted: Counts
    small_limit: int

    @property
    def level0_size(self) -> Counts:
        """Return the bytes at level 0 of each bucket."""
        return self.sizes_by_level[:, 0]

    @property
    def sorted_runs(self) -> Counts:
        """Return the number of sorted runs of each bucket: a file at level 0 is one, and each other level."""
        return self.level0_files + self.levels

    def by_partition(self) -> Iterator[tuple[bytes, npt.NDArray[np.intp]]]:
        """Yield each partition and which buckets belong to it, postponed rows left out."""
        numbers: dict[bytes, list[int]] = {}
        for at, key in enumerate(self.buckets):
            if key.bucket >= 0:
                numbers.setdefault(key.partition, []).append(at)
        for partition, found in numbers.items():
            yield partition, np.array(found, np.intp)


class _Collector:
    def __init__(self, small_limit: int) -> None:
        self.limit = small_limit
        self.known: dict[BucketKey, int] = {}
        self.total_buckets: list[int] = []
        self.sums = _Sums((*_COLUMNS, *_OF_LEVELS))
        self.level_bits = np.zeros(_FIRST, np.int64)
        self.level_files = np.zeros(_LEVELS, np.int64)
        self.size_classes = np.zeros(SIZE_CLASSES, np.int64)

    def add(self, found: SelectedEntries) -> None:
        c, rows = found.columns, found.rows
        at = self._ordinals(c, rows)
        size, level = c.size[rows].astype(np.int64), np.minimum(c.level[rows].astype(np.int64), _LEVELS - 1)
        self.sums.grow(len(self.known))
        small, young = size < self.limit, level == 0
        self.sums.add("files", at)
        self.sums.add("size", at, size)
        self.sums.add("rows", at, c.rows[rows])
        self.sums.add("small_files", at[small])
        self.sums.add("small_size", at[small], size[small])
        self.sums.add("level0_files", at[young])
        for shown in range(SHOWN_LEVELS):
            there = level == shown if shown < SHOWN_LEVELS - 1 else level >= shown
            if there.any():
                self.sums.add(_OF_LEVELS[shown], at[there], size[there])
        self.level_files += np.bincount(level, minlength=_LEVELS)
        classes = np.minimum(np.frexp(size.astype(np.float64))[1], SIZE_CLASSES - 1)
        self.size_classes += np.bincount(classes, minlength=SIZE_CLASSES)
        self._note_levels(at, level)

    def _note_levels(self, at: npt.NDArray[Any], level: npt.NDArray[Any]) -> None:
        if len(self.known) > len(self.level_bits):
            more = np.zeros(max(len(self.known), len(self.level_bits)), np.int64)
            self.level_bits = np.concatenate((self.level_bits, more))
        np.bitwise_or.at(self.level_bits, at, np.left_shift(np.int64(1), level))

    def _ordinals(self, c: EntryColumns, rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return for each row the ordinal of its bucket."""
        least = int(c.bucket[rows].min())
        bucket = c.bucket[rows].astype(np.int64) - least
        pairs = c.partition[rows].astype(np.int64) * (int(bucket.max()) + 1) + bucket
        _, firsts, inverse = np.unique(pairs, return_index=True, return_inverse=True)
        ordinals = np.empty(len(firsts), np.int64)
        for n, first in enumerate(firsts.tolist()):
            row = int(rows[first])
            key = BucketKey(c.partitions[int(c.partition[row])], int(c.bucket[row]))
            if key not in self.known:
                self.known[key] = len(self.known)
                self.total_buckets.append(int(c.total_buckets[row]))
            ordinals[n] = self.known[key]
        return ordinals[inverse]


def small_limit(table: Table) -> int:
    """Return the size below which compaction considers a file of the table small."""
    target = table.options.target_file_size(primary_key=table.is_primary_key_table)
    return int(target * table.options.compaction_small_file_ratio)


def layout_of(table: Table, snapshot: Snapshot | None, metas: Sequence[ManifestFileMeta] | None = None) -> Layout:
    """Return the sums over the live files of a snapshot.

    Args:
        table: the table.
        snapshot: the snapshot; None has no files.
        metas: its manifests, if they have been listed; those of the snapshot by default.
    """
    store, limit = ManifestStore(table), small_limit(table)
    collector = _Collector(limit)
    if snapshot is not None:
        chosen = store.data_manifests(snapshot) if metas is None else metas
        for found in select_live(store, chosen, every_entry):
            collector.add(found)
    count = len(collector.known)
    bits = collector.level_bits[:count] >> 1
    return Layout(
        buckets=tuple(collector.known),
        total_buckets=np.array(collector.total_buckets, np.int64),
        levels=np.array([int(b).bit_count() for b in bits.tolist()], np.int64),
        level_files=collector.level_files,
        size_classes=collector.size_classes,
        deleted=_deleted(store, snapshot, collector.known),
        small_limit=limit,
        files=collector.sums.column("files", count),
        size=collector.sums.column("size", count),
        rows=collector.sums.column("rows", count),
        small_files=collector.sums.column("small_files", count),
        small_size=collector.sums.column("small_size", count),
        level0_files=collector.sums.column("level0_files", count),
        sizes_by_level=np.column_stack([collector.sums.column(name, count) for name in _OF_LEVELS]),
    )


def _deleted(store: ManifestStore, snapshot: Snapshot | None, known: dict[BucketKey, int]) -> Counts:
    deleted = np.zeros(len(known), np.int64)
    for entry in store.index_entries(snapshot):
        at = known.get(entry.bucket_key)
        if at is None or entry.file.index_type != DELETION_VECTORS_INDEX:
            continue
        counts = [r.cardinality for r in entry.file.deletion_ranges or ()]
        unknown = deleted[at] < 0 or None in counts
        deleted[at] = -1 if unknown else deleted[at] + sum(n for n in counts if n is not None)
    return deleted

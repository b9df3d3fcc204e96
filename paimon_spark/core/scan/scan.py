"""The files of a snapshot that a reader needs: the live entries, pruned step by step by metadata.

Order of the steps: partition and bucket ranges of the manifests, partition of the entries, bucket, key statistics,
value statistics (docs/spec/semantics.md, R10-R15).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from paimon_spark.core.manifest_cache import cached
from paimon_spark.core.metadata.manifest_store import ManifestStore, may_hold_partition
from paimon_spark.core.metadata.netting import DeletedEntries
from paimon_spark.core.metadata.row_ranges import evolves
from paimon_spark.core.scan.entry_filter import ScanTotals, SelectedEntries, every_entry, in_partitions, select_live
from paimon_spark.core.scan.global_indexes import GlobalIndexes
from paimon_spark.core.scan.packed_files import Numbers, PackedFileStore
from paimon_spark.core.scan.pruning import (
    EntryPruner,
    StatisticsFilter,
    filter_by_statistics,
    filter_by_value_statistics,
    only_partitions,
)
from paimon_spark.core.scan.result import PackedScan, Scan, ScanCounts, ScanResult
from paimon_spark.core.table import Table
from paimon_spark.format.arrays import Mask
from paimon_spark.format.manifest.lazy_manifest import EntryColumns, Manifest, Rows
from paimon_spark.spec.kinds import FileKind
from paimon_spark.spec.manifest import (
    BucketKey,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
)
from paimon_spark.spec.predicate import (
    TRUE,
    AlwaysTrue,
    Predicate,
)
from paimon_spark.spec.snapshot import Snapshot

EntryTest = Callable[[ManifestEntry], bool]
FEW_FILES = 1_000
"""Maximum number of files whose entries are selected one by one, which is faster than by columns."""


def scan(
    table: Table,
    snapshot: Snapshot | None,
    *,
    partition_predicate: Predicate = TRUE,
    predicate: Predicate = TRUE,
    buckets: Collection[int] | None = None,
    levels: Collection[int] | None = None,
) -> ScanResult:
    """Return the live files of a snapshot that may hold rows of a filter.

    Args:
        table: the table, at the schema that the columns of the filters belong to.
        snapshot: the snapshot; None reads nothing.
        partition_predicate: filter over partition columns, applied exactly.
        predicate: filter over any columns; its conditions on the partition are applied exactly, the rest by statistics.
        buckets: only these buckets.
        levels: only these levels.
    """
    if snapshot is None:
        return ScanResult(None)
    return _entries(*_near(snapshot, EntryPruner.of(table, partition_predicate, predicate, buckets, levels)))


def scan_buckets(
    table: Table,
    snapshot: Snapshot | None,
    *,
    statistics: bool,
    predicate: Predicate = TRUE,
    buckets: Collection[int] | None = None,
    levels: Collection[int] | None = None,
    visible_only: bool = False,
    enough_rows: int | None = None,
) -> Scan:
    """Return the result of `scan` for callers that process one bucket at a time; very many files are packed.

    Args:
        table: as in `scan`, and so are those that are not named here.
        snapshot: the snapshot.
        statistics: whether the files must have their statistics; few files always have them.
        predicate: filter over any columns.
        buckets: only these buckets.
        levels: only these levels.
        visible_only: without `levels`, only files that batch readers see: some tables hide level 0.
        enough_rows: any rows of this number suffice, so that later manifests may remain unread.
    """
    if snapshot is None:
        return ScanResult(None)
    pruner = EntryPruner.of(table, TRUE, predicate, buckets, levels, visible_only=visible_only)
    manifests, pruner = _near(snapshot, pruner)
    enough = enough_rows if _may_stop(manifests, pruner) else None
    if manifests.are_many:
        return _packed(manifests, pruner, statistics=statistics, enough=enough)
    return _entries(manifests, pruner, enough)


def scan_places(
    table: Table, snapshot: Snapshot | None, places: Collection[BucketKey], predicate: Predicate = TRUE
) -> Scan:
    """Return the files of some buckets, with statistics, and perhaps those of others with their partitions and numbers.

    Args:
        table: the table.
        snapshot: the snapshot.
        places: the buckets.
        predicate: filter over any columns.
    """
    if snapshot is None:
        return ScanResult(None)
    manifests, pruner = _near(snapshot, EntryPruner.of(table, TRUE, predicate, None, None).within(places))
    if sum(m.num_added_files for m in manifests.all) <= FEW_FILES:
        return scan_buckets(table, snapshot, statistics=True, predicate=predicate)
    if manifests.are_many:
        return _packed(manifests, pruner, statistics=True, enough=None)
    return _entries(manifests, pruner)


@dataclass(frozen=True, slots=True)
class _Manifests:
    """The manifests of a snapshot, and those of them that may have selected entries."""

    store: ManifestStore
    snapshot: Snapshot
    all: Sequence[ManifestFileMeta]
    near: Sequence[ManifestFileMeta]

    @property
    def are_many(self) -> bool:
        return sum(m.num_added_files for m in self.near) > self.store.cache.limits.many_files

    def live(self, pruner: EntryPruner, *, only_known: bool) -> Manifest | None:
        """Return all live entries of the snapshot if they are in the cache, or all needed and worth caching."""
        if self.are_many or len(self.near) < len(self.all):
            return None
        key, live = self.store.lists_key(self.snapshot), self.store.cache.live
        if only_known or pruner.prunes_partitions:
            return next(iter(live.get(key) or ()), None)
        return cached(live, key, lambda: [Manifest(live_entries(self.store, self.near, lambda e: e.bucket >= 0))])[0]


def _near(snapshot: Snapshot, pruner: EntryPruner) -> tuple[_Manifests, EntryPruner]:
    """Return the manifests of a snapshot, and what selects their entries."""
    store = ManifestStore(pruner.table)
    metas = store.data_manifests(snapshot)
    return _Manifests(store, snapshot, metas, [m for m in metas if pruner.may_match(m)]), pruner


def _may_stop(manifests: _Manifests, pruner: EntryPruner) -> bool:
    """Return whether the row counts of files are those of their readers, and each file can be read alone."""
    table = manifests.store.table
    unmerged = not (table.is_primary_key_table or evolves(table)) and manifests.snapshot.index_manifest is None
    return unmerged and only_partitions(table, pruner.predicate)


def _selected(
    manifests: _Manifests, pruner: EntryPruner, seen: ScanTotals, enough: int | None
) -> Iterator[SelectedEntries]:
    """Yield the selected live entries, as many as suffice."""
    rows = 0
    for found in select_live(manifests.store, manifests.near, pruner.selected, seen):
        some = _enough(found.columns, found.rows, None if enough is None else enough - rows)
        yield SelectedEntries(found.manifest, found.columns, some)
        rows += int(found.columns.rows[some].sum(dtype=np.int64))
        if enough is not None and rows >= enough:
            seen.files = max(seen.files, sum(m.num_added_files - m.num_deleted_files for m in manifests.near))
            return


def _enough(columns: EntryColumns, rows: Rows, enough: int | None) -> Rows:
    """Return the leading entries whose files have enough rows."""
    if enough is None:
        return rows
    before = np.cumsum(columns.rows[rows], dtype=np.int64) - columns.rows[rows]
    return rows[before < enough]


def _entries(manifests: _Manifests, pruner: EntryPruner, enough: int | None = None) -> ScanResult:
    store, seen = manifests.store, ScanTotals()
    live = manifests.live(pruner, only_known=enough is not None)
    if live is not None:
        columns = live.entry_columns()
        seen.add(columns, columns.kind == FileKind.ADD)
        entries = list(live.entries(_enough(columns, np.flatnonzero(pruner.selected(columns)), enough)))
    else:
        found = _selected(manifests, pruner, seen, enough)
        entries = [e for c in found for e in store.entries(c.manifest, c.rows)]
    entries = filter_by_statistics(store.table, entries, pruner.predicate)
    entries = _global_indexes(manifests, pruner).filtered(entries)
    kept = set(map(BucketKey._make, {(e.partition, e.bucket) for e in entries}))
    counts = _counts(manifests, seen, len(entries), sum(e.file.row_count for e in entries), kept)
    return ScanResult(manifests.snapshot, tuple(entries), _index_entries(manifests, kept), counts)


def _counts(manifests: _Manifests, seen: ScanTotals, files: int, rows: int, kept: Collection[BucketKey]) -> ScanCounts:
    return ScanCounts(
        manifests=len(manifests.all),
        manifests_read=len(manifests.near),
        files_seen=seen.files,
        files=files,
        partitions_seen=len(seen.partitions),
        partitions=len({p for p, _ in kept}),
        rows=rows,
    )


def _global_indexes(manifests: _Manifests, pruner: EntryPruner) -> GlobalIndexes:
    store = manifests.store
    return GlobalIndexes(store.table, store.read_index(manifests.snapshot.index_manifest), pruner.predicate)


def _index_entries(manifests: _Manifests, kept: Collection[BucketKey]) -> tuple[IndexManifestEntry, ...]:
    entries = manifests.store.read_index(manifests.snapshot.index_manifest)
    return tuple(i for i in entries if i.bucket_key in kept)


def _packed(manifests: _Manifests, pruner: EntryPruner, *, statistics: bool, enough: int | None) -> PackedScan:
    seen, pool = ScanTotals(), PackedFileStore(statistics=statistics)
    table = manifests.store.table
    tests, indexes = StatisticsFilter(table), _global_indexes(manifests, pruner)
    buckets: dict[BucketKey, tuple[int, int]] = {}
    columns: list[tuple[Numbers, Numbers, Mask]] = []
    for found in _selected(manifests, pruner, seen, enough):
        rows, matching = tests.choose(found, pruner.predicate)
        if indexes.are_usable and not evolves(table):
            matching = indexes.matching(found.manifest.entries(rows))
            rows, matching = rows[matching], matching[matching]
        if len(rows):
            p = found.columns
            pool.add(found.manifest.packed_files(rows, statistics=statistics), p.size[rows], p.rows[rows])
            columns.append((_bucket_ordinals(p, rows, buckets), p.level[rows], matching))
    numbers = _grouped([c[0] for c in columns], len(buckets))
    if numbers and not isinstance(pruner.predicate, AlwaysTrue):
        levels, matching = (np.concatenate([c[i] for c in columns]) for i in (1, 2))
        numbers = [n[filter_by_value_statistics(table, levels[n], matching[n])] for n in numbers]
    of_bucket = [(key, total, n) for (key, (_, total)), n in zip(buckets.items(), numbers, strict=True) if len(n)]
    kept = {key for key, _, _ in of_bucket}
    files = sum(len(n) for _, _, n in of_bucket)
    rows_kept = sum(pool.total_rows(n) for _, _, n in of_bucket)
    return PackedScan(
        manifests.snapshot,
        pool,
        tuple((key, total) for key, total, _ in of_bucket),
        tuple(n for _, _, n in of_bucket),
        _index_entries(manifests, kept),
        _counts(manifests, seen, files, rows_kept, kept),
    )


def _bucket_ordinals(columns: EntryColumns, rows: Rows, known: dict[BucketKey, tuple[int, int]]) -> Numbers:
    """Return for each row the number of its partition and bucket, counted in the order of their first files."""
    least = int(columns.bucket[rows].min())
    buckets = columns.bucket[rows].astype(np.int64) - least
    pairs = columns.partition[rows].astype(np.int64) * (int(buckets.max()) + 1) + buckets
    _, firsts, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    numbers = np.empty(len(firsts), np.int32)
    for at in np.argsort(firsts).tolist():
        row = int(rows[firsts[at]])
        key = BucketKey(columns.partitions[int(columns.partition[row])], int(columns.bucket[row]))
        numbers[at], _ = known.setdefault(key, (len(known), int(columns.total_buckets[row])))
    return numbers[inverse]


def _grouped(parts: Sequence[Numbers], count: int) -> list[Numbers]:
    """Return for each bucket which files are in it, in ascending order."""
    if not parts:
        return []
    if count == 1:
        return [np.arange(sum(map(len, parts)), dtype=np.uint32)]
    of_bucket = np.concatenate(parts)
    order = np.argsort(of_bucket, kind="stable").astype(np.uint32)
    return np.split(order, np.searchsorted(of_bucket[order], np.arange(1, count)))


def live_entries(
    store: ManifestStore, metas: Sequence[ManifestFileMeta], keep: EntryTest = lambda _: True
) -> Iterable[ManifestEntry]:
    """Yield the ADD entries that no DELETE among the manifests cancels, in manifest order."""
    deleted = DeletedEntries(e for m in metas if m.num_deleted_files for e in store.open(m).entries() if keep(e))
    for meta in metas:
        if meta.num_added_files > 0:
            yield from deleted.live(filter(keep, store.open(meta).entries()))


def live_in_partitions(
    store: ManifestStore, snapshot: Snapshot | None, partitions: Collection[bytes] | None
) -> list[ManifestEntry]:
    """Return all live entries of some partitions (None: of all), every bucket and level included."""
    if snapshot is None:
        return []
    metas = store.data_manifests(snapshot)
    if partitions is None:
        found = select_live(store, metas, every_entry)
    else:
        types = store.table.partition_types
        near = [m for m in metas if may_hold_partition(m, partitions, types)]
        found = select_live(store, near, lambda columns: in_partitions(columns, partitions))
    return [e for c in found for e in store.entries(c.manifest, c.rows)]

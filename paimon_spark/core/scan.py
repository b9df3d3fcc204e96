"""Which files of a snapshot a reader needs: the live entries, pruned step by step from what the metadata says.

Order of the steps: partition and bucket ranges of the manifests, partition of the entries, bucket, key statistics,
value statistics (semantics R10-R15).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from paimon_spark.core.manifests import LIVE, ManifestStore, cached, may_hold_partition
from paimon_spark.core.table import Table
from paimon_spark.spec.kinds import BucketMode, FileKind, MergeEngine
from paimon_spark.spec.manifest import (
    FileIdentity,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
)
from paimon_spark.spec.predicate import (
    AlwaysTrue,
    Predicate,
    and_,
    evaluate,
    fixed_values,
    may_match,
    project,
)
from paimon_spark.spec.rows import bucket_of, decode_row, encode_row, murmur, row_arity, row_body
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.stats import ColumnStats, key_stats_view, stats_view
from paimon_spark.spec.types import AtomicType, TypeRoot

EntryTest = Callable[[ManifestEntry], bool]
ALL: Predicate = AlwaysTrue()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanCounts:
    """How much of a snapshot a scan looked at and how much it kept."""

    manifests: int = 0
    manifests_read: int = 0
    files_seen: int = 0
    files: int = 0
    partitions_seen: int = 0
    partitions: int = 0
    rows_seen: int = 0
    rows: int = 0


@dataclass(frozen=True, slots=True)
class ScanResult:
    """The entries of a snapshot that may hold wanted rows; `predicate` is the whole filter they were chosen by."""

    snapshot: Snapshot | None
    entries: tuple[ManifestEntry, ...] = ()
    index_entries: tuple[IndexManifestEntry, ...] = ()
    counts: ScanCounts = field(default_factory=ScanCounts)


def scan(
    table: Table,
    snapshot: Snapshot | None,
    *,
    partition_predicate: Predicate = ALL,
    predicate: Predicate = ALL,
    buckets: Collection[int] | None = None,
    levels: Collection[int] | None = None,
) -> ScanResult:
    """Return the live files of a snapshot that may hold rows of a filter.

    Args:
        table: the table, at the schema that the columns of the filters belong to.
        snapshot: what to read; None reads nothing.
        partition_predicate: filter over partition columns, applied exactly.
        predicate: filter over any columns; what it says of the partition is applied too, the rest by statistics.
        buckets: only these buckets.
        levels: only these levels; without it, tables whose level 0 is invisible to readers show the levels above.
    """
    if snapshot is None:
        return ScanResult(None)
    store = ManifestStore(table)
    metas = store.data_manifests(snapshot)
    partition_filter = and_(partition_predicate, project(predicate, table.schema.partition_keys))
    wanted = [m for m in metas if _manifest_may_match(table, m, partition_filter, buckets)]
    live = _readable(store, snapshot, metas, wanted)
    entries = _in_partitions(table, list(live), partition_filter)
    partitions = {e.partition for e in entries}
    entries = _in_buckets(table, entries, predicate, buckets)
    entries = _in_levels(table, entries, levels)
    entries = _by_statistics(table, entries, predicate)
    kept = {(e.partition, e.bucket) for e in entries}
    index_entries = store.read_index(snapshot.index_manifest)
    counts = ScanCounts(
        manifests=len(metas),
        manifests_read=len(wanted),
        files_seen=len(live),
        files=len(entries),
        partitions_seen=len({e.partition for e in live}),
        partitions=len(partitions & {p for p, _ in kept}),
        rows_seen=sum(e.file.row_count for e in live),
        rows=sum(e.file.row_count for e in entries),
    )
    return ScanResult(
        snapshot, tuple(entries), tuple(i for i in index_entries if (i.partition, i.bucket) in kept), counts
    )


def live_entries(
    store: ManifestStore, metas: Sequence[ManifestFileMeta], keep: EntryTest = lambda _: True
) -> Iterable[ManifestEntry]:
    """Yield the ADD entries that no DELETE among the manifests cancels, in manifest order."""
    removed: set[FileIdentity] = set()
    for meta in metas:
        if meta.num_deleted_files > 0:
            removed.update(e.identity for e in store.read(meta) if e.kind is FileKind.DELETE and keep(e))
    for meta in metas:
        if meta.num_added_files > 0:
            for entry in store.read(meta):
                if entry.kind is FileKind.ADD and keep(entry) and not (removed and entry.identity in removed):
                    yield entry


def _readable(
    store: ManifestStore, snapshot: Snapshot, metas: Sequence[ManifestFileMeta], wanted: Sequence[ManifestFileMeta]
) -> tuple[ManifestEntry, ...]:
    """Return the live entries of the wanted manifests whose rows readers see; those of all manifests are remembered."""

    def load() -> Iterable[ManifestEntry]:
        return live_entries(store, wanted, lambda e: e.bucket >= 0)

    return cached(LIVE, store.lists_key(snapshot), load) if len(wanted) == len(metas) else tuple(load())


def live_in_partitions(
    store: ManifestStore, snapshot: Snapshot | None, partitions: Collection[bytes] | None
) -> list[ManifestEntry]:
    """Return all live entries of some partitions (None: of all), every bucket and level included."""
    if snapshot is None:
        return []
    metas = store.data_manifests(snapshot)
    if partitions is None:
        return list(live_entries(store, metas))
    types = store.table.partition_types
    near = [m for m in metas if may_hold_partition(m, partitions, types)]
    return list(live_entries(store, near, lambda e: e.partition in partitions))


def matching_partitions(table: Table, partitions: Iterable[bytes], predicate: Predicate) -> set[bytes]:
    """Return the serialized partitions for which a filter over partition columns is true."""
    if isinstance(predicate, AlwaysTrue):
        return set(partitions)
    names, types = table.schema.partition_keys, table.partition_types
    return {
        p for p in set(partitions) if evaluate(predicate, dict(zip(names, decode_row(p, types), strict=True))) is True
    }


def _manifest_may_match(
    table: Table, meta: ManifestFileMeta, predicate: Predicate, buckets: Collection[int] | None
) -> bool:
    if buckets is not None and meta.min_bucket is not None and meta.max_bucket is not None:
        low, high = meta.min_bucket, meta.max_bucket
        if not any(low <= b <= high for b in buckets):
            return False
    stats, types = meta.partition_stats, table.partition_types
    if isinstance(predicate, AlwaysTrue) or row_arity(stats.min_values) < len(types):
        return True
    lows, highs = decode_row(stats.min_values, types), decode_row(stats.max_values, types)
    nulls = stats.null_counts or (None,) * len(types)
    view = {
        name: ColumnStats(low, high, null)
        for name, low, high, null in zip(table.schema.partition_keys, lows, highs, nulls, strict=True)
    }
    return may_match(predicate, view, meta.num_added_files + meta.num_deleted_files)


def _in_partitions(table: Table, entries: list[ManifestEntry], predicate: Predicate) -> list[ManifestEntry]:
    if isinstance(predicate, AlwaysTrue):
        return entries
    chosen = matching_partitions(table, (e.partition for e in entries), predicate)
    return [e for e in entries if e.partition in chosen]


def _in_buckets(
    table: Table, entries: list[ManifestEntry], predicate: Predicate, buckets: Collection[int] | None
) -> list[ManifestEntry]:
    if buckets is not None:
        entries = [e for e in entries if e.bucket in buckets]
    hashes = _fixed_hashes(table, predicate)
    if hashes is None:
        return entries
    chosen: dict[int, set[int]] = {}
    for count in {e.total_buckets for e in entries if e.total_buckets > 0}:
        chosen[count] = {bucket_of(h, count) for h in hashes}
    return [e for e in entries if e.total_buckets <= 0 or e.bucket in chosen[e.total_buckets]]


def _fixed_hashes(table: Table, predicate: Predicate) -> set[int] | None:
    """Return the hashes of all bucket keys that a filter allows, or None if it does not fix them.

    A CHAR is never fixed: its blanks at the end do not count in a filter, but they do in the hash.
    """
    modes = (BucketMode.HASH_FIXED, BucketMode.POSTPONE)
    if table.bucket_mode not in modes or table.options.bucket_function_type != "default":
        return None
    fields = table.bucket_key_fields
    combinations = fixed_values(predicate, [f.name for f in fields])
    if combinations is None:
        return None
    types = [f.type for f in fields]
    if any(isinstance(t, AtomicType) and t.root is TypeRoot.CHAR for t in types):
        return None
    try:
        return {murmur(row_body(encode_row(values, types))) for values in combinations}
    except (ArithmeticError, TypeError, ValueError):
        return None


def _in_levels(table: Table, entries: list[ManifestEntry], levels: Collection[int] | None) -> list[ManifestEntry]:
    if levels is not None:
        return [e for e in entries if e.file.level in levels]
    return [e for e in entries if e.file.level > 0] if reads_above_level_0(table) else entries


def reads_above_level_0(table: Table) -> bool:
    """Return whether batch readers of the table must not see level 0 (semantics R7)."""
    if not table.is_primary_key_table:
        return False
    options = table.options
    vectors = options.deletion_vectors_enabled and not options.deletion_vectors_merge_on_read
    return vectors or options.merge_engine is MergeEngine.FIRST_ROW


class _Statistics:
    """Tests single files against a filter, remembering the schemas that their statistics belong to."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._schemas: dict[int, TableSchema] = {table.schema.id: table.schema}

    def may_match_keys(self, entry: ManifestEntry, predicate: Predicate) -> bool:
        view = key_stats_view(entry.file, self._schema_of(entry), self._table.schema)
        return may_match(predicate, view, entry.file.row_count)

    def may_match_values(self, entry: ManifestEntry, predicate: Predicate) -> bool:
        view: Mapping[str, ColumnStats] = stats_view(entry.file, self._schema_of(entry), self._table.schema)
        return may_match(predicate, view, entry.file.row_count)

    def _schema_of(self, entry: ManifestEntry) -> TableSchema:
        schema_id = entry.file.schema_id
        if schema_id not in self._schemas:
            self._schemas[schema_id] = self._table.schema_store.get(schema_id)
        return self._schemas[schema_id]


def _by_statistics(table: Table, entries: list[ManifestEntry], predicate: Predicate) -> list[ManifestEntry]:
    if isinstance(predicate, AlwaysTrue):
        return entries
    statistics = _Statistics(table)
    if not table.is_primary_key_table:
        return [e for e in entries if statistics.may_match_values(e, predicate)]
    keys = project(predicate, table.schema.trimmed_primary_keys)
    if not isinstance(keys, AlwaysTrue):
        entries = [e for e in entries if statistics.may_match_keys(e, keys)]
    groups: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for entry in entries:
        groups.setdefault((entry.partition, entry.bucket), []).append(entry)
    return [e for group in groups.values() for e in _by_values(table, group, predicate, statistics)]


def _by_values(
    table: Table, group: list[ManifestEntry], predicate: Predicate, statistics: _Statistics
) -> list[ManifestEntry]:
    """Prune the files of one bucket by value statistics without uncovering older versions of a key (R13)."""
    levels = {e.file.level for e in group}
    alone = len(group) == 1 or (len(levels) == 1 and 0 not in levels)
    if alone or reads_above_level_0(table):
        return [e for e in group if statistics.may_match_values(e, predicate)]
    if table.options.merge_engine in (MergeEngine.PARTIAL_UPDATE, MergeEngine.AGGREGATION):
        return group
    return group if any(statistics.may_match_values(e, predicate) for e in group) else []

"""Pruning by metadata: partitions, buckets, keys and values, at the manifest and file level.

(docs/spec/semantics.md, R10-R15)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import Any

import numpy as np
import numpy.typing as npt

from paimon_spark.core.char_values import is_char
from paimon_spark.core.metadata.manifest_store import may_hold_partition
from paimon_spark.core.metadata.row_ranges import RowRange, evolves, row_ranges
from paimon_spark.core.scan.entry_filter import SelectedEntries, in_partitions
from paimon_spark.core.scan.file_indexes import FileIndexes
from paimon_spark.core.scan.file_statistics import FileStatistics
from paimon_spark.core.table import Table
from paimon_spark.format.arrays import Mask
from paimon_spark.format.manifest.lazy_manifest import EntryColumns, Rows
from paimon_spark.spec.bucket_functions import bucket_for, key_hash
from paimon_spark.spec.kinds import BucketMode, MergeEngine
from paimon_spark.spec.manifest import (
    BucketKey,
    DataFileMeta,
    ManifestEntry,
    ManifestFileMeta,
)
from paimon_spark.spec.options import POSTPONE_BUCKET
from paimon_spark.spec.predicate import (
    TRUE,
    AlwaysTrue,
    Comparison,
    Or,
    Predicate,
    and_,
    columns_of,
    evaluate,
    fixed_values,
    may_match,
    or_,
    project,
    split_and,
    without_blanks,
)
from paimon_spark.spec.rows import decode_row, row_arity
from paimon_spark.spec.stats import ColumnStats, comparable_stats
from paimon_spark.spec.types import DataField

_ENTRIES_AT_ONCE = 1_000
"""Number of entries of a large scan that are decoded at a time."""


def matching_partitions(table: Table, partitions: Iterable[bytes], predicate: Predicate) -> set[bytes]:
    """Return the serialized partitions for which a filter over partition columns is true.

    Trailing blanks of a CHAR are ignored, because only some writers store them.
    """
    if isinstance(predicate, AlwaysTrue):
        return set(partitions)
    chars = _char_columns(table.schema.partition_fields)
    wanted = without_blanks(predicate, chars)
    names, types = table.schema.partition_keys, table.partition_types

    def values(partition: bytes) -> dict[str, Any]:
        found = dict(zip(names, decode_row(partition, types), strict=True))
        return found | {c: found[c].rstrip(" ") for c in chars if found[c] is not None}

    named, others = _named_partitions(wanted, names)
    rows = ((p, values(p)) for p in set(partitions))
    return {p for p, row in rows if tuple(row.values()) in named or evaluate(others, row) is True}


def _named_partitions(predicate: Predicate, columns: Sequence[str]) -> tuple[set[tuple[Any, ...]], Predicate]:
    """Return the partitions that alternatives of a filter name by all of their values, and its other alternatives.

    A statement may name thousands of partitions; they are looked up.
    """
    named: set[tuple[Any, ...]] = set()
    if not isinstance(predicate, Or):
        return named, predicate
    others: list[Predicate] = []
    for part in predicate.parts:
        row = _named_partition(part, columns)
        if row is None:
            others.append(part)
        else:
            named.add(row)
    return named, or_(*others)


def _named_partition(predicate: Predicate, columns: Sequence[str]) -> tuple[Any, ...] | None:
    """Return the values that a filter requires of all partition columns, or None for another filter, or for floats."""
    fixed: dict[str, Any] = {}
    conditions = split_and(predicate)
    for c in conditions:
        if isinstance(c, Comparison) and c.op == ("=" if c.value is not None else "<=>") and type(c.value) is not float:
            fixed[c.column] = c.value
    whole = len(fixed) == len(conditions) == len(columns)
    return tuple(fixed[c] for c in columns) if whole and all(c in fixed for c in columns) else None


def _char_columns(fields: Iterable[DataField]) -> list[str]:
    """Return the names of the CHAR columns, whose trailing blanks comparisons ignore."""
    return [f.name for f in fields if is_char(f.type)]


def _manifest_may_match(
    table: Table, meta: ManifestFileMeta, predicate: Predicate, buckets: Collection[int] | None
) -> bool:
    """Return whether a manifest may have entries of the given buckets and matching partitions, by its ranges."""
    if buckets is not None and meta.min_bucket is not None and meta.max_bucket is not None:
        low, high = meta.min_bucket, meta.max_bucket
        if not any(low <= b <= high for b in buckets):
            return False
    stats, types = meta.partition_stats, table.partition_types
    if isinstance(predicate, AlwaysTrue) or row_arity(stats.min_values) < len(types):
        return True
    lows, highs = decode_row(stats.min_values, types), decode_row(stats.max_values, types)
    nulls = stats.null_counts or (None,) * len(types)
    fields = table.schema.partition_fields
    view = {
        f.name: comparable_stats(ColumnStats(low, high, null), f.type)
        for f, low, high, null in zip(fields, lows, highs, nulls, strict=True)
    }
    return may_match(predicate, view, meta.num_added_files + meta.num_deleted_files)


def _fixed_hashes(table: Table, predicate: Predicate) -> set[int] | None:
    """Return the bucket key hashes that a filter allows, or None if it does not bound them.

    A CHAR never bounds them: filters ignore its trailing blanks, but the hash includes them. A row whose key became a
    default may be in the bucket of NULL, from which other writers compute it.
    """
    if table.bucket_mode not in (BucketMode.HASH_FIXED, BucketMode.POSTPONE):
        return None
    fields = table.bucket_key_fields
    combinations = fixed_values(predicate, [f.name for f in fields])
    if combinations is None:
        return None
    types = [f.type for f in fields]
    if any(map(is_char, types)):
        return None
    has_default = [f.default_value is not None and f.type.nullable for f in fields]
    try:
        return {
            key_hash(table.options.bucket_function_type, hashed, types)
            for values in combinations
            for hashed in product(*({v, None} if d else {v} for v, d in zip(values, has_default, strict=True)))
        }
    except (ArithmeticError, TypeError, ValueError):
        return None


def reads_above_level_0(table: Table) -> bool:
    """Return whether batch readers of the table must not see level 0 (docs/spec/semantics.md, R7)."""
    if not table.is_primary_key_table:
        return False
    options = table.options
    vectors = options.deletion_vectors_enabled and not options.deletion_vectors_merge_on_read
    return vectors or options.merge_engine is MergeEngine.FIRST_ROW


@dataclass(frozen=True, slots=True)
class EntryPruner:
    """Selects manifests and entries that may belong to requested files, by partition, bucket and level.

    Attributes:
        table: the scanned table.
        predicate: the whole filter, blanks of CHAR literals removed.
        partition_predicate: the conditions of the filters on partitions.
        buckets: only these buckets.
        levels: only these levels.
        hashes: hashes of all bucket keys that the filter allows; None if it does not fix them.
        above_level_0: leave level 0 out.
        postponed: select postponed files, too; only partitions leave them out.
        partitions: only these partitions.
    """

    table: Table
    predicate: Predicate
    partition_predicate: Predicate
    buckets: Collection[int] | None
    levels: Collection[int] | None
    hashes: Collection[int] | None
    above_level_0: bool = False
    postponed: bool = False
    partitions: Collection[bytes] | None = None
    _wanted: dict[bytes, bool] = field(default_factory=dict)
    """Whether a partition is selected, for those that were tested."""

    @classmethod
    def of(
        cls,
        table: Table,
        partition_predicate: Predicate,
        predicate: Predicate,
        buckets: Collection[int] | None,
        levels: Collection[int] | None,
        *,
        visible_only: bool = False,
    ) -> EntryPruner:
        """Return the pruner of a scan; the arguments are those of `scan_buckets`."""
        chars = _char_columns(table.schema.fields)
        predicate = without_blanks(predicate, chars)
        partitions = and_(without_blanks(partition_predicate, chars), project(predicate, table.schema.partition_keys))
        hides = visible_only and levels is None and reads_above_level_0(table)
        return cls(table, predicate, partitions, buckets, levels, _fixed_hashes(table, predicate), hides)

    def within(self, places: Collection[BucketKey]) -> EntryPruner:
        """Return a pruner that also leaves out other partitions than these, and other bucket numbers."""
        return replace(self, partitions={p.partition for p in places}, buckets={p.bucket for p in places})

    @property
    def prunes_partitions(self) -> bool:
        """Return whether some partitions may be left out."""
        return self.partitions is not None or not isinstance(self.partition_predicate, AlwaysTrue)

    def may_match(self, meta: ManifestFileMeta) -> bool:
        """Return whether a manifest may have selected entries."""
        if self.partitions is not None and not may_hold_partition(meta, self.partitions, self.table.partition_types):
            return False
        return _manifest_may_match(self.table, meta, self.partition_predicate, self.buckets)

    def selected(self, columns: EntryColumns) -> Mask:
        """Return which entries may be selected, by their columns."""
        wanted: Mask = columns.bucket >= (POSTPONE_BUCKET if self.postponed else 0)
        if self.partitions is not None:
            wanted &= in_partitions(columns, self.partitions)
        if not isinstance(self.partition_predicate, AlwaysTrue):
            wanted &= in_partitions(columns, self._matching(columns.partitions))
        if self.buckets is not None:
            wanted &= np.isin(columns.bucket, list(self.buckets))
        if self.hashes is not None:
            fits, function = columns.total_buckets <= 0, self.table.options.bucket_function_type
            for total in np.unique(columns.total_buckets[~fits]).tolist():
                allowed = [bucket_for(function, h, total) for h in self.hashes]
                fits |= (columns.total_buckets == total) & np.isin(columns.bucket, allowed)
            wanted &= fits
        if self.levels is not None:
            return wanted & np.isin(columns.level, list(self.levels))
        return wanted & (columns.level > 0) if self.above_level_0 else wanted

    def _matching(self, partitions: Iterable[bytes]) -> set[bytes]:
        new = set(partitions).difference(self._wanted)
        good = matching_partitions(self.table, new, self.partition_predicate)
        self._wanted.update((p, p in good) for p in new)
        return {p for p in partitions if self._wanted[p]}


def only_partitions(table: Table, predicate: Predicate) -> bool:
    """Return whether a filter concerns partition columns only, or nothing."""
    return columns_of(predicate) <= set(table.schema.partition_keys)


class StatisticsFilter:
    """Tests single files against a filter by their statistics and indexes."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._statistics = FileStatistics(table)
        self._indexes = FileIndexes(table)

    def choose(self, found: SelectedEntries, predicate: Predicate) -> tuple[Rows, Mask]:
        """Return the entries to keep by tests of single files, and whether each kept file may have matching rows."""
        if only_partitions(self._table, predicate) or evolves(self._table):
            return found.rows, np.ones(len(found.rows), bool)
        kept, matching = [], []
        numbered = zip(found.rows.tolist(), found.manifest.entries(found.rows), strict=True)
        while some := list(islice(numbered, _ENTRIES_AT_ONCE)):
            for place, matches in self.test([e for _, e in some], predicate):
                if matches or self._table.is_primary_key_table:
                    kept.append(some[place][0])
                    matching.append(matches)
        return np.array(kept, np.int64), np.array(matching, bool)

    def test(self, entries: Sequence[ManifestEntry], predicate: Predicate) -> list[tuple[int, bool]]:
        """Return the positions of the entries that may have matching keys, and whether each may have matching rows."""
        keys = project(predicate, self._table.schema.trimmed_primary_keys) if self._table.is_primary_key_table else TRUE
        near = [
            (place, self.may_match_values(entry, predicate))
            for place, entry in enumerate(entries)
            if isinstance(keys, AlwaysTrue) or self.may_match_keys(entry, keys)
        ]
        asked = [place for place, matches in near if matches or not isinstance(keys, AlwaysTrue)]
        answers = self._indexes.answers([entries[place] for place in asked], keys, predicate)
        known = {asked[i]: answer for i, answer in answers.items()}
        return [
            (place, matches and (place not in known or known[place].values))
            for place, matches in near
            if place not in known or known[place].keys
        ]

    def may_match_keys(self, entry: ManifestEntry, predicate: Predicate) -> bool:
        """Return whether a file may have matching keys, by its statistics."""
        return may_match(predicate, self._statistics.keys(entry.file), entry.file.row_count)

    def may_match_values(self, entry: ManifestEntry, predicate: Predicate) -> bool:
        """Return whether a file may have matching rows, by its statistics."""
        return may_match(predicate, self._statistics.values(entry.file), entry.file.row_count)

    def may_match_range(self, found: RowRange, predicate: Predicate) -> bool:
        """Return whether a row range may have matching rows, by the newest statistics of each column."""
        view: dict[str, ColumnStats] = {}
        absent = ColumnStats(None, None, found.rows)
        columns = {f.id: f.name for f in self._table.schema.fields if f.name not in self._table.schema.partition_keys}
        for file in found.files:
            stored = self._statistics.schema_of(file).fields
            held = [f.id for f in stored if file.write_cols is None or f.name in file.write_cols]
            names = [name for i in held if (name := columns.pop(i, None)) is not None]
            if file in found.data:
                stats = self._statistics.values(file)
                view |= {name: stats[name] for name in names if name in stats}
        return may_match(predicate, view | dict.fromkeys(columns.values(), absent), found.rows)


def filter_by_statistics(table: Table, entries: list[ManifestEntry], predicate: Predicate) -> list[ManifestEntry]:
    """Return the entries whose files pass key and value statistics and indexes, in order."""
    if only_partitions(table, predicate):
        return entries
    statistics = StatisticsFilter(table)
    if evolves(table):
        return _in_ranges(entries, statistics, predicate)
    tested = statistics.test(entries, predicate)
    if not table.is_primary_key_table:
        return [entries[place] for place, matches in tested if matches]
    groups: dict[BucketKey, list[tuple[ManifestEntry, bool]]] = {}
    for place, matches in tested:
        groups.setdefault(entries[place].bucket_key, []).append((entries[place], matches))
    out: list[ManifestEntry] = []
    for group in groups.values():
        levels = np.array([e.file.level for e, _ in group])
        matching = np.array([matches for _, matches in group], bool)
        stays = filter_by_value_statistics(table, levels, matching).tolist()
        out += [e for (e, _), keep in zip(group, stays, strict=True) if keep]
    return out


def _in_ranges(
    entries: Sequence[ManifestEntry], statistics: StatisticsFilter, predicate: Predicate
) -> list[ManifestEntry]:
    """Return the entries of the row ranges that may have matching rows: the files of a range stay together."""
    buckets: dict[BucketKey, list[DataFileMeta]] = {}
    for entry in entries:
        buckets.setdefault(entry.bucket_key, []).append(entry.file)
    kept = {
        (key, file.file_name)
        for key, files in buckets.items()
        for found in row_ranges(files)
        if statistics.may_match_range(found, predicate)
        for file in found.files
    }
    return [e for e in entries if (e.bucket_key, e.file.file_name) in kept]


def filter_by_value_statistics(table: Table, levels: npt.NDArray[Any], matching: Mask) -> Mask:
    """Return which files of one bucket pass value statistics, without exposing older versions of a key.

    (docs/spec/semantics.md, R13)

    Args:
        table: the table.
        levels: level of each file.
        matching: whether each file may have matching rows.
    """
    alone = len(levels) == 1 or (len(levels) > 0 and levels[0] != 0 and bool((levels == levels[0]).all()))
    if alone or not table.is_primary_key_table or reads_above_level_0(table):
        return matching
    if table.options.merge_engine in (MergeEngine.PARTIAL_UPDATE, MergeEngine.AGGREGATION):
        return np.ones(len(levels), bool)
    return np.full(len(levels), bool(matching.any()))

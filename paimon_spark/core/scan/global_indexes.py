"""Tests of data files by global indexes: files without a matching row are left out (docs/spec/semantics.md, R21).

An index counts only for rows whose values it certainly has: rows that were numbered when they were written and are
still in that file, of a column whose type never changed. All other rows are read. Of tables that allow stale indexes
('global-index.column-update-action' = 'IGNORE'), all rows are read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from paimon_spark.core.cancellation import checkpoint
from paimon_spark.core.file_schemas import FileSchemas
from paimon_spark.core.metadata.row_ranges import evolves, row_ranges
from paimon_spark.core.metadata.row_tracking import stored_tracking, tracks_rows
from paimon_spark.core.metadata_io import in_parallel
from paimon_spark.core.scan.file_indexes import same_values
from paimon_spark.core.scan.global_index_files import IndexedRange, Opener
from paimon_spark.core.table import Table
from paimon_spark.format.arrays import Mask
from paimon_spark.format.file_index.base import IndexReader, Rows
from paimon_spark.format.file_index.evaluate import matching_rows
from paimon_spark.format.file_index.values import Domain
from paimon_spark.format.global_index.keys import KeyDomain, key_domain
from paimon_spark.spec.global_indexes import MOST_ROWS, GlobalIndexKind, global_index_of
from paimon_spark.spec.manifest import BucketKey, DataFileMeta, IndexManifestEntry, ManifestEntry
from paimon_spark.spec.predicate import Predicate, columns_of
from paimon_spark.spec.types import DataField

_AT_ONCE = 64
"""Number of ranges after which cancellation is checked."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """Rows that are read or left out together: those of a file, or of the files of a row range."""

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class _Segment:
    """Consecutive row ids, and the indexes that cover all of them, by column."""

    first: int
    end: int
    indexes: Mapping[str, IndexedRange]


class GlobalIndexes:
    """The global indexes of a snapshot that a filter can use.

    Args:
        table: the table, at the schema that the columns of the filter belong to.
        entries: the index entries of the snapshot.
        predicate: the filter.
    """

    def __init__(self, table: Table, entries: Sequence[IndexManifestEntry], predicate: Predicate) -> None:
        self._table, self._predicate = table, predicate
        self._schemas = FileSchemas(table)
        self._domains: dict[str, KeyDomain] = {}
        asked = columns_of(predicate)
        self._columns: dict[int, DataField] = {f.id: f for f in table.schema.fields if f.name in asked}
        indexed = self._columns and any(e.file.global_index is not None for e in entries)
        self._ranges = self._usable(entries) if indexed and tracks_rows(table) and not _options_against(table) else {}

    @property
    def are_usable(self) -> bool:
        """Return whether an index may leave out files."""
        return bool(self._ranges)

    def _usable(self, entries: Iterable[IndexManifestEntry]) -> dict[bytes, dict[str, list[IndexedRange]]]:
        """Return the indexes of the filter's columns, by partition and column."""
        found: dict[tuple[bytes, str, str, int, int], list[IndexManifestEntry]] = defaultdict(list)
        for entry in entries:
            index = global_index_of(entry)
            kind = entry.file.index_type
            if index is None or kind not in set(GlobalIndexKind) or index.source is not None:
                continue
            column = self._columns.get(index.field_id)
            if column is None or index.extra_field_ids or not 0 < index.rows <= MOST_ROWS:
                continue
            if self._domain(column) is not None:
                found[entry.partition, column.name, kind, index.first_row, index.last_row + 1].append(entry)
        opener = Opener(self._table, _sizes(found))
        out: dict[bytes, dict[str, list[IndexedRange]]] = defaultdict(lambda: defaultdict(list))
        for (partition, column_name, kind, first, end), files in sorted(found.items(), key=lambda f: f[0]):
            domain = self._domains[column_name]
            if not all(map(self._is_inside, files)):  # several files may have the values of a range
                continue
            out[partition][column_name].append(
                IndexedRange(opener, column_name, kind, first, end, tuple(files), domain)
            )
        return out

    def _is_inside(self, entry: IndexManifestEntry) -> bool:
        return not entry.file.external_path or self._table.paths.is_inside(entry.file.external_path)

    def _domain(self, column: DataField) -> KeyDomain | None:
        """Return the keys of a column; None if its type changed, because indexes do not say which type they have."""
        if column.name not in self._domains:
            domain = key_domain(column.type)
            if domain is None or not _kept_type(self._table, self._schemas, column):
                return None
            self._domains[column.name] = domain
        return self._domains[column.name]

    def filtered(self, entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
        """Return the entries whose files may have matching rows, in order; the files of a row range stay together.

        Raises:
            CorruptTableError: an index is malformed or missing.
        """
        if not self.are_usable:
            return list(entries)
        buckets: dict[BucketKey, list[DataFileMeta]] = defaultdict(list)
        for e in entries:
            buckets[e.bucket_key].append(e.file)
        units: dict[bytes, set[_Unit]] = defaultdict(set)
        of_file: dict[tuple[BucketKey, str], _Unit] = {}
        for key, files in buckets.items():
            for unit, members in self._units(files) if key.partition in self._ranges else ():
                units[key.partition].add(unit)
                of_file.update(((key, f.file_name), unit) for f in members)
        empty = {(partition, u) for partition, of in units.items() for u in self._without_match(partition, of)}
        return [e for e in entries if (e.partition, of_file.get((e.bucket_key, e.file.file_name))) not in empty]

    def matching(self, entries: Iterable[ManifestEntry]) -> Mask:
        """Return which of some entries `filtered` keeps; they have all files of their row ranges."""
        some = list(entries)
        kept = {(e.bucket_key, e.file.file_name) for e in self.filtered(some)}
        return np.array([(e.bucket_key, e.file.file_name) in kept for e in some], bool)

    def _units(self, files: Sequence[DataFileMeta]) -> Iterable[tuple[_Unit, Sequence[DataFileMeta]]]:
        """Yield the rows of a bucket that indexes may leave out, with their files."""
        if not evolves(self._table):
            for f in files:
                if f.first_row_id is not None and not stored_tracking(f):
                    yield _Unit(f.first_row_id, f.first_row_id + f.row_count), (f,)
            return
        for found in row_ranges(files):
            first = found.anchor.first_row_id
            if first is not None and not self._was_updated(found.data):
                yield _Unit(first, first + found.rows), found.files

    def _was_updated(self, files: Sequence[DataFileMeta]) -> bool:
        """Return whether several of the files that hold the same rows have a column of the filter."""
        held = [
            f.id
            for file in files
            for f in self._schemas.of(file.schema_id).fields
            if f.id in self._columns and (file.write_cols is None or f.name in file.write_cols)
        ]
        return len(held) > len(set(held))

    def _without_match(self, partition: bytes, units: Iterable[_Unit]) -> list[_Unit]:
        """Return the units of a partition that have no matching row."""
        of = _Units(units)
        segments = [s for s in _segments(self._ranges[partition]) if of.overlapping(s)]
        left: dict[_Unit, int] = {u: u.end - u.first for u in of.ordered}
        for first in range(0, len(segments), _AT_ONCE):
            checkpoint()
            some = segments[first : first + _AT_ONCE]
            for segment, rows in zip(some, in_parallel(self._matching, some), strict=True):
                if rows is None:
                    continue
                for unit in of.overlapping(segment):
                    low, high = max(unit.first, segment.first), min(unit.end, segment.end)
                    if not rows.range_cardinality(low - segment.first, high - segment.first):
                        left[unit] -= high - low
        return [u for u, rows in left.items() if not rows]

    def _matching(self, segment: _Segment) -> Rows:
        """Return the rows of a segment that may match, counted from its start; None for all."""

        def indexes(column: str) -> list[tuple[IndexReader, Domain]]:
            found = segment.indexes.get(column)
            return [] if found is None else [(found.reader(segment.first, segment.end), found.domain)]

        return matching_rows(self._predicate, indexes)


def why_unused(table: Table, column: DataField) -> str:
    """Return why queries of a table do not use indexes of a column; empty if they do."""
    against = _options_against(table)
    if against:
        return against
    return "" if _kept_type(table, FileSchemas(table), column) else f"the type of '{column.name}' was changed"


def _options_against(table: Table) -> str:
    """Return what keeps queries from using indexes, or an empty text."""
    if (table.options.get("global-index.column-update-action") or "").upper() == "IGNORE":
        return "'global-index.column-update-action' is 'IGNORE'"
    return "" if table.options.flag("global-index.enabled") else "'global-index.enabled' is 'false'"


def _kept_type(table: Table, schemas: FileSchemas, column: DataField) -> bool:
    """Return whether a column has had its type since it was added."""
    every = (schemas.of(i) for i in table.schema_store.ids())
    return all(same_values(f, column) for s in every for f in s.fields if f.id == column.id)


def _sizes(
    found: Mapping[tuple[bytes, str, str, int, int], Sequence[IndexManifestEntry]],
) -> dict[tuple[str, str], int]:
    """Return the total size of the files of each column and kind."""
    out: dict[tuple[str, str], int] = defaultdict(int)
    for (_, column, kind, *_), files in found.items():
        out[column, kind] += sum(e.file.file_size for e in files)
    return out


def _segments(ranges: Mapping[str, Sequence[IndexedRange]]) -> list[_Segment]:
    """Return the segments between the ends of the indexed ranges of all columns, without those that no index covers."""
    bounds = sorted({b for of in ranges.values() for r in of for b in (r.first, r.end)})
    chosen: list[dict[str, IndexedRange]] = [{} for _ in bounds]
    places = {b: i for i, b in enumerate(bounds)}
    for column, of in ranges.items():
        for r in of:
            for place in range(places[r.first], places[r.end]):
                chosen[place].setdefault(column, r)
    return [_Segment(a, b, found) for a, b, found in zip(bounds, bounds[1:], chosen, strict=False) if found]


class _Units:
    """Units sorted by their rows, which do not overlap."""

    def __init__(self, units: Iterable[_Unit]) -> None:
        self.ordered = sorted(units, key=lambda u: u.first)
        self._firsts, self._ends = [u.first for u in self.ordered], [u.end for u in self.ordered]

    def overlapping(self, segment: _Segment) -> Sequence[_Unit]:
        """Return the units that have rows of a segment."""
        return self.ordered[bisect_right(self._ends, segment.first) : bisect_left(self._firsts, segment.end)]

"""The request of a query, and how each split is read: by native scans or by Python workers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from paimon_spark.core.columns import METADATA_FIELDS, PARTITION, ROW_INDEX, TRACKING_FIELDS
from paimon_spark.core.scan.splits import Split
from paimon_spark.core.table import Table
from paimon_spark.spark.native_access import native_access
from paimon_spark.spark.native_columns import FileLayout, NativeColumns, NativeFiles, format_of
from paimon_spark.spec.kinds import PICKING
from paimon_spark.spec.predicate import Predicate, fixed_values, project
from paimon_spark.spec.types import AtomicType, DataField, TypeRoot

FEWEST_ROWS = 100_000
MOST_ROWS = 500_000_000
"""Minimum number of rows in splits with superseded rows for a separate job that finds these."""
SMALL_FILE = 64 << 10
MANY_FILES = 1_000
"""From this number of files below this size, workers read them: Spark's own reader takes several times as long to open
a file, but reads the rows of larger files faster.
"""


@dataclass(frozen=True)
class ReadRequest:
    """What to read: columns of the table in order, a filter that merging reads apply, and the splits."""

    table: Table
    columns: tuple[str, ...]
    predicate: Predicate
    splits: tuple[Split, ...]
    keep_kinds: bool = False
    pairs: bool = False
    """Whether columns are arrays, and the two rows of an update are one; with `keep_kinds`."""
    limit: int | None = None
    metadata: tuple[str, ...] = ()
    """The `METADATA_COLUMNS` that follow the columns."""
    prunes_later: bool = False
    """Whether Spark prunes partitions while the query runs, which only its own scans support."""

    @cached_property
    def read_modes(self) -> ReadModes:
        """Return how each split is read, decided once."""
        return choose_read_modes(self)

    @cached_property
    def native_columns(self) -> NativeColumns:
        """Return the sources of the columns for Spark's own reader, determined once for each file layout."""
        return NativeColumns(self.table, self.read_columns, rows_located=ROW_INDEX in self.metadata)

    @property
    def read_columns(self) -> tuple[DataField, ...]:
        """Return the columns that are read: those needed, or one column if none is, because rows must be counted."""
        schema = self.table.schema
        keys = schema.partition_keys if PARTITION in self.metadata else ()
        names = [*self.columns, *(k for k in keys if k not in self.columns)]
        return tuple(schema.field(c) for c in names) or (min(schema.fields, key=_width),)

    @property
    def places(self) -> tuple[DataField, ...]:
        """Return the columns that readers add to each row."""
        return tuple(f for f in METADATA_FIELDS if f.name in self.metadata)


def _width(field: DataField) -> int:
    order = (TypeRoot.BOOLEAN, TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.DATE, TypeRoot.BIGINT)
    root = field.type.root if isinstance(field.type, AtomicType) else None
    return order.index(root) if root in order else len(order)


@dataclass(frozen=True, slots=True)
class ReadModes:
    """How each split is read: by a native scan, by one without superseded rows, or by Python workers.

    Splits in `small` are read by workers because of many small files, the others because they must be merged or Spark's
    own reader cannot read them.
    """

    native: tuple[Split, ...] = ()
    filtered: tuple[Split, ...] = ()
    workers: tuple[Split, ...] = ()
    small: tuple[Split, ...] = ()
    native_files: tuple[NativeFiles, ...] = ()
    """The files of `native`, one entry for each layout."""
    filtered_files: tuple[NativeFiles, ...] = ()
    """The files of `filtered`."""


class _Candidate(NamedTuple):
    """A split, and the layouts of its files if Spark can read all of them."""

    split: Split
    layouts: tuple[FileLayout, ...] | None

    @property
    def plain(self) -> bool:
        """Return whether Spark can read the files, and all their rows are rows of the table."""
        return self.layouts is not None and self.split.raw and not any(self.split.vectors)

    def leaves_rows_out(self, *, picks: bool) -> bool:
        """Return whether Spark can read the files, but some of their rows must be left out.

        `picks`: whether the merged row of a key is one of its versions; otherwise leaving rows out is not equivalent to
        a merge.
        """
        return self.layouts is not None and not self.plain and not self.split.postponed and (picks or self.split.raw)


def choose_read_modes(request: ReadRequest) -> ReadModes:
    """Decide how each split is read."""
    tracked = any(f in TRACKING_FIELDS for f in request.places)
    if native_access(request.table).refusal or request.keep_kinds or tracked:
        return ReadModes(workers=request.splits)
    candidates = [_Candidate(s, request.native_columns.layouts(s) if s.is_state else None) for s in request.splits]
    native, small = _by_file_size(request, [c for c in candidates if c.plain])
    picks = request.table.options.merge_engine in PICKING
    filtered = [c for c in candidates if c.leaves_rows_out(picks=picks)]
    if not _worth_finding(request, filtered) or not all(_locatable(c.split) for c in filtered):
        filtered = []
    workers = [c for c in candidates if not c.plain and not (filtered and c.leaves_rows_out(picks=picks))]
    large, merged = _by_file_size(request, filtered)
    return ReadModes(
        native=_splits(native),
        filtered=_splits(large),
        workers=_splits(workers),
        small=_splits([*small, *merged]),
        native_files=_by_layout(native),
        filtered_files=_by_layout(large),
    )


def _splits(candidates: Iterable[_Candidate]) -> tuple[Split, ...]:
    return tuple(c.split for c in candidates)


def _by_layout(candidates: Iterable[_Candidate]) -> tuple[NativeFiles, ...]:
    groups: dict[FileLayout, list[Split]] = {}
    for split, layouts in candidates:
        for layout in layouts or ():
            groups.setdefault(layout, []).append(split)
    return tuple(NativeFiles(layout, found) for layout, found in groups.items())


def _by_file_size(
    request: ReadRequest, candidates: list[_Candidate]
) -> tuple[Sequence[_Candidate], Sequence[_Candidate]]:
    """Return the splits for native scans, and those of small files if there are many of them."""
    if request.prunes_later:
        return candidates, ()
    native: list[_Candidate] = []
    small: list[_Candidate] = []
    for candidate in candidates:
        split = candidate.split
        (small if split.size <= SMALL_FILE * len(split.files) else native).append(candidate)
    many = sum(len(c.split.files) for c in small) >= MANY_FILES
    return (native, small) if many else (candidates, ())


def _worth_finding(request: ReadRequest, candidates: Iterable[_Candidate]) -> bool:
    """Return whether a separate job for superseded rows is worthwhile: not for few rows, nor for a large result.

    A query with a limit is faster by reading its first split, and a lookup of single keys by pruning row groups.
    """
    rows = sum(c.split.file_rows for c in candidates)
    if request.limit is not None or not FEWEST_ROWS <= rows <= MOST_ROWS:
        return False
    keys = [f.name for f in request.table.key_fields] if request.table.is_primary_key_table else []
    return not keys or fixed_values(project(request.predicate, keys), keys) is None


def _locatable(split: Split) -> bool:
    return all(format_of(f) == "parquet" for f in split.files)

"""Aggregates that metadata answers: row counts, null counts, bounds and partitions (docs/spec/semantics.md, R9, R19).

A result is exact; if metadata does not determine it, the rows are read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from paimon_spark.core.scan.file_statistics import FileStatistics
from paimon_spark.core.scan.limits import least_rows
from paimon_spark.core.scan.packed_files import PackedFileList
from paimon_spark.core.scan.splits import Split, known_rows
from paimon_spark.core.table import Table
from paimon_spark.engine.select import SelectPlan
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.stats import ColumnStats
from paimon_spark.spec.types import AtomicType, DataType, TypeRoot, has_root

_BOUNDED = frozenset(
    {
        TypeRoot.BOOLEAN,
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INT,
        TypeRoot.BIGINT,
        TypeRoot.DECIMAL,
        TypeRoot.DATE,
    }
)
"""Types whose stored bounds are values. Texts may be truncated; floating point bounds may exclude NaN and have either
sign of zero."""
_STAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_GROUPED = _BOUNDED | _STAMPS | {TypeRoot.VARCHAR}
"""Types of partition columns whose distinct values are distinct in SQL."""
_MICROS = 6


class Function(StrEnum):
    """An aggregate function. `COUNT_ROWS` has no column."""

    COUNT_ROWS = "count_rows"
    COUNT = "count"
    COUNT_DISTINCT = "count_distinct"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate function of a column."""

    function: Function
    column: str = ""


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Aggregates of all rows, or of the rows of each group of partitions."""

    aggregates: tuple[Aggregate, ...]
    group_by: tuple[str, ...] = ()


class _UnknownError(Exception):
    """Metadata does not determine the result."""


def aggregated(plans: Sequence[SelectPlan], wanted: Aggregation) -> list[tuple[Any, ...]] | None:
    """Return the rows of an aggregation, values of `spec.rows`; None if that requires reading rows.

    Args:
        plans: the plans of a query that reads whole partitions, with the statistics of their files.
        wanted: what to aggregate.
    """
    if not all(p.whole_partitions for p in plans) or not all(_answerable(p, wanted) for p in plans):
        return None
    groups: dict[tuple[Any, ...], _Group] = {}
    try:
        if not wanted.group_by:
            groups[()] = _Group.of(plans[0].table, wanted)
        for plan in plans:
            statistics = FileStatistics(plan.table)
            names = plan.table.schema.partition_keys
            for split in plan.splits:
                values = dict(zip(names, plan.table.partition_values(split.partition), strict=True))
                key = tuple(values[c] for c in wanted.group_by)
                if key not in groups:
                    groups[key] = _Group.of(plan.table, wanted)
                groups[key].add(_SplitRows(split, values, statistics))
        return [(*key, *g.results()) for key, g in groups.items() if not wanted.group_by or g.rows.exist()]
    except _UnknownError:
        return None


def _answerable(plan: SelectPlan, wanted: Aggregation) -> bool:
    """Return whether the aggregates and the types of their columns can be computed from metadata."""
    schema = plan.table.schema
    keys = set(schema.partition_keys)
    grouped = {*wanted.group_by, *(a.column for a in wanted.aggregates if a.column in keys)}
    distinct = {a.column for a in wanted.aggregates if a.function is Function.COUNT_DISTINCT}
    bounded = {a.column for a in wanted.aggregates if a.function in (Function.MIN, Function.MAX)} - keys
    counted = all(a.function is Function.COUNT_ROWS for a in wanted.aggregates) and not wanted.group_by
    return (
        {*wanted.group_by, *distinct} <= keys
        and all(_is_exact(schema.field(c).type, _GROUPED) for c in grouped)
        and all(_is_exact(schema.field(c).type, _BOUNDED | _STAMPS) for c in bounded)
        and (counted or not plan.changes)
    )


def _is_exact(t: DataType, roots: frozenset[TypeRoot]) -> bool:
    """Return whether a type is among some, and Spark has all its digits."""
    cut = isinstance(t, AtomicType) and t.root in _STAMPS and (t.precision or 0) > _MICROS
    return has_root(t, roots) and not cut


@dataclass(frozen=True, slots=True)
class _SplitRows:
    """The rows of a split, whose partition columns have some values."""

    split: Split
    values: Mapping[str, Any]
    statistics: FileStatistics

    @property
    def count(self) -> int:
        """Return the number of rows.

        Raises:
            _UnknownError: the rows must be read.
        """
        if self.split.row_count is None:
            raise _UnknownError
        return self.split.row_count

    def columns(self, name: str) -> Iterator[tuple[DataFileMeta, int, ColumnStats]]:
        """Yield each file, the number of its deleted rows, and the statistics of a column in it.

        Raises:
            _UnknownError: rows of the files are merged, or the plan has no statistics.
        """
        split = self.split
        if not split.raw or split.unmerged or isinstance(split.files, PackedFileList):
            raise _UnknownError
        for i, file in enumerate(split.files):
            rows = known_rows((file,), (split.vector_of(i),))
            if rows is None:
                raise _UnknownError
            if rows:
                yield file, file.row_count - rows, self.statistics.column(file, name)


@dataclass(slots=True)
class _Existence:
    """Whether there are rows."""

    surely: bool = False
    maybe: bool = False

    def add(self, split: Split) -> None:
        self.surely = self.surely or least_rows(split) > 0
        self.maybe = self.maybe or split.row_count is None

    def exist(self) -> bool:
        """Return whether there is a row.

        Raises:
            _UnknownError: the rows must be read.
        """
        if self.maybe and not self.surely:
            raise _UnknownError
        return self.surely


class _Accumulator(ABC):
    """One aggregate of one group."""

    @abstractmethod
    def add(self, rows: _SplitRows) -> None:
        """Take the rows of a split into account."""

    @abstractmethod
    def result(self) -> Any:
        """Return the aggregate."""


@dataclass(slots=True)
class _Count(_Accumulator):
    """Counts rows; `column` counts those in which it is not null."""

    column: str
    nullable: bool
    total: int = 0

    def add(self, rows: _SplitRows) -> None:
        if self.column in rows.values:
            self.total += 0 if rows.values[self.column] is None else rows.count
        elif not self.nullable:
            self.total += rows.count
        else:
            self.total += sum(_with_value(*found) for found in rows.columns(self.column))

    def result(self) -> Any:
        return self.total


def _with_value(file: DataFileMeta, deleted: int, stats: ColumnStats) -> int:
    """Return the number of rows of a file with a value in a column."""
    if stats.null_count == file.row_count:
        return 0
    if stats.null_count is None or (stats.null_count and deleted):
        raise _UnknownError
    return file.row_count - deleted - stats.null_count


@dataclass(slots=True)
class _PartitionValues(_Accumulator):
    """Counts, or finds the least or greatest, of the values that a partition column has in some row."""

    function: Function
    column: str
    found: dict[Any, _Existence] = field(default_factory=dict)

    def add(self, rows: _SplitRows) -> None:
        value = rows.values[self.column]
        if value is not None:
            self.found.setdefault(value, _Existence()).add(rows.split)

    def result(self) -> Any:
        if self.function is Function.COUNT_DISTINCT:
            return sum(e.exist() for e in self.found.values())
        ordered = sorted(self.found, reverse=self.function is Function.MAX)
        return next((v for v in ordered if self.found[v].exist()), None)


@dataclass(slots=True)
class _Bound(_Accumulator):
    """Finds the least or greatest value of a column by the bounds of files.

    A bound of a file with deleted rows may be a deleted value: it is the answer of no file, but others may exceed it.
    """

    greatest: bool
    column: str
    exact: Any = None
    beyond: Any = None
    """The outermost bound of files with deleted rows."""

    def add(self, rows: _SplitRows) -> None:
        for file, deleted, stats in rows.columns(self.column):
            bound = stats.max if self.greatest else stats.min
            if stats.null_count == file.row_count:
                continue
            if bound is None or (file.file_name.endswith(".orc") and isinstance(bound, tuple)):
                raise _UnknownError
            if deleted:
                self.beyond = self._outer(self.beyond, bound)
            else:
                self.exact = self._outer(self.exact, bound)

    def _outer(self, one: Any, other: Any) -> Any:
        if one is None or other is None:
            return other if one is None else one
        return max(one, other) if self.greatest else min(one, other)

    def result(self) -> Any:
        if self.beyond is not None and (self.exact is None or self._outer(self.exact, self.beyond) != self.exact):
            raise _UnknownError
        return self.exact


@dataclass(frozen=True, slots=True)
class _Group:
    """The aggregates of one group, and whether it has rows."""

    parts: tuple[_Accumulator, ...]
    rows: _Existence

    @classmethod
    def of(cls, table: Table, wanted: Aggregation) -> _Group:
        return cls(tuple(_accumulator(table, a) for a in wanted.aggregates), _Existence())

    def add(self, rows: _SplitRows) -> None:
        self.rows.add(rows.split)
        for part in self.parts:
            part.add(rows)

    def results(self) -> Iterator[Any]:
        return (part.result() for part in self.parts)


def _accumulator(table: Table, wanted: Aggregate) -> _Accumulator:
    if wanted.function in (Function.COUNT_ROWS, Function.COUNT):
        nullable = bool(wanted.column) and table.schema.field(wanted.column).type.nullable
        return _Count(wanted.column, nullable)
    if wanted.column in table.schema.partition_keys:
        return _PartitionValues(wanted.function, wanted.column)
    return _Bound(wanted.function is Function.MAX, wanted.column)

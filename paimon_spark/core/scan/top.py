"""The first rows in the order of a column: which files can have some of them, by the bounds of their values.

(docs/spec/semantics.md, R20)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from paimon_spark.core.scan.file_statistics import FileStatistics
from paimon_spark.core.scan.limits import least_rows
from paimon_spark.core.scan.packed_files import PackedFileList
from paimon_spark.core.scan.splits import Split, known_rows
from paimon_spark.core.table import Table
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.stats import ColumnStats
from paimon_spark.spec.types import DataType, TypeRoot, beyond_micros, has_root

_ORDERED = frozenset(
    {
        TypeRoot.BOOLEAN,
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INT,
        TypeRoot.BIGINT,
        TypeRoot.DECIMAL,
        TypeRoot.DATE,
        TypeRoot.TIMESTAMP,
        TypeRoot.TIMESTAMP_LTZ,
        TypeRoot.VARCHAR,
    }
)
"""Types whose bounds cover all values, in the order of all readers: bounds of floating point columns may exclude NaN,
and readers differ in trailing blanks of a CHAR."""


@dataclass(frozen=True, slots=True)
class RowOrder:
    """An order of rows by one column."""

    column: str
    descending: bool = False
    nulls_first: bool = True
    only: bool = True
    """Whether rows with equal values may come in any order, rather than in that of further columns."""

    def __str__(self) -> str:
        direction = "DESC" if self.descending else "ASC"
        return f"{self.column} {direction} NULLS {'FIRST' if self.nulls_first else 'LAST'}"


_Rank = tuple[Any, ...]
"""A value as it sorts in ascending order: nulls and unknown bounds lie beyond all values."""
_BELOW_ALL: _Rank = (-2,)
_ABOVE_ALL: _Rank = (2,)


class _Rows(NamedTuple):
    """Some rows of a file or a split: their lowest and highest possible rank, and their minimum number."""

    place: int
    low: _Rank
    high: _Rank
    surely: int


def top_splits(table: Table, splits: Sequence[Split], order: RowOrder, count: int) -> Sequence[Split]:
    """Return the splits, without files whose rows cannot be among the first `count` in an order.

    Splits that must be merged are kept, except by their partition.
    """
    if not _is_ordered(table.schema.field(order.column).type, order):
        return splits
    ranks = _Ranks(table, order)
    parts = [part for split in splits for part in ranks.parts(split)]
    rows = [r for place, part in enumerate(parts) for r in ranks.rows(place, part)]
    wanted = iter(_wanted(len(parts), rows, order, count))
    out = []
    for split in splits:
        kept = [next(wanted) for _ in ranks.parts(split)]
        if all(kept):
            out.append(split)
        elif any(kept):
            out.append(_with_files(split, [i for i, stays in enumerate(kept) if stays]))
    return out


def _is_ordered(t: DataType, order: RowOrder) -> bool:
    """Return whether bounds determine the order of rows, and which of them further columns order.

    Nanoseconds do not: Spark truncates times to microseconds, so that values with different bounds may be equal.
    """
    return has_root(t, _ORDERED) and (order.only or beyond_micros(t) is None)


class _Part(NamedTuple):
    """A whole split, or one file of a split that needs no merge."""

    split: Split
    file: int | None


class _Ranks:
    """Finds the ranks of rows."""

    def __init__(self, table: Table, order: RowOrder) -> None:
        self._table = table
        self._column = order.column
        self._null: _Rank = (1,) if order.nulls_first == order.descending else (-1,)
        self._key = (
            table.schema.partition_keys.index(order.column) if order.column in table.schema.partition_keys else None
        )
        self._statistics = FileStatistics(table)

    def parts(self, split: Split) -> Iterator[_Part]:
        """Yield the parts of a split that can be left out independently."""
        plain = split.raw and split.difference is None and not isinstance(split.files, PackedFileList)
        if not plain or self._key is not None:
            yield _Part(split, None)
        else:
            yield from (_Part(split, i) for i in range(len(split.files)))

    def rows(self, place: int, part: _Part) -> Iterator[_Rows]:
        """Yield the rows of a part: those with a value, and those without."""
        split, i = part
        if self._key is not None:
            value = self._table.partition_values(split.partition)[self._key]
            rank = self._null if value is None else (0, value)
            yield _Rows(place, rank, rank, least_rows(split))
        elif i is None:
            yield _Rows(place, _BELOW_ALL, _ABOVE_ALL, 0)
        else:
            yield from self._of_file(place, split.files[i], known_rows((split.files[i],), (split.vector_of(i),)))

    def _of_file(self, place: int, file: DataFileMeta, live: int | None) -> Iterator[_Rows]:
        stats: ColumnStats = self._statistics.column(file, self._column)
        gone = file.row_count if live is None else file.row_count - live
        nulls = stats.null_count
        if nulls != file.row_count:
            low = _BELOW_ALL if stats.min is None else (0, stats.min)
            high = _ABOVE_ALL if stats.max is None else (0, stats.max)
            yield _Rows(place, low, high, 0 if nulls is None else max(file.row_count - nulls - gone, 0))
        if nulls != 0:
            yield _Rows(place, self._null, self._null, max((nulls or 0) - gone, 0))


def _wanted(places: int, rows: Sequence[_Rows], order: RowOrder, count: int) -> list[bool]:
    """Return for each position whether its rows may be among the first `count`."""
    wanted, least = [False] * places, 0
    last: _Rank | None = None
    for r in sorted(rows, key=lambda r: r.low if order.descending else r.high, reverse=order.descending):
        if least >= count:
            break
        least += r.surely
        last = r.low if order.descending else r.high
        wanted[r.place] = wanted[r.place] or r.surely > 0
    for r in rows:
        best = r.high if order.descending else r.low
        before = last is None or least < count or (best > last if order.descending else best < last)
        wanted[r.place] = wanted[r.place] or before or (best == last and not order.only)
    return wanted


def _with_files(split: Split, places: Sequence[int]) -> Split:
    """Return a split that needs no merge with some of its files."""
    files = tuple(split.files[i] for i in places)
    vectors = tuple(split.vectors[i] for i in places) if split.vectors else ()
    kept = vectors if any(v is not None for v in vectors) else ()
    return replace(split, files=files, vectors=kept, row_count=known_rows(files, vectors))

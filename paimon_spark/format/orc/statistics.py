"""The statistics of the columns of an ORC file and of its stripes, and what they tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from paimon_spark.format.orc.layout import FOOTER_STATISTICS, INSTANT, LIST, LONG, MAP, STRUCT, TIMESTAMP, Tail
from paimon_spark.format.orc.messages import Field, messages, number_of, parts_of, signed

VALUES, TIMES, HAS_NULL, BYTES = 1, 9, 10, 11
"""Field numbers of the statistics of a column."""
_EARLIEST, _LATEST = 3, 4
"""Field numbers of the statistics of timestamps: the ends of the range of the wall clocks, in milliseconds."""
_TOTALS = ((4, 3), (8, 1))
"""The statistics of texts and of binary values: their field among those of a column, and their field with the sum."""
_FIXED_BYTES = {0: 1, 1: 1, 2: 2, 3: 4, LONG: 8, 5: 4, 6: 8, TIMESTAMP: 8, 14: 16, 15: 4, INSTANT: 8}
"""The size in memory of values of each type of a fixed width."""
_TEXTS = (7, 8, 16, 17)
_OFFSET_BYTES = 4


@dataclass(frozen=True, slots=True)
class Statistics:
    """The statistics of an open ORC file, as messages by the number of the column.

    Statistics that do not count all rows are not used: a file written without row indexes may have none but zeros.
    """

    tail: Tail
    source: pa.NativeFile

    def of_file(self) -> Sequence[bytes]:
        """Return the statistics of the columns in the whole file; empty if they are not usable."""
        found = parts_of(self.tail.footer, FOOTER_STATISTICS)
        return found if self._is_usable(found, sum(s.rows for s in self.tail.stripes)) else ()

    def of_stripes(self) -> Iterator[Sequence[bytes]]:
        """Yield the statistics of the columns in each stripe; empty if they are not usable.

        Raises:
            UnsupportedError: they are compressed in a way that is not supported.
        """
        tail = self.tail
        data = tail.framing.unpack(self.source.read_at(tail.footer_at - tail.metadata_at, tail.metadata_at))
        parts = parts_of(messages(data), 1)
        for number, stripe in enumerate(tail.stripes):
            found = parts_of(messages(parts[number]), 1) if number < len(parts) else ()
            yield found if self._is_usable(found, stripe.rows) else ()

    def _is_usable(self, columns: Sequence[bytes], rows: int) -> bool:
        return len(columns) >= len(self.tail.columns) and number_of(messages(columns[0]), VALUES, -1) == rows

    def value_counts(self) -> Sequence[Sequence[int]]:
        """Return the number of values of each column in each stripe, nulls not counted; empty if it is not recorded."""
        found = [[number_of(messages(c), VALUES, -1) for c in columns] for columns in self.of_stripes()]
        return found if all(counts and min(counts) >= 0 for counts in found) else ()

    def times_within(self, columns: Sequence[int], low: int, high: int) -> bool:
        """Return whether all values of columns of timestamps are within a range.

        Args:
            columns: the numbers of the columns.
            low: the least time, in milliseconds since 1970. Recorded times are rounded towards 1970: with a `low` of 0,
                values may be earlier.
            high: the greatest time, in milliseconds since 1970.
        """
        statistics = self.of_file()
        if not statistics:
            return False
        for column in (tuple(messages(statistics[c])) for c in columns):
            found = dict(f for part in parts_of(column, TIMES) for f in messages(part))
            ends = [signed(v) for v in map(found.get, (_EARLIEST, _LATEST)) if isinstance(v, int)]
            if number_of(column, VALUES, -1) and not (len(ends) == 2 and low <= ends[0] and ends[1] <= high):
                return False
        return True

    def bytes_of_values(self) -> Mapping[str, int]:
        """Return the bytes in memory of all values of each column at the top level whose statistics tell."""
        statistics = [tuple(messages(s)) for s in self.of_file()]
        if not statistics:
            return {}
        counts = [number_of(s, VALUES) for s in statistics]
        totals = list(map(_total, statistics))
        if any(t is None and c.kind in _TEXTS for t, c in zip(totals, self.tail.columns, strict=False)):
            of_stripes = [[_total(tuple(messages(c))) for c in columns] for columns in self.of_stripes()]
            totals = [_sum(parts) for parts in zip(*of_stripes, strict=False)]
            totals += [None] * (len(statistics) - len(totals))
        rows = sum(s.rows for s in self.tail.stripes)
        sizes = {name: self._bytes_of(number, rows, counts, totals) for name, number in self.tail.numbers.items()}
        return {name: size for name, size in sizes.items() if size is not None}

    def _bytes_of(self, column: int, slots: int, counts: Sequence[int], totals: Sequence[int | None]) -> int | None:
        """Return the bytes in memory of a column, if its statistics tell.

        Args:
            column: its number.
            slots: the number of its values, nulls included.
            counts: the number of values of each column.
            totals: the bytes of all values of each column of texts or binary values.
        """
        node = self.tail.columns[column]
        if node.kind in _FIXED_BYTES:
            return slots * _FIXED_BYTES[node.kind]
        offsets = 0 if node.kind == STRUCT else slots * _OFFSET_BYTES
        if node.kind in (LIST, MAP, STRUCT):
            inner = [slots if node.kind == STRUCT else counts[c] for c in node.children]
            parts = [self._bytes_of(c, n, counts, totals) for c, n in zip(node.children, inner, strict=True)]
        else:
            parts = [totals[column]]
        size = _sum(parts)
        return None if size is None else size + offsets


def _total(statistics: Sequence[Field]) -> int | None:
    """Return the bytes of all values of a column of texts or binary values, if its statistics have them."""
    for kind, total in _TOTALS:
        for one in parts_of(statistics, kind):
            value = number_of(messages(one), total, -1)
            return signed(value) if value >= 0 else None
    return None


def _sum(parts: Sequence[int | None]) -> int | None:
    """Return the sum, if all parts are known."""
    known = [p for p in parts if p is not None]
    return sum(known) if len(known) == len(parts) else None

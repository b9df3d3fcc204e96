"""Key-range streaming merge of sorted runs.

Each run yields sorted chunks of about equal size in bytes. The bound of a step is the smallest last key among the
loaded chunks: no later chunk holds a key at or below it. The rows up to the bound are ordered by one stable sort of
concatenated sorted slices, merged, and yielded. Key ranges that only one run covers are yielded as they are. Memory:
one chunk a run, and the rows of a step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_spark.core.arrow import one_chunk, values_of
from paimon_spark.core.merge.engines.deduplicate import KeyGroups, MergeFunction, deduplicate
from paimon_spark.core.merge.keys import (
    Column,
    Key,
    comparable_columns,
    key_at,
    rows_below,
    sequence_codes,
    sort_codes,
    sorted_positions,
)
from paimon_spark.format.arrays import I64, Mask
from paimon_spark.spec.kinds import SEQUENCE_NUMBER
from paimon_spark.spec.types import DataField

_DENSE = 16
"""Whole numbers that lie closer together than this are looked up in a table of bytes, others are sorted."""
_ALONE = 4096
"""Rows of one run that must stand alone at the front to be handed on without a window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOrder:
    """How rows compare and what becomes of rows of one key (docs/spec/semantics.md, section 0)."""

    key: tuple[DataField, ...]
    sequence: tuple[DataField, ...] = ()
    descending: bool = False
    function: MergeFunction = deduplicate


class _Cursor:
    """A sorted run that is being read: the loaded chunk and the position in it."""

    __slots__ = ("_chunks", "_key", "columns", "head", "last", "position", "rows")

    def __init__(self, chunks: Iterator[pa.Table], key: Sequence[DataField]) -> None:
        self._chunks = chunks
        self._key = key
        self.position = 0
        self.rows: pa.Table = pa.table({})
        self.columns: list[Column] = []
        self.head: Key = ()
        self.last: Key = ()

    def load(self) -> bool:
        """Load the next chunk with rows; return whether there was one."""
        for chunk in self._chunks:
            if chunk.num_rows:
                self.rows, self.position = chunk, 0
                self.columns = comparable_columns(chunk, self._key)
                self.head, self.last = key_at(self.columns, 0), key_at(self.columns, chunk.num_rows - 1)
                return True
        return False

    def count(self, key: Key, *, inclusive: bool) -> int:
        """Return how many unread rows of the chunk are below `key`."""
        if key > self.last or (inclusive and key == self.last):
            return self.left
        return rows_below(self.columns, self.position, self.rows.num_rows, key, inclusive=inclusive)

    def advance(self, n: int) -> Slice:
        """Hand out the next `n` rows; the caller loads when the chunk is used up."""
        keys = [c[self.position : self.position + n] for c in self.columns]
        out = Slice(self.rows.slice(self.position, n), keys)
        self.position += n
        if self.left:
            self.head = key_at(self.columns, self.position)
        return out

    @property
    def left(self) -> int:
        """Return how many rows of the chunk were not handed out."""
        return int(self.rows.num_rows) - self.position


def merge_runs(runs: Sequence[Iterator[pa.Table]], order: MergeOrder) -> Iterator[pa.Table]:
    """Merge sorted runs into tables in key order, one row a key, retracts included.

    All chunks must have the same schema, with ``_SEQUENCE_NUMBER``, ``_VALUE_KIND`` and the columns of `order`.
    It saves work to give the runs from the oldest to the newest.
    """
    for part in merge_key_groups(runs, order):
        yield order.function(part).combine_chunks() if isinstance(part, KeyGroups) else part


def merge_key_groups(runs: Sequence[Iterator[pa.Table]], order: MergeOrder) -> Iterator[KeyGroups | pa.Table]:
    """Yield what there is to merge in key order: windows, and rows that stand alone and need no merging."""
    for slices in overlapping_slices(runs, order.key):
        if len(slices) == 1:
            yield slices[0].rows
        else:
            yield _window(pa.concat_tables([s.rows for s in slices]), _joined(slices), order)


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows that follow each other in one sorted run, and their keys as comparable columns."""

    rows: pa.Table
    keys: list[Column]


def overlapping_slices(runs: Sequence[Iterator[pa.Table]], key: Sequence[DataField]) -> Iterator[list[Slice]]:
    """Yield all rows of some keys at a time: a slice of each run that has such rows, in the order of the runs."""
    live = [c for c in (_Cursor(r, key) for r in runs) if c.load()]
    while live:
        yield [live[0].advance(live[0].left)] if len(live) == 1 else _next_slices(live)
        live = [c for c in live if c.left or c.load()]


def _next_slices(live: Sequence[_Cursor]) -> list[Slice]:
    first, second = sorted(live, key=lambda c: c.head)[:2]
    alone = first.count(second.head, inclusive=False)
    if alone and (alone >= _ALONE or alone == first.left):
        return [first.advance(alone)]
    bound = min(c.last for c in live)
    counted = [(c, c.count(bound, inclusive=True)) for c in live]
    return [cursor.advance(n) for cursor, n in counted if n]


def superseded(slices: Sequence[Slice]) -> list[Mask]:
    """Return which rows of each slice have another one of the same key behind them, in that slice or a later one.

    Twice in one slice is a key only where a writer broke the rules, as pypaimon did before 2.0.
    """
    if len(slices) == 1:
        return [np.zeros(slices[0].rows.num_rows, dtype=np.bool_)]  # as a merge hands it on
    numbers = [k for s in slices for k in s.keys if isinstance(k, np.ndarray)]
    if len(numbers) == len(slices) == sum(len(s.keys) for s in slices) and is_dense(numbers):
        return _seen_later(numbers)
    positions, fresh = _in_key_order(_joined(slices))
    mask = np.zeros(len(positions), dtype=np.bool_)
    mask[positions[:-1][~fresh[1:]]] = True
    return np.split(mask, np.cumsum([s.rows.num_rows for s in slices])[:-1])


def is_dense(keys: Sequence[I64]) -> bool:
    """Return whether whole numbers lie so close together that a table of them is cheaper than sorting them."""
    low, high = _ends(keys)
    return high - low < _DENSE * sum(map(len, keys))


def _ends(keys: Sequence[I64]) -> tuple[int, int]:
    return min(int(k.min()) for k in keys), max(int(k.max()) for k in keys)


def _seen_later(keys: Sequence[I64]) -> list[Mask]:
    """Return `superseded` by a table of all keys between the lowest and the highest."""
    low, high = _ends(keys)
    seen = np.zeros(high - low + 1, dtype=np.bool_)
    out: list[Mask] = []
    for own in reversed(keys):
        places = own - low
        again = seen[places]
        again[:-1] |= own[1:] == own[:-1]
        out.append(again)
        seen[places] = True
    return out[::-1]


def _joined(slices: Sequence[Slice]) -> list[Column]:
    return [_join(parts) for parts in zip(*(s.keys for s in slices), strict=True)]


def _join(parts: Sequence[Column]) -> Column:
    numbers = [p for p in parts if isinstance(p, np.ndarray)]
    return np.concatenate(numbers) if numbers else pa.concat_arrays(list(parts))


def merge_rows(rows: pa.Table, order: MergeOrder) -> pa.Table:
    """Sort and merge rows that are in no order (a write buffer); return one row a key, in key order."""
    return order.function(_window(rows, comparable_columns(rows, order.key), order))


def _window(rows: pa.Table, columns: Sequence[Column], order: MergeOrder) -> KeyGroups:
    positions, fresh = _in_key_order(columns)
    starts = np.flatnonzero(fresh)
    if len(starts) < len(positions):
        positions = _order_versions(rows, positions, fresh, order)
    return KeyGroups(rows, positions, starts)


def _in_key_order(columns: Sequence[Column]) -> tuple[I64, Mask]:
    """Return the positions of rows by key, equal keys as they stand, and which of them begin a key."""
    codes = sort_codes(columns)
    positions = sorted_positions(codes)
    ordered = codes[positions]
    fresh = np.empty(len(positions), dtype=np.bool_)
    fresh[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    return positions, fresh


def _order_versions(rows: pa.Table, positions: I64, fresh: Mask, order: MergeOrder) -> I64:
    """Order the rows of keys that have several by sequence fields and sequence number."""
    shared = ~fresh
    shared[:-1] |= ~fresh[1:]
    where = np.flatnonzero(shared)
    chosen = positions[where]
    numbers = values_of(one_chunk(rows.column(SEQUENCE_NUMBER)))[chosen]
    if not order.sequence and bool(((numbers[1:] >= numbers[:-1]) | fresh[where][1:]).all()):
        return positions  # a stable sort of runs from the oldest to the newest leaves them so
    keys: list[I64] = [numbers]
    if order.sequence:
        versions = rows.select([f.name for f in order.sequence]).take(pa.array(chosen))
        keys.extend(reversed(sequence_codes(versions, order.sequence, descending=order.descending)))
    keys.append(np.cumsum(fresh, dtype=np.int64)[where])
    out = positions.copy()
    out[where] = chosen[np.lexsort(keys)]
    return out

"""Streaming merge of sorted runs by key range.

Each run yields sorted chunks of about equal size in bytes. The bound of a step is the smallest last key of the loaded
chunks: no later chunk contains a key at or below it. The rows up to the bound are concatenated, ordered by one stable
sort, merged, and yielded. Key ranges that only one run covers are yielded unmerged. Memory: one chunk per run, and the
rows of one step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from paimon_spark.core.arrow import one_chunk, values_of
from paimon_spark.core.merge.engines.deduplicate import deduplicate
from paimon_spark.core.merge.key_groups import KeyGroups, MergeFunction, MergeInputs, sorted_versions
from paimon_spark.core.merge.keys import (
    Column,
    Key,
    comparable_columns,
    key_at,
    key_order,
    rows_below,
    sequence_codes,
)
from paimon_spark.format.arrays import I64, Mask
from paimon_spark.spec.kinds import SEQUENCE_NUMBER
from paimon_spark.spec.types import DataField

_DENSE = 16
"""Integers denser than this are looked up in a byte table; others are sorted."""
_ALONE = 4096
"""Minimum number of leading rows of one run, below all other runs, that are yielded without a merge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOrder:
    """How rows compare, and the merge function for rows of one key (docs/spec/semantics.md, section 0).

    Attributes:
        key: the key columns.
        sequence: the sequence fields, most significant first.
        descending: whether the smallest value of the sequence fields comes last.
        function: merges the versions of keys.
        inputs: the columns that merging a column reads; those of ``""`` are read by every merge.
        picks: whether the merged row of a key is one of its versions. Only then can some adjacent versions be merged
            first, and the others with the result.
        levels: whether `function` reads the column ``_LEVEL``, the level of the file of each row.
        versions_in_runs: whether a run may have several versions of a key, from old to new.
    """

    key: tuple[DataField, ...]
    sequence: tuple[DataField, ...] = ()
    descending: bool = False
    function: MergeFunction = deduplicate
    inputs: MergeInputs = field(default_factory=dict)
    picks: bool = True
    levels: bool = False
    versions_in_runs: bool = False

    def partial(self) -> MergeOrder:
        """Return the order for some of the versions of each key: all of them stay unless the merge picks one."""
        return self if self.picks else replace(self, function=sorted_versions, versions_in_runs=True)

    def after_partial(self) -> MergeOrder:
        """Return the order that merges runs of which some were written with `partial`."""
        return self if self.picks else replace(self, versions_in_runs=True)


class _Cursor:
    """The reading position in a sorted run: the loaded chunk and the offset in it."""

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
        """Load the next non-empty chunk; return whether there was one."""
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
        """Return the next `n` rows; the caller loads the next chunk once this one is exhausted."""
        keys = [c[self.position : self.position + n] for c in self.columns]
        out = Slice(self.rows.slice(self.position, n), keys)
        self.position += n
        if self.left:
            self.head = key_at(self.columns, self.position)
        return out

    @property
    def left(self) -> int:
        """Return the number of unread rows of the chunk."""
        return int(self.rows.num_rows) - self.position


def merge_runs(runs: Sequence[Iterator[pa.Table]], order: MergeOrder) -> Iterator[pa.Table]:
    """Merge sorted runs into tables in key order, one row per key, retracts included.

    All chunks must have the same schema, with ``_SEQUENCE_NUMBER``, ``_VALUE_KIND`` and the columns of `order`. Runs
    ordered from oldest to newest merge fastest.
    """
    return merged_parts(merge_key_groups(runs, order), order)


def merged_parts(parts: Iterator[KeyGroups | pa.Table], order: MergeOrder) -> Iterator[pa.Table]:
    """Yield the merged rows of what `merge_key_groups` yields."""
    for part in parts:
        yield order.function(part).combine_chunks() if isinstance(part, KeyGroups) else part


def merge_key_groups(runs: Sequence[Iterator[pa.Table]], order: MergeOrder) -> Iterator[KeyGroups | pa.Table]:
    """Yield, in key order, key groups to merge, and rows that need no merging."""
    if order.versions_in_runs:
        runs = [_whole_keys(r, order.key) for r in runs]
    for slices in overlapping_slices(runs, order.key):
        if len(slices) == 1 and not order.versions_in_runs:
            yield slices[0].rows
        else:
            yield _window(pa.concat_tables([s.rows for s in slices]), _joined(slices), order)


def _whole_keys(chunks: Iterator[pa.Table], key: Sequence[DataField]) -> Iterator[pa.Table]:
    """Yield the rows of a sorted run cut such that all versions of a key are in one chunk."""
    held: list[pa.Table] = []
    last: Key = ()
    for chunk in chunks:
        if not chunk.num_rows:
            continue
        columns = comparable_columns(chunk, key)
        end = key_at(columns, chunk.num_rows - 1)
        begin = rows_below(columns, 0, chunk.num_rows, end, inclusive=False)
        if not held or end != last or begin:
            yield from [pa.concat_tables([*held, chunk.slice(0, begin)])] if held or begin else []
            held = []
        held.append(chunk.slice(begin))
        last = end
    if held:
        yield pa.concat_tables(held)


@dataclass(frozen=True, slots=True)
class Slice:
    """Consecutive rows of one sorted run, and their keys as comparable columns."""

    rows: pa.Table
    keys: list[Column]


def overlapping_slices(runs: Sequence[Iterator[pa.Table]], key: Sequence[DataField]) -> Iterator[list[Slice]]:
    """Yield all rows of a key range at a time: a slice of each run with such rows, in run order."""
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
    """Return which rows of each slice are followed by another row of the same key, in that slice or a later one.

    A key occurs twice in one slice only in files of writers that do not merge their rows, such as pypaimon before 2.0.
    """
    if len(slices) == 1:
        return [np.zeros(slices[0].rows.num_rows, dtype=np.bool_)]  # as in a merge
    numbers = [k for s in slices for k in s.keys if isinstance(k, np.ndarray)]
    if len(numbers) == len(slices) == sum(len(s.keys) for s in slices) and is_dense(numbers):
        return _seen_later(numbers)
    positions, fresh = key_order(_joined(slices))
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
    """Sort and merge the unordered rows of a write buffer; return one row per key, in key order."""
    return order.function(sorted_rows(rows, order))


def sorted_rows(rows: pa.Table, order: MergeOrder) -> KeyGroups:
    """Sort the unordered rows of a write buffer."""
    return _window(rows, comparable_columns(rows, order.key), order)


def _window(rows: pa.Table, columns: Sequence[Column], order: MergeOrder) -> KeyGroups:
    positions, fresh = key_order(columns)
    starts = np.flatnonzero(fresh)
    if len(starts) < len(positions):
        positions = _order_versions(rows, positions, fresh, order)
    return KeyGroups(rows, positions, starts)


def _order_versions(rows: pa.Table, positions: I64, fresh: Mask, order: MergeOrder) -> I64:
    """Order the rows of keys with several versions by sequence fields and sequence number."""
    shared = ~fresh
    shared[:-1] |= ~fresh[1:]
    where = np.flatnonzero(shared)
    chosen = positions[where]
    numbers = values_of(one_chunk(rows.column(SEQUENCE_NUMBER)))[chosen]
    if not order.sequence and bool(((numbers[1:] >= numbers[:-1]) | fresh[where][1:]).all()):
        return positions  # a stable sort of runs from oldest to newest has this order already
    keys: list[I64] = [numbers]
    if order.sequence:
        versions = rows.select([f.name for f in order.sequence]).take(pa.array(chosen))
        keys.extend(reversed(sequence_codes(versions, order.sequence, descending=order.descending)))
    keys.append(np.cumsum(fresh, dtype=np.int64)[where])
    out = positions.copy()
    out[where] = chosen[np.lexsort(keys)]
    return out

"""The elements of inputs that are arrays or maps, grouped by key and value, and merged arrays and maps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from paimon_spark.core.merge.aggregates.inputs import Inputs
from paimon_spark.core.merge.keys import sorted_positions
from paimon_spark.format.arrays import I32, I64, Mask


def list_bounds(column: pa.Array) -> tuple[I64, I64]:
    """Return where each array or map begins among the elements of the column, and its length; null ones are empty."""
    offsets = column.offsets.to_numpy().astype(np.int64)
    lengths = np.diff(offsets)
    if column.null_count:
        lengths *= np.asarray(column.is_valid())
    return offsets[:-1], lengths


def element_index(starts: I64, lengths: I64) -> I64:
    """Return the positions ``start … start + length - 1`` of each pair, one pair after the other."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - lengths), lengths)


@dataclass(frozen=True)
class Elements:
    """Elements of the inputs of a column, input after input.

    Attributes:
        inputs: the inputs.
        index: the position of each element among the elements of the column.
        owner: the index of the input that each one belongs to.
    """

    inputs: Inputs
    index: I64
    owner: I64

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def keys(self) -> I64:
        """Return the key of each element."""
        return self.inputs.keys[self.owner]

    @cached_property
    def retracted(self) -> Mask:
        """Return which elements are retracted."""
        return self.inputs.retracted[self.owner]

    @cached_property
    def fold_rank(self) -> I64:
        """Return the rank of each element if the late inputs of a key precede the other ones, the latest leading."""
        ranks = np.arange(len(self), dtype=np.int64)
        late = self.inputs.delayed & ~self.inputs.retracted
        if late.any():
            arrival = np.arange(len(self.inputs), dtype=np.int64)
            order = np.lexsort((np.where(late, -1 - arrival, arrival), self.inputs.keys))
            place = np.empty_like(order)
            place[order] = arrival
            ranks[np.argsort(place[self.owner], kind="stable")] = ranks.copy()
        return ranks

    def where(self, mask: Mask) -> Elements:
        """Return the elements for which `mask` is true."""
        return self if mask.all() else Elements(self.inputs, self.index[mask], self.owner[mask])

    def of(self, child: pa.Array) -> pa.Array:
        """Return the elements as values of `child`, which has those of the whole column."""
        return child.take(pa.array(self.index))


def elements_of(inputs: Inputs) -> Elements:
    """Return the elements of all inputs."""
    starts, lengths = list_bounds(inputs.column)
    counts = lengths[inputs.positions]
    owner = np.repeat(np.arange(len(inputs), dtype=np.int64), counts)
    return Elements(inputs, element_index(starts[inputs.positions], counts), owner)


class Cells:
    """The elements of equal value of each key, of which a set or map has at most one.

    Attributes:
        of: the cell of each element.
        order: the elements by cell, in merge order within one.
        starts: where each cell begins in `order`.
    """

    def __init__(self, keys: I64, codes: I32) -> None:
        span = np.int64(int(codes.max(initial=0)) + 1)
        packed = keys * span + codes
        self.order = sorted_positions(packed)
        by_cell = packed[self.order]
        begins = np.ones(len(by_cell), dtype=np.bool_)
        begins[1:] = by_cell[1:] != by_cell[:-1]
        self.starts: I64 = np.flatnonzero(begins)
        self.of = np.empty(len(by_cell), dtype=np.int64)
        self.of[self.order] = np.cumsum(begins) - 1

    def __len__(self) -> int:
        return len(self.starts)

    def largest(self, numbers: I64) -> I64:
        """Return the largest of the elements' numbers in each cell."""
        return self._reduced(np.maximum, numbers)

    def smallest(self, numbers: I64) -> I64:
        """Return the smallest of the elements' numbers in each cell."""
        return self._reduced(np.minimum, numbers)

    def last_where(self, mask: Mask) -> I64:
        """Return the last element of each cell for which `mask` is true, or -1."""
        return self.largest(np.where(mask, np.arange(len(mask), dtype=np.int64), np.int64(-1)))

    def after_last(self, mask: Mask) -> Mask:
        """Return which elements come after the last one of their cell for which `mask` is true."""
        if not mask.any():
            return np.ones(len(mask), dtype=np.bool_)
        return np.arange(len(mask), dtype=np.int64) > self.last_where(mask)[self.of]

    def _reduced(self, function: np.ufunc, numbers: I64) -> I64:
        if not len(self.starts):
            return np.zeros(0, dtype=np.int64)
        out: I64 = function.reduceat(numbers[self.order], self.starts)
        return out


def winners(cells: Cells, alive: Mask, ranks: I64, preference: I64 | None = None, *, first: bool = False) -> I64:
    """Return one element of each cell that has a living one, in the order of the first living ones.

    Args:
        cells: the cells of the elements.
        alive: which elements count.
        ranks: a permutation that orders the elements key by key.
        preference: non-negative numbers of which the largest one wins; None if all elements are equal.
        first: whether the first of several equal elements wins, not the last one.
    """
    n = np.int64(len(ranks))
    if not n:
        return ranks
    by_rank = np.empty_like(ranks)
    by_rank[ranks] = np.arange(n)
    weights = n - 1 - ranks if first else ranks
    if preference is not None:
        weights = preference * n + weights
    best = cells.largest(np.where(alive, weights, np.int64(-1)))
    some = best >= 0
    places = cells.smallest(np.where(alive, ranks, n))[some]
    best = best[some] % n
    out = np.full(n, -1, dtype=np.int64)
    out[places] = by_rank[n - 1 - best if first else best]
    return out[out >= 0]


def counts_of(keys: I64, n: int) -> I64:
    """Return how often each key ``0 … n-1`` occurs."""
    return np.bincount(keys, minlength=n).astype(np.int64, copy=False)


def ordinals(keys: I64, counts: I64) -> I64:
    """Return the position of each element within its key; the keys ascend."""
    starts = np.cumsum(counts) - counts
    return np.arange(len(keys), dtype=np.int64) - starts[keys]


def has_value(inputs: Inputs) -> Mask:
    """Return which keys have an input that is neither null nor a retract."""
    return np.logical_or.reduceat(inputs.valid & ~inputs.retracted, inputs.starts)


def list_array(t: pa.DataType, lengths: I64, values: pa.Array, valid: Mask) -> pa.Array:
    """Return an array of lists of the given lengths."""
    return pa.Array.from_buffers(t, len(lengths), _list_buffers(lengths, valid), children=[values])


def map_array(t: pa.DataType, lengths: I64, keys: pa.Array, items: pa.Array, valid: Mask) -> pa.Array:
    """Return an array of maps of the given sizes."""
    entries = pa.StructArray.from_arrays([keys, items], fields=[t.key_field, t.item_field])
    return pa.Array.from_buffers(t, len(lengths), _list_buffers(lengths, valid), children=[entries])


def _list_buffers(lengths: I64, valid: Mask) -> list[pa.Buffer | None]:
    offsets = pa.array(np.append(np.int64(0), np.cumsum(lengths))).cast(pa.int32())
    nulls = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return [nulls, offsets.buffers()[1]]

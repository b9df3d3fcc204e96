"""The inputs of an aggregate function, and what its implementations share (docs/spec/semantics.md, section 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from paimon_spark.core.merge.key_groups import Merged, first_where, last_where, nullable_positions
from paimon_spark.format.arrays import I64, Mask

MANY_INPUTS = 64
"""Keys with more inputs than this are merged one by one, the others all at once, rank after rank."""


@dataclass(frozen=True)
class Inputs:
    """The inputs of one column for several keys, key after key, in merge order.

    Attributes:
        column: the column in row order.
        positions: the position of each input in `column`.
        starts: where each key begins in `positions`; every key has an input.
        retract: which inputs are retracts (``-U`` and ``-D``); None if there are none.
        late: which inputs are older than the accumulated value; None if there are none.
        preset: which inputs are the value that a deleted or retracted row left behind; None if there are none. Only
            the first input of a key can be.
    """

    column: pa.Array
    positions: I64
    starts: I64
    retract: Mask | None = None
    late: Mask | None = None
    preset: Mask | None = None

    def __len__(self) -> int:
        return len(self.positions)

    @cached_property
    def counts(self) -> I64:
        """Return the number of inputs of each key."""
        return np.diff(np.append(self.starts, len(self.positions)))

    @property
    def ends(self) -> I64:
        """Return the index of the last input of each key."""
        return self.starts + self.counts - 1

    @cached_property
    def keys(self) -> I64:
        """Return the key of each input, as its index in `starts`."""
        return np.repeat(np.arange(len(self.starts), dtype=np.int64), self.counts)

    @cached_property
    def values(self) -> pa.Array:
        """Return the inputs in merge order."""
        return self.column.take(pa.array(self.positions))

    @cached_property
    def valid(self) -> Mask:
        """Return which inputs are not null."""
        if not self.column.null_count:
            return np.ones(len(self.positions), dtype=np.bool_)
        return np.asarray(self.column.is_valid())[self.positions]

    @cached_property
    def retracted(self) -> Mask:
        """Return `retract` as a mask."""
        return np.zeros(len(self), dtype=np.bool_) if self.retract is None else self.retract

    @cached_property
    def delayed(self) -> Mask:
        """Return `late` as a mask."""
        return np.zeros(len(self), dtype=np.bool_) if self.late is None else self.late

    @cached_property
    def added(self) -> Mask:
        """Return which inputs are not preset."""
        return np.ones(len(self), dtype=np.bool_) if self.preset is None else ~self.preset

    def where(self, mask: Mask) -> tuple[Inputs, I64]:
        """Return the inputs for which `mask` is true, and the indexes of the keys that still have one."""
        if mask.all():
            return self, np.arange(len(self.starts), dtype=np.int64)
        keys = self.keys[mask]
        left, starts = np.unique(keys, return_index=True)
        part = replace(
            self,
            positions=self.positions[mask],
            starts=starts.astype(np.int64, copy=False),
            retract=None if self.retract is None else self.retract[mask],
            late=None if self.late is None else self.late[mask],
            preset=None if self.preset is None else self.preset[mask],
        )
        return part, left

    def last_where(self, mask: Mask) -> I64:
        """Return the index of the last input of each key for which `mask` is true, or -1."""
        return last_where(mask, self.starts)

    def first_where(self, mask: Mask) -> I64:
        """Return the index of the first input of each key for which `mask` is true, or -1."""
        return first_where(mask, self.starts)

    def after(self, index: I64) -> Mask:
        """Return which inputs come after the input `index` of their key; -1 is before all of them."""
        return np.arange(len(self), dtype=np.int64) > index[self.keys]

    def picked(self, index: I64) -> I64:
        """Return inputs by index as positions in `column`; -1 stays."""
        if not len(self.positions):
            return index
        return np.where(index < 0, np.int64(-1), self.positions[index])


def by_rank(inputs: Inputs, some: Mask | None = None) -> Iterator[tuple[I64, I64]]:
    """Yield the second inputs of the keys that have one, then the third ones, and so on: keys and input indexes.

    `some` limits the keys.
    """
    left = np.arange(len(inputs.starts), dtype=np.int64) if some is None else np.flatnonzero(some)
    rank = 1
    while len(left := left[inputs.counts[left] > rank]):
        yield left, inputs.starts[left] + rank
        rank += 1


def spread(merged: Merged, keys: I64, n: int) -> Merged:
    """Return the values of the keys `keys` as values of all `n` keys; the other ones are null."""
    if len(keys) == n:
        return merged
    where = np.full(n, -1, dtype=np.int64)
    if isinstance(merged, np.ndarray):
        where[keys] = merged
        return where
    where[keys] = np.arange(len(keys))
    return merged.take(nullable_positions(where))


AggregateFunction = Callable[[Inputs], Merged]
"""Return one value per key, as positions in `Inputs.column` or as an array of the column's type."""


def in_fold_order(inputs: Inputs) -> Inputs:
    """Return the inputs with the late ones of each key first, the latest of them leading.

    For a function that is a fold from left to right, this makes a late input precede the accumulated value.
    """
    if inputs.late is None:
        return inputs
    arrival = np.arange(len(inputs), dtype=np.int64)
    rank = np.where(inputs.late & ~inputs.retracted, -1 - arrival, arrival)
    order = np.lexsort((rank, inputs.keys))
    return replace(
        inputs,
        positions=inputs.positions[order],
        retract=None if inputs.retract is None else inputs.retract[order],
        late=None,
        preset=None,
    )

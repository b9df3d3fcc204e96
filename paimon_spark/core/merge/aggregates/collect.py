"""The aggregate function collect: arrays put together, as lists or as sets."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_spark.core.merge.aggregates.elements import (
    Cells,
    Elements,
    counts_of,
    elements_of,
    has_value,
    list_array,
    winners,
)
from paimon_spark.core.merge.aggregates.inputs import Inputs
from paimon_spark.core.merge.aggregates.value_codes import value_codes
from paimon_spark.format.arrays import I64, Mask


class Collect:
    """Appends the elements of the inputs; a retract removes one occurrence of each of its elements, the oldest one.

    As a set, it keeps the first of equal elements. Late inputs are appended like any other.
    """

    def __init__(self, *, distinct: bool) -> None:
        self._distinct = distinct

    def __call__(self, inputs: Inputs) -> pa.Array:
        """Return the array of each key; null if all inputs are null."""
        elements = elements_of(inputs)
        kept = self._kept(elements)
        lengths = counts_of(elements.keys[kept], len(inputs.starts))
        child = inputs.column.values.take(pa.array(elements.index[kept]))
        return list_array(inputs.column.type, lengths, child, has_value(inputs))

    def _kept(self, elements: Elements) -> I64:
        inputs = elements.inputs
        if not self._distinct and inputs.retract is None:
            return np.arange(len(elements), dtype=np.int64)
        cells = Cells(elements.keys, value_codes(elements.of(inputs.column.values)))
        as_list = self._lists(inputs)
        if as_list.all():
            return np.flatnonzero(_list_members(cells, elements.retracted))
        alive = ~elements.retracted & cells.after_last(elements.retracted)
        ranks = np.arange(len(elements), dtype=np.int64)
        members = winners(cells, alive, ranks, first=True)
        if not as_list.any():
            return members
        kept = _list_members(cells, elements.retracted) & as_list[elements.keys]
        kept[members] |= ~as_list[elements.keys[members]]
        return np.flatnonzero(kept)

    def _lists(self, inputs: Inputs) -> Mask:
        """Return the keys whose equal elements are kept: as a set, those with no add but a preset value."""
        if not self._distinct:
            return np.ones(len(inputs.starts), dtype=np.bool_)
        if inputs.preset is None:
            return np.zeros(len(inputs.starts), dtype=np.bool_)
        return ~np.logical_or.reduceat(inputs.added & ~inputs.retracted, inputs.starts)


def _list_members(cells: Cells, retracted: Mask) -> Mask:
    """Return which elements are left if each retract removes the oldest element of its cell, if there is one."""
    kept = np.zeros(len(retracted), dtype=np.bool_)
    if not len(cells):
        return kept
    back = retracted[cells.order]
    steps = np.where(back, np.int64(-1), np.int64(1))
    counts = np.diff(np.append(cells.starts, len(steps)))
    sums = np.cumsum(steps)
    sums -= np.repeat(sums[cells.starts] - steps[cells.starts], counts)
    ends = cells.starts + counts - 1
    left = sums[ends] - np.minimum(np.minimum.reduceat(sums, cells.starts), 0)
    adds = np.cumsum(~back)
    later: I64 = np.repeat(adds[ends], counts) - adds
    kept[cells.order] = ~back & (later < np.repeat(left, counts))
    return kept

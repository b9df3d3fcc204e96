"""Aggregate functions of maps: entries by key, the last one or the one with the latest time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_spark.core.merge.aggregates.elements import (
    Cells,
    Elements,
    counts_of,
    elements_of,
    has_value,
    map_array,
    winners,
)
from paimon_spark.core.merge.aggregates.inputs import Inputs, in_fold_order
from paimon_spark.core.merge.aggregates.stepwise import by_keys, one_after_another
from paimon_spark.core.merge.aggregates.value_codes import valid_mask, value_codes
from paimon_spark.core.merge.keys import ranks
from paimon_spark.format.arrays import I64, Mask


def merge_map(inputs: Inputs) -> pa.Array:
    """Return the map of each key; later entries win, and a retract removes the keys of its map."""
    entries = elements_of(inputs)
    cells = _cells(entries)
    alive = ~entries.retracted & cells.after_last(entries.retracted)
    return _maps(entries, winners(cells, alive, entries.fold_rank))


class MergeMapWithKeyTime:
    """Keeps the entry with the latest time of each map key, the first one of equal times.

    A null row removes the entry, and a row without a time is ignored. The first map of a key stays as it is.
    """

    def __init__(self, time: str) -> None:
        self._time = time

    def __call__(self, inputs: Inputs) -> pa.Array:
        """Return the map of each key; null if all inputs are null.

        What a null row removes depends on the arrival of late inputs, so keys with both are merged step by step.
        """
        return by_keys(inputs, self._steps(inputs), lambda part: one_after_another(part, self._merged), self._merged)

    def _steps(self, inputs: Inputs) -> Mask:
        if inputs.late is None:
            return np.zeros(len(inputs.starts), dtype=np.bool_)
        entries = elements_of(inputs)
        nulls = ~valid_mask(inputs.column.items)[entries.index]
        late = np.logical_or.reduceat(inputs.late, inputs.starts)
        return late & (counts_of(entries.keys[nulls], len(late)) > 0)

    def _merged(self, inputs: Inputs) -> pa.Array:
        inputs = in_fold_order(inputs)
        entries = elements_of(inputs)
        rows = entries.of(inputs.column.items)
        valid = valid_mask(rows)
        times = rows.field(rows.type.get_field_index(self._time))
        timed = valid & valid_mask(times)
        head = inputs.first_where(inputs.valid)[entries.keys] == entries.owner
        cells = _cells(entries)
        alive = (timed | head) & cells.after_last(~valid & ~head)
        order = np.arange(len(entries), dtype=np.int64)
        return _maps(entries, winners(cells, alive, order, _time_ranks(times, timed, cells), first=True))


def _time_ranks(times: pa.Array, timed: Mask, cells: Cells) -> I64:
    """Return the ranks of times, from 1 on; 0 for entries without a time, and for those that no other one rivals."""
    out = np.zeros(len(times), dtype=np.int64)
    rivals = timed & (np.diff(np.append(cells.starts, len(times))) > 1)[cells.of]
    encoded = times.filter(pa.array(rivals)).dictionary_encode()
    out[rivals] = ranks(encoded.dictionary)[encoded.indices.to_numpy()]
    return out


def _cells(entries: Elements) -> Cells:
    return Cells(entries.keys, value_codes(entries.of(entries.inputs.column.keys)))


def _maps(entries: Elements, kept: I64) -> pa.Array:
    column = entries.inputs.column
    where = pa.array(entries.index[kept])
    lengths = counts_of(entries.keys[kept], len(entries.inputs.starts))
    return map_array(column.type, lengths, column.keys.take(where), column.items.take(where), has_value(entries.inputs))

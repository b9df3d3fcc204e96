"""Aggregate functions whose result is one of their inputs: last and first values, extremes, booleans."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.core.merge.aggregates.inputs import MANY_INPUTS, Inputs, by_rank
from paimon_spark.core.merge.keys import comparable_columns, ranks, sort_codes
from paimon_spark.format.arrays import I64, Mask
from paimon_spark.spec.types import DataField


def last_value(inputs: Inputs) -> I64:
    """Return the last input, null or not; a retract makes it null."""
    if inputs.late is None and inputs.retract is None:
        return inputs.positions[inputs.ends]
    last = inputs.last_where(~inputs.delayed | inputs.retracted)
    return inputs.picked(np.where((last >= 0) & inputs.retracted[last], np.int64(-1), last))


def last_non_null_value(inputs: Inputs) -> I64:
    """Return the last input that is not null; the retract of a value makes it null."""
    counts = inputs.valid
    if inputs.retract is not None:
        counts = counts & ~inputs.retract & inputs.after(inputs.last_where(inputs.retract & inputs.valid))
    if inputs.late is None:
        return inputs.picked(inputs.last_where(counts))
    last = inputs.last_where(counts & ~inputs.late)
    return inputs.picked(np.where(last < 0, inputs.first_where(counts & inputs.late), last))


def first_value(inputs: Inputs) -> I64:
    """Return the first input, null or not; a late input precedes it."""
    return inputs.picked(_first(inputs, inputs.added))


def first_non_null_value(inputs: Inputs) -> I64:
    """Return the first input that is not null; a late input precedes it."""
    return inputs.picked(_first(inputs, inputs.added & inputs.valid))


def _first(inputs: Inputs, counts: Mask) -> I64:
    """Return the last late input that counts, else the first other one, else the value that was there before."""
    first = inputs.first_where(counts)
    if inputs.late is not None:
        late = inputs.last_where(inputs.late & counts)
        first = np.where(late < 0, first, late)
    return first if inputs.preset is None else np.where(first < 0, inputs.last_where(inputs.preset), first)


class Extreme:
    """The largest or the smallest input; nulls are skipped."""

    def __init__(self, field: DataField, *, largest: bool) -> None:
        self._field = field
        self._largest = largest

    def __call__(self, inputs: Inputs) -> I64:
        """Return the position of the extreme input of each key, the first one among equals."""
        out = np.full(len(inputs.starts), -1, dtype=np.int64)
        some, keys = inputs.where(inputs.valid)
        if len(keys):
            out[keys] = some.picked(self._extremes(some))
        return out

    def _extremes(self, inputs: Inputs) -> I64:
        exceeds = self._comparison(inputs.values)
        many = inputs.counts > MANY_INPUTS
        best = inputs.starts.copy()
        for keys, at in by_rank(inputs, ~many):
            held = best[keys]
            best[keys] = np.where(exceeds(at, held), at, held)
        if many.any():
            mask = many[inputs.keys]
            part, _ = inputs.where(mask)
            best[many] = np.flatnonzero(mask)[self._extremes_by_code(part)]
        return best

    def _extremes_by_code(self, inputs: Inputs) -> I64:
        codes = self._codes(inputs)
        extreme = (np.maximum if self._largest else np.minimum).reduceat(codes, inputs.starts)
        return inputs.first_where(codes == extreme[inputs.keys])

    def _comparison(self, values: pa.Array) -> Callable[[I64, I64], Mask]:
        """Return a function that returns which of the values at some indexes are beyond those at others."""
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type) or pa.types.is_binary(values.type):
            beyond = pc.greater if self._largest else pc.less
            return lambda a, b: np.asarray(beyond(values.take(pa.array(a)), values.take(pa.array(b))))
        codes = sort_codes(comparable_columns(pa.table({self._field.name: values}), [self._field]))
        return lambda a, b: codes[a] > codes[b] if self._largest else codes[a] < codes[b]

    def _codes(self, inputs: Inputs) -> I64:
        columns = comparable_columns(pa.table({self._field.name: inputs.values}), [self._field])
        codes = sort_codes(columns)
        if codes.dtype == np.int64:
            return codes
        if len(columns) == 1 and isinstance(columns[0], pa.Array):
            return ranks(columns[0])
        return np.unique(codes, return_inverse=True)[1].astype(np.int64, copy=False)

"""Aggregate functions whose result is one of their inputs: last and first values, extremes, booleans."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_spark.core.merge.aggregates.inputs import Inputs
from paimon_spark.core.merge.keys import comparable_columns, ranks, sort_codes
from paimon_spark.format.arrays import I64, Mask
from paimon_spark.spec.types import DataField


def last_value(inputs: Inputs) -> I64:
    """Return the last input, null or not; a retract makes it null."""
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
            codes = self._codes(some)
            extreme = (np.maximum if self._largest else np.minimum).reduceat(codes, some.starts)
            out[keys] = some.picked(some.first_where(codes == extreme[some.keys]))
        return out

    def _codes(self, inputs: Inputs) -> I64:
        columns = comparable_columns(pa.table({self._field.name: inputs.values}), [self._field])
        codes = sort_codes(columns)
        if codes.dtype == np.int64:
            return codes
        if len(columns) == 1 and isinstance(columns[0], pa.Array):
            return ranks(columns[0])
        return np.unique(codes, return_inverse=True)[1].astype(np.int64, copy=False)

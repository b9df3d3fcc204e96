"""Helpers of aggregate functions with special cases: keys that are unchanged, or merged input after input."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from paimon_spark.core.merge.aggregates.inputs import Inputs
from paimon_spark.format.arrays import I64, Mask

Values = Callable[[Inputs], pa.Array]
"""Return one value per key."""


def by_keys(inputs: Inputs, chosen: Mask, special: Values, usual: Values) -> pa.Array:
    """Return the values of `special` for the chosen keys, and those of `usual` for the other ones."""
    if not chosen.any():
        return usual(inputs)
    if chosen.all():
        return special(inputs)
    first, first_keys = inputs.where(chosen[inputs.keys])
    second, second_keys = inputs.where(~chosen[inputs.keys])
    values = pa.concat_arrays([special(first), usual(second)])
    where = np.empty(len(chosen), dtype=np.int64)
    where[np.concatenate([first_keys, second_keys])] = np.arange(len(chosen))
    return values.take(pa.array(where))


def untouched(inputs: Inputs) -> Mask:
    """Return the keys whose value is preset and which no other input changes."""
    if inputs.preset is None:
        return np.zeros(len(inputs.starts), dtype=np.bool_)
    changes = inputs.added & (inputs.valid | (inputs.delayed & ~inputs.retracted))
    return inputs.preset[inputs.starts] & ~np.logical_or.reduceat(changes, inputs.starts)


def first_input(inputs: Inputs) -> pa.Array:
    """Return the first input of each key."""
    return inputs.column.take(pa.array(inputs.positions[inputs.starts]))


def one_after_another(inputs: Inputs, function: Values) -> pa.Array:
    """Return the result of applying `function` to the inputs one after another: to the value so far and the next input.

    The first inputs of all keys are merged at once, then the second ones, and so on.
    """
    keys = np.arange(len(inputs.starts), dtype=np.int64)
    values = function(_firsts(inputs))
    done: list[pa.Array] = []
    done_keys: list[I64] = []
    rank = 1
    while len(keys):
        more = inputs.counts[keys] > rank
        if not more.all():
            done.append(values.filter(pa.array(~more)))
            done_keys.append(keys[~more])
            values, keys = values.filter(pa.array(more)), keys[more]
        if len(keys):
            values = function(_pairs(inputs, values, inputs.starts[keys] + rank))
        rank += 1
    where = np.empty(len(inputs.starts), dtype=np.int64)
    where[np.concatenate(done_keys)] = np.arange(len(where))
    return pa.concat_arrays(done).take(pa.array(where))


def _firsts(inputs: Inputs) -> Inputs:
    first = inputs.starts
    return Inputs(
        inputs.column,
        inputs.positions[first],
        np.arange(len(first), dtype=np.int64),
        None if inputs.retract is None else inputs.retract[first],
        None if inputs.late is None else inputs.late[first],
        None if inputs.preset is None else inputs.preset[first],
    )


def _pairs(inputs: Inputs, values: pa.Array, at: I64) -> Inputs:
    """Return pairs of a preset value and the input `at`."""
    n = len(at)
    positions = np.arange(2 * n, dtype=np.int64).reshape(2, n).T.reshape(-1)
    masks = np.zeros((3, n, 2), dtype=np.bool_)
    masks[0, :, 1] = inputs.retracted[at]
    masks[1, :, 1] = inputs.delayed[at]
    masks[2, :, 0] = True
    column = pa.concat_arrays([values, inputs.column.take(pa.array(inputs.positions[at]))])
    retract, late, preset = masks.reshape(3, 2 * n)
    return Inputs(column, positions, np.arange(0, 2 * n, 2, dtype=np.int64), retract, late, preset)

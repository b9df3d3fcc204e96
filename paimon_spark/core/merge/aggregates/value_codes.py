"""Integer codes of Arrow values of any type: equal values have equal codes.

Null is a value like any other. NaN equals NaN, and 0.0 differs from -0.0. The entries of a map have no order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from paimon_spark.core.arrow import values_of
from paimon_spark.core.merge.aggregates.elements import element_index, list_bounds
from paimon_spark.format.arrays import I32, I64, Mask

_CODE_BYTES = 4
_PAIR = 2


def value_codes(values: pa.Array) -> I32:
    """Return the code of each value: at least 0, and not larger than the number of values."""
    t = values.type
    if pa.types.is_struct(t):
        return _struct_codes(values)
    if pa.types.is_map(t):
        return _map_codes(values)
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        starts, lengths = list_bounds(values)
        codes = value_codes(values.values.take(pa.array(element_index(starts, lengths))))
        return _sequence_codes(codes, lengths, valid_mask(values))
    if pa.types.is_floating(t):
        numbers = values_of(values)
        bits = np.where(np.isnan(numbers), numbers.dtype.type(np.nan), numbers).view(f"i{numbers.dtype.itemsize}")
        return _encoded(pa.array(bits, mask=~valid_mask(values) if values.null_count else None))
    return _encoded(values)


def row_codes(columns: Sequence[I32]) -> I32:
    """Return one code for each row of `columns`, which are codes themselves."""
    if len(columns) == 1:
        return columns[0]
    n = len(columns[0])
    stacked = np.stack(columns, axis=1)
    if len(columns) == _PAIR:
        return _encoded(pa.array(stacked.view(np.int64).reshape(n)))
    width = pa.binary(_CODE_BYTES * len(columns))
    return _encoded(pa.Array.from_buffers(width, n, [None, pa.py_buffer(stacked)]))


def valid_mask(values: pa.Array) -> Mask:
    """Return which values are not null."""
    return np.asarray(values.is_valid()) if values.null_count else np.ones(len(values), dtype=np.bool_)


def _encoded(values: pa.Array) -> I32:
    codes: I32 = values.dictionary_encode(null_encoding="encode").indices.to_numpy()
    return codes


def _struct_codes(values: pa.StructArray) -> I32:
    columns = [value_codes(values.field(i)) for i in range(values.type.num_fields)]
    if values.null_count or not columns:
        valid = valid_mask(values)
        columns = [valid.astype(np.int32), *(np.where(valid, c, np.int32(0)) for c in columns)]
    return row_codes(columns)


def _sequence_codes(codes: I32, lengths: I64, valid: Mask) -> I32:
    """Return the codes of sequences of codes: each one is a byte string."""
    ends = np.cumsum(lengths) * _CODE_BYTES
    buffers = [
        None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little")),
        pa.py_buffer(np.append(np.int64(0), ends)),
        pa.py_buffer(np.ascontiguousarray(codes)),
    ]
    return _encoded(pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers))


def _map_codes(values: pa.MapArray) -> I32:
    starts, lengths = list_bounds(values)
    where = pa.array(element_index(starts, lengths))
    keys = value_codes(values.keys.take(where))
    entries = row_codes([keys, value_codes(values.items.take(where))])
    order = np.lexsort((entries, keys, np.repeat(np.arange(len(lengths)), lengths)))
    return _sequence_codes(entries[order], lengths, valid_mask(values))

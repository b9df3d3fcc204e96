"""Binary arrays made of bytes, and their bytes; nothing here imports pandas, which few workers need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.format.arrays import I64, Mask

U8 = npt.NDArray[np.uint8]
BYTES = pa.large_binary()
Part: TypeAlias = pa.Array | pa.Scalar
"""A part of some values: a binary array with one for each, or a scalar, the same for all."""


def same(data: bytes) -> pa.Scalar:
    """Return a binary scalar; `pa.scalar` would import pandas."""
    return between(np.array([0, len(data)], np.int64), pa.py_buffer(data))[0]


def between(bounds: I64, data: pa.Buffer) -> pa.Array:
    """Return the bytes between each bound and the next one."""
    offsets = pa.py_buffer(np.ascontiguousarray(bounds, np.int64))
    return pa.Array.from_buffers(BYTES, len(bounds) - 1, [None, offsets, data])


def consecutive(data: U8, lengths: I64) -> pa.Array:
    """Return consecutive bytes as values of the given lengths."""
    return between(bounds_of(lengths), pa.py_buffer(np.ascontiguousarray(data).reshape(-1)))


def ragged(table: U8, lengths: I64) -> pa.Array:
    """Return the first bytes of each row of a table."""
    return consecutive(table[np.arange(table.shape[1]) < lengths[:, None]], lengths)


def joined(parts: Sequence[Part]) -> pa.Array:
    """Return the concatenation of the parts of each value, at least one of which is an array; null if a part is."""
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, NOTHING)


def bounds_of(lengths: I64) -> I64:
    """Return where each of consecutive values begins, and where the last one ends."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))


def content_of(array: pa.Array) -> tuple[I64, pa.Buffer]:
    """Return the bounds of the values of a binary array, and its bytes; nulls may have any bounds."""
    _, offsets, data = array.buffers()
    if not len(array):
        return np.zeros(1, np.int64), pa.py_buffer(b"")
    bounds = np.frombuffer(offsets, np.int64, len(array) + 1, array.offset * 8)
    return bounds, pa.py_buffer(b"") if data is None else data


def with_nulls(values: pa.Array, present: Mask) -> pa.Array:
    """Return values with nulls where none is present."""
    if len(values) == len(present):
        return values
    return values.take(pa.array(np.cumsum(present) - 1, pa.int64(), mask=~present))


NOTHING = same(b"")

"""Conversion between Arrow columns, the values of binary rows, and NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import UnsupportedError
from paimon_spark.format.arrays import I64, U64
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
    atomic_text,
)

_RAW = (TypeRoot.DATE, TypeRoot.TIME)
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_LIMIT = 1 << 63
_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(9)], dtype=np.uint64)
"""Masks of the first n bytes of a little-endian word."""
_PER_MILLI = {"ms": 1, "us": 1_000, "ns": 1_000_000}


def value_at(column: pa.Array | pa.ChunkedArray, i: int, t: DataType) -> Any:
    """Return one cell of a column of Arrow type ``to_arrow_type(t)`` as the value of a binary row."""
    scalar = column[i]
    if not scalar.is_valid:
        return None
    root = t.root if isinstance(t, AtomicType) else None
    if root in _RAW:
        return scalar.value
    if root in _TIMESTAMPS:
        per = _PER_MILLI[scalar.type.unit]
        millis, rest = divmod(scalar.value, per)
        return Timestamp(millis, rest * 1_000_000 // per)
    return scalar.as_py()


def row_at(rows: pa.Table, fields: Sequence[DataField], i: int) -> tuple[Any, ...]:
    """Return the values of `fields` in row `i`."""
    return tuple(value_at(rows.column(f.name), i, f.type) for f in fields)


def arrow_scalar(value: Any, t: DataType) -> pa.Scalar:
    """Return a value of a binary row as an Arrow scalar of the column's type.

    An ARRAY and a ROW are given as tuples, a MAP as a tuple of pairs.

    Raises:
        UnsupportedError: a time is outside the range of the column's unit.
    """
    arrow = to_arrow_type(t)
    if value is None:
        return pa.scalar(None, arrow)
    if isinstance(value, Timestamp) and isinstance(t, AtomicType):
        per = _PER_MILLI[arrow.unit]
        units = value.millis * per + value.nano_of_milli * per // 1_000_000
        if not -_LIMIT <= units < _LIMIT:
            raise UnsupportedError(
                f"The time {value.millis} ms after 1970 is out of the range of {atomic_text(t)} in memory.",
                hint="Nanoseconds reach from 1677 to 2262. Read the other rows, or write the column as TIMESTAMP(6).",
            )
        return pa.scalar(units, pa.int64()).cast(arrow)
    if isinstance(t, AtomicType) and t.root in _RAW:
        return pa.scalar(value, pa.int32()).cast(arrow)
    return pa.scalar(value, arrow) if isinstance(t, AtomicType) else _nested_scalar(value, t)


def _nested_scalar(value: Any, t: DataType) -> pa.Scalar:
    def column(values: Sequence[Any], of: DataType) -> pa.Array:
        return pa.array([arrow_scalar(v, of) for v in values], to_arrow_type(of))

    arrow = to_arrow_type(t)
    if isinstance(t, RowType):
        members = [column([v], f.type) for v, f in zip(value, t.fields, strict=True)]
        return pa.StructArray.from_arrays(members, fields=list(arrow))[0]
    ends = pa.array([0, len(value)], pa.int32())
    if isinstance(t, MapType):
        keys, items = column([k for k, _ in value], t.key), column([v for _, v in value], t.value)
        return pa.MapArray.from_arrays(ends, keys, items, type=arrow)[0]
    if isinstance(t, ArrayType):
        return pa.ListArray.from_arrays(ends, column(value, t.element), type=arrow)[0]
    raise TypeError(f"{t} has no values of its own")


def constant_column(value: Any, t: DataType, n: int) -> pa.Array:
    """Return a column of `n` copies of one value."""
    if value is None:
        return pa.nulls(n, to_arrow_type(t))
    return pa.repeat(arrow_scalar(value, t), n)


def one_chunk(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return `column` as one contiguous, plainly encoded array."""
    if isinstance(column, pa.ChunkedArray):
        chunks = column.chunks or [pa.array([], column.type)]
        column = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def values_of(column: pa.Array) -> npt.NDArray[Any]:
    """Return the values of a fixed-width array as numbers, temporal types included; null slots are undefined."""
    buffer = column.buffers()[1]
    kind = "f" if pa.types.is_floating(column.type) else "u" if pa.types.is_unsigned_integer(column.type) else "i"
    dtype = np.dtype(f"{kind}{column.type.bit_width // 8}")
    if buffer is None:
        return np.zeros(len(column), dtype=dtype)
    return np.frombuffer(buffer, dtype=dtype, count=len(column), offset=column.offset * dtype.itemsize)


def string_parts(column: pa.Array) -> tuple[I64, I64, npt.NDArray[np.uint8]]:
    """Return the start and length of each value of a string or binary array, and the bytes that they index."""
    if pa.types.is_string_view(column.type) or pa.types.is_fixed_size_binary(column.type):
        column = column.cast(pa.large_binary())
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    dtype = np.dtype(np.int64 if wide else np.int32)
    n = len(column)
    buffers = column.buffers()
    if n == 0 or buffers[1] is None:
        return np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(0, np.uint8)
    offsets = np.frombuffer(buffers[1], dtype, n + 1, column.offset * dtype.itemsize).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    raw = np.zeros(0, np.uint8) if buffers[2] is None else np.frombuffer(buffers[2], np.uint8)[first:last]
    return offsets[:-1] - first, offsets[1:] - offsets[:-1], raw


def load_words(data: npt.NDArray[np.uint8], starts: I64, lengths: I64) -> U64:
    """Return the first ``min(8, length)`` bytes at each start as a little-endian word, zero filled.

    `data` must have 8 spare bytes at its end.
    """
    words: U64 = np.ndarray((len(data) - 7,), dtype="<u8", buffer=data, strides=(1,))[starts]
    if int(lengths.min(initial=8)) < 8:
        words &= _FIRST_BYTES[np.clip(lengths, 0, 8)]
    return words


def decimal_limbs(column: pa.Array) -> tuple[U64, I64]:
    """Return the low and high 64 bits of the unscaled values of a decimal128 array."""
    n = len(column)
    buffer = column.buffers()[1]
    if buffer is None:
        return np.zeros(n, np.uint64), np.zeros(n, np.int64)
    limbs = np.frombuffer(buffer, np.uint64, 2 * n, column.offset * 16).reshape(n, 2)
    return np.ascontiguousarray(limbs[:, 0]), np.ascontiguousarray(limbs[:, 1]).view(np.int64)


def with_offsets(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of the JVM with offsets in all its arrays.

    Java writes no offset for an empty array inside another one, but Arrow reads the first offset when it measures the
    batch, from undefined memory.
    """
    lacking = [_lacks_offsets(c) for c in batch.columns]
    if not any(lacking):
        return batch
    columns = [
        pa.concat_arrays([c, c.slice(0, 0)]) if lacks else c for c, lacks in zip(batch.columns, lacking, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _lacks_offsets(column: pa.Array) -> bool:
    t = column.type
    if pa.types.is_struct(t):
        return any(_lacks_offsets(column.field(i)) for i in range(t.num_fields))
    nested = pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_map(t)
    if len(column) == 0 and (nested or pa.types.is_string(t) or pa.types.is_binary(t)):
        offsets = column.buffers()[1]
        if offsets is None or offsets.size == 0:
            return True
    if pa.types.is_map(t):
        return _lacks_offsets(column.keys) or _lacks_offsets(column.items)
    return nested and _lacks_offsets(column.values)

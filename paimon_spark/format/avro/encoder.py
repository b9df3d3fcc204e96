"""Encoding of Arrow columns as Avro records.

The encodings of a column are a binary array with one value per row. A record is the concatenation of its columns, so
Arrow joins them row by row. The values of arrays and maps are encoded as one column, which is then cut at their ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.format.arrays import I64, Mask
from paimon_spark.format.arrow_types import COUNT
from paimon_spark.format.avro.schema import INTEGERS
from paimon_spark.spec.types import ArrayType, AtomicType, DataField, DataType, MapType, MultisetType, RowType, TypeRoot

_Part: TypeAlias = pa.Array | pa.Scalar
"""A part of the encodings of some values: a binary array with one for each, or the same for all."""
_BYTES = pa.large_binary()


def _same(data: bytes) -> pa.Scalar:
    """Return a part that is the same for all values; `pa.scalar` would import pandas."""
    offsets = pa.py_buffer(np.array([0, len(data)], np.int64))
    return pa.Array.from_buffers(_BYTES, 1, [None, offsets, pa.py_buffer(data)])[0]


_NOTHING = _same(b"")
_END = _same(b"\0")
"""The end of the values of an array or a map."""
_PRESENT = _same(b"\2")
"""The branch of a union of null and a type for values of the type."""
_DECIMAL_BYTES = 16
_FLOATS: dict[TypeRoot, np.dtype[Any]] = {TypeRoot.FLOAT: np.dtype("<f4"), TypeRoot.DOUBLE: np.dtype("<f8")}
_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.BLOB)


def encode_rows(rows: pa.RecordBatch, fields: Sequence[DataField]) -> tuple[I64, pa.Buffer]:
    """Return where each record begins, with the end of the last one, and the bytes of all.

    Raises:
        ValueError: a NOT NULL column has nulls.
    """
    if not fields:
        return np.zeros(rows.num_rows + 1, np.int64), pa.py_buffer(b"")
    return _content(_joined(_record(rows.columns, fields)))


def _record(columns: Sequence[pa.Array], fields: Sequence[DataField]) -> list[_Part]:
    return [part for c, f in zip(columns, fields, strict=True) for part in _column(c, f.type, f.name)]


def _column(array: pa.Array, t: DataType, name: str) -> list[_Part]:
    """Return the encodings of values that are in a union with null if the type is nullable."""
    if not array.null_count:
        return [_PRESENT, *_values(array, t)] if t.nullable else _values(array, t)
    if not t.nullable:
        raise ValueError(f"The column '{name}' is NOT NULL, but has nulls.")
    present = np.asarray(array.is_valid())
    begins, data = _content(_joined(_values(array.drop_null(), t)))
    sizes = np.zeros(len(array), np.int64)
    sizes[present] = np.diff(begins)
    branches = np.where(present, np.uint8(2), np.uint8(0))
    return [_cut(np.arange(len(array) + 1), pa.py_buffer(branches)), _cut(_offsets(sizes), data)]


def _values(array: pa.Array, t: DataType) -> list[_Part]:
    """Return the encodings of values without nulls."""
    if isinstance(t, AtomicType):
        return _atomic(array, t)
    if isinstance(t, RowType):
        return _record(array.flatten(), t.fields)
    offsets = np.asarray(array.offsets).astype(np.int64)
    inside = slice(int(offsets[0]), int(offsets[-1]))
    if isinstance(t, ArrayType):
        return _list(offsets, _column(array.values[inside], t.element, "element"))
    key, value = _entry_types(t)
    return _list(offsets, [*_values(array.keys[inside], key), *_column(array.items[inside], value, "value")])


def _entry_types(t: DataType) -> tuple[DataType, DataType]:
    if isinstance(t, MapType):
        return t.key, t.value
    if isinstance(t, MultisetType):
        return t.element, COUNT
    raise TypeError(f"{t} is not a type of Avro files")


def _list(offsets: I64, values: Sequence[_Part]) -> list[_Part]:
    """Return the encodings of arrays or maps from the encodings of all their values."""
    lengths = np.diff(offsets)
    begins, data = _content(_joined(values))
    return [_numbers(lengths, lengths > 0), _cut(begins[offsets - offsets[0]], data), _END]


def _atomic(array: pa.Array, t: AtomicType) -> list[_Part]:
    if t.root in _TEXTS:
        values = array.cast(_BYTES)
        return [_numbers(np.asarray(pc.binary_length(values))), values]
    if t.root is TypeRoot.DECIMAL:
        return _decimals(array)
    if t.root in _FLOATS:
        numbers = np.ascontiguousarray(np.asarray(array), _FLOATS[t.root])
        return [_cut(np.arange(len(array) + 1) * numbers.itemsize, pa.py_buffer(numbers))]
    if t.root is TypeRoot.BOOLEAN:
        truth = np.ascontiguousarray(np.asarray(array.cast(pa.uint8())))
        return [_cut(np.arange(len(array) + 1), pa.py_buffer(truth))]
    return [_numbers(np.asarray(array.cast(INTEGERS.get(t.root, array.type))))]


def _numbers(values: npt.NDArray[np.signedinteger], present: Mask | None = None) -> pa.Array:
    """Return the encodings of int or long values, which have variable sizes; those not present have no bytes."""
    longs = values.astype(np.int64)
    zigzag = ((longs << 1) ^ (longs >> 63)).view(np.uint64)
    sizes = np.ones(len(longs), np.int64)
    most = int(zigzag.max()) if len(zigzag) else 0
    width = max(1, -(-most.bit_length() // 7))
    for n in range(1, width):
        sizes += zigzag >= np.uint64(1 << 7 * n)
    if present is not None:
        sizes[~present] = 0
    encoded = np.empty((len(longs), width), np.uint8)
    for n in range(width):
        encoded[:, n] = (zigzag >> np.uint64(7 * n)).astype(np.uint8) | 0x80
    begins = _offsets(sizes)
    data = encoded[np.arange(width) < sizes[:, None]]
    data[begins[1:][sizes > 0] - 1] &= 0x7F
    return _cut(begins, pa.py_buffer(data))


def _decimals(array: pa.Array) -> list[_Part]:
    """Return the encodings of decimals: the unscaled value in as few bytes as possible, the highest first."""
    wide = array.cast(pa.decimal128(38, array.type.scale))
    start, count = wide.offset * _DECIMAL_BYTES, len(wide) * _DECIMAL_BYTES
    stored = np.frombuffer(wide.buffers()[1], np.uint8, count, start) if count else np.empty(0, np.uint8)
    digits = stored.reshape(-1, _DECIMAL_BYTES)[:, ::-1]
    sign = np.where(digits[:, :1] >= 0x80, np.uint8(0xFF), np.uint8(0))
    spare = (digits[:, :-1] == sign) & ((digits[:, 1:] >= 0x80) == (sign > 0))
    unused = np.logical_and.accumulate(spare, axis=1).sum(axis=1)
    kept = digits[np.arange(_DECIMAL_BYTES) >= unused[:, None]]
    sizes = _DECIMAL_BYTES - unused
    return [_numbers(sizes), _cut(_offsets(sizes), pa.py_buffer(kept))]


def _joined(parts: Sequence[_Part]) -> pa.Array:
    """Return the concatenation of the parts of each value; at least one of them is an array."""
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, _NOTHING)


def _offsets(sizes: I64) -> I64:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)))


def _cut(begins: I64, data: pa.Buffer | None) -> pa.Array:
    """Return consecutive values as a binary array."""
    offsets = pa.py_buffer(np.ascontiguousarray(begins, np.int64))
    return pa.Array.from_buffers(_BYTES, len(begins) - 1, [None, offsets, data or pa.py_buffer(b"")])


def _content(array: pa.Array) -> tuple[I64, pa.Buffer]:
    """Return the offsets and the bytes of a binary array."""
    _, offsets, data = array.buffers()
    if not len(array):
        return np.zeros(1, np.int64), pa.py_buffer(b"")
    begins = np.frombuffer(offsets, np.int64, len(array) + 1, array.offset * 8)
    return begins, data if data is not None else pa.py_buffer(b"")

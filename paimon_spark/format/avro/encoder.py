"""Encoding of Arrow columns as Avro records.

The encodings of a column are a binary array with one value per row. A record is the concatenation of its columns, so
Arrow joins them row by row. The values of arrays and maps are encoded as one column, which is then cut at their ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.format.arrays import I64
from paimon_spark.format.avro.schema import INTEGERS
from paimon_spark.format.binary_values import BYTES, Part, between, bounds_of, consecutive, content_of, joined, same
from paimon_spark.format.varints import shortest_decimals, varints, zigzag
from paimon_spark.spec.types import ArrayType, AtomicType, DataField, DataType, RowType, TypeRoot, entry_types

_END = same(b"\0")
"""The end of the values of an array or a map."""
_PRESENT = same(b"\2")
"""The branch of a union of null and a type for values of the type."""
_FLOATS: dict[TypeRoot, np.dtype[Any]] = {TypeRoot.FLOAT: np.dtype("<f4"), TypeRoot.DOUBLE: np.dtype("<f8")}
_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.BLOB)


def encode_rows(rows: pa.RecordBatch, fields: Sequence[DataField]) -> tuple[I64, pa.Buffer]:
    """Return where each record begins, with the end of the last one, and the bytes of all.

    Raises:
        ValueError: a NOT NULL column has nulls.
    """
    if not fields:
        return np.zeros(rows.num_rows + 1, np.int64), pa.py_buffer(b"")
    return content_of(joined(_record(rows.columns, fields)))


def _record(columns: Sequence[pa.Array], fields: Sequence[DataField]) -> list[Part]:
    return [part for c, f in zip(columns, fields, strict=True) for part in _column(c, f.type, f.name)]


def _column(array: pa.Array, t: DataType, name: str) -> list[Part]:
    """Return the encodings of values that are in a union with null if the type is nullable."""
    if not array.null_count:
        return [_PRESENT, *_values(array, t)] if t.nullable else _values(array, t)
    if not t.nullable:
        raise ValueError(f"The column '{name}' is NOT NULL, but has nulls.")
    present = np.asarray(array.is_valid())
    bounds, data = content_of(joined(_values(array.drop_null(), t)))
    sizes = np.zeros(len(array), np.int64)
    sizes[present] = np.diff(bounds)
    branches = consecutive(np.where(present, np.uint8(2), np.uint8(0)), np.ones(len(array), np.int64))
    return [branches, between(bounds[0] + bounds_of(sizes), data)]


def _values(array: pa.Array, t: DataType) -> list[Part]:
    """Return the encodings of values without nulls."""
    if isinstance(t, AtomicType):
        return _atomic(array, t)
    if isinstance(t, RowType):
        return _record(array.flatten(), t.fields)
    offsets = np.asarray(array.offsets).astype(np.int64)
    inside = slice(int(offsets[0]), int(offsets[-1]))
    if isinstance(t, ArrayType):
        return _list(offsets, _column(array.values[inside], t.element, "element"))
    key, value = entry_types(t)
    return _list(offsets, [*_values(array.keys[inside], key), *_column(array.items[inside], value, "value")])


def _list(offsets: I64, values: Sequence[Part]) -> list[Part]:
    """Return the encodings of arrays or maps from the encodings of all their values."""
    lengths = np.diff(offsets)
    bounds, data = content_of(joined(values))
    counts, sizes = varints(zigzag(lengths))
    filled = lengths > 0  # an empty one is just its end
    heads = consecutive(counts[np.repeat(filled, sizes)], sizes * filled)
    return [heads, between(bounds[offsets - offsets[0]], data), _END]


def _atomic(array: pa.Array, t: AtomicType) -> list[Part]:
    if t.root in _TEXTS:
        values = array.cast(BYTES)
        return [_numbers(np.asarray(pc.binary_length(values))), values]
    if t.root is TypeRoot.DECIMAL:
        digits, sizes = shortest_decimals(array)
        return [_numbers(sizes), consecutive(digits, sizes)]
    if t.root in _FLOATS:
        numbers = np.ascontiguousarray(np.asarray(array), _FLOATS[t.root])
        return [consecutive(numbers.view(np.uint8), np.full(len(array), numbers.itemsize))]
    if t.root is TypeRoot.BOOLEAN:
        return [consecutive(np.asarray(array.cast(pa.uint8())), np.ones(len(array), np.int64))]
    return [_numbers(np.asarray(array.cast(INTEGERS.get(t.root, array.type))))]


def _numbers(values: I64) -> pa.Array:
    """Return the encodings of int or long values."""
    return consecutive(*varints(zigzag(values.astype(np.int64, copy=False))))

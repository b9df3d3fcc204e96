"""Conversion of columns as stored in files to the Arrow types that readers return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.format.arrow_types import to_arrow_schema, to_arrow_type
from paimon_spark.format.int96 import AS_BYTES, from_int96
from paimon_spark.format.timestamp_ranges import in_column
from paimon_spark.format.variant_shredding import is_shredded, whole_variants
from paimon_spark.spec.types import (
    BYTES,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    children,
    entry_types,
)

_BYTES = replace(BYTES, nullable=False)
_VARIANT_ROW = RowType((DataField(0, "value", _BYTES), DataField(1, "metadata", _BYTES)))


def conform_batch(batch: pa.RecordBatch, fields: Sequence[DataField], *, trim: bool = False) -> pa.RecordBatch:
    """Return the columns of `fields`, in order and in exactly their types; missing columns are null.

    Args:
        batch: rows as read from the file.
        fields: requested columns.
        trim: remove the padding of CHAR columns.
    """
    if not fields:
        return empty_columns(batch.num_rows)
    arrays = _columns(batch, fields, partial(conform_array, trim=trim))
    return pa.RecordBatch.from_arrays(arrays, schema=to_arrow_schema(fields))


def conform_table(table: pa.Table, fields: Sequence[DataField], *, trim: bool = False) -> pa.Table:
    """Apply `conform_batch` to a table."""
    if not fields:
        return pa.Table.from_batches([empty_columns(table.num_rows)])
    arrays = _columns(table, fields, partial(_chunks, trim=trim))
    return pa.Table.from_arrays(arrays, schema=to_arrow_schema(fields))


def _columns(
    data: pa.RecordBatch | pa.Table, fields: Sequence[DataField], conform: Callable[[Any, DataType], Any]
) -> list[Any]:
    names = {n: i for i, n in enumerate(data.schema.names)}
    out: list[Any] = []
    for f in fields:
        if f.name not in names:
            out.append(pa.nulls(data.num_rows, to_arrow_type(f.type)))
            continue
        with in_column(f.name):
            out.append(conform(data.column(names[f.name]), f.type))
    return out


def empty_columns(rows: int) -> pa.RecordBatch:
    """Return a batch of `rows` rows without columns."""
    validity = pa.py_buffer(b"\xff" * ((rows + 7) // 8))
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [validity]))


def conform_array(array: pa.Array, t: DataType, *, trim: bool = False) -> pa.Array:
    """Return the values of one array in the Arrow type of `t`."""
    target = to_arrow_type(t)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.type == target and not (trim and has_char(t)):
        return array
    if isinstance(t, AtomicType) and t.root is TypeRoot.VARIANT:
        whole = whole_variants(array) if is_shredded(array.type) else array
        return _rebuild(whole, _VARIANT_ROW, target, trim=False)
    if isinstance(t, AtomicType):
        if array.type == AS_BYTES and pa.types.is_timestamp(target):
            return from_int96(array, target)
        found = array.cast(target, safe=False)
        return pc.utf8_rtrim(found, " ") if trim and has_char(t) else found
    return _rebuild(array, t, target, trim=trim)


def _chunks(column: pa.ChunkedArray, t: DataType, *, trim: bool) -> pa.ChunkedArray:
    target = to_arrow_type(t)
    if column.type == target and not (trim and has_char(t)):
        return column
    return pa.chunked_array([conform_array(c, t, trim=trim) for c in column.chunks], target)


def has_char(t: DataType) -> bool:
    """Return whether a type is, or contains, CHAR, whose values files may pad."""
    if isinstance(t, AtomicType):
        return t.root is TypeRoot.CHAR
    return any(has_char(c) for c in children(t))


def _rebuild(array: pa.Array, t: DataType, target: pa.DataType, *, trim: bool) -> pa.Array:
    """Conform the children of a nested array and rebuild it.

    A cast would reject a NOT NULL field inside a null row.
    """
    if array.offset:
        array = pa.concat_arrays([array.slice(0, 0), array])
    mask = array.is_null()
    if isinstance(t, ArrayType):
        element = conform_array(array.values, t.element, trim=trim)
        return pa.ListArray.from_arrays(array.offsets, element, type=target, mask=mask)
    if isinstance(t, MapType | MultisetType):
        key, value = entry_types(t)
        keys = conform_array(array.keys, key, trim=trim)
        items = conform_array(array.items, value, trim=trim)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=target, mask=mask)
    if isinstance(t, AtomicType):
        raise TypeError("atomic values have no parts")
    flat = dict(zip((f.name for f in array.type), array.flatten(), strict=True))
    parts = [
        _member(conform_array(flat[f.name], f.type, trim=trim), f.type, mask)
        if f.name in flat
        else pa.nulls(len(array), to_arrow_type(f.type))
        for f in t.fields
    ]
    return pa.StructArray.from_arrays(parts, fields=list(target), mask=mask)


def _member(array: pa.Array, t: DataType, mask: pa.Array) -> pa.Array:
    """Return a field of a row; a NOT NULL field has an empty value where the row is null."""
    if t.nullable or not array.null_count or pc.any(pc.and_not(array.is_null(), mask)).as_py():
        return array
    if isinstance(t, AtomicType):
        empty = pa.py_buffer(bytes(16))  # zero for any numeric type, and the offsets of an empty string
        return pc.fill_null(array, pa.Array.from_buffers(array.type, 1, [None, empty, *array.buffers()[2:]])[0])
    if isinstance(t, ArrayType):
        return pa.ListArray.from_arrays(array.offsets, array.values, type=array.type)
    if isinstance(t, RowType):
        parts = [array.field(i) for i in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(array.type))
    return pa.MapArray.from_arrays(array.offsets, array.keys, array.items, type=array.type)

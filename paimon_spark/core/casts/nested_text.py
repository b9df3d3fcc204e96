"""Casts of arrays, maps and rows to text: `[1, null]`, `{a -> 1}`, `{1, x}`."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.core.casts.atomic import cast
from paimon_spark.spec.types import STRING, ArrayType, AtomicType, DataType, MapType, RowType

_NULL = "null"


def text_of(column: pa.Array, source: DataType, zone: str) -> pa.Array:
    """Return a column as texts of any length; `spec.casts.can_change` defines the supported types."""
    if isinstance(source, AtomicType):
        return column if pa.types.is_string(column.type) else cast(column, source, STRING, zone)
    if column.offset:
        column = pa.concat_arrays([column.slice(0, 0), column])
    if isinstance(source, RowType):
        members = [_texts(pc.struct_field(column, [i]), f.type, zone) for i, f in enumerate(source.fields)]
        inside = pc.binary_join_element_wise(*members, ", ")
        return _closed(column, "{", inside, "}")
    if isinstance(source, MapType):
        keys, values = _texts(column.keys, source.key, zone), _texts(column.items, source.value, zone)
        return _closed(column, "{", _joined(column, pc.binary_join_element_wise(keys, values, " -> ")), "}")
    if isinstance(source, ArrayType):
        return _closed(column, "[", _joined(column, _texts(column.values, source.element, zone)), "]")
    raise TypeError(f"{source} cannot be cast to text")


def _texts(column: pa.Array, source: DataType, zone: str) -> pa.Array:
    return pc.fill_null(text_of(column, source, zone), _NULL)


def _joined(column: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.binary_join(pa.ListArray.from_arrays(column.offsets, texts), ", ")


def _closed(column: pa.Array, left: str, inside: pa.Array, right: str) -> pa.Array:
    return pc.if_else(column.is_valid(), pc.binary_join_element_wise(left, inside, right, ""), None)

"""Conversion between Spark's types (as JSON) and the table format's types, and Arrow batches for Spark.

(docs/spec/storage.md, section 2.1)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import ErrorKind, UnsupportedError
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.format.time_fractions import floored
from paimon_spark.spec.defaults import sql_default
from paimon_spark.spec.types import (
    BYTES,
    STRING,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    holds_root,
)

Json = dict[str, Any]

_FROM_SPARK = {
    "boolean": AtomicType(TypeRoot.BOOLEAN),
    "byte": AtomicType(TypeRoot.TINYINT),
    "short": AtomicType(TypeRoot.SMALLINT),
    "integer": AtomicType(TypeRoot.INT),
    "long": AtomicType(TypeRoot.BIGINT),
    "float": AtomicType(TypeRoot.FLOAT),
    "double": AtomicType(TypeRoot.DOUBLE),
    "date": AtomicType(TypeRoot.DATE),
    "string": STRING,
    "binary": BYTES,
    "timestamp": AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=6),
    "timestamp_ntz": AtomicType(TypeRoot.TIMESTAMP, precision=6),
    "variant": AtomicType(TypeRoot.VARIANT),
}
_TO_SPARK = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.TINYINT: "byte",
    TypeRoot.SMALLINT: "short",
    TypeRoot.INT: "integer",
    TypeRoot.BIGINT: "long",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.DATE: "date",
    TypeRoot.TIME: "integer",
    TypeRoot.BINARY: "binary",
    TypeRoot.VARBINARY: "binary",
    TypeRoot.BLOB: "binary",
    TypeRoot.TIMESTAMP: "timestamp_ntz",
    TypeRoot.TIMESTAMP_LTZ: "timestamp",
    TypeRoot.VARIANT: "variant",
}
_SIZED = re.compile(r"^(decimal|char|varchar)\((\d+)(?:,\s*(-?\d+))?\)$")
MAX_VARCHAR = 2147483647
_COLLATIONS = "__COLLATIONS"
"""The key of a field's collations in Spark's JSON; the type itself is a plain string there."""
_DEFAULT_COLLATION = " collate UTF8_BINARY"
"""The suffix that Spark from 4.2 on adds to STRING for an explicit default collation."""


def type_from_spark(value: Any, *, nullable: bool = True) -> DataType:
    """Return the table type of a Spark type's JSON; nested fields get the id 0, to be numbered later.

    Raises:
        UnsupportedError: the table format has no such type.
    """
    if isinstance(value, str):
        return _atomic_from_spark(value, nullable)
    kind = value.get("type")
    if kind == "struct":
        return RowType(tuple(field_from_spark(f) for f in value["fields"]), nullable)
    if kind == "array":
        return ArrayType(type_from_spark(value["elementType"], nullable=value["containsNull"]), nullable)
    if kind == "map":
        key = type_from_spark(value["keyType"], nullable=False)
        return MapType(key, type_from_spark(value["valueType"], nullable=value["valueContainsNull"]), nullable)
    raise _no_type(str(kind))


def _atomic_from_spark(name: str, nullable: bool) -> AtomicType:  # noqa: FBT001 - mirrors the type's field
    known = _FROM_SPARK.get(name.removesuffix(_DEFAULT_COLLATION))
    if known is not None:
        return AtomicType(known.root, nullable, known.length, known.precision, known.scale)
    sized = _SIZED.match(name)
    if sized is None:
        raise _no_type(name)
    first = int(sized[2])
    if sized[1] == "decimal":
        return AtomicType(TypeRoot.DECIMAL, nullable, precision=first, scale=int(sized[3] or 0))
    return AtomicType(TypeRoot.CHAR if sized[1] == "char" else TypeRoot.VARCHAR, nullable, length=first)


def _no_type(name: str) -> UnsupportedError:
    return UnsupportedError(
        f"A column of Spark type {name} cannot be stored in a Paimon table.",
        hint="Cast it to a supported type, such as STRING or BIGINT.",
        kind=ErrorKind.UNSUPPORTED_FEATURE,
    )


def field_from_spark(field: Json) -> DataField:
    """Return a column from the JSON of a Spark StructField, comment and default included; its id is 0.

    Raises:
        UnsupportedError: the table format has no such type.
    """
    metadata = field.get("metadata") or {}
    if _COLLATIONS in metadata:
        raise UnsupportedError(
            f"The column '{field['name']}' has a collation, which a Paimon table cannot store.",
            hint="Leave COLLATE out of its type; compare with COLLATE in the queries.",
        )
    return DataField(
        0,
        field["name"],
        type_from_spark(field["type"], nullable=field["nullable"]),
        metadata.get("comment"),
        metadata.get("CURRENT_DEFAULT"),
    )


def type_to_spark(t: DataType) -> Any:
    """Return the JSON of the Spark type that a column is read as."""
    if isinstance(t, AtomicType):
        return _atomic_to_spark(t)
    if isinstance(t, ArrayType):
        return {"type": "array", "elementType": type_to_spark(t.element), "containsNull": t.element.nullable}
    if isinstance(t, MapType):
        return {
            "type": "map",
            "keyType": type_to_spark(t.key),
            "valueType": type_to_spark(t.value),
            "valueContainsNull": t.value.nullable,
        }
    if isinstance(t, MultisetType):
        key = type_to_spark(t.element)
        return {"type": "map", "keyType": key, "valueType": "integer", "valueContainsNull": False}
    return struct_to_spark(t.fields)


def _atomic_to_spark(t: AtomicType) -> str:
    if t.root is TypeRoot.DECIMAL:
        return f"decimal({t.precision},{t.scale})"
    if t.root is TypeRoot.CHAR:
        return f"char({t.length})"
    if t.root is TypeRoot.VARCHAR:
        return "string" if t.length == MAX_VARCHAR else f"varchar({t.length})"
    return _TO_SPARK[t.root]


def struct_to_spark(fields: Sequence[DataField]) -> Json:
    """Return the JSON of a Spark StructType for `fields`, comments and defaults included."""
    return {"type": "struct", "fields": [_field_to_spark(f) for f in fields]}


def _field_to_spark(f: DataField) -> Json:
    metadata: Json = {}
    if f.description:
        metadata["comment"] = f.description
    if f.default_value is not None:
        metadata["CURRENT_DEFAULT"] = metadata["EXISTS_DEFAULT"] = sql_default(f.default_value, f.type)
    return {"name": f.name, "type": type_to_spark(f.type), "nullable": f.type.nullable, "metadata": metadata}


def plain_struct(fields: Sequence[DataField]) -> Json:
    """Return the JSON of the Spark type of rows that are read: all nullable, character types as plain strings."""
    return {"type": "struct", "fields": [_plain(_field_to_spark(f)) for f in fields]}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        out = {k: _plain(v) for k, v in value.items()}
        if "metadata" in out:
            out |= {"metadata": {}, "nullable": True}
        return out
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return "string" if isinstance(value, str) and re.match(r"^(var)?char\(\d+\)$", value) else value


# ------------------------------------------------------------------------------------------------- Arrow


def variant_types(fields: Sequence[DataField]) -> dict[str, pa.DataType]:
    """Return the Arrow types of the columns that hold a VARIANT, at any depth."""
    return {f.name: to_arrow_type(f.type) for f in fields if holds_root(f.type, TypeRoot.VARIANT)}


def arrow_for_spark(t: pa.DataType) -> pa.DataType:
    """Return an Arrow type that Spark can read for `t`, with the same values."""
    if pa.types.is_time(t):
        return pa.int32()
    if pa.types.is_timestamp(t):
        return pa.timestamp("us", t.tz)
    if pa.types.is_dictionary(t):
        return arrow_for_spark(t.value_type)
    if pa.types.is_large_string(t) or pa.types.is_string_view(t):
        return pa.string()
    if pa.types.is_large_binary(t) or pa.types.is_fixed_size_binary(t):
        return pa.binary()
    if pa.types.is_struct(t):
        return pa.struct([pa.field(f.name, arrow_for_spark(f.type), f.nullable, f.metadata) for f in t])
    if pa.types.is_map(t):
        return pa.map_(arrow_for_spark(t.key_type), arrow_for_spark(t.item_type))
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return pa.list_(pa.field("element", arrow_for_spark(t.value_type), t.value_field.nullable))
    return t


def batch_for_spark(batch: pa.RecordBatch, variants: Mapping[str, pa.DataType] | None = None) -> pa.RecordBatch:
    """Return `batch` in types that Spark reads: TIME as INT, timestamps in microseconds, no dictionaries.

    `variants` has the Arrow types of the columns that hold a VARIANT, with the metadata that Spark looks for.
    """
    if not batch.num_columns:  # a batch made of no columns has no rows
        return batch
    columns, fields = [], []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        wanted = arrow_for_spark((variants or {}).get(field.name, field.type))
        columns.append(column if wanted == field.type else _cast(column, wanted))
        fields.append(pa.field(field.name, wanted))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_time64(column.type):
        return pc.divide(column.cast(pa.int64()), 1000).cast(wanted)
    return floored(column, wanted).cast(wanted, safe=False)

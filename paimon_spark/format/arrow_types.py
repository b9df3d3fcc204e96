"""Mapping between Paimon types and Arrow types (docs/spec/storage.md, sections 11 and 12.1).

Readers of `format` return these Arrow types and writers expect them; the types stored in a file may differ. Field ids
are kept in field metadata: ``PARQUET:field_id`` for Parquet, ``paimon.id`` for ORC.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import pyarrow as pa

from paimon_spark.errors import UnsupportedError
from paimon_spark.spec.types import (
    BYTES,
    STRING,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
    entry_types,
    not_null,
    reassign_ids,
)

PARQUET_FIELD_ID = b"PARQUET:field_id"
ARROW_RELEASE = int(pa.__version__.partition(".")[0])
"""The major version of the installed pyarrow; some lack required features."""
ORC_FIELD_ID = b"paimon.id"
_NESTED_ID_BASE = 536870911
_IDS_PER_FIELD = 1024

_PLAIN: dict[TypeRoot, pa.DataType] = {
    TypeRoot.CHAR: pa.string(),
    TypeRoot.VARCHAR: pa.string(),
    TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.BINARY: pa.binary(),
    TypeRoot.VARBINARY: pa.binary(),
    TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(),
    TypeRoot.INT: pa.int32(),
    TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(),
    TypeRoot.DOUBLE: pa.float64(),
    TypeRoot.DATE: pa.date32(),
    TypeRoot.TIME: pa.time32("ms"),
    TypeRoot.BLOB: pa.binary(),
}

_FROM_ARROW: dict[pa.DataType, AtomicType] = {
    pa.string(): STRING,
    pa.large_string(): STRING,
    pa.string_view(): STRING,
    pa.binary(): BYTES,
    pa.large_binary(): BYTES,
    pa.binary_view(): BYTES,
    pa.bool_(): AtomicType(TypeRoot.BOOLEAN),
    pa.int8(): AtomicType(TypeRoot.TINYINT),
    pa.int16(): AtomicType(TypeRoot.SMALLINT),
    pa.int32(): AtomicType(TypeRoot.INT),
    pa.int64(): AtomicType(TypeRoot.BIGINT),
    pa.float32(): AtomicType(TypeRoot.FLOAT),
    pa.float64(): AtomicType(TypeRoot.DOUBLE),
    pa.date32(): AtomicType(TypeRoot.DATE),
    pa.time32("ms"): AtomicType(TypeRoot.TIME, precision=3),
    pa.time32("s"): AtomicType(TypeRoot.TIME, precision=0),
    pa.time64("us"): AtomicType(TypeRoot.TIME, precision=6),
    pa.time64("ns"): AtomicType(TypeRoot.TIME, precision=9),
}
UNIT_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""The digits of a second that an Arrow unit has."""


def timestamp_unit(precision: int) -> str:
    """Return the Arrow unit for timestamps of `precision` digits."""
    if precision <= 3:
        return "ms"
    return "us" if precision <= 6 else "ns"


def to_arrow_type(t: DataType) -> pa.DataType:
    """Return the Arrow type of `t`, without field ids."""
    return _convert(t, None, 0)


@lru_cache(maxsize=4096)
def to_arrow_field(f: DataField) -> pa.Field:
    """Return the Arrow field of a column, with field ids."""
    return _field(f.name, _convert(f.type, f.id, 0), f.type.nullable, f.id)


def to_arrow_schema(fields: Iterable[DataField]) -> pa.Schema:
    """Return the Arrow schema of columns, with field ids."""
    return pa.schema([to_arrow_field(f) for f in fields])


def optional_members(field: pa.Field) -> pa.Field:
    """Return a field whose rows have nullable members where they may be null themselves: a null row has none."""
    return field.with_type(_optional(field.type, field.nullable))


def _optional(t: pa.DataType, nullable: bool) -> pa.DataType:  # noqa: FBT001
    if pa.types.is_struct(t):
        members = [m.with_nullable(m.nullable or nullable) for m in t]
        return pa.struct([optional_members(m) for m in members])
    if pa.types.is_map(t):
        return pa.map_(t.key_field, optional_members(t.item_field))
    return pa.list_(optional_members(t.value_field)) if pa.types.is_list(t) else t


def from_arrow(t: pa.DataType, *, nullable: bool = True) -> DataType:
    """Return the Paimon type of an Arrow type; fields of rows are numbered from 0.

    Raises:
        UnsupportedError: there is no corresponding Paimon type.
    """
    return reassign_ids(_from_arrow(t, nullable), 0)[0]


def fields_from_arrow(schema: pa.Schema) -> tuple[DataField, ...]:
    """Return the columns of an Arrow schema with ids assigned in order, nested fields first, as for a new table."""
    row, _ = reassign_ids(_row(schema, nullable=False), 0)
    if not isinstance(row, RowType):
        raise TypeError("reassign_ids changed the kind of the type")
    return row.fields


def _field(name: str, t: pa.DataType, nullable: bool, field_id: int | None) -> pa.Field:  # noqa: FBT001
    if field_id is None:
        return pa.field(name, t, nullable)
    text = str(field_id).encode("ascii")
    return pa.field(name, t, nullable, {PARQUET_FIELD_ID: text, ORC_FIELD_ID: text})


def _convert(t: DataType, top: int | None, depth: int) -> pa.DataType:
    """Convert a type; `top` is the id of the enclosing column or row field, None for no ids."""
    if isinstance(t, AtomicType):
        return _atomic(t, numbered=top is not None)
    if isinstance(t, RowType):
        return pa.struct(
            [
                _field(
                    f.name,
                    _convert(f.type, None if top is None else f.id, 0),
                    f.type.nullable,
                    f.id if top is not None else None,
                )
                for f in t.fields
            ]
        )
    depth += 1
    up = None if top is None else _NESTED_ID_BASE + top * _IDS_PER_FIELD + depth
    down = None if top is None else _NESTED_ID_BASE - top * _IDS_PER_FIELD - depth
    if isinstance(t, ArrayType):
        return pa.list_(_field("element", _convert(t.element, top, depth), t.element.nullable, up))
    key, value = entry_types(t)
    return pa.map_(
        _field("key", _convert(key, top, depth), False, down),  # noqa: FBT003
        _field("value", _convert(value, top, depth), value.nullable, up),
    )


VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
)
"""A VARIANT in memory. Spark recognizes it by the metadata of its second member, which comparisons of types ignore."""
_NUMBERED_VARIANT = pa.struct([_field(m.name, m.type, False, i) for i, m in enumerate(VARIANT)])  # noqa: FBT003


def _atomic(t: AtomicType, *, numbered: bool) -> pa.DataType:
    if t.root is TypeRoot.DECIMAL:
        return pa.decimal128(t.precision or 10, t.scale or 0)
    if t.root is TypeRoot.TIMESTAMP:
        return pa.timestamp(timestamp_unit(6 if t.precision is None else t.precision))
    if t.root is TypeRoot.TIMESTAMP_LTZ:
        return pa.timestamp(timestamp_unit(6 if t.precision is None else t.precision), "UTC")
    if t.root is TypeRoot.VARIANT:
        return _NUMBERED_VARIANT if numbered else VARIANT
    return _PLAIN[t.root]


def _from_arrow(t: pa.DataType, nullable: bool) -> DataType:  # noqa: FBT001
    nested = _nested_from_arrow(t, nullable)
    if nested is not None:
        return nested
    found = _atomic_from_arrow(t)
    return found if nullable else not_null(found)


def _nested_from_arrow(t: pa.DataType, nullable: bool) -> DataType | None:  # noqa: FBT001
    if pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t):
        return ArrayType(_from_arrow(t.value_type, t.value_field.nullable), nullable)
    if pa.types.is_map(t):
        return MapType(_from_arrow(t.key_type, False), _from_arrow(t.item_type, t.item_field.nullable), nullable)  # noqa: FBT003
    if pa.types.is_struct(t):
        return _row(t, nullable=nullable)
    return None


def _row(members: Sequence[pa.Field], *, nullable: bool) -> RowType:
    return RowType(
        tuple(DataField(i, f.name, _from_arrow(f.type, f.nullable)) for i, f in enumerate(members)), nullable
    )


def _atomic_from_arrow(t: pa.DataType) -> AtomicType:
    if pa.types.is_dictionary(t):
        return _atomic_from_arrow(t.value_type)
    if pa.types.is_decimal(t) and t.precision <= 38 and t.scale >= 0:
        return AtomicType(TypeRoot.DECIMAL, precision=t.precision, scale=t.scale)
    if pa.types.is_timestamp(t):
        root = TypeRoot.TIMESTAMP if t.tz is None else TypeRoot.TIMESTAMP_LTZ
        return AtomicType(root, precision=UNIT_DIGITS[t.unit])
    if pa.types.is_fixed_size_binary(t):
        return AtomicType(TypeRoot.BINARY, length=t.byte_width)
    if t in _FROM_ARROW:
        return _FROM_ARROW[t]
    raise UnsupportedError(
        f"Arrow values of the type {t} have no column type in Paimon.", hint="Cast the column to another type first."
    )

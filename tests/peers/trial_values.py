"""Values of every type on both sides of a trial, in the one spelling that JSON carries to the peer."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.spec.types import AtomicType, DataField, TypeRoot

Value = bool | int | float | str | None
Row = tuple[Value, ...]

EDGES: Mapping[str, tuple[Value, ...]] = {
    "BOOLEAN": (True, False, None),
    "TINYINT": (-128, 127, 0, None),
    "SMALLINT": (-32768, 32767, None),
    "INT": (-(2**31), 2**31 - 1, 0, None),
    "BIGINT": (-(2**63), 2**63 - 1, 7, None),
    "FLOAT": (0.1, -0.0, 3.4028234663852886e38, 1.401298464324817e-45, "Infinity", "NaN", None),
    "DOUBLE": (0.1, -0.0, 1.7976931348623157e308, 5e-324, 1e20, 123456789.0, "-Infinity", "NaN", None),
    "DECIMAL(10, 2)": ("-99999999.99", "0.00", "0.01", None),
    "DECIMAL(30, 5)": ("-9999999999999999999999999.99999", "1.00000", None),
    "STRING": ("", "ä€𝄞", "x" * 40, " 12 ", "3", None),
    "BYTES": ("", "00ff", "61" * 30, None),
    "DATE": ("1900-01-01", "1969-12-31", "2024-02-29", "9999-12-31", None),
    "TIMESTAMP(3)": ("1969-12-31T23:59:58.999000", "2024-02-29T12:34:56.789000", "9999-12-31T23:59:59.999000", None),
    "TIMESTAMP(6)": ("1900-01-01T00:00:00.000001", "1969-12-31T23:59:58.999999", "2024-02-29T12:34:56.000000", None),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": ("1969-12-31T23:59:58.999999", "2024-02-29T12:34:56.123456", None),
}
"""The values that columns of each type take."""

WIDER: Mapping[str, tuple[str, ...]] = {
    "TINYINT": ("SMALLINT", "INT"),
    "SMALLINT": ("INT", "BIGINT"),
    "INT": ("BIGINT",),
    "FLOAT": ("DOUBLE",),
    "DECIMAL(10, 2)": ("DECIMAL(20, 2)",),
}
"""Changes of type that keep every value as it is spelled."""

_LTZ = "TIMESTAMP(6) WITH LOCAL TIME ZONE"
CAST: Mapping[str, tuple[str, ...]] = {
    "BOOLEAN": ("STRING", "INT"),
    "BIGINT": ("STRING", "DOUBLE"),
    "DOUBLE": ("STRING",),
    "DECIMAL(30, 5)": ("STRING",),
    "DATE": ("TIMESTAMP(3)", "STRING", _LTZ),
    "TIMESTAMP(3)": ("STRING", _LTZ),
    "TIMESTAMP(6)": ("DATE", _LTZ),
    _LTZ: ("STRING", "DATE", "TIMESTAMP(6)"),
}
"""Changes of type by which values change."""


def edge(type_text: str, number: int) -> Value:
    """Return one of the values of a type."""
    values = EDGES.get(type_text, ("1.00", "-2.50", None))
    return values[number % len(values)]


def to_arrow(rows: Sequence[Row], fields: Sequence[DataField]) -> pa.Table:
    """Return rows as Arrow."""
    schema = to_arrow_schema(fields)
    columns = [
        pa.array([_python(r[i], f.type) for r in rows], schema.field(i).type)
        for i, f in enumerate(fields)
        if isinstance(f.type, AtomicType)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def from_arrow(rows: pa.Table, fields: Sequence[DataField]) -> list[Row]:
    """Return the rows of an Arrow table."""
    columns = [[_plain(v, f.type) for v in rows.column(f.name).to_pylist()] for f in fields]
    return [tuple(values) for values in zip(*columns, strict=True)] if rows.num_columns else []


def from_peer(rows: Sequence[Sequence[Any]], fields: Sequence[DataField]) -> list[Row]:
    """Return the rows that the peer answered."""
    return [tuple(_told(v, f.type) for v, f in zip(r, fields, strict=True)) for r in rows]


def ordered(rows: Sequence[Row]) -> list[str]:
    """Return rows as sorted texts: the same rows are the same list, -0.0 and 0.0 are two values."""
    return sorted(map(repr, rows))


def _root(t: Any) -> TypeRoot:
    assert isinstance(t, AtomicType)
    return t.root


def _python(value: Value, t: Any) -> Any:
    if value is None:
        return None
    match _root(t):
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return float(value)
        case TypeRoot.DECIMAL:
            return decimal.Decimal(str(value))
        case TypeRoot.VARBINARY | TypeRoot.BINARY:
            return bytes.fromhex(str(value))
        case TypeRoot.DATE:
            return datetime.date.fromisoformat(str(value))
        case TypeRoot.TIMESTAMP:
            return datetime.datetime.fromisoformat(str(value))
        case TypeRoot.TIMESTAMP_LTZ:
            return datetime.datetime.fromisoformat(str(value)).replace(tzinfo=datetime.UTC)
    return value


def _plain(value: Any, t: Any) -> Value:
    if value is None:
        return None
    match _root(t):
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return _number(float(value))
        case TypeRoot.DECIMAL:
            return format(value, "f")
        case TypeRoot.VARBINARY | TypeRoot.BINARY:
            return bytes(value).hex()
        case TypeRoot.DATE:
            return str(value.isoformat())
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return str(value.replace(tzinfo=None).isoformat(timespec="microseconds"))
    return value  # type: ignore[no-any-return]


def _told(value: Any, t: Any) -> Value:
    if value is None:
        return None
    match _root(t):
        case TypeRoot.FLOAT:
            return _number(float(np.float32(float(value))))
        case TypeRoot.DOUBLE:
            return _number(float(value))
        case TypeRoot.DECIMAL:
            return format(decimal.Decimal(str(value)), "f")
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return datetime.datetime.fromisoformat(value).isoformat(timespec="microseconds")
    return value  # type: ignore[no-any-return]


def _number(value: float) -> Value:
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def stored(value: Value, type_text: str) -> Value:
    """Return a value as a column of a type holds it: a FLOAT has 24 bits."""
    if type_text == "FLOAT" and isinstance(value, float):
        return _number(float(np.float32(value)))
    return value

"""Conversion between Avro record values and Arrow columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa

from paimon_spark.errors import UnsupportedError
from paimon_spark.format.arrow_types import COUNT, to_arrow_type
from paimon_spark.spec.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
    not_null,
)

_SIMPLE: dict[TypeRoot, Any] = {
    TypeRoot.CHAR: "string",
    TypeRoot.VARCHAR: "string",
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.BINARY: "bytes",
    TypeRoot.VARBINARY: "bytes",
    TypeRoot.BLOB: "bytes",
    TypeRoot.TINYINT: "int",
    TypeRoot.SMALLINT: "int",
    TypeRoot.INT: "int",
    TypeRoot.BIGINT: "long",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.DATE: {"type": "int", "logicalType": "date"},
    TypeRoot.TIME: {"type": "int", "logicalType": "time-millis"},
}
_INTEGERS = {
    TypeRoot.DATE: pa.int32(),
    TypeRoot.TIME: pa.int32(),
    TypeRoot.TIMESTAMP: pa.int64(),
    TypeRoot.TIMESTAMP_LTZ: pa.int64(),
}


def avro_schema(fields: Sequence[DataField]) -> dict[str, Any]:
    """Return the Avro schema of a data file, with the record names of Java Paimon."""
    return _record("record", fields) | {"namespace": "org.apache.paimon.avro.generated"}


def records(batch: pa.RecordBatch, fields: Sequence[DataField]) -> Iterable[dict[str, Any]]:
    """Return the rows of a batch as Avro records."""
    names = [f.name for f in fields]
    columns = [_values(batch.column(i), f.type) for i, f in enumerate(fields)]
    return (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))


def column(values: list[Any], t: DataType) -> pa.Array:
    """Return the values of one Avro field, dates and times as integers, as an array of the Arrow type of `t`."""
    target = to_arrow_type(t)
    if isinstance(t, AtomicType):
        if t.root in _INTEGERS:
            return pa.array(values, _INTEGERS[t.root]).cast(target)
        return pa.array(values, target)
    mask = pa.array([v is None for v in values], pa.bool_())
    if isinstance(t, RowType):
        parts = [column([None if v is None else v.get(f.name) for v in values], f.type) for f in t.fields]
        return pa.StructArray.from_arrays(parts, fields=list(target), mask=mask)
    if isinstance(t, ArrayType):
        flat = [e for v in values if v is not None for e in v]
        return pa.ListArray.from_arrays(_offsets(values), column(flat, t.element), type=target, mask=mask)
    key_type, value_type = (t.key, t.value) if isinstance(t, MapType) else (t.element, COUNT)
    pairs = [p for v in values if v is not None for p in _pairs(v)]
    keys, items = column([k for k, _ in pairs], key_type), column([v for _, v in pairs], value_type)
    return pa.MapArray.from_arrays(_offsets(values), keys, items, type=target, mask=mask)


def _offsets(values: list[Any]) -> pa.Array:
    lengths = (0 if v is None else len(v) for v in values)
    return pa.array(list(accumulate(lengths, initial=0)), pa.int32())


def _pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the key-value pairs of a map, which is encoded as an array of records unless its keys are strings."""
    return value.items() if isinstance(value, dict) else ((e["key"], e["value"]) for e in value)


def _values(array: pa.Array, t: DataType) -> list[Any]:
    """Return an array as Python values for the Avro writer."""
    if isinstance(t, AtomicType):
        if t.root in _INTEGERS:
            array = array.cast(_INTEGERS[t.root])
        return array.to_pylist()
    present = array.is_valid().to_pylist()
    if isinstance(t, RowType):
        columns = [_values(array.field(i), f.type) for i, f in enumerate(t.fields)]
        names = [f.name for f in t.fields]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        return [r if p else None for r, p in zip(rows, present, strict=True)]
    offsets = array.offsets.to_pylist()
    spans = [slice(a, b) if p else None for a, b, p in zip(offsets[:-1], offsets[1:], present, strict=True)]
    if isinstance(t, ArrayType):
        flat = _values(array.values, t.element)
        return [None if s is None else flat[s] for s in spans]
    key_type, value_type = (t.key, t.value) if isinstance(t, MapType) else (t.element, COUNT)
    keys, items = _values(array.keys, key_type), _values(array.items, value_type)
    if _is_text(key_type):
        return [None if s is None else dict(zip(keys[s], items[s], strict=True)) for s in spans]
    return [
        None if s is None else [{"key": k, "value": v} for k, v in zip(keys[s], items[s], strict=True)] for s in spans
    ]


def _is_text(t: DataType) -> bool:
    return isinstance(t, AtomicType) and t.root in (TypeRoot.CHAR, TypeRoot.VARCHAR)


def _record(name: str, fields: Sequence[DataField]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [
            {"name": f.name, "type": ["null", t], "default": None} if f.type.nullable else {"name": f.name, "type": t}
            for f in fields
            for t in [_type(f"{name}_{f.name}", f.type)]
        ],
    }


def _optional(name: str, t: DataType) -> Any:
    return ["null", _type(name, t)] if t.nullable else _type(name, t)


def _type(name: str, t: DataType) -> Any:
    """Return the Avro type of `t`, ignoring its nullability."""
    if isinstance(t, AtomicType):
        return _atomic(t)
    if isinstance(t, RowType):
        return _record(name, t.fields)
    if isinstance(t, ArrayType):
        return {"type": "array", "items": _optional(name, t.element)}
    key, value = (t.key, t.value) if isinstance(t, MapType) else (t.element, COUNT)
    if _is_text(key):
        return {"type": "map", "values": _optional(name, value)}
    pair = _record(name, (DataField(0, "key", not_null(key)), DataField(1, "value", value)))
    return {"type": "array", "logicalType": "map", "items": pair}


def _atomic(t: AtomicType) -> Any:
    if t.root in _SIMPLE:
        return _SIMPLE[t.root]
    if t.root is TypeRoot.DECIMAL:
        return {"type": "bytes", "logicalType": "decimal", "precision": t.precision, "scale": t.scale}
    if t.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ) and (t.precision or 0) <= 6:
        unit = "millis" if (t.precision or 0) <= 3 else "micros"
        local = "local-" if t.root is TypeRoot.TIMESTAMP_LTZ else ""
        return {"type": "long", "logicalType": f"{local}timestamp-{unit}"}
    raise UnsupportedError(
        f"Avro files cannot hold the type {t.root}({t.precision}).", hint="Use file.format parquet or orc."
    )

"""The Avro schema of data files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from paimon_spark.errors import UnsupportedError
from paimon_spark.spec.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    RowType,
    TypeRoot,
    entry_types,
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
INTEGERS = {
    TypeRoot.DATE: pa.int32(),
    TypeRoot.TIME: pa.int32(),
    TypeRoot.TIMESTAMP: pa.int64(),
    TypeRoot.TIMESTAMP_LTZ: pa.int64(),
}
"""The Arrow types of the integers that dates and times are stored as."""


def avro_schema(fields: Sequence[DataField]) -> dict[str, Any]:
    """Return the Avro schema of a data file, with the record names of Java Paimon where they differ from each other."""
    return _record("record", fields, set()) | {"namespace": "org.apache.paimon.avro.generated"}


def _is_text(t: DataType) -> bool:
    return isinstance(t, AtomicType) and t.root in (TypeRoot.CHAR, TypeRoot.VARCHAR)


def _record(name: str, fields: Sequence[DataField], taken: set[str]) -> dict[str, Any]:
    """Return a record.

    Args:
        name: its name.
        fields: its members.
        taken: the last parts of the names of the records before it, to which its own is added.
    """
    own = _free(name, taken)
    return {
        "type": "record",
        "name": own,
        "fields": [
            {"name": f.name, "type": ["null", t], "default": None} if f.type.nullable else {"name": f.name, "type": t}
            for f in fields
            for t in [_type(f"{name}_{f.name}", f.type, taken)]
        ],
    }


def _free(name: str, taken: set[str]) -> str:
    """Return a name whose last part no other record has: columns `a_b` and `a` with a field `b` give the same."""
    found, count = name, 1
    while found.rpartition(".")[2] in taken:
        count += 1
        found = f"{name.replace('.', '_')}_{count}"
    taken.add(found.rpartition(".")[2])
    return found


def _optional(name: str, t: DataType, taken: set[str]) -> Any:
    return ["null", _type(name, t, taken)] if t.nullable else _type(name, t, taken)


def _type(name: str, t: DataType, taken: set[str]) -> Any:
    """Return the Avro type of `t`, ignoring its nullability."""
    if isinstance(t, AtomicType):
        return _atomic(t)
    if isinstance(t, RowType):
        return _record(name, t.fields, taken)
    if isinstance(t, ArrayType):
        return {"type": "array", "items": _optional(name, t.element, taken)}
    key, value = entry_types(t)
    if _is_text(key):
        return {"type": "map", "values": _optional(name, value, taken)}
    pair = _record(name, (DataField(0, "key", not_null(key)), DataField(1, "value", value)), taken)
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

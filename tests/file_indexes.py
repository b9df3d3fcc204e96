"""Indexes of one column of each type, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.format.file_index.reader import FileIndexReader
from paimon_spark.format.file_index.writer import FileIndexWriter
from paimon_spark.spec.file_indexes import IndexKind, IndexSpec
from paimon_spark.spec.types import AtomicType, DataField, TypeRoot

TYPES = {
    "boolean": AtomicType(TypeRoot.BOOLEAN),
    "tinyint": AtomicType(TypeRoot.TINYINT),
    "smallint": AtomicType(TypeRoot.SMALLINT),
    "int": AtomicType(TypeRoot.INT),
    "bigint": AtomicType(TypeRoot.BIGINT),
    "float": AtomicType(TypeRoot.FLOAT),
    "double": AtomicType(TypeRoot.DOUBLE),
    "date": AtomicType(TypeRoot.DATE),
    "time": AtomicType(TypeRoot.TIME, precision=3),
    "decimal": AtomicType(TypeRoot.DECIMAL, precision=12, scale=2),
    "string": AtomicType(TypeRoot.VARCHAR, length=2147483647),
    "char": AtomicType(TypeRoot.CHAR, length=4),
    "bytes": AtomicType(TypeRoot.VARBINARY, length=2147483647),
    "timestamp(3)": AtomicType(TypeRoot.TIMESTAMP, precision=3),
    "timestamp(6)": AtomicType(TypeRoot.TIMESTAMP, precision=6),
    "timestamp(9)": AtomicType(TypeRoot.TIMESTAMP, precision=9),
    "timestamp_ltz(6)": AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=6),
}


def arrow(name: str, values: list[Any]) -> pa.Array:
    """Return values in the form in which writers get them."""
    t = to_arrow_type(TYPES[name])
    if pa.types.is_timestamp(t):
        unit = {"ms": 1_000_000, "us": 1000, "ns": 1}[t.unit]
        numbers = [None if v is None else (v.millis * 1_000_000 + v.nano_of_milli) // unit for v in values]
        return pa.array(numbers, pa.int64()).view(t)
    if name in ("date", "time"):
        return pa.array(values, pa.int32()).view(t)
    return pa.array(values, t)


def container_of(name: str, kind: IndexKind, values: list[Any], settings: Mapping[str, str]) -> bytes:
    """Return the container of an index of the column ``v`` of a type, written in two parts."""
    writer = FileIndexWriter([IndexSpec(kind, "v", None, settings)], [DataField(0, "v", TYPES[name])])
    column = arrow(name, values)
    half = len(values) // 2
    for part in (column.slice(0, half), column.slice(half)):
        writer.add(pa.table({"v": part}))
    return writer.finish()


def opened(name: str, container: bytes, rows: int) -> FileIndexReader:
    """Return the reader of a container with an index of the column ``v``."""
    return FileIndexReader(lambda at, n: container[at : at + n], {"v": ("v", TYPES[name])}, rows)

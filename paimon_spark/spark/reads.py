"""A planned read as a frame: native scans for files that need no merge, Arrow workers for everything else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from paimon_spark.core.read import PLACE_FIELDS
from paimon_spark.core.splits import Split, splits_to_json
from paimon_spark.core.table import Table
from paimon_spark.spark.arrow_map import map_in_arrow
from paimon_spark.spark.frames import native_frame, text_frame
from paimon_spark.spark.stores import native_access
from paimon_spark.spark.types import plain_struct, type_to_spark
from paimon_spark.spark.values import value_to_jvm
from paimon_spark.spark.worker import reader
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.predicate import TRUE, Predicate, to_json
from paimon_spark.spec.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
    children,
)

NATIVE_OPTIONS = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED", "mergeSchema": "false"}
_TIMES = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What to read: columns of the table in order, a filter that merging reads apply, and the splits."""

    table: Table
    columns: tuple[str, ...]
    predicate: Predicate
    splits: tuple[Split, ...]
    keep_kinds: bool = False
    places: bool = False
    """Whether file and position of every row come after the columns."""

    @property
    def carried(self) -> tuple[DataField, ...]:
        """Return the columns that are read: those asked for, or one where none is, since rows must be counted."""
        fields = self.table.schema.fields
        return tuple(self.table.schema.field(c) for c in self.columns) or (min(fields, key=_width),)


def _width(field: DataField) -> int:
    order = (TypeRoot.BOOLEAN, TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.DATE, TypeRoot.BIGINT)
    root = field.type.root if isinstance(field.type, AtomicType) else None
    return order.index(root) if root in order else len(order)


def read_frame(session: SparkSession, request: ReadRequest) -> DataFrame:
    """Return the rows of `request` as a frame without any shuffle."""
    access = native_access(request.table)
    groups, arrow = ({}, list(request.splits)) if access.refusal else _divide(request)
    frames = [native_frame(session, _native_spec(request, *key, splits), access.conf) for key, splits in groups.items()]
    if arrow:
        lines = [splits_to_json([s]) for s in arrow]
        predicate = None if request.predicate == TRUE else to_json(request.predicate)
        names = [f.name for f in request.carried]
        run = reader(request.table, names, predicate, _extra(request))
        frames.append(map_in_arrow(text_frame(session, lines), run, _row_type(request)))
    if not frames:
        return session.createDataFrame([], _row_type(request))
    return reduce(DataFrame.unionAll, frames)


def _extra(request: ReadRequest) -> str:
    return "kinds" if request.keep_kinds else "places" if request.places else ""


def _row_type(request: ReadRequest) -> StructType:
    struct = plain_struct((*request.carried, *(PLACE_FIELDS if request.places else ())))
    if request.keep_kinds:
        kind = {"name": "rowkind", "type": "string", "nullable": True, "metadata": {}}
        struct = {"type": "struct", "fields": [kind, *struct["fields"]]}
    return StructType.fromJson(struct)


NativeKey = tuple[str, int]
"""(file format, schema id)."""


def _divide(request: ReadRequest) -> tuple[dict[NativeKey, list[tuple[Split, DataFileMeta]]], list[Split]]:
    """Return the files to scan natively, by format and schema, and the splits that need a worker."""
    native: dict[NativeKey, list[tuple[Split, DataFileMeta]]] = {}
    arrow: list[Split] = []
    sources = _Sources(request)
    for split in request.splits:
        keys = [(f.file_name.rpartition(".")[2].lower(), f.schema_id) for f in split.files]
        plain = split.raw and not request.keep_kinds and not any(v is not None for v in split.vectors)
        if plain and all(sources.of(k) is not None for k in keys) and not any(f.write_cols for f in split.files):
            for key, file in zip(keys, split.files, strict=True):
                native.setdefault(key, []).append((split, file))
        else:
            arrow.append(split)
    return native, arrow


class _Sources:
    """For each format and schema: where each wanted column comes from, or None where Spark cannot read it so."""

    def __init__(self, request: ReadRequest) -> None:
        self._request = request
        self._known: dict[NativeKey, list[DataField | None] | None] = {}

    def of(self, key: NativeKey) -> list[DataField | None] | None:
        if key not in self._known:
            self._known[key] = self._find(*key)
        return self._known[key]

    def _find(self, file_format: str, schema_id: int) -> list[DataField | None] | None:
        if file_format not in (("parquet",) if self._request.places else ("parquet", "orc")):
            return None
        table = self._request.table
        schema = table.schema if schema_id == table.schema.id else table.schema_store.get(schema_id)
        by_id = {f.id: f for f in schema.fields}
        found: list[DataField | None] = []
        for wanted in self._request.carried:
            source = by_id.get(wanted.id)
            if wanted.name in table.schema.partition_keys:
                found.append(wanted)
            elif source is None:
                found.append(None)
            elif _same(source.type, wanted.type) and _readable(source.type, file_format):
                found.append(source)
            else:
                return None
        return found


def _same(a: DataType, b: DataType) -> bool:
    """Return whether two types are equal but for nullability."""
    if isinstance(a, RowType) and isinstance(b, RowType):
        return [(f.id, f.name) for f in a.fields] == [(f.id, f.name) for f in b.fields] and all(
            _same(x.type, y.type) for x, y in zip(a.fields, b.fields, strict=True)
        )
    if isinstance(a, AtomicType) and isinstance(b, AtomicType):
        return (a.root, a.length, a.precision, a.scale) == (b.root, b.length, b.precision, b.scale)
    if type(a) is not type(b):
        return False
    return all(_same(x, y) for x, y in zip(children(a), children(b), strict=True))


def _readable(t: DataType, file_format: str) -> bool:
    """Return whether Spark's own reader gives exactly the table's values."""
    if isinstance(t, ArrayType | MapType | RowType):
        return all(_readable(c, file_format) for c in children(t))
    if not isinstance(t, AtomicType) or t.root in (TypeRoot.TIME, TypeRoot.VARIANT):
        return False
    if t.root in _TIMES:
        return file_format == "parquet" and (t.precision or 0) <= 6
    return not (file_format == "orc" and t.root is TypeRoot.CHAR)


def _native_spec(
    request: ReadRequest, file_format: str, schema_id: int, files: Sequence[tuple[Split, DataFileMeta]]
) -> dict[str, Any]:
    table = request.table
    keys = table.schema.partition_keys
    sources = _Sources(request).of((file_format, schema_id)) or []
    wanted = list(zip(request.carried, sources, strict=True))
    data = [s for f, s in wanted if s is not None and f.name not in keys]
    partition = [f for f, _ in wanted if f.name in keys]
    return {
        "format": file_format,
        "root": table.path,
        "identity": f"{table.path}|{files[0][0].snapshot_id}|{_digest(f for _, f in files)}",
        "options": NATIVE_OPTIONS,
        "places": request.places,
        "data_schema": plain_struct(data),
        "partition_schema": plain_struct(partition),
        "select": [
            {"name": f.name, "from": None if s is None else s.name, "type": plain_struct([f])["fields"][0]["type"]}
            for f, s in wanted
        ],
        "groups": _groups(table, [f.name for f in partition], files),
    }


def _digest(files: Iterable[DataFileMeta]) -> int:
    return hash(tuple(f.file_name for f in files))


def _groups(table: Table, columns: Sequence[str], files: Sequence[tuple[Split, DataFileMeta]]) -> list[dict[str, Any]]:
    groups: dict[bytes, list[list[Any]]] = {}
    paths = table.paths
    for split, file in files:
        path = paths.data_file(split.partition, split.bucket, file)
        groups.setdefault(split.partition, []).append([path, file.file_size, file.creation_time or 0])
    return [{"values": _values(table, columns, partition), "files": members} for partition, members in groups.items()]


def _values(table: Table, columns: Sequence[str], partition: bytes) -> list[str | None]:
    values = dict(zip(table.schema.partition_keys, table.partition_values(partition), strict=True))
    return [value_to_jvm(values[c]) for c in columns]


__all__ = ["ReadRequest", "read_frame", "type_to_spark"]

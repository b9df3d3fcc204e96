"""System tables for the JVM: ``t$files`` and the like, and the global tables of the database ``sys``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa

from paimon_spark.bridge.protocol import Envelope
from paimon_spark.bridge.tables import catalog_of, load_named, pinned
from paimon_spark.core.columns import AUDIT_ROW_KIND, TRACKING_FIELDS
from paimon_spark.core.merge.config import SEQUENCE_FIELD
from paimon_spark.core.metadata.row_tracking import tracks_rows
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.system.tables import (
    SYSTEM_SCANS,
    SystemScan,
    check_system_table,
    shows_sequence_numbers,
    system_table,
    system_table_schema,
)
from paimon_spark.core.table import Table
from paimon_spark.core.write.rolling import epoch_millis
from paimon_spark.errors import ErrorKind, NotFoundError, UnsupportedError, did_you_mean
from paimon_spark.format.arrow_types import from_arrow
from paimon_spark.spark.types import struct_to_spark, type_to_spark
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.privileges import Privilege
from paimon_spark.spec.types import STRING, ArrayType, DataField, not_null

Json = dict[str, Any]
SYSTEM_DATABASE = "sys"
_S, _L, _B = pa.string(), pa.int64(), pa.bool_()
_GLOBAL: Mapping[str, pa.Schema] = {
    "tables": pa.schema(
        [
            ("database_name", _S),
            ("table_name", _S),
            ("table_type", _S),
            ("partitioned", _B),
            ("primary_key", _B),
            ("owner", _S),
            ("created_at", _L),
            ("created_by", _S),
            ("updated_at", _L),
            ("updated_by", _S),
            ("record_count", _L),
            ("file_size_in_bytes", _L),
            ("file_count", _L),
            ("last_file_creation_time", _L),
        ]
    ),
    "partitions": pa.schema(
        [
            ("database_name", _S),
            ("table_name", _S),
            ("partition_name", _S),
            ("record_count", _L),
            ("file_size_in_bytes", _L),
            ("file_count", _L),
            ("last_file_creation_time", _L),
            ("done", _B),
        ]
    ),
    "all_table_options": pa.schema([("database_name", _S), ("table_name", _S), ("key", _S), ("value", _S)]),
}


def is_rows(token: Mapping[str, Any]) -> bool:
    """Return whether a token is that of a system table whose rows are computed on the driver."""
    return "rows_of" in token


def global_tables() -> tuple[str, ...]:
    """Return the names of the tables of the database ``sys``."""
    return tuple(_GLOBAL)


def describe_global(envelope: Envelope, name: str) -> Json:
    """Return the description of a table of the database ``sys``.

    Raises:
        NotFoundError: there is none of that name.
    """
    del envelope
    if name not in _GLOBAL:
        raise NotFoundError(
            f"There is no table {SYSTEM_DATABASE}.{name}.",
            hint=did_you_mean(name, _GLOBAL),
            kind=ErrorKind.TABLE_NOT_FOUND,
        )
    return _described(
        f"{SYSTEM_DATABASE}.{name}", struct_of(_GLOBAL[name]), [], {"rows_of": f"{SYSTEM_DATABASE}.{name}"}
    )


def describe_system(table: Table, identifier: Identifier, snapshot: int | None) -> Json:
    """Return the description of one system table of `table`.

    Raises:
        NotFoundError: there is no such system table.
        UnsupportedError: this table does not have it.
    """
    name = check_system_table(identifier.system_table or "")
    base = identifier.data_table
    token: Json = {"database": base.database, "name": base.object_name, "schema_id": table.schema.id}
    if snapshot is not None:
        token["snapshot"] = snapshot
    if name not in SYSTEM_SCANS:
        token["rows_of"] = name
        return _described(identifier.full_name, struct_of(system_table_schema(name)), [], token)
    token["scan_of"] = name
    how = SYSTEM_SCANS[name]
    # A filter on a partition column is not exact for arrays.
    partition_keys = [] if how.pairs else list(table.schema.partition_keys)
    return _described(identifier.full_name, struct_to_spark(_scan_fields(table, how)), partition_keys, token)


def _scan_fields(table: Table, how: SystemScan) -> list[DataField]:
    """Return the columns of a system table that scans the rows of `table`.

    Raises:
        UnsupportedError: this table does not have it.
    """
    fields = list(table.schema.fields)
    if how.pairs:
        fields = [replace(f, type=ArrayType(replace(f.type, nullable=True)), default_value=None) for f in fields]
    if how.keep_kinds:
        kind = DataField(-1, AUDIT_ROW_KIND, STRING)
        return [kind, *([SEQUENCE_FIELD] if shows_sequence_numbers(table) else []), *fields]
    if how.tracking:
        if not tracks_rows(table):
            raise UnsupportedError(
                f"Table {table.name} has no system table $row_tracking: its rows have no ids.",
                hint="Only tables with 'row-tracking.enabled' = 'true' have it.",
            )
        return [*fields, *(replace(f, type=not_null(f.type)) for f in TRACKING_FIELDS)]
    return fields


def _described(name: str, struct: Json, partition_keys: list[str], token: Json) -> Json:
    return {
        "kind": "system",
        "name": name,
        "schema": struct,
        "partition_keys": partition_keys,
        "properties": {},
        "token": token,
    }


def struct_of(schema: pa.Schema) -> Json:
    """Return the JSON of the Spark type of Arrow rows."""
    fields = [
        {"name": f.name, "type": type_to_spark(from_arrow(f.type)), "nullable": f.nullable, "metadata": {}}
        for f in schema
    ]
    return {"type": "struct", "fields": fields}


def system_rows(envelope: Envelope, token: Mapping[str, Any]) -> pa.Table:
    """Return the rows of a system table."""
    name = token["rows_of"]
    if "name" not in token:
        return _global_rows(envelope, name.removeprefix(f"{SYSTEM_DATABASE}."))
    table = load_named(envelope, Identifier.of((token["database"], token["name"])))
    if token.get("snapshot") is not None:
        table = pinned(table, token["snapshot"])
    return system_table(table, name, zone=envelope.zone)


def _global_rows(envelope: Envelope, name: str) -> pa.Table:
    rows = [row for table in _all_tables(envelope) for row in _ROWS[name](table)]
    schema = _GLOBAL[name]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def _all_tables(envelope: Envelope) -> Iterator[Table]:
    """Yield all tables of a catalog; one that is dropped meanwhile is left out."""
    catalog = catalog_of(envelope.catalog)
    for database in catalog.list_databases():
        for name in catalog.list_tables(database):
            with suppress(NotFoundError):
                yield catalog.load_table(Identifier(database, name))


def _table_row(table: Table) -> Iterator[tuple[Any, ...]]:
    schema, name = table.schema, table.identifier
    keyed = bool(schema.primary_keys)
    owner = schema.options.get("owner")
    yield (name.database, name.table, "table", bool(schema.partition_keys), keyed, owner, *([None] * 8))


def _option_rows(table: Table) -> Iterator[tuple[Any, ...]]:
    name = table.identifier
    yield from ((name.database, name.table, k, v) for k, v in table.schema.options.items())


def _partition_rows(table: Table) -> Iterator[tuple[Any, ...]]:
    if not table.schema.partition_keys or not table.allows(Privilege.SELECT):
        return
    name = table.identifier
    grouped: dict[bytes, list[Any]] = {}
    for entry in scan(table, table.snapshots.latest()).entries:
        grouped.setdefault(entry.partition, []).append(entry.file)
    for partition, files in grouped.items():
        yield (
            name.database,
            name.table,
            table.partition_text(partition),
            sum(f.row_count for f in files),
            sum(f.file_size for f in files),
            len(files),
            epoch_millis(max(f.creation_time or 0 for f in files)),
            False,
        )


_ROWS = {"tables": _table_row, "all_table_options": _option_rows, "partitions": _partition_rows}

"""Tables of tests: created in memory by default, and read in this process."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence

import pyarrow as pa

from paimon_spark.core.table import Table
from paimon_spark.engine.select import plan_select, read_batches
from paimon_spark.fs.base import FileIO
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.predicate import Predicate
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import DataField, not_null, parse_atomic


def new_table(
    columns: Mapping[str, str],
    *,
    primary_key: Sequence[str] = (),
    partition: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    file_io: FileIO | None = None,
    path: str | None = None,
) -> Table:
    """Create a table and return it.

    Args:
        columns: types by column name, in the notation of the table format.
        primary_key: columns of the primary key.
        partition: partition columns.
        options: table options.
        file_io: the store; a new in-memory store by default.
        path: path of the table in the store.
    """
    fields = []
    for i, (name, text) in enumerate(columns.items()):
        t = parse_atomic(text)
        fields.append(DataField(i, name, not_null(t) if name in primary_key else t))
    schema = TableSchema(
        id=0,
        fields=tuple(fields),
        highest_field_id=len(fields) - 1,
        partition_keys=tuple(partition),
        primary_keys=tuple(primary_key),
        options=dict(options or {}),
        time_millis=int(time.time() * 1000),
    )
    store = InMemoryFileIO() if file_io is None else file_io
    table = Table.of(Identifier("db", "t"), path or f"/{uuid.uuid4().hex}/db.db/t", schema, store)
    table.schema_store.try_create(schema)
    return table


def read_arrow(
    table: Table,
    *,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    limit: int | None = None,
    version: str | int | None = None,
    timestamp_millis: int | None = None,
) -> pa.Table:
    """Read rows in this process; the arguments are those of `plan_select`."""
    plan = plan_select(
        table,
        columns=columns,
        predicate=predicate,
        limit=limit,
        version=version,
        timestamp_millis=timestamp_millis,
    )
    return pa.Table.from_batches(read_batches(plan), schema=plan.schema)

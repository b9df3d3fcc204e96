"""The tables of the interoperability tests: every kind this release writes, each with a short history."""

from __future__ import annotations

import datetime
import decimal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_spark.api.row_changes import deletions
from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.row_level import change_arrow
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import plan_select
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.fs.resolve import file_io_for
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.kinds import RowKind
from paimon_spark.spec.predicate import Comparison, InList, Predicate
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import DataField, not_null, parse_atomic
from paimon_spark.testing.tables import read_arrow

DATABASE = "here"
COLUMNS = (
    ("id", "INT"),
    ("name", "STRING"),
    ("flag", "BOOLEAN"),
    ("tiny", "TINYINT"),
    ("small", "SMALLINT"),
    ("big", "BIGINT"),
    ("real", "FLOAT"),
    ("double", "DOUBLE"),
    ("short_dec", "DECIMAL(10, 2)"),
    ("long_dec", "DECIMAL(30, 5)"),
    ("bytes", "BYTES"),
    ("day", "DATE"),
    ("millis", "TIMESTAMP(3)"),
    ("micros", "TIMESTAMP(6)"),
    ("part", "STRING"),
)


@dataclass(frozen=True)
class Kind:
    """One kind of table: its keys, options, and the columns of bytes that are BLOBs."""

    name: str
    keys: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    blobs: tuple[str, ...] = ()

    @property
    def upserts(self) -> bool:
        """Return whether a second row of a key replaces the first."""
        return bool(self.keys)


KINDS = (
    Kind("pk_fixed", ("id",), options={"bucket": "2"}),
    Kind("pk_orc", ("id",), options={"bucket": "1", "file.format": "orc"}),
    Kind("pk_dynamic", ("id",)),
    Kind("pk_text_key", ("name", "day"), options={"bucket": "3"}),
    Kind("pk_partitioned", ("part", "id"), ("part",), {"bucket": "2"}),
    Kind("pk_partitioned_dynamic", ("part", "id"), ("part",)),
    Kind("append_unaware"),
    Kind("append_partitioned", (), ("part",)),
    Kind("append_bucketed", options={"bucket": "3", "bucket-key": "id"}),
    Kind("append_orc", options={"file.format": "orc"}),
    Kind("append_tracked", options={"row-tracking.enabled": "true"}),
    Kind("append_tracked_marked", options={"row-tracking.enabled": "true", "deletion-vectors.enabled": "true"}),
    Kind("append_marked", options={"deletion-vectors.enabled": "true"}),
    Kind("append_marked_partitioned", (), ("part",), {"deletion-vectors.enabled": "true", "file.format": "orc"}),
    Kind("append_marked_buckets", options={"deletion-vectors.enabled": "true", "bucket": "2", "bucket-key": "id"}),
    Kind("append_clustered", options={"clustering.incremental": "true", "clustering.columns": "big,name"}),
)


def row(number: int, name: str | None = None) -> list[Any]:
    """Return a row in which every column depends on `number`; every seventh row is mostly null."""
    part = ("x", "y z", "ä")[number % 3]
    day = datetime.date(2024, 2, 28) + datetime.timedelta(days=number)
    if number % 7 == 0:
        return [number, name or f"n{number}", *[None] * 9, day, None, None, part]
    moment = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000) + datetime.timedelta(
        hours=number, milliseconds=number
    )
    return [
        number,
        name or f"a rather long name {number}",
        number % 2 == 0,
        number % 100 - 50,
        -number,
        number * 10**12,
        number / 4,
        -number / 3,
        decimal.Decimal(number * 101).scaleb(-2),
        decimal.Decimal(-number * 10**20 - 7).scaleb(-5),
        bytes([number % 256, 0, 255]),
        day,
        moment,
        moment + datetime.timedelta(microseconds=number),
        part,
    ]


def create(warehouse: Path, kind: Kind) -> Table:
    """Create the empty table of `kind`."""
    types = {name: parse_atomic("BLOB" if name in kind.blobs else text) for name, text in COLUMNS}
    fields = tuple(
        DataField(i, name, not_null(t) if name in kind.keys else t) for i, (name, t) in enumerate(types.items())
    )
    schema = TableSchema(
        id=0,
        fields=fields,
        highest_field_id=len(fields) - 1,
        partition_keys=kind.partitions,
        primary_keys=kind.keys,
        options=kind.options,
        time_millis=0,
    )
    path = f"{warehouse}/{DATABASE}.db/{kind.name}"
    table = Table.of(Identifier(DATABASE, kind.name), path, schema, file_io_for(path, {}))
    assert table.schema_store.try_create(schema)
    return table


def arrow(table: Table, rows: list[list[Any]], kind: RowKind = RowKind.INSERT) -> pa.Table:
    """Return rows as the writer takes them."""
    schema = to_arrow_schema(table.schema.fields)
    columns = [pa.array([r[i] for r in rows], f.type) for i, f in enumerate(schema)]
    data = pa.Table.from_arrays(columns, schema=schema)
    if kind is RowKind.INSERT:
        return data
    return data.append_column(ROW_KIND, pa.array([int(kind)] * len(rows), pa.int8()))


def fill(table: Table, kind: Kind) -> None:
    """Write the table's history: a load, then updates, deletes, a compaction and one more upsert."""
    write_arrow(table, arrow(table, [row(i) for i in range(1, 41)]))
    if not kind.upserts:
        write_arrow(table, arrow(table, [row(i) for i in range(41, 46)]))
        if "marked" in kind.name or "tracked" in kind.name:
            delete(table, Comparison("<", "id", 10))
            delete(table, Comparison(">", "id", 43))
            delete(table, InList("id", (7, 12, 13, 38)))
        return
    write_arrow(table, arrow(table, [changed(i) for i in range(5, 15)]))
    write_arrow(table, arrow(table, [row(i) for i in range(20, 25)], RowKind.DELETE))
    compact(table)
    write_arrow(table, arrow(table, [changed(3), row(22), row(50)]))


def delete(table: Table, condition: Predicate) -> None:
    """Delete the rows for which a condition holds."""
    change_arrow(table, deletions(plan_select(table, columns=(), predicate=condition)), "DELETE")


def changed(number: int) -> list[Any]:
    """Return another version of the row with the same keys."""
    return [*row(number)[:9], None, b"changed", *row(number)[11:]]


def compact(table: Table) -> None:
    """Compact the whole table."""
    execute_compaction(plan_compaction(table, strategy=Strategy.FULL), LocalRunner())


def rows_of(table: Table) -> list[str]:
    """Return the table's rows as sorted text, comparable with what the peers answer."""
    columns = [c.to_pylist() for c in read_arrow(table).columns]
    return comparable([list(values) for values in zip(*columns, strict=True)])


def comparable(rows: list[list[Any]]) -> list[str]:
    """Return rows of any side as sorted text."""
    return sorted(str([plain(v) for v in r]) for r in rows)


def plain(value: Any) -> Any:
    """Return a value in the one spelling that all sides share."""
    if isinstance(value, datetime.datetime):
        return value.isoformat(timespec="microseconds")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, str) and len(value) > 10 and value[4] == value[7] == "-" and value[10] == "T":
        return datetime.datetime.fromisoformat(value).isoformat(timespec="microseconds")
    if isinstance(value, float):
        return float(f"{value:.7g}")
    return value

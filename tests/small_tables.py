"""Small tables in this process: their options as keywords, and rows of plain values, in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from paimon_spark.core.table import Table
from paimon_spark.engine.insert import write_arrow
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.spec.predicate import Predicate
from paimon_spark.testing.tables import new_table, read_arrow


def option_keys(options: Mapping[str, str]) -> dict[str, str]:
    """Return options whose keys were spelled as Python's names: ``a__b_c`` is ``a.b-c``."""
    return {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}


def crossing(engine: str = "deduplicate", **options: str) -> Table:
    """Create a table whose keys are unique across its partitions."""
    return new_table(
        {"k": "INT", "v": "INT", "p": "STRING"},
        primary_key=["k"],
        partition=["p"],
        options={"merge-engine": engine, **option_keys(options)},
    )


def at_next_schema(table: Table, **parts: Any) -> Table:
    """Publish the next schema of a table, with other `parts`; return the table at it."""
    schema = replace(table.schema, id=table.schema.id + 1, **parts)
    assert table.schema_store.try_create(schema)
    return Table.of(table.identifier, table.path, schema, table.file_io)


def frame(table: Table, rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Return rows as Arrow has them for the columns of a table."""
    schema = to_arrow_schema(table.schema.fields)
    return pa.table([pa.array([r[i] for r in rows], f.type) for i, f in enumerate(schema)], names=schema.names)


def put(table: Table, *rows: Sequence[Any]) -> None:
    """Write rows in one commit."""
    write_arrow(table, frame(table, rows))


def rows(table: Table, predicate: Predicate | None = None, **how: Any) -> list[tuple[Any, ...]]:
    """Return rows as they are read; the arguments are those of `read_arrow`."""
    return [tuple(r.values()) for r in read_arrow(table, predicate=predicate, **how).to_pylist()]


def sorted_rows(table: Table, **how: Any) -> list[tuple[Any, ...]]:
    """Return rows in their order; the arguments are those of `read_arrow`."""
    return sorted(rows(table, **how))

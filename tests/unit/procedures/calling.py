"""A catalog of one table in memory, and a way to CALL procedures on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

import procedures.branches
import procedures.cleanup
import procedures.columns
import procedures.compaction
import procedures.consumers
import procedures.control
import procedures.copying
import procedures.health
import procedures.indexes
import procedures.inspection
import procedures.merge
import procedures.migration
import procedures.partitions
import procedures.privileges
import procedures.repair
import procedures.rollback
import procedures.snapshots
import procedures.tags
import procedures.trash
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.registry import Registry
from paimon_spark.calls.run import run_call
from paimon_spark.catalog.base import Directories
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import NotFoundError
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.spec.evolution import SchemaChange, apply_changes
from paimon_spark.spec.identifier import Identifier
from paimon_spark.testing.tables import new_table
from tests.small_tables import option_keys

REGISTRY = Registry.of_modules(
    [
        procedures.branches,
        procedures.cleanup,
        procedures.columns,
        procedures.compaction,
        procedures.consumers,
        procedures.control,
        procedures.copying,
        procedures.health,
        procedures.indexes,
        procedures.inspection,
        procedures.merge,
        procedures.migration,
        procedures.partitions,
        procedures.privileges,
        procedures.repair,
        procedures.rollback,
        procedures.snapshots,
        procedures.tags,
        procedures.trash,
    ]
)
NOW = 4_102_444_800_000
"""The clock of every CALL: 2100-01-01, so that everything written is old."""


class Lake:
    """The table `db.t` in the catalog `paimon`, and what a session would do with it."""

    def __init__(
        self,
        columns: Mapping[str, str],
        *,
        primary_key: Sequence[str] = (),
        partition: Sequence[str] = (),
        **options: str,
    ) -> None:
        given = option_keys(options)
        self.table = new_table(columns, primary_key=primary_key, partition=partition, options=given)
        self.now = NOW
        self.progress: list[tuple[int, int, str]] = []

    def load_table(self, identifier: Identifier, dynamic_options: Mapping[str, str] | None = None) -> Table:
        if identifier.full_name != "db.t":
            raise NotFoundError(f"Table {identifier.full_name} does not exist.")
        return self.table.with_options(dynamic_options or {})

    def alter_table(self, identifier: Identifier, changes: Sequence[SchemaChange]) -> Table:
        table = self.load_table(identifier)
        schema = apply_changes(table.schema, changes, self.now, has_snapshots=table.snapshots.latest_id() is not None)
        assert table.schema_store.try_create(schema)
        self.table = replace(table, schema=schema)
        return self.table

    def list_databases(self) -> list[str]:
        return ["db"]

    def list_tables(self, database: str) -> list[str]:
        return ["t"] if database == "db" else []

    def list_directories(self, database: str) -> Directories:
        return Directories(self.list_tables(database), [])

    def insert(self, *rows: tuple[Any, ...]) -> None:
        fields = self.table.schema.fields
        columns = {f.name: pa.array([r[i] for r in rows], to_arrow_type(f.type)) for i, f in enumerate(fields)}
        write_arrow(self.table, pa.table(columns))

    def rows(self, columns: Mapping[str, Sequence[Any]]) -> pa.Table:
        """Return columns with the types of the table."""
        return pa.table({f.name: pa.array(columns[f.name], to_arrow_type(f.type)) for f in self.table.schema.fields})

    def ctx(self) -> CallContext:
        return CallContext(
            catalog=self,
            catalog_name="paimon",
            runner=LocalRunner(),
            clock_millis=lambda: self.now,
            current_database="db",
            progress=lambda done, total, what: self.progress.append((done, total, what)),
        )

    def call(self, text: str) -> list[dict[str, Any]]:
        """Run `CALL sys.<text>`, or `text` itself if it is a whole statement."""
        statement = text if "CALL" in text else f"CALL sys.{text}"
        result = run_call(statement, self.ctx(), REGISTRY)
        return [dict(zip([c for c, _ in result.columns], row, strict=True)) for row in result.rows]

    def one(self, text: str) -> dict[str, Any]:
        """Return the only row of a CALL."""
        (row,) = self.call(text)
        return row

    def state(self) -> dict[str, bytes]:
        """Return every file of the table."""
        store = self.table.file_io
        files = [s.path for s in store.list_recursive(self.table.path) if not s.is_dir]
        return {path: store.read(path) for path in files}

"""A catalog in a directory, and a way to CALL procedures in it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_spark.calls.context import CallContext
from paimon_spark.calls.run import run_call
from paimon_spark.catalog.base import Catalog
from paimon_spark.catalog.filesystem import FileSystemCatalog
from paimon_spark.catalog.privileged import PrivilegedCatalog
from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.runner import LocalRunner, TaskRunner
from paimon_spark.fs.base import FileIO
from paimon_spark.spec.evolution import new_schema
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.types import DataField, parse_atomic
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.tables import read_arrow
from tests.small_tables import option_keys
from tests.unit.procedures.calling import REGISTRY

OPTIONS = {"bucket": "1", "write-only": "true"}


class Warehouse:
    """A catalog in a directory, and CALLs in it."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.catalog: Catalog = open_catalog({"warehouse": self.path})
        self.catalog.create_database("db", ignore_if_exists=True)

    @property
    def file_io(self) -> FileIO:
        return self._files.file_io

    @file_io.setter
    def file_io(self, file_io: FileIO) -> None:
        """Let the catalog use another store."""
        self.catalog = replace(self._files, file_io=file_io)

    @property
    def _files(self) -> FileSystemCatalog:
        found = self.catalog.inner if isinstance(self.catalog, PrivilegedCatalog) else self.catalog
        assert isinstance(found, FileSystemCatalog)
        return found

    def create(self, name: str, *, keys: tuple[str, ...] = ("k", "p"), **options: str) -> Table:
        fields = [DataField(i, n, parse_atomic(t)) for i, (n, t) in enumerate([("k", "INT"), ("p", "STRING")])]
        given = OPTIONS | option_keys(options)
        schema = new_schema(fields, partition_keys=["p"], primary_keys=keys, options=given)
        return self.catalog.create_table(Identifier.parse(name), schema)

    def insert(self, name: str, *rows: tuple[int, str]) -> None:
        table = self.catalog.load_table(Identifier.parse(name))
        columns = {"k": pa.array([k for k, _ in rows], pa.int32()), "p": [p for _, p in rows]}
        if len(table.schema.fields) > 2:
            columns["extra"] = pa.array([0] * len(rows), pa.int32())
        write_arrow(table, pa.table(columns))

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        table = self.catalog.load_table(Identifier.parse(name))
        assert violations(table) == []
        return sorted((tuple(r.values()) for r in self.read(table)), key=str)

    def read(self, table: Table) -> list[dict[str, Any]]:
        return read_arrow(table).to_pylist()

    def call(
        self, text: str, jobs: Any = None, runner: TaskRunner | None = None, user: str = ""
    ) -> list[dict[str, Any]]:
        ctx = CallContext(
            jobs=jobs,
            catalog=self.catalog,
            catalog_name="paimon",
            runner=runner or LocalRunner(2),
            user=user,
            clock_millis=lambda: time.time_ns() // 1_000_000,
            current_database="db",
        )
        result = run_call(text if "CALL" in text else f"CALL sys.{text}", ctx, REGISTRY)
        return [dict(zip([c for c, _ in result.columns], row, strict=True)) for row in result.rows]

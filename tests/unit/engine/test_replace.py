"""Replacing a table: what happens to the new schema when the statement fails half-way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import TableWriter
from paimon_spark.engine.insert import WritePlan, plan_write, write_arrow
from paimon_spark.engine.replace import finish_replacement
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import ConflictError
from paimon_spark.fs.base import FileIO
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.testing.faults import FaultFileIO, Mode
from paimon_spark.testing.tables import new_table, read_arrow


@pytest.fixture
def table() -> Table:
    return filled(InMemoryFileIO())


def filled(store: FileIO) -> Table:
    """Return a table of one row in a store."""
    table = new_table({"k": "INT"}, options={"bucket": "-1"}, file_io=store)
    write_arrow(table, rows(1))
    return table


def faulty() -> tuple[FaultFileIO, InMemoryFileIO]:
    """Return a store whose operations can fail, and what is below it."""
    inner = InMemoryFileIO()
    return FaultFileIO(inner), inner


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int32())})


def replacement(table: Table, options: Mapping[str, str] | None = None) -> tuple[WritePlan, list[CommitMessage]]:
    """Return the plan of a REPLACE TABLE with one new row, and what its writer did."""
    schema = replace(table.schema, id=1, comment="new")
    plan = plan_write(table.with_schema(schema).with_options(options or {}), overwrite="static")
    with TableWriter(plan.table, plan.info) as writer:
        writer.write(rows(2))
        return plan, writer.finish()


def test_schema_and_rows_are_replaced_together(table: Table) -> None:
    finish_replacement(*replacement(table), LocalRunner())
    assert read_arrow(table).to_pydict() == {"k": [2]}
    assert table.snapshots.get(2).schema_id == table.schema_store.ids()[-1] == 1


@dataclass
class UnreadableAfterCommit:
    """No file can be read once the second snapshot is the newest."""

    table: Table

    def choose(self, operation: str, path: str) -> Mode | None:
        del path
        committed = self.table.file_io.read(self.table.paths.latest_hint) == b"2"
        return Mode.BEFORE if committed and operation in ("read", "exists", "list") else None


def test_a_committed_replacement_keeps_its_schema(caplog: pytest.LogCaptureFixture) -> None:
    store, inner = faulty()
    table = filled(store)
    plan, messages = replacement(table)
    table = replace(table, file_io=inner)
    store.schedule = UnreadableAfterCommit(table)
    assert finish_replacement(plan, messages, LocalRunner()).compaction is None
    assert "the compaction that should follow failed" in caplog.text
    assert table.schema_store.ids() == [0, 1]
    assert read_arrow(table, version=2).to_pydict() == {"k": [2]}


@dataclass
class Before:
    """Runs something before a file is created."""

    path: str
    run: Callable[[], object]

    def choose(self, operation: str, path: str) -> Mode | None:
        if operation == "create_exclusive" and path == self.path:
            self.path = ""
            self.run()
        return None


def lose(others_commit: Callable[[Table], object]) -> Table:
    """Replace a table while others commit; return the table."""
    store, inner = faulty()
    table = filled(store)
    plan, messages = replacement(table, {"commit.max-retries": "0"})
    table = replace(table, file_io=inner)
    store.schedule = Before(table.paths.snapshot(2), lambda: others_commit(table))
    with pytest.raises(ConflictError):
        finish_replacement(plan, messages, LocalRunner())
    return table


def test_a_failed_replacement_takes_its_schema_back() -> None:
    table = lose(lambda t: t.snapshots.try_create(replace(t.snapshots.get(1), id=2)))
    assert table.schema_store.ids() == [0]


def test_a_schema_that_a_snapshot_names_stays() -> None:
    table = lose(lambda t: write_arrow(t, rows(3)))
    assert table.schema_store.ids() == [0, 1]
    assert sorted(read_arrow(table, version=2)["k"].to_pylist()) == [1, 3]

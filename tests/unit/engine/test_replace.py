"""Replacing a table: what happens to the new schema when the statement fails half-way."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import TableWriter
from paimon_spark.engine import insert
from paimon_spark.engine.insert import WritePlan, plan_write, write_arrow
from paimon_spark.engine.replace import finish_replacement
from paimon_spark.engine.select import read_arrow
from paimon_spark.errors import ConflictError
from paimon_spark.testing.tables import new_table


@pytest.fixture
def table() -> Table:
    table = new_table({"k": "INT"}, options={"bucket": "-1"})
    write_arrow(table, rows(1))
    return table


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int32())})


def replacement(table: Table, options: Mapping[str, str] | None = None) -> tuple[WritePlan, list[CommitMessage]]:
    """Return the plan of a REPLACE TABLE with one new row, and what its writer did."""
    schema = dataclasses.replace(table.schema, id=1, comment="new")
    plan = plan_write(table.with_schema(schema).with_options(options or {}), overwrite="static")
    with TableWriter(plan.table, plan.info) as writer:
        writer.write(rows(2))
        return plan, writer.finish()


def test_schema_and_rows_are_replaced_together(table: Table) -> None:
    finish_replacement(*replacement(table))
    assert read_arrow(table).to_pydict() == {"k": [2]}
    assert table.snapshots.get(2).schema_id == table.schema_store.ids()[-1] == 1


def test_the_schema_of_a_committed_replacement_stays_whatever_fails_afterwards(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise ValueError("no compaction today")

    monkeypatch.setattr(insert, "plan_compaction", fails)
    assert finish_replacement(*replacement(table)).compaction is None
    assert table.schema_store.ids() == [0, 1]
    assert read_arrow(table, version=2).to_pydict() == {"k": [2]}


def test_a_failed_replacement_takes_its_schema_back_unless_a_snapshot_names_it(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, messages = replacement(table)
    monkeypatch.setattr(insert.FileStoreCommit, "overwrite", lambda *_, **__: lost())
    with pytest.raises(ConflictError):
        finish_replacement(plan, messages)
    assert table.schema_store.ids() == [0]

    def others_write(*_: Any, **__: Any) -> None:
        write_arrow(table, rows(3))
        lost()

    monkeypatch.setattr(insert.FileStoreCommit, "overwrite", others_write)
    with pytest.raises(ConflictError):
        finish_replacement(plan, [])
    assert sorted(read_arrow(table, version=2)["k"].to_pylist()) == [1, 3]


def lost() -> None:
    raise ConflictError("another commit was faster")

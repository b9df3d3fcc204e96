"""Reads over two branches: scan.fallback-branch and scan.primary-branch."""

from __future__ import annotations

import pyarrow as pa
import pytest

from paimon_spark.core.metadata.branches import on_branch
from paimon_spark.core.table import Table
from paimon_spark.engine.fallback import plan_reads, read_plans, total_rows
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.refs.branches import execute_create_branch, plan_create_branch
from paimon_spark.errors import NotFoundError, OptionError, UsageError
from paimon_spark.spec.column_changes import AddColumn
from paimon_spark.spec.evolution import apply_changes
from paimon_spark.spec.types import parse_atomic
from paimon_spark.sqlparse.where import parse_filter
from paimon_spark.testing.tables import new_table

FALLBACK = {"scan.fallback-branch": "b"}
PRIMARY = {"scan.primary-branch": "b"}


def put(table: Table, *rows: tuple[int, str]) -> None:
    ks, ps = zip(*rows, strict=True)
    write_arrow(table, pa.table({"k": pa.array(ks, pa.int32()), "p": pa.array(ps, pa.string())}))


def read(table: Table, condition: str | None = None, limit: int | None = None) -> list[tuple[int, str]]:
    predicate = None if condition is None else parse_filter(condition, table.schema)
    plans = plan_reads(table, predicate=predicate, limit=limit)
    rows = pa.Table.from_batches(read_plans(plans, limit), schema=plans[0].schema).to_pylist()
    return sorted((r["k"], r["p"]) for r in rows)


@pytest.fixture
def table() -> Table:
    """Return a table with the partition x in both branches, y in main and z in the branch `b`."""
    table = new_table({"k": "INT", "p": "STRING"}, partition=["p"])
    execute_create_branch(table, plan_create_branch(table, "b"))
    put(table, (1, "x"), (2, "y"))
    put(on_branch(table, "b"), (10, "x"), (30, "z"))
    return table


def test_a_partition_is_read_from_the_preferred_branch(table: Table) -> None:
    assert read(table) == [(1, "x"), (2, "y")]
    assert read(table.with_options(FALLBACK)) == [(1, "x"), (2, "y"), (30, "z")]
    assert read(table.with_options(PRIMARY)) == [(2, "y"), (10, "x"), (30, "z")]
    assert read(on_branch(table, "b").with_options({"scan.fallback-branch": "main"})) == [
        (2, "y"),
        (10, "x"),
        (30, "z"),
    ]


def test_a_filter_over_rows_does_not_change_the_choice(table: Table) -> None:
    assert read(table.with_options(FALLBACK), "k >= 10") == [(30, "z")]
    assert read(table.with_options(PRIMARY), "k < 10") == [(2, "y")]
    assert read(table.with_options(FALLBACK), "p = 'x'") == [(1, "x")]
    assert read(table.with_options(FALLBACK), "p = 'z'") == [(30, "z")]


@pytest.mark.parametrize("options", [FALLBACK, PRIMARY])
@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_a_limit_gives_as_many_rows_as_there_are(table: Table, options: dict[str, str], limit: int) -> None:
    assert len(read(table.with_options(options), limit=limit)) == min(limit, 3)


def test_row_counts_are_those_of_the_partitions_read(table: Table) -> None:
    assert total_rows(plan_reads(table.with_options(FALLBACK), columns=())) == 3
    assert total_rows(plan_reads(table.with_options(PRIMARY), columns=())) == 3


def test_an_empty_branch_reads_all_of_the_other(table: Table) -> None:
    execute_create_branch(table, plan_create_branch(table, "e"))
    empty = on_branch(table, "e")
    assert read(empty.with_options(FALLBACK)) == [(10, "x"), (30, "z")]
    assert read(table.with_options({"scan.fallback-branch": "e"})) == [(1, "x"), (2, "y")]
    assert read(table.with_options({"scan.primary-branch": "e"})) == [(1, "x"), (2, "y")]


def test_time_travel_reads_the_other_branch_at_that_time() -> None:
    table = new_table({"k": "INT", "p": "STRING"}, partition=["p"])
    execute_create_branch(table, plan_create_branch(table, "b"))
    put(table, (1, "x"))
    first = table.snapshots.get(1)
    branch = on_branch(table, "b")
    put(branch, (30, "z"))
    later = branch.snapshots.get(1)
    assert later.time_millis >= first.time_millis
    put(table, (2, "y"))
    both = table.with_options(FALLBACK)
    early = both.with_options({"scan.snapshot-id": "1"})
    expected = [(1, "x")] if later.time_millis > first.time_millis else [(1, "x"), (30, "z")]
    assert read(early) == expected
    assert read(both.with_options({"scan.snapshot-id": "2"})) == [(1, "x"), (2, "y"), (30, "z")]


def test_branches_that_cannot_be_read_together(table: Table) -> None:
    with pytest.raises(NotFoundError, match="nosuch"):
        read(table.with_options({"scan.fallback-branch": "nosuch"}))
    with pytest.raises(OptionError, match="exclude"):
        read(table.with_options(FALLBACK | PRIMARY))
    branch = on_branch(table, "b")
    branch.schema_store.try_create(
        apply_changes(branch.schema, [AddColumn(("c",), parse_atomic("INT"))], 0, has_snapshots=True)
    )
    with pytest.raises(UsageError, match="columns differ"):
        read(table.with_options(FALLBACK))


def test_a_branch_with_a_primary_key_completes_an_append_table() -> None:
    table = new_table({"k": "INT", "p": "STRING"}, partition=["p"])
    execute_create_branch(table, plan_create_branch(table, "b"))
    keyed = new_table(
        {"k": "INT", "p": "STRING"},
        partition=["p"],
        primary_key=["k", "p"],
        options={"bucket": "1"},
        file_io=table.file_io,
        path=table.path + "-keyed",
    )
    table.file_io.write(on_branch(table, "b").paths.schema(0), keyed.schema.to_json().encode())
    branch = on_branch(table, "b")
    put(table, (1, "x"), (1, "x"))
    put(branch, (30, "z"))
    put(branch, (30, "z"), (10, "x"))
    assert read(table.with_options(FALLBACK)) == [(1, "x"), (1, "x"), (30, "z")]
    assert read(table.with_options(PRIMARY)) == [(10, "x"), (30, "z")]


@pytest.mark.parametrize("options", [FALLBACK, PRIMARY])
def test_a_partition_with_only_postponed_rows_is_present(options: dict[str, str]) -> None:
    postponed = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}
    table = new_table({"k": "INT", "p": "STRING"}, primary_key=["k", "p"], partition=["p"], options=postponed)
    execute_create_branch(table, plan_create_branch(table, "b"))
    put(table, (1, "x"))
    put(on_branch(table, "b"), (10, "x"), (30, "z"))
    merging = table.with_options({**options, "postpone.merge-on-read": "true"})
    assert read(merging) == [(1 if options is FALLBACK else 10, "x"), (30, "z")]
    assert read(table.with_options(options)) == []

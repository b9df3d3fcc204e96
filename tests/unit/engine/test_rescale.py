"""Rescaling without Spark: what is rewritten, what is kept, and what conflicts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.core.scan.scan import scan
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.redistribution.rescale import execute_rescale, plan_rescale
from paimon_spark.errors import ArgumentError, ConflictError
from paimon_spark.spec.predicate import Comparison
from paimon_spark.testing.tables import new_table
from tests.small_tables import option_keys, sorted_rows


def bucketed(buckets: int = 2, **options: str) -> Table:
    return new_table(
        {"k": "INT", "v": "INT", "p": "STRING"},
        primary_key=["p", "k"],
        partition=["p"],
        options={"bucket": str(buckets)} | option_keys(options),
    )


def write(table: Table, p: str, keys: range, v: int = 0, **how: Any) -> None:
    n = len(keys)
    columns = {"k": pa.array(keys, pa.int32()), "v": pa.array([v] * n, pa.int32()), "p": [p] * n}
    write_arrow(table, pa.table(columns), **how)


def counts(table: Table) -> dict[str, tuple[int, int]]:
    """Return the number of buckets of each partition, as its files say and as they are."""
    found = scan(table, table.snapshots.latest()).entries
    partitions = {e.partition for e in found}
    return {
        table.partition_text(p): (
            max(e.total_buckets for e in found if e.partition == p),
            len({e.bucket for e in found if e.partition == p}),
        )
        for p in partitions
    }


def test_only_partitions_with_other_buckets_are_rewritten() -> None:
    table = bucketed()
    write(table, "a", range(100))
    write(table, "a", range(50), v=1)
    write(table, "b", range(100))
    before = sorted_rows(table)
    done = execute_rescale(plan_rescale(table, 5, Comparison("=", "p", "a")), None)
    assert counts(table) == {"p=a": (5, 5), "p=b": (2, 2)}
    assert sorted_rows(table) == before
    assert (done.total.rows_in, done.total.rows_out) == (150, 100)
    assert {e.file.level for e in scan(table, table.snapshots.latest()).entries if e.total_buckets == 5} == {5}
    plan = plan_rescale(table, 5)
    assert {table.partition_text(e.partition) for e in plan.entries} == {"p=b"}
    assert plan_rescale(table, None).buckets == 2


def test_rows_that_only_compactions_show_are_kept() -> None:
    table = bucketed(1, merge_engine="first-row", write_only="true")
    write(table, "a", range(10))
    assert sorted_rows(table) == []
    execute_rescale(plan_rescale(table, 3), None)
    assert [r[0] for r in sorted_rows(table)] == list(range(10))


def test_rows_added_meanwhile_conflict() -> None:
    table = bucketed(1)
    write(table, "a", range(10))
    write(table, "b", range(10))
    late = plan_rescale(table, 2, Comparison("=", "p", "a"))
    write(table, "b", range(5), v=1)
    execute_rescale(late, None)
    late = plan_rescale(table, 3, Comparison("=", "p", "b"))
    write(table, "b", range(20, 21))
    before, files = sorted_rows(table), len(list(table.file_io.list_recursive(table.path)))
    with pytest.raises(ConflictError, match="which this commit rewrites as a whole"):
        execute_rescale(late, None)
    assert sorted_rows(table) == before
    assert len(list(table.file_io.list_recursive(table.path))) == files


def test_a_number_of_buckets_must_be_positive() -> None:
    table = bucketed()
    write(table, "a", range(3))
    with pytest.raises(ArgumentError, match="bucket_num is 0"):
        plan_rescale(table, 0)

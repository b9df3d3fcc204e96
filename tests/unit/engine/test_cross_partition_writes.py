"""Cross-partition upserts in this process: a key that moves to another partition leaves its old one."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import ArgumentError, UnsupportedError
from paimon_spark.spec.kinds import RowKind
from paimon_spark.spec.predicate import Comparison
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.tables import new_table
from tests import small_tables
from tests.small_tables import crossing, sorted_rows


def put(table: Table, rows: list[tuple[Any, ...]], kind: RowKind | None = None, **how: Any) -> None:
    columns = [pa.array([r[i] for r in rows], t) for i, t in enumerate((pa.int64(), pa.int32(), pa.string()))]
    batch = pa.table(columns, names=["k", "v", "p"])
    if kind is not None:
        batch = batch.append_column(ROW_KIND, pa.array([int(kind)] * len(rows), pa.int8()))
    write_arrow(table, batch, **how)


def test_a_key_moves_with_its_last_row() -> None:
    table = crossing()
    put(table, [(1, 10, "a"), (2, 20, "a"), (1, 11, "b")])
    assert sorted_rows(table) == [(1, 11, "b"), (2, 20, "a")]
    put(table, [(2, 21, "c"), (1, 12, "b")])
    assert sorted_rows(table) == [(1, 12, "b"), (2, 21, "c")]
    put(table, [(2, None, "c")], RowKind.DELETE)
    assert sorted_rows(table) == [(1, 12, "b")]
    assert violations(table) == []


def test_other_engines_keep_the_partition() -> None:
    first, partial = crossing("first-row"), crossing("partial-update")
    for table in (first, partial):
        put(table, [(1, 10, "a"), (2, None, "a")])
        put(table, [(1, 11, "b"), (2, 21, "b")])
        execute_compaction(plan_compaction(table, strategy=Strategy.FULL), LocalRunner())
    assert sorted_rows(first) == [(1, 10, "a"), (2, None, "a")]
    assert sorted_rows(partial) == [(1, 11, "a"), (2, 21, "a")]


def test_overwrites_know_no_keys() -> None:
    table = crossing()
    put(table, [(1, 10, "a"), (2, 20, "b")])
    put(table, [(2, 21, "a")], overwrite="static")
    assert sorted_rows(table) == [(2, 21, "a")]
    with pytest.raises(UnsupportedError, match="single partitions"):
        put(table, [(2, 22, "a")], overwrite="dynamic")
    with pytest.raises(UnsupportedError, match="single partitions"):
        put(table, [(2, 22, "a")], overwrite="static", static_partitions=Comparison("=", "p", "a"))


def test_rows_that_do_not_fit_are_refused() -> None:
    table = crossing()
    with pytest.raises(ArgumentError, match="'k'"):
        put(table, [(None, 10, "a")])
    with pytest.raises(ArgumentError, match="'k'"):
        put(table, [(2**40, 10, "a")])
    assert table.snapshots.latest() is None


@pytest.mark.parametrize("seed", range(4))
def test_random_writes(seed: int) -> None:
    rng, model = Random(seed), dict[int, tuple[int, str]]()
    table = crossing(dynamic_bucket__target_row_num="3", write_only=rng.choice(["true", "false"]))
    for _ in range(8):
        rows = [(rng.randrange(12), rng.randrange(100), rng.choice("abc")) for _ in range(rng.randrange(1, 9))]
        if rng.random() < 0.2 and model:
            gone = rng.sample(sorted(model), 1)
            put(table, [(k, *model.pop(k)) for k in gone], RowKind.DELETE)
            continue
        put(table, rows)
        model |= {k: (v, p) for k, v, p in rows}
        assert sorted_rows(table) == sorted((k, v, p) for k, (v, p) in model.items())
        assert violations(table) == []


def test_zeros_of_both_signs_are_two_keys() -> None:
    table = new_table({"k": "DOUBLE", "v": "INT", "p": "STRING"}, primary_key=["k"], partition=["p"])
    small_tables.put(table, (0.0, 1, "a"), (-0.0, 2, "a"), (float("nan"), 3, "a"))
    small_tables.put(table, (0.0, 4, "b"), (-0.0, 5, "b"), (0.0, 6, "b"), (float("nan"), 7, "b"))
    assert sorted((str(k), v, p) for k, v, p in small_tables.rows(table)) == [
        ("-0.0", 5, "b"),
        ("0.0", 6, "b"),
        ("nan", 7, "b"),
    ]
    assert violations(table) == []

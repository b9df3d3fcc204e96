"""Sorting compaction as an operation: what is rewritten, what is left alone, and what happens beside other writers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.core.table import Table
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.redistribution.sort_compact import execute_sort, plan_sort, sort_actions
from paimon_spark.engine.select import plan_select
from paimon_spark.errors import ArgumentError, ConflictError, UnsupportedError
from paimon_spark.spec.clustering import Order
from paimon_spark.spec.predicate import Comparison
from paimon_spark.spec.types import ArrayType, AtomicType, MapType, TypeRoot, not_null
from paimon_spark.testing.tables import new_table, read_arrow
from tests.small_tables import option_keys
from tests.unit.engine.local_sorter import LocalSorter


def table_of(**options: str) -> Table:
    columns = {"k": "INT", "v": "STRING", "p": "INT"}
    given = option_keys(options)
    table = new_table(columns, partition=["p"], options={"write-only": "true", **given})
    rng = np.random.default_rng(7)
    for _ in range(4):
        keys = rng.permutation(400)
        texts = pa.array([None if k % 5 == 0 else f"v{k}" for k in keys])
        write_arrow(table, pa.table({"k": pa.array(keys, pa.int32()), "v": texts, "p": pa.array(keys % 2, pa.int32())}))
    return table


def rows(table: Table) -> list[dict]:
    order = [("k", "ascending"), ("v", "ascending")]
    return read_arrow(table).sort_by(order).to_pylist()


def test_files_become_narrow_and_queries_skip_most_of_them() -> None:
    table = table_of().with_options({"sink.parallelism": "4"})
    before = rows(table)
    selective = Comparison("<", "k", 50)
    assert len(plan_select(table, predicate=selective).splits[0].files) > 1
    counts = plan_select(table, predicate=selective).counts
    assert counts.files == counts.files_seen
    plan = plan_sort(table, Order.ORDER, ["k"], None)
    assert next((a.action, a.reason) for a in sort_actions(plan)) == (
        "rewrite",
        "p=0: sorted by k (order) in 4 ranges",
    )
    done = execute_sort(plan, LocalSorter())
    assert (done.snapshot_before, done.snapshot_after) == (4, 5)
    snapshot = table.snapshots.get(5)
    assert (str(snapshot.commit_kind), snapshot.total_record_count) == ("OVERWRITE", 1600)
    assert (done.total.files_in, done.total.files_out, done.total.rows_in, done.total.rows_out) == (8, 8, 1600, 1600)
    counts = plan_select(table, predicate=selective).counts
    assert (counts.files, counts.files_seen) == (2, 8)
    assert rows(table) == before
    assert read_arrow(table, version=4).num_rows == 1600


def test_only_the_partitions_that_were_asked_for() -> None:
    table = table_of()
    kept = {f.file_name for s in plan_select(table, predicate=Comparison("=", "p", 1)).splits for f in s.files}
    execute_sort(plan_sort(table, Order.ORDER, ["k"], Comparison("=", "p", 0)), LocalSorter())
    after = {f.file_name for s in plan_select(table).splits for f in s.files}
    assert kept < after
    assert len(after) == len(kept) + 1
    none = plan_sort(table, Order.ORDER, ["k"], Comparison("=", "p", 7))
    assert execute_sort(none, LocalSorter()).snapshot_ids == ()
    assert execute_sort(plan_sort(new_table({"k": "INT"}), Order.ORDER, ["k"], None), LocalSorter()).groups == ()


def test_rows_that_come_meanwhile_stay() -> None:
    table = table_of()
    before = rows(table)
    more = pa.table({"k": pa.array([1000], pa.int32()), "v": ["late"], "p": pa.array([0], pa.int32())})
    execute_sort(plan_sort(table, Order.ORDER, ["k"], None), LocalSorter(lambda: write_arrow(table, more)))
    assert rows(table) == [*before, {"k": 1000, "v": "late", "p": 0}]


def test_files_replaced_meanwhile_are_a_clean_conflict() -> None:
    table = table_of()
    more = pa.table({"k": pa.array([1], pa.int32()), "v": ["only"], "p": pa.array([0], pa.int32())})
    plan = plan_sort(table, Order.ORDER, ["k"], None)
    with pytest.raises(ConflictError):
        execute_sort(plan, LocalSorter(lambda: write_arrow(table, more, overwrite="static")))
    assert rows(table) == [{"k": 1, "v": "only", "p": 0}]
    live = {f.file_name for v in (1, 2, 3, 4, 5) for s in plan_select(table, version=v).splits for f in s.files}
    stored = {s.path.rpartition("/")[2] for s in table.file_io.list_recursive(table.path) if "/bucket-" in s.path}
    assert {name for name in stored if name.startswith("data-")} == live


def test_tables_columns_and_options_that_do_not_work() -> None:
    with pytest.raises(UnsupportedError, match="has a primary key"):
        plan_sort(new_table({"k": "INT"}, primary_key=["k"]), Order.ORDER, ["k"], None)
    fixed = new_table({"k": "INT"}, options={"bucket": "2", "bucket-key": "k"})
    with pytest.raises(UnsupportedError, match="has 2 buckets"):
        plan_sort(fixed, Order.ZORDER, ["k"], None)
    plain = new_table({"a": "INT", "m": "INT"})
    whole = AtomicType(TypeRoot.INT)
    types = (ArrayType(whole), MapType(not_null(whole), whole))
    fields = tuple(replace(f, type=t) for f, t in zip(plain.schema.fields, types, strict=True))
    nested = plain.with_schema(replace(plain.schema, fields=fields))
    plan_sort(nested, Order.ORDER, ["a"], None)
    for order, column in ((Order.ZORDER, "a"), (Order.HILBERT, "a"), (Order.ORDER, "m")):
        with pytest.raises(UnsupportedError, match=f"'{column}' has a type"):
            plan_sort(nested, order, [column], None)
    with pytest.raises(ArgumentError, match="is 5, which is too small"):
        plan_sort(table_of(sort_compaction__local_sample__magnification="5"), Order.ORDER, ["k"], None)


def test_there_are_as_many_ranges_as_full_files() -> None:
    assert plan_sort(table_of(), Order.ORDER, ["k"], None).ranges == 2
    small = table_of(target_file_size="1 kb")
    size = sum(s.size for s in plan_select(small).splits)
    assert plan_sort(small, Order.ORDER, ["k"], None).ranges >= size // 1024


@pytest.mark.parametrize("root", [TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ])
def test_timestamps_that_would_lose_digits_are_refused(root: TypeRoot) -> None:
    for digits in (6, 7, 9):
        table = new_table({"k": "INT", "t": "INT"})
        long = AtomicType(root, precision=digits)
        for t in (long, ArrayType(long)):
            fields = (table.schema.fields[0], replace(table.schema.fields[1], type=t))
            stamped = table.with_schema(replace(table.schema, fields=fields))
            if digits == 6:
                plan_sort(stamped, Order.ORDER, ["k"], None)
            else:
                with pytest.raises(UnsupportedError, match="column 't' has timestamps of more than 6 digits"):
                    plan_sort(stamped, Order.ORDER, ["k"], None)

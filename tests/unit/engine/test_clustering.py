"""Clustered append tables: which files a compaction sorts, into which level, and what it leaves alone."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.core.columns import FILE_PATH, ROW_INDEX, ROW_KIND, VECTOR
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.scan.splits import plan_splits
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.compaction.compact_explain import compaction_actions
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.redistribution.cluster import cluster_sorting
from paimon_spark.engine.row_level import change_arrow
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import plan_select
from paimon_spark.errors import ArgumentError, ConflictError, OptionError
from paimon_spark.spec.evolution import SetOption, apply_changes
from paimon_spark.spec.kinds import RowKind
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.predicate import Comparison
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.tables import new_table, read_arrow
from tests.small_tables import at_next_schema, option_keys
from tests.unit.engine.local_sorter import LocalSorter

BUCKETS = {"bucket": "2", "bucket_key": "k", "bucket_append_ordered": "false"}


def clustered(columns: str = "k", **options: str) -> Table:
    given = {"clustering.incremental": "true", "clustering.columns": columns, **option_keys(options)}
    return new_table({"k": "INT", "v": "STRING", "p": "INT"}, partition=["p"], options=given)


def put(table: Table, *, seed: int, rows: int = 200, p: int = 0) -> None:
    keys = np.random.default_rng(seed).integers(0, 1000, rows)
    values = pa.array([None if k % 7 == 0 else f"v{k}" for k in keys.tolist()])
    put_in = pa.array([p] * rows, pa.int32())
    write_arrow(table, pa.table({"k": pa.array(keys, pa.int32()), "v": values, "p": put_in}))


def files(table: Table) -> list[DataFileMeta]:
    return [e.file for e in scan(table, table.snapshots.latest()).entries]


def levels(table: Table) -> list[int]:
    return sorted(f.level for f in files(table))


def rows(table: Table) -> list[dict]:
    return read_arrow(table).sort_by([(c, "ascending") for c in ("p", "k", "v")]).to_pylist()


def keys_by_file(table: Table) -> list[list[int]]:
    return [
        pa.Table.from_batches(read_split(table, replace(s, files=(f,), vectors=()))).column("k").to_pylist()
        for s in plan_select(table).splits
        for f in s.files
    ]


def cluster(table: Table, strategy: Strategy | None = None) -> tuple[int, ...]:
    return execute_compaction(plan_compaction(table, strategy=strategy), LocalRunner()).snapshot_ids


def test_small_files_become_one_sorted_run() -> None:
    """EX-U4."""
    table = clustered()
    for seed in range(6):
        put(table, seed=seed)
    assert (levels(table), table.snapshots.latest_id()) == ([0] * 6, 6)  # a write never compacts
    before = rows(table)
    reasons = {a.reason for a in compaction_actions(plan_compaction(table))}
    assert reasons == {"p=0, bucket 0: 6 files are sorted by k (order) into level 5 (size-amplification)"}
    assert cluster(table) == (7,)
    snapshot = table.snapshots.get(7)
    assert (str(snapshot.commit_kind), snapshot.total_record_count, levels(table)) == ("COMPACT", 1200, [5])
    assert rows(table) == before
    (keys,) = keys_by_file(table)
    assert keys == sorted(keys)
    put(table, seed=7, rows=3)
    assert cluster(table) == ()
    assert levels(table) == [0, 5]
    assert cluster(table, Strategy.FULL) == (9,)
    assert (levels(table), len(rows(table))) == ([5], 1203)
    assert cluster(table, Strategy.FULL) == ()
    assert violations(table) == []


def test_later_files_are_clustered_below_the_large_run() -> None:
    table = clustered(num_sorted_run__compaction_trigger="2", num_levels="6")
    put(table, seed=1, rows=5000)
    put(table, seed=2, rows=5000)
    cluster(table)
    assert levels(table) == [5]
    put(table, seed=3, rows=10)
    put(table, seed=4, rows=10)
    cluster(table)
    assert levels(table) == [4, 5]
    assert all(keys == sorted(keys) for keys in keys_by_file(table))


CHANGED = [
    ({}, ("clustering.columns", "v")),
    ({"columns": "v,k", "clustering__strategy": "zorder"}, ("clustering.strategy", "order")),
]


@pytest.mark.parametrize(("before", "after"), CHANGED, ids=["columns", "strategy"])
def test_a_full_run_is_sorted_again_in_another_order_only(before: dict[str, str], after: tuple[str, str]) -> None:
    table = clustered(**before)
    for seed in range(2):
        put(table, seed=seed)
    assert len(cluster(table, Strategy.FULL)) == 1
    changed = apply_changes(table.schema, [SetOption(*after)], 0, has_snapshots=True)
    table.schema_store.try_create(changed)
    table = Table.of(table.identifier, table.path, changed, table.file_io)
    assert cluster(table) == ()
    (task,) = plan_compaction(table, strategy=Strategy.FULL).tasks
    assert (task.reason, task.output_level) == ("other order", 5)
    assert len(cluster(table, Strategy.FULL)) == 1
    assert [f.schema_id for f in files(table)] == [1]
    values = read_arrow(table).column("v").to_pylist()
    assert values == sorted(values, key=lambda v: (v is not None, v or ""))
    assert cluster(table, Strategy.FULL) == ()


@pytest.mark.parametrize("mode", ["global-sort", "local-sort"])
def test_deleted_rows_are_dropped(mode: str) -> None:
    table = clustered(deletion_vectors__enabled="true", target_file_size="2 kb", clustering__incremental__mode=mode)
    for seed in range(6):
        put(table, seed=seed, rows=300)
    delete(table, lambda k: k < 100)
    expected = rows(table)
    assert all(r["k"] >= 100 for r in expected)
    plan = plan_compaction(table)
    assert (len(plan.tasks) > 1) == (mode == "local-sort")
    execute_compaction(plan, LocalRunner())
    assert (set(levels(table)), rows(table)) == ({5}, expected)
    assert all(keys == sorted(keys) for keys in keys_by_file(table))
    assert not any(s.vectors for s in plan_select(table).splits)
    delete(table, lambda k: k > 300)
    expected, few = rows(table), len(files(table))
    plan = plan_compaction(table)
    assert {(t.reason, t.output_level, len(t.files)) for t in plan.tasks} == {("deleted rows", 5, 1)}
    execute_compaction(plan, LocalRunner())
    assert (set(levels(table)), rows(table)) == ({5}, expected)
    assert len(files(table)) <= few
    assert plan_compaction(table).is_empty
    assert violations(table) == []


def placed(table: Table, *places: str) -> pa.Table:
    """Every row with its place."""
    splits = plan_splits(table, scan(table, table.snapshots.latest()))
    return pa.Table.from_batches(b for s in splits for b in read_split(table, s, metadata_columns=places))


def delete(table: Table, condition: Callable[[int], bool]) -> None:
    found = placed(table, FILE_PATH, ROW_INDEX, VECTOR)
    gone = found.filter(pa.array([condition(k) for k in found.column("k").to_pylist()]))
    kinds = pa.array([RowKind.DELETE] * gone.num_rows, pa.int8())
    change_arrow(table, gone.append_column(ROW_KIND, kinds), "DELETE")


def test_buckets_are_clustered_by_writes() -> None:
    table = clustered(**BUCKETS)
    for seed in range(7):
        put(table, seed=seed)
    kinds = [str(table.snapshots.get(i).commit_kind) for i in range(1, 9)]
    assert kinds == [*["APPEND"] * 5, "COMPACT", "APPEND", "APPEND"]
    assert levels(table) == [0, 0, 0, 0, 5, 5]
    by_level = sorted(keys_by_file(table), key=len)[-2:]
    assert all(keys == sorted(keys) for keys in by_level)
    assert len(rows(table)) == 1400
    assert len(cluster(table, Strategy.FULL)) == 1
    assert levels(table) == [5, 5]


def test_row_ids_stay_with_their_rows() -> None:
    table = clustered("k,v", row_tracking__enabled="true")
    for seed in range(5):
        put(table, seed=seed)
    ids = ("_ROW_ID", "_SEQUENCE_NUMBER")
    before = placed(table, *ids).to_pylist()
    cluster(table)
    assert levels(table) == [5]
    after = placed(table, *ids).to_pylist()
    assert after != before
    assert sorted(after, key=lambda r: r["_ROW_ID"]) == sorted(before, key=lambda r: r["_ROW_ID"])


def test_large_partitions_are_sorted_by_one_job() -> None:
    table = clustered(target_file_size="4 kb", deletion_vectors__enabled="true")
    for p, seed in itertools.product((0, 1), range(6)):
        put(table, seed=seed, rows=2000, p=p)
    for seed in range(6):
        put(table, seed=seed, rows=5, p=2)
    delete(table, lambda k: k == 500)
    before, sorter = rows(table), LocalSorter(first=("p",))
    done = execute_compaction(plan_compaction(table), LocalRunner(), sorting=cluster_sorting(sorter))
    (plan,) = sorter.plans
    assert {table.partition_values(s.partition) for s in plan.splits} == {(0,), (1,)}  # the third is small
    assert len(done.snapshot_ids) == 1
    assert (rows(table), set(levels(table))) == (before, {5})
    assert not any(s.vectors for s in plan_select(table).splits)
    assert violations(table) == []


def test_a_partition_replaced_meanwhile_is_clustered_again() -> None:
    table = clustered(target_file_size="2 kb")
    for seed in range(6):
        put(table, seed=seed, rows=500)
    one = pa.table({"k": pa.array([1], pa.int32()), "v": ["only"], "p": pa.array([0], pa.int32())})
    race = [lambda: write_arrow(table, one, overwrite="static")]
    sorter = LocalSorter(lambda: race.pop()() if race else None, first=("p",))
    plan = plan_compaction(table)
    with pytest.raises(ConflictError):
        execute_compaction(plan, LocalRunner(), sorting=cluster_sorting(sorter))
    assert rows(table) == [{"k": 1, "v": "only", "p": 0}]
    live = {f.file_name for i in range(1, 8) for f in (e.file for e in scan(table, table.snapshots.get(i)).entries)}
    stored = {s.path.rpartition("/")[2] for s in table.file_io.list_recursive(table.path) if "/bucket-" in s.path}
    assert {name for name in stored if name.startswith("data-")} == live
    done = execute_compaction(plan, LocalRunner(), attempts=2)
    assert done.snapshot_ids == ()


def test_idle_partitions_are_clustered_too() -> None:
    table = clustered(num_sorted_run__compaction_trigger="3")
    for p in range(4):
        for seed in range(2 if p else 3):
            put(table, seed=seed, p=p)
    time.sleep(0.01)
    idle = {"clustering.history-partition.idle-to-full-sort": "1 ms", "clustering.history-partition.limit": "2"}
    asked = Comparison("=", "p", 0)
    assert {t.reason for t in plan_compaction(table, partitions=asked).tasks} == {"size-ratio"}
    table = table.with_options(idle)
    assert len(plan_compaction(table).tasks) == 1
    plan = plan_compaction(table, partitions=asked)
    found = [(table.partition_values(t.partition), t.reason, len(t.files)) for t in plan.tasks]
    assert found == [((0,), "size-ratio", 3), ((1,), "idle partition", 2), ((2,), "idle partition", 2)]
    one = pa.table({"k": pa.array([1], pa.int32()), "v": ["new"], "p": pa.array([1], pa.int32())})
    write_arrow(table, one, overwrite="dynamic")
    execute_compaction(plan, LocalRunner(), attempts=2)  # the group of the idle partitions has lost a race
    assert levels(table) == [0, 0, 3, 3, 3]
    execute_compaction(plan_compaction(table, partitions=asked), LocalRunner())
    assert levels(table) == [3, 3, 3, 3]
    assert plan_compaction(table, partitions=asked).is_empty


def test_writes_are_sorted_on_request() -> None:
    table = clustered("k,v", clustering__incremental__optimize_write="true", clustering__strategy="order")
    put(table, seed=1)
    put(table, seed=2, p=1)
    assert levels(table) == [0, 0]
    assert all(keys == sorted(keys) for keys in keys_by_file(table))
    assert len(rows(table)) == 400
    without = table.with_options({"clustering.incremental.optimize-write": "false"})
    put(without, seed=3)
    assert any(keys != sorted(keys) for keys in keys_by_file(table))
    lacking = pa.table({"k": pa.array([1], pa.int32()), "p": pa.array([1], pa.int32())})
    with pytest.raises(ArgumentError, match="lack the column 'v'"):
        write_arrow(table, lacking)


def test_writes_are_sorted_without_clustering_by_compaction() -> None:
    table = clustered("v", clustering__incremental="false")
    put(table, seed=1)
    put(table, seed=2, rows=50)
    assert levels(table) == [0, 0]
    assert sorted(map(len, keys_by_file(table))) == [50, 200]
    for keys in keys_by_file(table):
        texts = ["" if k % 7 == 0 else f"v{k}" for k in keys]
        assert texts == sorted(texts)
    assert plan_compaction(table).is_empty


def test_tables_of_others_without_columns() -> None:
    table = clustered()
    bare = {k: v for k, v in table.schema.options.items() if k != "clustering.columns"}
    bad = at_next_schema(table, options=bare)
    put(bad, seed=1)
    with pytest.raises(OptionError, match=r"needs 'clustering\.columns'"):
        plan_compaction(bad)

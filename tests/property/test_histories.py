"""Random histories of writes and compactions against a dict, for every kind of bucket."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.levels import sections
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import plan_select
from paimon_spark.spec.kinds import RowKind
from paimon_spark.testing.model import TableModel
from paimon_spark.testing.tables import new_table, read_arrow

SLOW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
KEYS = st.integers(0, 12)
TEXTS = st.sampled_from(["", "a", "b" * 9, "é"])
PARTS = st.sampled_from([1, 2, None])
KINDS = st.sampled_from([RowKind.INSERT, RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE])
VERSIONS = st.one_of(st.none(), st.integers(0, 3))
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("write"), st.lists(st.tuples(KEYS, TEXTS, st.sampled_from([1, 2]), VERSIONS, KINDS), max_size=12)
        ),
        st.tuples(st.sampled_from(["full", "minor"]), st.just([])),
        st.tuples(
            st.just("replace"),
            st.lists(st.tuples(KEYS, TEXTS, st.sampled_from([1, 2]), VERSIONS, st.just(RowKind.INSERT)), max_size=4),
        ),
    ),
    max_size=14,
)
SCHEMA = pa.schema(
    [("k", pa.int32()), ("s", pa.string()), ("p", pa.int32()), ("ts", pa.int32()), (ROW_KIND, pa.int8())]
)
COLUMNS = {"k": "INT", "s": "STRING", "p": "INT", "ts": "INT"}


def run(table: Table, model: TableModel, steps: list[tuple[str, list[Any]]], *, partitioned: bool) -> None:
    for action, rows in steps:
        data = pa.table([pa.array(c, f.type) for c, f in zip(_columns(rows), SCHEMA, strict=True)], schema=SCHEMA)
        plain = [dict(zip(COLUMNS, r[:4], strict=True)) for r in rows]
        if action == "write":
            write_arrow(table, data)
            model.write(plain, [r[4] for r in rows])
        elif action == "replace":
            write_arrow(table, data, overwrite="dynamic" if partitioned else "static")
            model.replace(plain, ["p"] if partitioned else None)
        else:
            execute_compaction(plan_compaction(table, strategy=Strategy(action)), LocalRunner())
        got = read_arrow(table).to_pylist()
        assert model.differs(got) == ""
        count = plan_select(table).row_count
        assert count is None or count == len(got)
    check_levels(table)


def _columns(rows: list[Any]) -> list[list[Any]]:
    return [list(c) for c in zip(*rows, strict=True)] if rows else [[]] * len(SCHEMA)


def check_levels(table: Table) -> None:
    """Levels from 1 up hold files with disjoint keys, and every file has the row count of its record."""
    buckets: dict[tuple[bytes, int, int], list[Any]] = {}
    for e in scan(table, table.snapshots.latest()).entries:
        path = table.paths.data_file(e.partition, e.bucket, e.file)
        assert table.file_io.status(path).size == e.file.file_size
        if table.is_primary_key_table and e.file.level:
            buckets.setdefault((e.partition, e.bucket, e.file.level), []).append(e.file)
    for files in buckets.values():
        assert all(len(s) == 1 for s in sections(files, table.key_types))


@SLOW
@given(steps=STEPS, buckets=st.integers(1, 3), trigger=st.integers(1, 5), form=st.sampled_from(["parquet", "orc"]))
def test_fixed_buckets(steps: list[Any], buckets: int, trigger: int, form: str) -> None:
    options = {"bucket": str(buckets), "num-sorted-run.compaction-trigger": str(trigger), "file.format": form}
    table = new_table(COLUMNS, primary_key=["s", "k"], options=options)
    run(table, TableModel(["s", "k"]), steps, partitioned=False)


@SLOW
@given(steps=STEPS, target=st.integers(1, 4), cap=st.sampled_from(["-1", "2"]))
def test_dynamic_buckets_in_partitions(steps: list[Any], target: int, cap: str) -> None:
    options = {"dynamic-bucket.target-row-num": str(target), "dynamic-bucket.max-buckets": cap}
    table = new_table(COLUMNS, primary_key=["p", "k"], partition=["p"], options=options)
    run(table, TableModel(["p", "k"]), steps, partitioned=True)


@SLOW
@given(steps=STEPS)
def test_sequence_field(steps: list[Any]) -> None:
    options = {"bucket": "1", "sequence.field": "ts", "num-sorted-run.compaction-trigger": "3", "write-only": "true"}
    table = new_table(COLUMNS, primary_key=["k"], options=options)
    kept = [s for s in steps if s[0] not in ("full", "minor")]
    run(table, TableModel(["k"], "ts"), kept, partitioned=False)


@SLOW
@given(steps=STEPS, bucketed=st.booleans())
def test_append_tables(steps: list[Any], *, bucketed: bool) -> None:
    adds = [(a, [(*r[:4], RowKind.INSERT) for r in rows]) for a, rows in steps]
    options = {"bucket": "2", "bucket-key": "k"} if bucketed else {}
    table = new_table(COLUMNS, partition=["p"], options=options)
    run(table, TableModel(), adds, partitioned=True)

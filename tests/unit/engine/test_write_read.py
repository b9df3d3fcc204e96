"""Writes, reads and compactions end to end in one process: the worked examples of the semantics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.core.columns import ROW_KIND, SHUFFLE_HASH
from paimon_spark.core.commit.committer import Committed, EmptyCommit
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import TableWriter, WriterRestoreState
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.insert import WritePlan, complete_write, plan_write, write_arrow
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import ReadOptions, plan_select, read_batches
from paimon_spark.errors import (
    ArgumentError,
    ConflictError,
    CorruptTableError,
    ErrorKind,
    OptionError,
    PaimonError,
    UnsupportedError,
    UsageError,
)
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.spec.kinds import CommitKind, FileSource
from paimon_spark.spec.manifest import HASH_INDEX, ManifestEntry
from paimon_spark.spec.predicate import And, Comparison, InList, IsNull, Not, Or, Predicate, StartsWith
from paimon_spark.testing.tables import new_table, read_arrow
from tests.small_tables import option_keys

KINDS = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}
Row = tuple[Any, ...]


def batch(table: Table, *rows: Row) -> pa.Table:
    """Rows as tuples; a first value like '-D' is the kind."""
    kinds = [KINDS[r[0]] if isinstance(r[0], str) and r[0] in KINDS else None for r in rows]
    values = [r if k is None else r[1:] for r, k in zip(rows, kinds, strict=True)]
    fields = table.schema.fields
    arrays = {f.name: pa.array([v[i] for v in values], to_arrow_type(f.type)) for i, f in enumerate(fields)}
    if any(k is not None for k in kinds):
        arrays[ROW_KIND] = pa.array([k or 0 for k in kinds], pa.int8())
    return pa.table(arrays)


def put(table: Table, *rows: Row, **how: Any) -> Any:
    return write_arrow(table, batch(table, *rows), **how)


def rows_of(table: Table, **how: Any) -> list[Row]:
    return sorted((tuple(r.values()) for r in read_arrow(table, **how).to_pylist()), key=repr)


def live(table: Table) -> list[ManifestEntry]:
    return list(scan(table, table.snapshots.latest()).entries)


def compact(table: Table, strategy: Strategy = Strategy.FULL) -> Any:
    return execute_compaction(plan_compaction(table, strategy=strategy), LocalRunner())


def keyed(columns: Mapping[str, str] | None = None, *, key: Sequence[str] = ("k",), **options: str) -> Table:
    given = option_keys(options)
    return new_table(columns or {"k": "INT", "v": "STRING"}, primary_key=key, options={"bucket": "1"} | given)


def test_buffer_merge_and_kinds() -> None:
    table = keyed(write_only="true")
    put(table, (1, "a"), (1, "b"), ("-D", 2, "x"))
    (entry,) = live(table)
    file = entry.file
    assert (file.level, file.row_count, file.delete_row_count) == (0, 2, 1)
    assert (file.min_sequence_number, file.max_sequence_number, file.file_source) == (1, 2, FileSource.APPEND)
    assert rows_of(table) == [(1, "b")]
    plan = plan_select(table, how=ReadOptions(keep_kinds=True))
    kept = [tuple(r.values()) for b in read_batches(plan) for r in b.to_pylist()]
    assert kept == [(1, "b", 0), (2, "x", 3)]


def test_w5_sequence_numbers_continue() -> None:
    table = keyed(write_only="true")
    put(table, (1, "a"), (2, "b"))
    put(table, (1, "c"))
    assert sorted((e.file.min_sequence_number, e.file.max_sequence_number) for e in live(table)) == [(0, 1), (2, 2)]


@pytest.mark.parametrize("compacted", [False, True])
def test_sequence_field(*, compacted: bool) -> None:
    columns = {"k": "INT", "v": "STRING", "ts": "INT"}
    table = keyed(columns, sequence__field="ts", write_only="true")
    for row in [(1, "x", 10), (1, "y", 5), (1, "z", 10), (1, "w", None)]:
        put(table, row)
    down = keyed(columns, sequence__field="ts", sequence__field__sort_order="descending", write_only="true")
    put(down, (1, "x", 10))
    put(down, (1, "y", 5))
    put(down, (1, "w", None))
    if compacted:
        compact(table)
        compact(down)
    assert rows_of(table) == [(1, "z", 10)]
    assert rows_of(table, columns=["v"]) == [("z",)]
    assert rows_of(down) == [(1, "y", 5)]


def test_rolled_pieces_are_runs_of_their_own() -> None:
    table = keyed(target_file_row_num="10", write_only="true")
    put(table, *((k, "v") for k in range(25)))
    assert sorted(e.file.row_count for e in live(table)) == [5, 10, 10]
    assert {e.file.level for e in live(table)} == {0}
    assert len(rows_of(table)) == 25


def test_deduplicate() -> None:
    table = keyed(write_only="true")
    put(table, (1, "a"))
    put(table, ("+U", 1, "b"))
    assert len(live(table)) == 2
    assert rows_of(table) == [(1, "b")]
    compact(table)
    (entry,) = live(table)
    assert (entry.file.level, entry.file.file_source) == (5, FileSource.COMPACT)
    put(table, ("-D", 1, "b"))
    assert rows_of(table) == []
    assert len(live(table)) == 2
    compact(table)
    assert live(table) == []


def test_ignore_delete() -> None:
    table = keyed(ignore_delete="true")
    put(table, (1, "a"))
    assert isinstance(put(table, ("-D", 1, "a")).commit, EmptyCommit)
    assert rows_of(table) == [(1, "a")]
    assert table.snapshots.latest_id() == 1


REMOVED_BY_DELETES: list[dict[str, str]] = [
    {},
    {"sequence__field": "v"},
    {"changelog_producer": "lookup"},
    {"deletion_vectors__enabled": "true"},
    {"merge_engine": "partial-update", "partial_update__remove_record_on_delete": "true"},
    {"merge_engine": "aggregation", "aggregation__remove_record_on_delete": "true"},
]


@pytest.mark.parametrize("options", REMOVED_BY_DELETES)
def test_stored_deletes_outlast_a_statement_that_ignores_deletes(options: dict[str, str]) -> None:
    table = keyed(**options)
    ignoring = table.with_options({"ignore-delete": "true"})
    put(table, *((k, f"{k}") for k in range(2000)))
    put(table, ("-D", 1, "1"))
    kept = rows_of(table)
    assert len(kept) == 1999
    assert rows_of(ignoring) == kept
    assert isinstance(put(ignoring, ("-D", 2, "2")).commit, EmptyCommit)
    put(ignoring, ("-D", 2, "2"), (3, "3"))
    compact(ignoring)
    assert rows_of(table) == kept


def test_no_statement_writes_deletes_that_its_table_ignores() -> None:
    table = keyed(ignore_delete="true")
    with pytest.raises(OptionError, match=r"'ignore-delete'.*cannot be set for one statement"):
        table.with_options({"ignore-delete": "false"})
    assert table.with_options({"ignore-delete": "true"}).options.ignore_delete
    assert not keyed().with_options({"ignore-delete": "false"}).options.ignore_delete


def test_tombstones_stay_until_the_top() -> None:
    table = keyed(write_only="true")
    put(table, (1, "a"))
    compact(table)
    put(table, ("-D", 1, "a"))
    plan = plan_compaction(table)
    (task,) = plan.tasks
    assert (task.output_level, task.drop_deletes) == (5, True)
    execute_compaction(plan, LocalRunner())
    assert live(table) == []
    assert rows_of(table) == []


def test_upgrade_keeps_bytes() -> None:
    table = keyed(write_only="true")
    put(table, (1, "a"))
    (before,) = live(table)
    result = compact(table)
    (after,) = live(table)
    assert after.file == before.file.upgrade(5)
    assert result.total.files_upgraded == 1
    assert result.total.bytes_in == 0
    latest = table.snapshots.latest()
    assert latest is not None
    assert latest.commit_kind is CommitKind.COMPACT


def test_small_neighbours_are_rewritten_together() -> None:
    table = keyed(write_only="true")
    put(table, (1, "a"))
    put(table, (2, "b"))
    result = compact(table)
    (entry,) = live(table)
    assert (entry.file.row_count, entry.file.level) == (2, 5)
    assert (result.total.files_in, result.total.files_out, result.total.rows_in, result.total.rows_out) == (2, 1, 2, 2)


def test_writes_compact_by_themselves() -> None:
    table = keyed()
    kinds = []
    for i in range(5):
        result = put(table, (i, "v"), (i + 1, "w"))
        kinds.append(None if result.compacted is None else len(result.compacted.snapshot_ids))
    assert kinds == [None, None, None, None, 1]
    assert len(live(table)) == 1
    assert len(rows_of(table)) == 6
    assert plan_select(table).row_count == 6


def test_planning_changes_nothing_and_a_second_plan_is_empty() -> None:
    table = keyed(write_only="true")
    put(table, (1, "a"))
    put(table, (1, "b"))
    plan = plan_compaction(table)
    assert len(plan.tasks[0].files) == 2
    assert table.snapshots.latest_id() == 2
    compact(table)
    assert plan_compaction(table).is_empty
    assert compact(table).snapshot_after == 3


def test_dynamic_buckets() -> None:
    table = new_table({"k": "STRING", "v": "INT"}, primary_key=["k"], options={"dynamic-bucket.target-row-num": "2"})
    put(table, ("a", 1), ("b", 2))
    put(table, ("c", 3), ("d", 4), ("a", 5))
    put(table, ("a", 6))
    found = scan(table, table.snapshots.latest())
    assert {e.bucket for e in found.entries} == {0, 1}
    assert {e.total_buckets for e in found.entries} == {-1}
    hashes = [i for i in found.index_entries if i.file.index_type == HASH_INDEX]
    assert sorted((i.bucket, i.file.row_count, i.file.file_size) for i in hashes) == [(0, 2, 8), (1, 2, 8)]
    assert rows_of(table) == [("a", 6), ("b", 2), ("c", 3), ("d", 4)]


def test_b2_parallel_assigners_never_write_the_same_index_file() -> None:
    table = new_table({"k": "INT", "v": "INT"}, primary_key=["k"], options={"dynamic-bucket.target-row-num": "20"})
    put(table, *((k, 0) for k in range(30)))
    plan = plan_write(table, parallelism=3)
    assert plan.info.assigners == 3
    from paimon_spark.core.buckets.bucket_hash import hash_rows

    rows = batch(table, *((k, 1) for k in range(200)))
    hashes = hash_rows(rows, table.key_fields)
    messages = []
    for assigner in range(3):
        with TableWriter(
            Table.from_config(table.to_config()), WriterRestoreState.from_json(plan.info.to_json())
        ) as writer:
            mask = pa.array(hashes.astype("int64") % 3 == assigner)
            writer.write(rows.append_column(SHUFFLE_HASH, pa.array(hashes)).filter(mask))
            messages += writer.finish()
    owners = [m.bucket for m in messages if m.new_index_files]
    assert len(owners) == len(set(owners))
    complete_write(plan, messages, LocalRunner())
    assert rows_of(table) == sorted(((k, 1) for k in range(200)), key=repr)
    put(table, *((k, 2) for k in range(200)))
    assert rows_of(table) == sorted(((k, 2) for k in range(200)), key=repr)


def test_assigners_follow_size_and_options() -> None:
    table = new_table({"k": "INT"}, primary_key=["k"])
    assert plan_write(table, parallelism=8, size_hint=1000).info.assigners == 1
    assert plan_write(table, parallelism=8, size_hint=300 << 20).info.assigners == 3
    assert plan_write(table, parallelism=8).info.assigners == 8
    capped = new_table({"k": "INT"}, primary_key=["k"], options={"dynamic-bucket.max-buckets": "2"})
    assert plan_write(capped, parallelism=8).info.assigners == 2


def test_partitions_nulls_and_dates() -> None:
    table = new_table(
        {"d": "DATE", "p": "STRING", "k": "INT", "v": "INT"}, primary_key=["d", "p", "k"], partition=["d", "p"]
    )
    day = date(2024, 5, 14)
    put(table, (day, "x", 1, 1), (day, "y", 1, 2), (date(1969, 1, 1), "x", 1, 3), (day, "x", 2, 4))
    put(table, (day, "x", 1, 5))
    assert rows_of(table, predicate=And((Comparison("=", "d", 19857), Comparison("=", "p", "x")))) == [
        (day, "x", 1, 5), (day, "x", 2, 4)
    ]  # fmt: skip
    assert len({e.partition for e in live(table)}) == 3
    loose = new_table({"p": "STRING", "v": "INT"}, partition=["p"])
    put(loose, (None, 1), ("", 2), ("a/b", 3), (None, 4))
    assert rows_of(loose) == [("", 2), ("a/b", 3), (None, 1), (None, 4)]
    assert rows_of(loose, predicate=IsNull("p")) == [(None, 1), (None, 4)]


def test_a1_append_tables() -> None:
    table = new_table({"a": "INT", "b": "STRING"})
    put(table, (1, "x"), (1, "x"))
    put(table, (2, None))
    assert rows_of(table) == [(1, "x"), (1, "x"), (2, None)]
    assert {(e.bucket, e.total_buckets, e.file.min_sequence_number) for e in live(table)} == {(0, -1, 0)}
    assert plan_select(table).row_count == 3
    with pytest.raises(ArgumentError, match="no primary key"):
        put(table, ("-D", 1, "x"))
    ordered = new_table({"a": "INT"}, options={"bucket": "2", "bucket-key": "a"})
    for i in range(4):
        put(ordered, *((k,) for k in range(i, i + 3)))
    spans: dict[int, list[tuple[int, int]]] = {}
    for e in live(ordered):
        spans.setdefault(e.bucket, []).append((e.file.min_sequence_number, e.file.max_sequence_number))
    for found in spans.values():
        assert [b[0] - a[1] for a, b in zip(sorted(found), sorted(found)[1:], strict=False)] == [1] * (len(found) - 1)


def test_small_append_files_are_put_together() -> None:
    table = new_table({"a": "INT"})
    for i in range(4):
        assert put(table, (i,)).compacted is None
    assert plan_compaction(table).is_empty
    result = put(table, (4,))
    assert result.compacted.total.files_in == 5
    (entry,) = live(table)
    assert (entry.file.row_count, entry.file.file_source) == (5, FileSource.COMPACT)
    assert rows_of(table) == [(i,) for i in range(5)]


def test_bucketed_append_keeps_order_and_numbers() -> None:
    table = new_table({"a": "INT"}, options={"bucket": "1", "bucket-key": "a", "write-only": "true"})
    for i in range(5):
        put(table, (10 - i,), (i,))
    compact(table, Strategy.MINOR)
    (entry,) = live(table)
    assert (entry.file.min_sequence_number, entry.file.max_sequence_number) == (0, 9)
    assert read_arrow(table)["a"].to_pylist() == [10, 0, 9, 1, 8, 2, 7, 3, 6, 4]
    put(table, (1,))
    assert plan_compaction(table).is_empty


def test_d3_d4_overwrite() -> None:
    table = new_table({"p": "INT", "k": "INT", "v": "INT"}, primary_key=["p", "k"], partition=["p"])
    put(table, (1, 1, 0), (2, 1, 0))
    put(table, (1, 2, 9), overwrite="dynamic")
    assert rows_of(table) == [(1, 2, 9), (2, 1, 0)]
    top = [e.file for e in live(table) if e.file.min_sequence_number == 0 and e.file.level == 5]
    assert len(top) == 1
    put(table, (1, 2, 7))
    assert rows_of(table) == [(1, 2, 7), (2, 1, 0)]
    put(table, (2, 5, 5), overwrite="static", static_partitions=Comparison("=", "p", 2))
    assert rows_of(table) == [(1, 2, 7), (2, 5, 5)]
    assert isinstance(write_arrow(table, batch(table), overwrite="dynamic").commit, EmptyCommit)
    put(table, (3, 1, 1), overwrite="static")
    assert rows_of(table) == [(3, 1, 1)]
    write_arrow(table, batch(table), overwrite="static")
    assert rows_of(table) == []
    latest = table.snapshots.latest()
    assert latest is not None
    assert latest.commit_kind is CommitKind.OVERWRITE


def test_other_bucket_count_is_refused_by_partition() -> None:
    table = new_table({"p": "INT", "k": "INT"}, primary_key=["p", "k"], partition=["p"], options={"bucket": "1"})
    put(table, *((1, k) for k in range(8)))
    from dataclasses import replace

    wider = Table.of(table.identifier, table.path, replace(table.schema, id=1, options={"bucket": "2"}), table.file_io)
    table.schema_store.try_create(wider.schema)
    with pytest.raises(UsageError, match="1 buckets"):
        put(wider, *((1, k) for k in range(8)))
    put(wider, *((2, k) for k in range(8)))
    assert len(rows_of(wider)) == 16
    execute_compaction(plan_compaction(wider), LocalRunner())
    assert {e.total_buckets for e in live(wider)} == {1, 2}, "each partition keeps its own"
    assert len(rows_of(wider)) == 16
    put(wider, *((1, k) for k in range(8)), overwrite="dynamic")
    assert {e.total_buckets for e in live(wider)} == {2}
    put(wider, (1, 99))
    assert len(rows_of(wider)) == 17


def test_w1_not_null_and_types_and_defaults() -> None:
    table = keyed({"k": "INT", "v": "STRING NOT NULL"})
    with pytest.raises(ArgumentError) as caught:
        put(table, (1, None))
    assert caught.value.kind is ErrorKind.NOT_NULL_VIOLATION
    assert "'v'" in str(caught.value)
    with pytest.raises(ArgumentError) as caught:
        write_arrow(table, pa.table({"k": [2**40], "v": ["x"]}))
    assert caught.value.kind is ErrorKind.TYPE_MISMATCH
    with pytest.raises(ArgumentError, match="lack the column 'v'"):
        write_arrow(table, pa.table({"k": [1]}))
    assert table.snapshots.latest_id() is None
    assert [f for f in table.file_io.list_recursive(table.path) if "bucket" in f.path] == []


def test_w2_row_kind_column() -> None:
    table = keyed({"k": "INT", "op": "STRING"}, rowkind__field="op")
    put(table, (1, "+I"), (2, "+I"))
    put(table, (1, "-D"))
    assert rows_of(table) == [(2, "+I")]
    with pytest.raises(ArgumentError, match="has no kind"):
        put(table, (3, "delete"))


def test_budget_flushes_into_several_files() -> None:
    table = keyed(write_buffer_size="1 kb", write_only="true", write_buffer_spillable="false")
    with TableWriter(table, WriterRestoreState()) as writer:
        for i in range(5):
            writer.write(batch(table, *((k, f"{i}" * 20) for k in range(100))))
        messages = writer.finish()
    assert len(messages[0].new_files) >= 5
    complete_write(WritePlan(table=table, info=WriterRestoreState()), messages, LocalRunner())
    assert {v for _, v in rows_of(table)} == {"4" * 20}


def test_a_failed_writer_leaves_no_files() -> None:
    table = keyed(write_buffer_size="1 b")
    with pytest.raises(PaimonError), TableWriter(table, WriterRestoreState()) as writer:  # noqa: PT012
        writer.write(batch(table, (1, "a")))
        writer.write(pa.table({"k": ["not a number"], "v": ["x"]}))
    assert [f for f in table.file_io.list_recursive(table.path) if "bucket" in f.path] == []


def test_plan_travels_as_json() -> None:
    info = WriterRestoreState(
        assigners=3, max_sequences={b"p": {0: 7}}, hash_files={b"p": {1: "index-x"}}, rescaled_partitions={b"q": 4}
    )
    assert WriterRestoreState.from_json(info.to_json()) == info


FILTERS: list[tuple[Predicate, list[int]]] = [
    (Comparison("=", "k", 3), [3]),
    (Comparison(">", "f", 1.0), [2, 4]),
    (Comparison("<", "f", float("nan")), [1, 2]),
    (Comparison("=", "f", float("nan")), [4]),
    (Comparison("!=", "s", "b"), [1]),
    (Comparison("<=>", "s", None), [3, 4]),
    (Not(Comparison("<=>", "s", "a")), [2, 3, 4]),
    (InList("s", ("a", "b")), [1, 2]),
    (Not(InList("s", ("a",))), [2]),
    (InList("s", ("a", None), negated=True), []),
    (IsNull("s", negated=True), [1, 2]),
    (StartsWith("s", "b"), [2]),
    (Or((Comparison("=", "k", 1), And((IsNull("s"), Comparison(">=", "k", 4))))), [1, 4]),
    (Not(Or((Comparison("=", "k", 1), Comparison("=", "s", "b")))), []),
]


@pytest.mark.parametrize(("predicate", "keys"), FILTERS, ids=[str(i) for i in range(len(FILTERS))])
@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_filters_are_exact(predicate: Predicate, keys: list[int], form: str) -> None:
    table = keyed({"k": "INT", "s": "STRING", "f": "DOUBLE"}, file__format=form, write_only="true")
    put(table, (1, "old", 9.0), (2, "b", 2.0), (3, "c", None))
    put(table, (1, "a", 0.5), (3, None, None), (4, None, float("nan")))
    assert [k for (k,) in rows_of(table, columns=["k"], predicate=predicate)] == keys
    compact(table)
    assert [k for (k,) in rows_of(table, columns=["k"], predicate=predicate)] == keys


def test_value_filters_do_not_uncover_old_versions() -> None:
    table = keyed({"k": "INT", "v": "INT"}, write_only="true")
    put(table, (1, 5))
    put(table, (1, 9))
    assert rows_of(table, predicate=Comparison("=", "v", 5)) == []
    compact(table)
    assert plan_select(table, predicate=Comparison("=", "v", 5)).splits == ()


def test_limit_columns_and_travel() -> None:
    table = new_table({"a": "INT", "b": "INT"}, options={"write-only": "true"})
    for i in range(3):
        put(table, *((10 * i + j, j) for j in range(10)))
    assert read_arrow(table, limit=12).num_rows == 12
    assert len(plan_select(table.with_options({"source.split.target-size": "1 b"}), limit=12).splits) == 2
    assert read_arrow(table, columns=["b"], version=1)["b"].to_pylist() == list(range(10))
    assert read_arrow(table, columns=[]).num_rows == 30
    assert plan_select(table, version=2).row_count == 20


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_every_atomic_type_round_trips(form: str) -> None:
    columns = {
        "k": "BIGINT", "b": "BOOLEAN", "t": "TINYINT", "s": "SMALLINT", "f": "FLOAT", "c": "CHAR(3)", "x": "BYTES",
        "d": "DATE", "n": "DECIMAL(10, 2)", "w": "DECIMAL(38, 10)", "m": "TIMESTAMP(3)", "u": "TIMESTAMP(6)",
    }  # fmt: skip
    table = keyed(columns, file__format=form, write_only="true")
    row = (1, True, -3, 300, 1.5, "ab", b"\x00\xff", date(2024, 5, 14), Decimal("-1.50"), Decimal("12345678901234.5"),
           datetime(2024, 5, 14, 10, 20, 30, 123000), datetime(1969, 5, 14, 10, 20, 30, 123456))  # fmt: skip
    empty = (2, *(None,) * (len(columns) - 1))
    put(table, row, empty)
    put(table, row)
    assert rows_of(table) == [row, empty]
    compact(table)
    assert rows_of(table) == [row, empty]


def test_a_missing_data_file_is_named() -> None:
    table = keyed()
    put(table, (1, "a"))
    (entry,) = live(table)
    path = table.paths.data_file(entry.partition, entry.bucket, entry.file)
    table.file_io.delete(path)
    with pytest.raises(CorruptTableError) as caught:
        read_arrow(table)
    assert caught.value.kind is ErrorKind.FILE_MISSING
    assert path in str(caught.value)


def test_snapshots_of_one_write() -> None:
    table = keyed()
    results = [put(table, (i, "x")) for i in range(5)]
    assert all(isinstance(r.commit, Committed) for r in results)
    kinds = [table.snapshots.get(i).commit_kind for i in table.snapshots.ids()]
    assert kinds == [CommitKind.APPEND] * 5 + [CommitKind.COMPACT]


def test_concurrent_writers_of_dynamic_buckets_never_split_a_key() -> None:
    table = new_table(
        {"p": "INT", "k": "INT", "v": "STRING"},
        primary_key=("p", "k"),
        partition=("p",),
        options={"write-only": "true"},
    )
    put(table, (1, 1, "a"))

    def late(*rows: Row, **how: Any) -> tuple[WritePlan, list[CommitMessage]]:
        plan = plan_write(table, **how)
        with TableWriter(table, plan.info) as writer:
            writer.write(batch(table, *rows))
            return plan, writer.finish()

    known, fresh, elsewhere = late((1, 1, "b")), late((1, 2, "b")), late((2, 1, "b"))
    put(table, (1, 2, "c"))
    for plan, messages in (known, fresh):
        with pytest.raises(ConflictError, match="keys"):
            complete_write(plan, messages, LocalRunner())
    complete_write(*elsewhere, LocalRunner())
    update = late((1, 2, "d"))
    put(table, (1, 1, "e"))
    complete_write(*update, LocalRunner())
    stale = late((1, 2, "f"))
    put(table, (1, 1, "g"), overwrite="dynamic")
    with pytest.raises(ConflictError, match="keys"):
        complete_write(*stale, LocalRunner())
    assert rows_of(table) == [(1, 1, "g"), (2, 1, "b")]


def test_options_of_one_statement_are_refused_like_stored_ones() -> None:
    table = keyed()
    put(table, (1, "a"))
    for key, value in (("commit.callbacks", "a.B"), ("commit.custom-listeners", "x.Y")):
        with pytest.raises(UnsupportedError, match=key):
            put(table.with_options({key: value}), (1, "b"))
    for key, value in (("changelog-producer", "lookup"), ("upsert-key", "v")):
        with pytest.raises(OptionError, match=rf"'{key}'.*cannot be set for one statement"):
            table.with_options({key: value})
    with pytest.raises(UnsupportedError, match="iceberg"):
        plan_compaction(table.with_options({"metadata.iceberg.storage": "table-location"}))


def test_scan_bucket_reads_one_bucket() -> None:
    table = keyed(bucket="3")
    put(table, *((k, "v") for k in range(30)))
    parts = [rows_of(table.with_options({"scan.bucket": str(b)})) for b in range(3)]
    assert all(parts)
    assert sorted((r for part in parts for r in part), key=repr) == rows_of(table)


def test_an_empty_insert_makes_a_snapshot_only_if_asked_for() -> None:
    quiet = keyed()
    assert isinstance(put(quiet).commit, EmptyCommit)
    for option in ({"commit.force-create-snapshot": "true"}, {"snapshot.ignore-empty-commit": "false"}):
        table = quiet.with_options(option)
        assert isinstance(put(table).commit, Committed)
        assert isinstance(put(table, overwrite="static").commit, Committed)


def test_a_time_that_does_not_fit_nanoseconds_is_refused() -> None:
    table = new_table({"v": "TIMESTAMP(9)"})
    for moment, fits in ((datetime(2262, 1, 1), True), (datetime(9999, 12, 31), False)):
        rows = pa.table({"v": pa.array([moment], pa.timestamp("us"))})
        if fits:
            write_arrow(table, rows)
        else:
            with pytest.raises(ArgumentError, match=r"'v'.*do not fit"):
                write_arrow(table, rows)
    assert read_arrow(table).column("v").cast(pa.timestamp("us")).to_pylist() == [datetime(2262, 1, 1)]

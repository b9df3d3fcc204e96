"""Tables with postponed buckets, without Spark: names and content of postponed files, replay, order, conflicts."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import TableWriter
from paimon_spark.engine.compaction.compact import CompactionResult, Strategy
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.insert import complete_write, plan_write, write_arrow
from paimon_spark.engine.redistribution.postpone_compact import execute_postponed, plan_postponed
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import ConflictError, UsageError
from paimon_spark.spec.manifest import ManifestEntry
from paimon_spark.spec.predicate import Comparison
from paimon_spark.testing.tables import new_table, read_arrow
from tests.small_tables import option_keys, sorted_rows


def postponed(columns: dict[str, str] | None = None, *, partition: tuple[str, ...] = (), **options: str) -> Table:
    given = option_keys(options)
    return new_table(
        columns or {"k": "INT", "v": "STRING"},
        primary_key=[*partition, "k"],
        partition=partition,
        options={"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"} | given,
    )


def write(table: Table, *rows: tuple[Any, ...], **how: Any) -> None:
    columns = [pa.array(c) for c in zip(*rows, strict=True)]
    columns[0] = columns[0].cast(pa.int32())
    write_arrow(table, pa.table(dict(zip(table.schema.field_names, columns, strict=True))), **how)


def compact(table: Table, **how: Any) -> CompactionResult:
    return execute_postponed(plan_postponed(table, **{"strategy": Strategy.MINOR} | how), None, LocalRunner())


def live(table: Table) -> list[ManifestEntry]:
    return live_in_partitions(ManifestStore(table), table.snapshots.latest(), None)


def test_postponed_files_are_named_and_described_as_in_paimon() -> None:
    table = postponed(file__format="orc", metadata__stats_mode="full", file__compression="snappy")
    write(table, (2, "b"), (1, "a"), (2, "c"))
    (entry,) = live(table)
    latest = table.snapshots.latest()
    assert latest is not None
    assert re.fullmatch(rf"data--u-{latest.commit_user}-s-\d+-w-[0-9a-f-]{{36}}-0\.avro", entry.file.file_name)
    assert (entry.bucket, entry.total_buckets, entry.file.level) == (-2, -2, 0)
    assert (entry.file.min_sequence_number, entry.file.max_sequence_number, entry.file.row_count) == (-1, -1, 3)
    assert table.file_io.exists(f"{table.path}/bucket-postpone/{entry.file.file_name}")
    assert sorted_rows(table) == []


def test_types_that_avro_lacks_keep_the_format_of_the_table() -> None:
    table = postponed({"k": "INT", "v": "TIMESTAMP(9)"})
    write_arrow(table, pa.table({"k": pa.array([1], pa.int32()), "v": pa.array([123_456_789], pa.timestamp("ns"))}))
    assert live(table)[0].file.file_name.endswith(".parquet")
    compact(table)
    assert read_arrow(table).column("v").cast(pa.int64()).to_pylist() == [123_456_789]


def test_a_compaction_replays_rows_in_order_and_keeps_nulls() -> None:
    table = postponed(fields__v__default_value="x")
    write(table, (1, "a"), (2, "b"), (1, "c"))
    write(table, (2, "d"), (3, "e"), (4, None))
    result = compact(table, default_buckets=3)
    assert sorted_rows(table) == [(1, "c"), (2, "d"), (3, "e"), (4, None)]
    assert {e.total_buckets for e in live(table)} == {3}
    assert all(e.bucket >= 0 for e in live(table))
    assert (result.total.files_in, result.total.rows_in, result.total.rows_out) == (2, 6, 4)
    assert compact(table).snapshot_ids == ()


def test_a_deleted_row_does_not_come_back() -> None:
    table = postponed()
    write(table, (1, "a"))
    compact(table)
    rows = pa.table({"k": pa.array([1], pa.int32()), "v": ["a"], ROW_KIND: pa.array([3], pa.int8())})
    write_arrow(table, rows)
    compact(table)
    assert sorted_rows(table) == []


def test_the_order_survives_expired_snapshots() -> None:
    table = postponed()
    for n in range(5):
        write(table, (1, f"v{n}"), (n + 10, "w"))
    execute_expire(table, plan_expire(table, ExpireConfig(retain_max=2, retain_min=1), clock_millis=1 << 50))
    assert table.snapshots.find(1) is None
    compact(table)
    assert sorted_rows(table)[0] == (1, "v4")


def test_partitions_keep_their_number_of_buckets() -> None:
    table = postponed({"k": "INT", "v": "STRING", "p": "STRING"}, partition=("p",))
    write(table, (1, "a", "x"), (2, "b", "y"))
    compact(table, partitions=Comparison("=", "p", "x"), default_buckets=2)
    write(table, (3, "c", "x"))
    compact(table, default_buckets=5)
    counts = {table.partition_text(e.partition): e.total_buckets for e in live(table)}
    assert counts == {"p=x": 2, "p=y": 5}
    assert sorted_rows(table) == [(1, "a", "x"), (2, "b", "y"), (3, "c", "x")]


def test_buckets_by_rows() -> None:
    table = postponed(postpone__target_row_num_per_bucket="10")
    write(table, *((k, "v") for k in range(95)))
    compact(table, default_buckets=3)
    assert {e.total_buckets for e in live(table)} == {10}
    assert len(sorted_rows(table)) == 95


def test_two_compactions_of_the_same_files_conflict() -> None:
    table = postponed()
    write(table, (1, "a"))
    late = plan_postponed(table, strategy=Strategy.MINOR)
    compact(table)
    files = len(list(table.file_io.list_recursive(table.path)))
    with pytest.raises(ConflictError, match="is gone"):
        execute_postponed(late, None, LocalRunner())
    assert sorted_rows(table) == [(1, "a")]
    assert len(list(table.file_io.list_recursive(table.path))) == files


def test_first_writes_with_different_buckets_conflict() -> None:
    table = postponed(postpone__batch_write_fixed_bucket="true")
    late = plan_write(table)
    write(table, (1, "a"))
    (entry,) = live(table)
    assert (entry.bucket, entry.total_buckets) == (0, 1)
    with TableWriter(table, replace(late.info, new_buckets=4)) as writer:
        writer.write(pa.table({"k": pa.array([1], pa.int32()), "v": ["b"]}))
        messages = writer.finish()
    with pytest.raises(ConflictError, match="spread over 1 buckets, but this commit uses 4"):
        complete_write(late, messages, LocalRunner())
    assert sorted_rows(table) == [(1, "a")]


def test_rows_written_to_the_buckets_meanwhile_conflict() -> None:
    table = postponed({"k": "INT", "v": "STRING", "n": "INT"}, sequence__field="n")
    write(table, (1, "postponed", 1))
    late = plan_postponed(table, strategy=Strategy.MINOR)
    write(table, (2, "postponed later", 1))
    write(table.with_options({"postpone.batch-write-fixed-bucket": "true"}), (1, "newer", 2))
    with pytest.raises(ConflictError, match=r"snapshot 3\) wrote rows to the buckets"):
        execute_postponed(late, None, LocalRunner())
    assert sorted_rows(table) == [(1, "newer", 2)]
    compact(table)
    write(table, (3, "c", 1))
    late = plan_postponed(table, strategy=Strategy.MINOR)
    write(table, (3, "d", 1))
    execute_postponed(late, None, LocalRunner())
    compact(table)
    assert sorted_rows(table) == [(1, "newer", 2), (2, "postponed later", 1), (3, "d", 1)]


def test_postponed_rows_go_to_buckets_before_newer_rows() -> None:
    table = postponed({"k": "INT", "v": "STRING", "p": "STRING"}, partition=("p",))
    write(table, (1, "old", "x"), (1, "old", "y"))
    direct = table.with_options({"postpone.batch-write-fixed-bucket": "true"})
    with pytest.raises(UsageError, match="p=x has postponed rows"):
        write(direct, (1, "new", "x"))
    write(direct, (1, "new", "z"))
    write(direct, (1, "over", "y"), overwrite="static", static_partitions=Comparison("=", "p", "y"))
    compact(table)
    write(direct, (1, "new", "x"))
    compact(table)
    assert sorted_rows(table) == [(1, "new", "x"), (1, "new", "z"), (1, "over", "y")]


# ---- merge on read


def merged(table: Table, **how: Any) -> list[tuple[Any, ...]]:
    reader = table.with_options({"postpone.merge-on-read": "true"} | how.pop("options", {}))
    return sorted(tuple(r.values()) for r in read_arrow(reader, **how).to_pylist())


def test_postponed_rows_are_merged_on_read() -> None:
    table = postponed({"k": "INT", "v": "STRING", "p": "STRING"}, partition=("p",))
    write(table, *((k, "old", "x") for k in range(20)))
    compact(table, default_buckets=3)
    write(table, *((k, "new", "x") for k in range(10, 30)), (1, "b", "y"))
    gone = {
        "k": pa.array([0, 12], pa.int32()),
        "v": ["", ""],
        "p": ["x", "x"],
        ROW_KIND: pa.array([3, 3], pa.int8()),
    }
    write_arrow(table, pa.table(gone))
    expected = [(k, "old" if k < 10 else "new", "x") for k in range(1, 30) if k != 12] + [(1, "b", "y")]
    assert merged(table) == sorted(expected)
    assert merged(table, predicate=Comparison("=", "p", "y")) == [(1, "b", "y")]
    assert merged(table, predicate=Comparison("=", "v", "old")) == [(k, "old", "x") for k in range(1, 10)]
    assert merged(table, predicate=Comparison("=", "k", 12)) == []
    assert merged(table, columns=["v"], predicate=Comparison("=", "k", 15)) == [("new",)]
    assert len(merged(table, version=2)) == 20
    assert len(sorted_rows(table)) == 20
    compact(table)
    assert merged(table) == sorted_rows(table) == sorted(expected)


def test_manifests_of_other_partitions_are_not_read() -> None:
    table = postponed({"k": "INT", "v": "STRING", "p": "STRING"}, partition=("p",))
    write(table, (1, "a", "x"))
    write(table, (1, "b", "y"))
    first = table.snapshots.get(1)
    (manifest,) = ManifestStore(table).data_manifests(first)
    table.file_io.delete(table.paths.manifest(manifest.file_name))
    clear_cache()
    assert merged(table, predicate=Comparison("=", "p", "y")) == [(1, "b", "y")]


def test_files_of_a_creation_time_are_merged_with_no_others() -> None:
    table = postponed()
    write(table, (1, "a"))
    compact(table, default_buckets=1)
    write(table, (2, "b"))
    assert merged(table, options={"scan.file-creation-time-millis": "1"}) == [(1, "a"), (2, "b")]
    assert merged(table, options={"scan.file-creation-time-millis": "99999999999999"}) == []


@pytest.mark.parametrize("spills", [True, False])
def test_many_postponed_rows_are_merged_in_runs(spills: bool) -> None:
    engine = {"merge_engine": "aggregation", "fields__v__aggregate_function": "sum"}
    table = postponed({"k": "INT", "v": "BIGINT"}, **engine, postpone__target_row_num_per_bucket="3000")
    for n in range(3):
        write(table, *((k % 4000, n) for k in range(8000)))
    options = {"write-buffer-size": "64 kb", "write-buffer-spillable": str(spills).lower()}
    expected = [(k, 6) for k in range(4000)]
    assert merged(table, options=options) == expected
    compact(table)
    assert sorted_rows(table) == expected


def test_partial_updates_are_merged_on_read_in_order() -> None:
    table = postponed({"k": "INT", "a": "STRING", "b": "STRING"}, merge_engine="partial-update")
    write(table, (1, "a1", None), (2, "x", None))
    compact(table)
    write(table, (1, None, "b1"))
    write(table, (1, "a2", None), (3, None, "z"))
    assert merged(table) == [(1, "a2", "b1"), (2, "x", None), (3, None, "z")]

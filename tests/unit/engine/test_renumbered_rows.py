"""Compaction that removes deleted rows of tables with data evolution and gives the others new row ids."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paimon_spark.api.row_changes import deletions
from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.compact.append import AppendOptions
from paimon_spark.core.compact.column_files import pick_row_ranges
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.row_ranges import is_blob_file
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import execute_compaction, plan_compaction
from paimon_spark.engine.row_level import change_arrow, with_all_rows
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import plan_select
from paimon_spark.errors import ConflictError
from paimon_spark.spec.kinds import ROW_ID, FileSource, Operation
from paimon_spark.spec.manifest import DELETION_VECTORS_INDEX, EMPTY_ROW, DataFileMeta, IndexFileMeta
from paimon_spark.spec.predicate import Comparison, Predicate, or_
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.tables import new_table
from tests.column_changes import begin_update, update
from tests.small_tables import put

EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"}
SOON = {"compaction.min.file-num": "2", "source.split.open-file-cost": "1 b"}
KEY = "data-evolution.compaction.rewrite-row-ids"
META = (
    b'{"_ROW_RANGE_START": 0, "_ROW_RANGE_END": 1, "_INDEX_FIELD_ID": 0, "_EXTRA_FIELD_IDS": null, '
    b'"_INDEX_META": null, "_SOURCE_META": null}'
)


def made(*partition: str, **options: str) -> Table:
    columns = {"k": "INT", "v": "STRING", "image": "BLOB"}
    return new_table(columns, partition=partition, options=EVOLVING | SOON | {KEY: "true"} | options)


def fill(table: Table, *starts: int) -> None:
    for start in starts:
        put(table, *((start + i, "a", b"%d" % (start + i)) for i in range(3)))


def delete(table: Table, *keys: int) -> None:
    chosen: Predicate = or_(*(Comparison("=", "k", k) for k in keys))
    plan = plan_select(with_all_rows(table), columns=(), predicate=chosen)
    change_arrow(table, deletions(plan), Operation.DELETE)


def compact(table: Table) -> None:
    execute_compaction(plan_compaction(table), LocalRunner())


def files(table: Table) -> list[DataFileMeta]:
    return sorted((e.file for e in scan(table, table.snapshots.latest()).entries), key=lambda f: f.first_row_id or 0)


def ranges(table: Table, *, blobs: bool = False) -> list[tuple[int, int]]:
    return [(f.first_row_id or 0, f.row_count) for f in files(table) if is_blob_file(f) is blobs]


def contents(table: Table) -> list[tuple[object, ...]]:
    """Return keys, values, blobs and row ids, in the order of the ids."""
    plan = plan_select(table)
    found = [
        (r["k"], r["v"], r["image"], r[ROW_ID])
        for s in plan.splits
        for b in read_split(plan.table, s, plan.columns, metadata_columns=(ROW_ID,))
        for r in b.to_pylist()
    ]
    return sorted(found, key=lambda row: row[-1])


def vectors(table: Table) -> int:
    entries = ManifestStore(table).index_entries(table.snapshots.latest())
    return sum(len(e.file.deletion_ranges or ()) for e in entries if e.file.index_type == DELETION_VECTORS_INDEX)


def test_deleted_rows_go_and_the_others_get_new_ids() -> None:
    table = made()
    fill(table, 0, 10, 20)
    update(table, lambda r: r["k"] > 10, v="x")
    delete(table, 1, 12)
    assert vectors(table) == 2
    compact(table)
    kept = [0, 2, 10, 11, 20, 21, 22]
    rows = [(k, "x" if k > 10 else "a", b"%d" % k, 9 + i) for i, k in enumerate(kept)]
    assert contents(table) == rows
    assert (ranges(table), ranges(table, blobs=True)) == ([(9, 7)], [(9, 7)])
    (data, blob) = sorted(files(table), key=is_blob_file)
    latest = table.snapshots.get(table.snapshots.latest_id() or 0)
    assert (latest.commit_kind, latest.next_row_id) == ("COMPACT", 16)
    assert {data.file_source, blob.file_source} == {FileSource.APPEND}
    assert (data.min_sequence_number, data.max_sequence_number, data.write_cols) == (latest.id, latest.id, ("k", "v"))
    assert vectors(table) == 0
    assert violations(table) == []
    update(table, lambda r: r["k"] == 2, v="y")
    assert [r[1] for r in contents(table)][:2] == ["a", "y"]


def test_a_range_without_deleted_rows_keeps_its_ids() -> None:
    table = made(**{"target-file-size": "1 b"})
    fill(table, 0, 10)
    delete(table, 0)
    compact(table)
    assert ranges(table) == [(3, 3), (6, 2)]
    assert [(k, i) for k, _, _, i in contents(table)] == [(10, 3), (11, 4), (12, 5), (1, 6), (2, 7)]


def test_rows_that_are_all_deleted_leave_no_file() -> None:
    table = made()
    fill(table, 0)
    delete(table, 0, 1, 2)
    compact(table)
    assert (files(table), contents(table), vectors(table)) == ([], [], 0)
    assert violations(table) == []
    fill(table, 30)
    assert [i for *_, i in contents(table)] == [3, 4, 5]


def test_without_the_option_ids_stay() -> None:
    table = made().with_options({KEY: "false"})
    fill(table, 0, 10)
    delete(table, 1)
    compact(table)
    assert ranges(table) == [(0, 6)]
    assert [i for *_, i in contents(table)] == [0, 2, 3, 4, 5]


def test_values_of_references_are_copied() -> None:
    table = made(**{"blob-as-descriptor": "true"})
    fill(table, 0)
    delete(table, 1)
    compact(table)
    assert [b for _, _, b, _ in contents(table.with_options({"blob-as-descriptor": "false"}))] == [b"0", b"2"]


def test_changes_at_the_same_time_conflict() -> None:
    table = made()
    fill(table, 0, 10)
    delete(table, 1)
    late = begin_update(table, lambda r: r["k"] == 0, v="late")
    plan = plan_compaction(table)
    update(table, lambda r: r["k"] == 10, v="x")
    with pytest.raises(ConflictError, match="some of the same rows"):
        execute_compaction(plan, LocalRunner())
    plan = plan_compaction(table)
    delete(table, 11)
    with pytest.raises(ConflictError, match="deleted rows"):
        execute_compaction(plan, LocalRunner())
    compact(table)
    with pytest.raises(ConflictError):
        late()
    assert [(k, v) for k, v, *_ in contents(table)] == [(0, "a"), (2, "a"), (10, "x"), (12, "a")]
    assert violations(table) == []


def test_global_indexes_of_the_partition_are_dropped() -> None:
    table = made("v")
    put(table, (1, "a", b""), (2, "a", b""))
    put(table, (3, "b", b""))
    delete(table, 1)
    index = IndexFileMeta(index_type="btree", file_name="index-0", file_size=1, row_count=1, global_index=META)
    partitions = sorted({e.partition for e in scan(table, table.snapshots.latest()).entries})
    for i, partition in enumerate(partitions):
        named = replace(index, file_name=f"index-{i}")
        message = CommitMessage(partition=partition, bucket=0, total_buckets=-1, new_index_files=(named,))
        FileStoreCommit(table).commit([message])
    compact(table)
    left = ManifestStore(table).index_entries(table.snapshots.latest())
    assert [e.partition for e in left if e.file.global_index is not None] == [partitions[1]]
    assert partitions[0] != EMPTY_ROW


def test_deleted_rows_count_less() -> None:
    file = DataFileMeta(
        file_name="data-0",
        file_size=100,
        row_count=10,
        min_sequence_number=1,
        max_sequence_number=1,
        schema_id=0,
        level=0,
        first_row_id=0,
    )
    many = [replace(file, file_name=f"data-{i}", first_row_id=10 * i) for i in range(3)]
    options = AppendOptions(target_file_size=90, open_file_cost=1, min_file_num=2)
    assert pick_row_ranges(many, options) == []
    assert pick_row_ranges(many, options, {"data-0": 8, "data-1": 8}) == [tuple(many[:2])]
    assert pick_row_ranges(many, options, {"data-1": 0}) == [(many[1],)]

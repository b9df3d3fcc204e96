"""New values of columns in tables with data evolution: their files, concurrent commits, and their compaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from paimon_spark.api.row_changes import deletions
from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.compact.append import AppendOptions
from paimon_spark.core.compact.column_files import pick_row_ranges
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import execute_compaction, plan_compaction
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.reassign_row_id import execute_reassign, plan_reassign
from paimon_spark.engine.row_level import (
    change_arrow,
    plan_changes,
    row_changer,
    with_all_rows,
)
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import plan_select
from paimon_spark.errors import ConflictError, EngineError, UnsupportedError
from paimon_spark.format.manifest.codec import indexed_columns
from paimon_spark.spec.kinds import ROW_ID, FileSource, Operation
from paimon_spark.spec.manifest import EMPTY_ROW, DataFileMeta, IndexFileMeta
from paimon_spark.spec.predicate import Comparison
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.tables import new_table
from tests.column_changes import begin_update, changes, update
from tests.small_tables import frame, put, rows

EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
SOON = {"compaction.min.file-num": "2", "source.split.open-file-cost": "1 b"}
OPTIONS = AppendOptions(target_file_size=100, open_file_cost=1, min_file_num=2)


def evolving_table(**options: str) -> Table:
    return new_table({"k": "INT", "v": "STRING", "n": "INT"}, options=EVOLVING | SOON | options)


def compact(table: Table) -> None:
    execute_compaction(plan_compaction(table), LocalRunner())


def files(table: Table) -> list[DataFileMeta]:
    return sorted((e.file for e in scan(table, table.snapshots.latest()).entries), key=lambda f: f.first_row_id or 0)


def test_a_range_gets_one_file_of_the_changed_columns() -> None:
    table = evolving_table(**{"target-file-row-num": "1000"})
    for i in range(2):
        write_arrow(table, frame(table, [(i * 900 + j, f"v{j}", j) for j in range(900)]))
    update(table.with_options({"target-file-row-num": "100"}), lambda r: r["k"] == 899 or r["k"] == 10, v="x", n=None)
    (new,) = [f for f in files(table) if f.write_cols]
    assert (new.first_row_id, new.row_count, new.write_cols, new.file_source) == (0, 900, ("v", "n"), FileSource.APPEND)
    assert rows(table, Comparison("=", "v", "x")) == [(10, "x", None), (899, "x", None)]
    assert rows(table, Comparison("=", "k", 898)) == [(898, "v898", 898)]
    assert violations(table) == []


def test_updates_of_other_columns_do_not_conflict() -> None:
    table = evolving_table()
    put(table, (1, "a", 10), (2, "b", 20))
    first, second = begin_update(table, v="x"), begin_update(table, lambda r: r["k"] == 2, n=5)
    first()
    second()
    assert rows(table) == [(1, "x", 10), (2, "x", 5)]


def test_two_updates_of_a_column_conflict() -> None:
    table = evolving_table()
    put(table, (1, "a", 10), (2, "b", 20))
    put(table, (3, "c", 30))
    late, far = (
        begin_update(table, lambda r: r["k"] == 1, v="late"),
        begin_update(table, lambda r: r["k"] == 3, v="far"),
    )
    update(table, lambda r: r["k"] == 2, v="first")
    with pytest.raises(ConflictError, match=r"snapshot 3\) changed the same columns"):
        late()
    far()
    assert rows(table) == [(1, "a", 10), (2, "first", 20), (3, "far", 30)]
    assert violations(table) == []


def test_rows_that_are_gone_conflict() -> None:
    table = evolving_table()
    put(table, (1, "a", 10))
    late = begin_update(table, v="late")
    write_arrow(table, frame(table, [(9, "z", 90)]), overwrite="static")
    with pytest.raises(ConflictError, match="changed the same columns"):
        late()
    assert rows(table) == [(9, "z", 90)]


def test_updates_and_compactions_at_the_same_time() -> None:
    table = evolving_table()
    put(table, (1, "a", 10))
    put(table, (2, "b", 20))
    late, plan = begin_update(table, lambda r: r["k"] == 1, v="late"), plan_compaction(table)
    compact(table)
    with pytest.raises(ConflictError, match="removed or compacted the rows"):
        late()
    put(table, (3, "c", 30))
    plan = plan_compaction(table)
    update(table, lambda r: r["k"] == 2, v="B")
    with pytest.raises(ConflictError, match="some of the same rows"):
        execute_compaction(plan, LocalRunner())
    assert rows(table) == [(1, "a", 10), (2, "B", 20), (3, "c", 30)]
    plan, late = plan_compaction(table), begin_update(table, lambda r: r["k"] == 3, n=0)
    execute_compaction(plan, LocalRunner())
    with pytest.raises(ConflictError):
        late()


def test_a_compaction_of_one_range_admits_updates() -> None:
    table = evolving_table(**{"deletion-vectors.enabled": "true"})
    put(table, (1, "a", 10), (2, "b", 20), (3, "c", 30))
    update(table, lambda r: r["k"] == 1, v="A")
    plan = plan_compaction(table)
    update(table, lambda r: r["k"] == 2, v="B")
    late = begin_update(table, lambda r: r["k"] == 3, n=0)
    execute_compaction(plan, LocalRunner())
    late()
    assert rows(table) == [(1, "A", 10), (2, "B", 20), (3, "c", 0)]
    chosen = plan_select(with_all_rows(table), columns=(), predicate=Comparison("=", "k", 2))
    late = begin_update(table, v="x")
    change_arrow(table, deletions(chosen), Operation.DELETE)
    late()
    assert rows(table) == [(1, "x", 10), (3, "x", 0)]
    plan = plan_compaction(table)
    chosen = plan_select(with_all_rows(table), columns=(), predicate=Comparison("=", "k", 1))
    change_arrow(table, deletions(chosen), Operation.DELETE)
    with pytest.raises(ConflictError, match="deleted rows"):
        execute_compaction(plan, LocalRunner())
    compact(table)
    assert rows(table) == [(3, "x", 0)]
    assert (len(files(table)), violations(table)) == (1, [])


def test_compaction_moves_deleted_rows() -> None:
    table = evolving_table(**{"deletion-vectors.enabled": "true"})
    for i in range(4):
        put(table, (2 * i, "a", 0), (2 * i + 1, "b", 1))
    change_arrow(
        table,
        deletions(plan_select(with_all_rows(table), columns=(), predicate=Comparison("=", "n", 1))),
        Operation.DELETE,
    )
    update(table, lambda r: r["k"] == 4, v="x")
    compact(table)
    (file,) = files(table)
    assert (file.first_row_id, file.row_count, file.write_cols, file.max_sequence_number) == (0, 8, None, 6)
    plan = plan_select(table)
    found = [
        r
        for s in plan.splits
        for b in read_split(plan.table, s, plan.columns, metadata_columns=(ROW_ID,))
        for r in b.to_pylist()
    ]
    assert [(r["k"], r["v"], r[ROW_ID]) for r in found] == [(0, "a", 0), (2, "a", 2), (4, "x", 4), (6, "a", 6)]
    assert violations(table) == []


def test_a_column_with_a_global_index_is_not_changed() -> None:
    table = evolving_table()
    put(table, (1, "a", 10))
    meta = b'{"_ROW_RANGE_START": 0, "_ROW_RANGE_END": 0, "_INDEX_FIELD_ID": 1, "_EXTRA_FIELD_IDS": null, "_INDEX_META": null, "_SOURCE_META": null}'
    index = IndexFileMeta(index_type="btree", file_name="index-1", file_size=1, row_count=1, global_index=meta)
    assert indexed_columns(index) == [1]
    message = CommitMessage(partition=EMPTY_ROW, bucket=0, total_buckets=-1, new_index_files=(index,))
    FileStoreCommit(table).commit([message])
    update(table, n=1)
    with pytest.raises(UnsupportedError, match=r"'v' of table .* has a global index, 'index-1' of type btree"):
        update(table, v="x")
    assert rows(table) == [(1, "a", 1)]


def test_row_ids_are_reassigned_by_partition() -> None:
    table = new_table({"k": "INT", "v": "STRING", "p": "INT"}, partition=["p"], options=EVOLVING | SOON)
    for i in range(3):
        put(table, (2 * i, "a", 10), (2 * i + 1, "b", 9))
    update(table, lambda r: r["k"] == 2, v="x")
    late, plan = begin_update(table, v="late"), plan_compaction(table)
    with pytest.raises(UnsupportedError, match=r"no 'data-evolution\.enabled'"):
        plan_reassign(new_table({"k": "INT"}))
    only = execute_reassign(plan_reassign(table, Comparison("=", "p", 8)))
    assert only is None
    done = execute_reassign(plan_reassign(table))
    assert done is not None
    assert (done.snapshot_before, done.snapshot_after, done.next_before, done.next_after) == (4, 5, 6, 12)
    assert (done.files, done.rows) == (7, 6)
    assert {f.first_row_id for f in files(table)} == set(range(6, 12))
    plan_ids = plan_select(table, columns=["k", "v"])
    read = (b for s in plan_ids.splits for b in read_split(table, s, plan_ids.columns, metadata_columns=(ROW_ID,)))
    found = {r["k"]: r[ROW_ID] for b in read for r in b.to_pylist()}
    assert found == {1: 6, 3: 7, 5: 8, 0: 9, 2: 10, 4: 11}
    with pytest.raises(ConflictError, match="removed or compacted the rows"):
        late()
    with pytest.raises(ConflictError, match="removed or compacted the rows"):
        execute_compaction(plan, LocalRunner())
    update(table, lambda r: r["k"] == 4, v="y")
    compact(table)
    assert [(f.first_row_id, f.row_count) for f in files(table)] == [(6, 3), (9, 3)]
    assert Counter(r[1] for r in rows(table)) == {"a": 1, "b": 3, "x": 1, "y": 1}
    put(table, (9, "z", 9))
    assert max(f.first_row_id or 0 for f in files(table)) == 12
    assert violations(table) == []


def test_changes_must_be_in_order() -> None:
    table = evolving_table()
    put(table, (1, "a", 10))
    put(table, (2, "b", 20))
    plan = plan_changes(table, Operation.UPDATE)
    batch = changes(table, {"v": "x"}, lambda _: True).combine_chunks().to_batches()[0]
    with pytest.raises(EngineError, match="not consecutive"), row_changer(table, plan.info) as changer:
        changer.change(pa.concat_batches([batch, batch.slice(0, 1)]))
    assert violations(table) == []


def data_file(name: str, first: int, count: int, size: int, *columns: str, sequence: int = 1) -> DataFileMeta:
    return DataFileMeta(
        file_name=name,
        file_size=size,
        row_count=count,
        min_sequence_number=sequence,
        max_sequence_number=sequence,
        schema_id=0,
        level=0,
        first_row_id=first,
        write_cols=columns or None,
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([data_file("a", 0, 5, 10)], []),
        ([data_file("a", 0, 5, 10), data_file("b", 5, 5, 10)], ["ab"]),
        ([data_file("a", 0, 5, 10), data_file("b", 6, 5, 10)], []),
        ([data_file("a", 0, 5, 60), data_file("b", 5, 5, 60), data_file("c", 10, 5, 60)], ["ab"]),
        ([data_file("a", 0, 5, 200), data_file("b", 5, 5, 10)], []),
        ([data_file("a", 0, 5, 200), data_file("b", 0, 5, 1, "v", sequence=2), data_file("c", 5, 5, 10)], ["ba"]),
        ([data_file("a", 0, 5, 10), data_file("b.blob", 0, 5, 1, "b"), data_file("c", 5, 5, 10)], []),
    ],
    ids=["one", "neighbours", "gap", "target", "large", "large with columns", "other blobs"],
)
def test_ranges_are_picked(found: Sequence[DataFileMeta], expected: list[str]) -> None:
    assert ["".join(f.file_name for f in group) for group in pick_row_ranges(found, OPTIONS)] == expected
    assert pick_row_ranges(found, replace(OPTIONS, min_file_num=5)) == []

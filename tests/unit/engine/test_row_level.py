"""Changing rows in their files: what is replaced, what stays, what a concurrent commit does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.core.columns import FILE_PATH, ROW_INDEX, ROW_KIND
from paimon_spark.core.commit.committer import Committed, EmptyCommit
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.core.row_level.copy_on_write import CopyOnWriteRewriter
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.scan.splits import plan_splits
from paimon_spark.core.table import Table
from paimon_spark.engine.row_level import change_arrow, finish_changes, plan_changes
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import ConflictError, EngineError, UsageError
from paimon_spark.spec.kinds import CommitKind
from paimon_spark.spec.predicate import Comparison
from paimon_spark.testing.tables import new_table, read_arrow
from tests.small_tables import at_next_schema, frame, option_keys, put

Change = tuple[str | None, int | None, int, tuple[Any, ...]]
"""(file, position, kind, values)."""
INSERT, UPDATE, DELETE = 0, 2, 3


def append_table(columns: dict[str, str] | None = None, *, partition: Sequence[str] = (), **options: str) -> Table:
    given_options = option_keys(options)
    return new_table(columns or {"k": "INT", "v": "STRING"}, partition=partition, options=given_options)


def placed(table: Table) -> list[tuple[str, int, tuple[Any, ...]]]:
    """Every row with its file and position."""
    found = []
    for split in plan_splits(table, scan(table, table.snapshots.latest())):
        for batch in read_split(table, split, metadata_columns=(FILE_PATH, ROW_INDEX)):
            for row in batch.to_pylist():
                path, index = row.pop(FILE_PATH), row.pop(ROW_INDEX)
                found.append((path, index, tuple(row.values())))
    return found


def change(table: Table, changes: Sequence[Change], operation: Any = "UPDATE") -> Any:
    return change_arrow(table, batch(table, changes), operation)


def batch(table: Table, changes: Sequence[Change]) -> pa.Table:
    ordered = sorted(changes, key=lambda c: (c[0] or "", c[1] or 0))
    rows = frame(table, [c[3] for c in ordered])
    rows = rows.append_column(ROW_KIND, pa.array([c[2] for c in ordered], pa.int8()))
    rows = rows.append_column(FILE_PATH, pa.array([c[0] for c in ordered], pa.string()))
    return rows.append_column(ROW_INDEX, pa.array([c[1] for c in ordered], pa.int64()))


def values(table: Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(r.values()) for r in read_arrow(table).to_pylist()), key=repr)


def files(table: Table) -> set[str]:
    return {e.file.file_name for e in scan(table, table.snapshots.latest()).entries}


def stored(table: Table) -> set[str]:
    found = table.file_io.list_recursive(table.path)
    return {f.path.rpartition("/")[2] for f in found if "/bucket-" in f.path}


def test_only_files_with_changes_are_replaced() -> None:
    table = append_table()
    put(table, (1, "a"), (2, "b"), (3, "c"))
    (first,) = files(table)
    put(table, (4, "d"))
    rows = {v[0]: (path, at) for path, at, v in placed(table)}
    result = change(
        table, [(*rows[2], DELETE, (None, None)), (*rows[3], UPDATE, (3, "C")), (None, None, INSERT, (5, "e"))]
    )
    assert isinstance(result.commit, Committed)
    assert values(table) == [(1, "a"), (3, "C"), (4, "d"), (5, "e")]
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    assert (snapshot.commit_kind, snapshot.operation) == (CommitKind.OVERWRITE, "UPDATE")
    assert (snapshot.total_record_count, snapshot.delta_record_count) == (4, 0)
    assert first not in files(table)
    assert rows[4][0].rpartition("/")[2] in files(table)


def test_no_change_makes_no_snapshot() -> None:
    table = append_table()
    put(table, (1, "a"))
    assert isinstance(change(table, []).commit, EmptyCommit)
    assert table.snapshots.latest_id() == 1


def test_a_file_whose_rows_are_all_gone_is_only_removed() -> None:
    table = append_table()
    put(table, (1, "a"), (2, "b"))
    change(table, [(path, at, DELETE, (None, None)) for path, at, _ in placed(table)], "DELETE")
    assert files(table) == set()
    assert values(table) == []


def test_a_row_may_be_removed_twice() -> None:
    table = append_table()
    put(table, (1, "a"), (2, "b"))
    path, at, _ = placed(table)[0]
    change(table, [(path, at, DELETE, (None, None))] * 2, "MERGE")
    assert values(table) == [(2, "b")]


def test_a_row_moves_to_the_partition_of_its_new_values() -> None:
    table = append_table({"k": "INT", "p": "STRING"}, partition=("p",))
    put(table, (1, "a"), (2, "a"), (3, "b"))
    rows = {v[0]: (path, at) for path, at, v in placed(table)}
    change(table, [(*rows[1], UPDATE, (1, "c"))])
    assert values(table) == [(1, "c"), (2, "a"), (3, "b")]
    only_c = read_arrow(table, predicate=Comparison("=", "p", "c"))
    assert only_c.to_pylist() == [{"k": 1, "p": "c"}]
    assert rows[3][0].rpartition("/")[2] in files(table)


def test_buckets_of_an_append_table_are_kept() -> None:
    table = append_table(bucket="3", bucket_key="k")
    put(table, *((k, "x") for k in range(20)))
    change(table, [(path, at, UPDATE, (v[0], "y")) for path, at, v in placed(table) if v[0] % 3 == 0])
    assert values(table) == sorted(((k, "y" if k % 3 == 0 else "x") for k in range(20)), key=repr)
    for k in range(20):
        assert len(read_arrow(table, predicate=Comparison("=", "k", k))) == 1


def test_nulls_of_untouched_rows_do_not_become_defaults() -> None:
    plain = append_table()
    put(plain, (1, None), (2, "b"), (3, "c"))
    k, v = plain.schema.fields
    table = at_next_schema(plain, fields=(k, replace(v, default_value="new")))
    rows = {v[0]: (path, at) for path, at, v in placed(table)}
    change(table, [(*rows[2], UPDATE, (2, "B")), (*rows[3], UPDATE, (3, None))])
    assert values(table) == [(1, None), (2, "B"), (3, "new")]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_changes_of_large_files_keep_the_order(file_format: str) -> None:
    table = append_table(file__format=file_format, file__block_size="16 kb")
    put(table, *((k, f"{k:04}" * 5) for k in range(5000)))
    rows = placed(table)
    gone = [(path, at, DELETE, (None, None)) for path, at, v in rows if v[0] % 7 == 0]
    new = [(path, at, UPDATE, (v[0], "new")) for path, at, v in rows if v[0] % 5 == 0 and v[0] % 7]
    change(table, [*gone, *new])
    expected = [(k, "new" if k % 5 == 0 else f"{k:04}" * 5) for k in range(5000) if k % 7]
    assert [v for _, _, v in placed(table)] == expected


def test_a_file_that_another_commit_replaces_is_a_conflict() -> None:
    table = append_table()
    put(table, (1, "a"), (2, "b"))
    (path, at, _), (_, other, _) = placed(table)
    plan = plan_changes(table, "DELETE")
    with CopyOnWriteRewriter(table, plan.info) as patcher:
        for part in batch(table, [(path, at, DELETE, (None, None))]).to_batches():
            patcher.change(part)
        messages = patcher.finish()
    change(table, [(path, other, UPDATE, (2, "B"))])
    before = stored(table)
    with pytest.raises(ConflictError, match="gone"):
        finish_changes(plan, messages, LocalRunner())
    assert values(table) == [(1, "a"), (2, "B")]
    assert stored(table) == before - {f.file_name for m in messages for f in m.new_files}
    with pytest.raises(ConflictError, match="gone"):
        change(table, [(path, at, DELETE, (None, None))])
    assert values(table) == [(1, "a"), (2, "B")]


def test_rows_added_meanwhile_are_kept() -> None:
    table = append_table()
    put(table, (1, "a"))
    path, at, _ = placed(table)[0]
    put(table, (2, "b"))
    change(table, [(path, at, DELETE, (None, None))])
    assert values(table) == [(2, "b")]


def test_a_compaction_meanwhile_is_a_conflict() -> None:
    table = append_table()
    put(table, (0, "x"))
    path, at, _ = placed(table)[0]
    for k in range(1, 12):
        put(table, (k, "x"))
    assert path.rpartition("/")[2] not in files(table)
    with pytest.raises(ConflictError, match="gone"):
        change(table, [(path, at, DELETE, (None, None))])
    assert len(values(table)) == 12


def test_changes_that_do_not_fit_the_files_leave_nothing_behind() -> None:
    table = append_table()
    put(table, (1, "a"), (2, "b"))
    path, _, _ = placed(table)[0]
    before = stored(table)
    with pytest.raises(EngineError, match="beyond the end"):
        change(table, [(None, None, INSERT, (3, "c")), (path, 9, DELETE, (None, None))])
    assert stored(table) == before


def test_tables_that_are_not_changed_by_files_are_refused() -> None:
    keyed = new_table({"k": "INT"}, primary_key=["k"], options={"bucket": "1"})
    with pytest.raises(UsageError, match="primary key"):
        plan_changes(keyed, "DELETE")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_changes_give_what_a_list_would(data: st.DataObject) -> None:
    table = append_table()
    for start in range(0, data.draw(st.integers(1, 4)) * 10, 10):
        put(table, *((k, str(k)) for k in range(start, start + data.draw(st.integers(1, 10)))))
    for round_number in range(2):
        rows = placed(table)
        expected, changes = [], []
        for path, at, v in rows:
            what = data.draw(st.sampled_from(["keep", "delete", "update"]))
            if what == "delete":
                changes.append((path, at, DELETE, (None, None)))
            elif what == "update":
                changes.append((path, at, UPDATE, (v[0], f"r{round_number}")))
                expected.append((v[0], f"r{round_number}"))
            else:
                expected.append(v)
        change(table, changes)
        assert values(table) == sorted(expected, key=repr)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.0])
def test_files_to_replace_are_found_in_a_partition_of_any_number(value: float) -> None:
    table = append_table({"k": "INT", "p": "DOUBLE"}, partition=["p"])
    put(table, (1, value), (2, 1.5))
    ((path, index),) = [(path, index) for path, index, row in placed(table) if row[0] == 1]
    assert isinstance(change(table, [(path, index, DELETE, (1, value))]).commit, Committed)
    assert [row for *_, row in placed(table)] == [(2, 1.5)]

"""Data evolution: rows whose columns are in several files, read, filtered, deleted and added to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.api.row_changes import deletions
from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.metadata.row_ranges import row_ranges
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.table import Table
from paimon_spark.core.write.rolling import RollingWriter
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.row_level import RowChanges, change_arrow, plan_changes, with_all_rows
from paimon_spark.engine.select import plan_select
from paimon_spark.errors import CorruptTableError, UnsupportedError
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.kinds import FileSource, Operation
from paimon_spark.spec.manifest import EMPTY_ROW, DataFileMeta
from paimon_spark.spec.predicate import Comparison, Predicate
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.tables import new_table, read_arrow
from tests.small_tables import frame, put, rows

EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
MARKED = {"deletion-vectors.enabled": "true"}
PLACES = ("__paimon_file_path", "__paimon_row_index", "_ROW_ID", "_SEQUENCE_NUMBER")


class CountingFileIO(InMemoryFileIO):
    """Remembers which files were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []

    def open_input(self, path: str) -> Any:
        self.opened.append(path.rpartition("/")[2])
        return super().open_input(path)


def evolving_table(options: Mapping[str, str] | None = None, **more: Any) -> Table:
    columns = {"k": "INT", "v": "STRING", "n": "INT"}
    return new_table(columns, options=EVOLVING | dict(options or {}), file_io=CountingFileIO(), **more)


def put_columns(table: Table, first_row_id: int, rows: int | None = None, **columns: Sequence[Any]) -> DataFileMeta:
    """Write other values of some columns of rows that are in the table, from `first_row_id` on."""
    fields = tuple(f for f in table.schema.fields if f.name in columns)
    part = replace(table, schema=replace(table.schema, fields=fields))
    writer = RollingWriter(part, EMPTY_ROW, 0, level=0, source=FileSource.APPEND)
    writer.write(frame(part, list(zip(*(columns[f.name] for f in fields), strict=True))))
    (file,) = writer.close()
    file = replace(file, write_cols=tuple(f.name for f in fields), first_row_id=first_row_id)
    file = file if rows is None else replace(file, row_count=rows)
    message = CommitMessage(partition=EMPTY_ROW, bucket=0, total_buckets=-1, new_files=(file,))
    FileStoreCommit(table).commit([message])
    return file


def placed(table: Table) -> list[dict[str, Any]]:
    plan = plan_select(table)
    found = (b for s in plan.splits for b in read_split(plan.table, s, plan.columns, metadata_columns=PLACES))
    return [r for b in found for r in b.to_pylist()]


def delete(table: Table, predicate: Predicate) -> None:
    change_arrow(table, deletions(plan_select(with_all_rows(table), columns=(), predicate=predicate)), Operation.DELETE)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_the_newest_value_of_each_column_is_read(file_format: str) -> None:
    table = evolving_table({"file.format": file_format})
    put(table, (1, "a", 10), (2, "b", 20))
    put(table, (3, "c", 30))
    put_columns(table, 0, v=["A", None])
    put_columns(table, 0, n=[11, 21], v=["AA", "BB"])
    put_columns(table, 0, v=["x", "y"])
    assert rows(table) == [(1, "x", 11), (2, "y", 21), (3, "c", 30)]
    assert rows(table.with_options({"scan.snapshot-id": "3"})) == [(1, "A", 10), (2, None, 20), (3, "c", 30)]
    assert read_arrow(table, columns=["n", "k"]).to_pylist()[1] == {"n": 21, "k": 2}
    assert plan_select(table).row_count == 3
    assert read_arrow(table, columns=[]).num_rows == 3
    assert read_arrow(table, limit=2).num_rows == 2
    assert [(r["_ROW_ID"], r["_SEQUENCE_NUMBER"]) for r in placed(table)] == [(0, 5), (1, 5), (2, 2)]
    assert violations(table) == []


def test_only_files_with_wanted_columns_are_opened() -> None:
    table = evolving_table()
    put(table, (1, "a", 10), (2, "b", 20))
    name = next(e.file.file_name for e in scan(table, table.snapshots.latest()).entries)
    newer = put_columns(table, 0, v=["A", "B"]).file_name
    for columns, wanted in {("k", "n"): {name}, ("v",): {newer}, ("v", "n"): {name, newer}}.items():
        table.file_io.opened.clear()
        read_arrow(table, columns=columns)
        assert {n for n in table.file_io.opened if n.startswith("data-")} == wanted


def test_filters_use_the_newest_statistics() -> None:
    table = evolving_table()
    put(table, (1, "a", 10), (2, "b", 20))
    put(table, (3, "c", 300))
    put_columns(table, 0, n=[100, 200])
    assert rows(table, Comparison("=", "n", 100)) == [(1, "a", 100)]
    assert rows(table, Comparison("=", "n", 10)) == []
    snapshot = table.snapshots.latest()
    assert len(scan(table, snapshot, predicate=Comparison("<", "n", 100)).entries) == 0
    assert len(scan(table, snapshot, predicate=Comparison("<", "n", 101)).entries) == 2
    assert len(scan(table, snapshot, predicate=Comparison("=", "k", 3)).entries) == 1
    assert rows(table, Comparison("=", "v", "b")) == [(2, "b", 200)]


def test_columns_added_later() -> None:
    table = evolving_table()
    put(table, (1, "a", 10))
    wide = replace(table.schema, id=1, fields=(*table.schema.fields, replace(table.schema.fields[0], id=3, name="x")))
    assert table.schema_store.try_create(replace(wide, highest_field_id=3))
    table = table.with_schema(replace(wide, highest_field_id=3))
    put(table, (2, "b", 20, 7))
    assert rows(table) == [(1, "a", 10, None), (2, "b", 20, 7)]
    put_columns(table, 0, x=[5])
    assert rows(table) == [(1, "a", 10, 5), (2, "b", 20, 7)]
    assert rows(table, Comparison("=", "x", 5)) == [(1, "a", 10, 5)]


def test_many_chunks_are_put_together() -> None:
    table = evolving_table({"file.block-size": "64 kb", "parquet.page.size": "4 kb"})
    count = 200_000
    write_arrow(
        table,
        pa.table({"k": range(count), "v": [f"v{i % 7}" for i in range(count)], "n": [0] * count}).cast(
            to_arrow_schema(table.schema.fields)
        ),
    )
    put_columns(table, 0, n=range(count))
    got = read_arrow(table)
    assert got.column("k").equals(got.column("n"))
    assert rows(table, Comparison("=", "n", count - 1)) == [(count - 1, f"v{(count - 1) % 7}", count - 1)]


def test_deleted_rows_stay_deleted() -> None:
    table = evolving_table(MARKED)
    put(table, (1, "a", 10), (2, "b", 20), (3, "c", 30))
    put_columns(table, 0, v=["A", "B", "C"])
    delete(table, Comparison("=", "v", "B"))
    assert rows(table) == [(1, "A", 10), (3, "C", 30)]
    assert plan_select(table).row_count == 2
    put_columns(table, 0, n=[11, 21, 31])
    assert rows(table) == [(1, "A", 11), (3, "C", 31)]
    assert read_arrow(table, columns=["v"]).to_pylist() == [{"v": "A"}, {"v": "C"}]
    delete(table, Comparison("=", "n", 31))
    assert rows(table) == [(1, "A", 11)]
    assert [r["_ROW_ID"] for r in placed(table)] == [0]
    assert violations(table) == []


def test_what_would_lose_columns_is_refused() -> None:
    table = evolving_table(partition=["k"])
    put(table, (1, "a", 10))
    with pytest.raises(UnsupportedError, match="not rewritten to delete rows"):
        plan_changes(table, Operation.DELETE)
    with pytest.raises(UnsupportedError, match="UPDATE cannot change the partition column 'k'"):
        plan_changes(table, Operation.UPDATE, changes=RowChanges(("v", "k")))
    with pytest.raises(UnsupportedError, match="time of their creation"):
        read_arrow(table.with_options({"scan.file-creation-time-millis": "1"}))


def test_rows_are_added_and_overwritten() -> None:
    table = evolving_table()
    put(table, (1, "a", 10), (2, "b", 20))
    put_columns(table, 0, v=["A", "B"])
    write_arrow(table, frame(table, [(9, "z", 90)]), overwrite="static")
    assert rows(table) == [(9, "z", 90)]
    assert [r["_ROW_ID"] for r in placed(table)] == [2]
    assert violations(table) == []


@pytest.mark.parametrize("mode", ["delta", "diff"])
def test_added_rows_are_changes_and_new_values_are_refused(mode: str) -> None:
    table = evolving_table({"incremental-between-scan-mode": mode})
    put(table, (1, "a", 10))
    put(table, (2, "b", 20))
    put(table, (3, "c", 30))
    assert rows(table.with_options({"incremental-between": "1,3"})) == [(2, "b", 20), (3, "c", 30)]
    put_columns(table, 0, v=["A"])
    with pytest.raises(UnsupportedError, match=r"Snapshot 4 .* new values of rows"):
        rows(table.with_options({"incremental-between": "3,4"}))


def test_new_values_are_refused_after_expiry_too() -> None:
    table = evolving_table()
    put(table, (1, "a", 10))
    put(table, (2, "b", 20))
    put_columns(table, 0, v=["A"])
    put(table, (3, "c", 30))
    for gone in (1, 2):
        table.file_io.delete(f"{table.path}/snapshot/snapshot-{gone}")
    table.file_io.delete(f"{table.path}/snapshot/EARLIEST")
    with pytest.raises(UnsupportedError, match=r"Snapshot 3 .* new values of rows"):
        rows(table.with_options({"incremental-between": "2,4"}))
    assert rows(table.with_options({"incremental-between": "3,4"})) == [(3, "c", 30)]


def test_files_that_do_not_fit_together() -> None:
    table = evolving_table()
    put(table, (1, "a", 10), (2, "b", 20))
    put_columns(table, 0, v=["A"])
    with pytest.raises(CorruptTableError, match="do not hold the same rows"):
        rows(table)
    with pytest.raises(CorruptTableError, match="no other file holds"):
        row_ranges(
            [
                DataFileMeta(
                    file_name="x.blob",
                    file_size=1,
                    row_count=1,
                    min_sequence_number=1,
                    max_sequence_number=1,
                    schema_id=0,
                    level=0,
                    first_row_id=0,
                )
            ]
        )


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_history_is_read_as_written(data: st.DataObject) -> None:
    table, model, ranges, fresh = evolving_table(MARKED), dict[int, dict[str, Any]](), list[tuple[int, int]](), 0
    small = st.one_of(st.none(), st.integers(0, 9))
    for _ in range(6):
        step = data.draw(st.sampled_from(["put", "columns", "columns", "delete"]))
        if step == "put" or not ranges:
            count = data.draw(st.integers(1, 4))
            new = [{"k": fresh + i, "v": "ab"[i % 2], "n": data.draw(small)} for i in range(count)]
            put(table, *(tuple(r.values()) for r in new))
            model |= {fresh + i: r for i, r in enumerate(new)}
            ranges.append((fresh, count))
            fresh += count
        elif step == "columns":
            first, count = data.draw(st.sampled_from(ranges))
            names = data.draw(st.sets(st.sampled_from(["n", "v"]), min_size=1))
            values = {c: [data.draw(small) for _ in range(count)] for c in sorted(names)}
            values = {c: [None if x is None else str(x) for x in v] if c == "v" else v for c, v in values.items()}
            put_columns(table, first, **values)
            for c, v in values.items():
                for i, x in enumerate(v):
                    if first + i in model:
                        model[first + i] |= {c: x}
        else:
            limit = data.draw(st.integers(0, 9))
            delete(table, Comparison(">", "n", limit))
            model = {i: r for i, r in model.items() if r["n"] is None or r["n"] <= limit}
        expected = [model[i] for i in sorted(model)]
        assert [{c: r[c] for c in "kvn"} for r in placed(table)] == expected
        assert [r["_ROW_ID"] for r in placed(table)] == sorted(model)
        wanted = [tuple(r.values()) for r in expected if r["n"] is not None and r["n"] < 5]
        assert rows(table, Comparison("<", "n", 5)) == wanted
        assert plan_select(table).row_count == len(model)
        assert violations(table) == []

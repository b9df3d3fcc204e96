"""Row tracking: ids and numbers of new rows, and what keeps them: updates, deletes, compactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.scan.splits import plan_splits
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.redistribution.sort_compact import plan_sort
from paimon_spark.engine.row_level import change_arrow
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import CorruptTableError, UnsupportedError
from paimon_spark.spec.clustering import Order
from paimon_spark.spec.features import check_writable
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.predicate import Comparison
from paimon_spark.testing.invariants import leaked, violations
from paimon_spark.testing.tables import new_table, read_arrow
from tests.small_tables import frame, option_keys, put

INSERT, UPDATE, DELETE = 0, 2, 3
PLACES = ("__paimon_file_path", "__paimon_row_index", "__paimon_deletion_vector", "_ROW_ID", "_SEQUENCE_NUMBER")
MARKED = {"deletion_vectors__enabled": "true"}
Tracked = dict[int, tuple[int, int, str]]
"""By number: id, snapshot of the last change, value."""


def tracking_table(*, partition: Sequence[str] = (), **options: str) -> Table:
    given_options = option_keys(options)
    fixed = {"row-tracking.enabled": "true", "write-only": "true", "compaction.min.file-num": "2"}
    return new_table({"k": "INT", "v": "STRING"}, partition=partition, options=fixed | given_options)


def rows(table: Table) -> list[dict[str, Any]]:
    """Every row with its place and tracking columns."""
    splits = plan_splits(table, scan(table, table.snapshots.latest()))
    return [r for s in splits for b in read_split(table, s, metadata_columns=PLACES) for r in b.to_pylist()]


def tracked(table: Table) -> Tracked:
    return {r["k"]: (r["_ROW_ID"], r["_SEQUENCE_NUMBER"], r["v"]) for r in rows(table)}


def files(table: Table) -> list[DataFileMeta]:
    return [e.file for e in scan(table, table.snapshots.latest()).entries]


def change(table: Table, changes: dict[int, str | None], new: Sequence[tuple[Any, ...]] = ()) -> None:
    """Give rows other values, or delete them (None)."""
    old = sorted(
        (r for r in rows(table) if r["k"] in changes), key=lambda r: (r["__paimon_file_path"], r["__paimon_row_index"])
    )
    values = [*new, *((r["k"], changes[r["k"]]) for r in old)]
    kinds = [*(INSERT for _ in new), *(DELETE if changes[r["k"]] is None else UPDATE for r in old)]
    batch = frame(table, values).append_column(ROW_KIND, pa.array(kinds, pa.int8()))
    places = zip(PLACES[:3], (pa.string(), pa.int64(), pa.int64()), strict=True)
    for name, kind in places:
        batch = batch.append_column(name, pa.array([*(None for _ in new), *(r[name] for r in old)], kind))
    change_arrow(table, batch, "MERGE")


def compact(table: Table) -> None:
    execute_compaction(plan_compaction(table, strategy=Strategy.FULL), LocalRunner())


def next_row_id(table: Table) -> int | None:
    snapshot = table.snapshots.latest()
    return None if snapshot is None else snapshot.next_row_id


@pytest.mark.parametrize("marked", [{}, MARKED], ids=["rewritten", "marked"])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_ids_stay_with_their_rows(file_format: str, marked: dict[str, str]) -> None:
    table = tracking_table(file__format=file_format, **marked)
    put(table, (1, "a"), (2, "b"), (3, "c"))
    assert tracked(table) == {1: (0, 1, "a"), 2: (1, 1, "b"), 3: (2, 1, "c")}
    change(table, {2: "B"})
    change(table, {1: None})
    assert tracked(table) == {2: (1, 2, "B"), 3: (2, 1, "c")}
    assert next_row_id(table) == 3
    put(table, (4, "d"))
    assert tracked(table)[4] == (3, 4, "d")
    change(table, {3: "C"}, new=[(5, "e"), (6, "f")])
    expected = {2: (1, 2, "B"), 3: (2, 5, "C"), 4: (3, 4, "d"), 5: (4, 5, "e"), 6: (5, 5, "f")}
    assert tracked(table) == expected
    compact(table)
    assert tracked(table) == expected
    assert [f.first_row_id for f in files(table)] == [None]
    assert next_row_id(table) == 6
    assert violations(table) == []
    assert leaked(table) == set()


@pytest.mark.parametrize("compacted", [False, True])
def test_ids_go_on_after_a_release_that_does_not_know_them(*, compacted: bool) -> None:
    table = tracking_table()
    put(table, (1, "a"), (2, "b"))
    if compacted:
        put(table, (3, "c"))
        compact(table)
    before = table.snapshots.latest()
    assert before is not None
    table.snapshots.try_create(replace(before, id=before.id + 1, next_row_id=None))
    put(table, (9, "z"))
    assert tracked(table)[9][0] == before.next_row_id
    assert next_row_id(table) == (before.next_row_id or 0) + 1


@pytest.mark.parametrize("marked", [{}, MARKED], ids=["rewritten", "marked"])
def test_compaction_leaves_files_whose_rows_have_no_ids(marked: dict[str, str]) -> None:
    tracking = tracking_table(**marked)
    untracked = {k: v for k, v in tracking.schema.options.items() if k != "row-tracking.enabled"}
    table = new_table({"k": "INT", "v": "STRING"}, options=untracked)
    put(table, (1, "a"), (2, "b"))
    tracked_from_now_on = replace(table.schema, id=1, options=tracking.schema.options)
    table.schema_store.try_create(tracked_from_now_on)
    table = Table.of(table.identifier, table.path, tracked_from_now_on, table.file_io)
    (without,) = files(table)
    assert without.first_row_id is None
    for k in range(3, 7):
        put(table, (k, "c"))
    compact(table)
    kept, compacted = sorted(files(table), key=lambda f: f.write_cols is not None)
    assert kept == without
    assert compacted.row_count == 4
    assert sorted(r["k"] for r in read_arrow(table).to_pylist()) == [1, 2, 3, 4, 5, 6]


def test_records_say_what_they_hold() -> None:
    table = tracking_table()
    put(table, (1, "a"), (2, "b"), (3, "c"))
    (file,) = files(table)
    assert (file.first_row_id, file.write_cols, file.min_sequence_number, file.max_sequence_number) == (0, None, 1, 1)
    change(table, {2: "B"})
    (file,) = files(table)
    assert file.first_row_id is None
    assert file.write_cols == ("k", "v", "_ROW_ID", "_SEQUENCE_NUMBER")
    assert file.value_stats_cols == ("k", "v")
    assert (file.min_sequence_number, file.max_sequence_number) == (1, 2)
    assert read_arrow(table, predicate=Comparison(">", "k", 2)).to_pylist() == [{"k": 3, "v": "c"}]
    assert scan(table, table.snapshots.latest(), predicate=Comparison(">", "k", 9)).entries == ()
    change(table, {1: "A", 2: "BB", 3: "C"})
    (file,) = files(table)
    assert (file.min_sequence_number, file.max_sequence_number) == (3, 3)


def test_files_of_one_commit_follow_each_other() -> None:
    table = tracking_table(partition=("v",), target_file_row_num="2")
    put(table, *((k, "ab"[k % 2]) for k in range(10)))
    found = tracked(table)
    assert sorted(row_id for row_id, _, _ in found.values()) == list(range(10))
    assert {number for _, number, _ in found.values()} == {1}
    assert sorted(row_id for row_id, _, v in found.values() if v == "a") in ([0, 1, 2, 3, 4], [5, 6, 7, 8, 9])
    change(table, {4: "b"})
    assert tracked(table)[4] == (found[4][0], 2, "b")
    write_arrow(table, frame(table, [(1, "b")]), overwrite="dynamic")
    assert tracked(table)[1] == (10, 3, "b")


def test_rows_without_ids_are_told() -> None:
    plain = new_table({"k": "INT", "v": "STRING"}, options={"write-only": "true"})
    put(plain, (1, "a"))
    table = plain.with_options({})
    splits = plan_splits(table, scan(table, table.snapshots.latest()))
    with pytest.raises(CorruptTableError, match="ids of its rows"):
        list(read_split(table, splits[0], metadata_columns=PLACES))


def test_what_is_not_tracked_is_refused() -> None:
    keyed = new_table({"k": "INT"}, primary_key=("k",))
    both = replace(keyed.schema, options={"row-tracking.enabled": "true"})
    with pytest.raises(UnsupportedError, match=r"row-tracking\.enabled.*cannot be written"):
        check_writable(both)
    with pytest.raises(UnsupportedError, match="cannot be sorted"):
        plan_sort(tracking_table(), Order.ORDER, ["k"], None)


def test_updates_of_marked_rows_are_new_files_with_ids() -> None:
    table = tracking_table(**MARKED)
    put(table, (1, "a"), (2, "b"), (3, "c"))
    change(table, {2: "B"}, new=[(4, "d")])
    added = sorted(files(table), key=lambda f: f.first_row_id is None)
    assert [f.row_count for f in added] == [3, 1, 1]
    old, new, updated = added
    assert (old.first_row_id, new.first_row_id, updated.first_row_id) == (0, 3, None)
    assert updated.write_cols == ("k", "v", "_ROW_ID", "_SEQUENCE_NUMBER")
    change(table, {2: "BB", 4: "D"})
    assert tracked(table) == {1: (0, 1, "a"), 2: (1, 3, "BB"), 3: (2, 1, "c"), 4: (3, 3, "D")}
    assert next_row_id(table) == 4
    assert violations(table) == []


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_history_keeps_ids(data: st.DataObject) -> None:
    table, model, fresh = (
        tracking_table(**data.draw(st.sampled_from([{}, MARKED]))),
        dict[int, tuple[int, int, str]](),
        0,
    )
    for _ in range(5):
        step = data.draw(st.sampled_from(["put", "change", "compact"]))
        snapshot = (table.snapshots.latest_id() or 0) + 1
        if step == "put":
            count = data.draw(st.integers(1, 5))
            put(table, *((fresh + i, "n") for i in range(count)))
            model |= {fresh + i: (fresh + i, snapshot, "n") for i in range(count)}
            fresh += count
        elif step == "change" and model:
            chosen = data.draw(st.dictionaries(st.sampled_from(sorted(model)), st.sampled_from(["x", "y", None])))
            change(table, chosen)
            for k, v in chosen.items():
                row_id = model.pop(k)[0]
                if v is not None:
                    model[k] = (row_id, snapshot, v)
        else:
            compact(table)
        assert tracked(table) == model
        assert violations(table) == []

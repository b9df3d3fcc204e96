"""Deletion vectors of append tables: what a change marks, what stays, what concurrent commits do, what compaction drops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.api.row_changes import deletions
from paimon_spark.core.columns import FILE_PATH, ROW_INDEX, ROW_KIND, VECTOR
from paimon_spark.core.commit_message import CommitMessage, messages_from_json, messages_to_json
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.core.row_level.position_deletes import PositionDeleteWriter
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.scan.splits import plan_splits
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import TableWriter
from paimon_spark.engine.compaction.compact import CompactionPlan, Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.insert import WritePlan, finish_write, plan_write, write_arrow
from paimon_spark.engine.row_level import change_arrow, finish_changes, plan_changes
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import SelectPlan, plan_select
from paimon_spark.errors import ConflictError, EngineError, UnsupportedError
from paimon_spark.spec.kinds import CommitKind
from paimon_spark.spec.manifest import IndexManifestEntry
from paimon_spark.spec.predicate import Comparison
from paimon_spark.testing.invariants import leaked, violations
from paimon_spark.testing.tables import new_table, read_arrow
from tests.small_tables import at_next_schema, frame, put

INSERT, UPDATE, DELETE = 0, 2, 3
UNAWARE: dict[str, str] = {}
BUCKETED = {"bucket": "2", "bucket-key": "k"}
ONE_BUCKET = {"bucket": "1", "bucket-key": "k"}
Place = tuple[str | None, int | None, int | None]
NEW: Place = (None, None, None)
Change = tuple[Place, int, tuple[Any, ...]]


def marking_table(options: dict[str, str] | None = None, *, partition: Sequence[str] = ()) -> Table:
    given_options = {"deletion-vectors.enabled": "true", "write-only": "true", **(options or {})}
    return new_table({"k": "INT", "v": "STRING"}, partition=partition, options=given_options)


def put_named(table: Table, name: str, *rows: tuple[Any, ...]) -> None:
    """Write rows into one file of that name in each of their partitions."""
    plan = plan_write(table)
    with TableWriter(table, plan.info) as writer:
        writer.write(frame(table, rows))
        finish_write(plan, [renamed(table, m, name) for m in writer.finish()])


def renamed(table: Table, message: CommitMessage, name: str) -> CommitMessage:
    (file,) = message.new_files
    other = replace(file, file_name=name)
    old, new = (table.paths.data_file(message.partition, message.bucket, f) for f in (file, other))
    assert table.file_io.rename(old, new)
    return replace(message, new_files=(other,))


def placed(table: Table) -> dict[int, tuple[Place, tuple[Any, ...]]]:
    """Every row by its number, with its place."""
    found = {}
    for split in plan_splits(table, scan(table, table.snapshots.latest())):
        for batch in read_split(table, split, metadata_columns=(FILE_PATH, ROW_INDEX, VECTOR)):
            for row in batch.to_pylist():
                place = row.pop(FILE_PATH), row.pop(ROW_INDEX), row.pop(VECTOR)
                found[row["k"]] = place, tuple(row.values())
    return found


def batch(table: Table, changes: Sequence[Change]) -> pa.Table:
    rows = frame(table, [c[2] for c in changes])
    rows = rows.append_column(ROW_KIND, pa.array([c[1] for c in changes], pa.int8()))
    for i, (name, kind) in enumerate([(FILE_PATH, pa.string()), (ROW_INDEX, pa.int64()), (VECTOR, pa.int64())]):
        rows = rows.append_column(name, pa.array([c[0][i] for c in changes], kind))
    return rows


def change(table: Table, *changes: Change, operation: Any = "UPDATE") -> None:
    change_arrow(table, batch(table, changes), operation)


def delete(table: Table, *numbers: int) -> None:
    rows = placed(table)
    change(table, *((rows[k][0], DELETE, (k, None)) for k in numbers), operation="DELETE")


def begun(table: Table, *changes: Change) -> tuple[WritePlan, Any]:
    """Do all of a change but the commit, as tasks elsewhere do."""
    plan = plan_changes(table, "UPDATE")
    with PositionDeleteWriter(table, plan.info) as marker:
        for part in batch(table, changes).to_batches():
            marker.change(part)
        return plan, messages_from_json(messages_to_json(marker.finish()))


def values(table: Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(r.values()) for r in read_arrow(table).to_pylist()), key=repr)


def files(table: Table) -> set[str]:
    return {e.file.file_name for e in scan(table, table.snapshots.latest()).entries}


def index(table: Table) -> tuple[IndexManifestEntry, ...]:
    return scan(table, table.snapshots.latest()).index_entries


def marked(table: Table) -> dict[str, int | None]:
    return {r.data_file: r.cardinality for e in index(table) for r in e.file.deletion_ranges or ()}


def plan_full(table: Table) -> CompactionPlan:
    return plan_compaction(table, strategy=Strategy.FULL)


@pytest.mark.parametrize("options", [UNAWARE, BUCKETED, {"deletion-vectors.bitmap64": "true"}])
def test_rows_are_marked_and_new_versions_added(options: dict[str, str]) -> None:
    table = marking_table(options)
    put(table, *((k, "x") for k in range(10)))
    before, rows = files(table), placed(table)
    change(table, (rows[1][0], DELETE, (1, None)), (rows[5][0], UPDATE, (5, "y")), (NEW, INSERT, (20, "z")))
    kept = [(k, "x") for k in range(10) if k not in (1, 5)]
    assert values(table) == sorted([*kept, (5, "y"), (20, "z")], key=repr)
    assert before < files(table)
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    assert (snapshot.commit_kind, snapshot.operation) == (CommitKind.OVERWRITE, "UPDATE")
    assert (snapshot.total_record_count, snapshot.delta_record_count) == (12, 2)
    assert plan_select(table).row_count == 10
    assert {e.bucket for e in index(table)} <= ({0, 1} if options is BUCKETED else {0})
    delete(table, 0, 5, 6)
    assert values(table) == sorted([*((k, v) for k, v in kept if k not in (0, 6)), (20, "z")], key=repr)
    assert sum(n or 0 for n in marked(table).values()) == 5
    if options is BUCKETED:
        assert len(index(table)) == len({e.bucket for e in index(table)})
    assert violations(table) == []
    assert leaked(table) == set()


@pytest.mark.parametrize("marks", ["true", "false"])
def test_files_of_one_name_in_several_partitions(marks: str) -> None:
    """Migrations keep the names of files, and Hive writes a 000000_0 into every partition."""
    table = marking_table({"deletion-vectors.enabled": marks}, partition=["v"])
    put_named(table, "000000_0.parquet", (1, "a"), (2, "a"), (3, "b"), (4, "b"))
    assert files(table) == {"000000_0.parquet"}
    delete(table, 1, 4)
    assert values(table) == [(2, "a"), (3, "b")]
    execute_compaction(plan_full(table), LocalRunner())
    assert values(table) == [(2, "a"), (3, "b")]


def test_changes_are_refused_after_vectors_are_switched_off() -> None:
    table = marking_table()
    put(table, *((k, "x") for k in range(4)))
    delete(table, 1)
    off = at_next_schema(table, options={**table.schema.options, "deletion-vectors.enabled": "false"})
    with pytest.raises(UnsupportedError, match="deletion vectors are disabled"):
        delete(off, 2)
    assert values(off) == [(0, "x"), (2, "x"), (3, "x")]
    execute_compaction(plan_full(off), LocalRunner())
    delete(off, 2)
    assert values(off) == [(0, "x"), (3, "x")]


@pytest.mark.parametrize("options", [UNAWARE, ONE_BUCKET])
def test_two_tasks_that_mark_rows_of_one_file_are_refused(options: dict[str, str]) -> None:
    table = marking_table(options)
    put(table, *((k, "x") for k in range(4)))
    before, places = values(table), placed(table)
    plan, first = begun(table, (places[1][0], DELETE, (1, None)))
    _, second = begun(table, (places[2][0], DELETE, (2, None)))
    with pytest.raises(ConflictError, match=r"names the file .* twice"):
        finish_changes(plan, [*first, *second], LocalRunner())
    assert values(table) == before
    assert leaked(table) == set()


def test_vectors_replaced_and_expired_before_the_compaction() -> None:
    table = marking_table()
    put(table, (1, "a"), (2, "a"), (3, "a"))
    delete(table, 1)
    plan = plan_full(table)
    delete(table, 2)
    execute_expire(table, plan_expire(table, ExpireConfig(retain_max=1, retain_min=1), 10**15))
    with pytest.raises(ConflictError, match="lost more rows to another commit"):
        execute_compaction(plan, LocalRunner())
    assert values(table) == [(3, "a")]
    assert violations(table) == []


def test_neighbours_in_an_index_file_stay() -> None:
    table = marking_table()
    for k in range(0, 30, 10):
        put(table, *((i, "x") for i in range(k, k + 10)))
    delete(table, 1, 11, 21)
    assert [e.file.row_count for e in index(table)] == [3]
    delete(table, 12)
    assert sorted(e.file.row_count for e in index(table)) == [1, 2]
    assert sorted(n or 0 for n in marked(table).values()) == [1, 1, 2]
    assert len(values(table)) == 26
    assert violations(table) == []
    assert leaked(table) == set()


def test_index_files_are_cut_at_their_target_size() -> None:
    table = marking_table({"deletion-vector.index-file.target-size": "50 b"})
    for k in range(6):
        put(table, (k, "x"), (k + 10, "x"))
    delete(table, *range(6))
    assert [e.file.row_count for e in index(table)] == [2, 2, 2]
    delete(table, 10)
    assert len(values(table)) == 5
    assert sorted(e.file.row_count for e in index(table)) == [1, 1, 2, 2]


def test_partitions_have_index_files_of_their_own() -> None:
    table = marking_table(partition=("v",))
    put(table, (1, "a"), (2, "a"), (3, "b"), (4, "b"))
    delete(table, 1, 3)
    assert len({e.partition for e in index(table)}) == len(index(table)) == 2
    change(table, (placed(table)[2][0], UPDATE, (2, "c")))
    assert values(table) == [(2, "c"), (4, "b")]
    assert read_arrow(table, predicate=Comparison("=", "v", "a")).num_rows == 0
    write_arrow(table, frame(table, [(9, "b")]), overwrite="dynamic")
    assert values(table) == [(2, "c"), (9, "b")]
    assert len(index(table)) == 1
    write_arrow(table, frame(table, []), overwrite="static")
    assert index(table) == ()
    assert violations(table) == []


@pytest.mark.parametrize("options", [UNAWARE, BUCKETED])
def test_two_deletes_of_different_files_both_count(options: dict[str, str]) -> None:
    """Their vectors even stand in one index file, which both have to write anew."""
    table = marking_table(options)
    put(table, *((k, "x") for k in range(4)))
    put(table, *((k, "x") for k in range(10, 14)))
    delete(table, 0, 1, 2, 10, 11, 12)
    rows = placed(table)
    plan, messages = begun(table, (rows[3][0], UPDATE, (3, "y")))
    delete(table, 13)
    finish_changes(plan, messages, LocalRunner())
    assert values(table) == [(3, "y")]
    assert violations(table) == []
    assert leaked(table) == set()


@pytest.mark.parametrize("options", [UNAWARE, ONE_BUCKET])
def test_two_changes_of_one_file_conflict(options: dict[str, str]) -> None:
    table = marking_table(options)
    put(table, *((k, "x") for k in range(4)))
    for other in (0, 1):
        rows = placed(table)
        plan, messages = begun(table, (rows[3][0], UPDATE, (3, f"y{other}")))
        delete(table, other)
        with pytest.raises(ConflictError, match="Another commit deleted rows"):
            finish_changes(plan, messages, LocalRunner())
        with pytest.raises(ConflictError, match="Another commit deleted rows"):
            change(table, (rows[3][0], DELETE, (3, None)))
        assert leaked(table) == set()
    assert values(table) == [(2, "x"), (3, "x")]


@pytest.mark.parametrize("apart", [True, False])
def test_rows_of_one_file_must_be_chosen_at_one_time(apart: bool) -> None:
    table = marking_table(UNAWARE)
    put(table, *((k, "x") for k in range(4)))
    early = placed(table)
    delete(table, 0)
    late = placed(table)
    changes = [(late[1][0], DELETE, (1, None)), (early[2][0], DELETE, (2, None))]
    parts = [changes[:1], changes[1:]] if apart else [changes]
    with PositionDeleteWriter(table, plan_changes(table, "DELETE").info) as marker:
        *before, last = (rows for part in parts for rows in batch(table, part).to_batches())
        for rows in before:
            marker.change(rows)
        with pytest.raises(EngineError, match="selected with different deletion vectors"):
            marker.change(last)
    assert values(table) == [(1, "x"), (2, "x"), (3, "x")]
    assert leaked(table) == set()


@pytest.mark.parametrize("options", [UNAWARE, ONE_BUCKET])
def test_a_file_that_is_compacted_meanwhile_conflicts(options: dict[str, str]) -> None:
    table = marking_table({**options, "compaction.min.file-num": "2"})
    for k in range(12):
        put(table, (k, "x"))
    delete(table, 0)
    rows = placed(table)
    plan, messages = begun(table, *((rows[k][0], DELETE, (k, None)) for k in range(1, 12)))
    execute_compaction(plan_full(table), LocalRunner())
    with pytest.raises(ConflictError, match="is gone"):
        finish_changes(plan, messages, LocalRunner())
    with pytest.raises(ConflictError, match="is gone"):
        change(table, (rows[1][0], DELETE, (1, None)))
    assert len(values(table)) == 11
    assert sum(e.file.row_count for e in index(table)) == 0
    assert leaked(table) == set()


@pytest.mark.parametrize("options", [UNAWARE, ONE_BUCKET])
def test_a_compaction_gives_way_to_a_delete(options: dict[str, str]) -> None:
    table = marking_table(options)
    put(table, *((k, "x") for k in range(8)))
    delete(table, 0)
    plan = plan_full(table)
    delete(table, 1)
    with pytest.raises(ConflictError, match="Another commit deleted rows"):
        execute_compaction(plan, LocalRunner())
    assert len(values(table)) == 6
    assert leaked(table) == set()


@pytest.mark.parametrize("options", [UNAWARE, BUCKETED])
def test_compaction_drops_vectors_with_their_rows(options: dict[str, str]) -> None:
    table = marking_table(options)
    for k in range(0, 40, 10):
        put(table, *((i, "x") for i in range(k, k + 10)))
    delete(table, 1, 11)
    result = execute_compaction(plan_full(table), LocalRunner())
    assert result.total.rows_in - result.total.rows_out == 2
    assert len(values(table)) == 38
    assert sum(e.file.row_count for e in index(table)) == 0
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    assert snapshot.commit_kind is CommitKind.COMPACT
    assert snapshot.total_record_count == 38
    assert plan_full(table).is_empty
    assert violations(table) == []


def test_only_files_that_lost_many_rows_are_compacted_alone() -> None:
    table = marking_table({"target-file-size": "1 b", "compaction.small-file-ratio": "0.1"})
    put(table, *((k, "x") for k in range(20)))
    put(table, *((k, "x") for k in range(20, 40)))
    delete(table, *range(5), 21)
    untouched = {f for f, n in marked(table).items() if n == 1}
    for strategy in (Strategy.FULL, Strategy.MINOR):
        (task,) = plan_compaction(table, strategy=strategy).tasks
        assert [f.row_count for f in task.files] == [20]
        assert task.reason == "deleted rows"
        assert {f.file_name for f in task.files} == marked(table).keys() - untouched
    execute_compaction(plan_full(table), LocalRunner())
    assert marked(table).keys() == untouched
    assert len(values(table)) == 34
    assert violations(table) == []


def test_small_files_with_few_deletes_wait_for_full_compaction() -> None:
    table = marking_table()
    put(table, *((k, "x") for k in range(20)))
    delete(table, 1)
    assert plan_compaction(table, strategy=Strategy.MINOR).is_empty
    assert not plan_full(table).is_empty


def test_index_files_go_when_their_snapshots_expire() -> None:
    table = marking_table()
    put(table, *((k, "x") for k in range(20)))
    for k in range(5):
        delete(table, k)
    assert len(table.file_io.list(table.paths.index_dir)) == 5
    execute_expire(table, plan_expire(table, ExpireConfig(retain_max=1, retain_min=1), 1 << 60))
    assert len(table.file_io.list(table.paths.index_dir)) == 1
    assert len(values(table)) == 15
    assert leaked(table) == set()


def test_a_change_that_fails_leaves_nothing_behind() -> None:
    table = marking_table()
    put(table, (1, "a"), (2, "b"))
    path, _, vector = placed(table)[1][0]
    with pytest.raises(EngineError, match="beyond the end"):
        change(table, (NEW, INSERT, (3, "c")), ((path, 9, vector), DELETE, (1, None)))
    assert leaked(table) == set()
    assert values(table) == [(1, "a"), (2, "b")]


def test_many_positions_are_no_loop() -> None:
    table = marking_table()
    count = 300_000
    numbers = pa.array(np.arange(count, dtype=np.int32))
    write_arrow(table, pa.table({"k": numbers, "v": pa.nulls(count, pa.string())}))
    (split,) = plan_splits(table, scan(table, table.snapshots.latest()))
    chosen = SelectPlan(table=table, snapshot_id=1, splits=(split,), columns=(), predicate=Comparison(">=", "k", 10))
    change_arrow(table, deletions(chosen), "DELETE")
    assert plan_select(table).row_count == 10
    assert index(table)[0].file.file_size < 1000
    assert [k for k, _ in values(table)] == list(range(10))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_changes_give_what_a_list_would(data: st.DataObject) -> None:
    table = marking_table(data.draw(st.sampled_from([UNAWARE, BUCKETED])))
    for start in range(0, data.draw(st.integers(1, 4)) * 10, 10):
        put(table, *((k, str(k)) for k in range(start, start + data.draw(st.integers(1, 10)))))
    for round_number in range(3):
        expected, changes = [], []
        for k, (place, v) in placed(table).items():
            what = data.draw(st.sampled_from(["keep", "keep", "delete", "update"]))
            if what == "delete":
                changes.append((place, DELETE, (k, None)))
            else:
                new = (k, f"r{round_number}") if what == "update" else v
                expected.append(new)
                if what == "update":
                    changes.append((place, UPDATE, new))
        change(table, *changes)
        if data.draw(st.booleans()):
            execute_compaction(plan_full(table), LocalRunner())
        assert values(table) == sorted(expected, key=repr)
        assert violations(table) == []
        assert leaked(table) == set()

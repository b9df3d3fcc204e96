"""Reads of changes: the files of commits, the difference of two states, and the options for both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.core.scan.splits import splits_from_json, splits_to_json
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.refs.tags import execute_tag, plan_create_tag
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import ReadOptions, SelectPlan, plan_select, read_batches
from paimon_spark.errors import NotFoundError, OptionError, UnsupportedError
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.spec.kinds import RowKind
from paimon_spark.spec.predicate import Comparison
from paimon_spark.testing.tables import new_table
from tests.small_tables import option_keys

BETWEEN, MODE, TO_TAG = "incremental-between", "incremental-between-scan-mode", "incremental-to-auto-tag"
COLUMNS = {"id": "INT", "v": "STRING"}
KINDS = {k.short: int(k) for k in RowKind}


def keyed(**options: str) -> Table:
    given = option_keys(options)
    return new_table(COLUMNS, primary_key=["id"], options={"bucket": "1", "write-only": "true", **given})


def write(table: Table, *rows: tuple[Any, ...], kind: str = "+I") -> None:
    data = pa.Table.from_arrays([pa.array(c) for c in zip(*rows, strict=True)], names=table.schema.field_names).cast(
        to_arrow_schema(table.schema.fields).remove_metadata()
    )
    kinds = pa.array([KINDS[kind]] * len(rows), pa.int8())
    write_arrow(table, data.append_column(ROW_KIND, kinds) if table.is_primary_key_table else data)


def compact(table: Table) -> None:
    own = table.with_options({"write-only": "false"})
    execute_compaction(plan_compaction(own, strategy=Strategy.FULL), LocalRunner())


def tag(table: Table, name: str, snapshot: int) -> None:
    execute_tag(table, plan_create_tag(table, name, snapshot_id=snapshot, clock_millis=0))


def rows_of(plan: SelectPlan) -> list[tuple[Any, ...]]:
    found = pa.Table.from_batches(read_batches(plan), schema=plan.schema).to_pylist()
    rows = [tuple(r.values()) for r in found]
    if plan.keep_kinds:
        rows = [(RowKind(r[-1]).short, *r[:-1]) for r in rows]
    return sorted(rows, key=repr)


def plain(table: Table, **how: Any) -> list[tuple[Any, ...]]:
    return rows_of(plan_select(table, **how))


def audit(table: Table, **how: Any) -> list[tuple[Any, ...]]:
    return rows_of(plan_select(table, how=ReadOptions(keep_kinds=True), **how))


def between(table: Table, limits: str, mode: str = "auto", **options: str) -> Table:
    return table.with_options({BETWEEN: limits, MODE: mode, **options})


@pytest.fixture
def table() -> Table:
    """The snapshots: two rows, an update, a compaction, a delete."""
    table = keyed()
    write(table, (1, "a"), (2, "b"))
    write(table, (1, "c"), kind="+U")
    compact(table)
    write(table, (2, None), kind="-D")
    return table


@pytest.mark.parametrize(
    ("limits", "mode", "expected"),
    [
        ("0,1", "auto", [("+I", 1, "a"), ("+I", 2, "b")]),
        ("1,2", "auto", [("+U", 1, "c")]),
        ("2,3", "delta", []),
        ("1,4", "auto", [("+U", 1, "c"), ("-D", 2, None)]),
        ("1,4", "changelog", []),
        ("1,4", "diff", [("+U", 1, "c"), ("-D", 2, None)]),
        ("0,4", "diff", [("+U", 1, "c"), ("-D", 2, None)]),
        ("0,1", "diff", [("+I", 1, "a"), ("+I", 2, "b")]),
        ("2,3", "diff", []),
        ("2,2", "auto", []),
    ],
)
def test_changes_between_snapshots(table: Table, limits: str, mode: str, expected: list[Any]) -> None:
    assert audit(between(table, limits, mode)) == expected


def test_retracts_are_rows_of_a_plain_read_unless_dropped(table: Table) -> None:
    changes = between(table, "1,4")
    assert plain(changes) == [(1, "c"), (2, None)]
    assert plan_select(changes).row_count == 2
    dropped = plan_select(changes, how=ReadOptions(drop_retracts=True))
    assert rows_of(dropped) == [(1, "c")]
    assert dropped.row_count is None


def test_a_plain_difference_has_no_retracts(table: Table) -> None:
    assert plain(between(table, "1,4", "diff")) == [(1, "c")]


def test_a_row_that_is_gone_is_a_delete_with_its_last_values(table: Table) -> None:
    compact(table)
    assert audit(between(table, "3,5", "diff")) == [("-D", 2, "b")]
    assert audit(between(table, "1,5", "diff")) == [("+U", 1, "c"), ("-D", 2, "b")]


def test_tags_are_compared_and_come_before_snapshots(table: Table) -> None:
    tag(table, "A", 1)
    tag(table, "B", 4)
    assert audit(between(table, "A, B")) == [("+U", 1, "c"), ("-D", 2, None)]
    assert audit(between(table, "A,A")) == []
    delta = between(table, "A,B", **{"incremental-between-tag-to-snapshot": "true"})
    assert plain(delta) == [(1, "c"), (2, None)]
    tag(table, "1", 3)
    tag(table, "4", 4)
    assert audit(between(table, "1,4")) == [("-D", 2, None)]


@pytest.mark.parametrize(
    ("limits", "mode", "error", "says"),
    [
        ("3,2", "auto", OptionError, "ends before it begins"),
        ("4,9", "delta", NotFoundError, "1 to 4"),
        ("4,9", "diff", NotFoundError, "Snapshot 9"),
        ("B,A", "auto", OptionError, "snapshot 1, which is before snapshot 4"),
        ("A,4", "auto", NotFoundError, "the tags are A, B"),
        ("A", "auto", OptionError, "not a range"),
        ("1,2,3", "auto", OptionError, "not a range"),
        ("-1,2", "auto", NotFoundError, "two snapshot ids"),
    ],
)
def test_wrong_limits_are_refused(table: Table, limits: str, mode: str, error: type[Exception], says: str) -> None:
    tag(table, "A", 1)
    tag(table, "B", 4)
    with pytest.raises(error, match=says):
        plan_select(between(table, limits, mode))


def test_what_excludes_changes_is_refused(table: Table) -> None:
    tag(table, "A", 1)
    tag(table, "B", 4)
    with pytest.raises(OptionError, match="exclude each other"):
        plan_select(between(table, "A,B", "diff", **{"incremental-between-tag-to-snapshot": "true"}))
    with pytest.raises(OptionError, match="exclude each other"):
        plan_select(table.with_options({BETWEEN: "1,2", "scan.snapshot-id": "1"}))
    with pytest.raises(UnsupportedError, match=r"\$ro"):
        plan_select(between(table, "1,2"), how=ReadOptions(top_level_only=True))


def test_a_table_without_snapshots_has_no_changes() -> None:
    assert audit(between(keyed(), "0,3")) == []
    assert audit(keyed().with_options({"incremental-between-timestamp": "0,9"})) == []


def test_changes_between_times(table: Table) -> None:
    times = {i: table.snapshots.get(i).time_millis for i in (1, 4)}

    def found(first: object, last: object, mode: str = "auto") -> list[tuple[Any, ...]]:
        return audit(table.with_options({"incremental-between-timestamp": f"{first},{last}", MODE: mode}))

    everything = [("+I", 1, "a"), ("+I", 2, "b"), ("+U", 1, "c"), ("-D", 2, None)]
    assert found(0, times[4] + 9) == everything
    assert found("1999-01-01", "2999-01-01 10:00:00") == everything
    assert found(0, times[4], "diff") == [("+U", 1, "c"), ("-D", 2, None)]
    assert found(times[4] + 1, times[4] + 2) == found(0, times[1] - 1) == found(5, 5) == []
    with pytest.raises(OptionError, match="ends before it begins"):
        found(9, 3)
    with pytest.raises(OptionError, match="not a time"):
        found("yesterday", "today")


def test_changes_up_to_an_automatic_tag(table: Table) -> None:
    tag(table, "2026-12-01", 1)
    tag(table, "2026-12-04", 4)
    tag(table, "other", 2)
    daily = [audit(table.with_options({TO_TAG: f"2026-12-0{day}"})) for day in (1, 2, 4)]
    assert daily == [[], [], [("+U", 1, "c"), ("-D", 2, None)]]
    with pytest.raises(OptionError, match="automatic tag"):
        plan_select(table.with_options({TO_TAG: "other"}))
    with pytest.raises(OptionError, match="automatic tag"):
        plan_select(table.with_options({TO_TAG: "2026-12-04", "tag.creation-period": "hourly"}))


def test_filters_do_not_bring_back_one_side_of_a_change(table: Table) -> None:
    write(table, (1, "z"), kind="+U")
    compact(table)
    changes = between(table, "3,6", "diff")
    assert audit(changes) == [("+U", 1, "z"), ("-D", 2, "b")]
    assert audit(changes, predicate=Comparison("=", "v", "c")) == []
    assert audit(changes, predicate=Comparison("=", "v", "z"), columns=["id"]) == [("+U", 1)]
    assert audit(changes, predicate=Comparison("=", "id", 2)) == [("-D", 2, "b")]


def test_a_compaction_alone_changes_nothing() -> None:
    columns = {"id": "INT", "d": "DOUBLE", "t": "TIMESTAMP(9)", "n": "DECIMAL(20,3)"}
    table = new_table(columns, primary_key=["id"], options={"bucket": "1", "write-only": "true"})
    nan = float("nan")
    write(table, (1, nan, None, None), (2, None, None, None), (3, 0.0, None, None))
    write(table, (2, nan, None, None), kind="+U")
    compact(table)
    assert audit(between(table, "2,3", "diff")) == []
    write(table, (3, -0.0, None, None), kind="+U")
    compact(table)
    assert [r[:2] for r in audit(between(table, "3,5", "diff"))] == [("+U", 3)]


def test_partitions_and_buckets_are_compared_each_by_itself() -> None:
    table = new_table(
        {"p": "INT", "id": "INT", "v": "STRING"},
        primary_key=["p", "id"],
        partition=["p"],
        options={"bucket": "3", "write-only": "true"},
    )
    write(table, *((p, i, "old") for p in (1, 2, 3) for i in range(20)))
    write(table, *((1, i, "new") for i in range(10)), (4, 1, "first"))
    write_arrow(
        table,
        pa.table({"p": pa.array([], pa.int32()), "id": pa.array([], pa.int32()), "v": pa.array([], pa.string())}),
        overwrite="static",
        static_partitions=Comparison("=", "p", 2),
    )
    found = audit(between(table, "1,3", "diff"))
    assert found == sorted(
        [*(("+I", 1, i, "new") for i in range(10)), ("+I", 4, 1, "first"), *(("-D", 2, i, "old") for i in range(20))],
        key=repr,
    )
    assert audit(between(table, "1,3", "diff", **{"source.split.target-size": "1 b"})) == found
    assert audit(between(table, "1,3", "diff"), predicate=Comparison("=", "p", 4)) == [("+I", 4, 1, "first")]
    assert audit(between(table, "1,3", "diff"), predicate=Comparison("=", "p", 3)) == []
    one = between(table, "0,3", "delta", **{"scan.bucket": "1"})
    assert {s.bucket for s in plan_select(one).splits} == {1}


def test_a_rescaled_table_is_compared_by_key() -> None:
    table = keyed()
    write(table, *((i, "old") for i in range(50)))
    wider = replace(table.schema, id=1, options={**table.schema.options, "bucket": "4"})
    table.schema_store.try_create(wider)
    table = Table.of(table.identifier, table.path, wider, table.file_io)
    data = pa.table({"id": pa.array(range(49), pa.int32()), "v": ["new" if i == 7 else "old" for i in range(49)]})
    write_arrow(table, data, overwrite="static")
    assert audit(between(table, "1,2", "diff")) == [("+I", 7, "new"), ("-D", 49, "old")]


def test_an_append_table_shows_added_files() -> None:
    table = new_table(COLUMNS, options={"bucket": "-1"})
    for i in range(1, 4):
        write(table, (i, "x"))
    assert plain(between(table, "1,3")) == [(2, "x"), (3, "x")]
    assert plan_select(between(table, "1,3")).row_count == 2
    assert audit(between(table, "1,3", "diff")) == [("+I", 2, "x"), ("+I", 3, "x")]
    assert plain(between(table, "0,3"), predicate=Comparison("=", "id", 2)) == [(2, "x")]
    assert plain(between(table, "0,3"), columns=["v"], limit=2) == [("x",), ("x",)]


def test_an_overwrite_is_no_change_of_commits_but_of_states(table: Table) -> None:
    write_arrow(table, pa.table({"id": pa.array([9], pa.int32()), "v": ["o"]}), overwrite="static")
    assert audit(between(table, "4,5")) == []
    assert audit(between(table, "4,5", "diff")) == [("+I", 9, "o"), ("-D", 1, "c")]


def test_files_created_since_a_time(table: Table) -> None:
    first = table.snapshots.get(1).time_millis
    assert plain(table.with_options({"scan.file-creation-time-millis": str(first - 10**6)})) == plain(table)
    assert plain(table.with_options({"scan.file-creation-time-millis": "99999999999999"})) == []
    assert plan_select(table.with_options({"scan.creation-time-millis": "0"})).snapshot_id == 4
    assert not plan_select(table.with_options({"scan.file-creation-time-millis": "5"})).pinned


def test_sequence_numbers_are_those_of_the_rows_shown(table: Table) -> None:
    for mode in ("delta", "diff"):
        plan = plan_select(between(table, "1,4", mode), how=ReadOptions(keep_kinds=True))
        (split,) = plan.splits
        rows = read_split(plan.table, split, ["id"], keep_kinds=True, metadata_columns=["_SEQUENCE_NUMBER"])
        found = pa.Table.from_batches(rows).to_pylist()
        assert sorted((r["id"], r["_SEQUENCE_NUMBER"]) for r in found) == [(1, 2), (2, 3)]


def test_a_missing_snapshot_in_a_range_is_named(table: Table) -> None:
    table.file_io.delete(table.paths.snapshot(3))
    with pytest.raises(NotFoundError, match="Snapshot 3 does not exist"):
        plan_select(between(table, "1,4"))


def test_splits_of_changes_travel_to_tasks(table: Table) -> None:
    for mode in ("delta", "diff"):
        splits = plan_select(between(table, "1,4", mode)).splits
        assert splits_from_json(splits_to_json(splits)) == list(splits)
        assert all(s.size > 0 and s.file_count > 0 and s.file_rows > 0 for s in splits)

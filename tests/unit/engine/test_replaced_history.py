"""What is left of a table that REPLACE TABLE has given another definition: snapshots, changes, streams, rollbacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.system.tables import system_table
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import TableWriter
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.expiry.orphans import execute_orphans, plan_orphans
from paimon_spark.engine.insert import WritePlan, finish_write, plan_write
from paimon_spark.engine.replace import finish_replacement
from paimon_spark.engine.rollback import execute_rollback, plan_rollback
from paimon_spark.engine.rollback_as_latest import execute_as_latest, plan_as_latest
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import ReadOptions, plan_select
from paimon_spark.engine.streaming.offset import StreamOffset
from paimon_spark.engine.streaming.source import StreamSource
from paimon_spark.errors import ConflictError, UnsupportedError, UsageError
from paimon_spark.spec.evolution import new_schema
from paimon_spark.spec.replacement import replacing_schema
from paimon_spark.spec.types import DataField, parse_atomic
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.tables import new_table
from tests.column_changes import update
from tests.small_tables import frame, put, sorted_rows

COLUMNS = {"k": "INT", "v": "INT"}
KEYED = {"bucket": "1", "write-only": "true"}
SUMS = {**KEYED, "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
FAR = 4_102_444_800_000


def renewed(table: Table, options: Mapping[str, str] | None = None, key: Sequence[str] = ()) -> Table:
    """Return a table at the schema that replaces its newest one; nothing is published."""
    fields = [DataField(0, name, parse_atomic(text)) for name, text in COLUMNS.items()]
    newest = table.schema_store.latest()
    assert newest is not None
    schema = replacing_schema(newest, new_schema(fields, primary_keys=key, options=options or {}))
    return Table.of(table.identifier, table.path, schema, table.file_io)


def replaced(table: Table, options: Mapping[str, str] | None = None, key: Sequence[str] = ()) -> Table:
    """Replace a table by an empty one with the same columns, by default an append table without options."""
    now = renewed(table, options, key)
    finish_replacement(plan_write(now, overwrite="static"), [], LocalRunner())
    return now


def keyed(options: Mapping[str, str], *commits: Sequence[tuple[int, int]]) -> Table:
    table = new_table(COLUMNS, primary_key=["k"], options=options)
    for rows in commits:
        put(table, *rows)
    return table


def summed() -> Table:
    return keyed(SUMS, [(1, 10)], [(1, 5)])


def with_vectors() -> Table:
    options = {**KEYED, "deletion-vectors.enabled": "true"}
    table = keyed(options, [(1, 0), (2, 0)])
    compact(table)
    put(table, (1, 7))
    return table


def with_column_files() -> Table:
    table = new_table(COLUMNS, options={"row-tracking.enabled": "true", "data-evolution.enabled": "true"})
    put(table, (1, 1), (2, 2))
    update(table, lambda row: row["k"] == 1, v=100)
    return table


def descending() -> Table:
    return keyed({**KEYED, "sequence.field": "v", "sequence.field.sort-order": "descending"}, [(1, 1)], [(1, 2)])


def aggregated_by_default() -> Table:
    options = {**KEYED, "merge-engine": "aggregation", "fields.default-aggregate-function": "max"}
    return keyed(options, [(1, 10)], [(1, 5)])


def compact(table: Table) -> None:
    own = table.with_options({"write-only": "false"})
    execute_compaction(plan_compaction(own, strategy=Strategy.FULL), LocalRunner())


@pytest.mark.parametrize("create", [summed, with_vectors, with_column_files, descending, aggregated_by_default])
@pytest.mark.parametrize("key", [(), ("k",)], ids=["append", "keyed"])
def test_snapshots_of_before_keep_their_rows(create: Callable[[], Table], key: Sequence[str]) -> None:
    before = create()
    rows, version = sorted_rows(before), before.snapshots.latest_id()
    now = replaced(before, KEYED if key else {}, key)
    assert sorted_rows(now) == []
    assert sorted_rows(now, version=version) == rows
    assert sorted_rows(now.with_options({"scan.snapshot-id": str(version)})) == rows


def test_the_highest_level_of_before_is_found() -> None:
    before = keyed({**KEYED, "num-sorted-run.compaction-trigger": "9"}, [(1, 1)])
    compact(before)
    now = replaced(before, KEYED, ["k"])
    plan = plan_select(now, version=2, how=ReadOptions(top_level_only=True))
    assert [f.row_count for s in plan.splits for f in s.files] == [1]


def test_options_of_a_query_apply_to_snapshots_of_before() -> None:
    now = replaced(with_vectors())
    asked = now.with_options({"deletion-vectors.merge-on-read": "true"})
    assert sorted_rows(asked, version=3) == [(1, 7), (2, 0)]


def test_files_of_before_are_found_and_deleted() -> None:
    places = {"data-file.path-directory": "data"}
    before = new_table(COLUMNS, options=places)
    put(before, (1, 1))
    now = replaced(before, places)
    put(now, (2, 2))
    assert system_table(now.with_options({"scan.snapshot-id": "1"}), "files").num_rows == 1
    assert sorted_rows(now, version=1) == [(1, 1)]
    execute_expire(now, plan_expire(now, ExpireConfig(retain_max=1, retain_min=1), FAR))
    assert violations(now) == []
    execute_orphans(plan_orphans([now], LocalRunner(), clock_millis=FAR))
    left = [s.path for s in now.file_io.list_recursive(now.path) if "/bucket-0/" in s.path]
    assert len(left) == 1
    assert sorted_rows(now) == [(2, 2)]


# ------------------------------------------------------------------------------------------------- states


def test_a_table_of_before_does_not_read_the_rows_of_after() -> None:
    before = summed()
    put(replaced(before), (1, 1), (1, 1))
    with pytest.raises(UnsupportedError, match="another primary key") as refused:
        sorted_rows(before)
    assert "Run the statement again" in refused.value.hint
    assert sorted_rows(before, version=4) == [(1, 1), (1, 1)]


def test_a_replacement_by_the_same_rules_is_like_other_changes() -> None:
    before = summed()
    put(replaced(before, {**SUMS, "bucket": "2"}, ["k"]), (1, 1), (2, 1))
    assert sorted_rows(before) == [(1, 1), (2, 1)]


def test_an_empty_table_is_replaced_without_a_snapshot() -> None:
    now = replaced(replaced(summed()), KEYED, ["k"])
    assert now.snapshots.ids() == [1, 2, 3]
    assert sorted_rows(now) == []
    put(now, (1, 1))
    assert sorted_rows(now) == [(1, 1)]


def test_a_replacement_that_is_not_committed_is_not_read() -> None:
    now = renewed(summed())
    assert now.schema_store.try_create(now.schema)
    with pytest.raises(UnsupportedError, match="another primary key") as refused:
        sorted_rows(now)
    assert "VERSION AS OF 2" in refused.value.hint
    assert sorted_rows(now, version=2) == [(1, 15)]


# ------------------------------------------------------------------------------------------------- changes


@pytest.mark.parametrize("mode", ["delta", "diff"])
def test_changes_of_before_are_not_read_by_other_rules(mode: str) -> None:
    now = replaced(summed(), {**KEYED, "merge-engine": "deduplicate"}, ["k"])
    put(now, (1, 1))
    across = now.with_options({"incremental-between": "1,4", "incremental-between-scan-mode": mode})
    with pytest.raises(UnsupportedError, match="another 'merge-engine'"):
        sorted_rows(across)
    assert sorted_rows(across.with_options({"incremental-between": "3,4"})) == [(1, 1)]


def stream(table: Table, start: StreamOffset) -> tuple[list[dict[str, Any]], StreamOffset]:
    """Return the rows of the next batch of a stream, and its end."""
    source = StreamSource(table)
    end = source.next_offset(start, limited=False, newest=source.newest_id())
    assert end is not None
    found = source.read(start, end)
    splits = (*found.state, *found.changes)
    return [{"rows": s.file_rows, "schemas": s.schema_ids} for s in splits], end


def test_a_stream_ends_at_a_replacement_and_a_restart_goes_on() -> None:
    before = keyed({**KEYED, "merge-engine": "deduplicate"}, [(1, 1)])
    _, position = stream(before, StreamSource(before).first_offset())
    now = replaced(before)
    put(now, (1, 1), (1, 2))
    with pytest.raises(UnsupportedError, match="another primary key") as refused:
        stream(before, position)
    assert "same checkpoint" in refused.value.hint
    found, _ = stream(now, position)
    assert found == [{"rows": 2, "schemas": {1}}]


def test_a_stream_does_not_read_earlier_changes_by_other_rules() -> None:
    before = new_table(COLUMNS, options={"bucket": "-1"})
    put(before, (1, 1))
    position = StreamSource(before).first_offset()
    _, position = stream(before, position)
    put(before, (1, 2))
    now = replaced(before, KEYED, ["k"])
    put(now, (1, 3))
    with pytest.raises(UnsupportedError, match="before the table was replaced") as refused:
        stream(now, position)
    assert "new checkpoint" in refused.value.hint


def test_a_stream_does_not_read_an_overwrite_by_other_rules() -> None:
    options = {"streaming-read-overwrite": "true"}
    before = keyed(KEYED, [(1, 1)]).with_options(options)
    _, position = stream(before, StreamSource(before).first_offset())
    now = renewed(before, {**KEYED, "merge-engine": "partial-update"}, ["k"])
    finish_replacement(*written(now, (2, 2), overwrite=True), LocalRunner())
    with pytest.raises(UnsupportedError, match="another 'merge-engine'"):
        stream(before, position)


# ------------------------------------------------------------------------------------------------- commits


def written(table: Table, *rows: tuple[int, int], overwrite: bool = False) -> tuple[WritePlan, list[CommitMessage]]:
    """Return the plan of a statement that has written rows and is not committed, and what its writer did."""
    plan = plan_write(table, overwrite="static" if overwrite else None)
    with TableWriter(plan.table, plan.info) as writer:
        writer.write(frame(table, rows))
        return plan, writer.finish()


def test_rows_written_for_the_table_of_before_are_refused() -> None:
    before = new_table(COLUMNS, options={"bucket": "-1"})
    put(before, (1, 1))
    late = written(before, (1, 2), (1, 3))
    now = replaced(before, KEYED, ["k"])
    with pytest.raises(ConflictError, match="its primary key is"):
        finish_write(*late)
    assert now.snapshots.ids() == [1, 2]
    assert violations(now) == []
    again = written(now, (1, 2))
    replaced(now, {**KEYED, "comment": "the same rules"}, ["k"])
    finish_write(*again)
    assert sorted_rows(now) == [(1, 2)]


def test_an_interrupted_replacement_is_to_be_repeated() -> None:
    now = renewed(summed())
    assert now.schema_store.try_create(now.schema)
    with pytest.raises(ConflictError, match="another primary key"):
        put(now, (1, 1))
    assert now.snapshots.ids() == [1, 2]
    again = replaced(now)
    put(again, (1, 1), (1, 2))
    assert sorted_rows(again) == [(1, 1), (1, 2)]
    assert violations(again) == []


def test_a_rollback_to_before_needs_the_definition_of_before() -> None:
    now = replaced(summed())
    for refused in (
        lambda: plan_rollback(now, snapshot_id=2),
        lambda: plan_as_latest(now, snapshot_id=2, clock_millis=FAR),
    ):
        with pytest.raises(UsageError, match="another primary key"):
            refused()
    again = replaced(now, SUMS, ["k"])
    execute_as_latest(again, plan_as_latest(again, snapshot_id=2, clock_millis=FAR))
    assert sorted_rows(again) == [(1, 15)]
    execute_rollback(again, plan_rollback(again, snapshot_id=1))
    assert sorted_rows(again) == [(1, 10)]
    assert violations(again) == []

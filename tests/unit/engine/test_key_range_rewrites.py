"""Statements that rewrite key ranges: files, changelog, conflicts, failures and memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.api.row_changes import deletions
from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.row_level.stated_runs import StatedRuns
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import TableWriter
from paimon_spark.engine.compaction.compact import Strategy
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.redistribution.rescale import execute_rescale, plan_rescale
from paimon_spark.engine.row_level import change_arrow, finish_changes, plan_changes, row_changer, with_all_rows
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import SelectPlan, plan_select
from paimon_spark.errors import ConflictError, PaimonError, UnsupportedError
from paimon_spark.spec.kinds import SEQUENCE_NUMBER, CommitKind, Operation, RowKind
from paimon_spark.spec.manifest import BucketKey
from paimon_spark.spec.predicate import Comparison
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.sqlparse.where import parse_filter
from paimon_spark.testing.faults import FaultFileIO, Mode, Nth
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.tables import new_table, read_arrow
from tests.small_tables import sorted_rows
from tests.unit.engine.changelogs import changes_in, compact, keyed, put

SUMS = {"merge_engine": "aggregation", "fields__n__aggregate_function": "sum"}
NUMBERS = {"k": "INT", "n": "INT"}
MANY = 400_000


def sums(**options: str) -> Table:
    return keyed(NUMBERS, **SUMS, **options)


def matching(table: Table, condition: str) -> SelectPlan:
    return plan_select(with_all_rows(table), predicate=parse_filter(condition, table.schema))


def delete(table: Table, condition: str, plan: SelectPlan | None = None) -> Snapshot:
    plan = plan or matching(table, condition)
    change_arrow(table, deletions(plan), Operation.DELETE, snapshot_id=plan.snapshot_id)
    return last(table)


def update(table: Table, condition: str, **values: Any) -> Snapshot:
    plan = matching(table, condition)
    batches = [_set(b, {**values, ROW_KIND: int(RowKind.UPDATE_AFTER)}) for b in deletions(plan)]
    change_arrow(table, batches, Operation.UPDATE, rewrites=True, snapshot_id=plan.snapshot_id)
    return last(table)


def _set(batch: pa.RecordBatch, values: Mapping[str, Any]) -> pa.RecordBatch:
    for name, value in values.items():
        field = batch.schema.field(name)
        column = pa.array([value] * batch.num_rows, field.type)
        batch = batch.set_column(batch.schema.names.index(name), field, column)
    return batch


def last(table: Table) -> Snapshot:
    found = table.snapshots.latest()
    assert found is not None
    return found


def files_of(table: Table) -> dict[str, int]:
    """Return the level of each live file."""
    return {e.file.file_name: e.file.level for e in scan(table, table.snapshots.latest()).entries}


class TestFiles:
    def test_only_key_ranges_with_changed_rows_are_rewritten(self) -> None:
        table = sums(write_only="true")
        for first in (0, 10, 20):
            put(table, *((first + k, k) for k in range(5)))
        put(table, (11, 1), (13, 1))
        before = files_of(table)
        found = update(table, "k = 11", n=100)
        assert (found.commit_kind, found.operation) == (CommitKind.OVERWRITE, Operation.UPDATE)
        assert dict(sorted_rows(table))[11] == 100
        assert dict(sorted_rows(table))[13] == 4
        after = files_of(table)
        assert len(before.keys() & after.keys()) == 2
        assert sorted(after.values()) == [0, 0, 5]
        assert violations(table) == []

    @pytest.mark.parametrize(
        ("options", "merged"),
        [
            (SUMS | {"changelog_producer": "lookup"}, 51),
            (SUMS | {"deletion_vectors__enabled": "true"}, 51),
            ({"merge_engine": "first-row"}, 50),
            ({"deletion_vectors__enabled": "true"}, 1),
        ],
    )
    def test_lookups_find_rows_that_moved_behind_others(self, options: Mapping[str, str], merged: int) -> None:
        table = keyed(NUMBERS, target_file_size="1 kb", **options)
        writes = table.with_options({"write-only": "true"})
        for first in (0, 20):
            put(writes, *((first + k, 1) for k in range(10)))
            compact(writes)
        if "merge_engine" in options:
            update(writes, "k = 5", n=50)
        else:
            put(writes, (5, 50))
            compact(writes)
        put(table, (5, 1), (25, 1))
        assert [r for r in sorted_rows(table) if r[0] == 5] == [(5, merged)]
        assert violations(table) == []
        compact(table)
        assert [r for r in sorted_rows(table) if r[0] == 5] == [(5, merged)]

    def test_nothing_is_left_of_a_bucket_without_rows(self) -> None:
        table = sums()
        put(table, (1, 1), (2, 2))
        delete(table, "k > 0")
        assert files_of(table) == {}
        put(table, (1, 5))
        assert sorted_rows(table) == [(1, 5)]

    def test_a_statement_without_rows_commits_nothing(self) -> None:
        table = sums(snapshot__ignore_empty_commit="true")
        put(table, (1, 1))
        before = table.snapshots.latest_id()
        delete(table, "k = 9")
        assert table.snapshots.latest_id() == before

    def test_rows_of_many_buckets_and_partitions(self) -> None:
        options = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum", "bucket": "3"}
        columns = {"k": "INT", "n": "INT", "p": "STRING"}
        table = new_table(columns, primary_key=["k", "p"], partition=["p"], options=options)
        keys = pa.array([*range(300)] * 2, pa.int32())
        parts = pa.array([f"p{k % 4}" for k in range(300)] * 2)
        write_arrow(table, pa.table({"k": keys, "n": pa.array([1] * 600, pa.int32()), "p": parts}))
        delete(table, "k < 50")
        update(table, "k > 200 AND p = 'p1'", n=-1)
        with pytest.raises(UnsupportedError, match="cannot move to another partition"):
            update(table, "k = 51", p="p9")
        expected = [(k, -1 if k > 200 and k % 4 == 1 else 2, f"p{k % 4}") for k in range(50, 300)]
        assert sorted_rows(table) == expected
        assert violations(table) == []


class TestChangelog:
    def test_input_tells_both_images(self) -> None:
        table = sums(changelog_producer="input")
        put(table, (1, 1), (2, 2))
        put(table, (1, 10))
        assert changes_in(table, update(table, "k = 1", n=5)) == [("-U", 1, 11), ("+U", 1, 5)]
        assert changes_in(table, delete(table, "k = 2")) == [("-D", 2, 2)]

    @pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
    def test_rows_that_no_compaction_has_told_are_told(self, producer: str) -> None:
        table = sums(changelog_producer=producer)
        put(table, (1, 1), (2, 2), (3, 3), (4, 4))
        compact(table)
        waiting = table.with_options({"write-only": "true"})
        put(waiting, (1, 10), (3, 10), (5, 5))
        found = changes_in(table, delete(waiting, "k IN (1, 2, 5)"))
        assert found == [("-D", 1, 1), ("-D", 2, 2), ("-U", 3, 3), ("+U", 3, 13)]

    def test_first_row_tells_new_keys_and_deletes(self) -> None:
        table = keyed(merge_engine="first-row", changelog_producer="lookup")
        put(table, (1, "a"), (2, "b"), (3, "c"))
        put(table.with_options({"write-only": "true"}), (1, "later"), (3, "later"), (4, "d"))
        found = changes_in(table, delete(table.with_options({"write-only": "true"}), "k = 1"))
        assert found == [("-D", 1, "a"), ("+I", 4, "d")]
        assert sorted_rows(table) == [(2, "b"), (3, "c"), (4, "d")]
        put(table, (1, "new"))
        assert dict(sorted_rows(table))[1] == "new"


class TestConflicts:
    @pytest.mark.parametrize("other", ["insert", "delete", "compact"])
    def test_another_change_of_the_bucket_is_a_conflict(self, other: str) -> None:
        table = sums(write_only="true")
        put(table, (1, 1), (2, 2))
        put(table, (1, 1), (2, 2))
        plan = matching(table, "k = 1")
        if other == "insert":
            put(table, (2, 5))
        elif other == "delete":
            delete(table, "k = 2")
        else:
            compact(table.with_options({"write-only": "false"}))
        before, state = table.snapshots.latest_id(), sorted_rows(table)
        files = stored(table)
        with pytest.raises(ConflictError, match="Run the statement again"):
            delete(table, "", plan)
        assert (table.snapshots.latest_id(), sorted_rows(table)) == (before, state)
        assert stored(table) == files
        delete(table, "k = 1")
        assert sorted_rows(table) == [r for r in state if r[0] != 1]

    def test_changes_of_other_buckets_are_none(self) -> None:
        table = sums(bucket="4")
        put(table, *((k, 1) for k in range(40)))
        plan = matching(table, "k = 1")
        place = {s.bucket for s in plan.splits}
        others = [k for k in range(40) if not {s.bucket for s in matching(table, f"k = {k}").splits} & place]
        put(table, *((k, 1) for k in others))
        delete(table, "", plan)
        assert len(sorted_rows(table)) == 39

    def test_new_rows_of_a_rescaled_partition_are_a_conflict(self) -> None:
        options = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum", "bucket": "1"}
        columns = {"k": "INT", "n": "INT", "p": "STRING"}
        table = new_table(columns, primary_key=["k", "p"], partition=["p"], options=options)
        put(table, (1, 1, "a"), (2, 2, "b"))
        plan = plan_changes(table, Operation.MERGE)
        with row_changer(table, plan.info) as changer:
            for batch in deletions(matching(table, "k = 1")):
                changer.change(batch)
            messages = changer.finish()
        with TableWriter(table, plan.info) as writer:
            writer.write(pa.table({"k": pa.array([3], pa.int32()), "n": pa.array([3], pa.int32()), "p": ["b"]}))
            messages += writer.finish()
        execute_rescale(plan_rescale(table, 2, Comparison("=", "p", "b")), None)
        with pytest.raises(ConflictError, match="spread over 2 buckets"):
            finish_changes(plan, messages, LocalRunner())
        assert sorted_rows(table) == [(1, 1, "a"), (2, 2, "b")]

    def test_an_expired_snapshot_is_a_conflict(self) -> None:
        table = sums()
        put(table, (1, 1))
        plan = matching(table, "k = 1")
        batches = list(deletions(plan))
        put(table, (1, 1))
        compact(table)
        config = ExpireConfig(retain_max=1, retain_min=1)
        execute_expire(table, plan_expire(table, config, 2 * last(table).time_millis))
        with pytest.raises(ConflictError, match="has expired"):
            change_arrow(table, batches, Operation.DELETE, snapshot_id=plan.snapshot_id)
        assert sorted_rows(table) == [(1, 2)]


def stored(table: Table) -> set[str]:
    return {f.path for f in table.file_io.list_recursive(table.path) if "/bucket-" in f.path}


class TestFailures:
    @pytest.mark.parametrize("step", range(1, 40, 3))
    def test_a_failing_store_leaves_the_table_as_it_was(self, step: int) -> None:
        table = sums(changelog_producer="lookup")
        put(table, (1, 1), (2, 2))
        put(table, (1, 1))
        before = (table.snapshots.latest_id(), sorted_rows(table))
        files = stored(table)
        try:
            delete(replace(table, file_io=FaultFileIO(table.file_io, Nth(step, Mode.BEFORE))), "k = 1")
        except (PaimonError, OSError):
            assert (table.snapshots.latest_id(), sorted_rows(table)) == before
            assert stored(table) == files
        else:
            assert sorted_rows(table) == [(2, 2)]
        assert violations(table) == []


class TestMemory:
    def test_changes_beyond_the_buffer_wait_on_the_disk(self, tmp_path: Path) -> None:
        runs, bucket = StatedRuns(sums(), 1 << 20, [str(tmp_path)]), BucketKey(b"", 0)
        for first in range(0, MANY, MANY // 4):
            keys = pa.array(range(first, first + MANY // 4), pa.int32())
            order = pa.array([1] * len(keys), pa.int64())
            runs.add(bucket, pa.table({"k": keys, "n": keys, SEQUENCE_NUMBER: order}))
        assert len([p for p in tmp_path.rglob("*") if p.is_file()]) > 1
        found = [t.num_rows for source in runs.of(bucket) for t in source.read(1 << 20)]
        assert sum(found) == MANY
        runs.close()
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("space", ["1 gb", "100 kb"])
    def test_many_changes_are_applied(self, space: str) -> None:
        small = {"write_buffer_size": "64 kb", "write_buffer_spill__max_disk_size": space}
        table = sums(**small)
        keys = pa.array(range(MANY), pa.int32())
        for _ in range(2):
            write_arrow(table, pa.table({"k": keys, "n": keys}))
        delete(table, f"k < {MANY * 2 // 3}")
        compact(table, Strategy.MINOR)
        found = read_arrow(table)
        assert found.num_rows == MANY - MANY * 2 // 3
        assert sum(found.column("n").to_pylist()) == sum(2 * k for k in range(MANY * 2 // 3, MANY))

"""What happens when one operation gets between two steps of another."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.metadata_io import create_once
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.refs.tags import execute_tag, plan_create_tag
from paimon_spark.engine.rollback import execute_rollback, plan_rollback
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import read_arrow
from paimon_spark.errors import ConflictError, CorruptTableError, NotFoundError, OutcomeUnknownError
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.testing.faults import FaultFileIO, Mode, Nth
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.tables import new_table
from tests.unit.core.history import MINUTE, History, lost

ALL_BUT_ONE = ExpireConfig(retain_max=1, retain_min=1)


def history(count: int, **tags: int) -> History:
    h = History()
    for _ in range(count):
        h.add()
    for name, snapshot_id in tags.items():
        execute_tag(h.table, plan_create_tag(h.table, name, snapshot_id=snapshot_id, clock_millis=0))
    return h


def test_a_tag_whose_snapshot_expired_after_planning_is_refused() -> None:
    h = history(3)
    plan = plan_create_tag(h.table, "late", snapshot_id=1, clock_millis=0)
    execute_expire(h.table, plan_expire(h.table, ALL_BUT_ONE, 10**4 * MINUTE))
    with pytest.raises(NotFoundError, match="expired while tag 'late'"):
        execute_tag(h.table, plan)
    assert RefStore.of(h.table).tag_names() == []


def test_another_tag_of_the_expired_snapshot_will_do() -> None:
    h = history(3, first=1)
    execute_expire(h.table, plan_expire(h.table, ALL_BUT_ONE, 10**4 * MINUTE))
    execute_tag(h.table, plan_create_tag(h.table, "second", snapshot_id=1, clock_millis=0))
    assert RefStore.of(h.table).tag_names() == ["first", "second"]
    assert lost(h.table) == set()


def three_small_files() -> Table:
    table = new_table({"k": "INT"}, options={"compaction.min.file-num": "2", "write-only": "true"})
    for k in range(3):
        write_arrow(table, pa.table({"k": pa.array([k], pa.int32())}))
    return table.with_options({"write-only": "false"})


def test_files_replaced_and_expired_before_the_compaction() -> None:
    table = three_small_files()
    plan = plan_compaction(table, strategy=Strategy.FULL)
    execute_compaction(plan_compaction(table, strategy=Strategy.FULL), LocalRunner())
    execute_expire(table, plan_expire(table, ALL_BUT_ONE, 10**15))
    with pytest.raises(ConflictError, match="was compacted or overwritten by another commit"):
        execute_compaction(plan, LocalRunner())
    assert violations(table) == []
    assert sorted(read_arrow(table).column("k").to_pylist()) == [0, 1, 2]


def test_files_that_are_the_tables_and_missing_are_no_conflict() -> None:
    table = three_small_files()
    plan = plan_compaction(table, strategy=Strategy.FULL)
    task = plan.groups[0].tasks[0]
    table.file_io.delete(table.paths.data_file(task.partition, task.bucket, task.files[0]))
    with pytest.raises(CorruptTableError, match="does not exist"):
        execute_compaction(plan, LocalRunner())


def test_snapshots_that_are_committed_during_a_rollback_go_too() -> None:
    h = history(5)
    before, between = plan_rollback(h.table, snapshot_id=2), [h.table.paths.snapshot(4)]
    h.add()

    def commit_once(operation: str, path: str) -> None:
        if operation == "delete" and path in between:
            between.remove(path)
            h.add()

    table = replace(h.table, file_io=FaultFileIO(h.table.file_io, watch=commit_once))
    execute_rollback(table, before)
    assert between == []
    assert h.table.snapshots.ids() == [1, 2]
    assert h.table.snapshots.latest_id() == 2
    assert violations(h.table) == []


def test_a_dead_rollback_to_a_tag_never_hides_newer_snapshots() -> None:
    """The hint must not name the target while a gap follows it: commits would fill the gap up to a stale snapshot."""
    h = history(7, old=2)
    execute_expire(h.table, plan_expire(h.table, ExpireConfig(retain_max=2, retain_min=2), 10**4 * MINUTE))
    plan = plan_rollback(h.table, tag="old")
    h.table.file_io.create_exclusive(h.table.paths.snapshot(2), plan.target.snapshot.to_json().encode())
    assert h.table.snapshots.latest_id() == 7
    h.table.file_io.delete(h.table.paths.snapshot(7))
    assert h.table.snapshots.latest_id() == 6
    assert h.add() == 7
    execute_rollback(h.table, plan_rollback(h.table, tag="old"))
    assert h.table.snapshots.ids() == [2]
    assert h.table.file_io.read(h.table.paths.latest_hint) == b"2"


def test_a_rollback_mends_the_hint_that_a_dead_one_left() -> None:
    h = history(3)
    h.table.file_io.delete(h.table.paths.snapshot(3))
    execute_rollback(h.table, plan_rollback(h.table, snapshot_id=2))
    assert h.table.file_io.read(h.table.paths.latest_hint) == b"2"


def test_a_listing_that_lags_does_not_hide_the_newest_snapshot() -> None:
    h = history(2)
    store = FaultFileIO(h.table.file_io)
    table = replace(h.table, file_io=store)
    store.remember(table.paths.snapshot(3))
    h.add()
    h.table.file_io.delete(table.paths.latest_hint)
    store.schedule = Nth(1, Mode.STALE)
    assert table.snapshots.latest_id() == 3


@pytest.mark.parametrize("mode", [Mode.AFTER, Mode.UNKNOWN_AFTER, Mode.LOST_ACK])
def test_a_file_that_was_created_after_all_is_found(mode: Mode) -> None:
    io = FaultFileIO(InMemoryFileIO(), Nth(1, mode))
    assert create_once(io, "/f", b"mine")
    assert not create_once(io, "/f", b"other")


@pytest.mark.parametrize(("mode", "error"), [(Mode.BEFORE, OSError), (Mode.UNKNOWN_BEFORE, OutcomeUnknownError)])
def test_a_file_that_was_not_created_is_not_claimed(mode: Mode, error: type[Exception]) -> None:
    io = FaultFileIO(InMemoryFileIO(), Nth(1, mode))
    with pytest.raises(error):
        create_once(io, "/f", b"mine")
    assert not io.exists("/f")


def test_where_nobody_answers_the_outcome_is_unknown() -> None:
    io = FaultFileIO(InMemoryFileIO(), Nth(1, Mode.CRASH_AFTER))
    with pytest.raises(OutcomeUnknownError):
        create_once(io, "/f", b"mine")
    assert io.inner.exists("/f")

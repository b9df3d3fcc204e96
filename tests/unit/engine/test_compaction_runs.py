"""How compactions run: tasks as JSON, threads, progress, conflicts, groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import pyarrow as pa
import pytest

from paimon_spark.core.commit.committer import Committed
from paimon_spark.core.compact.task import CompactTask
from paimon_spark.core.messages import MessageCodec
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import GroupLimits, Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.compaction.compact_database import TablePlan, compact_combined, compact_divided
from paimon_spark.engine.insert import WriteResult, plan_write, run_post_commit, write_arrow
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.tasks import compact_payload, run_task
from paimon_spark.errors import ArgumentError, ConflictError, PaimonError
from paimon_spark.fs.base import FileIO
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.predicate import Comparison
from paimon_spark.testing.faults import FaultFileIO, Mode
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.tables import new_table, read_arrow

T = TypeVar("T")


def filled(partitions: int = 1, commits: int = 2, file_io: FileIO | None = None) -> Table:
    table = new_table(
        {"p": "INT", "k": "INT", "v": "INT"}, primary_key=["p", "k"], partition=["p"],
        options={"bucket": "2", "write-only": "true"}, file_io=file_io,
    )  # fmt: skip
    for n in range(commits):
        rows = [(p, k, n) for p in range(partitions) for k in range(20)]
        write_arrow(table, pa.table(dict(zip("pkv", map(list, zip(*rows, strict=True)), strict=True))))
    return table


def data_files(table: Table) -> set[str]:
    return {s.name for s in table.file_io.list_recursive(table.path) if s.name.startswith("data-")}


def test_tasks_travel_as_json_and_run_anywhere() -> None:
    plan = plan_compaction(filled())
    codec = MessageCodec[CompactTask](CompactTask, "task")
    for task in plan.tasks:
        assert codec.decode(codec.encode(task)) == task
    with pytest.raises(ArgumentError, match="'dance' is not a task"):
        run_task("dance", "{}")


class NoListing:
    """No directory can be listed."""

    def choose(self, operation: str, path: str) -> Mode | None:
        del path
        return Mode.BEFORE if operation == "list" else None


def test_the_error_of_a_task_stays_where_cleaning_up_fails_too() -> None:
    store = FaultFileIO(InMemoryFileIO())
    plan = plan_compaction(filled(file_io=store))

    class Stopping(LocalRunner):
        def run(self, kind: str, payloads: Sequence[str], *, description: str) -> Iterator[str]:
            store.schedule = NoListing()
            raise ArgumentError("The task failed.")

    with pytest.raises(ArgumentError, match="The task failed"):
        execute_compaction(plan, Stopping())


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/Lima", "UTC"])
def test_the_optimization_interval_starts_at_a_full_compaction(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        table = filled(commits=1)
        execute_compaction(plan_compaction(table), LocalRunner())
        write_arrow(table, read_arrow(table))
        for interval, due in (("1 h", False), ("1 ms", True)):
            plan = plan_compaction(
                table.with_options({"compaction.optimization-interval": interval}), strategy=Strategy.MINOR
            )
            assert [t.reason for t in plan.tasks] == ["optimization-interval"] * 2 * due
    finally:
        monkeypatch.undo()
        time.tzset()


def test_progress_threads_and_groups() -> None:
    table = filled(partitions=20)
    plan = plan_compaction(table, limits=GroupLimits(files=16))
    assert [len(g.tasks) for g in plan.groups] == [32, 8]
    seen: list[tuple[int, int]] = []
    result = execute_compaction(plan, LocalRunner(threads=2), lambda done, total: seen.append((done, total)))
    assert seen == [(i, 40) for i in range(41)]
    assert len(result.snapshot_ids) == 2
    assert (result.total.buckets, result.total.files_in, result.total.files_out) == (40, 80, 40)
    assert (result.total.rows_in, result.total.rows_out) == (800, 400)
    assert {r["v"] for r in read_arrow(table).to_pylist()} == {1}


def test_small_buckets_are_committed_together() -> None:
    table = filled(partitions=50)
    (group,) = plan_compaction(table).groups
    assert len(group.tasks) == 100
    for limits in (GroupLimits(files=100), GroupLimits(bytes=group.tasks[0].bytes_in * 50)):
        sizes = [len(g.tasks) for g in plan_compaction(table, limits=limits).groups]
        assert sum(sizes) == 100
        assert 32 < max(sizes) <= 55
    assert [len(g.tasks) for g in plan_compaction(table, limits=GroupLimits(files=1)).groups] == [32, 32, 32, 4]


class Sharing(LocalRunner):
    """Tasks of so many units each, as a cluster has them; notes how many jobs and tasks there were."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self._units = units
        self.jobs: list[int] = []

    def group_tasks(self, units: Sequence[T], work: Callable[[T], int]) -> Iterable[list[T]]:
        assert all(work(u) > 0 for u in units)
        return [list(units[i : i + self._units]) for i in range(0, len(units), self._units)]

    def run(self, kind: str, payloads: Sequence[str], *, description: str) -> Iterator[str]:
        self.jobs.append(len(payloads))
        yield from super().run(kind, payloads, description=description)


def test_buckets_that_share_a_task() -> None:
    table, runner = filled(partitions=5), Sharing(4)
    seen: list[tuple[int, int]] = []
    result = execute_compaction(plan_compaction(table), runner, lambda done, total: seen.append((done, total)))
    assert runner.jobs == [3]
    assert seen == [(0, 10), (4, 10), (8, 10), (10, 10)]
    assert (result.total.buckets, result.total.files_in, result.total.files_out) == (10, 20, 10)
    assert {r["v"] for r in read_arrow(table).to_pylist()} == {1}


def test_a_task_that_fails_leaves_no_file_of_the_buckets_before() -> None:
    table = filled(partitions=3)
    plan = plan_compaction(table)
    last = plan.tasks[-1]
    victim = table.paths.data_file(last.partition, last.bucket, last.files[0])
    table.file_io.write(victim, b"junk")
    before = data_files(table)
    with pytest.raises(PaimonError, match=last.files[0].file_name):
        run_task("compact", compact_payload(table, plan.tasks))
    assert data_files(table) == before
    with pytest.raises(PaimonError, match=last.files[0].file_name):
        execute_compaction(plan, Sharing(6))
    assert data_files(table) == before


def test_tables_that_share_a_task_fail_alone() -> None:
    tables = [filled(partitions=2) for _ in range(3)]
    broken = plan_compaction(tables[1]).tasks[-1]
    tables[1].file_io.write(tables[1].paths.data_file(broken.partition, broken.bucket, broken.files[0]), b"junk")
    before = data_files(tables[1])
    plans = [TablePlan.of(str(n), partial(plan_compaction, table)) for n, table in enumerate(tables)]
    runner, seen = Sharing(6), list[tuple[int, int]]()
    results = compact_combined(plans, runner, lambda done, total: seen.append((done, total)))
    assert runner.jobs == [2]
    assert seen[-1] == (12, 12)
    assert broken.files[0].file_name in (results[1].error or "")
    assert data_files(tables[1]) == before
    for n in (0, 2):
        result = results[n].result
        assert results[n].error is None
        assert result is not None
        assert (len(result.snapshot_ids), result.total.buckets) == (1, 4)


def test_only_the_named_partitions() -> None:
    table = filled(partitions=3)
    plan = plan_compaction(table, partitions=Comparison("=", "p", 1))
    assert {table.partition_text(t.partition) for t in plan.tasks} == {"p=1"}


def test_a_lost_race_is_an_error_and_leaves_no_files() -> None:
    table = filled()
    late = plan_compaction(table)
    execute_compaction(plan_compaction(table), LocalRunner())
    before = data_files(table)
    with pytest.raises(ConflictError):
        execute_compaction(late, LocalRunner())
    assert data_files(table) == before
    assert read_arrow(table).num_rows == 20


class Overtaken(LocalRunner):
    """Another program compacts the buckets during the first jobs, and writes to them again."""

    def __init__(self, table: Table, jobs: int) -> None:
        super().__init__()
        self.table, self.left, self.jobs = table, jobs, 0

    def run(self, kind: str, payloads: Sequence[str], *, description: str) -> Iterator[str]:
        self.jobs += 1
        results = list(super().run(kind, payloads, description=description))
        if self.left:
            self.left -= 1
            execute_compaction(plan_compaction(self.table), LocalRunner())
            write_arrow(self.table, read_arrow(self.table))
        yield from results


@pytest.mark.parametrize("lost", [1, 4])
def test_a_group_that_lost_a_race_is_compacted_again(lost: int) -> None:
    table = filled(partitions=20)
    plan, seen = plan_compaction(table, limits=GroupLimits(files=16)), list[tuple[int, int]]()
    runner, rows = Overtaken(table, lost), read_arrow(table).num_rows
    result = execute_compaction(plan, runner, lambda done, total: seen.append((done, total)), attempts=5)
    assert seen[-1][0] == seen[-1][1] == result.total.buckets
    assert plan_compaction(table).tasks == ()
    assert read_arrow(table).num_rows == rows
    assert violations(table) == []


def test_races_are_lost_a_limited_number_of_times() -> None:
    table = filled()
    runner, plan = Overtaken(table, 99), plan_compaction(table)
    with pytest.raises(ConflictError):
        execute_compaction(plan, runner, attempts=3)
    assert runner.jobs == 3
    assert violations(table) == []


def test_a_database_is_compacted_beside_a_writer() -> None:
    tables = [filled(partitions=2) for _ in range(3)]
    plans = [TablePlan.of(str(n), partial(plan_compaction, table)) for n, table in enumerate(tables)]
    for compact in (compact_combined, compact_divided):
        for table in tables:
            write_arrow(table, read_arrow(table))
        results = compact(plans, Overtaken(tables[1], 2), lambda done, total: None)
        assert [r.error for r in results] == [None] * 3
        assert [plan_compaction(t).tasks for t in tables] == [()] * 3


def test_an_insert_outlives_a_compaction_that_lost_a_race() -> None:
    table = filled()
    late = plan_compaction(table)
    execute_compaction(plan_compaction(table), LocalRunner())
    done = run_post_commit(plan_write(table), WriteResult(commit=Committed((2,)), compaction=late), LocalRunner())
    assert done.compacted is None
    assert read_arrow(table).num_rows == 20


class _NoExecutors:
    """A runner whose engine gives up with an error of its own."""

    def group_tasks(self, units: Sequence[T], work: Callable[[T], int]) -> Iterable[list[T]]:
        del work
        return [list(units)]

    def run(self, kind: str, payloads: Sequence[str], *, description: str) -> Iterator[str]:
        del kind, payloads, description
        raise RuntimeError("the job was cancelled")
        yield ""


def test_an_insert_does_not_fail_because_its_compaction_failed(caplog: pytest.LogCaptureFixture) -> None:
    table = filled()
    plan = plan_compaction(table)
    done = run_post_commit(plan_write(table), WriteResult(commit=Committed((2,)), compaction=plan), _NoExecutors())
    assert done.compacted is None
    assert "are committed, but the compaction" in caplog.text
    assert "cancelled" in caplog.text


def test_the_first_error_ends_a_run() -> None:
    started: list[str] = []

    def task(kind: str, payload: str) -> str:
        del kind
        started.append(payload)
        time.sleep(0.02)
        raise RuntimeError(payload)

    with pytest.raises(RuntimeError):
        list(LocalRunner(2, run_task=task).run("compact", [str(i) for i in range(200)], description="d"))
    assert len(started) < 200

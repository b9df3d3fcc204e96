"""maintain: what doctor finds is fixed, in order of gain, within the budget, and exactly as planned."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from paimon_spark.api.row_changes import deletions
from paimon_spark.calls.context import CallContext
from paimon_spark.core.cancellation import cancellable
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.engine.compaction.compact import CompactGroup, CompactionPlan
from paimon_spark.engine.health.doctor import diagnose
from paimon_spark.engine.health.maintain import Measure, Status, plan_jobs, run_job
from paimon_spark.engine.row_level import change_arrow, with_all_rows
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import plan_select
from paimon_spark.errors import ArgumentError, StatementCancelledError
from paimon_spark.spec.kinds import Operation
from paimon_spark.spec.predicate import Comparison
from paimon_spark.testing.invariants import leaked, violations
from tests.unit.procedures.calling import Lake
from tests.unit.procedures.warehouse import Warehouse

OPTIONS = {"write_only": "true", "snapshot__num_retained__min": "1", "snapshot__num_retained__max": "2"}


class Timed(Lake):
    """A lake whose clock is a second further at each look."""

    step = 0

    def ctx(self) -> CallContext:
        def tick() -> int:
            self.now += self.step
            return self.now

        return replace(super().ctx(), clock_millis=tick)


@pytest.fixture
def lake() -> Timed:
    """Small files, level-0 files, snapshots and a tag to expire, orphans, and an option without effect."""
    lake = Timed({"p": "INT", "k": "INT"}, primary_key=["p", "k"], partition=["p"], bucket="1", bukcet="5", **OPTIONS)
    for i in range(8):
        lake.insert((1, i), (2, i))
    lake.call("create_tag(table => 't', tag => 'old', snapshot_id => 1, time_retained => '1 h')")
    lake.call("rollback_to(table => 't', snapshot_id => 7, trash => false)")
    lake.now += 7_200_000
    clear_cache()
    return lake


def test_everything_safe_is_mended(lake: Timed) -> None:
    before = set(lake.state())
    planned = lake.call("EXPLAIN CALL sys.maintain('t')")
    assert set(lake.state()) == before
    (warning,) = (a for a in planned if a["action"] == "warn")
    assert (warning["path"], warning["reason"].split()[0]) == ("db.t", "OPTION_UNKNOWN")
    rows = lake.call("maintain('db.*')")
    done = {r["statement"].split("(")[0]: r for r in rows if r["status"] == "done"}
    assert set(done) == {f"CALL sys.{r}" for r in Measure if r not in (Measure.COMPACT_MANIFEST, Measure.EMPTY_TRASH)}
    assert done["CALL sys.compact"]["findings"] == "LEVEL_0_FILES, SMALL_FILES"
    (left,) = (r for r in rows if r["status"] == "left")
    assert (left["findings"], left["files_in"]) == ("OPTION_UNKNOWN", None)
    deleted = {a["path"] for a in planned if a["action"] == "delete"}
    assert before - set(lake.state()) == deleted
    clear_cache()
    assert {f["finding"] for f in lake.call("doctor('t')")} <= {"OPTION_UNKNOWN", "EXPIRED_SNAPSHOTS", "TRASH"}
    assert violations(lake.table) == []
    assert leaked(lake.table) == set()


def test_orphans_go_to_the_trash() -> None:
    lake = Timed({"k": "INT"}, primary_key=["k"], bucket="1", **OPTIONS)
    lake.insert((1,))
    stray = f"{lake.table.path}/bucket-0/data-stray.parquet"
    lake.table.file_io.write(stray, b"stray")
    (row,) = lake.call("maintain(table => 't', actions => 'remove_orphan_files')")
    assert (row["status"], row["files_in"]) == ("done", 1)
    (run,) = lake.call("trash('t')")
    assert (run["procedure"], run["arguments"], run["state"]) == ("remove_orphan_files", "table => 'db.t'", "done")
    kept = {r["finding"]: r for r in lake.call("doctor('t')")}
    assert kept["TRASH"]["found"] == "the trash keeps 1 run for an undo (5 bytes)"
    lake.now += 8 * 86_400_000
    (ended,) = (r for r in lake.call("doctor('t')") if "TRASH" in r["finding"])
    assert (ended["finding"], ended["gain_bytes"], ended["gain_files"]) == ("EXPIRED_TRASH", 5, 1)
    planned = lake.state()
    (emptied,) = (r for r in lake.call("maintain('t')") if r["findings"] == "EXPIRED_TRASH")
    assert (emptied["status"], emptied["files_in"], emptied["bytes_in"]) == ("done", 1, 5)
    assert lake.call("trash('t')") == []
    for path, data in planned.items():
        lake.table.file_io.write(path, data)
    lake.call("undo('t', 'last')")
    assert lake.table.file_io.read(stray) == b"stray"


def test_the_budget(lake: Timed) -> None:
    lake.step = 1000
    rows = lake.call("maintain('t', '1 s')")
    assert [r["status"] for r in rows].count("done") == 0
    assert {r["reason"] for r in rows if r["statement"].startswith("CALL")} == {"the budget is used up"}
    rows = lake.call("maintain('t', '2500 ms')")
    statuses = [r["status"] for r in rows]
    assert statuses[0] == "done"
    assert statuses[1:] == ["left"] * (len(statuses) - 1)


def test_a_compaction_stops_between_groups(lake: Timed) -> None:
    diagnosis = diagnose(lake.table, LocalRunner(), lake.now)
    (job,) = plan_jobs(lake.table, diagnosis, {Measure.COMPACT}, LocalRunner(), lake.now)
    assert isinstance(job.work, CompactionPlan)
    groups = tuple(CompactGroup((t,)) for t in job.work.tasks)
    assert len(groups) == 2
    times = iter([0, 50, 200, 300])
    outcome = run_job(replace(job, work=replace(job.work, groups=groups)), LocalRunner(), lambda: next(times), 40)
    assert (outcome.status, outcome.reason) == (Status.PARTLY, "the budget is used up: 1 of 2 groups left")


def test_only_some_actions(lake: Timed) -> None:
    rows = lake.call("maintain(table => 't', actions => 'Expire_Tags, compact_manifest')")
    assert [r["findings"] for r in rows if r["status"] == "done"] == ["EXPIRED_TAGS"]
    reasons = {r["findings"]: r["reason"] for r in rows if r["status"] == "left"}
    assert reasons["SMALL_FILES"] == "'compact' is not among the actions"
    assert lake.call("maintain(table => 't', actions => 'expire_tags')")[0]["status"] == "left"


def test_a_failure_does_not_stop_the_others(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    for name in ("db.bad", "db.good"):
        warehouse.create(name)
        for i in range(7):
            warehouse.insert(name, (i, "a"))
    data = next(Path(warehouse.path).glob("db.db/bad/p=a/bucket-0/data-*"))
    data.write_bytes(b"nonsense" + data.read_bytes()[8:-8] + b"nonsense")
    rows = {r["table"]: r for r in warehouse.call("maintain(table => 'db.*', actions => 'compact')")}
    assert (rows["db.bad"]["status"], rows["db.good"]["status"]) == ("failed", "done")
    assert data.name in rows["db.bad"]["reason"]


@pytest.mark.parametrize("statement", ["doctor('t')", "verify('t')", "maintain('t')", "maintain('db.*')"])
def test_a_cancelled_examination_is_no_finding(lake: Timed, statement: str) -> None:
    before, flag = lake.state(), threading.Event()
    flag.set()
    with cancellable(flag), pytest.raises(StatementCancelledError):
        lake.call(statement)
    assert lake.state() == before


def test_a_cancelled_job_is_neither_planned_nor_failed(lake: Timed) -> None:
    diagnosis, flag = diagnose(lake.table, LocalRunner(), lake.now), threading.Event()
    (job,) = plan_jobs(lake.table, diagnosis, {Measure.COMPACT}, LocalRunner(), lake.now)
    clear_cache()
    flag.set()
    with cancellable(flag):
        with pytest.raises(StatementCancelledError):
            list(plan_jobs(lake.table, diagnosis, {Measure.COMPACT}, LocalRunner(), lake.now))
        with pytest.raises(StatementCancelledError):
            run_job(job, LocalRunner(), lambda: lake.now, None)
    assert run_job(job, LocalRunner(), lambda: lake.now, None).status is Status.DONE


def test_a_compaction_keeps_deleted_rows_of_data_evolution() -> None:
    options = {"row_tracking__enabled": "true", "data_evolution__enabled": "true", "deletion_vectors__enabled": "true"}
    lake = Lake({"k": "INT"}, **OPTIONS, **options)
    for i in range(6):
        lake.insert((i,))
    rows = {r["findings"]: r for r in lake.call("maintain(table => 't', actions => 'compact')")}
    assert rows["SMALL_FILES"]["status"] == "done"
    plan = plan_select(with_all_rows(lake.table), columns=(), predicate=Comparison(">", "k", 1))
    change_arrow(lake.table, deletions(plan), Operation.DELETE)
    rows = {r["findings"]: r for r in lake.call("maintain(table => 't', actions => 'compact')")}
    assert (rows["DELETED_ROWS"]["status"], rows["DELETED_ROWS"]["reason"]) == ("left", "no statement fixes it")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [("'t', 'soon'", "In the argument 'budget'"), ("table => 't', actions => 'compcat'", "Did you mean 'compact'")],
)
def test_wrong_arguments(lake: Timed, arguments: str, part: str) -> None:
    with pytest.raises(ArgumentError, match=part):
        lake.call(f"maintain({arguments})")

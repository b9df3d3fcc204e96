"""The list of running CALLs, and how they are cancelled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from paimon_spark.calls.running import CALLS, RunningCalls
from paimon_spark.core.cancellation import cancellable, checkpoint, current_flag
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.tasks import run_task
from paimon_spark.errors import StatementCancelledError
from paimon_spark.spec.rows import Timestamp
from tests.unit.procedures.warehouse import Warehouse


class Beside(threading.Thread):
    """Runs something in a thread of its own, as another session does; `failure` is what it raised."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self.failure: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - looked at in the test's own thread
            self.failure = error


@pytest.fixture
def house(tmp_path: Path) -> Warehouse:
    house = Warehouse(tmp_path)
    house.create("db.t")
    for k in (1, 2):
        house.insert("db.t", (k, "a"), (k, "b"))
    return house


@pytest.mark.parametrize("threads", [1, 2])
def test_a_call_is_listed_and_cancelled(house: Warehouse, threads: int) -> None:
    before = set(Path(house.path).rglob("*"))
    started, go_on = threading.Semaphore(0), threading.Event()

    def slow(kind: str, payload: str) -> str:
        started.release()
        assert go_on.wait(30)
        checkpoint()
        return run_task(kind, payload)

    runner = LocalRunner(threads, run_task=slow)
    beside = Beside(lambda: house.call("CALL sys.compact('db.t')", runner=runner, user="ada"))
    assert all(started.acquire(timeout=30) for _ in range(threads))
    (call,) = house.call("CALL sys.running()")
    assert (call["procedure"], call["table"], call["user"]) == ("compact", "db.t", "ada")
    assert call["progress"] == "0/2 compact db.t"
    assert isinstance(call["started_at"], Timestamp)
    threading.Timer(0.2, go_on.set).start()
    assert house.call(f"CALL sys.cancel('{call['id']}')") == [{"result": True}]
    beside.join(30)
    assert isinstance(beside.failure, StatementCancelledError)
    assert house.call("CALL sys.running()") == []
    assert house.call(f"CALL sys.cancel('{call['id']}')") == [{"result": False}]
    assert set(Path(house.path).rglob("*")) == before
    assert len(house.rows("db.t")) == 4


def test_the_flag_of_a_statement_cancels_its_call_too(house: Warehouse) -> None:
    flag = threading.Event()
    flag.set()
    with cancellable(flag), pytest.raises(StatementCancelledError):
        house.call("CALL sys.compact('db.t')")
    assert CALLS.list() == []


class Jobs:
    """The jobs of a CALL: `ended` counts how often they were ended."""

    def __init__(self) -> None:
        self.ended = threading.Semaphore(0)

    def tagged(self, tag: str, title: str) -> AbstractContextManager[None]:
        assert (tag, title) == ("call-1", "CALL merge_into of t")
        return nullcontext()

    def cancel(self, tag: str) -> None:
        assert tag == "call-1"
        self.ended.release()

    def was_cancelled(self, error: Exception) -> bool:
        return str(error) == "the job was ended"


@pytest.mark.parametrize("error", ["the job was ended", "the disk is full"])
def test_only_the_error_of_an_ended_job_is_a_cancellation(error: str) -> None:
    calls, jobs, entered = RunningCalls(), Jobs(), threading.Event()

    def work() -> None:
        with calls.running("call-1", "merge_into", {"target_table": "t"}, "", jobs):
            entered.set()
            assert all(jobs.ended.acquire(timeout=30) for _job in range(2)), "the second job begins after the first end"
            raise RuntimeError(error)

    beside = Beside(work)
    assert entered.wait(30)
    assert [c.title for c in calls.list()] == ["CALL merge_into of t"]
    assert calls.cancel("call-1")
    assert isinstance(beside.failure, StatementCancelledError if error == "the job was ended" else RuntimeError)
    assert str(beside.failure) == error or "What it committed before stays." in str(beside.failure)


def test_an_error_stays_itself_if_nobody_cancels() -> None:
    calls = RunningCalls()

    def work() -> None:
        with calls.running("call-1", "compact", {}, "") as call:
            assert current_flag() is call.flag
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        work()
    assert (calls.list(), current_flag()) == ([], None)

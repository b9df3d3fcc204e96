"""Requests to end a job of another program: who takes them, and what the program that waits is told."""

from __future__ import annotations

import threading
import time

import pytest

from paimon_spark.core.cancellation import cancellable
from paimon_spark.core.table import Table
from paimon_spark.engine.streaming.stop import finish_stop, stop_job, take_stop
from paimon_spark.errors import ArgumentError, StatementCancelledError
from paimon_spark.testing.tables import new_table

NAMES = ("0f-id", "insert-into_paimon.db/t")


def now() -> int:
    return time.time_ns() // 1_000_000


def requests(table: Table) -> list[str]:
    return [s.name for s in table.file_io.list_recursive(f"{table.path}/stream")]


def job(table: Table, *, ends: bool = True) -> threading.Thread:
    """Look for requests as a job does, until there is one."""

    def run() -> None:
        while not take_stop(table, NAMES, now()):
            time.sleep(0.01)
        assert not take_stop(table, NAMES, now())  # another job of the name goes on
        if ends:
            finish_stop(table, NAMES)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("name", NAMES)
def test_a_job_ends_by_its_id_or_name(name: str) -> None:
    table = new_table({"k": "INT"})
    running = job(table)
    stop_job(table, name, 30_000, now())
    running.join(5)
    assert not running.is_alive()
    assert requests(table) == []


def test_nobody_takes_the_request() -> None:
    table = new_table({"k": "INT"})
    with pytest.raises(ArgumentError, match=r"No job 'x' that writes to table .* within 50 ms"):
        stop_job(table, "x", 50, now())
    assert requests(table) == []


def test_a_job_that_takes_long_ends_later() -> None:
    table = new_table({"k": "INT"})
    running = job(table, ends=False)
    with pytest.raises(ArgumentError, match=r"has taken the request to end, but still runs after 500 ms"):
        stop_job(table, NAMES[0], 500, now())
    running.join(5)
    assert requests(table) == ["stop-0f-id"]
    finish_stop(table, NAMES)
    assert requests(table) == []


def test_a_cancelled_wait_withdraws_the_request() -> None:
    table, flag = new_table({"k": "INT"}), threading.Event()
    threading.Timer(0.1, flag.set).start()
    with cancellable(flag), pytest.raises(StatementCancelledError):
        stop_job(table, "x", 30_000, now())
    assert requests(table) == []


@pytest.mark.parametrize("left", [b'{"until": 1, "taken": false}', b"{", b"[]", b'{"until": "x"}'])
def test_old_and_malformed_requests_end_nothing(left: bytes) -> None:
    table = new_table({"k": "INT"})
    table.file_io.write(table.paths.stream_stop("0f-id"), left)
    assert not take_stop(table, NAMES, now())

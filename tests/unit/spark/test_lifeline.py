"""A worker process ends when its connection closes, and takes a closed connection for no end of its input."""

from __future__ import annotations

import os
import pickle
import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from paimon_spark.errors import StatementCancelledError
from paimon_spark.spark.executor.task_watchdog import TaskWatchdog, Watched, watch_task


def main(infile: socket.socket, work: Callable[[], None]) -> None:
    """Takes the place of pyspark's main loop, which is found by its name and the name of its input."""
    assert infile.fileno()
    work()


def as_worker(infile: socket.socket, work: Callable[[], None]) -> None:
    main.__globals__["__name__"] = "pyspark.worker"
    try:
        main(infile, work)
    finally:
        main.__globals__["__name__"] = __name__


def test_outside_of_a_worker_nothing_is_watched() -> None:
    with watch_task() as line:
        assert line.connection is None
        assert not line.is_cut
        line.check()


def test_a_closed_connection_is_no_end_of_input() -> None:
    here, there = socket.socketpair()

    def work() -> None:
        with watch_task() as line:
            line.check()
            there.send(b"more")
            assert not line.is_cut
            there.close()
            with pytest.raises(StatementCancelledError):
                line.check()

    with here:
        as_worker(here, work)


def test_a_mark_of_the_jvm_counts_as_a_closed_connection(tmp_path: Path) -> None:
    here, there = socket.socketpair()
    line = TaskWatchdog(here.fileno(), tmp_path / "cancelled")
    with here, there:
        assert not line.is_cut
        (tmp_path / "cancelled").touch()
        assert line.is_cut
        with pytest.raises(StatementCancelledError):
            line.check()


def test_a_watched_function_becomes_itself_in_the_worker() -> None:
    watched = Watched(partial(pow, 2))
    assert watched(3) == 8
    loaded = pickle.loads(pickle.dumps(watched))
    assert isinstance(loaded, partial)
    assert loaded(3) == 8


def test_the_process_ends_with_its_connection() -> None:
    here, there = socket.socketpair()
    child = os.fork()
    if child == 0:
        there.close()

        def work() -> None:
            with watch_task():
                time.sleep(30)

        as_worker(here, work)
        os._exit(0)
    here.close()
    time.sleep(0.3)
    assert os.waitpid(child, os.WNOHANG) == (0, 0)
    started = time.monotonic()
    there.close()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 1
    assert time.monotonic() - started < 5

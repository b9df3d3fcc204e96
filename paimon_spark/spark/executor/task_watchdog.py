"""Ends a Python worker with its task.

Spark ends a cancelled task at once on the JVM's side and closes its connection to the Python worker, which notices only
at its next read or write there. A worker that merges files for a minute would continue and leave unused files. A thread
therefore watches the connection while a function of this package runs.

Before that, the JVM's side waits up to four seconds for the worker. `CancelledTasks.scala` tells the worker by a file.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import TaskContext

from paimon_spark.errors import StatementCancelledError

_POLL_SECONDS = 0.1
GRACE_SECONDS = 0.5
"""Seconds for which a worker may still write after the end of its task."""
_WORKER = "pyspark.worker"
_GONE = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)


@contextmanager
def watch_task() -> Iterator[TaskWatchdog]:
    """End this process when the connection to the JVM closes meanwhile; do nothing without a connection."""
    line = TaskWatchdog(_connection(), _mark())
    if line.connection is None:
        yield line
        return
    done = threading.Event()
    watch = threading.Thread(target=_watch, args=(line, done), name="paimon-lifeline", daemon=True)
    watch.start()
    try:
        yield line
    finally:
        done.set()
        watch.join()


@dataclass(frozen=True, slots=True)
class TaskWatchdog:
    """The connection of a worker to its task, and the file that tells that the task was cancelled."""

    connection: int | None
    mark: Path | None = None

    @property
    def is_cut(self) -> bool:
        """Return whether the task of this worker has ended."""
        if self.connection is None:
            return False
        if self.mark is not None and self.mark.exists():
            return True
        poll = select.poll()
        poll.register(self.connection, _GONE)
        return bool(poll.poll(0))

    def check(self) -> None:
        """Raise an error if the input ended early because the connection was closed.

        Raises:
            StatementCancelledError: the connection was closed.
        """
        if self.is_cut:
            raise StatementCancelledError("The task was cancelled.")

    def end_if_cut(self) -> None:
        """End this process if its task has ended, without reporting the error that this caused."""
        if self.is_cut:
            os._exit(1)


class Watched:
    """A function whose task is also watched while a worker loads it, which takes a second or two in a new process."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any) -> Any:
        """Call the function."""
        return self._function(*args)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Become the function itself in the worker, which loads the parts in this order."""
        return _loaded, (_WatchBegins(), self._function)


class _WatchBegins:
    """What a worker loads as a watch that has begun."""

    def __reduce__(self) -> tuple[Callable[[], ExitStack], tuple[()]]:
        return _begun, ()


def _begun() -> ExitStack:
    watching = ExitStack()
    watching.enter_context(watch_task())
    return watching


def _loaded(watching: ExitStack, function: Callable[..., Any]) -> Callable[..., Any]:
    watching.close()
    return function


def _watch(line: TaskWatchdog, done: threading.Event) -> None:
    while not done.wait(_POLL_SECONDS):
        line.end_if_cut()


def _mark() -> Path | None:
    """Return the file that the JVM makes if it cancels the task of this worker."""
    task, directories = TaskContext.get(), os.environ.get("SPARK_LOCAL_DIRS")
    if task is None or not directories:
        return None
    return Path(directories.split(",")[0], f"paimon-cancelled-{task.taskAttemptId()}")


def _connection() -> int | None:
    """Return the descriptor by which pyspark's worker reads what the JVM sends, found in the frame of its main loop."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_name == "main" and frame.f_globals.get("__name__") in (_WORKER, "__main__"):
            source = frame.f_locals.get("infile")
            return None if source is None else int(source.fileno())
    return None

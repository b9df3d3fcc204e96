"""The running CALLs of this process: their users, their progress, and how to cancel them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from paimon_spark.calls.progress import Pace
from paimon_spark.core.cancellation import cancellable, cancellation, current_flag
from paimon_spark.errors import StatementCancelledError

if TYPE_CHECKING:
    from paimon_spark.engine.spark_jobs import JobControl

ENDS_WITHIN_S = 10.0
_AGAIN_S = 0.25
UNLISTED = frozenset({"help", "running", "cancel"})
"""Procedures that are not listed, because they return at once."""
_TABLES = ("table", "target_table", "database")


@dataclass(slots=True)
class RunningCall:
    """One CALL: its progress changes while it runs. `stop` ends its Spark jobs."""

    id: str
    procedure: str
    table: str | None
    user: str
    started_ms: int
    flag: threading.Event
    stop: Callable[[], None]
    progress: str | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def title(self) -> str:
        """Return the description of its jobs."""
        return f"CALL {self.procedure}" + (f" of {self.table}" if self.table else "")

    def following(self, report: Callable[[int, int, str], None]) -> Callable[[int, int, str], None]:
        """Return a progress function that also keeps the progress here."""
        pace = Pace()

        def followed(done: int, total: int, what: str) -> None:
            text = pace.text(done, total, what)
            self.progress = f"{done}/{total} {what}" + (f", {text}" if text else "")
            report(done, total, what)

        return followed


class RunningCalls:
    """The CALLs of one process, which may run in several sessions at once."""

    def __init__(self) -> None:
        self._calls: dict[str, RunningCall] = {}
        self._numbers = count(1)

    def next_id(self) -> str:
        """Return an id that no other CALL of this process has."""
        return f"call-{next(self._numbers)}"

    def list(self) -> list[RunningCall]:
        """Return the running CALLs, oldest first."""
        return list(self._calls.values())

    def cancel(self, call_id: str, patience: float = ENDS_WITHIN_S) -> bool:
        """End a CALL and wait until it has ended; return whether it ran and has ended."""
        call = self._calls.get(call_id.strip())
        if call is None:
            return False
        call.flag.set()
        deadline = time.monotonic() + patience
        call.stop()
        while not call.ended.wait(_AGAIN_S) and time.monotonic() < deadline:
            call.stop()  # a job may have begun after the last time
        return call.ended.is_set()

    @contextmanager
    def running(
        self, call_id: str, procedure: str, values: Mapping[str, Any], user: str, control: JobControl | None = None
    ) -> Iterator[RunningCall]:
        """List a CALL while the block runs, which `cancel` ends.

        Args:
            call_id: its id.
            procedure: the name of the procedure.
            values: its arguments, for the table.
            user: the user who runs it.
            control: names and cancels its Spark jobs; None without Spark.

        Raises:
            StatementCancelledError: it was cancelled. Other errors are raised unchanged.
        """
        table = next((str(values[name]) for name in _TABLES if values.get(name)), None)
        flag = current_flag() or threading.Event()
        stop = partial(control.cancel, call_id) if control is not None else _nothing
        call = RunningCall(call_id, procedure, table, user, time.time_ns() // 1_000_000, flag, stop)
        self._calls[call_id] = call
        try:
            with cancellable(flag), control.tagged(call_id, call.title) if control is not None else nullcontext():
                yield call
        except StatementCancelledError:
            raise
        except Exception as error:
            if flag.is_set() and control is not None and control.was_cancelled(error):
                raise cancellation("its job") from error
            raise
        finally:
            del self._calls[call_id]
            call.ended.set()


def _nothing() -> None:
    """Without Spark, there are no jobs to end."""


CALLS = RunningCalls()
"""The CALLs of this process: of all sessions of a Spark application, or of a program without Spark."""

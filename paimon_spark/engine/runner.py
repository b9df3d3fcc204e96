"""Task runners: this process, or the runner of another package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Protocol, TypeVar

from paimon_spark.core.cancellation import checkpoint

_POLL_SECONDS = 0.05
_T = TypeVar("_T")


def _run_task(kind: str, payload: str) -> str:
    from paimon_spark.engine.tasks import run_task  # importing it would load the whole engine

    return run_task(kind, payload)


class TaskRunner(Protocol):
    """Runs tasks of one kind; payloads and results are JSON texts."""

    def group_tasks(self, units: Sequence[_T], work: Callable[[_T], int]) -> Iterable[list[_T]]:
        """Return units in order, grouped into tasks by the `work` of each."""
        ...

    def run(self, kind: str, payloads: Sequence[str], *, description: str) -> Iterator[str]:
        """Yield results in completion order; the first error ends the run."""
        ...


class LocalRunner:
    """Runs tasks in this process.

    Args:
        threads: number of concurrent tasks.
        run_task: runs one task, given its kind and its payload; by default as an executor does.
    """

    def __init__(self, threads: int = 1, *, run_task: Callable[[str, str], str] | None = None) -> None:
        self._threads = threads
        self._run_task = run_task or _run_task

    def group_tasks(self, units: Sequence[_T], work: Callable[[_T], int]) -> Iterable[list[_T]]:
        """Return each unit as a group: local tasks have no overhead."""
        del work
        return [[unit] for unit in units]

    def run(self, kind: str, payloads: Sequence[str], *, description: str) -> Iterator[str]:
        """Yield results in completion order."""
        del description
        if self._threads == 1 or len(payloads) <= 1:
            for payload in payloads:
                checkpoint()
                yield self._run_task(kind, payload)
            return
        with ThreadPoolExecutor(self._threads, thread_name_prefix=kind) as pool:
            left = {pool.submit(copy_context().run, self._run_task, kind, p) for p in payloads}
            try:
                while left:
                    done, left = wait(left, _POLL_SECONDS, FIRST_COMPLETED)
                    checkpoint()
                    yield from (each.result() for each in done)
            finally:
                pool.shutdown(cancel_futures=True)

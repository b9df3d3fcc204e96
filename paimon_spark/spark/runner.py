"""Engine tasks as a Spark job: one task per payload, one Python worker each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession

from paimon_spark.core.bin_packing import group_tasks
from paimon_spark.core.cancellation import checkpoint
from paimon_spark.core.table import Table
from paimon_spark.engine.runner import LocalRunner, TaskRunner
from paimon_spark.spark.arrow_map import map_in_arrow
from paimon_spark.spark.executor.worker import TextList, run_tasks
from paimon_spark.spark.failures import clear_failure
from paimon_spark.spark.job_control import cancel_on_failure, new_tag
from paimon_spark.spark.jvm_frames import tasks_at_once, text_frame

_POLL_SECONDS = 0.05
_NEAR_WORK = 8 << 20
"""The work, in bytes plus 256 KB per file, up to which tasks run faster in this process than in a job of workers."""
_T = TypeVar("_T")


class SparkRunner:
    """A `TaskRunner` on the executors of one session."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def group_tasks(self, units: Sequence[_T], work: Callable[[_T], int]) -> Iterable[list[_T]]:
        """Return units of work in order, grouped by task, because a Python worker costs some 35 ms per task."""
        return group_tasks(units, work, tasks_at_once(self._session))

    def run(self, kind: str, payloads: Sequence[str], *, description: str) -> Iterator[str]:
        """Run all payloads in one job and yield each result when its task is done.

        Raises:
            PaimonError: a task failed; the results of the tasks that ended before are yielded first.
        """
        if not payloads:
            return
        lines = [f"{number} {payload}" for number, payload in enumerate(payloads)]
        done = self._session.sparkContext.accumulator([], TextList())
        frame = map_in_arrow(text_frame(self._session, lines), partial(run_tasks, kind, done), "answer string")
        job = _Job(self._session, frame, description)
        job.start()
        seen: set[str] = set()
        try:
            while job.is_alive():
                job.join(_POLL_SECONDS)
                checkpoint()
                yield from _unseen(done.value, seen)
        except BaseException:
            job.cancel()
            raise
        finally:
            job.join()
        yield from _unseen(done.value, seen)
        if job.failure is not None:
            raise clear_failure(job.failure) from job.failure
        yield from _unseen(job.answers, seen)


class NearRunner:
    """A `TaskRunner` for the compaction after a write: small work runs in this process, larger work on the executors.

    Args:
        session: the session of the statement.
        table: the table, whose option `write.local-max-rows` may assign all work to the executors.
    """

    def __init__(self, session: SparkSession, table: Table) -> None:
        self._spark = SparkRunner(session)
        self._near = table.options.write_local_max_rows > 0
        self._little = False

    def group_tasks(self, units: Sequence[_T], work: Callable[[_T], int]) -> Iterable[list[_T]]:
        """Return units of work in order, in one group if the work is small."""
        self._little = self._near and sum(map(work, units)) <= _NEAR_WORK
        return [list(units)] if self._little else self._spark.group_tasks(units, work)

    def run(self, kind: str, payloads: Sequence[str], *, description: str) -> Iterator[str]:
        """Run the payloads of the last grouped units."""
        runner: TaskRunner = LocalRunner() if self._little else self._spark
        return runner.run(kind, payloads, description=description)


class _Job(InheritableThread):
    """Collects a frame in a thread, with the caller's job group."""

    def __init__(self, session: SparkSession, frame: DataFrame, description: str) -> None:
        super().__init__(target=self._collect, name="paimon-tasks", daemon=True)
        self._session = session
        self._frame = frame
        self._description = description
        self._tag = new_tag()
        self.answers: list[str] = []
        self.failure: Exception | None = None

    def _collect(self) -> None:
        try:
            with cancel_on_failure(self._session, self._tag, description=self._description):
                self.answers = [row.answer for row in self._frame.collect()]
        except Exception as error:  # noqa: BLE001 - raised again where the caller waits
            self.failure = error

    def cancel(self) -> None:
        """Cancel the job, which ends the thread."""
        self._session.sparkContext.cancelJobsWithTag(self._tag)


def _unseen(texts: Sequence[str], seen: set[str]) -> Iterator[str]:
    """Yield the new results, each with the number of its task."""
    for text in texts:
        number, _, answer = text.partition(" ")
        if number not in seen:
            seen.add(number)
            yield answer

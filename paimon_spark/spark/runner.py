"""Engine tasks as a Spark job: one task a payload, one Python worker each."""

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
from paimon_spark.spark.job_control import cancel_on_failure, new_tag, with_description
from paimon_spark.spark.jvm_frames import tasks_at_once, text_frame

_POLL_SECONDS = 0.05
_NEAR_WORK = 8 << 20
"""The work of tasks, a file 256 KB besides its bytes, that costs less in this process than a job of workers."""
_T = TypeVar("_T")


class SparkRunner:
    """A `TaskRunner` on the executors of one session."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def group_tasks(self, units: Sequence[_T], work: Callable[[_T], int]) -> Iterable[list[_T]]:
        """Return units of work in order, those together that share a task: a Python worker costs some 35 ms a task."""
        return group_tasks(units, work, tasks_at_once(self._session))

    def run(self, kind: str, payloads: Sequence[str], *, description: str) -> Iterator[str]:
        """Run all payloads in one job and yield each answer when its task is done.

        Raises:
            PaimonError: a task failed with it; the answers of the tasks that ended before are yielded first.
        """
        if not payloads:
            return
        lines = [f"{number} {payload}" for number, payload in enumerate(payloads)]
        done = self._session.sparkContext.accumulator([], TextList())
        frame = map_in_arrow(text_frame(self._session, lines), partial(run_tasks, kind, done), "answer string")
        with with_description(self._session, description):
            job = _Job(self._session, frame)
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
    """A `TaskRunner` for what follows a write: little work is done in this process, more on the executors.

    Args:
        session: the session of the statement.
        table: the table, whose option `write.local-max-rows` may leave all work to the executors.
    """

    def __init__(self, session: SparkSession, table: Table) -> None:
        self._spark = SparkRunner(session)
        self._near = table.options.write_local_max_rows > 0
        self._little = False

    def group_tasks(self, units: Sequence[_T], work: Callable[[_T], int]) -> Iterable[list[_T]]:
        """Return units of work in order, all together if they are little."""
        self._little = self._near and sum(map(work, units)) <= _NEAR_WORK
        return [list(units)] if self._little else self._spark.group_tasks(units, work)

    def run(self, kind: str, payloads: Sequence[str], *, description: str) -> Iterator[str]:
        """Run the payloads of the units that were grouped last."""
        runner: TaskRunner = LocalRunner() if self._little else self._spark
        return runner.run(kind, payloads, description=description)


class _Job(InheritableThread):
    """Collects a frame beside the caller, with the caller's job group and description."""

    def __init__(self, session: SparkSession, frame: DataFrame) -> None:
        super().__init__(target=self._collect, name="paimon-tasks", daemon=True)
        self._session = session
        self._frame = frame
        self._tag = new_tag()
        self.answers: list[str] = []
        self.failure: Exception | None = None

    def _collect(self) -> None:
        try:
            with cancel_on_failure(self._session, self._tag):
                self.answers = [row.answer for row in self._frame.collect()]
        except Exception as error:  # noqa: BLE001 - raised again where the caller waits
            self.failure = error

    def cancel(self) -> None:
        """End the job; the thread ends with it."""
        self._session.sparkContext.cancelJobsWithTag(self._tag)


def _unseen(texts: Sequence[str], seen: set[str]) -> Iterator[str]:
    """Yield the answers, each of which follows the number of its task, that were not yielded yet."""
    for text in texts:
        number, _, answer = text.partition(" ")
        if number not in seen:
            seen.add(number)
            yield answer

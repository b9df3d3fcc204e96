"""Engine tasks as a Spark job: one task a payload, one Python worker each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession

from paimon_spark.spark.arrow_map import map_in_arrow
from paimon_spark.spark.failures import clear_failure
from paimon_spark.spark.frames import text_frame
from paimon_spark.spark.worker import TextList, run_tasks

_DESCRIPTION = "spark.job.description"
_POLL_SECONDS = 0.05


class SparkRunner:
    """A `TaskRunner` on the executors of one session."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

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
        with described(self._session, description):
            job = _Job(frame)
            job.start()
        seen: set[str] = set()
        try:
            while job.is_alive():
                job.join(_POLL_SECONDS)
                yield from _unseen(done.value, seen)
        finally:
            job.join()
        yield from _unseen(done.value, seen)
        if job.failure is not None:
            raise clear_failure(job.failure) from job.failure
        yield from _unseen(job.answers, seen)


class _Job(InheritableThread):
    """Collects a frame beside the caller, with the caller's job group and description."""

    def __init__(self, frame: DataFrame) -> None:
        super().__init__(target=self._collect, name="paimon-tasks", daemon=True)
        self._frame = frame
        self.answers: list[str] = []
        self.failure: Exception | None = None

    def _collect(self) -> None:
        try:
            self.answers = [row.answer for row in self._frame.collect()]
        except Exception as error:  # noqa: BLE001 - raised again where the caller waits
            self.failure = error


def _unseen(texts: Sequence[str], seen: set[str]) -> Iterator[str]:
    """Yield the answers, each of which follows the number of its task, that were not yielded yet."""
    for text in texts:
        number, _, answer = text.partition(" ")
        if number not in seen:
            seen.add(number)
            yield answer


@contextmanager
def described(session: SparkSession, text: str) -> Iterator[None]:
    """Give the jobs that run meanwhile a description, and restore the one before."""
    context = session.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, text)
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]

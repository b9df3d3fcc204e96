"""Engine tasks as a Spark job: one task a payload, one Python worker each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from pyspark.sql import SparkSession

from paimon_spark.spark.arrow_map import map_in_arrow
from paimon_spark.spark.frames import text_frame
from paimon_spark.spark.worker import run_tasks

_DESCRIPTION = "spark.job.description"


class SparkRunner:
    """A `TaskRunner` on the executors of one session."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def run(self, kind: str, payloads: Sequence[str], *, description: str) -> Iterator[str]:
        """Run all payloads in one job and yield the answers."""
        if not payloads:
            return
        frame = map_in_arrow(text_frame(self._session, payloads), partial(run_tasks, kind), "answer string")
        with described(self._session, description):
            rows = frame.collect()
        yield from (row.answer for row in rows)


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

"""Control of Spark jobs of this package: descriptions, cancellation, and waiting for the end of all their tasks."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, cast

from pyspark import SparkContext
from pyspark.sql import SparkSession

from paimon_spark.spark.executor.task_watchdog import GRACE_SECONDS
from paimon_spark.spark.jvm_frames import jvm_frames

_PATIENCE_SECONDS = 30.0
_AGAIN_SECONDS = 2.0
"""After this time without an end, tasks are interrupted again."""
_MOST_TASKS = 10_000
_engine_tags: list[str] = []
_POLL_SECONDS = 0.05


@contextmanager
def cancel_on_failure(
    session: SparkSession, tag: str | None = None, *, description: str | None = None
) -> Iterator[None]:
    """Raise a failure of the jobs in the block only after all of their tasks have ended.

    Spark reports a failed or cancelled job at once and ends its other tasks later; a caller that is interrupted leaves
    its job running. `tag` is the tag of these jobs, by which they can be cancelled; `description` is theirs, if they
    are to have another than the caller's.
    """
    tag = tag or new_tag()
    with _labelled(session, (tag, *_engine_tags), description, interrupts=True):
        try:
            yield
        except BaseException:
            session.sparkContext.cancelJobsWithTag(tag)
            _wait_for_tasks(session.sparkContext, tag)
            raise


@contextmanager
def tagged(session: SparkSession, tag: str, description: str) -> Iterator[None]:
    """Tag the jobs of the block within this engine, and describe them."""
    with _labelled(session, (_own_tag(tag),), description):
        yield


def cancel_tagged(session: SparkSession, tag: str) -> None:
    """Cancel the jobs with a tag of this engine."""
    session.sparkContext.cancelJobsWithTag(_own_tag(tag))


def _own_tag(tag: str) -> str:
    """Return a tag that no other engine of the application uses."""
    return "-".join([*_engine_tags, tag])


def tag_all(tag: str) -> None:
    """Tag all jobs of this process, so that the JVM can cancel them if this process dies."""
    _engine_tags[:] = [tag]


def new_tag() -> str:
    """Return a tag that no other job has."""
    return f"paimon-{uuid.uuid4().hex}"


@contextmanager
def _labelled(
    session: SparkSession, tags: Sequence[str], description: str | None, *, interrupts: bool = False
) -> Iterator[None]:
    """Label the jobs of the block: two round trips, however many labels there are."""
    jvm_frames().enterJobs(session._jsparkSession, "\n".join(tags), description, interrupts)
    try:
        yield
    finally:
        jvm_frames().leaveJobs(session._jsparkSession)


def _wait_for_tasks(context: SparkContext, tag: str) -> None:
    tracker = context._jsc.sc().statusTracker()
    now = time.monotonic()
    deadline, again = now + _PATIENCE_SECONDS, now + _AGAIN_SECONDS
    while now < deadline and any(_runs(tracker, job) for job in tracker.getJobIdsForTag(tag)):
        if now > again:
            _interrupt_tasks(context, tag)
            again = now + _AGAIN_SECONDS
        time.sleep(_POLL_SECONDS)
        now = time.monotonic()
    time.sleep(GRACE_SECONDS)


def _interrupt_tasks(context: SparkContext, tag: str) -> None:
    """Interrupt the running tasks of jobs with a tag.

    Spark interrupts a task of a cancelled job once. Code that it runs, such as Hadoop's access to local files, may
    swallow that.
    """
    scheduler, jvm = context._jsc.sc(), cast("Any", context._jvm)
    status = jvm.org.apache.spark.status.api.v1
    running, by_id = jvm.java.util.List.of(status.TaskStatus.RUNNING), status.TaskSorting.ID
    tracker = scheduler.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForTag(tag)]
    for stage in chain.from_iterable(_active_stages(tracker, job.get()) for job in jobs if job.isDefined()):
        attempt = stage.currentAttemptId()
        tasks = scheduler.statusStore().taskList(stage.stageId(), attempt, 0, _MOST_TASKS, by_id, running)
        for number in range(tasks.size()):
            scheduler.killTaskAttempt(tasks.apply(number).taskId(), True, "cancelled")  # noqa: FBT003, it has no name


def _runs(tracker: Any, job_id: int) -> bool:
    job = tracker.getJobInfo(job_id)
    if job.isEmpty():
        return False
    return str(job.get().status()) == "RUNNING" or next(_active_stages(tracker, job.get()), None) is not None


def _active_stages(tracker: Any, job: Any) -> Iterator[Any]:
    """Yield the stages of a job that have running tasks."""
    stages = [tracker.getStageInfo(stage) for stage in job.stageIds()]
    return (s.get() for s in stages if s.isDefined() and s.get().numActiveTasks() > 0)

"""Control of Spark jobs of this package: descriptions, cancellation, and waiting for the end of all their tasks."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from paimon_spark.spark.executor.task_watchdog import GRACE_SECONDS

_DESCRIPTION = "spark.job.description"
_INTERRUPT = "spark.job.interruptOnCancel"
_PATIENCE_SECONDS = 30.0
_engine_tags: list[str] = []
_POLL_SECONDS = 0.05


@contextmanager
def with_description(session: SparkSession, text: str) -> Iterator[None]:
    """Set the description of the jobs in the block, and restore the previous one."""
    with _property(session.sparkContext, _DESCRIPTION, text):
        yield


@contextmanager
def cancel_on_failure(session: SparkSession, tag: str | None = None) -> Iterator[None]:
    """Raise a failure of the jobs in the block only after all of their tasks have ended.

    Spark reports a failed or cancelled job at once and ends its other tasks later; a caller that is interrupted leaves
    its job running. `tag` is the tag of these jobs, by which they can be cancelled.
    """
    context = session.sparkContext
    tag = tag or new_tag()
    tags = [tag, *_engine_tags]
    for each in tags:
        context.addJobTag(each)
    try:
        with _property(context, _INTERRUPT, "true"):
            yield
    except BaseException:
        context.cancelJobsWithTag(tag)
        _wait_for_tasks(context, tag)
        raise
    finally:
        for each in tags:
            context.removeJobTag(each)


@contextmanager
def tagged(session: SparkSession, tag: str) -> Iterator[None]:
    """Tag the jobs of the block, within this engine."""
    own = _own_tag(tag)
    session.sparkContext.addJobTag(own)
    try:
        yield
    finally:
        session.sparkContext.removeJobTag(own)


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
def _property(context: SparkContext, key: str, value: str) -> Iterator[None]:
    before = context.getLocalProperty(key)
    context.setLocalProperty(key, value)
    try:
        yield
    finally:
        context.setLocalProperty(key, before)  # type: ignore[arg-type]


def _wait_for_tasks(context: SparkContext, tag: str) -> None:
    tracker = context._jsc.sc().statusTracker()
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline and any(_runs(tracker, job) for job in tracker.getJobIdsForTag(tag)):
        time.sleep(_POLL_SECONDS)
    time.sleep(GRACE_SECONDS)


def _runs(tracker: Any, job_id: int) -> bool:
    job = tracker.getJobInfo(job_id)
    if job.isEmpty():
        return False
    if str(job.get().status()) == "RUNNING":
        return True
    stages = [tracker.getStageInfo(stage) for stage in job.get().stageIds()]
    return any(stage.isDefined() and stage.get().numActiveTasks() > 0 for stage in stages)

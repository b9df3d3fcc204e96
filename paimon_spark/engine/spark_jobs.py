"""What procedures need of Spark beyond running tasks: joins, sorts, rows in other buckets, and its own tables."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from paimon_spark.engine.merge_into import Merger
from paimon_spark.engine.migrate import SourceTables
from paimon_spark.engine.redistribution.postpone_compact import PostponedReplay
from paimon_spark.engine.redistribution.rescale import Rescaler
from paimon_spark.engine.redistribution.sort_compact import Sorter


class SparkJobs(Merger, Sorter, PostponedReplay, Rescaler, SourceTables, Protocol):
    """All jobs that a Spark session runs for procedures."""

    @property
    def tasks_at_once(self) -> int:
        """Return how many tasks run at a time."""
        ...


class JobControl(Protocol):
    """Names and ends the jobs of a CALL."""

    def tagged(self, tag: str, title: str) -> AbstractContextManager[None]:
        """Give the jobs of the block a tag, and a description where they have none."""
        ...

    def cancel(self, tag: str) -> None:
        """End the jobs with a tag."""
        ...

    def was_cancelled(self, error: Exception) -> bool:
        """Return whether an error is that of a job that was ended."""
        ...

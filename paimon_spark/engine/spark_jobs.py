"""Interfaces to Spark for procedures: joins, sorts, rewrites to other buckets, and tables of Spark's own catalog."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from paimon_spark.engine.column_merge import ColumnMerger
from paimon_spark.engine.merge_into import Merger
from paimon_spark.engine.migrate import SourceTables
from paimon_spark.engine.redistribution.postpone_compact import PostponedReplay
from paimon_spark.engine.redistribution.rescale import Rescaler
from paimon_spark.engine.redistribution.sort_compact import Sorter


class SparkJobs(Merger, ColumnMerger, Sorter, PostponedReplay, Rescaler, SourceTables, Protocol):
    """All jobs that a Spark session runs for procedures."""

    @property
    def tasks_at_once(self) -> int:
        """Return the number of concurrent tasks."""
        ...


class JobControl(Protocol):
    """Names and cancels the jobs of a CALL."""

    def tagged(self, tag: str, title: str) -> AbstractContextManager[None]:
        """Tag the jobs of the block, and describe those without a description."""
        ...

    def cancel(self, tag: str) -> None:
        """Cancel the jobs with a tag."""
        ...

    def was_cancelled(self, error: Exception) -> bool:
        """Return whether an error is that of a cancelled job."""
        ...

"""The Spark jobs that procedures need beyond running tasks: joins and sorts."""

from __future__ import annotations

from typing import Protocol

from paimon_spark.engine.merge_into import Merger
from paimon_spark.engine.sort_compact import Sorter


class SparkJobs(Merger, Sorter, Protocol):
    """All jobs that a Spark session runs for procedures."""

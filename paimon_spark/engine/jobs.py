"""What procedures need of Spark beyond running tasks: jobs that bring rows together."""

from __future__ import annotations

from typing import Protocol

from paimon_spark.engine.merge_into import Merger
from paimon_spark.engine.sort_compact import Sorter


class SparkJobs(Merger, Sorter, Protocol):
    """Everything that a session of Spark does for procedures."""

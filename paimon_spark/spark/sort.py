"""A sorting compaction as a Spark job: one range shuffle by the order, then each task writes its range."""

from __future__ import annotations

from pyspark.sql import SparkSession

from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.engine.redistribution.sort_compact import SortPlan
from paimon_spark.spark.executor.worker import rewriter
from paimon_spark.spark.jvm_frames import arrow_batches
from paimon_spark.spark.read_modes import ReadRequest
from paimon_spark.spark.reads import read_frame
from paimon_spark.spark.sort_order import in_order
from paimon_spark.spark.writes import run_writers
from paimon_spark.spec.predicate import TRUE


def rewrite_sorted(session: SparkSession, plan: SortPlan) -> list[CommitMessage]:
    """Write the rows of the plan's files into new files, in order, and return what was written.

    Partitions stay together, so that a task writes few of them. Rows are transferred to Python once to be written, and
    once before that if their order is a curve.

    Raises:
        PaimonError: a task failed; the new files are deleted.
    """
    table = plan.table
    rows = read_frame(session, ReadRequest(table, tuple(table.schema.field_names), TRUE, plan.splits))
    placed = in_order(rows, table, plan.order, plan.columns, plan.ranges)
    return run_writers(session, plan.write, arrow_batches(placed), rewriter)

"""A sorting compaction as a Spark job: one range shuffle by the order, then each task writes its range."""

from __future__ import annotations

from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, StructType

from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.engine.redistribution.sort_compact import SortPlan
from paimon_spark.spark.arrow_map import map_in_arrow
from paimon_spark.spark.executor.worker import add_curve, rewriter
from paimon_spark.spark.jvm_frames import arrow_batches
from paimon_spark.spark.read_modes import ReadRequest
from paimon_spark.spark.reads import read_frame
from paimon_spark.spark.writes import run_writers
from paimon_spark.spec.clustering import Order
from paimon_spark.spec.predicate import TRUE
from paimon_spark.spec.quoted_text import quoted_name

_CURVE = "__curve__"


def rewrite_sorted(session: SparkSession, plan: SortPlan) -> list[CommitMessage]:
    """Write the rows of the plan's files into new files, in order, and return what was written.

    Partitions stay together, so that a task writes few of them. Rows are transferred to Python once to be written, and
    once before that if their order is a curve.

    Raises:
        PaimonError: a task failed; the new files are deleted.
    """
    table = plan.table
    names = tuple(table.schema.field_names)
    rows = read_frame(session, ReadRequest(table, names, TRUE, plan.splits))
    frame, order = _keyed(rows, plan)
    keys = [*(_column(name) for name in table.schema.partition_keys), *order]
    placed = frame.repartitionByRange(plan.ranges, *keys).sortWithinPartitions(*keys)
    return run_writers(session, plan.write, arrow_batches(placed.select(*(_column(name) for name in names))), rewriter)


def _keyed(rows: DataFrame, plan: SortPlan) -> tuple[DataFrame, list[Column]]:
    """Return the rows with their sort columns, and these columns."""
    if plan.order is Order.ORDER:
        return rows, [_column(name) for name in plan.columns]
    text_bytes = plan.table.options.number("zorder.var-length-contribution")
    schema = StructType([*rows.schema.fields]).add(_CURVE, BinaryType())
    curve = partial(add_curve, plan.order.value, plan.columns, text_bytes, _CURVE)
    return map_in_arrow(rows, curve, schema), [f.col(_CURVE)]


def _column(name: str) -> Column:
    return f.col(quoted_name(name))

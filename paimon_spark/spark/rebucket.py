"""Rewriting of rows to other buckets, as a Spark job: one read, one shuffle of packed batches, ordered writes.

Used to rescale partitions and to replay postponed files. The JVM handles packed batches, not rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from paimon_spark.core.bin_packing import group_tasks, task_cost
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.scan.splits import Split
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import WritePlan
from paimon_spark.spark.arrow_map import map_in_arrow
from paimon_spark.spark.executor.worker import SPREAD, keyed_splits, rewriter, spreader
from paimon_spark.spark.jvm_frames import tasks_at_once, text_frame
from paimon_spark.spark.memory import writer_share
from paimon_spark.spark.writes import run_writers, write_tasks


def move_rows(session: SparkSession, source: Table, plan: WritePlan, splits: Sequence[Split]) -> list[CommitMessage]:
    """Write the rows of `splits` to the buckets that they have in the table of `plan`; nothing is committed.

    Rows of one bucket are written in the order of the splits.

    Raises:
        PaimonError: a task failed; the new files are deleted.
    """
    tasks = write_tasks(session, plan.table)
    groups = group_tasks(
        list(enumerate(splits)), lambda s: task_cost(s[1].size, len(s[1].files)), tasks_at_once(session)
    )
    lines = (keyed_splits((str(number), split) for number, split in group) for group in groups)
    rows = map_in_arrow(text_frame(session, lines), spreader(source, plan.table, plan.info, tasks), SPREAD)
    placed = rows.repartition(tasks, "task").sortWithinPartitions("position").select("rows")
    with_share = replace(plan, info=replace(plan.info, buffer=writer_share(session, plan.table)))
    return run_writers(session, with_share, placed, rewriter)

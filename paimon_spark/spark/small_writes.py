"""Writes of few rows in the engine process: without a shuffle, and without a job of Python workers."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from paimon_spark.core.arrow import with_offsets
from paimon_spark.core.cancellation import checkpoint
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.compact.cluster_sort import clustered_rows
from paimon_spark.core.spill.space import local_directories
from paimon_spark.core.table import Table
from paimon_spark.core.write.cross_partition import CrossPartitionWriter
from paimon_spark.core.write.table_writer import TableWriter
from paimon_spark.engine.cross_partition import with_existing_keys
from paimon_spark.engine.insert import WritePlan
from paimon_spark.spark.failures import clear_failure
from paimon_spark.spark.job_control import cancel_on_failure
from paimon_spark.spark.jvm_frames import small_rows
from paimon_spark.spec.kinds import BucketMode

_MOST_BYTES = 128 << 10
_MOST_ROWS = (1 << 31) - 2
_STREAMED = 10
MOST_KEYS = 10_000
"""Maximum number of stored rows that are joined with new ones in this process, by a primary key or an `upsert-key`."""


def write_small(session: SparkSession, plan: WritePlan, frame: DataFrame) -> list[CommitMessage] | None:
    """Write the rows of `frame` in this process if they are few; return None, with nothing written, if they are not.

    Raises:
        PaimonError: the query or the write failed; the files of the write are deleted.
    """
    batches = few_batches(session, plan, frame) if _may_be_small(plan) else None
    if batches is None:
        return None
    table, info = plan.table, plan.info
    if table.bucket_mode is BucketMode.KEY_DYNAMIC:
        joined = with_existing_keys(table, None if plan.overwrite else plan.snapshot_id, batches)
        keyed = CrossPartitionWriter(table, replace(info, assigners=1), spill_dirs=local_directories())
        with keyed as writer:
            for batch in joined:
                writer.write(batch)
            return writer.finish()
    with TableWriter(table, info, spill_dirs=local_directories()) as writer:
        for batch in clustered_rows(table, batches):
            writer.write(batch)
        checkpoint()
        return writer.finish()


class LocalLimits(NamedTuple):
    """The rows that this process writes itself, and their size in bytes in Spark's format."""

    rows: int
    bytes: int


def local_limits(table: Table, *, streams: bool = False) -> LocalLimits:
    """Return the limits of a statement, or of a micro-batch, whose rows the JVM has in memory already."""
    options, factor = table.options, _STREAMED if streams else 1
    rows = 0 if options.is_set("sink.parallelism") else max(options.write_local_max_rows, 0)
    return LocalLimits(min(rows * factor, _MOST_ROWS), _MOST_BYTES * factor)


def few_batches(session: SparkSession, plan: WritePlan, frame: DataFrame) -> list[pa.RecordBatch] | None:
    """Return the rows of `frame` if they are within the option `write.local-max-rows` and cheap to compute.

    Raises:
        PaimonError: the query failed.
    """
    most = local_limits(plan.table, streams=plan.batch is not None)
    if not most.rows:
        return None
    try:
        packed = small_rows(frame, *most, run=False)
        if packed == b"":
            with cancel_on_failure(session, description=f"read rows for {plan.table.name}"):
                packed = small_rows(frame, *most, run=True)
    except Exception as error:
        raise clear_failure(error) from error
    if packed is None:
        return None
    with pa.ipc.open_stream(packed) as stream:
        return [with_offsets(batch) for batch in stream]


def _may_be_small(plan: WritePlan) -> bool:
    """Return whether only the number of new rows matters: no keys are joined, and no partitions counted."""
    options, mode = plan.table.options, plan.table.bucket_mode
    if mode is BucketMode.KEY_DYNAMIC:
        return sum(n for buckets in plan.info.bucket_rows.values() for n in buckets.values()) <= MOST_KEYS
    counts = mode is BucketMode.POSTPONE and plan.info.postpone_user is None
    return not counts or options.postpone_target_row_num_per_bucket is None

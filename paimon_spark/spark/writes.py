"""One INSERT as a Spark job: bucket column, one shuffle, one transfer to Python writers, one commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from paimon_spark.core.columns import ROW_KIND_FIELD, SHUFFLE_BUCKET, SHUFFLE_HASH, reserved
from paimon_spark.core.commit_message import CommitMessage, messages_from_json
from paimon_spark.core.compact.clustering import clusters_writes, table_clustering
from paimon_spark.core.maintenance.abandoned_files import clean_up_abandoned
from paimon_spark.core.table import Table
from paimon_spark.core.write.local_merge import merges_locally
from paimon_spark.core.write.table_writer import WriterRestoreState
from paimon_spark.engine.cross_partition import check_overwrite
from paimon_spark.engine.insert import (
    Overwrite,
    WritePlan,
    WriteResult,
    check_written,
    complete_write,
    plan_write,
    run_post_commit,
)
from paimon_spark.engine.replace import finish_replacement
from paimon_spark.engine.streaming.sink import StreamBatch
from paimon_spark.errors import OptionError
from paimon_spark.spark.arrow_map import map_in_arrow
from paimon_spark.spark.bucket_counts import BUCKETS, with_bucket_counts
from paimon_spark.spark.cross_partition import keyed_rows
from paimon_spark.spark.executor.worker import keyed_writer, local_merger, rewriter, writer
from paimon_spark.spark.failures import clear_failure
from paimon_spark.spark.job_control import cancel_on_failure
from paimon_spark.spark.jvm_frames import (
    arrow_batches,
    bucket_shuffle,
    bucket_shuffle_packed,
    few_rows,
    single_row_batches,
    tasks_at_once,
)
from paimon_spark.spark.memory import writer_share
from paimon_spark.spark.runner import NearRunner
from paimon_spark.spark.shuffle_spec import HashColumn, ShuffleSpec, hashed_fields
from paimon_spark.spark.small_writes import write_small
from paimon_spark.spark.sort_order import in_order
from paimon_spark.spark.types import plain_struct
from paimon_spark.spec.kinds import BucketMode, Operation
from paimon_spark.spec.predicate import Predicate

_ROUTE = reserved("_route_")
"""The bucket of a row for the shuffle only; the writer computes it from the number of buckets of the partition."""


def write_frame(
    session: SparkSession,
    table: Table,
    frame: DataFrame,
    *,
    overwrite: Overwrite | None = None,
    partitions: Predicate | None = None,
    operation: Operation | None = None,
    order: Column | None = None,
    batch: StreamBatch | None = None,
) -> WriteResult:
    """Write the rows of `frame`, whose columns are the table's in order, and commit them.

    Rows of one bucket are written in the order of `order`, if given, else in arrival order.

    Raises:
        PaimonError: the write failed; the table is as it was and the new files are deleted.
    """
    plan = _plan(session, table, frame, overwrite=overwrite, partitions=partitions, operation=operation, batch=batch)
    plan, messages = written(session, plan, frame, order)
    return complete_write(plan, messages, NearRunner(session, table))


def write_checked(
    session: SparkSession, table: Table, frame: DataFrame, check: Callable[[Sequence[CommitMessage]], None]
) -> WriteResult:
    """Append the rows of `frame`; `check` is called with the commit messages and may reject the commit.

    Raises:
        PaimonError: the write failed or was refused; the table is as it was and the new files are deleted.
    """
    plan = _plan(session, table, frame, overwrite=None, operation=Operation.WRITE)
    plan, messages = written(session, plan, frame)
    check_written(plan, messages, partial(check, messages))
    return complete_write(plan, messages, NearRunner(session, table))


def written(
    session: SparkSession, plan: WritePlan, frame: DataFrame, order: Column | None = None
) -> tuple[WritePlan, list[CommitMessage]]:
    """Write the rows of `frame`; return the completed plan and the commit messages."""
    small = write_small(session, plan, frame) if order is None else None
    if small is not None:
        return plan, small
    mode, write = plan.table.bucket_mode, writer
    if order is None and merges_locally(plan.table) and not few_rows(frame):
        frame, write = _merged_locally(plan.table, frame), rewriter  # their defaults are filled in, and they have kinds
    if mode is BucketMode.KEY_DYNAMIC:
        return plan, run_writers(session, plan, keyed_rows(session, plan, frame, order), keyed_writer)
    if mode is BucketMode.POSTPONE and plan.info.postpone_user is None:
        with with_bucket_counts(session, plan, frame) as (counted, rows):
            return counted, run_writers(session, counted, _shuffled(session, counted, rows, order), write)
    shuffled = _clustered(plan.table, frame) if clusters_writes(plan.table) else _shuffled(session, plan, frame, order)
    return plan, run_writers(session, plan, shuffled, write)


def _clustered(table: Table, frame: DataFrame) -> DataFrame:
    """Return the rows in the order of the clustering; the query runs twice, once for a sample of its rows."""
    clustering = table_clustering(table)
    return arrow_batches(in_order(frame, table, clustering.order, clustering.columns, _asked_tasks(table)))


def _merged_locally(table: Table, frame: DataFrame) -> DataFrame:
    """Return the rows of each task merged by key: one more transfer to Python, but fewer rows to shuffle."""
    rows = StructType.fromJson(plain_struct((*table.schema.fields, ROW_KIND_FIELD)))
    return map_in_arrow(arrow_batches(frame), local_merger(table), rows)


def _shuffled(session: SparkSession, plan: WritePlan, frame: DataFrame, order: Column | None) -> DataFrame:
    spec = shuffle_spec(session, plan, ordered=order is not None)
    if order is None:
        return bucket_shuffle_packed(frame, spec)
    return arrow_batches(bucket_shuffle(frame, spec).sortWithinPartitions(order))


def replace_with_frame(session: SparkSession, table: Table, frame: DataFrame, *, operation: Operation) -> WriteResult:
    """Replace a table's schema by that of `table`, the next one, and its rows by those of `frame`.

    Raises:
        PaimonError: the query or the write failed; schema and rows are as they were.
    """
    plan = _plan(session, table, frame, overwrite="static", operation=operation)
    plan, messages = written(session, plan, frame)
    runner = NearRunner(session, table)
    return run_post_commit(plan, finish_replacement(plan, messages, runner), runner)


def _plan(
    session: SparkSession,
    table: Table,
    frame: DataFrame,
    *,
    overwrite: Overwrite | None,
    partitions: Predicate | None = None,
    operation: Operation | None,
    batch: StreamBatch | None = None,
) -> WritePlan:
    if table.bucket_mode is BucketMode.KEY_DYNAMIC:
        check_overwrite(table, overwrite, partitions)
    asked = _asked_tasks(table) is not None
    plan = plan_write(
        table,
        overwrite=overwrite,
        static_partitions=partitions,
        parallelism=write_tasks(session, table),
        size_hint=_estimated_bytes(frame) if table.bucket_mode is BucketMode.HASH_DYNAMIC and not asked else None,
        operation=operation,
        batch=batch,
    )
    return replace(plan, info=replace(plan.info, buffer=writer_share(session, table)))


def write_tasks(session: SparkSession, table: Table) -> int:
    """Return the number of writers of a statement: `sink.parallelism`, else one for each core."""
    return _asked_tasks(table) or tasks_at_once(session)


def _asked_tasks(table: Table) -> int | None:
    wanted = table.options.number_or_none("sink.parallelism")
    if wanted is not None and wanted < 1:
        raise OptionError(
            f"The option 'sink.parallelism' cannot be {wanted}.", hint="Write 1 or more, or leave it out."
        )
    return wanted


def _estimated_bytes(frame: DataFrame) -> int:
    """Return Spark's own estimate of the size of the rows: a small INSERT into dynamic buckets needs one writer."""
    statistics = frame._jdf.queryExecution().optimizedPlan().stats()
    return int(statistics.sizeInBytes())


def run_writers(
    session: SparkSession, plan: WritePlan, frame: DataFrame, function: Callable[[Table, WriterRestoreState], Any]
) -> list[CommitMessage]:
    """Run one writer per task over the rows of `frame`; return all commit messages.

    Args:
        session: the Spark session.
        plan: the statement.
        frame: rows for the writers, packed.
        function: returns the function of the tasks: `worker.writer` or `worker.copy_on_write_rewriter`.

    Raises:
        PaimonError: a task failed; the files of the others are deleted.
    """
    table = plan.table.with_write_token()
    job = single_row_batches(map_in_arrow(frame, function(table, plan.info), "messages string"))
    try:
        with cancel_on_failure(session, description=f"write {table.name}"):
            rows = job.collect()
    except Exception as error:
        clean_up_abandoned(table)
        raise clear_failure(error) from error
    return [m for row in rows for m in messages_from_json(row.messages)]


def shuffle_spec(session: SparkSession, plan: WritePlan, *, ordered: bool = False) -> ShuffleSpec:
    """Return the columns that the JVM adds to the rows, and how it shuffles them.

    With `ordered`, rows of one key must be in one task even if their bucket is not decided yet.
    """
    table = plan.table
    mode = table.bucket_mode
    tasks, asked = write_tasks(session, table), _asked_tasks(table) is not None
    spec = ShuffleSpec(tuple(table.schema.field_names), tuple(table.schema.partition_keys), exact=asked)
    function = table.options.bucket_function_type.value
    if mode is BucketMode.HASH_FIXED:
        buckets = table.options.bucket
        column = HashColumn(SHUFFLE_BUCKET, buckets, hashed_fields(table.bucket_key_fields), function)
        return replace(spec, hash=column, tasks=tasks if spec.partition else min(tasks, buckets))
    if mode is BucketMode.POSTPONE and plan.info.postpone_user is None:
        column = HashColumn(_ROUTE, 0, hashed_fields(table.bucket_key_fields), function, BUCKETS)
        return replace(spec, hash=column, tasks=tasks)
    if mode is BucketMode.HASH_DYNAMIC or (mode is BucketMode.POSTPONE and ordered):
        classes = plan.info.assigners if mode is BucketMode.HASH_DYNAMIC else tasks
        column = HashColumn(SHUFFLE_HASH, 0, hashed_fields(table.key_fields))
        return replace(spec, hash=column, classes=classes, tasks=tasks if spec.partition else classes)
    return replace(spec, tasks=tasks) if asked else spec

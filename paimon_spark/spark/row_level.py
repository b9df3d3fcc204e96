"""DELETE, UPDATE and MERGE as Spark jobs: one shuffle, one transfer to Python, one commit.

A DELETE with deletion vectors collects the positions of the rows, and needs neither if they are in few files. A MERGE
that rewrites files has a second job for the rows that it adds, over the same joined rows.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from paimon_spark.core.columns import FILE_PATH, METADATA_COLUMNS, ROW_INDEX, ROW_KIND, VECTOR, reserved
from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import WritePlan, WriteResult
from paimon_spark.engine.row_level import (
    RowChanges,
    check_digits,
    finish_changes,
    marks_keyed_rows,
    plan_changes,
    rewrites_files,
    write_marks,
    writes_position_deletes,
)
from paimon_spark.errors import ConflictError
from paimon_spark.spark.executor.worker import copy_on_write_rewriter
from paimon_spark.spark.failures import clear_failure
from paimon_spark.spark.job_control import cancel_on_failure
from paimon_spark.spark.jvm_frames import arrow_batches, arrow_frame, position_bitmaps, unshuffled
from paimon_spark.spark.memory import writer_share
from paimon_spark.spark.runner import NearRunner
from paimon_spark.spark.small_writes import local_limits
from paimon_spark.spark.writes import run_writers, write_frame, write_tasks, written
from paimon_spark.spec.kinds import Operation, RowKind
from paimon_spark.spec.merge_rules import check_statement

_TO = reserved("_to_")
_COLLECTED_ROWS = 64 << 20
"""Maximum number of rows of a table whose deleted positions are collected in this process, a bit for each row at most.

After a shuffle, the rows of a file are in many tasks, each of whose bitmaps may take as many bytes.
"""
_log = logging.getLogger(__name__)


def change_rows(
    session: SparkSession,
    table: Table,
    frame: DataFrame,
    operation: Operation,
    *,
    only_new: bool = False,
    changes: RowChanges | None = None,
) -> WriteResult:
    """Write changed rows of any table and commit them; with `only_new`, none of them was in the table before.

    For `changes` see `plan_changes`.

    The frame has the table's columns in order and `ROW_KIND`; for a table without a primary key also the file,
    position and deletion vector of the row that is removed or replaced, and for one with a primary key if all rows are
    to be deleted.

    Raises:
        PaimonError: the change failed; the table is as it was and the new files are deleted.
    """
    if not only_new:
        check_digits(table, operation, None if changes is None else changes.columns)
        check_statement(table.schema, table.options, operation)
    if not table.is_primary_key_table:
        return _change_places(session, table, frame, operation, changes)
    rows = frame.drop(*METADATA_COLUMNS)
    if len(rows.columns) < len(frame.columns) and marks_keyed_rows(table):
        try:
            return _change_places(session, table, frame, operation)
        except ConflictError as error:
            _log.info("The rows of %s are deleted by writing them: %s", table.name, error)
    return write_frame(session, table, rows, operation=operation)


def rewrite_rows(
    session: SparkSession, table: Table, frame: DataFrame, operation: Operation, *, replaces: bool = False
) -> WriteResult:
    """Rewrite the files of changed rows of a table with a primary key, add new rows, and commit both.

    The frame is that of `change_rows`, with the file of each row that is removed or replaced. With `replaces`, nothing
    of a changed row depends on what it was, so none is left to the merge engine.

    Raises:
        PaimonError: the change failed; the table is as it was and the new files are deleted.
    """
    check_digits(table, operation)
    plan = plan_changes(table, operation, parallelism=write_tasks(session, table), rewrites=True)
    plan = replace(plan, info=replace(plan.info, buffer=writer_share(session, table)))
    if operation is not Operation.MERGE:
        return finish_changes(plan, _rewritten(session, plan, frame), NearRunner(session, table))
    changes = f.col(FILE_PATH).isNotNull()
    if not (replaces or rewrites_files(table, operation)):
        # The merge engine has the statement's result for the other rows.
        changes &= f.col(ROW_KIND) == int(RowKind.DELETE)
    rows = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        messages = _rewritten(session, plan, rows.where(changes))
        try:
            plan, added = written(session, plan, rows.where(~changes).drop(*METADATA_COLUMNS))
        except BaseException:
            FileStoreCommit(table).abort(messages)
            raise
    finally:
        rows.unpersist()
    return finish_changes(plan, [*messages, *added], NearRunner(session, table))


def _rewritten(session: SparkSession, plan: WritePlan, frame: DataFrame) -> list[CommitMessage]:
    """Rewrite the files of changed rows, each bucket in one task; return the commit messages.

    The bucket is the end of a file's path. The writers locate and sort the rows.
    """
    depth = len(plan.table.schema.partition_keys)
    bucket = f.substring_index(f.substring_index(FILE_PATH, "/", -(depth + 2)), "/", depth + 1)
    placed = frame.withColumn(_TO, bucket).repartition(write_tasks(session, plan.table), _TO).drop(_TO)
    return run_writers(session, plan, arrow_batches(placed), copy_on_write_rewriter)


def _change_places(
    session: SparkSession, table: Table, frame: DataFrame, operation: Operation, changes: RowChanges | None = None
) -> WriteResult:
    """Change rows by their positions in files."""
    tasks = write_tasks(session, table)
    plan = plan_changes(table, operation, parallelism=tasks, rewrites=False, changes=changes)
    marks = table.is_primary_key_table or (operation is Operation.DELETE and writes_position_deletes(table))
    messages = _marked(session, plan, frame) if marks else write_changes(session, plan, frame)
    return finish_changes(plan, messages, NearRunner(session, table))


def _marked(session: SparkSession, plan: WritePlan, frame: DataFrame) -> list[CommitMessage]:
    """Write deletion vectors for the rows of a frame, in this process if they are in few files."""
    table = plan.table
    found = position_bitmaps(frame.select(FILE_PATH, ROW_INDEX, VECTOR))
    marks = _collected(session, table, found) if _may_collect(table) else None
    if marks is not None:
        messages = write_marks(plan, marks)
        if messages is not None:
            return messages
        found = arrow_frame(session, marks, found.schema)
    placed = found.repartition(write_tasks(session, table), FILE_PATH)
    return run_writers(session, plan, arrow_batches(placed), copy_on_write_rewriter)


def _may_collect(table: Table) -> bool:
    latest = table.snapshots.latest()
    few = latest is None or latest.total_record_count <= _COLLECTED_ROWS
    return few and local_limits(table).rows > 0


def _collected(session: SparkSession, table: Table, found: DataFrame) -> pa.Table | None:
    """Return the bitmaps of `found`; None if they are to be shuffled."""
    try:
        with cancel_on_failure(session, description=f"find rows of {table.name}"):
            return unshuffled(found)
    except Exception as error:
        raise clear_failure(error) from error


def write_changes(session: SparkSession, plan: WritePlan, frame: DataFrame) -> list[CommitMessage]:
    """Write changed rows of a plan of `plan_changes`, by their positions in files; return the commit messages.

    Raises:
        PaimonError: a task failed; the new files are deleted.
    """
    placed = _by_file(plan, frame, write_tasks(session, plan.table))
    return run_writers(session, plan, arrow_batches(placed), copy_on_write_rewriter)


def _by_file(plan: WritePlan, frame: DataFrame, tasks: int) -> DataFrame:
    """Shuffle the changes of a file to one task, sorted if its values are read; new rows stay in their tasks.

    Rows are shuffled by file, not by bucket: another bucket function or number of buckets may have been used before.
    """
    to = f.coalesce(f.col(FILE_PATH), f.spark_partition_id().cast("string"))
    placed = frame.withColumn(_TO, to).repartition(tasks, _TO).drop(_TO)
    marks = writes_position_deletes(plan.table) and plan.info.columns_of is None
    return placed if marks else placed.sortWithinPartitions(FILE_PATH, ROW_INDEX)

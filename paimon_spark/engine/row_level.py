"""DELETE, UPDATE and MERGE as an operation: plan on the driver, change rows anywhere, finish on the driver.

Rows of a table with a primary key are changed by writing them again with a row kind. In any other table, the files
that hold changed rows are replaced, or the rows are marked in deletion vectors, in one snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.commit.snapshot_builder import CommitMetadata
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.row_level.copy_on_write import CopyOnWriteRewriter
from paimon_spark.core.row_level.position_deletes import PositionDeleteWriter
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import WriterRestoreState
from paimon_spark.engine.insert import WritePlan, WriteResult, plan_write, run_post_commit
from paimon_spark.engine.runner import LocalRunner, TaskRunner
from paimon_spark.errors import UsageError
from paimon_spark.spec.kinds import Operation


def plan_changes(table: Table, operation: Operation, *, parallelism: int = 1) -> WritePlan:
    """Plan a change of rows of a table without a primary key.

    Raises:
        UnsupportedError: this release does not write the table as its readers expect.
        UsageError: the table has a primary key, so its rows are changed by writing them with a kind.
    """
    plan = plan_write(table, parallelism=parallelism, operation=operation)
    if table.is_primary_key_table:
        raise UsageError(
            f"Table {table.name} has a primary key, so no file of it is replaced.",
            hint="Write the changed rows with their kinds.",
        )
    return plan


def writes_position_deletes(table: Table) -> bool:
    """Return whether removed rows are marked in deletion vectors, instead of their files being written anew."""
    return table.options.deletion_vectors_enabled and not table.is_primary_key_table


def row_changer(table: Table, info: WriterRestoreState) -> CopyOnWriteRewriter | PositionDeleteWriter:
    """Return what takes the changes of one task."""
    return PositionDeleteWriter(table, info) if writes_position_deletes(table) else CopyOnWriteRewriter(table, info)


def finish_changes(plan: WritePlan, messages: Sequence[CommitMessage], runner: TaskRunner) -> WriteResult:
    """Commit the replaced files; expire snapshots unless the table is write-only.

    Files of a change that surely was not committed are deleted.

    Raises:
        ConflictError: another commit replaced a file that this one replaces.
    """
    commit = FileStoreCommit(plan.table)
    with commit.or_abort(messages):
        result = commit.commit(messages, CommitMetadata(operation=plan.operation))
    return run_post_commit(plan, WriteResult(commit=result, commit_user=str(commit.commit_user)), runner)


def change_arrow(
    table: Table, changes: pa.Table | Iterable[pa.RecordBatch], operation: Operation, runner: TaskRunner | None = None
) -> WriteResult:
    """Change rows of a table without a primary key in this process.

    Args:
        table: what to change.
        changes: what `CopyOnWriteRewriter` takes; with deletion vectors in any order, and as
            `PositionDeleteWriter` takes them.
        operation: what the statement is, for the snapshot.
        runner: see `finish_changes`; in this process if not given.
    """
    plan = plan_changes(table, operation)
    with row_changer(table, plan.info) as changer:
        for batch in changes.to_batches() if isinstance(changes, pa.Table) else changes:
            changer.change(batch)
        messages = changer.finish()
    return finish_changes(plan, messages, runner or LocalRunner())

"""DELETE, UPDATE and MERGE: planned on the driver, executed anywhere, committed on the driver.

Rows of a primary key table are changed by writing them with a row kind, if its merge engine then produces the result of
the statement; otherwise the key ranges with changed rows are rewritten. With deletion vectors, a DELETE may mark rows
in their files. In an append table, files with changed rows are replaced, or deletion vectors are written for the rows,
in one snapshot. With data evolution, changed columns get files of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.core.cancellation import checkpoint
from paimon_spark.core.columns import FILE_PATH
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.row_ranges import evolves
from paimon_spark.core.row_level.column_updates import ColumnUpdater
from paimon_spark.core.row_level.copy_on_write import CopyOnWriteRewriter
from paimon_spark.core.row_level.key_range_rewrites import KeyRangeRewriter
from paimon_spark.core.row_level.keyed_deletes import KeyedDeleteWriter
from paimon_spark.core.row_level.position_deletes import PositionDeleteWriter
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.core.spill.space import local_directories
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import WriterRestoreState
from paimon_spark.engine.insert import WritePlan, WriteResult, commit_of, complete_write, plan_write, run_post_commit
from paimon_spark.engine.runner import LocalRunner, TaskRunner
from paimon_spark.errors import UnsupportedError, UsageError
from paimon_spark.spec.kinds import BucketMode, ChangelogProducer, MergeEngine, Operation
from paimon_spark.spec.merge_rules import rewrites_rows
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.types import beyond_micros


@dataclass(frozen=True, slots=True)
class RowChanges:
    """What a statement does to rows of a table with data evolution: it changes columns, and may delete rows."""

    columns: tuple[str, ...] = ()
    deletes: bool = False


_ALL_ROWS = {"deletion-vectors.merge-on-read": "true", "postpone.merge-on-read": "true"}


def with_all_rows(table: Table) -> Table:
    """Return the table as read by a statement that changes rows: with the rows that queries do not return yet.

    Otherwise rows at level 0 of a table with deletion vectors, and postponed rows, would escape the change and appear
    later.
    """
    return replace(table, options=CoreOptions({**table.options.values, **_ALL_ROWS}))


def rewrites_files(table: Table, operation: Operation) -> bool:
    """Return whether a statement rewrites the files of the rows of a primary key table that it changes."""
    return rewrites_rows(table.schema, table.options, operation)


def plan_changes(
    table: Table,
    operation: Operation,
    *,
    parallelism: int = 1,
    rewrites: bool | None = None,
    snapshot_id: int | None = None,
    changes: RowChanges | None = None,
) -> WritePlan:
    """Plan a change of rows by their positions in files.

    Args:
        table: the table.
        operation: kind of the statement.
        parallelism: maximum number of writers.
        rewrites: whether the files of changed rows of a primary key table are rewritten; by default, as the merge
            engine requires.
        snapshot_id: the snapshot that the rows are read from, or an earlier one; the latest one by default.
        changes: what the statement does to rows of a table with data evolution; by default, all that `operation` may.

    Raises:
        UnsupportedError: the table has a feature that is not supported for row-level changes.
        UsageError: the table has a primary key, and the statement changes its rows by writing them with a row kind.
    """
    if rewrites is None:
        rewrites = rewrites_files(table, operation)
    plan = plan_write(table, parallelism=parallelism, operation=operation, rewrites=rewrites)
    if rewrites:
        _check_no_postponed_rows(table, operation)
        read = plan.info.rewritten if snapshot_id is None else snapshot_id
        return replace(plan, info=replace(plan.info, rewritten=read))
    if table.is_primary_key_table and not marks_keyed_rows(table):
        raise UsageError(
            f"Table {table.name} has a primary key, so no file of it is replaced.",
            hint="Write the changed rows with their kinds.",
        )
    return _evolving(plan, operation, snapshot_id, changes) if evolves(table) else plan


def _check_no_postponed_rows(table: Table, operation: Operation) -> None:
    if table.bucket_mode is not BucketMode.POSTPONE:
        return
    live = live_in_partitions(ManifestStore(table), table.snapshots.latest(), None)
    if any(e.bucket < 0 for e in live):
        raise UnsupportedError(
            f"{operation} on table {table.name} with 'merge-engine' = '{table.options.merge_engine}' rewrites the "
            "buckets of the rows, but the table has postponed rows, which are in no bucket.",
            hint="Call sys.compact first, which writes them to their buckets.",
        )


def _evolving(plan: WritePlan, operation: Operation, snapshot_id: int | None, changes: RowChanges | None) -> WritePlan:
    """Return the plan for a table with data evolution: rows are marked, or get files with their changed columns."""
    table = plan.table
    given = changes or _all_changes(table, operation)
    if given.deletes and not writes_position_deletes(table):
        raise UnsupportedError(
            f"Table {table.name} has 'data-evolution.enabled' = 'true', so its files are not rewritten to delete rows.",
            hint="Create such a table with 'deletion-vectors.enabled' = 'true', which marks deleted rows.",
        )
    moved = [c for c in given.columns if c in table.schema.partition_keys]
    if moved:
        raise UnsupportedError(
            f"{operation} cannot change the partition column '{moved[0]}' of table {table.name}, which has "
            "'data-evolution.enabled' = 'true': a row would lose its id.",
            hint="Delete the rows, and insert them into the other partition.",
        )
    if operation is Operation.DELETE:
        return plan
    read = (plan.snapshot_id or 0) if snapshot_id is None else snapshot_id
    return replace(plan, info=replace(plan.info, columns=given.columns, columns_of=read))


def _all_changes(table: Table, operation: Operation) -> RowChanges:
    if operation is Operation.DELETE:
        return RowChanges(deletes=True)
    columns = tuple(n for n in table.schema.field_names if n not in table.schema.partition_keys)
    return RowChanges(columns, deletes=operation is Operation.MERGE and writes_position_deletes(table))


def writes_position_deletes(table: Table) -> bool:
    """Return whether rows are deleted by deletion vectors instead of rewriting their files."""
    return table.options.deletion_vectors_enabled


def marks_keyed_rows(table: Table) -> bool:
    """Return whether a DELETE of a primary key table marks the rows in deletion vectors.

    It does if the table allows it and the result is the same: there is no changelog, no older version of the row can be
    written later and win, and the statement itself would compact the written rows. In a write-only table, the
    compaction job writes the vectors. (docs/spec/semantics.md, V8)
    """
    options = table.options
    removes = options.merge_engine is MergeEngine.DEDUPLICATE or options.removes_record_on_delete
    return (
        table.is_primary_key_table
        and options.deletion_vectors_enabled
        and options.marks_deletes
        and removes
        and options.changelog_producer is ChangelogProducer.NONE
        and table.bucket_mode in (BucketMode.HASH_FIXED, BucketMode.HASH_DYNAMIC)
        and not (options.sequence_field or options.rowkind_field or options.ignore_delete or options.write_only)
    )


def check_digits(table: Table, operation: Operation, columns: Collection[str] | None = None) -> None:
    """Reject a change whose timestamps Spark truncates to microseconds, if digits would be lost.

    A deletion by position needs no values. In a primary key table, values that identify and order the row must be
    exact; other engines than deduplicate, and a changelog, use all of them. With data evolution, only the values of the
    changed `columns` come from Spark.

    Raises:
        UnsupportedError: a column would lose digits.
    """
    options = table.options
    cut = [f for f in table.schema.fields if beyond_micros(f.type) is not None]
    if columns is not None and evolves(table):
        cut = [f for f in cut if f.name in columns]
    if operation is Operation.DELETE and (not table.is_primary_key_table or marks_keyed_rows(table)):
        return
    plain = options.merge_engine is MergeEngine.DEDUPLICATE and options.changelog_producer is ChangelogProducer.NONE
    if operation is Operation.DELETE and (plain or rewrites_files(table, operation)):
        ordering = () if rewrites_files(table, operation) else options.sequence_field
        cut = [f for f in cut if f.name in (*table.schema.primary_keys, *ordering)]
    if cut:
        raise UnsupportedError(
            f"{operation} cannot change rows of table {table.name}: its column '{cut[0].name}' has timestamps of more "
            f"than 6 digits of a second, of which Spark would keep only 6.",
            hint="Change them by the Python API, which keeps all digits: upsert, append and delete.",
        )


RowChanger = ColumnUpdater | CopyOnWriteRewriter | PositionDeleteWriter | KeyedDeleteWriter | KeyRangeRewriter


def row_changer(table: Table, info: WriterRestoreState, spill_dirs: Sequence[str] = ()) -> RowChanger:
    """Return the writer for the changes of one task, which spills to `spill_dirs`."""
    if info.rewritten is not None:
        return KeyRangeRewriter(table, info, spill_dirs)
    if table.is_primary_key_table:
        return KeyedDeleteWriter(table, info)
    if info.columns_of is not None:
        return ColumnUpdater(table, info)
    return PositionDeleteWriter(table, info) if writes_position_deletes(table) else CopyOnWriteRewriter(table, info)


_MOST_MARKED_FILES = 32
_MOST_BYTES_TO_READ = 4 << 20


def write_marks(plan: WritePlan, marks: pa.Table) -> list[CommitMessage] | None:
    """Delete rows in this process by their positions in files; return None, with nothing written, if they need tasks.

    They do if many files have such rows, or if large files have to be read because their rows cannot be marked.

    Args:
        plan: a plan of `plan_changes` for a DELETE in a table with deletion vectors.
        marks: file, deletion vector and `POSITIONS` of the rows; a file may have several bitmaps.

    Raises:
        ConflictError: another commit changed a file with such rows.
    """
    if len(pc.unique(marks.column(FILE_PATH))) > _MOST_MARKED_FILES:
        return None
    with row_changer(plan.table, plan.info, local_directories()) as changer:
        for batch in marks.to_batches():
            changer.change(batch)
        if isinstance(changer, KeyedDeleteWriter) and changer.bytes_to_read > _MOST_BYTES_TO_READ:
            changer.abort()
            return None
        checkpoint()
        return changer.finish()


def finish_changes(plan: WritePlan, messages: Sequence[CommitMessage], runner: TaskRunner) -> WriteResult:
    """Commit the changes; compact the written buckets of a primary key table, and expire snapshots unless write-only.

    The files of a change that was certainly not committed are deleted.

    Raises:
        ConflictError: another commit replaced a file that this one replaces.
    """
    rewrites = plan.info.rewritten is not None
    if rewrites or (plan.table.is_primary_key_table and any(m.new_files for m in messages)):
        return complete_write(plan, messages, runner)
    commit, metadata = commit_of(plan)
    with commit.or_abort(messages):
        read = plan.info.columns_of
        result = commit.commit(messages, metadata) if read is None else commit.commit_columns(messages, metadata, read)
    files = tuple(f for m in messages for f in m.new_files)
    return run_post_commit(plan, WriteResult(commit=result, commit_user=str(commit.commit_user), files=files), runner)


def change_arrow(
    table: Table,
    changes: pa.Table | Iterable[pa.RecordBatch],
    operation: Operation,
    runner: TaskRunner | None = None,
    *,
    rewrites: bool | None = None,
    snapshot_id: int | None = None,
    row_changes: RowChanges | None = None,
) -> WriteResult:
    """Change rows by their positions in files in this process.

    Args:
        table: the table.
        changes: input of `CopyOnWriteRewriter`; with deletion vectors, input of `PositionDeleteWriter` or
            `KeyedDeleteWriter`, in any order; if files are rewritten, input of `KeyRangeRewriter`; for columns of a
            table with data evolution, input of `ColumnUpdater`.
        operation: kind of the statement, for the snapshot.
        runner: see `finish_changes`; in this process by default.
        rewrites: see `plan_changes`.
        snapshot_id: see `plan_changes`.
        row_changes: see `plan_changes`.
    """
    plan = plan_changes(table, operation, rewrites=rewrites, snapshot_id=snapshot_id, changes=row_changes)
    with row_changer(table, plan.info) as changer:
        for batch in changes.to_batches() if isinstance(changes, pa.Table) else changes:
            changer.change(batch)
        messages = changer.finish()
    return finish_changes(plan, messages, runner or LocalRunner())

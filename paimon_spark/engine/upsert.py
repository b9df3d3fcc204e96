"""Inserts into append tables with `upsert-key`: a row replaces the rows with the same key, as a MERGE does.

(docs/spec/semantics.md, D8)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from paimon_spark.core.cancellation import checkpoint
from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.metadata.row_ranges import evolves
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.core.row_level.upserted_rows import PLACE, NewRows, Replacements, UpsertRules, no_places, upserts
from paimon_spark.core.scan.scan import scan_buckets
from paimon_spark.core.scan.splits import Split, plan_splits
from paimon_spark.core.table import Table
from paimon_spark.core.write.row_conversion import WriteRules, prepare_batch
from paimon_spark.engine.insert import WritePlan, WriteResult, complete_write, write_arrow
from paimon_spark.engine.row_level import RowChanges, finish_changes, plan_changes, row_changer
from paimon_spark.engine.runner import LocalRunner, TaskRunner
from paimon_spark.engine.streaming.sink import StreamBatch
from paimon_spark.format.base import DEFAULT_BATCH_ROWS
from paimon_spark.spec.kinds import Operation, RowKind


def plan_upsert(table: Table, *, parallelism: int = 1, batch: StreamBatch | None = None) -> WritePlan:
    """Plan an upsert of the rows of one statement, or of a micro-batch; for errors see `plan_changes`."""
    changed = (n for n in UpsertRules.of(table).changed if n not in table.schema.partition_keys)
    changes = RowChanges(tuple(changed)) if evolves(table) else None
    plan = plan_changes(table, Operation.MERGE, parallelism=parallelism, rewrites=False, changes=changes)
    return replace(plan, batch=batch)


def stored_splits(table: Table, snapshot_id: int | None) -> tuple[Split, ...]:
    """Return the splits of all rows in a snapshot; none without a snapshot."""
    if snapshot_id is None:
        return ()
    return tuple(plan_splits(table, scan_buckets(table, table.snapshots.get(snapshot_id), statistics=False)))


def finish_upsert(plan: WritePlan, messages: Sequence[CommitMessage], runner: TaskRunner) -> WriteResult:
    """Commit the changes, compact the table by its options, and expire snapshots; for errors see `finish_changes`."""
    return (finish_changes if evolves(plan.table) else complete_write)(plan, messages, runner)


def insert_arrow(
    table: Table, batches: pa.Table | Iterable[pa.RecordBatch | pa.Table], runner: TaskRunner | None = None
) -> WriteResult:
    """Insert rows in this process and commit them; by `upsert-key`, if the table has it.

    An upsert holds all new rows in memory, and the places of the rows that they replace.

    Args:
        table: the table.
        batches: rows with all columns of the table.
        runner: runs the compaction; in this process by default.

    Raises:
        UsageError: several new rows would replace the same row, and there is no `sequence.field`.
        ConflictError: another commit changed the rows to replace.
        PaimonError: see `write_arrow`.
    """
    if not upserts(table):
        return write_arrow(table, batches, runner=runner)
    plan = plan_upsert(table)
    given = batches.to_batches() if isinstance(batches, pa.Table) else batches
    messages = write_upsert(plan, given, stored_splits(table, plan.snapshot_id))
    return finish_upsert(plan, messages, runner or LocalRunner())


def write_upsert(
    plan: WritePlan,
    batches: Iterable[pa.RecordBatch | pa.Table],
    splits: Iterable[Split],
    spill_dirs: Sequence[str] = (),
) -> list[CommitMessage]:
    """Write the changes of an upsert in this process; return the commit messages.

    Args:
        plan: the result of `plan_upsert`.
        batches: rows with all columns of the table.
        splits: the result of `stored_splits`.
        spill_dirs: local directories for sorted rows.

    Raises:
        PaimonError: see `insert_arrow`; the new files are deleted.
    """
    table, convert = plan.table, replace(WriteRules.of(plan.table), kind_column=None)
    given = [prepare_batch(b, convert).columns for b in batches if b.num_rows]
    if not given:
        return []
    rules = UpsertRules.of(table)
    new = NewRows(table.name, rules, pa.concat_tables(given)).newest()
    found = new.replacements(_stored(table, splits, rules))
    with row_changer(table, plan.info, spill_dirs) as changer:
        for part in _changes(found, moves=rules.moves):
            for batch in part.to_batches(max_chunksize=DEFAULT_BATCH_ROWS):
                changer.change(batch)
        checkpoint()
        return changer.finish()


def _stored(table: Table, splits: Iterable[Split], rules: UpsertRules) -> Iterator[pa.RecordBatch]:
    names = [f.name for f in rules.compared]
    for split in splits:
        yield from read_split(table, split, names, metadata_columns=PLACE)


def _changes(found: Replacements, *, moves: bool) -> Iterator[pa.Table]:
    """Yield the input of `row_changer`: new rows, then changes by file and position."""
    yield _as_changes(found.added, RowKind.INSERT, no_places(found.added.num_rows))
    if moves:
        yield _as_changes(found.replacing, RowKind.INSERT, no_places(found.replacing.num_rows))
    yield _as_changes(found.replacing, RowKind.DELETE if moves else RowKind.UPDATE_AFTER, found.places.columns)


def _as_changes(rows: pa.Table, kind: RowKind, places: Sequence[pa.ChunkedArray | pa.Array]) -> pa.Table:
    rows = rows.append_column(ROW_KIND, pa.repeat(pa.scalar(int(kind), pa.int8()), rows.num_rows))
    for name, column in zip(PLACE, places, strict=True):
        rows = rows.append_column(name, column)
    return rows

"""Writes: planned on the driver, executed anywhere, committed on the driver."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import pyarrow as pa

from paimon_spark.core.commit.committer import CommitResult, Committed, EmptyCommit, FileStoreCommit
from paimon_spark.core.commit.conflict_detection import hash_file_name
from paimon_spark.core.commit.snapshot_builder import CommitMetadata
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.compact.cluster_sort import clustered_rows
from paimon_spark.core.compact.clustering import clusters
from paimon_spark.core.merge.config import needs_lookup
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.row_ranges import evolves
from paimon_spark.core.metadata.sequence_numbers import needs_files, starting_max_sequence
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.scan.bucket_totals import bucket_totals
from paimon_spark.core.table import Table
from paimon_spark.core.write.cross_partition import CrossPartitionWriter
from paimon_spark.core.write.dynamic_buckets import BucketLimits
from paimon_spark.core.write.table_writer import (
    TableWriter,
    WriterRestoreState,
    check_bucket_number,
)
from paimon_spark.engine.compaction.compact import (
    CompactionPlan,
    CompactionResult,
    Strategy,
    execute_compaction,
    plan_compaction,
)
from paimon_spark.engine.compaction.overwrites import out_of_level_0
from paimon_spark.engine.cross_partition import check_overwrite, with_existing_keys
from paimon_spark.engine.post_commit import maintain_after_commit
from paimon_spark.engine.postpone_buckets import postpone_state
from paimon_spark.engine.runner import LocalRunner, TaskRunner
from paimon_spark.engine.streaming.sink import StreamBatch, began_alone
from paimon_spark.errors import ConflictError
from paimon_spark.spec.features import check_writable
from paimon_spark.spec.kinds import BucketMode, Operation
from paimon_spark.spec.manifest import HASH_INDEX, BucketKey, DataFileMeta
from paimon_spark.spec.predicate import Predicate
from paimon_spark.spec.privileges import Privilege

_CHANGES = (Operation.DELETE, Operation.UPDATE, Operation.MERGE)
"""In a table without a primary key, these may only write deletion vectors or replace files, within their buckets."""
Overwrite = Literal["static", "dynamic"]
_BYTES_PER_ASSIGNER = 128 << 20
_UNCOMPACTED = "The rows written to %s are committed, but the compaction that should follow failed: %s"
_CONFLICT = "The compaction after a write to %s was dropped because of a conflicting commit: %s"
_ATTEMPTS = 5
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """One write statement: the table, the state that its writers need, and what it replaces."""

    table: Table
    info: WriterRestoreState
    snapshot_id: int | None = None
    """The snapshot that the plan is based on."""
    overwrite: Overwrite | None = None
    partitions: Predicate | None = None
    operation: Operation | None = None
    batch: StreamBatch | None = None
    """The micro-batch that is written, in a streaming query."""
    new_partitions: bool = False
    """Whether the partitions that are written must have no files yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """A committed write, and the compaction to run after it (None: nothing to compact)."""

    commit: CommitResult
    compaction: CompactionPlan | None = None
    compacted: CompactionResult | None = None
    commit_user: str = ""
    files: tuple[DataFileMeta, ...] = ()
    """The data files that the writers added."""


@translate_io_errors()
def plan_write(
    table: Table,
    *,
    overwrite: Overwrite | None = None,
    static_partitions: Predicate | None = None,
    parallelism: int = 1,
    size_hint: int | None = None,
    operation: Operation | None = None,
    rewrites: bool = False,
    batch: StreamBatch | None = None,
) -> WritePlan:
    """Plan a write on the latest snapshot.

    Args:
        table: the table with the options of the statement.
        overwrite: None to append; static replaces the table or `static_partitions`; dynamic replaces the partitions
            that the rows belong to.
        static_partitions: filter over the partition columns for a static overwrite.
        parallelism: maximum number of writers.
        size_hint: approximate size of the rows in bytes, if known.
        operation: kind of the statement, for the snapshot.
        rewrites: whether the statement rewrites the files of the rows of a primary key table that it changes.
        batch: the micro-batch that is written, in a streaming query.

    Raises:
        UsageError: the table does not accept new rows in its current state.
        UnsupportedError: the table has a feature that is not supported for writes.
        AccessDeniedError: the user does not have the privilege INSERT.
    """
    table.require(Privilege.INSERT)
    check_writable(table.effective_schema)
    assigners, base = _assigners(table, parallelism, size_hint), table.snapshots.latest_id()
    info = _state_of_overwrite(table, assigners) if overwrite else _state(table, assigners)
    if table.bucket_mode is BucketMode.POSTPONE:
        query = None if batch is None else batch.query
        info = postpone_state(table, info, overwrite=overwrite is not None, query=query)
    if overwrite is None and (table.is_primary_key_table or operation not in _CHANGES):
        check_bucket_number(table, info)
    if rewrites:
        info = replace(info, rewritten=base or 0)
    return WritePlan(
        table=table,
        info=info,
        snapshot_id=base,
        overwrite=overwrite,
        partitions=static_partitions,
        operation=operation,
        batch=batch,
    )


def _assigners(table: Table, parallelism: int, size_hint: int | None) -> int:
    options = table.options
    if table.bucket_mode not in (BucketMode.HASH_DYNAMIC, BucketMode.KEY_DYNAMIC):
        return 1
    wanted = options.dynamic_bucket_assigner_parallelism or options.dynamic_bucket_initial_buckets
    if wanted is None:
        wanted = parallelism if size_hint is None else min(parallelism, -(-size_hint // _BYTES_PER_ASSIGNER))
    ceiling = BucketLimits(max_buckets=options.dynamic_bucket_max_buckets).ceiling
    return max(1, min(wanted, ceiling))


def _state_of_overwrite(table: Table, assigners: int) -> WriterRestoreState:
    highest = starting_max_sequence(table, table.snapshots.latest())
    return WriterRestoreState(assigners=assigners, max_sequence=highest, changelog=False)


def _state(table: Table, assigners: int) -> WriterRestoreState:
    mode = table.bucket_mode
    if mode is BucketMode.BUCKET_UNAWARE:
        return WriterRestoreState(assigners=assigners)
    store, snapshot = ManifestStore(table), table.snapshots.latest()
    sequences: dict[bytes, dict[int, int]] = {}
    rows: dict[bytes, dict[int, int]] = {}
    foreign: dict[bytes, int] = {}
    for found in bucket_totals(store, snapshot) if needs_files(table, snapshot) else ():
        partition, bucket = found.partition, found.bucket
        buckets = sequences.setdefault(partition, {})
        buckets[bucket] = max(buckets.get(bucket, -1), found.max_sequence)
        if mode is BucketMode.KEY_DYNAMIC:
            counts = rows.setdefault(partition, {})
            counts[bucket] = counts.get(bucket, 0) + found.rows
        if mode is BucketMode.HASH_FIXED and 0 < found.total_buckets != table.options.bucket:
            foreign[partition] = found.total_buckets
    hash_files: dict[bytes, dict[int, str]] = {}
    if mode is BucketMode.HASH_DYNAMIC and snapshot is not None:
        for item in store.read_index(snapshot.index_manifest):
            if item.file.index_type == HASH_INDEX:
                hash_files.setdefault(item.partition, {})[item.bucket] = hash_file_name(item.file)
    return WriterRestoreState(
        assigners=assigners,
        max_sequences=sequences,
        max_sequence=starting_max_sequence(table, snapshot),
        hash_files=hash_files,
        rescaled_partitions=foreign,
        bucket_rows=rows,
    )


def finish_write(plan: WritePlan, messages: Sequence[CommitMessage]) -> WriteResult:
    """Commit the results of the writers and plan the compaction that follows, which `run_post_commit` runs.

    The files of a write that was certainly not committed are deleted.
    """
    commit, metadata = commit_of(plan)
    ignore_empty = plan.table.options.ignores_empty_commits
    with commit.or_abort(messages):
        if plan.overwrite is None:
            dynamic = plan.table.bucket_mode is BucketMode.HASH_DYNAMIC
            hash_files = plan.info.hash_files if dynamic else None
            keys = plan.table.bucket_mode is BucketMode.KEY_DYNAMIC
            result = commit.commit(
                messages,
                metadata,
                ignore_empty=ignore_empty,
                hash_files=hash_files,
                keys_of=(plan.snapshot_id or 0) if keys else None,
                whole_partitions=plan.new_partitions,
                buckets_of=plan.info.rewritten,
            )
        else:
            result = commit.overwrite(
                messages,
                metadata,
                partitions=plan.partitions,
                dynamic=plan.overwrite == "dynamic",
                ignore_empty=ignore_empty,
            )
    files = tuple(f for m in messages for f in m.new_files)
    done = WriteResult(commit=result, commit_user=str(commit.commit_user), files=files)
    due = plan.batch is not None and _is_full(plan)
    if not (isinstance(result, Committed) or due) or not _compacts(plan.table):
        return done
    written = None if due else {BucketKey(m.partition, m.bucket) for m in messages if m.new_files}
    return replace(done, compaction=_next_compaction(plan, written))


def resume_batch(plan: WritePlan, runner: TaskRunner) -> WriteResult:
    """Run the compaction after a committed micro-batch, because its first attempt may have failed before that."""
    found = _next_compaction(plan, None) if _compacts(plan.table) else None
    user = "" if plan.batch is None else plan.batch.query
    return run_post_commit(plan, WriteResult(commit=EmptyCommit(), compaction=found, commit_user=user), runner)


def _compacts(table: Table) -> bool:
    """Return whether a compaction follows each write."""
    mode = table.bucket_mode
    apart = mode is BucketMode.POSTPONE or (mode is BucketMode.BUCKET_UNAWARE and clusters(table))
    return not (table.options.write_only or apart or evolves(table))


def _is_full(plan: WritePlan) -> bool:
    """Return whether the compaction after a write is full; in a stream it is after every n-th batch."""
    commits = plan.table.options.full_compaction_delta_commits
    if commits is None or not plan.table.is_primary_key_table:
        return False
    return plan.batch is None or (plan.batch.batch + 1) % max(commits, 1) == 0


def commit_of(plan: WritePlan) -> tuple[FileStoreCommit, CommitMetadata]:
    """Return the committer of a write, and the properties of its snapshots, by which a micro-batch is recognized."""
    batch = plan.batch
    watermark = plan.table.options.number_or_none("end-input.watermark")
    if batch is None:
        metadata = CommitMetadata(operation=plan.operation, watermark=watermark)
        return FileStoreCommit(plan.table, plan.info.postpone_user), metadata
    if batch.watermark is not None:
        watermark = max(batch.watermark, batch.watermark if watermark is None else watermark)
    metadata = CommitMetadata(batch.batch, plan.operation, watermark, dict(batch.properties))
    alone = partial(began_alone, plan.table, batch)
    return FileStoreCommit(plan.table, batch.query, since=batch.base, alone=alone), metadata


def _next_compaction(plan: WritePlan, buckets: Collection[BucketKey] | None) -> CompactionPlan | None:
    """Plan the compaction of the written buckets, or of all."""
    if buckets is not None and not buckets:
        return None
    strategy = Strategy.FULL if _is_full(plan) else Strategy.MINOR
    try:
        found = plan_compaction(plan.table, strategy=strategy, buckets=buckets)
    except Exception as e:  # noqa: BLE001 - the rows are committed already
        _log.warning(_UNCOMPACTED, plan.table.name, e)
        return None
    return None if found.is_empty else found


def run_post_commit(plan: WritePlan, result: WriteResult, runner: TaskRunner) -> WriteResult:
    """Run the compaction after a write, then expire snapshots, unless the table is write-only.

    The rows are committed already. A failed compaction must not make the statement fail, or it would be run again; the
    next write repeats the compaction.
    """
    compacted = None
    try:
        compacted = _compact(plan, result, runner)
    except Exception as e:  # noqa: BLE001 - includes errors of the runner's engine
        _log.warning(_UNCOMPACTED, plan.table.name, e)
    if isinstance(result.commit, Committed) and not plan.table.options.write_only:
        _maintain(plan.table)
    return replace(result, compacted=compacted)


def _compact(plan: WritePlan, result: WriteResult, runner: TaskRunner) -> CompactionResult | None:
    """Run the compaction after a write. If readers or a changelog depend on it, it is retried after a conflict."""
    todo, left = result.compaction, _ATTEMPTS if needs_lookup(plan.table) else 1
    while todo is not None:
        left -= 1
        try:
            return execute_compaction(todo, runner, commit_user=result.commit_user)
        except ConflictError as e:
            if not left or not e.repeatable:
                _log.info(_CONFLICT, plan.table.name, e)
                return None
            todo = _next_compaction(plan, {BucketKey(t.partition, t.bucket) for t in todo.tasks})
    return None


def _maintain(table: Table) -> None:
    for warning in maintain_after_commit(table).warnings:
        _log.warning("%s: %s", table.name, warning)


def check_written(plan: WritePlan, messages: Sequence[CommitMessage], check: Callable[[], None]) -> None:
    """Call `check` before the commit; if it raises an error, the files of the write are deleted."""
    commit, _ = commit_of(plan)
    with commit.or_abort(messages):
        check()


def complete_write(plan: WritePlan, messages: Sequence[CommitMessage], runner: TaskRunner) -> WriteResult:
    """Call `merged_overwrite`, `finish_write` and `run_post_commit`."""
    return run_post_commit(plan, finish_write(plan, merged_overwrite(plan, messages, runner)), runner)


def merged_overwrite(plan: WritePlan, messages: Sequence[CommitMessage], runner: TaskRunner) -> Sequence[CommitMessage]:
    """Return the messages of a write; those of an overwrite that is compacted after `out_of_level_0`."""
    if plan.overwrite is None or not _compacts(plan.table):
        return messages
    return out_of_level_0(plan.table, messages, runner)


def write_arrow(
    table: Table,
    batches: pa.Table | Iterable[pa.RecordBatch | pa.Table],
    *,
    overwrite: Overwrite | None = None,
    static_partitions: Predicate | None = None,
    runner: TaskRunner | None = None,
) -> WriteResult:
    """Write Arrow data in this process, commit it, compact by the options of the table, and expire snapshots.

    Args:
        table: the target table.
        batches: rows with all columns of the table, optionally with `ROW_KIND` (int8).
        overwrite: see `plan_write`.
        static_partitions: see `plan_write`.
        runner: runs the compaction; in this process by default.
    """
    crossing = table.bucket_mode is BucketMode.KEY_DYNAMIC
    if crossing:
        check_overwrite(table, overwrite, static_partitions)
    plan = plan_write(table, overwrite=overwrite, static_partitions=static_partitions)
    given = batches.to_batches() if isinstance(batches, pa.Table) else batches
    if crossing:
        given = with_existing_keys(table, None if overwrite else plan.snapshot_id, given)
    open_writer = CrossPartitionWriter if crossing else TableWriter
    with open_writer(table, replace(plan.info, assigners=1) if crossing else plan.info) as writer:
        for batch in clustered_rows(table, given):
            writer.write(batch)
        messages = writer.finish()
    return complete_write(plan, messages, runner or LocalRunner())

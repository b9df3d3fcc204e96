"""Compaction of tables with postponed buckets: postponed rows go to their buckets, then buckets are compacted.

(docs/spec/semantics.md, B4)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.maintenance.deletion import Action
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.sequence_numbers import starting_max_sequence
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.read.postponed import replay_order, split_rows
from paimon_spark.core.scan.pruning import matching_partitions
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.core.scan.splits import Split
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import TableWriter, WriterRestoreState
from paimon_spark.engine.compaction.compact import (
    CompactionResult,
    GroupResult,
    Progress,
    Strategy,
    execute_compaction,
    plan_compaction,
)
from paimon_spark.engine.insert import WritePlan
from paimon_spark.engine.postpone_buckets import bucket_counts, buckets_to_fill, postponed_rows
from paimon_spark.engine.runner import TaskRunner
from paimon_spark.spec.features import check_writable
from paimon_spark.spec.manifest import ManifestEntry
from paimon_spark.spec.predicate import TRUE, Predicate

DISTRIBUTE = "distribute"


@dataclass(frozen=True, slots=True)
class PostponedPlan:
    """The postponed files to distribute, in the order in which their rows are replayed, and what to compact then."""

    write: WritePlan
    files: tuple[ManifestEntry, ...]
    strategy: Strategy
    partitions: Predicate | None = None
    partitions_seen: frozenset[bytes] = frozenset()

    @property
    def table(self) -> Table:
        """Return the table."""
        return self.write.table

    @property
    def splits(self) -> tuple[Split, ...]:
        """Return a split of each file, in order."""
        return tuple(
            Split(
                partition=e.partition,
                bucket=e.bucket,
                total_buckets=e.total_buckets,
                files=(e.file,),
                raw=True,
                snapshot_id=self.write.snapshot_id or 0,
            )
            for e in self.files
        )


class PostponedReplay(Protocol):
    """Distributes postponed rows with more than one process."""

    def replay_postponed(self, plan: PostponedPlan) -> list[CommitMessage]:
        """Write the rows of the plan's files to their buckets, in order; nothing is committed."""


@translate_io_errors()
def plan_postponed(
    table: Table, *, strategy: Strategy, partitions: Predicate | None = None, default_buckets: int = 1
) -> PostponedPlan:
    """Plan the compaction of a table with postponed buckets.

    Args:
        table: the table with the options of the statement.
        strategy: how buckets are compacted after the postponed rows were added to them.
        partitions: filter over the partition columns.
        default_buckets: number of buckets of a new partition if no option of the table sets it.
    """
    check_writable(table.effective_schema)
    store, snapshot = ManifestStore(table), table.snapshots.latest()
    live = live_in_partitions(store, snapshot, None)
    chosen = matching_partitions(table, {e.partition for e in live}, partitions or TRUE)
    live = [e for e in live if e.partition in chosen]
    waiting = [e for e in live if e.bucket < 0]
    files = replay_order(store, snapshot, waiting) if snapshot is not None else []
    sequences: dict[bytes, dict[int, int]] = {}
    for e in live:
        of = sequences.setdefault(e.partition, {})
        of[e.bucket] = max(of.get(e.bucket, -1), e.file.max_sequence_number)
    counts = buckets_to_fill(table.options, postponed_rows(waiting), default_buckets) | bucket_counts(live)
    highest = starting_max_sequence(table, snapshot)
    info = WriterRestoreState(max_sequences=sequences, max_sequence=highest, bucket_counts=counts)
    write = WritePlan(table=table, info=info, snapshot_id=snapshot.id if snapshot else None)
    return PostponedPlan(write, tuple(files), strategy, partitions, frozenset(chosen))


def postponed_actions(plan: PostponedPlan) -> Iterator[Action]:
    """Yield one action per postponed file."""
    table = plan.table
    for e in plan.files:
        where = table.partition_text(e.partition).rstrip("/") or "the table"
        buckets = plan.write.info.buckets_of(e.partition)
        path = table.paths.data_file(e.partition, e.bucket, e.file)
        yield Action(DISTRIBUTE, path, e.file.file_size, f"{where}: postponed rows go to {buckets} buckets")


def execute_postponed(
    plan: PostponedPlan, replay: PostponedReplay | None, runner: TaskRunner, progress: Progress | None = None
) -> CompactionResult:
    """Distribute the postponed rows in one COMPACT snapshot, then compact the buckets.

    Args:
        plan: the plan.
        replay: distributes the rows; None does it in this process.
        runner: runs the compaction of the buckets.
        progress: see `execute_compaction`.

    Raises:
        ConflictError: another commit distributed one of the files, or wrote rows to the buckets; this operation has
            changed nothing.
    """
    groups = distribute_postponed(plan, replay)
    compaction = plan_compaction(plan.table, strategy=plan.strategy, partitions=plan.partitions).after(groups)
    done = execute_compaction(compaction, runner, progress)
    result = CompactionResult.of(compaction, [*groups, *done.groups])
    return replace(result, snapshot_before=plan.write.snapshot_id)


def distribute_postponed(plan: PostponedPlan, replay: PostponedReplay | None) -> list[GroupResult]:
    """Distribute the postponed rows in one COMPACT snapshot; without postponed files, return no result.

    Raises:
        ConflictError: see `execute_postponed`.
    """
    if not plan.files:
        return []
    written = _replay_here(plan) if replay is None else replay.replay_postponed(plan)
    messages = [*map(_as_compaction, written), *map(_removal, plan.files)]
    commit = FileStoreCommit(plan.table)
    with commit.or_abort(messages):
        committed = commit.commit(messages, rows_of=plan.write.snapshot_id or 0)
    after = [f for m in written for f in m.new_files]
    buckets = len({(m.partition, m.bucket) for m in written})
    return [GroupResult.of(committed, buckets, [e.file for e in plan.files], after)]


def _replay_here(plan: PostponedPlan) -> list[CommitMessage]:
    with TableWriter(plan.table, plan.write.info, fill_defaults=False) as writer:
        for number, split in enumerate(plan.splits):
            for _, batch in split_rows(plan.table, split, number):
                writer.write(batch)
        return writer.finish()


def _as_compaction(message: CommitMessage) -> CommitMessage:
    return replace(
        message,
        new_files=(),
        new_changelog=(),
        compact_after=message.new_files,
        compact_changelog=message.new_changelog,
    )


def _removal(entry: ManifestEntry) -> CommitMessage:
    return CommitMessage(
        partition=entry.partition,
        bucket=entry.bucket,
        total_buckets=entry.total_buckets,
        compact_before=(entry.file,),
    )

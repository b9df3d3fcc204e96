"""Rescaling: rewrites partitions with another number of buckets, in one OVERWRITE snapshot.

(docs/spec/semantics.md, B5)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from paimon_spark.core.changelog.reported import first_reported_level
from paimon_spark.core.commit.change_set import promote_to_top
from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.commit.snapshot_builder import CommitMetadata
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.maintenance.deletion import Action
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.read.postponed import split_rows
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.scan.splits import Split, plan_splits
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import TableWriter, WriterRestoreState
from paimon_spark.engine.compaction.compact import (
    ATTEMPTS,
    CompactionResult,
    GroupResult,
    Strategy,
    execute_compaction,
    plan_compaction,
)
from paimon_spark.engine.compaction.overwrites import out_of_level_0
from paimon_spark.engine.insert import WritePlan
from paimon_spark.engine.redistribution.sort_compact import replaced_files
from paimon_spark.engine.runner import LocalRunner, TaskRunner
from paimon_spark.errors import ArgumentError, ConflictError, ErrorKind, NotFoundError, UnsupportedError
from paimon_spark.spec.features import check_writable
from paimon_spark.spec.kinds import BucketMode, ChangelogProducer, Operation
from paimon_spark.spec.manifest import BucketKey, ManifestEntry
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.predicate import TRUE, Predicate

RESCALE = "rescale"


@dataclass(frozen=True, slots=True)
class RescalePlan:
    """The files of the partitions to rewrite. `write.table` has the new number of buckets, `table` its own options."""

    table: Table
    write: WritePlan
    buckets: int
    entries: tuple[ManifestEntry, ...]
    splits: tuple[Split, ...]
    partitions_seen: frozenset[bytes]
    unreported: frozenset[BucketKey] = frozenset()
    """Buckets with rows whose changelog only a compaction writes; they are compacted first."""
    filter: Predicate = TRUE


class Rescaler(Protocol):
    """Rewrites rows with more than one process."""

    def rewrite_buckets(self, plan: RescalePlan) -> list[CommitMessage]:
        """Write the rows of the plan's splits to their new buckets; nothing is committed."""


@translate_io_errors()
def plan_rescale(table: Table, buckets: int | None, partitions: Predicate | None = None) -> RescalePlan:
    """Return the plan with the partitions of the latest snapshot that have another number of buckets.

    Args:
        table: the table with the options of the statement.
        buckets: the new number of buckets; that of the table by default.
        partitions: filter over the partition columns.

    Raises:
        ArgumentError: the number of buckets is missing or invalid.
        NotFoundError: the table has no snapshot.
        UnsupportedError: the buckets of the table have no fixed number.
    """
    check_writable(table.effective_schema)
    wanted = _checked(table, buckets)
    snapshot = table.snapshots.latest()
    if snapshot is None:
        raise NotFoundError(
            f"Table {table.name} has no snapshot, so there is nothing to rescale.",
            hint="Insert rows first.",
            kind=ErrorKind.SNAPSHOT_NOT_FOUND,
        )
    found = scan(table, snapshot, partition_predicate=partitions or TRUE)
    other = {e.partition for e in found.entries if e.total_buckets != wanted}
    entries = tuple(e for e in found.entries if e.partition in other)
    splits = tuple(s for s in plan_splits(table, found) if s.partition in other)
    info = WriterRestoreState(bucket_counts=dict.fromkeys(other, wanted), new_buckets=wanted, changelog=False)
    rescaled = table
    if table.bucket_mode is BucketMode.HASH_FIXED:
        rescaled = replace(table, options=CoreOptions({**table.options.values, "bucket": str(wanted)}))
    reported = first_reported_level(table)
    low = frozenset(BucketKey(e.partition, e.bucket) for e in entries if e.bucket >= 0 and e.file.level < reported)
    return RescalePlan(
        table=table,
        write=WritePlan(table=rescaled, info=info, snapshot_id=snapshot.id),
        buckets=wanted,
        entries=entries,
        splits=splits,
        partitions_seen=frozenset(e.partition for e in found.entries),
        unreported=low,
        filter=partitions or TRUE,
    )


def _checked(table: Table, buckets: int | None) -> int:
    if table.bucket_mode not in (BucketMode.HASH_FIXED, BucketMode.POSTPONE):
        raise UnsupportedError(
            f"Table {table.name} has 'bucket' = '-1', so its partitions have no fixed number of buckets.",
            hint="Only tables with a positive number of buckets, or with postponed buckets (-2), are rescaled.",
        )
    if buckets is None and table.bucket_mode is BucketMode.POSTPONE:
        raise ArgumentError(
            f"Table {table.name} has 'bucket' = '-2', which is no number of buckets.", hint="Give bucket_num."
        )
    wanted = table.options.bucket if buckets is None else buckets
    if wanted < 1:
        raise ArgumentError(f"bucket_num is {wanted}.", hint="Give 1 or more.")
    return wanted


def rescale_actions(plan: RescalePlan) -> Iterator[Action]:
    """Yield one action per file that the plan rewrites."""
    table = plan.table
    for e in plan.entries:
        where = table.partition_text(e.partition).rstrip("/") or "the table"
        path = table.paths.data_file(e.partition, e.bucket, e.file)
        waits = BucketKey(e.partition, e.bucket) in plan.unreported
        before = ", after a compaction that writes its changelog" if waits else ""
        reason = f"{where}: rewritten from {e.total_buckets} to {plan.buckets} buckets{before}"
        yield Action(RESCALE, path, e.file.file_size, reason)


def execute_rescale(plan: RescalePlan, rescaler: Rescaler | None, runner: TaskRunner | None = None) -> CompactionResult:
    """Rewrite the partitions of the plan and commit; no snapshot is created if there is nothing to rewrite.

    Args:
        plan: the plan.
        rescaler: rewrites the rows; None does it in this process.
        runner: runs compactions; None does it in this process.

    Raises:
        ConflictError: another commit changed one of the partitions; nothing was rescaled.
    """
    if not plan.entries:
        return CompactionResult(snapshot_before=plan.write.snapshot_id)
    runner = runner or LocalRunner()
    reported, work = _reported(plan, runner)
    replaced = list(replaced_files(work.table, work.entries, work.splits))
    written = rewrite_here(work) if rescaler is None else rescaler.rewrite_buckets(work)
    target = work.write.table
    upgrading = replace(target, options=CoreOptions({**target.options.values, "overwrite-upgrade": "true"}))
    messages = promote_to_top(upgrading, out_of_level_0(upgrading, written, runner))
    commit = FileStoreCommit(work.table)
    with commit.or_abort(messages):
        committed = commit.commit(
            [*messages, *replaced], CommitMetadata(operation=Operation.OVERWRITE), whole_partitions=True
        )
    before, after = [e.file for e in work.entries], [f for m in messages for f in m.new_files]
    group = GroupResult.of(committed, len({(m.partition, m.bucket) for m in messages}), before, after)
    groups = (*reported, group)
    ids = tuple(i for g in groups for i in g.snapshot_ids)
    return CompactionResult(snapshot_before=plan.write.snapshot_id, groups=groups, snapshot_ids=ids)


def _reported(plan: RescalePlan, runner: TaskRunner) -> tuple[list[GroupResult], RescalePlan]:
    """Compact the buckets with rows that are not in the changelog yet; return the results and the plan after them.

    Streams skip the snapshot that rescales, and would never get these rows.

    Raises:
        ConflictError: other commits add such rows all the time.
    """
    done: list[GroupResult] = []
    full = plan.table.options.changelog_producer is ChangelogProducer.FULL_COMPACTION
    rising = plan.table.with_options({"compaction.force-up-level-0": "true"})
    for _ in range(ATTEMPTS):
        if not plan.unreported:
            return done, plan
        strategy = Strategy.FULL if full else Strategy.MINOR
        compaction = plan_compaction(rising, strategy=strategy, buckets=plan.unreported)
        done += execute_compaction(compaction, runner, attempts=ATTEMPTS).groups
        plan = plan_rescale(plan.table, plan.buckets, plan.filter)
    raise ConflictError(
        f"Table {plan.table.name} cannot be rescaled: other commits add rows while the changelog of the rows before "
        "them is written.",
        hint="Stop the writers of the table, and call sys.rescale again.",
    )


def rewrite_here(plan: RescalePlan) -> list[CommitMessage]:
    """Write the rows of the plan's splits to their new buckets in this process; nothing is committed."""
    with TableWriter(plan.write.table, plan.write.info, fill_defaults=False) as writer:
        for number, split in enumerate(plan.splits):
            for _, batch in split_rows(plan.table, split, number):
                writer.write(batch)
        return writer.finish()

"""Compaction of chain tables: a merged partition is written to the snapshot branch (docs/spec/semantics.md, Y9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from paimon_spark.core.commit.committer import Committed
from paimon_spark.core.maintenance.deletion import Action
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.scan.pruning import matching_partitions
from paimon_spark.core.table import Table
from paimon_spark.engine.chain_read import is_chain_read, open_chain, plan_merged
from paimon_spark.engine.insert import WriteResult, complete_write, plan_write
from paimon_spark.engine.redistribution.rescale import RescalePlan, Rescaler, rewrite_here
from paimon_spark.engine.runner import TaskRunner
from paimon_spark.engine.select import DEFAULT_READ
from paimon_spark.errors import UsageError
from paimon_spark.spec.chain_tables import DELTA_BRANCH, ENABLED, SNAPSHOT_BRANCH
from paimon_spark.spec.features import check_writable
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.predicate import Predicate, and_, is_partition, or_

MERGE = "merge partition"
EXISTS = "exists"


@dataclass(frozen=True, slots=True)
class ChainCompactionPlan:
    """What to write to the snapshot branch.

    Attributes:
        move: the splits, and the branch that they are written to.
        existing: partitions of the snapshot branch that match; they are replaced, or prevent the compaction.
        overwrite: whether they are replaced.
    """

    move: RescalePlan
    existing: frozenset[bytes]
    overwrite: bool

    @property
    def snapshots(self) -> Table:
        """Return the snapshot branch."""
        return self.move.write.table

    @property
    def files(self) -> dict[str, DataFileMeta]:
        """Return the files to read, by name."""
        return {f.file_name: f for s in self.move.splits for f in s.files}

    @property
    def merges(self) -> bool:
        """Return whether there is something to write."""
        return bool(self.move.splits) and (self.overwrite or not self.existing)


@dataclass(frozen=True, slots=True)
class ChainCompaction:
    """What was written to the snapshot branch; nothing if there was nothing to merge."""

    snapshot_ids: tuple[int, ...] = ()
    files: tuple[DataFileMeta, ...] = ()


@translate_io_errors()
def plan_chain_compaction(table: Table, partition: Predicate, *, overwrite: bool) -> ChainCompactionPlan:
    """Plan the merge of the partitions that match a filter.

    Args:
        table: the chain table, on a branch that is read as a chain.
        partition: filter over the partition columns.
        overwrite: replace matching partitions of the snapshot branch that have deltas.

    Raises:
        UsageError: the table is not a chain table, or its branches cannot be read together.
    """
    if not is_chain_read(table):
        raise UsageError(
            f"Table {table.name} is not a chain table: compact_chain_table merges its delta branch into its snapshot "
            "branch.",
            hint=f"Name a table with '{ENABLED}' = 'true', '{SNAPSHOT_BRANCH}' and '{DELTA_BRANCH}', without a branch.",
        )
    chain = open_chain(table)
    target = chain.snapshots.table
    check_writable(target.effective_schema)
    full = chain.snapshots.partitions()
    merged = plan_merged(chain, full, target.schema.field_names, partition, DEFAULT_READ)
    existing = frozenset(matching_partitions(target, full, partition))
    partitions = sorted({s.partition for s in merged.splits})
    replaced = or_(*(_is(target, p) for p in partitions)) if existing and partitions else None
    write = plan_write(target, overwrite=None if replaced is None else "static", static_partitions=replaced)
    write = replace(write, new_partitions=replaced is None)
    move = RescalePlan(chain.reader, write, target.options.bucket, (), merged.splits, frozenset(partitions))
    return ChainCompactionPlan(move, existing, overwrite)


def _is(table: Table, partition: bytes) -> Predicate:
    values = zip(table.schema.partition_keys, table.partition_values(partition), strict=True)
    return and_(*(is_partition(name, value) for name, value in values))


def chain_compaction_actions(plan: ChainCompactionPlan) -> Iterator[Action]:
    """Yield one action a partition: those to write, or those that exist."""
    table = plan.snapshots
    if plan.existing and not plan.overwrite:
        for partition in sorted(plan.existing):
            yield Action(
                EXISTS, table.partition_text(partition), 0, f"{table.name} has it; set overwrite to replace it"
            )
        return
    for partition in sorted(plan.move.partitions_seen):
        files = {f.file_name: f for s in plan.move.splits if s.partition == partition for f in s.files}
        how = "replaces" if partition in plan.existing else "adds"
        size = sum(f.file_size for f in files.values())
        yield Action(MERGE, table.partition_text(partition), size, f"{len(files)} files; {how} the partition")


def execute_chain_compaction(
    plan: ChainCompactionPlan, rescaler: Rescaler | None, runner: TaskRunner
) -> ChainCompaction:
    """Write the merged rows and commit them to the snapshot branch.

    Args:
        plan: the plan.
        rescaler: rewrites the rows; None does it in this process.
        runner: runs the compaction that follows a write.

    Raises:
        ConflictError: another commit has added a partition to the snapshot branch; nothing is changed.
    """
    if not plan.merges:
        return ChainCompaction()
    messages = rewrite_here(plan.move) if rescaler is None else rescaler.rewrite_buckets(plan.move)
    done: WriteResult = complete_write(plan.move.write, messages, runner)
    ids = list(done.commit.snapshot_ids) if isinstance(done.commit, Committed) else []
    ids += done.compacted.snapshot_ids if done.compacted is not None else ()
    return ChainCompaction(tuple(ids), done.files)

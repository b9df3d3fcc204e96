"""Rewriting of file indexes: which files, tasks, and commits group by group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from paimon_spark.core.bin_packing import task_cost
from paimon_spark.core.cancellation import checkpoint
from paimon_spark.core.commit.committer import Committed, FileStoreCommit
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.compact.file_indexes import IndexRewriter, IndexTask
from paimon_spark.core.maintenance.abandoned_files import clean_up_abandoned
from paimon_spark.core.maintenance.deletion import Action
from paimon_spark.core.metadata_io import in_parallel, translate_io_errors
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import Progress
from paimon_spark.engine.runner import TaskRunner
from paimon_spark.engine.tasks import index_payload, index_result
from paimon_spark.spec.features import check_writable
from paimon_spark.spec.predicate import TRUE, Predicate

INDEX = "index"
FILES_AT_ONCE = 1_000
"""Number of files that are committed together; a failure loses at most one group."""


@dataclass(frozen=True, slots=True)
class IndexRewritePlan:
    """The files whose indexes differ from those of the options."""

    table: Table
    snapshot_id: int | None
    tasks: tuple[IndexTask, ...]
    partitions_seen: frozenset[bytes] = field(default=frozenset(), repr=False)
    """The partitions that the filter matches."""

    @property
    def actions(self) -> tuple[Action, ...]:
        """Return one action per file."""
        paths = self.table.paths
        reason = "its file indexes may not be those of the table's options"
        return tuple(
            Action(INDEX, paths.data_file(t.partition, t.bucket, t.file), t.file.file_size, reason) for t in self.tasks
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRewriteResult:
    """The files with other indexes than before."""

    snapshot_ids: tuple[int, ...] = ()
    partitions: int = 0
    files: int = 0
    bytes: int = 0
    index_bytes: int = 0
    """The size of their new indexes."""
    rows: int = 0


@translate_io_errors()
def plan_index_rewrite(table: Table, partitions: Predicate | None = None, *, force: bool = False) -> IndexRewritePlan:
    """Return the plan for the latest snapshot.

    Args:
        table: the table with the options of the statement.
        partitions: filter over the partition columns.
        force: include the files whose indexes are of the right kinds.
    """
    check_writable(table.effective_schema)
    snapshot = table.snapshots.latest()
    entries = scan(table, snapshot, partition_predicate=partitions or TRUE).entries
    tasks = [
        IndexTask(partition=e.partition, bucket=e.bucket, total_buckets=e.total_buckets, file=e.file) for e in entries
    ]
    current = [False] * len(tasks) if force else in_parallel(IndexRewriter(table).is_current, tasks)
    return IndexRewritePlan(
        table,
        snapshot.id if snapshot else None,
        tuple(t for t, done in zip(tasks, current, strict=True) if not done),
        frozenset(e.partition for e in entries),
    )


def execute_index_rewrite(
    plan: IndexRewritePlan, runner: TaskRunner, progress: Progress | None = None
) -> IndexRewriteResult:
    """Rewrite the indexes and commit group by group; a repeated CALL continues after the last group.

    Raises:
        ConflictError: another commit replaced files of a group; groups committed before are kept.
    """
    ids: list[int] = []
    done: list[CommitMessage] = []
    finished = written = 0
    commit = FileStoreCommit(plan.table)
    for first in range(0, len(plan.tasks), FILES_AT_ONCE):
        group = plan.tasks[first : first + FILES_AT_ONCE]
        table = plan.table.with_write_token()
        messages: list[CommitMessage] = []
        try:
            payloads = [index_payload(table, tasks) for tasks in runner.group_tasks(group, _work)]
            for result in runner.run("index", payloads, description=f"index {plan.table.name}"):
                found, size = index_result(result)
                messages += found
                written += size
                checkpoint()
        except BaseException:
            commit.abort(messages)
            clean_up_abandoned(table)
            raise
        ids += _commit(commit, messages)
        done += messages
        finished += len(group)
        if progress is not None:
            progress(finished, len(plan.tasks))
    files = [f for m in done for f in m.compact_after]
    return IndexRewriteResult(
        snapshot_ids=tuple(ids),
        partitions=len({m.partition for m in done}),
        files=len(files),
        bytes=sum(f.file_size for f in files),
        index_bytes=written,
        rows=sum(f.row_count for f in files),
    )


def _work(task: IndexTask) -> int:
    return task_cost(task.file.file_size, 1)


def _commit(commit: FileStoreCommit, messages: Sequence[CommitMessage]) -> tuple[int, ...]:
    if not messages:
        return ()
    with commit.or_abort(messages):
        committed = commit.commit(messages)
    return committed.snapshot_ids if isinstance(committed, Committed) else ()

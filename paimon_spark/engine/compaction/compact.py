"""Compaction: planning, tasks of one or several buckets, and commits group by group."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial

from paimon_spark.core.cancellation import checkpoint
from paimon_spark.core.commit.committer import CommitResult, Committed, FileStoreCommit, new_commit_user
from paimon_spark.core.commit_message import CommitMessage, messages_from_json
from paimon_spark.core.compact.append import AppendOptions, Vectors, pick_bucketed, pick_bucketed_full, pick_unaware
from paimon_spark.core.compact.clustering import ClusterPolicy, clusters, sorts_apart
from paimon_spark.core.compact.column_files import pick_row_ranges
from paimon_spark.core.compact.pick import CompactUnit, PickOptions, pick, pick_full
from paimon_spark.core.compact.record_expiry import RecordExpiry
from paimon_spark.core.compact.task import CompactTask, bucket_vectors, vectors_of
from paimon_spark.core.levels import highest_level, max_level, sorted_runs
from paimon_spark.core.maintenance.abandoned_files import clean_up_abandoned
from paimon_spark.core.merge.config import needs_lookup
from paimon_spark.core.metadata.deletion_vectors import VectorRef, vector_refs
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.row_ranges import evolves
from paimon_spark.core.metadata.row_tracking import has_row_ids, tracks_rows
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.scan.result import ScannedBucket
from paimon_spark.core.scan.scan import live_in_partitions, scan_buckets, scan_places
from paimon_spark.core.table import Table
from paimon_spark.core.write.rolling import wall_clock_millis
from paimon_spark.engine.compaction.cluster_tasks import cluster_tasks, idle_tasks
from paimon_spark.engine.runner import TaskRunner
from paimon_spark.engine.tasks import compact_payload, compact_work
from paimon_spark.errors import ConflictError, CorruptTableError, ErrorKind
from paimon_spark.spec.chain_tables import is_chain_table
from paimon_spark.spec.features import check_writable
from paimon_spark.spec.kinds import BucketMode
from paimon_spark.spec.manifest import BucketKey, DataFileKey, DataFileMeta
from paimon_spark.spec.predicate import TRUE, Predicate

ATTEMPTS = 5
"""How often a CALL compacts a group of buckets whose files other commits replace meanwhile."""
_log = logging.getLogger(__name__)


class Strategy(StrEnum):
    """How much to compact: everything, or what automatic compaction would pick now."""

    FULL = "full"
    MINOR = "minor"


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """The size of a group of buckets that are committed together; a failure loses at most one group.

    A group may have more than `buckets` buckets until it reaches `bytes` or `files`.

    Attributes:
        buckets: buckets of a group, whatever their size.
        bytes: bytes of the data files of a group of more buckets.
        files: data files of a group of more buckets.
    """

    buckets: int = 32
    bytes: int = 256 << 20
    files: int = 4096


DEFAULT_LIMITS = GroupLimits()


@dataclass(frozen=True, slots=True)
class CompactGroup:
    """Buckets whose compactions are committed together; a `strategy` of their own takes precedence over the plan's."""

    tasks: tuple[CompactTask, ...]
    strategy: Strategy | None = None


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """The files that a compaction will rewrite or move; planning changes nothing."""

    table: Table
    strategy: Strategy
    snapshot_id: int | None
    groups: tuple[CompactGroup, ...]
    partitions_seen: frozenset[bytes] = field(default=frozenset(), repr=False)
    """The partitions that the filter matches."""
    commit_user: str | None = field(default=None, compare=False, repr=False)

    @property
    def tasks(self) -> tuple[CompactTask, ...]:
        """Return the tasks of all groups."""
        return tuple(t for g in self.groups for t in g.tasks)

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to compact."""
        return not self.groups

    def after(self, groups: Sequence[GroupResult]) -> CompactionPlan:
        """Return the plan for the commit user of earlier commits of the same statement, if there are any."""
        ids = [i for g in groups for i in g.snapshot_ids]
        found = self.table.snapshots.find(ids[-1]) if ids else None
        return self if found is None else replace(self, commit_user=found.commit_user)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupResult:
    """Changes by the commit of one group. An upgraded file counts as removed and added, but its bytes do not."""

    snapshot_ids: tuple[int, ...] = ()
    buckets: int = 0
    files_in: int = 0
    files_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    rows_in: int = 0
    rows_out: int = 0
    files_upgraded: int = 0

    @classmethod
    def of(
        cls, committed: CommitResult, buckets: int, before: Sequence[DataFileMeta], after: Sequence[DataFileMeta]
    ) -> GroupResult:
        """Return the result of a commit that replaced some files of so many buckets by others."""
        same = {f.file_name for f in before} & {f.file_name for f in after}
        return cls(
            snapshot_ids=committed.snapshot_ids if isinstance(committed, Committed) else (),
            buckets=buckets,
            files_in=len(before),
            files_out=len(after),
            bytes_in=sum(f.file_size for f in before if f.file_name not in same),
            bytes_out=sum(f.file_size for f in after if f.file_name not in same),
            rows_in=sum(f.row_count for f in before),
            rows_out=sum(f.row_count for f in after),
            files_upgraded=len(same),
        )

    @property
    def is_upgrade(self) -> bool:
        """Return whether files were only moved to another level, and none was rewritten."""
        return 0 < self.files_upgraded == self.files_in == self.files_out


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """The result of a compaction, by group."""

    snapshot_before: int | None
    groups: tuple[GroupResult, ...] = ()
    snapshot_ids: tuple[int, ...] = field(default=())

    @classmethod
    def of(cls, plan: CompactionPlan, groups: Sequence[GroupResult]) -> CompactionResult:
        """Return the result of a plan and its groups."""
        return cls(
            snapshot_before=plan.snapshot_id,
            groups=tuple(groups),
            snapshot_ids=tuple(i for g in groups for i in g.snapshot_ids),
        )

    @property
    def total(self) -> GroupResult:
        """Return the sum of all groups."""
        names = ("buckets", "files_in", "files_out", "bytes_in", "bytes_out", "rows_in", "rows_out", "files_upgraded")
        sums = {n: sum(getattr(g, n) for g in self.groups) for n in names}
        return GroupResult(snapshot_ids=self.snapshot_ids, **sums)

    @property
    def snapshot_after(self) -> int | None:
        """Return the snapshot of the last commit, or the previous one if nothing was committed."""
        return self.snapshot_ids[-1] if self.snapshot_ids else self.snapshot_before


Progress = Callable[[int, int], None]
"""Called with (compacted buckets, all buckets)."""
Sorting = Callable[[Table, Sequence[CompactTask]], list[CommitMessage]]
"""Runs tasks that sort more rows than one process should, with several processes; nothing is committed."""


def usual_strategy(table: Table) -> Strategy:
    """Return how much of a table is compacted by default: what is due if it is clustered, else everything."""
    return Strategy.MINOR if clusters(table) else Strategy.FULL


@translate_io_errors()
def plan_compaction(
    table: Table,
    *,
    strategy: Strategy | None = None,
    partitions: Predicate | None = None,
    buckets: Collection[BucketKey] | None = None,
    limits: GroupLimits = DEFAULT_LIMITS,
) -> CompactionPlan:
    """Return the compaction plan of the latest snapshot.

    Args:
        table: the table with the options of the statement.
        strategy: full, or what automatic compaction picks; see `usual_strategy` for the default.
        partitions: filter over the partition columns.
        buckets: only these buckets.
        limits: which buckets are committed together.

    Raises:
        UnsupportedError: the table has a feature that is not supported for compactions.
        OptionError: the table is clustered, but not by valid columns and a strategy that fits them.
    """
    check_writable(table.effective_schema)
    strategy = usual_strategy(table) if strategy is None else strategy
    policy = ClusterPolicy.of(table) if clusters(table) else None
    snapshot = table.snapshots.latest()
    wanted = partitions or TRUE
    if buckets is None:
        found = scan_buckets(table, snapshot, statistics=True, predicate=wanted)
    else:
        found = scan_places(table, snapshot, buckets, wanted)
    refs = vector_refs(table, found.index_entries)
    tasks: list[CompactTask] = []
    partitions_seen: set[bytes] = set()
    for bucket in found.buckets():
        partitions_seen.add(bucket.partition)
        if buckets is None or BucketKey(bucket.partition, bucket.bucket) in buckets:
            if policy is not None:
                tasks += cluster_tasks(policy, bucket, refs, full=strategy is Strategy.FULL)
            else:
                tasks += _bucket_tasks(table, bucket, strategy, refs)
    groups = [CompactGroup(tuple(g)) for g in _grouped(tasks, limits)]
    if policy is not None and partitions is not None and buckets is None:
        idle = idle_tasks(policy, snapshot, partitions)
        groups += [CompactGroup(tuple(g), Strategy.FULL) for g in _grouped(idle, limits)]
    snapshot_id = snapshot.id if snapshot else None
    user = new_commit_user(table)
    return CompactionPlan(table, strategy, snapshot_id, tuple(groups), frozenset(partitions_seen), user)


def _grouped(tasks: Iterable[CompactTask], limits: GroupLimits) -> Iterator[list[CompactTask]]:
    """Yield tasks by partition; small partitions share a group."""
    by_partition: dict[bytes, list[CompactTask]] = {}
    for task in tasks:
        by_partition.setdefault(task.partition, []).append(task)
    current: list[CompactTask] = []
    size = files = 0
    for partition in sorted(by_partition):
        more = by_partition[partition]
        more_size, more_files = sum(t.bytes_in for t in more), sum(len(t.files) for t in more)
        large = size + more_size > limits.bytes or files + more_files > limits.files
        if current and large and len(current) + len(more) > limits.buckets:
            yield current
            current, size, files = [], 0, 0
        current += more
        size += more_size
        files += more_files
    if current:
        yield current


def _bucket_tasks(
    table: Table,
    found: ScannedBucket,
    strategy: Strategy,
    refs: Mapping[DataFileKey, VectorRef],
) -> Iterator[CompactTask]:
    task, vectors = CompactTask.of(found), bucket_vectors(found, refs)
    if table.is_primary_key_table:
        yield from _keyed_tasks(table, found.files, strategy, vectors, task)
        return
    if evolves(table):
        yield from _evolving_tasks(table, found.files, vectors, task)
        return
    for group in _append_groups(table, found.files, strategy, vectors):
        marked = vectors_of(group, vectors)
        yield replace(task, files=group, reason="deleted rows" if marked else "small files", vectors=marked)


def _evolving_tasks(
    table: Table, files: Sequence[DataFileMeta], vectors: Vectors, task: CompactTask
) -> Iterator[CompactTask]:
    options = table.options
    renumbers = options.deletion_vectors_enabled and options.flag("data-evolution.compaction.rewrite-row-ids")
    deleted = {name: ref.cardinality or 0 for name, ref in vectors.items()} if renumbers else None
    for group in pick_row_ranges(files, append_options(table), deleted):
        stitched = len({f.first_row_id for f in group}) < len(group)
        marked = vectors_of(group, vectors)
        renumber = renumbers and bool(marked)
        reason = "deleted rows" if renumber else "column files" if stitched else "small files"
        yield replace(task, files=group, reason=reason, vectors=marked, renumber=renumber)


def _keyed_tasks(
    table: Table,
    files: Sequence[DataFileMeta],
    strategy: Strategy,
    vectors: Vectors,
    task: CompactTask,
) -> Iterator[CompactTask]:
    options = table.options
    highest = highest_level(files)
    for unit in _keyed_units(table, files, strategy, vectors):
        taken = {f.file_name for f in unit.files}
        above = [f for f in files if f.level > unit.output_level and f.file_name not in taken]
        upper = tuple(above) if needs_lookup(table) else ()
        no_older = unit.output_level >= highest or options.deletion_vectors_enabled
        no_older = no_older and not is_chain_table(options)  # they delete rows of earlier partitions
        yield replace(
            task,
            files=unit.files,
            output_level=unit.output_level,
            to_top=unit.output_level == max_level(files, table.stored_options.num_levels),
            drop_deletes=unit.output_level != 0 and no_older,
            force_rewrite=options.compaction_force_rewrite_all_files,
            reason=unit.reason,
            vectors=vectors_of((*unit.files, *upper), vectors),
            upper=upper,
        )


def _keyed_units(
    table: Table, files: Sequence[DataFileMeta], strategy: Strategy, vectors: Vectors
) -> list[CompactUnit]:
    options = table.options
    runs = sorted_runs(files)
    top = max_level(files, table.stored_options.num_levels)
    if strategy is Strategy.FULL:
        force = options.compaction_force_rewrite_all_files
        expiry = RecordExpiry.of(table, int(time.time()))

        def must_rewrite(file: DataFileMeta) -> bool:
            retracts = bool(file.delete_row_count) and not is_chain_table(options)
            changed = retracts or file.file_name in vectors
            return force or changed or (expiry is not None and expiry.may_be_in(file))

        return pick_full(runs, top, must_rewrite=must_rewrite)
    now = time.time()
    hour, wall_clock = time.localtime(now).tm_hour, wall_clock_millis(int(now * 1000))
    unit = pick(runs, pick_options(table), top, hour=hour, now_millis=wall_clock)
    return [] if unit is None else [unit]


def _append_groups(
    table: Table, files: Sequence[DataFileMeta], strategy: Strategy, vectors: Vectors
) -> list[tuple[DataFileMeta, ...]]:
    options, full = append_options(table), strategy is Strategy.FULL
    if tracks_rows(table):
        files = [f for f in files if has_row_ids(f)]  # a rewritten file stores the ids of its rows
    if table.bucket_mode is BucketMode.BUCKET_UNAWARE:
        return pick_unaware(files, options, vectors, full=full)
    group = pick_bucketed_full(files, options, vectors) if full else pick_bucketed(files, options)
    return [] if group is None else [group]


def pick_options(table: Table) -> PickOptions:
    """Return the thresholds of the picker for a table."""
    o = table.options
    return PickOptions(
        trigger=o.trigger,
        size_ratio=o.compaction_size_ratio,
        max_amplification_percent=o.compaction_max_size_amplification_percent,
        optimization_interval_millis=o.compaction_optimization_interval_ms,
        total_size_threshold=o.compaction_total_size_threshold,
        incremental_size_threshold=o.compaction_incremental_size_threshold,
        offpeak_start=o.compaction_offpeak_start_hour,
        offpeak_end=o.compaction_offpeak_end_hour,
        offpeak_ratio=o.compaction_offpeak_ratio,
        force_up_level_0=o.compaction_force_up_level_0 or (needs_lookup(table) and not o.lookup_compact_gentle),
    )


def append_options(table: Table) -> AppendOptions:
    """Return the thresholds of append compaction for a table."""
    o = table.options
    return AppendOptions(
        target_file_size=o.target_file_size(primary_key=False),
        open_file_cost=o.source_split_open_file_cost,
        small_file_ratio=o.compaction_small_file_ratio,
        min_file_num=o.compaction_min_file_num,
        file_num_limit=o.compaction_file_num_limit,
        delete_ratio_threshold=o.compaction_delete_ratio_threshold,
    )


def execute_compaction(
    plan: CompactionPlan,
    runner: TaskRunner,
    progress: Progress | None = None,
    *,
    commit_user: str | None = None,
    attempts: int = 1,
    sorting: Sorting | None = None,
) -> CompactionResult:
    """Run the tasks of the plan; a group is committed when all of its tasks are done.

    Args:
        plan: the plan.
        runner: runs the tasks.
        progress: called after each bucket.
        commit_user: that of the snapshots; that of the plan by default.
        attempts: how often the buckets of a group are compacted, if other commits replace their files meanwhile: each
            time after the first, by a plan of the newest snapshot.
        sorting: runs the tasks of a clustered table with more bytes than a file should have; the runner by default.

    Raises:
        ConflictError: another commit replaced files of a group in the last attempt; groups committed before are kept.
    """
    done: list[GroupResult] = []
    left = deque((group, attempts - 1) for group in plan.groups)
    finished, total, number = 0, len(plan.tasks), 0
    if progress is not None and total:
        progress(0, total)
    while left:
        (group, more), number = left.popleft(), number + 1
        report = None if progress is None else partial(_shifted, progress, finished, total)
        description = f"compact {plan.table.name}: group {number} of {number + len(left)}"
        try:
            messages = run_group(plan.table, group, runner, description, report, sorting)
            done.append(commit_group(plan, group, messages, commit_user=commit_user))
        except ConflictError as e:
            if not more or not e.repeatable:
                raise
            _log.info("A group of %s is compacted again after a conflicting commit: %s", plan.table.name, e)
            again = _planned_again(plan, group)
            left.extendleft((g, more - 1) for g in reversed(again.groups))
            total += len(again.tasks) - len(group.tasks)
        else:
            finished += len(group.tasks)
    return CompactionResult.of(plan, done)


def execute_again(plan: CompactionPlan, group: CompactGroup, runner: TaskRunner) -> CompactionResult:
    """Compact the buckets of a group of the plan again, after a first attempt that conflicted with another commit.

    Raises:
        ConflictError: every attempt had a conflict; nothing was changed.
    """
    return execute_compaction(_planned_again(plan, group), runner, attempts=ATTEMPTS - 1)


def _planned_again(plan: CompactionPlan, group: CompactGroup) -> CompactionPlan:
    buckets = {BucketKey(t.partition, t.bucket) for t in group.tasks}
    again = plan_compaction(plan.table, strategy=group.strategy or plan.strategy, buckets=buckets)
    return replace(again, commit_user=plan.commit_user)


def _shifted(progress: Progress, start: int, total: int, done: int) -> None:
    progress(start + done, total)


def run_group(
    plain: Table,
    group: CompactGroup,
    runner: TaskRunner,
    description: str,
    report: Callable[[int], None] | None = None,
    sorting: Sorting | None = None,
) -> list[CommitMessage]:
    """Run the tasks of a group; if one fails, the files of the others are deleted. Nothing is committed.

    Args:
        plain: the table of the group.
        group: the tasks.
        runner: runs them.
        description: that of the job.
        report: called with the number of compacted buckets after each task.
        sorting: see `execute_compaction`.

    Raises:
        ConflictError: a file is missing because another commit replaced it.
    """
    messages: list[CommitMessage] = []
    table = plain.with_write_token()
    large: list[CompactTask] = []
    rest: list[CompactTask] = []
    for task in group.tasks:
        (large if sorting is not None and sorts_apart(plain, task) else rest).append(task)
    payloads = [compact_payload(table, tasks) for tasks in runner.group_tasks(rest, compact_work)]
    try:
        if sorting is not None and large:
            messages += sorting(plain, large)
            if report is not None:
                report(len(messages))
        if not payloads:
            return messages
        for result in runner.run("compact", payloads, description=f"{description}, {len(payloads)} tasks"):
            messages += messages_from_json(result)
            if report is not None:
                report(len(messages))
            checkpoint()
    except BaseException as e:
        FileStoreCommit(plain).abort(messages)
        clean_up_abandoned(table)
        if isinstance(e, CorruptTableError) and e.kind is ErrorKind.FILE_MISSING:
            _check_live(plain, group)
        raise
    return messages


def _check_live(table: Table, group: CompactGroup) -> None:
    """Raise ConflictError if files of the group were replaced, or their deletion vectors changed, since planning."""
    store, latest = ManifestStore(table), table.snapshots.latest()
    partitions = {t.partition for t in group.tasks}
    live = {DataFileKey(e.partition, e.bucket, e.file.file_name) for e in live_in_partitions(store, latest, partitions)}
    vectors = vector_refs(table, store.read_index(latest.index_manifest) if latest else ())
    for task in group.tasks:
        marked = dict(task.vectors)
        for file in task.files:
            key, seen = DataFileKey(task.partition, task.bucket, file.file_name), marked.get(file.file_name)
            if key not in live:
                happened = "was compacted or overwritten by another commit"
            elif seen is not None and vectors.get(key) != seen:
                happened = "lost more rows to another commit"
            else:
                continue
            raise ConflictError(
                f"The file '{file.file_name}' of table {table.name}, which was selected for compaction, {happened}, "
                "and the snapshot that the compaction was planned on has expired.",
                hint="Compact again: it will start from the new state.",
            )


def commit_group(
    plan: CompactionPlan, group: CompactGroup, messages: Sequence[CommitMessage], *, commit_user: str | None = None
) -> GroupResult:
    """Commit the results of one group's tasks.

    Raises:
        ConflictError: another commit replaced files of the group; the new files are deleted.
    """
    commit = FileStoreCommit(plan.table, commit_user or plan.commit_user)
    with commit.or_abort(messages):
        committed = commit.commit(messages)
    return _group_result(group, messages, committed)


def _group_result(group: CompactGroup, messages: Sequence[CommitMessage], committed: CommitResult) -> GroupResult:
    before = [f for m in messages for f in m.compact_before]
    after = [f for m in messages for f in m.compact_after]
    return GroupResult.of(committed, len({BucketKey(t.partition, t.bucket) for t in group.tasks}), before, after)

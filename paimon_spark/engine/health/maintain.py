"""Maintenance by findings: safe measures against what an examination has found, most gain first, in a time budget.

Safe are measures that lose no row of any snapshot that the table's options retain: compaction, compaction of manifests,
expiry of snapshots and tags by the table's own options, removal of orphans older than a day, and deletion of runs of
the trash whose retention has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from paimon_spark.core.maintenance.deletion import Action
from paimon_spark.core.metadata.refs import RefKind
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import CompactionPlan, execute_compaction, plan_compaction
from paimon_spark.engine.compaction.compact_explain import compaction_actions
from paimon_spark.engine.compaction.compact_manifest import (
    CompactManifestPlan,
    execute_compact_manifest,
    plan_compact_manifest,
)
from paimon_spark.engine.expiry.expire import ExpireConfig, ExpirePlan, execute_expire, plan_expire
from paimon_spark.engine.expiry.orphans import OrphanPlan, OrphanResult, execute_orphans, plan_orphans
from paimon_spark.engine.health.doctor import Diagnosis
from paimon_spark.engine.health.findings import Code, Finding, call, sql_name
from paimon_spark.engine.refs.tags import DeleteTagsPlan, execute_delete_tags, expired_tags, plan_delete_tags
from paimon_spark.engine.runner import TaskRunner
from paimon_spark.engine.trash import EmptyTrashPlan, TrashRequest, TrashRuns, execute_empty, plan_empty
from paimon_spark.errors import PaimonError, StatementCancelledError
from paimon_spark.spec.units import MAX_INT

_OPEN_COST = 4 << 20
"""A file fewer is worth so many bytes fewer, as in the planning of splits."""


class Measure(StrEnum):
    """What maintenance may do."""

    COMPACT = "compact"
    COMPACT_MANIFEST = "compact_manifest"
    EXPIRE_TAGS = "expire_tags"
    EXPIRE_SNAPSHOTS = "expire_snapshots"
    REMOVE_ORPHAN_FILES = "remove_orphan_files"
    EMPTY_TRASH = "empty_trash"


MEASURES: dict[Code, Measure] = {
    Code.SMALL_FILES: Measure.COMPACT,
    Code.LEVEL_0_FILES: Measure.COMPACT,
    Code.DELETED_ROWS: Measure.COMPACT,
    Code.SMALL_MANIFESTS: Measure.COMPACT_MANIFEST,
    Code.EXPIRED_SNAPSHOTS: Measure.EXPIRE_SNAPSHOTS,
    Code.EXPIRED_TAGS: Measure.EXPIRE_TAGS,
    Code.ORPHAN_FILES: Measure.REMOVE_ORPHAN_FILES,
    Code.EXPIRED_TRASH: Measure.EMPTY_TRASH,
}


class Status(StrEnum):
    """What became of a measure."""

    DONE = "done"
    PARTLY = "partly done"
    NOTHING = "nothing to do"
    FAILED = "failed"
    LEFT = "left"


_Work = CompactionPlan | CompactManifestPlan | ExpirePlan | DeleteTagsPlan | OrphanPlan | EmptyTrashPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A planned measure for one table; `actions` are what its execution does. `error` says why it cannot be planned."""

    table: Table
    measure: Measure
    findings: tuple[Finding, ...]
    work: _Work | None = None
    actions: tuple[Action, ...] = ()
    error: str | None = None
    least_gain: int = 0
    """The gain of another job that profits from this one."""

    @property
    def statement(self) -> str:
        """Return the CALL that does the same."""
        given = next((f.remedy for f in self.findings if f.remedy), None)
        return given or call(self.measure, table=sql_name(self.table))

    @property
    def gain(self) -> int:
        """Return what the measure is worth, in bytes."""
        best = max(self.findings, key=lambda f: f.gain_bytes + f.gain_files * _OPEN_COST)
        return max(best.gain_bytes + best.gain_files * _OPEN_COST, self.least_gain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of the findings of one table and measure."""

    table: str
    findings: str
    statement: str | None
    status: Status
    reason: str | None = None
    files_in: int = 0
    files_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    duration_ms: int = 0
    changed: bool = field(default=False)


def plan_jobs(
    table: Table, diagnosis: Diagnosis, allowed: Collection[Measure], runner: TaskRunner, now: int
) -> Iterator[Job]:
    """Yield the planned jobs for the diagnosis of one table; nothing is changed.

    Tags that expire go before the snapshots: otherwise these keep files for them. No job can run in a table that has
    lost a snapshot or tag.

    Raises:
        StatementCancelledError: the statement was cancelled. Other errors are in their jobs.
    """
    tags: Job | None = None
    lost = next(iter(diagnosis.lost), None)
    for measure in Measure:
        own = tuple(f for f in diagnosis.findings if MEASURES.get(f.code) is measure and f.remedy is not None)
        if not own or measure not in allowed:
            continue
        if lost is not None:
            yield Job(table=table, measure=measure, findings=own, error=str(lost.error))
            continue
        try:
            gone = tags.work.names if tags is not None and isinstance(tags.work, DeleteTagsPlan) else ()
            work, actions = _planned(table, measure, own, runner, now, gone)
        except StatementCancelledError:
            raise
        except PaimonError as e:
            yield Job(table=table, measure=measure, findings=own, error=str(e))
            continue
        job = Job(table=table, measure=measure, findings=own, work=work, actions=tuple(actions))
        if measure is Measure.EXPIRE_TAGS:
            tags = job
            continue
        if measure is Measure.EXPIRE_SNAPSHOTS and tags is not None:
            tags = replace(tags, least_gain=job.gain + 1)
        yield job
    if tags is not None:
        yield tags


def _planned(
    table: Table, measure: Measure, findings: Iterable[Finding], runner: TaskRunner, now: int, gone_tags: Iterable[str]
) -> tuple[_Work, Iterable[Action]]:
    if measure is Measure.COMPACT:
        buckets = frozenset().union(*(f.buckets for f in findings))
        compaction = plan_compaction(table.with_options({"write-only": "false"}), buckets=buckets)
        return compaction, compaction_actions(compaction)
    if measure is Measure.COMPACT_MANIFEST:
        manifests = plan_compact_manifest(table)
        return manifests, manifests.actions
    if measure is Measure.EXPIRE_SNAPSHOTS:
        keys = [(str(RefKind.TAG), table.branch, name) for name in gone_tags]
        expiry = plan_expire(table, ExpireConfig(max_deletes=MAX_INT), now, without=keys)
        return expiry, expiry.actions
    if measure is Measure.EXPIRE_TAGS:
        gone = expired_tags(table, now)
        tags = plan_delete_tags(table, gone, because=gone) if gone else DeleteTagsPlan()
        return tags, tags.actions
    if measure is Measure.EMPTY_TRASH:
        trash = plan_empty(table, now, run=None, older_than=None)
        return trash, trash.actions
    orphans = plan_orphans([table], runner, clock_millis=now)
    return orphans, orphans.actions


def by_gain(jobs: Iterable[Job]) -> list[Job]:
    """Return jobs in the order of their execution."""
    return sorted(jobs, key=lambda j: (-j.gain, j.table.name, j.measure))


def left_over(findings: Iterable[Finding], allowed: Collection[Measure]) -> Iterator[Outcome]:
    """Yield the findings that maintenance does not fix."""
    for f in findings:
        measure = MEASURES.get(f.code)
        if f.remedy is None:
            reason = "no statement fixes it"
        elif measure is None:
            reason = "not done by itself: decide, and run the statement"
        elif measure not in allowed:
            reason = f"'{measure}' is not among the actions"
        else:
            continue
        yield Outcome(table=f.table, findings=f.code, statement=f.remedy, status=Status.LEFT, reason=reason)


def run_job(job: Job, runner: TaskRunner, clock: Callable[[], int], deadline: int | None) -> Outcome:
    """Execute a job, unless the time is over; a compaction stops after the group during which it is over.

    Args:
        job: the job.
        runner: runs the tasks.
        clock: returns the current epoch milliseconds.
        deadline: when the time is over; None for no limit.

    Raises:
        StatementCancelledError: the statement was cancelled. Other errors are in the outcome.
    """
    started = clock()
    outcome = Outcome(
        table=job.table.name,
        findings=", ".join(sorted({f.code for f in job.findings})),
        statement=job.statement,
        status=Status.NOTHING,
    )
    if job.error is not None:
        return replace(outcome, status=Status.FAILED, reason=job.error)
    if deadline is not None and started >= deadline:
        return replace(outcome, status=Status.LEFT, reason="the budget is used up")
    try:
        outcome = _executed(job, outcome, runner, clock, deadline)
    except StatementCancelledError:
        raise
    except PaimonError as e:
        outcome = replace(outcome, status=Status.FAILED, reason=str(e), changed=True)
    return replace(outcome, duration_ms=max(clock() - started, 0))


def _executed(
    job: Job, outcome: Outcome, runner: TaskRunner, clock: Callable[[], int], deadline: int | None
) -> Outcome:
    work = job.work
    if isinstance(work, CompactionPlan):
        return _compacted(work, outcome, runner, clock, deadline)
    if not job.actions or work is None:
        return outcome
    if isinstance(work, CompactManifestPlan):
        done = execute_compact_manifest(work) is not None
        sizes = sum(m.file_size for m in work.merged)
        outcome = replace(outcome, files_in=len(work.merged), files_out=work.files_out, bytes_in=sizes)
        return replace(outcome, status=Status.DONE if done else Status.NOTHING, changed=done)
    if isinstance(work, ExpirePlan):
        expired = execute_expire(job.table, work)
        files, size = expired.files, expired.bytes
    elif isinstance(work, DeleteTagsPlan):
        tags = execute_delete_tags(job.table, work)
        files, size = tags.files, tags.bytes
    elif isinstance(work, EmptyTrashPlan):
        emptied = execute_empty(job.table, work)
        files, size = sum(r.files for r in emptied), sum(r.bytes for r in emptied)
    else:
        orphans = _removed_orphans(work, job.table, clock)
        files, size = orphans.files, orphans.bytes
    status = Status.DONE if files else Status.NOTHING
    return replace(outcome, status=status, files_in=files, bytes_in=size, changed=bool(files))


def _removed_orphans(plan: OrphanPlan, table: Table, clock: Callable[[], int]) -> OrphanResult:
    """Remove orphans as the procedure does: to the trash, unless its retention is 0."""
    request = TrashRequest(
        procedure=Measure.REMOVE_ORPHAN_FILES,
        wanted=None,
        default=True,
        clock_millis=clock(),
        arguments={"table": table.identifier.full_name},
    )
    with TrashRuns(request) as runs:
        return execute_orphans(plan, runs.open)


def _compacted(
    plan: CompactionPlan, outcome: Outcome, runner: TaskRunner, clock: Callable[[], int], deadline: int | None
) -> Outcome:
    """Compact group by group until the time is over; each group is a commit."""
    for number, group in enumerate(plan.groups):
        if deadline is not None and number and clock() >= deadline:
            left = len(plan.groups) - number
            return replace(
                outcome, status=Status.PARTLY, reason=f"the budget is used up: {left} of {len(plan.groups)} groups left"
            )
        total = execute_compaction(replace(plan, groups=(group,)), runner).total
        outcome = replace(
            outcome,
            status=Status.DONE,
            files_in=outcome.files_in + total.files_in,
            files_out=outcome.files_out + total.files_out,
            bytes_in=outcome.bytes_in + total.bytes_in,
            bytes_out=outcome.bytes_out + total.bytes_out,
            changed=True,
        )
    return outcome

"""Compaction of many tables, one by one or with all tasks in one job. A failure affects only its own table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from paimon_spark.core.cancellation import checkpoint
from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.commit_message import CommitMessage, messages_from_json
from paimon_spark.core.maintenance.abandoned_files import clean_up_abandoned
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import (
    ATTEMPTS,
    CompactGroup,
    CompactionPlan,
    CompactionResult,
    GroupResult,
    Progress,
    Sorting,
    commit_group,
    execute_again,
    execute_compaction,
)
from paimon_spark.engine.runner import TaskRunner
from paimon_spark.engine.tasks import TaskOutcome, compact_work, task_payload
from paimon_spark.errors import ConflictError, PaimonError, StatementCancelledError

Planner = Callable[[], CompactionPlan]
Preparation = Callable[[], Sequence[GroupResult]]
"""Changes a table before its compaction is planned again: distributes postponed rows."""


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The plan of one table, a function to replan, or the planning error."""

    name: str
    plan: CompactionPlan | None = None
    again: Planner | None = None
    error: str | None = None
    preparation: Preparation | None = None
    prepared: tuple[GroupResult, ...] = ()
    """What the preparation has done."""

    @classmethod
    def of(cls, name: str, planner: Planner, preparation: Preparation | None = None) -> TablePlan:
        """Plan one table; a failure is recorded in the plan."""
        try:
            return cls(name, planner(), planner, preparation=preparation)
        except StatementCancelledError:
            raise
        except (PaimonError, OSError) as e:
            return cls(name, error=str(e))

    def ready(self) -> TablePlan:
        """Return the plan after the preparation, replanned if the table has a new snapshot.

        A failure is recorded in the plan.
        """
        if self.plan is None:
            return self
        done: tuple[GroupResult, ...] = ()
        try:
            if self.preparation is not None:
                done = tuple(self.preparation())
            current = self.current()
            return replace(self, plan=current and current.after(done), preparation=None, prepared=done)
        except StatementCancelledError:
            raise
        except Exception as e:  # noqa: BLE001 - includes errors of the runner's engine; the other tables continue
            return replace(self, plan=None, error=_words(e), prepared=done)

    def current(self) -> CompactionPlan | None:
        """Return the plan, replanned if the table has a new snapshot."""
        if self.plan is None or self.again is None:
            return None
        moved = self.plan.table.snapshots.latest_id() != self.plan.snapshot_id
        return self.again() if moved else self.plan


@dataclass(frozen=True, slots=True)
class TableResult:
    """The result of one table: a result, an error text, or both if some groups were committed before the error."""

    name: str
    result: CompactionResult | None = None
    error: str | None = None


def compact_divided(
    plans: Sequence[TablePlan], runner: TaskRunner, progress: Progress, *, sorting: Sorting | None = None
) -> list[TableResult]:
    """Compact one table after the other; `sorting` is that of `execute_compaction`.

    Raises:
        StatementCancelledError: the statement was cancelled; finished tables stay compacted.
    """
    results: list[TableResult] = []
    total = sum(len(p.plan.tasks) for p in plans if p.plan is not None)
    before = 0
    for work in plans:
        checkpoint()
        results.append(_one(work, runner, _shifted(progress, before, total), sorting))
        before += len(work.plan.tasks) if work.plan is not None else 0
    return results


def _shifted(progress: Progress, start: int, total: int) -> Progress:
    def report(done: int, _: int) -> None:
        progress(start + done, total)

    return report


def _one(given: TablePlan, runner: TaskRunner, progress: Progress, sorting: Sorting | None) -> TableResult:
    work = given.ready()
    try:
        if work.plan is None:
            return TableResult(work.name, error=work.error)
        done = execute_compaction(work.plan, runner, progress, attempts=ATTEMPTS, sorting=sorting)
        if work.prepared:
            done = CompactionResult.of(work.plan, [*work.prepared, *done.groups])
        return TableResult(work.name, done)
    except StatementCancelledError:
        raise
    except Exception as e:  # noqa: BLE001 - includes errors of the runner's engine; the other tables continue
        return TableResult(work.name, error=_words(e))


@dataclass(slots=True)
class _Group:
    """A running group of one table: `table` has the group's write token, `left` counts its remaining units."""

    owner: int
    plan: CompactionPlan
    group: CompactGroup
    table: Table
    left: int
    messages: list[CommitMessage] = field(default_factory=list)
    error: str | None = None
    result: GroupResult | None = None
    conflicted: bool = False
    """Whether another commit replaced files of the group before its own commit."""


def compact_combined(plans: Sequence[TablePlan], runner: TaskRunner, progress: Progress) -> list[TableResult]:
    """Compact all tables in one job; a group is committed when its last task has ended.

    Raises:
        StatementCancelledError: the statement was cancelled; committed groups are kept.
    """
    current = [p.ready() for p in plans]
    groups = [
        _Group(n, found.plan, g, found.plan.table.with_write_token(), len(g.tasks))
        for n, found in enumerate(current)
        if found.plan is not None
        for g in found.plan.groups
    ]
    try:
        failure = _run(groups, runner, progress)
        for group in groups:
            if group.conflicted:
                _repeat(group, runner)
    finally:
        _clean_up(groups)
    return [_result(found, [g for g in groups if g.owner == n], failure) for n, found in enumerate(current)]


def _run(groups: Sequence[_Group], runner: TaskRunner, progress: Progress) -> str | None:
    """Run all tasks and commit their groups; return the error text if the job as a whole failed."""
    units = [(number, group.table, task) for number, group in enumerate(groups) for task in group.group.tasks]
    payloads = [task_payload(together) for together in runner.group_tasks(units, lambda unit: compact_work(unit[2]))]
    tables = len({g.owner for g in groups})
    done = 0
    try:
        description = f"compact {tables} tables: {len(payloads)} tasks"
        for result in runner.run("compact_guarded", payloads, description=description):
            for answer in TaskOutcome.all_of(result):
                _take(groups[answer.number], answer)
                done += answer.units
                progress(done, len(units))
                checkpoint()
    except StatementCancelledError:
        raise
    except Exception as e:  # noqa: BLE001 - errors of the runner's engine; committed groups are kept
        return _words(e)
    return None


def _take(group: _Group, answer: TaskOutcome) -> None:
    group.left -= answer.units
    group.error = group.error or answer.error
    if answer.error is None:
        group.messages += messages_from_json(answer.answer)
    if group.left or group.error is not None:
        return
    try:
        group.result = commit_group(group.plan, group.group, group.messages)
    except StatementCancelledError:
        raise
    except ConflictError as e:
        group.conflicted, group.error = e.repeatable, _words(e)
    except (PaimonError, OSError) as e:
        group.error = _words(e)


def _repeat(group: _Group, runner: TaskRunner) -> None:
    """Compact the buckets of a group again that lost a race."""
    checkpoint()
    try:
        group.result = execute_again(group.plan, group.group, runner).total
    except StatementCancelledError:
        raise
    except Exception as e:  # noqa: BLE001 - includes errors of the runner's engine; the other tables continue
        group.error = _words(e)


def _clean_up(groups: Sequence[_Group]) -> None:
    """Delete the files of groups that were not committed; a failed commit deletes its own."""
    for group in groups:
        if group.result is None and (group.left or len(group.messages) < len(group.group.tasks)):
            FileStoreCommit(group.plan.table).abort(group.messages)
            clean_up_abandoned(group.table)


def _result(work: TablePlan, groups: Sequence[_Group], failure: str | None) -> TableResult:
    if work.plan is None:
        return TableResult(work.name, error=work.error)
    done = [*work.prepared, *(g.result for g in groups if g.result is not None)]
    errors = [g.error or failure or "Its tasks did not end." for g in groups if g.result is None]
    return TableResult(work.name, CompactionResult.of(work.plan, done), errors[0] if errors else None)


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, PaimonError) else f"{type(error).__name__}: {str(error).splitlines()[0]}"

"""The trash of a table as procedures use it: opening a run, listing runs, and emptying the trash."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

from paimon_spark.core.maintenance.deletion import DELETE, Action
from paimon_spark.core.maintenance.trash import (
    MalformedRun,
    TrashKind,
    TrashPaths,
    TrashRecord,
    TrashRun,
    all_runs,
    delete_run,
    find_run,
    new_record,
    runs,
    size_of,
    unfinished_removal,
    unfinished_rollback,
)
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.errors import ArgumentError, ErrorKind, NotFoundError

LAST = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashRequest:
    """What a procedure asks of the trash.

    Attributes:
        procedure: its name.
        wanted: its argument `trash`; None if it was not given.
        default: what applies then, unless the retention is 0.
        clock_millis: the current time.
        arguments: its other arguments, for the record.
        kind: what an undo has to do.
    """

    procedure: str
    wanted: bool | None
    default: bool
    clock_millis: int
    arguments: Mapping[str, Any]
    kind: TrashKind = TrashKind.REMOVAL


def open_run(
    table: Table, request: TrashRequest, *, target: int | None = None, remains: Collection[str] = ()
) -> TrashRun | None:
    """Return a run for what a procedure removes, or None if that is deleted for good; nothing is written yet.

    Args:
        table: the table.
        request: what the procedure asks for.
        target: the target of a rollback; an interrupted rollback to it is continued in its run.
        remains: directories of which an interrupted run of the procedure has files; it takes the rest, so that an undo
            has all of them.

    Raises:
        ArgumentError: the trash is wanted, but its retention is 0.
    """
    keeps = table.options.trash_retention_ms > 0
    if request.wanted and not keeps:
        raise ArgumentError(
            f"trash is true, but the option 'trash.retention' of table {table.name} is 0, which turns the trash off.",
            hint="Set the option to a duration such as '7 d', or give trash => false.",
        )
    if not (request.default and keeps if request.wanted is None else request.wanted):
        return None
    if target is not None and table.snapshots.rollback_target() == target:
        found = unfinished_rollback(table, target)
        if found is not None:
            return found
    joined = unfinished_removal(table, request.procedure, remains)
    if joined is not None:
        return joined
    record = new_record(
        table,
        request.procedure,
        clock_millis=request.clock_millis,
        arguments=request.arguments,
        kind=request.kind,
    )
    return TrashRun(table, record)


class TrashRuns:
    """The runs of a removal from several tables, as a context: they end with it, also if it fails."""

    def __init__(self, request: TrashRequest) -> None:
        self._request = request
        self._opened: list[TrashRun] = []

    def open(self, table: Table) -> TrashRun | None:
        """Return a new run for what is removed from a table, or None if that is deleted for good."""
        run = open_run(table, self._request)
        if run is not None:
            self._opened.append(run)
        return run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        for run in self._opened:
            if failed is None:
                run.finish(self._request.clock_millis)
            else:
                run.settle()


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run of the trash with its size, and the epoch time at which its retention ends."""

    record: TrashRecord
    files: int
    bytes: int
    expires_millis: int


@translate_io_errors()
def list_runs(table: Table) -> list[ListedRun | MalformedRun]:
    """Return the runs in the trash of a table, newest first. The files of an unfinished run are counted."""
    return [r if isinstance(r, MalformedRun) else _listed(table, r) for r in all_runs(table)]


def _listed(table: Table, record: TrashRecord) -> ListedRun:
    files, size = record.files, record.bytes
    if files is None or size is None:
        files, size = size_of(table, record.run)
    return ListedRun(record, files, size, record.time_millis + table.options.trash_retention_ms)


@translate_io_errors()
def get_run(table: Table, run: str) -> TrashRecord:
    """Return a run of the trash of a table; `LAST` is the newest.

    Raises:
        NotFoundError: there is no such run.
        CorruptTableError: its record is malformed.
    """
    found = next(iter(all_runs(table)), None) if run == LAST else find_run(table, run)
    if isinstance(found, MalformedRun):
        raise found.error
    if found is None:
        known = [r.run for r in all_runs(table)]
        listed = f"it has {', '.join(known[:5])}{' …' if len(known) > 5 else ''}" if known else "it is empty"
        raise NotFoundError(
            f"The trash of table {table.name} has no run '{run}'; {listed}.",
            hint=f"CALL sys.trash('{table.name}') lists the runs.",
            kind=ErrorKind.RUN_NOT_FOUND,
        )
    return found


@dataclass(frozen=True, slots=True)
class EmptyTrashPlan:
    """The runs to delete for good; `named` if the caller has named the run."""

    runs: tuple[ListedRun, ...] = ()
    actions: tuple[Action, ...] = ()
    named: bool = False


@translate_io_errors()
def plan_empty(table: Table, clock_millis: int, *, run: str | None, older_than: int | None) -> EmptyTrashPlan:
    """Plan the deletion of runs; nothing is changed.

    Args:
        table: the table.
        clock_millis: the current time.
        run: the only run to delete.
        older_than: delete the runs from before this time; by default those whose retention has ended. One whose undo
            was interrupted stays: the next undo completes it. One whose deletion was interrupted goes.

    Raises:
        ArgumentError: both a run and a time are given.
        NotFoundError: there is no such run.
    """
    if run is not None and older_than is not None:
        raise ArgumentError("Both run and older_than are given.", hint="Give one of them.")
    if run is not None:
        going = [_listed(table, get_run(table, run))]
    else:
        bound = clock_millis - table.options.trash_retention_ms if older_than is None else older_than
        going = [_listed(table, record) for record in runs(table) if record.may_go(bound)]
    paths = TrashPaths(table)
    actions = tuple(
        Action(DELETE, paths.run(r.record.run), r.bytes, f"{r.files} files of {r.record.procedure}") for r in going
    )
    return EmptyTrashPlan(tuple(going), actions, named=run is not None)


@translate_io_errors()
def execute_empty(table: Table, plan: EmptyTrashPlan) -> tuple[ListedRun, ...]:
    """Delete the runs of a plan, and return those that were there.

    A run whose undo has begun since the plan stays unless it was named. An interrupted deletion is completed by the
    next one.
    """
    return tuple(r for r in plan.runs if delete_run(table, r.record.run, even_undoing=plan.named))

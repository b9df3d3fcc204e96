"""Procedures over the trash of a table: trash, undo and empty_trash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.named_tables import named_tables
from paimon_spark.calls.parameters import TABLE, TABLE_NAME, TABLES
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.procedure import Column, Param, ParamType, PositionalOverload, procedure
from paimon_spark.calls.report import DONE, NOTHING_TO_DO, Report
from paimon_spark.core.maintenance.trash import MalformedRun, find_run
from paimon_spark.core.table import Table
from paimon_spark.engine.trash import LAST, EmptyTrashPlan, ListedRun, execute_empty, get_run, list_runs, plan_empty
from paimon_spark.engine.undo import UndoPlan, execute_undo, plan_undo
from paimon_spark.errors import ArgumentError, ErrorKind, NotFoundError, PaimonError
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.quoted_text import sql_value
from paimon_spark.spec.rows import Timestamp

_Listed = tuple[str, ListedRun | MalformedRun | PaimonError]
"""The name of a table, and a run of its trash, or why the table cannot be read."""
_RUN = "The run, as `sys.trash` lists it; `last` is the newest run of the table."


@procedure(
    name="trash",
    summary="List what procedures have moved to the trash.",
    params=(TABLES,),
    columns=(
        TABLE_NAME,
        Column("run", "string", "name of the run, for `sys.undo` and `sys.empty_trash`"),
        Column("time", "timestamp", "when the run began"),
        Column("procedure", "string", "the procedure"),
        Column("arguments", "string", "its arguments"),
        Column("user", "string", "user of the operating system that ran it"),
        Column(
            "state",
            "string",
            "`done`; `open` while the procedure runs or if it was interrupted; `malformed: …` if the record of the run "
            "or the table cannot be read",
            nullable=False,
        ),
        Column("files", "bigint", "number of files"),
        Column("bytes", "bigint", "their size"),
        Column("expires_at", "timestamp", "when the retention ends"),
    ),
    example="CALL sys.trash('default.T');",
    read_only=True,
)
class Trash:
    """List the runs in the trash of a table and its branches, newest first.

    Procedures that remove files move them to `.trash/<run>/files` below the table, each with its path relative to the
    table, if their argument `trash` says so; `run.json` beside it describes the run. The option `trash.retention` says
    how long a run is kept. Runs whose retention has ended are deleted when the next procedure has moved files to the
    trash of the same table, or by `empty_trash`. `undo` restores a run.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[list[_Listed]]:
        """List the runs."""
        found: list[_Listed] = []
        for name, table in named_tables(ctx, args.text("table")):
            if isinstance(table, PaimonError):
                found.append((name, table))
                continue
            try:
                found += [(table.identifier.data_table.full_name, run) for run in list_runs(table)]
            except PaimonError as e:
                found.append((name, e))
        return Plan((), found)

    def execute(self, ctx: CallContext, plan: Plan[list[_Listed]]) -> Report:
        """Return the rows."""
        return Report(result_rows=[_row(name, run) for name, run in plan.payload])


def _row(name: str, listed: ListedRun | MalformedRun | PaimonError) -> tuple[Any, ...]:
    if isinstance(listed, PaimonError):
        return (name, *(None,) * 5, f"malformed: {listed.message}", *(None,) * 3)
    if isinstance(listed, MalformedRun):
        time = Timestamp(listed.time_millis)
        return (name, listed.run, time, *(None,) * 3, f"malformed: {listed.error.message}", *(None,) * 3)
    record = listed.record
    return (
        name,
        record.run,
        Timestamp(record.time_millis),
        record.procedure,
        ", ".join(f"{name} => {sql_value(value)}" for name, value in record.arguments.items()),
        record.user,
        str(record.state),
        listed.files,
        listed.bytes,
        Timestamp(listed.expires_millis),
    )


@dataclass(frozen=True, slots=True)
class _Undo:
    table: Table
    latest_id: int | None
    plan: UndoPlan


@procedure(
    name="undo",
    summary="Restore what a procedure has moved to the trash.",
    params=(
        Param("table", ParamType.STRING, "The table.", default="the table of the catalog that has the run"),
        Param("run", ParamType.STRING, _RUN, required=True),
    ),
    columns=(
        Column("restored_files", "bigint", "number of restored files", nullable=False),
        Column("restored_snapshots", "int", "number of restored snapshots", nullable=False),
        Column("restored_changelogs", "int", "number of restored long-lived changelogs", nullable=False),
        Column("restored_tags", "int", "number of restored tags", nullable=False),
        Column("restored_branches", "int", "number of restored branches", nullable=False),
    ),
    forms=(PositionalOverload(("run",), doc="the run alone"),),
    example="CALL sys.undo('default.T', '20240514-100000-0a1b2c3d');",
)
class Undo:
    """Restore the files of a run, then the snapshots, changelogs, tags, consumers and branches; the run is deleted.

    The undo of a rollback brings the removed snapshots back; the undo of a purge also removes the snapshots of the
    purge. The CALL fails with `UNDO_IMPOSSIBLE` and changes nothing if a snapshot id, a tag or a branch of the run is
    used again, or if files that its snapshots need are in another run or were deleted. `dry_run => true` checks the
    same. An interrupted undo is completed by the next CALL. Do not undo a rollback while the table is being written.
    If files were removed from the trash by other programs, the others come back, and the status states the number.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Undo]:
        """Find the run and check it."""
        run, name = args.text("run"), args.optional_text("table")
        table = _table_of(ctx, run) if name is None else ctx.table(name)
        plan = plan_undo(table, get_run(table, run))
        return Plan(plan.actions, _Undo(plan.table, plan.table.snapshots.latest_id(), plan))

    def execute(self, ctx: CallContext, plan: Plan[_Undo]) -> Report:
        """Restore the run."""
        work = plan.payload
        done = execute_undo(work.plan)
        return Report(
            result_rows=[(done.files, done.snapshots, done.changelogs, done.tags, done.branches)],
            status=f"{DONE}: {work.plan.lost}" if work.plan.lost else DONE,
            snapshot_before=work.latest_id,
            snapshot_after=work.table.snapshots.latest_id(),
            files_out=done.files,
            bytes_out=done.bytes,
            changed_tables=(work.table.name,),
        )


def _table_of(ctx: CallContext, run: str) -> Table:
    """Return the table that has a run, looked for in the current database first."""
    if run == LAST:
        raise ArgumentError(f"The run '{LAST}' is the newest of one table.", hint="Name the table.")
    databases = ctx.catalog.list_databases()
    for database in sorted(databases, key=lambda d: (d != ctx.current_database, d)):
        for name in ctx.catalog.list_tables(database):
            try:
                table = ctx.load(Identifier(database, name))
            except PaimonError:
                continue  # another table may have it
            if table.is_file_store and find_run(table, run) is not None:
                return table
    table_hint = f"'{run}' is a table. Write CALL sys.undo({sql_value(run)}, '{LAST}') for its newest run."
    raise NotFoundError(
        f"No table of the catalog '{ctx.catalog_name}' has a run '{run}' in its trash.",
        hint=table_hint if _is_table(ctx, run) else "CALL sys.trash('db.*') lists the runs of a database.",
        kind=ErrorKind.RUN_NOT_FOUND,
    )


def _is_table(ctx: CallContext, text: str) -> bool:
    try:
        ctx.table(text)
    except PaimonError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Emptying:
    table: Table
    latest_id: int | None
    plan: EmptyTrashPlan


@procedure(
    name="empty_trash",
    summary="Delete runs of the trash for good.",
    params=(
        TABLE,
        Param("run", ParamType.STRING, f"{_RUN} Not together with `older_than`."),
        Param(
            "older_than",
            ParamType.STRING,
            "Delete the runs that began before this time (`2024-05-14 10:00:00`, session time zone).",
            default="now minus table option `trash.retention`",
        ),
    ),
    columns=(Column("deleted_runs", "int", "number of deleted runs", nullable=False),),
    example="CALL sys.empty_trash('default.T');",
)
class EmptyTrash:
    """Delete the runs whose retention has ended, those from before a time, or one run. They cannot be restored.

    A run whose undo was interrupted is deleted only by its name: `undo` completes it. One whose deletion was
    interrupted is deleted in any case.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Emptying]:
        """Select the runs."""
        table, millis = ctx.table(args.text("table")), args.millis("older_than", ctx.zone)
        plan = plan_empty(table, ctx.clock_millis(), run=args.optional_text("run"), older_than=millis)
        return Plan(plan.actions, _Emptying(table, table.snapshots.latest_id(), plan))

    def execute(self, ctx: CallContext, plan: Plan[_Emptying]) -> Report:
        """Delete them."""
        work = plan.payload
        deleted = execute_empty(work.table, work.plan)
        return Report(
            result_rows=[(len(deleted),)],
            status=DONE if deleted else NOTHING_TO_DO,
            snapshot_before=work.latest_id,
            snapshot_after=work.latest_id,
            files_in=sum(r.files for r in deleted),
            bytes_in=sum(r.bytes for r in deleted),
        )

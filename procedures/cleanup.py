"""Procedures that delete files: remove_orphan_files and purge_files."""

from __future__ import annotations

import os
from dataclasses import dataclass

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.parameters import SUCCESS, TABLE, TABLES
from paimon_spark.calls.plan import MOST_LISTED, Plan
from paimon_spark.calls.procedure import Column, Param, ParamType, procedure
from paimon_spark.calls.report import DONE, DRY_RUN, NOTHING_TO_DO, Report
from paimon_spark.calls.trash import finish_run, trash_param, trash_request
from paimon_spark.core.maintenance.deletion import WARN, Action
from paimon_spark.core.maintenance.trash import TrashKind, TrashRun
from paimon_spark.core.table import Table
from paimon_spark.engine.expiry.orphans import OrphanPlan, execute_orphans, plan_orphans
from paimon_spark.engine.expiry.purge import PurgePlan, execute_purge, plan_purge
from paimon_spark.engine.health.findings import counted
from paimon_spark.engine.runner import LocalRunner, TaskRunner
from paimon_spark.engine.trash import TrashRequest, TrashRuns, open_run
from paimon_spark.errors import ArgumentError
from paimon_spark.spec.identifier import Identifier

_LEFT_OUT = "is left out: it has snapshots or manifests, but no schema"
_MODES = ("DISTRIBUTED", "LOCAL")


@dataclass(frozen=True, slots=True)
class _Cleaning:
    plan: OrphanPlan
    latest_id: int | None
    dry_run: bool
    trash: TrashRequest
    left_out: tuple[Action, ...] = ()

    def status(self, state: str) -> str:
        """Return the status, with the directories that are left out."""
        if not self.left_out:
            return state
        count = counted(len(self.left_out), "directory", "directories")
        return f"{state}: {count} without a schema left out, such as {self.left_out[0].path}"


@procedure(
    name="remove_orphan_files",
    summary="Delete old files that no snapshot, tag or branch references.",
    params=(
        TABLES,
        Param(
            "older_than",
            ParamType.STRING,
            "Delete only files modified before this time (`2024-05-14 10:00:00`, session time zone). It must be "
            "earlier than the start of every job that is writing to the table.",
            default="one day ago",
        ),
        Param(
            "dry_run",
            ParamType.BOOLEAN,
            f"Delete nothing and return the paths that would be deleted, at most {MOST_LISTED}; the status is "
            "`dry run`.",
            default="false",
        ),
        Param(
            "parallelism",
            ParamType.INT,
            "Number of tasks that list directories.",
            default="one task per 16 directories, or 10,000 of a local disk, at most 200; with `LOCAL`, the number of "
            "processors",
        ),
        Param(
            "mode",
            ParamType.STRING,
            "`DISTRIBUTED` lists directories as a Spark job, unless one task lists all of a local disk; `LOCAL` in "
            "threads of the driver.",
            default="DISTRIBUTED",
        ),
        trash_param(default=True),
    ),
    columns=(
        Column("deletedFileCount", "bigint", "number of files deleted, or to be deleted"),
        Column("deletedFileTotalLenInBytes", "bigint", "size of these files in bytes"),
        Column("path", "string", "with `dry_run`, one row per file that would be deleted; otherwise null"),
    ),
    example="CALL remove_orphan_files('default.T', '2023-10-31 12:00:00');",
)
class RemoveOrphanFiles:
    """Delete files left by crashed jobs, rollbacks and dropped branches, and directories that are then empty.

    Files that a snapshot, tag or long-lived changelog of the table or of any of its branches references are kept, and
    so are those that an undo of a rollback or of `delete_branch` needs, as long as its run is in the trash. The
    references are checked again right before the deletion. If any of this metadata cannot be read, or the newest
    snapshot is missing although the hint `LATEST` names it, nothing is deleted. Only manifests, index
    files, statistics, bucket directories and stray files beside snapshots are examined. Files in other directories,
    schemas, consumers and the targets of links are never deleted. Files of running jobs are protected only by their
    age: `older_than` must be earlier than the start of the oldest running job.

    Of `db.*`, directories with snapshots or manifests but without a schema are left out; the status says so.

    The files go to the trash, from where `undo` restores them. On an object store that takes about five requests a
    file; `trash => false` takes one.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Cleaning]:
        """List the directories and collect the referenced files."""
        parallelism = args.integer("parallelism")
        runner = _runner(ctx, args.choice("mode", _MODES, _MODES[0]), parallelism)
        millis = args.millis("older_than", ctx.zone)
        tables, left_out = _tables(ctx, args.text("table"))
        plan = plan_orphans(tables, runner, clock_millis=ctx.clock_millis(), older_than=millis, parallelism=parallelism)
        latest_id = tables[0].snapshots.latest_id() if len(tables) == 1 else None
        trash = trash_request(ctx, args, "remove_orphan_files", default=True)
        for table in tables:
            open_run(table, trash)
        work = _Cleaning(plan, latest_id, args.flag("dry_run"), trash, left_out)
        return Plan((*left_out, *plan.actions), work)

    def execute(self, ctx: CallContext, plan: Plan[_Cleaning]) -> Report:
        """Delete the files, or only list them in a dry run."""
        work = plan.payload
        if work.dry_run:
            return _dry_run(work)
        with TrashRuns(work.trash) as runs:
            done = execute_orphans(work.plan, runs.open)
        return Report(
            result_rows=[(done.files, done.bytes, None)],
            status=work.status(DONE if done.files or work.plan.actions else NOTHING_TO_DO),
            snapshot_before=work.latest_id,
            snapshot_after=work.latest_id,
            files_in=done.files,
            bytes_in=done.bytes,
        )


@dataclass(frozen=True, slots=True)
class _Purge:
    plan: PurgePlan
    trash: TrashRun | None


@procedure(
    name="purge_files",
    summary="Empty a table, and delete all its files, snapshots, tags, branches and consumers.",
    params=(
        TABLE,
        trash_param(default=True),
    ),
    columns=(SUCCESS,),
    example="CALL sys.purge_files('default.T');",
)
class PurgeFiles:
    """Delete everything but the schemas: branches, tags, consumers, all rows, all history, and all files of these.

    What remains is one snapshot without rows. The files go to the trash, from where `undo` restores the table; with
    `trash => false` they are deleted for good. Files of running writers are removed too: stop them before. Files in
    directories outside of Paimon's layout are kept. An interrupted purge is completed by the next one.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Purge]:
        """List all files."""
        plan = plan_purge(ctx.table(args.text("table")), ctx.runner, ctx.clock_millis())
        request = trash_request(ctx, args, "purge_files", default=True, kind=TrashKind.PURGE)
        return Plan(plan.actions, _Purge(plan, open_run(plan.table, request)))

    def execute(self, ctx: CallContext, plan: Plan[_Purge]) -> Report:
        """Delete them."""
        work = plan.payload
        table = work.plan.table
        before = table.snapshots.latest_id()
        done = execute_purge(work.plan, ctx.runner, work.trash)
        finish_run(ctx, work.trash)
        return Report(
            result_rows=[("Success",)],
            status=DONE if plan.actions else NOTHING_TO_DO,
            snapshot_before=before,
            snapshot_after=done.snapshot_id or before,
            files_in=done.files,
            bytes_in=done.bytes,
            changed_tables=(table.name,) if plan.actions else (),
        )


def _dry_run(work: _Cleaning) -> Report:
    files = work.plan.files
    count, size = len(files), sum(a.bytes for a in files)
    paths: list[str | None] = [a.path for a in files[:MOST_LISTED]]
    left = f", which lists {MOST_LISTED} of {count} files" if count > MOST_LISTED else ""
    return Report(
        result_rows=[(count, size, path) for path in paths or [None]],
        status=work.status(DRY_RUN + left),
        snapshot_before=work.latest_id,
        snapshot_after=work.latest_id,
    )


def _runner(ctx: CallContext, mode: str, parallelism: int | None) -> TaskRunner:
    return ctx.runner if mode == _MODES[0] else LocalRunner(parallelism or os.cpu_count() or 1)


def _tables(ctx: CallContext, text: str) -> tuple[list[Table], tuple[Action, ...]]:
    """Return the tables, and the directories of a database that are left out."""
    database = ctx.whole_database(text)
    if database is not None:
        directories = ctx.catalog.list_directories(database)
        broken = (Identifier(database, name) for name in directories.without_schema)
        left_out = tuple(Action(WARN, ctx.catalog.table_path(name), 0, _LEFT_OUT) for name in broken)
        tables = (ctx.load(Identifier(database, name)) for name in directories.tables)
        return [table for table in tables if table.is_file_store], left_out
    identifier = ctx.identifier(text)
    if identifier.branch is not None:
        raise ArgumentError(
            f"The argument 'table' names a branch: '{text}'. Branches share their files.",
            hint=f"All branches are cleaned together: name the table itself, '{identifier.base.full_name}'.",
        )
    return [ctx.load(identifier)], ()

"""Procedures for branches: create_branch, delete_branch, rename_branch, fast_forward, merge_branch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.parameters import RESULT, TABLE
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.procedure import Param, ParamType, PositionalOverload, procedure
from paimon_spark.calls.report import DONE, NOTHING_TO_DO, Report
from paimon_spark.calls.trash import finish_run, trash_param, trash_request
from paimon_spark.core.maintenance.trash import TrashRun
from paimon_spark.core.metadata.branches import branch_schemas
from paimon_spark.core.table import Table
from paimon_spark.engine.refs.branches import (
    CreateBranchPlan,
    DeleteBranchesPlan,
    RenameBranchPlan,
    execute_create_branch,
    execute_delete_branches,
    execute_rename_branch,
    plan_create_branch,
    plan_delete_branches,
    plan_rename_branch,
)
from paimon_spark.engine.refs.fast_forward import FastForwardPlan, execute_fast_forward, plan_fast_forward
from paimon_spark.engine.refs.merge_branch import MergeBranchPlan, execute_merge_branch, plan_merge_branch
from paimon_spark.engine.trash import open_run
from paimon_spark.spec.paths import MAIN_BRANCH


def _branch_table(table: Table, name: str) -> str:
    """Return the full name of a table on a branch."""
    return replace(table.identifier, branch=None if name == MAIN_BRANCH else name).full_name


@dataclass(frozen=True, slots=True)
class _Creation:
    table: Table
    latest_id: int | None
    plan: CreateBranchPlan


@procedure(
    name="create_branch",
    summary="Create a branch of a table: at a tag, at a snapshot, or empty.",
    params=(
        TABLE,
        Param("branch", ParamType.STRING, "Name of the new branch.", required=True, aliases=("branch_name",)),
        Param(
            "tag",
            ParamType.STRING,
            "The tag that the branch starts from.",
            default="the branch is empty",
            aliases=("tag_name",),
        ),
        Param(
            "ignoreIfExists",
            ParamType.BOOLEAN,
            "Accept an existing branch of that name.",
            default="false",
            aliases=("ignore_if_exists",),
        ),
        Param(
            "snapshot_id",
            ParamType.BIGINT,
            "The snapshot that the branch starts from, instead of a tag.",
            aliases=("snapshot",),
        ),
    ),
    columns=(RESULT,),
    forms=(
        PositionalOverload(("table", "branch", "tag"), doc="a string in third position is the tag"),
        PositionalOverload(
            ("table", "branch", "ignoreIfExists"), doc="a boolean in third position accepts an existing branch"
        ),
    ),
    example="CALL sys.create_branch('default.T', 'test', 'my_tag');",
)
class CreateBranch:
    """Create a branch, which is read and written as `t$branch_b`. It shares the data files of the table.

    A branch without a tag or snapshot is empty and has the table's schemas. A branch protects its files from expiry and
    from `remove_orphan_files`, as snapshots and tags do. Apache Paimon's own expiry protects only the files of tags:
    where it also maintains the table, start the branch from a tag and keep that tag.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Creation]:
        """Find the start of the branch and the files to write."""
        table = ctx.table(args.text("table"))
        plan = plan_create_branch(
            table,
            args.text("branch"),
            tag=args.optional_text("tag"),
            snapshot_id=args.integer("snapshot_id"),
            if_not_exists=args.flag("ignoreIfExists"),
        )
        return Plan(plan.actions, _Creation(table, table.snapshots.latest_id(), plan))

    def execute(self, ctx: CallContext, plan: Plan[_Creation]) -> Report:
        """Write the files."""
        work = plan.payload
        created = execute_create_branch(work.table, work.plan)
        return Report(
            result_rows=[(True,)],
            status=DONE if created else NOTHING_TO_DO,
            snapshot_before=work.latest_id,
            snapshot_after=work.latest_id,
            files_out=len(plan.actions),
            bytes_out=sum(a.bytes for a in plan.actions),
            changed_tables=(_branch_table(work.table, work.plan.name),) if created else (),
        )


@dataclass(frozen=True, slots=True)
class _Deletion:
    table: Table
    latest_id: int | None
    plan: DeleteBranchesPlan
    trash: TrashRun | None


@procedure(
    name="delete_branch",
    summary="Delete branches of a table.",
    params=(
        TABLE,
        Param(
            "branch",
            ParamType.STRING,
            "Name of the branch, or several names separated by commas.",
            required=True,
            aliases=("branch_name",),
        ),
        trash_param(default=True),
    ),
    columns=(RESULT,),
    example="CALL sys.delete_branch('default.T', 'test');",
)
class DeleteBranch:
    """Delete the metadata of one or more branches: schemas, snapshots, tags, consumers and changelogs.

    It goes to the trash, from where `undo` restores the branches; with `trash => false` it is deleted. Data files that
    only the branch references become orphans, which `remove_orphan_files` deletes. The main branch and a branch that
    an option such as `scan.fallback-branch` names cannot be deleted.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Deletion]:
        """Find the branches and their files."""
        table = ctx.table(args.text("table"))
        plan = plan_delete_branches(table, args.text("branch"))
        begun = [name for name in plan.names if 0 not in branch_schemas(table, name).ids()]
        remains = [table.paths.branch_dir(name) for name in begun]
        trash = open_run(table, trash_request(ctx, args, "delete_branch", default=True), remains=remains)
        return Plan(plan.actions, _Deletion(table, table.snapshots.latest_id(), plan, trash))

    def execute(self, ctx: CallContext, plan: Plan[_Deletion]) -> Report:
        """Delete the files."""
        work = plan.payload
        done = execute_delete_branches(work.table, work.plan, work.trash)
        finish_run(ctx, work.trash)
        return Report(
            result_rows=[(True,)],
            status=DONE,
            snapshot_before=work.latest_id,
            snapshot_after=work.latest_id,
            files_in=done.files,
            bytes_in=done.bytes,
            changed_tables=tuple(_branch_table(work.table, n) for n in work.plan.names),
        )


@dataclass(frozen=True, slots=True)
class _Renaming:
    table: Table
    latest_id: int | None
    plan: RenameBranchPlan


@procedure(
    name="rename_branch",
    summary="Rename a branch of a table.",
    params=(
        TABLE,
        Param("from_branch", ParamType.STRING, "The branch.", required=True),
        Param("to_branch", ParamType.STRING, "Its new name.", required=True),
    ),
    columns=(RESULT,),
    example="CALL sys.rename_branch('default.T', 'test', 'release');",
)
class RenameBranch:
    """Rename a branch. The main branch and a branch that an option such as `scan.fallback-branch` names are refused."""

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Renaming]:
        """Check both names."""
        table = ctx.table(args.text("table"))
        plan = plan_rename_branch(table, args.text("from_branch"), args.text("to_branch"))
        return Plan(plan.actions, _Renaming(table, table.snapshots.latest_id(), plan))

    def execute(self, ctx: CallContext, plan: Plan[_Renaming]) -> Report:
        """Rename the branch."""
        work = plan.payload
        execute_rename_branch(work.table, work.plan)
        return Report(
            result_rows=[(True,)],
            status=DONE,
            snapshot_before=work.latest_id,
            snapshot_after=work.latest_id,
            changed_tables=tuple(_branch_table(work.table, n) for n in (work.plan.name, work.plan.new_name)),
        )


@dataclass(frozen=True, slots=True)
class _Forwarding:
    table: Table
    plan: FastForwardPlan


@procedure(
    name="fast_forward",
    summary="Replace the state and history of the main branch by those of another branch.",
    params=(
        TABLE,
        Param("branch", ParamType.STRING, "The branch.", required=True, aliases=("branch_name",)),
    ),
    columns=(RESULT,),
    example="CALL sys.fast_forward('default.T', 'test');",
)
class FastForward:
    """Give the main branch all snapshots, schemas and tags of another branch.

    Snapshots, long-lived changelogs and tags of the main branch from the earliest snapshot of the branch on are
    removed, even if they were committed after the branch was created; their data files become orphans. If the first
    snapshots of the branch have expired, so that its earliest one does not follow a snapshot of the main branch, the
    older snapshots and changelogs of the main branch are removed, too. Older tags stay: tag what is still needed. A
    tag whose schema the branch lacks, or has with other columns, is an error.

    Stop other writers of the main branch first. The branch itself does not change. `EXPLAIN CALL …` lists what is
    written and removed.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Forwarding]:
        """Compare the branches."""
        table = ctx.table(args.text("table"))
        plan = plan_fast_forward(table, args.text("branch"))
        return Plan(plan.actions, _Forwarding(table, plan))

    def execute(self, ctx: CallContext, plan: Plan[_Forwarding]) -> Report:
        """Replace the history."""
        work = plan.payload
        execute_fast_forward(work.table, work.plan)
        written = [a for a in plan.actions if a.bytes]
        return Report(
            result_rows=[(True,)],
            status=DONE if plan.actions else NOTHING_TO_DO,
            snapshot_before=work.plan.previous_id,
            snapshot_after=work.plan.latest_id,
            files_in=len(plan.actions) - len(written),
            files_out=len(written),
            bytes_out=sum(a.bytes for a in written),
            changed_tables=(_branch_table(work.table, MAIN_BRANCH),) if plan.actions else (),
        )


@procedure(
    name="merge_branch",
    summary="Add the files of a branch of an append table to another branch.",
    params=(
        TABLE,
        Param("source_branch", ParamType.STRING, "The branch to merge.", required=True),
        Param("target_branch", ParamType.STRING, "The branch that the files are added to.", default="main"),
    ),
    columns=(RESULT,),
    example="CALL sys.merge_branch('default.T', 'test');",
)
class MergeBranch:
    """Add the data files that the target lacks in one commit. No file is read or rewritten.

    Both branches must have all their snapshots and only inserts: a compaction, a deletion or an overwrite on one of
    them excludes the merge. Columns and schema versions must be the same. Tables with a primary key cannot be merged.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[MergeBranchPlan]:
        """Compare the files."""
        table = ctx.table(args.text("table"))
        target = args.optional_text("target_branch") or MAIN_BRANCH
        plan = plan_merge_branch(table, args.text("source_branch"), target)
        return Plan(plan.actions, plan)

    def execute(self, ctx: CallContext, plan: Plan[MergeBranchPlan]) -> Report:
        """Commit the files."""
        work = plan.payload
        done = execute_merge_branch(work)
        return Report(
            result_rows=[(True,)],
            status=NOTHING_TO_DO if done is None else DONE,
            snapshot_before=work.previous_id,
            snapshot_after=work.previous_id if done is None else done,
            files_out=0 if done is None else len(work.files),
            bytes_out=0 if done is None else sum(e.file.file_size for e in work.files),
            rows=0 if done is None else sum(e.file.row_count for e in work.files),
            changed_tables=() if done is None else (work.target.name,),
        )

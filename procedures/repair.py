"""Procedures that repair metadata.

remove_unexisting_files, remove_unexisting_manifests, repair_earliest_snapshot, repair_snapshots and reassign_row_id.
"""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.parameters import PARTITIONS, SUCCESS, TABLE
from paimon_spark.calls.partition_filters import partition_filters
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.procedure import Column, Param, ParamType, procedure
from paimon_spark.calls.report import DONE, DRY_RUN, NOTHING_TO_DO, Report, metadata_report
from paimon_spark.core.table import Table
from paimon_spark.engine.earliest_snapshot import EarliestPlan, execute_earliest, plan_earliest
from paimon_spark.engine.missing_files import (
    MissingFilesPlan,
    MissingManifestsPlan,
    execute_missing_files,
    execute_missing_manifests,
    plan_missing_files,
    plan_missing_manifests,
)
from paimon_spark.engine.reassign_row_id import ReassignPlan, ReassignResult, execute_reassign, plan_reassign
from paimon_spark.engine.repair import Repair, execute_repair, plan_repair
from paimon_spark.spec.predicate import or_


@dataclass(frozen=True, slots=True)
class _Files:
    latest_id: int | None
    plan: MissingFilesPlan
    dry_run: bool


@procedure(
    name="remove_unexisting_files",
    summary="Remove data files that do not exist from the metadata.",
    params=(
        TABLE,
        Param(
            "dry_run",
            ParamType.BOOLEAN,
            "Change nothing and return the files; the status is `dry run`.",
            default="false",
        ),
        Param("parallelism", ParamType.INT, "How many directories are listed at a time.", default="8"),
    ),
    columns=(Column("fileName", "string", "path of a missing file; null if there is none"),),
    example="CALL sys.remove_unexisting_files('default.T');",
)
class RemoveUnexistingFiles:
    """Remove the data files of the latest snapshot that do not exist, in one OVERWRITE snapshot.

    The rows of these files are lost. Use it to read a table again after files were deleted by accident; if a backup has
    them, restore them instead. Earlier snapshots do not change. Changelog files, indexes and manifests are not checked.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Files]:
        """List the directories of the table."""
        table = ctx.table(args.text("table"))
        plan = plan_missing_files(table, args.integer("parallelism"))
        return Plan(plan.actions, _Files(table.snapshots.latest_id(), plan, args.flag("dry_run")))

    def execute(self, ctx: CallContext, plan: Plan[_Files]) -> Report:
        """Commit the removal, unless in a dry run."""
        work = plan.payload
        done = None if work.dry_run else execute_missing_files(work.plan)
        removed = done is not None
        names: list[str | None] = list(work.plan.files) if removed or work.dry_run else []
        return Report(
            result_rows=[(name,) for name in names or [None]],
            status=DRY_RUN if work.dry_run else DONE if removed else NOTHING_TO_DO,
            snapshot_before=work.latest_id,
            snapshot_after=done if removed else work.latest_id,
            files_in=len(work.plan.files) if removed else 0,
            bytes_in=work.plan.bytes if removed else 0,
            changed_tables=(work.plan.table.name,) if removed else (),
        )


@dataclass(frozen=True, slots=True)
class _Lists:
    latest_id: int | None
    plan: MissingManifestsPlan


@procedure(
    name="remove_unexisting_manifests",
    summary="Remove manifests that do not exist from the latest snapshot.",
    params=(
        Param(
            "table",
            ParamType.STRING,
            "The table: `t`, `db.t` or `catalog.db.t`, with `$branch_x` for a branch.",
            required=True,
            aliases=("tableId",),
        ),
    ),
    columns=(SUCCESS,),
    example="CALL sys.remove_unexisting_manifests('default.T');",
)
class RemoveUnexistingManifests:
    """Commit a snapshot without the manifests that do not exist, so that the table can be read again.

    The data files that only these manifests added are lost, and data files that only they removed come back: old
    versions of rows, or files that are deleted, which `remove_unexisting_files` removes. If a backup has the manifests,
    restore them instead. If a manifest list is missing, roll the table back.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Lists]:
        """Look up the manifests."""
        table = ctx.table(args.text("table"))
        plan = plan_missing_manifests(table)
        return Plan(plan.actions, _Lists(table.snapshots.latest_id(), plan))

    def execute(self, ctx: CallContext, plan: Plan[_Lists]) -> Report:
        """Commit the snapshot."""
        work = plan.payload
        done = execute_missing_manifests(work.plan)
        removed = done is not None
        return Report(
            result_rows=[("Success",)],
            status=DONE if removed else NOTHING_TO_DO,
            snapshot_before=work.latest_id,
            snapshot_after=done if removed else work.latest_id,
            files_in=len(work.plan.names) if removed else 0,
            bytes_in=sum(a.bytes for a in plan.actions) if removed else 0,
            changed_tables=(work.plan.table.name,) if removed else (),
        )


@dataclass(frozen=True, slots=True)
class _Earliest:
    table: Table
    plan: EarliestPlan


@procedure(
    name="repair_earliest_snapshot",
    summary="Make a snapshot the earliest, in a table with a gap in its snapshots.",
    params=(
        TABLE,
        Param("snapshot_id", ParamType.BIGINT, "The first snapshot after the gap.", required=True),
    ),
    columns=(
        Column("previous_earliest_snapshot_id", "bigint", "earliest snapshot before the CALL", nullable=False),
        Column("current_earliest_snapshot_id", "bigint", "earliest snapshot after the CALL", nullable=False),
    ),
    example="CALL sys.repair_earliest_snapshot('default.T', 10);",
)
class RepairEarliestSnapshot:
    """Write the hint `snapshot/EARLIEST`. Time travel and expiry begin at that snapshot.

    The snapshot must follow a gap, and all later ones must exist; otherwise the CALL fails. Snapshot files before the
    gap stay.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Earliest]:
        """Check the snapshots."""
        table = ctx.table(args.text("table"))
        plan = plan_earliest(table, args.integer("snapshot_id") or 0)
        return Plan(plan.actions, _Earliest(table, plan))

    def execute(self, ctx: CallContext, plan: Plan[_Earliest]) -> Report:
        """Write the hint."""
        work = plan.payload
        execute_earliest(work.table, work.plan)
        return metadata_report(work.table, plan.actions, (work.plan.previous_id, work.plan.earliest_id))


@dataclass(frozen=True, slots=True)
class _Repairs:
    table: Table
    repairs: tuple[Repair, ...]


@procedure(
    name="repair_snapshots",
    summary="Rewrite snapshots and tags that Paimon fails to read because of their operation.",
    params=(TABLE,),
    columns=(Column("repaired_count", "int", "number of rewritten snapshots and tags", nullable=False),),
    example="CALL sys.repair_snapshots('default.T');",
)
class RepairSnapshots:
    """Replace retired operation names in the snapshots and tags of all branches, which Paimon fails to read.

    Paimon 2.0 fails on every statement over a table with such a snapshot: `Cannot deserialize Snapshot$Operation`.
    Releases 0.1 of this project wrote `DROP_PARTITION`, which becomes `TRUNCATE`, and `COMPACT`, which is removed.
    Rows, files, all other keys and all other names do not change. Stop other writers and maintenance of the
    table first.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Repairs]:
        """Find the files."""
        table = ctx.table(args.text("table"))
        repairs = plan_repair(table)
        return Plan(tuple(r.action for r in repairs), _Repairs(table, repairs))

    def execute(self, ctx: CallContext, plan: Plan[_Repairs]) -> Report:
        """Rewrite the files."""
        work = plan.payload
        done = execute_repair(work.table, work.repairs)
        latest = work.table.snapshots.latest_id()
        return Report(
            result_rows=[(done,)],
            status=DONE if done else NOTHING_TO_DO,
            snapshot_before=latest,
            snapshot_after=latest,
            files_in=len(work.repairs),
            files_out=done,
            bytes_in=sum(len(r.before) for r in work.repairs),
            bytes_out=sum(len(r.after) for r in work.repairs),
            changed_tables=(work.table.name,) if done else (),
        )


@procedure(
    name="reassign_row_id",
    summary="Give the rows of each partition of a table with data evolution consecutive row ids.",
    params=(TABLE, PARTITIONS),
    columns=(Column("result", "string", "what was done, in one sentence"),),
    example="CALL sys.reassign_row_id('default.T', 'dt=2024-05-14;dt=2024-05-15');",
)
class ReassignRowId:
    """Give the rows of partitions whose row ids have gaps new ids, in one OVERWRITE snapshot.

    Rows that are inserted into several partitions in turn get ids that interleave. Only manifests are written again:
    the rows get the ids after the last one in use, partition by partition, and keep their order. Runs of consecutive
    ids of more than `data-evolution.reassign.skip-contiguous-row-count` rows keep theirs. Earlier snapshots and tags
    keep the old ids; ids that are stored elsewhere, as in other tables, do not follow. A partition with a global index
    is refused.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[ReassignPlan]:
        """Find the partitions whose row ids have gaps."""
        table = ctx.table(args.text("table"))
        asked = partition_filters(ctx, table, args)
        plan = plan_reassign(table, or_(*(predicate for _, predicate in asked)) if asked else None)
        return Plan(plan.actions, plan)

    def execute(self, ctx: CallContext, plan: Plan[ReassignPlan]) -> Report:
        """Commit the new row ids."""
        del ctx
        work = plan.payload
        done = execute_reassign(work)
        return Report(
            result_rows=[(_reassigned(work, done),)],
            status=NOTHING_TO_DO if done is None else DONE,
            snapshot_before=work.snapshot_id if done is None else done.snapshot_before,
            snapshot_after=work.snapshot_id if done is None else done.snapshot_after,
            rows=0 if done is None else done.rows,
            changed_tables=() if done is None else (work.table.name,),
        )


def _reassigned(plan: ReassignPlan, done: ReassignResult | None) -> str:
    name = plan.table.name
    if done is None:
        return (
            f"Skipped. Row IDs for table '{name}' were not reassigned because {plan.reason}: snapshot "
            f"{plan.snapshot_id} unchanged, nextRowId={plan.next_row_id}."
        )
    return (
        f"Success. Reassigned row IDs for table '{name}': snapshot {done.snapshot_before} -> {done.snapshot_after}, "
        f"nextRowId {done.next_before} -> {done.next_after}, files={done.files}, rows={done.rows}, indexFiles=0."
    )

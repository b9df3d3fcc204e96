"""Procedures that repair metadata.

compact_manifest, remove_unexisting_files, remove_unexisting_manifests and repair_earliest_snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.procedure import Column, Param, ParamType, procedure
from paimon_spark.calls.report import DONE, DRY_RUN, NOTHING_TO_DO, Report
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact_manifest import (
    CompactManifestPlan,
    execute_compact_manifest,
    plan_compact_manifest,
)
from paimon_spark.engine.earliest_snapshot import EarliestPlan, execute_earliest, plan_earliest
from paimon_spark.engine.unexisting import (
    MissingFilesPlan,
    MissingManifestsPlan,
    execute_missing_files,
    execute_missing_manifests,
    plan_missing_files,
    plan_missing_manifests,
)

_TABLE = Param("table", ParamType.STRING, "The table: `t`, `db.t` or `catalog.db.t`.", required=True)


@dataclass(frozen=True, slots=True)
class _Manifests:
    latest_id: int | None
    plan: CompactManifestPlan
    dry_run: bool


@procedure(
    name="compact_manifest",
    summary="Merge small manifests into few large ones.",
    params=(
        _TABLE,
        Param("options", ParamType.STRING, "Options of the table for this CALL: `k=v,k2=v2`."),
        Param("dry_run", ParamType.BOOLEAN, "Change nothing; the status is `dry run`.", default="false"),
    ),
    columns=(
        Column("result", "boolean", "true; a failed CALL raises an error"),
        Column("manifests", "string", "the manifests before the CALL: how many, their size, what they remove"),
    ),
    example="CALL sys.compact_manifest('default.T');",
)
class CompactManifest:
    """Merge all manifests that are smaller than `manifest.target-file-size` or have entries of removed files.

    The COMPACT snapshot has the same data files as the one before. Queries then read fewer manifests. Nothing is
    committed if there would be as many manifests as before. The old manifests go when their snapshots expire.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Manifests]:
        """Select the manifests."""
        table = ctx.table(args.text("table"), args.table_options("options"))
        plan = plan_compact_manifest(table)
        return Plan(plan.actions, _Manifests(table.snapshots.latest_id(), plan, args.flag("dry_run")))

    def execute(self, ctx: CallContext, plan: Plan[_Manifests]) -> Report:
        """Commit the merged manifests, unless in a dry run."""
        work = plan.payload
        done = None if work.dry_run else execute_compact_manifest(work.plan)
        merged = done is not None
        return Report(
            result_rows=[(True, work.plan.summary)],
            status=DRY_RUN if work.dry_run else DONE if merged else NOTHING_TO_DO,
            snapshot_before=work.latest_id,
            snapshot_after=done if merged else work.latest_id,
            files_in=len(work.plan.merged) if merged else 0,
            files_out=work.plan.files_out if merged else 0,
            bytes_in=sum(a.bytes for a in plan.actions) if merged else 0,
            changed_tables=(work.plan.table.name,) if merged else (),
        )


@dataclass(frozen=True, slots=True)
class _Files:
    latest_id: int | None
    plan: MissingFilesPlan
    dry_run: bool


@procedure(
    name="remove_unexisting_files",
    summary="Remove data files that do not exist from the metadata.",
    params=(
        _TABLE,
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
    columns=(Column("result", "string", "`Success`; a failed CALL raises an error"),),
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
        _TABLE,
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
        latest = work.table.snapshots.latest_id()
        return Report(
            result_rows=[(work.plan.previous_id, work.plan.earliest_id)],
            status=DONE if plan.actions else NOTHING_TO_DO,
            snapshot_before=latest,
            snapshot_after=latest,
            files_out=len(plan.actions),
            bytes_out=sum(a.bytes for a in plan.actions),
            changed_tables=(work.table.name,) if plan.actions else (),
        )

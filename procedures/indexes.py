"""Procedures for file indexes: rewrite_file_index."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.parameters import PARTITION_FILTERS, TABLE
from paimon_spark.calls.partition_filters import check_one_filter, partition_filters
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.procedure import Column, Param, ParamType, procedure
from paimon_spark.calls.report import DONE, NOTHING_TO_DO, Report
from paimon_spark.core.maintenance.deletion import WARN, Action
from paimon_spark.engine.compaction.compact_explain import unmatched
from paimon_spark.engine.compaction.rewrite_file_index import (
    IndexRewritePlan,
    execute_index_rewrite,
    plan_index_rewrite,
)
from paimon_spark.spec.predicate import or_


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """What to rewrite, and notes about requested partitions that do not exist."""

    work: IndexRewritePlan
    notes: tuple[str, ...]


@procedure(
    name="rewrite_file_index",
    summary="Build the file indexes that the options of the table specify.",
    params=(
        TABLE,
        *PARTITION_FILTERS,
        Param(
            "force",
            ParamType.BOOLEAN,
            "Rebuild all indexes, after a change of settings such as `fpp`, or if indexes are damaged.",
            default="false",
        ),
    ),
    columns=(
        Column("written_partitions", "int", "partitions with files whose indexes changed"),
        Column("written_indexes", "int", "files whose indexes changed"),
    ),
    example="CALL sys.rewrite_file_index('default.T', 'dt=2024-05-14');",
)
class RewriteFileIndex:
    """Write the indexes of the options `file-index.<kind>.columns` for files that lack some of them or have other ones.

    The rows stay in their files: a COMPACT snapshot replaces the entries of the files in the manifests. Files with
    indexes of the right kinds are skipped, so the CALL can be repeated after a failure; 1000 files are committed
    together. With `force`, all files are read, and indexes that differ are replaced.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Rewrite]:
        """Read which indexes the files have."""
        table = ctx.table(args.text("table"))
        check_one_filter(args)
        asked = partition_filters(ctx, table, args)
        chosen = or_(*(predicate for _, predicate in asked)) if asked else None
        work = plan_index_rewrite(table, chosen, force=args.flag("force"))
        notes = unmatched(table, asked, work.partitions_seen, ctx.zone)
        warnings = (Action(WARN, table.path, 0, note) for note in notes)
        return Plan((*warnings, *work.actions), _Rewrite(work, notes))

    def execute(self, ctx: CallContext, plan: Plan[_Rewrite]) -> Report:
        """Read the indexed columns, write the indexes, and commit each group."""
        work = plan.payload.work
        name = work.table.name
        done = execute_index_rewrite(work, ctx.runner, lambda n, of: ctx.progress(n, of, f"index {name}"))
        status = DONE if done.files else NOTHING_TO_DO
        return Report(
            result_rows=[(done.partitions, done.files)],
            status=": ".join([status, *([" ".join(plan.payload.notes)] if plan.payload.notes else [])]),
            snapshot_before=work.snapshot_id,
            snapshot_after=done.snapshot_ids[-1] if done.snapshot_ids else work.snapshot_id,
            files_in=done.files,
            files_out=done.files,
            bytes_in=done.bytes,
            bytes_out=done.index_bytes,
            rows=done.rows,
            changed_tables=(name,) if done.snapshot_ids else (),
        )

"""Procedures for indexes: rewrite_file_index, create_global_index and drop_global_index."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.parameters import CALL_OPTIONS, PARTITION_FILTERS, PARTITIONS, RESULT, TABLE
from paimon_spark.calls.partition_filters import check_one_filter, partition_filters
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.procedure import Column, Param, ParamType, procedure
from paimon_spark.calls.report import DONE, DRY_RUN, NOTHING_TO_DO, Report
from paimon_spark.core.maintenance.deletion import WARN, Action
from paimon_spark.engine.compaction.compact_explain import unmatched
from paimon_spark.engine.compaction.rewrite_file_index import (
    IndexRewritePlan,
    execute_index_rewrite,
    plan_index_rewrite,
)
from paimon_spark.engine.global_indexes import (
    CreatePlan,
    DropPlan,
    execute_create,
    execute_drop,
    index_column,
    index_kind,
    plan_create,
    plan_drop,
)
from paimon_spark.spec.predicate import Predicate, or_


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


_INDEX_COLUMN = Param("index_column", ParamType.STRING, "The indexed column.", required=True)
_INDEX_TYPE = Param("index_type", ParamType.STRING, "`btree` or `bitmap`.", required=True)


@dataclass(frozen=True, slots=True)
class _Create:
    """What to index, and notes about requested partitions that do not exist."""

    work: CreatePlan
    notes: tuple[str, ...]


@procedure(
    name="create_global_index",
    summary="Build a global index of a column: the row ids of each value.",
    params=(TABLE, _INDEX_COLUMN, _INDEX_TYPE, PARTITIONS, CALL_OPTIONS),
    columns=(RESULT,),
    example="CALL sys.create_global_index('default.T', 'id', 'btree');",
)
class CreateGlobalIndex:
    """Index the rows that have no index of this type and column yet, in one APPEND snapshot.

    The table needs `row-tracking.enabled`. Rows that are written later are not in the index, and are always read: call
    the procedure again to index them. Files with rows that updates or compactions have moved are not indexed either,
    unless the table has `data-evolution.enabled`. Queries with filters on the column skip the files in which the index
    finds no matching rows; [Global indexes](../global-indexes.md) has the conditions.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Create]:
        """Select the rows that are not indexed."""
        kind = index_kind(args.text("index_type"))
        table = ctx.table(args.text("table"), args.table_options("options"))
        column = index_column(table, args.text("index_column"))
        asked = partition_filters(ctx, table, args)
        work = plan_create(table, column, kind, _chosen(asked))
        notes = unmatched(table, asked, work.partitions_seen, ctx.zone)
        if work.unnumbered:
            notes = (*notes, f"{work.unnumbered} files with moved rows are not indexed: they are always read.")
        if work.unused:
            notes = (*notes, f"Queries do not use the index: {work.unused}.")
        warnings = (Action(WARN, table.path, 0, note) for note in notes)
        return Plan((*warnings, *work.actions), _Create(work, notes))

    def execute(self, ctx: CallContext, plan: Plan[_Create]) -> Report:
        """Read the column, write the index files, and commit them."""
        work = plan.payload.work
        name = work.table.name
        done = execute_create(work, ctx.runner, lambda n, of: ctx.progress(n, of, f"global index of {name}"))
        status = DONE if done.files else NOTHING_TO_DO
        return Report(
            result_rows=[(True,)],
            status=": ".join([status, *([" ".join(plan.payload.notes)] if plan.payload.notes else [])]),
            snapshot_before=work.snapshot_id,
            snapshot_after=done.snapshot_ids[-1] if done.snapshot_ids else work.snapshot_id,
            files_in=sum(len(t.spans) for t in work.tasks),
            files_out=done.files,
            bytes_in=sum(a.bytes for a in work.actions),
            bytes_out=done.bytes,
            rows=done.rows,
            changed_tables=(name,) if done.snapshot_ids else (),
        )


def _chosen(asked: list[tuple[str, Predicate]]) -> Predicate | None:
    return or_(*(predicate for _, predicate in asked)) if asked else None


@dataclass(frozen=True, slots=True)
class _Drop:
    work: DropPlan
    dry_run: bool


@procedure(
    name="drop_global_index",
    summary="Remove a global index from a table.",
    params=(
        TABLE,
        _INDEX_COLUMN,
        _INDEX_TYPE,
        PARTITIONS,
        Param("dry_run", ParamType.BOOLEAN, "Change nothing; return the number of files.", default="false"),
    ),
    columns=(
        RESULT,
        Column("dropped_file_count", "bigint", "index files that were removed, or would be by a dry run"),
    ),
    example="CALL sys.drop_global_index('default.T', 'id', 'btree');",
)
class DropGlobalIndex:
    """Remove the files of the indexes of one type and column from the table, in one snapshot.

    Older snapshots keep the index; its files are deleted when they expire. A table without such an index is unchanged.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Drop]:
        """Select the index files."""
        kind = index_kind(args.text("index_type"))
        table = ctx.table(args.text("table"))
        column = index_column(table, args.text("index_column"))
        work = plan_drop(table, column, kind, _chosen(partition_filters(ctx, table, args)))
        return Plan(work.actions, _Drop(work, args.flag("dry_run")))

    def execute(self, ctx: CallContext, plan: Plan[_Drop]) -> Report:
        """Commit their removal."""
        del ctx
        work, dry = plan.payload.work, plan.payload.dry_run
        ids = () if dry else execute_drop(work)
        return Report(
            result_rows=[(True, len(work.entries))],
            status=DRY_RUN if dry else DONE if ids else NOTHING_TO_DO,
            snapshot_before=work.snapshot_id,
            snapshot_after=ids[-1] if ids else work.snapshot_id,
            files_in=len(work.entries),
            bytes_in=sum(e.file.file_size for e in work.entries),
            changed_tables=(work.table.name,) if ids else (),
        )

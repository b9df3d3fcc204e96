"""Procedures that merge rows: with those of a source, and with those of other partitions of a chain table."""

from __future__ import annotations

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.parameters import SUCCESS, TABLE
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.procedure import Column, Param, ParamType, PositionalOverload, procedure
from paimon_spark.calls.report import DONE, NOTHING_TO_DO, Report
from paimon_spark.engine.column_merge import UPDATE_SET, plan_column_merge
from paimon_spark.engine.merge_into import (
    Clause,
    MergeAction,
    MergePlan,
    MergeRequest,
    check_request,
    execute_merge,
    plan_merge,
)
from paimon_spark.engine.redistribution.chain_compact import (
    ChainCompactionPlan,
    chain_compaction_actions,
    execute_chain_compaction,
    plan_chain_compaction,
)
from paimon_spark.errors import ArgumentError
from paimon_spark.sqlparse.partitions import each_partition

_SUCCESS = "Success"
_FIRST = ("target_table", "target_alias", "source_sqls", "source_table", "merge_condition")
_ALIAS_AND_SOURCE = (
    Param(
        "target_alias",
        ParamType.STRING,
        "Alias of the target in the other arguments; must not be the name of a table.",
        default="the table's own name",
    ),
    Param(
        "source_sqls",
        ParamType.STRING,
        "Statements to run first, separated by `;`: `CREATE TEMPORARY VIEW … AS`, `USE` and "
        "`CREATE CATALOG … WITH`. What they create exists only during the CALL.",
    ),
    Param(
        "source_table",
        ParamType.STRING,
        "A table, or a view of the session or of `source_sqls`; its alias is the last part of its name.",
        required=True,
    ),
)


@procedure(
    name="merge_into",
    summary="Upsert, delete and insert rows of a primary key table by joining it with a source.",
    params=(
        Param(
            "target_table",
            ParamType.STRING,
            "The table to change: `t`, `db.t` or `catalog.db.t`. It needs a primary key.",
            required=True,
        ),
        *_ALIAS_AND_SOURCE,
        Param(
            "merge_condition",
            ParamType.STRING,
            "Join condition between rows of the source and the target.",
            required=True,
        ),
        Param(
            "matched_upsert_condition",
            ParamType.STRING,
            "Condition for upserting a matched row.",
            default="all, if matched_upsert_setting is given",
        ),
        Param(
            "matched_upsert_setting",
            ParamType.STRING,
            "New values of matched rows: `column = expression, …`, or `*` for all columns of the source in order. "
            "A changed key adds a row and keeps the old one.",
        ),
        Param(
            "not_matched_insert_condition",
            ParamType.STRING,
            "Condition over columns of the source for inserting an unmatched source row.",
            default="all, if not_matched_insert_values is given",
        ),
        Param(
            "not_matched_insert_values",
            ParamType.STRING,
            "Values of the new rows: one per column of the target, or `*` for all columns of the source.",
        ),
        Param(
            "matched_delete_condition",
            ParamType.STRING,
            "Condition for deleting a matched row; `TRUE` for all of them.",
            default="none",
        ),
        Param(
            "not_matched_by_source_upsert_condition",
            ParamType.STRING,
            "Condition over columns of the target for upserting an unmatched target row.",
            default="all, if not_matched_by_source_upsert_setting is given",
        ),
        Param(
            "not_matched_by_source_upsert_setting",
            ParamType.STRING,
            "New values of unmatched target rows: `column = expression, …`, without primary key columns.",
        ),
        Param(
            "not_matched_by_source_delete_condition",
            ParamType.STRING,
            "Condition over columns of the target for deleting an unmatched target row; `TRUE` for all of them.",
            default="none",
        ),
    ),
    columns=(SUCCESS,),
    forms=(
        PositionalOverload(
            (*_FIRST, "matched_delete_condition"), doc="with six values, the last is the condition for deleting"
        ),
    ),
    example="CALL sys.merge_into('default.T', '', '', 'default.S', 'T.id=S.order_id', '', 'price=T.price+20', "
    "'', '*');",
)
class MergeInto:
    """Join target and source, and commit the resulting upserts, deletes and inserts in one snapshot.

    The semantics are those of Paimon's Flink procedure, not of the statement `MERGE INTO`. Every action reads the
    table's state before the CALL. A target row that matches several source rows is upserted once per match, in any
    order. A changed key adds a row. Of several rows with the same key, the last one wins; upserts come first, then
    deletes, then inserts. An action is enabled by its condition or its values. If both actions on matched rows are
    enabled, each needs a condition; the same applies to the two actions on unmatched target rows.

    Conditions and values are expressions without subqueries, aggregates and window functions; views in `source_sqls`
    may use those. Columns that occur in both tables must be qualified with the table's name.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[MergePlan]:
        """Validate the actions, and every expression against the tables."""
        request = MergeRequest(
            source_table=args.text("source_table"),
            condition=args.text("merge_condition"),
            actions=_actions(args),
            target_alias=args.optional_text("target_alias"),
            source_sqls=args.optional_text("source_sqls"),
        )
        check_request(request)
        target = args.text("target_table")
        name = ctx.identifier(target, "target_table")
        table = ctx.table(target, parameter="target_table")
        merge = plan_merge(table, name, request, ctx.spark_jobs("merge_into"))
        return Plan(merge.actions, merge)

    def execute(self, ctx: CallContext, plan: Plan[MergePlan]) -> Report:
        """Run the join, write the rows and commit them."""
        del ctx
        return _merged(plan.payload)


@procedure(
    name="data_evolution_merge_into",
    summary="Update columns of a table with data evolution by joining it with a source.",
    params=(
        Param(
            "target_table",
            ParamType.STRING,
            "The table to change: `t`, `db.t` or `catalog.db.t`, with `'data-evolution.enabled' = 'true'`.",
            required=True,
        ),
        *_ALIAS_AND_SOURCE,
        Param(
            "merge_condition",
            ParamType.STRING,
            "Join condition between rows of the source and the target, also over `_ROW_ID` of the target.",
            required=True,
        ),
        Param(
            UPDATE_SET,
            ParamType.STRING,
            "New values of matched rows: `column = expression, …`, or `*` for the columns of the source, by name.",
            required=True,
        ),
        Param("sink_parallelism", ParamType.INT, "Number of tasks that write, 1 or more.", default="one for each core"),
    ),
    columns=(SUCCESS,),
    example="CALL sys.data_evolution_merge_into('default.T', '', '', 'default.S', 'T.id=S.id', 'price=S.price', 2);",
)
class DataEvolutionMergeInto:
    """Join target and source, and write new files with only the changed columns of the matched rows' row ranges.

    Rows are neither added nor deleted, and keep their `_ROW_ID`. A null replaces a value too. Partition columns cannot
    be changed. Of several source rows that match a target row, one is chosen; the statement `MERGE INTO`, which writes
    the same files, reports them. If another commit changes the same columns of the same rows meanwhile, or compacts
    them, the CALL fails and changes nothing.

    Conditions and values are expressions without subqueries, aggregates and window functions; views in `source_sqls`
    may use those. Columns that occur in both tables must be qualified with the table's name.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[MergePlan]:
        """Validate every expression against the tables."""
        request = MergeRequest(
            source_table=args.text("source_table"),
            condition=args.text("merge_condition"),
            actions=(),
            target_alias=args.optional_text("target_alias"),
            source_sqls=args.optional_text("source_sqls"),
        )
        target, tasks = args.text("target_table"), args.count("sink_parallelism")
        name = ctx.identifier(target, "target_table")
        options = {} if tasks is None else {"sink.parallelism": str(tasks)}
        table = ctx.table(target, options, parameter="target_table")
        jobs = ctx.spark_jobs("data_evolution_merge_into")
        merge = plan_column_merge(table, name, request, args.text(UPDATE_SET), jobs)
        return Plan(merge.actions, merge)

    def execute(self, ctx: CallContext, plan: Plan[MergePlan]) -> Report:
        """Run the join, write the new files and commit them."""
        del ctx
        return _merged(plan.payload)


def _merged(plan: MergePlan) -> Report:
    done = execute_merge(plan)
    return Report(
        result_rows=[(_SUCCESS,)],
        status=DONE if done.committed else NOTHING_TO_DO,
        snapshot_before=done.snapshot_before,
        snapshot_after=done.snapshot_after,
        files_out=done.files_out,
        bytes_out=done.bytes_out,
        rows=done.rows_out,
        changed_tables=(plan.table.name,) if done.committed else (),
    )


def _actions(args: Arguments) -> tuple[MergeAction, ...]:
    """Return the enabled actions: those with a condition or values."""
    found = []
    for clause in Clause:
        action = MergeAction(clause, None)
        condition = args.optional_text(action.condition_argument)
        values = args.optional_text(action.values_argument)
        if condition is not None or values is not None:
            found.append(MergeAction(clause, condition, values))
    return tuple(found)


_EXISTS = "the snapshot branch has the partition"


@procedure(
    name="compact_chain_table",
    summary="Merge a partition of a chain table into its snapshot branch.",
    params=(
        TABLE,
        Param(
            "partition",
            ParamType.STRING,
            "The partition: `,` is AND, as in `dt=2024-05-14,hh=1`. Without the group columns, that of each group.",
            required=True,
        ),
        Param(
            "overwrite",
            ParamType.BOOLEAN,
            "Replace the partition if the snapshot branch has it.",
            default="false",
        ),
    ),
    columns=(Column("result", "boolean", "whether the partition was written"),),
    example="""CALL sys.compact_chain_table(table => 'default.T', partition => 'dt="20250811"', overwrite => true);""",
)
class CompactChainTable:
    """Merge the newest earlier snapshot of a partition with the deltas since then, and write it to the snapshot branch.

    Later reads of the partition, and of the partitions after it, then merge fewer files. The deltas stay. If the
    snapshot branch has the partition already, nothing is changed unless `overwrite` is set; it is then merged again
    from the snapshot before it, and its rows are replaced. A partition without deltas is never changed.

    A new partition is an APPEND snapshot of the snapshot branch, a replaced one an OVERWRITE. The snapshots and files
    of the report are those of the snapshot branch.
    """

    status = f"`{DONE}`, `{_EXISTS}`, or `{NOTHING_TO_DO}` if it has no deltas"

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[ChainCompactionPlan]:
        """Find the partition and the files to merge."""
        table = ctx.table(args.text("table"))
        asked = each_partition(args.text("partition"), table.schema, zone=ctx.zone, parameter="partition")
        if len(asked) != 1:
            raise ArgumentError(
                f"The argument 'partition' names {len(asked)} partitions.", hint="Call the procedure once for each."
            )
        plan = plan_chain_compaction(table, asked[0][1], overwrite=args.flag("overwrite"))
        return Plan(tuple(chain_compaction_actions(plan)), plan)

    def execute(self, ctx: CallContext, plan: Plan[ChainCompactionPlan]) -> Report:
        """Write the merged rows."""
        work = plan.payload
        before = work.move.write.snapshot_id
        done = execute_chain_compaction(work, ctx.jobs, ctx.runner)
        if not work.merges:
            status = _EXISTS if work.existing and not work.overwrite else NOTHING_TO_DO
            return Report(result_rows=[(False,)], status=status, snapshot_before=before, snapshot_after=before)
        return Report(
            result_rows=[(True,)],
            status=DONE,
            snapshot_before=before,
            snapshot_after=done.snapshot_ids[-1] if done.snapshot_ids else before,
            files_in=len(work.files),
            files_out=len(done.files),
            bytes_in=sum(f.file_size for f in work.files.values()),
            bytes_out=sum(f.file_size for f in done.files),
            rows=sum(f.row_count for f in done.files),
            changed_tables=(work.snapshots.identifier.base.full_name, work.snapshots.name),
        )

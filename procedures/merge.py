"""Procedures that join tables and change rows by the result: merge_into."""

from __future__ import annotations

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.procedure import Column, Param, ParamType, PositionalOverload, procedure
from paimon_spark.calls.report import DONE, NOTHING_TO_DO, Report
from paimon_spark.engine.merge_into import (
    Clause,
    MergeAction,
    MergePlan,
    MergeRequest,
    check_request,
    execute_merge,
    plan_merge,
)

_SUCCESS = "Success"
_FIRST = ("target_table", "target_alias", "source_sqls", "source_table", "merge_condition")


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
        Param(
            "target_alias",
            ParamType.STRING,
            "What the other arguments call the target; no table may have that name.",
            default="the table's own name",
        ),
        Param(
            "source_sqls",
            ParamType.STRING,
            "Statements to run first, separated by `;`: `CREATE TEMPORARY VIEW … AS`, `USE` and "
            "`CREATE CATALOG … WITH`. What they make is gone afterwards.",
        ),
        Param(
            "source_table",
            ParamType.STRING,
            "A table, or a view of the session or of `source_sqls`. The other arguments call it by its last part.",
            required=True,
        ),
        Param(
            "merge_condition", ParamType.STRING, "When a row of the source matches one of the target.", required=True
        ),
        Param(
            "matched_upsert_condition",
            ParamType.STRING,
            "Which matched rows are upserted.",
            default="all, if there is a matched_upsert_setting",
        ),
        Param(
            "matched_upsert_setting",
            ParamType.STRING,
            "New values of matched rows: `column = expression, …`, or `*` for all columns of the source in order. "
            "A new key adds a row and keeps the old one.",
        ),
        Param(
            "not_matched_insert_condition",
            ParamType.STRING,
            "Which rows of the source that match nothing are inserted; over columns of the source.",
            default="all, if there are not_matched_insert_values",
        ),
        Param(
            "not_matched_insert_values",
            ParamType.STRING,
            "Values of the new rows: one for each column of the target, or `*` for all columns of the source.",
        ),
        Param(
            "matched_delete_condition",
            ParamType.STRING,
            "Which matched rows are deleted; `TRUE` for all of them.",
            default="none",
        ),
        Param(
            "not_matched_by_source_upsert_condition",
            ParamType.STRING,
            "Which rows of the target that match nothing are upserted; over columns of the target.",
            default="all, if there is a not_matched_by_source_upsert_setting",
        ),
        Param(
            "not_matched_by_source_upsert_setting",
            ParamType.STRING,
            "Their new values: `column = expression, …`; no column of the primary key.",
        ),
        Param(
            "not_matched_by_source_delete_condition",
            ParamType.STRING,
            "Which rows of the target that match nothing are deleted; `TRUE` for all of them.",
            default="none",
        ),
    ),
    columns=(Column("result", "string", "Success: it went without error"),),
    forms=(
        PositionalOverload(
            (*_FIRST, "matched_delete_condition"), doc="with six values the last one says what to delete"
        ),
    ),
    example="CALL sys.merge_into('default.T', '', '', 'default.S', 'T.id=S.order_id', '', 'price=T.price+20', "
    "'', '*');",
)
class MergeInto:
    """Join target and source, and write what the actions make of the rows, in one snapshot.

    This is the merge of Paimon's Flink procedures, not the statement `MERGE INTO`: every action is a query over the
    table as it was before, a target row that several source rows match is upserted once for each of them, in any order,
    and a changed key adds a row. Of several rows with one key the last one stays: upserts come first, then deletes,
    then inserts. An action is on when its condition or its values are given; the two actions on matched rows need a
    condition each when both are on, and so do the two on rows that match nothing.

    Conditions and values are expressions without subqueries, aggregates and window functions; a view of `source_sqls`
    may hold those. Columns that both tables have need the name of their table in front.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[MergePlan]:
        """Check the actions against the rules and every fragment against the tables."""
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
        done = execute_merge(plan.payload)
        return Report(
            result_rows=[(_SUCCESS,)],
            status=DONE if done.committed else NOTHING_TO_DO,
            snapshot_before=done.snapshot_before,
            snapshot_after=done.snapshot_after,
            files_out=done.files_out,
            bytes_out=done.bytes_out,
            rows=done.rows_out,
            changed_tables=(plan.payload.table.name,) if done.committed else (),
        )


def _actions(args: Arguments) -> tuple[MergeAction, ...]:
    """Return the actions that are on: those of which a condition or values are given."""
    found = []
    for clause in Clause:
        action = MergeAction(clause, None)
        condition = args.optional_text(action.condition_argument)
        values = args.optional_text(action.values_argument)
        if condition is not None or values is not None:
            found.append(MergeAction(clause, condition, values))
    return tuple(found)

"""Run tag statements: ``ALTER TABLE t CREATE TAG …`` and the like, and ``SHOW TAGS t``."""

from __future__ import annotations

from paimon_spark.calls.context import CallContext
from paimon_spark.calls.plan import PLAN_COLUMNS, plan_rows
from paimon_spark.calls.run import CallResult
from paimon_spark.core.maintenance.deletion import Action
from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.table import Table
from paimon_spark.engine.refs.tags import (
    DeleteTagsPlan,
    TagPlan,
    execute_delete_tags,
    execute_tag,
    plan_create_tag,
    plan_delete_tags,
    plan_rename_tag,
)
from paimon_spark.sqlparse.tag_statements import TagAction, TagStatement

_SHOWN = [("tag", "string", False)]


def tag_columns(statement: TagStatement) -> list[tuple[str, str, bool]]:
    """Return name, Spark type and nullability of the columns of the result."""
    if statement.explain:
        return [(name, kind, name == "kept_by") for name, kind in PLAN_COLUMNS]
    return _SHOWN if statement.action is TagAction.SHOW else []


def run_tag_statement(statement: TagStatement, ctx: CallContext) -> CallResult:
    """Run a tag statement, or return its plan after EXPLAIN.

    Raises:
        PaimonError: there is no such table, snapshot or tag, or a tag of the name exists.
    """
    table = ctx.load(ctx.identifier_of(statement.table))
    if statement.action is TagAction.SHOW:
        rows: list[tuple[object, ...]] = [(name,) for name in RefStore.of(table).tag_names()]
        return _result(statement, [] if statement.explain else rows)
    plan = _plan(table, statement, ctx.clock_millis())
    actions: tuple[Action, ...] = tuple(plan.actions)
    if statement.explain:
        return _result(statement, plan_rows(actions))
    if isinstance(plan, DeleteTagsPlan):
        execute_delete_tags(table, plan)
    else:
        execute_tag(table, plan)
    return _result(statement, [], (table.name,) if actions else ())


def _plan(table: Table, statement: TagStatement, clock_millis: int) -> TagPlan | DeleteTagsPlan:
    refs = RefStore.of(table)
    if statement.action is TagAction.RENAME:
        return plan_rename_tag(table, statement.name, statement.new_name)
    if statement.action is TagAction.DELETE:
        plan = plan_delete_tags(table, statement.name)
        if plan.missing and not statement.lenient:
            raise refs.no_such_tag(plan.missing[0])
        return plan
    return plan_create_tag(
        table,
        statement.name,
        clock_millis=clock_millis,
        snapshot_id=statement.snapshot_id,
        time_retained_ms=statement.retained_ms,
        if_not_exists=statement.lenient,
        replace=statement.action is TagAction.REPLACE and refs.find_tag(statement.name.strip()) is not None,
    )


def _result(statement: TagStatement, rows: list[tuple[object, ...]], changed: tuple[str, ...] = ()) -> CallResult:
    columns = tag_columns(statement)
    return CallResult([(n, kind) for n, kind, _ in columns], rows, [null for *_, null in columns], changed)

"""Read-only procedures: help."""

from __future__ import annotations

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.help import HELP_COLUMNS
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.procedure import Column, Param, ParamType, procedure
from paimon_spark.calls.report import Report

_DOCS = {
    "kind": "procedure, form, argument, result or example",
    "name": "name; the statement itself for forms and examples",
    "type": "type of an argument or result column",
    "required": "whether an argument must be given",
    "description": "meaning",
}


@procedure(
    name="help",
    summary="List the procedures, or describe one of them.",
    params=(
        Param("procedure", ParamType.STRING, "The procedure to describe.", default="all procedures, one row each"),
    ),
    columns=tuple(Column(name, kind, _DOCS[name]) for name, kind in HELP_COLUMNS),
    example="CALL sys.help('compact');",
    reports=False,
)
class Help:
    """List all procedures with a summary, or describe one: forms, arguments, result columns and an example."""

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[str | None]:
        """Find the procedure."""
        name = args.optional_text("procedure")
        if name is not None:
            ctx.help_rows(name)
        return Plan((), name)

    def execute(self, ctx: CallContext, plan: Plan[str | None]) -> Report:
        """Return the rows."""
        return Report(result_rows=ctx.help_rows(plan.payload))

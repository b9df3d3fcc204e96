"""Run a CALL: parse, bind, plan, and then either show the plan or execute it once and report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.binding import bind, literal_of
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.help import help_rows
from paimon_spark.calls.plan import PLAN_COLUMNS, plan_rows
from paimon_spark.calls.procedure import NAMESPACE, Procedure
from paimon_spark.calls.registry import Registry, installed_registry
from paimon_spark.calls.report import Job, report_rows
from paimon_spark.calls.running import CALLS, UNLISTED
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.errors import ArgumentError, ErrorKind, NotFoundError

if TYPE_CHECKING:
    from paimon_spark.sqlparse.call import CallStatement


@dataclass(frozen=True, slots=True)
class CallResult:
    """Rows of a CALL. `columns` are (name, Spark type); cached state of the `changed_tables` is stale.

    `job` is a job for the session to start.
    """

    columns: list[tuple[str, str]]
    rows: list[tuple[Any, ...]]
    nullable: list[bool] = field(default_factory=list)
    changed_tables: tuple[str, ...] = ()
    job: Job | None = None

    @property
    def is_plan(self) -> bool:
        """Return whether the rows are a plan, from EXPLAIN CALL or a dry run."""
        return tuple(self.columns) == PLAN_COLUMNS


def is_paimon_statement(text: str, registry: Registry | None = None) -> bool:
    """Return whether `text` is a CALL or EXPLAIN CALL that this package runs."""
    from paimon_spark.sqlparse.claims import is_paimon_statement as is_call  # loads the parser, as below

    return "call" in text.lower() and is_call(text, (registry or installed_registry()).claimed)


def run_call(call: str | CallStatement, ctx: CallContext, registry: Registry | None = None) -> CallResult:
    """Run one CALL statement, or show what it would do if it is an EXPLAIN CALL.

    Args:
        call: the statement.
        ctx: its context.
        registry: the procedures; the installed ones by default.

    Raises:
        PaimonError: the statement is wrong, or the procedure failed.
    """
    statement = _parsed(call)
    registry = registry or installed_registry()
    procedure = _procedure_of(statement, ctx.catalog_name, registry)
    args = bind(procedure, statement.positional, statement.named)
    return _run(procedure, args, _with_help(ctx, registry), explain=statement.explain)


def answer_columns(
    call: str | CallStatement, catalog_name: str, registry: Registry | None = None
) -> list[tuple[str, str, bool]]:
    """Return name, Spark type and nullability of the columns that `run_call` will return, without planning.

    Raises:
        PaimonError: the statement or its arguments are wrong.
    """
    statement = _parsed(call)
    procedure = _procedure_of(statement, catalog_name, registry or installed_registry())
    args = bind(procedure, statement.positional, statement.named)
    return plan_columns() if statement.explain or args.dry_run else procedure.result_columns


def only_reads(call: str | CallStatement, catalog_name: str, registry: Registry | None = None) -> bool:
    """Return whether a CALL changes nothing: it is explained, a dry run, or of a procedure that only reads.

    Raises:
        PaimonError: the statement or its arguments are wrong.
    """
    statement = _parsed(call)
    procedure = _procedure_of(statement, catalog_name, registry or installed_registry())
    args = bind(procedure, statement.positional, statement.named)
    return statement.explain or args.dry_run or procedure.read_only


def run_named(
    name: str, values: Mapping[str, Any], ctx: CallContext, registry: Registry | None = None, *, explain: bool = False
) -> CallResult:
    """Run the procedure `name` with plain values by parameter name; None is "not given".

    Raises:
        PaimonError: the arguments are wrong, or the procedure failed.
    """
    registry = registry or installed_registry()
    procedure = registry.get(name)
    named = [(key, literal_of(value)) for key, value in values.items()]
    return _run(procedure, bind(procedure, (), named), _with_help(ctx, registry), explain=explain)


def _parsed(call: str | CallStatement) -> CallStatement:
    if not isinstance(call, str):
        return call
    from paimon_spark.sqlparse.call import parse_call  # procedures that are run by name need no parser

    return parse_call(call)


def _with_help(ctx: CallContext, registry: Registry) -> CallContext:
    return replace(ctx, help_rows=partial(help_rows, registry))


def _procedure_of(statement: CallStatement, catalog_name: str, registry: Registry) -> Procedure:
    """Return the procedure that a statement names.

    Raises:
        NotFoundError: there is no such procedure, or the namespace is not `sys`.
        UnsupportedError: it is a procedure of Paimon that is refused.
        ArgumentError: the statement names another catalog.
    """
    if statement.catalog is not None and statement.catalog.lower() != catalog_name.lower():
        raise ArgumentError(
            f"The CALL names the catalog '{statement.catalog}', but runs in '{catalog_name}'.",
            hint=f"'{statement.catalog}' is not a Paimon catalog of this session.",
        )
    if statement.namespace is not None and statement.namespace.lower() != NAMESPACE:
        raise NotFoundError(
            f"There is no procedure '{statement.namespace}.{statement.procedure}'.",
            hint=f"Procedures are in the namespace {NAMESPACE}: CALL {NAMESPACE}.{statement.procedure}(…).",
            kind=ErrorKind.PROCEDURE_NOT_FOUND,
        )
    return registry.get(statement.procedure)


def plan_columns() -> list[tuple[str, str, bool]]:
    """Return name, Spark type and nullability of the columns of EXPLAIN CALL and a dry run."""
    return [(name, kind, name == "kept_by") for name, kind in PLAN_COLUMNS]


@translate_io_errors()
def _run(procedure: Procedure, args: Arguments, ctx: CallContext, *, explain: bool) -> CallResult:
    if procedure.name in UNLISTED:
        return _run_listed(procedure, args, ctx, explain=explain)
    with CALLS.running(CALLS.next_id(), procedure.name, args.values, ctx.user, ctx.control) as call:
        followed = replace(ctx, progress=call.following(ctx.progress))
        return _run_listed(procedure, args, followed, explain=explain)


def _run_listed(procedure: Procedure, args: Arguments, ctx: CallContext, *, explain: bool) -> CallResult:
    started, ctx = ctx.clock_millis(), replace(ctx, requires=procedure.requires)
    plan = procedure.body.plan(ctx, args)
    if explain or args.dry_run:
        return _result(plan_columns(), plan_rows(plan.actions))
    report = procedure.body.execute(ctx, plan)
    duration = max(ctx.clock_millis() - started, 0)
    rows = report_rows(report, duration) if procedure.reports else [tuple(row) for row in report.result_rows]
    return replace(_result(procedure.result_columns, rows, report.changed_tables), job=report.job)


def _result(
    columns: list[tuple[str, str, bool]], rows: list[tuple[Any, ...]], changed_tables: tuple[str, ...] = ()
) -> CallResult:
    return CallResult(
        [(name, kind) for name, kind, _ in columns], rows, [nullable for _, _, nullable in columns], changed_tables
    )

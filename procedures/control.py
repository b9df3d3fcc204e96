"""Procedures that describe procedures, list and cancel running CALLs, and end jobs: help, running, cancel and stop."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.help import HELP_COLUMNS
from paimon_spark.calls.parameters import RESULT, TABLE
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.procedure import Column, Param, ParamType, procedure
from paimon_spark.calls.report import Report
from paimon_spark.calls.running import CALLS
from paimon_spark.core.maintenance.deletion import Action
from paimon_spark.core.table import Table
from paimon_spark.engine.streaming.stop import stop_job
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.units import UNIT_OF_DURATIONS, parse_duration_ms

_TIMEOUT = "60 s"
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
    read_only=True,
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


@procedure(
    name="running",
    summary="List the CALLs that run in this Spark application.",
    params=(),
    columns=(
        Column("id", "string", "id of the CALL, for `cancel`", nullable=False),
        Column("procedure", "string", "name of the procedure", nullable=False),
        Column("table", "string", "table or database that the CALL names"),
        Column("user", "string", "the user who runs it"),
        Column("started_at", "timestamp", "when it began", nullable=False),
        Column("duration_ms", "bigint", "milliseconds since the start", nullable=False),
        Column("progress", "string", "finished and total tasks, rate and remaining time; NULL if unknown"),
    ),
    example="CALL sys.running();",
    read_only=True,
)
class Running:
    """List the CALLs of all sessions of this Spark application, oldest first.

    CALLs of other applications, of `paimon-spark call`, of actions without Spark and of the Python API are not listed,
    nor are statements other than CALL.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[None]:
        """Nothing is planned."""
        del ctx, args
        return Plan((), None)

    def execute(self, ctx: CallContext, plan: Plan[None]) -> Report:
        """Return the rows."""
        del plan
        now = ctx.clock_millis()
        rows = [
            (
                call.id,
                call.procedure,
                call.table,
                call.user or None,
                Timestamp(call.started_ms),
                max(now - call.started_ms, 0),
                call.progress,
            )
            for call in CALLS.list()
        ]
        return Report(result_rows=rows)


@procedure(
    name="cancel",
    summary="Cancel a CALL that runs in this Spark application.",
    params=(Param("id", ParamType.STRING, "The id that `running` lists.", required=True),),
    columns=(Column("result", "boolean", "whether it ran and has ended", nullable=False),),
    example="CALL sys.cancel('call-7');",
    reports=False,
)
class Cancel:
    """Cancel a CALL of any session of this Spark application, and wait until it has ended, for at most 10 seconds.

    The CALL fails with `STATEMENT_CANCELLED` and its files are deleted. What it has committed before stays: a
    compaction commits each group of buckets. A commit, an expiry or an undo that has begun is completed. The result is
    false if no CALL of that id runs, or if it takes longer to end.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[str]:
        """Nothing is planned."""
        del ctx
        return Plan((), args.text("id"))

    def execute(self, ctx: CallContext, plan: Plan[str]) -> Report:
        """End it."""
        del ctx
        return Report(result_rows=[(CALLS.cancel(plan.payload),)])


@dataclass(frozen=True, slots=True)
class _Stop:
    table: Table
    job: str
    timeout_millis: int


@procedure(
    name="stop",
    summary="End a streaming job that writes to a table, in whichever program it runs.",
    params=(
        TABLE,
        Param("query", ParamType.STRING, "The id or name of the job, as `SHOW JOBS` lists it.", required=True),
        Param(
            "timeout",
            ParamType.STRING,
            f"How long to wait for its end, such as `5 min`. {UNIT_OF_DURATIONS}",
            default=_TIMEOUT,
        ),
    ),
    columns=(RESULT,),
    example="CALL sys.stop('default.T', 'compact_default.T');",
    reports=False,
)
class Stop:
    """End a job of this program or of another one, after its running batch or compaction, and wait for its end.

    A job is a streaming query that writes to the table: one that an INSERT or `compact` with `streaming` has started,
    `paimon-spark compact --streaming`, or any query of `writeStream` with this table as its sink. It is found by the
    table alone: the CALL leaves a request in the directory `stream` of the table, and each job looks for its own
    requests every 5 seconds. Jobs of Spark wait up to 10 seconds for the running batch, as `STOP JOB` does; a batch
    that takes longer is ended, and runs again when the job continues.

    The CALL fails with `INVALID_ARGUMENT` if no job takes the request within the timeout, and then withdraws it; or if
    the job has taken it and runs on, which it still ends. If several jobs of the table have the name, one or more of
    them end: give the id. The clocks of the two machines must not differ by more than the timeout.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Stop]:
        """Find the table."""
        table, job = ctx.table(args.text("table")), args.text("query")
        given = args.duration_ms("timeout")
        timeout = parse_duration_ms(_TIMEOUT) if given is None else given
        action = Action("stop", table.paths.stream_stop(job), 0, f"the job '{job}' is requested to end")
        return Plan((action,), _Stop(table, job, timeout))

    def execute(self, ctx: CallContext, plan: Plan[_Stop]) -> Report:
        """Request the end of the job, and wait for it."""
        work = plan.payload
        stop_job(work.table, work.job, work.timeout_millis, ctx.clock_millis())
        return Report(result_rows=[(True,)])

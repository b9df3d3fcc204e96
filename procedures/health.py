"""Procedures that examine tables: doctor and verify; and maintain, which fixes what doctor finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.named_tables import named_tables
from paimon_spark.calls.parameters import TABLE_NAME, TABLES
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.procedure import Column, Param, ParamType, procedure
from paimon_spark.calls.report import Report
from paimon_spark.core.maintenance.deletion import WARN, Action
from paimon_spark.core.maintenance.file_verification import Defect
from paimon_spark.core.table import Table
from paimon_spark.engine.health.doctor import Diagnosis, diagnose, failed_diagnosis
from paimon_spark.engine.health.findings import Finding, Severity, in_order
from paimon_spark.engine.health.maintain import (
    Job,
    Measure,
    Outcome,
    Status,
    by_gain,
    left_over,
    plan_jobs,
    run_job,
)
from paimon_spark.engine.health.verify import Depth, VerifiedDefect, failed_verification, verify
from paimon_spark.errors import ArgumentError, PaimonError, StatementCancelledError, did_you_mean
from paimon_spark.spec.units import UNIT_OF_DURATIONS

_MOST_DEFECTS = 10_000
_LISTS = Param(
    "list_files",
    ParamType.BOOLEAN,
    "List the directories of the table, to find missing files and orphans. The listing runs as a Spark job.",
    default="true",
)


@dataclass(frozen=True, slots=True)
class _Examination:
    """The tables to examine, or why one cannot be loaded, and what to report."""

    tables: tuple[tuple[str, Table | PaimonError], ...]
    least: Severity
    list_files: bool


@procedure(
    name="doctor",
    summary="Report what is wrong with a table, what that costs, and the statement that fixes it.",
    params=(
        TABLES,
        Param(
            "severity",
            ParamType.STRING,
            "Report findings of this severity and of higher ones: `error`, `warning` or `info`.",
            default="info",
        ),
        _LISTS,
    ),
    columns=(
        TABLE_NAME,
        Column("severity", "string", "`error`, `warning` or `info`", nullable=False),
        Column("finding", "string", "code of the finding; see [Health](../health.md)", nullable=False),
        Column("found", "string", "what was found, with numbers", nullable=False),
        Column("remedy", "string", "statement that fixes it; null where only a decision does"),
        Column("gain_bytes", "bigint", "bytes that the statement frees, or that need not be read any more"),
        Column("gain_files", "bigint", "how many files fewer there are after it"),
        Column("estimated", "boolean", "whether the gain is an estimate"),
    ),
    example="CALL sys.doctor('default.T');",
    read_only=True,
)
class Doctor:
    """Examine a table, or all tables of a database: one row per finding, the most urgent first.

    Manifests, references and directory listings are read, data files are not, and nothing is changed. Without a
    finding there is no row. A table of `db.*` that cannot be read, or has lost its schemas, is a finding, too.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Examination]:
        """Find the tables."""
        tables = tuple(named_tables(ctx, args.text("table")))
        list_files = args.flag("list_files", default=True)
        return Plan((), _Examination(tables, Severity(args.choice("severity", Severity, Severity.INFO)), list_files))

    def execute(self, ctx: CallContext, plan: Plan[_Examination]) -> Report:
        """Examine them."""
        work, findings = plan.payload, list[Finding]()
        for number, (name, table) in enumerate(work.tables):
            ctx.progress(number, len(work.tables), f"examine {name}")
            findings += examined(ctx, name, table, list_files=work.list_files).findings
        wanted = list(Severity)[: list(Severity).index(work.least) + 1]
        chosen = in_order(f for f in findings if f.severity in wanted)
        return Report(result_rows=[tuple(f.to_plain().values()) for f in chosen])


def examined(ctx: CallContext, name: str, table: Table | PaimonError, *, list_files: bool) -> Diagnosis:
    """Return the diagnosis of a table; one that cannot be read is a finding."""
    if isinstance(table, PaimonError):
        return failed_diagnosis(name, table)
    try:
        return diagnose(table, ctx.runner, ctx.clock_millis(), list_directories=list_files)
    except StatementCancelledError:
        raise
    except PaimonError as e:
        return failed_diagnosis(name, e)


@dataclass(frozen=True, slots=True)
class _Verification:
    """The tables to verify, or why one cannot be loaded, and how deep."""

    tables: tuple[tuple[str, Table | PaimonError], ...]
    depth: Depth
    limit: int


@procedure(
    name="verify",
    summary="Check that every file that a snapshot, tag, branch or changelog needs exists and is sound.",
    params=(
        TABLES,
        Param(
            "level",
            ParamType.STRING,
            "`metadata` reads metadata, deletion vectors and directory listings; `footers` also opens each data file; "
            "`data` also decodes all rows.",
            default="metadata",
        ),
        Param(
            "limit",
            ParamType.INT,
            "Stop at a table after so many defects; its last row is `MORE` then.",
            default=str(_MOST_DEFECTS),
        ),
    ),
    columns=(
        TABLE_NAME,
        Column("defect", "string", "code of the defect; see [Health](../health.md)", nullable=False),
        Column("path", "string", "the file", nullable=False),
        Column("found", "string", "what was found, and what was expected", nullable=False),
        Column("needed_by", "string", "some of the references that need the file"),
        Column("references", "int", "how many references need it"),
    ),
    example="CALL sys.verify('default.T', 'footers');",
    read_only=True,
)
class Verify:
    """Verify a table with all its branches, or all tables of a database: one row per defect, none if it is sound.

    Every data, changelog and index file, manifest and statistics file must exist with the recorded size. Deletion
    vectors must decode, have the recorded number of rows, and belong to a file of their snapshot. The row count of a
    snapshot must be that of its files, and snapshots have no gap. With `footers`, the row count in each data file must
    be the recorded one. Files of BLOB values are not opened. Nothing is changed.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Verification]:
        """Find the tables."""
        depth = Depth(args.choice("level", Depth, Depth.METADATA))
        limit = args.count("limit")
        tables = tuple(named_tables(ctx, args.text("table")))
        return Plan((), _Verification(tables, depth, limit or _MOST_DEFECTS))

    def execute(self, ctx: CallContext, plan: Plan[_Verification]) -> Report:
        """Verify them."""
        work, rows = plan.payload, []
        for number, (name, table) in enumerate(work.tables):
            ctx.progress(number, len(work.tables), f"verify {name}")
            found = _defects(ctx, table, work.depth, work.limit)
            rows += [(name, d.defect, d.path, d.found, d.needed_by or None, d.references) for d in found]
        return Report(result_rows=rows)


def _defects(ctx: CallContext, table: Table | PaimonError, depth: Depth, limit: int) -> list[VerifiedDefect]:
    if isinstance(table, PaimonError):
        return [failed_verification(table)]
    try:
        found = list(islice(verify(table, ctx.runner, depth), limit + 1))
    except StatementCancelledError:
        raise
    except PaimonError as e:
        return [failed_verification(e)]
    if len(found) > limit:
        found[limit:] = [VerifiedDefect(Defect.MORE, table.path, f"the verification stopped after {limit} defects")]
    return found


@dataclass(frozen=True, slots=True)
class _Maintenance:
    """Jobs in order, findings that are not fixed, and until when jobs are begun."""

    jobs: tuple[Job, ...]
    left: tuple[Outcome, ...]
    budget_ms: int | None


@procedure(
    name="maintain",
    summary="Fix what doctor finds, the most gain first, until a time budget ends.",
    params=(
        TABLES,
        Param(
            "budget",
            ParamType.STRING,
            f"Begin nothing after this time: `10m`, `2 h`. {UNIT_OF_DURATIONS} What has begun is finished; a "
            "compaction stops after the group of buckets that it is at.",
            default="no limit",
        ),
        Param(
            "actions",
            ParamType.STRING,
            f"What may be done, separated by commas: {', '.join(f'`{r}`' for r in Measure)}.",
            default="all of them",
        ),
    ),
    columns=(
        TABLE_NAME,
        Column("findings", "string", "codes of the findings that the statement fixes", nullable=False),
        Column("statement", "string", "the statement that was run, or that remains to be run"),
        Column("status", "string", "`done`, `partly done`, `nothing to do`, `failed` or `left`", nullable=False),
        Column("reason", "string", "why it failed or was left"),
        Column("files_in", "bigint", "input files: merged or deleted"),
        Column("files_out", "bigint", "output files"),
        Column("bytes_in", "bigint", "size of the files merged or deleted, in bytes"),
        Column("bytes_out", "bigint", "size of the data files written, in bytes"),
        Column("duration_ms", "bigint", "duration in milliseconds"),
    ),
    example="CALL sys.maintain('default.*', '10m');",
    reports=False,
)
class Maintain:
    """Examine a table or all tables of a database, and run the statements that fix the findings.

    Only what is safe is done: compaction of the buckets with findings, compaction of manifests, expiry of snapshots and
    tags by the options of the table, removal of orphans older than a day, which go to the trash, and deletion of runs
    of the trash whose retention has ended. Nothing is done in a table that has lost a snapshot or tag. All other
    findings are `left`, with their statement. The order is that of the gain, where a file fewer counts as 4 MiB fewer.
    A failure of one statement does not stop the others. `EXPLAIN CALL` and `dry_run` show every file that a run without
    a budget merges or deletes, and warn of the findings that are left.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Maintenance]:
        """Examine the tables and plan the jobs."""
        budget = args.duration_ms("budget")
        allowed = _measures(args.optional_text("actions"))
        jobs, left = list[Job](), list[Outcome]()
        tables = list(named_tables(ctx, args.text("table")))
        for number, (name, table) in enumerate(tables):
            ctx.progress(number, len(tables), f"examine {name}")
            diagnosis = examined(ctx, name, table, list_files=Measure.REMOVE_ORPHAN_FILES in allowed)
            left += left_over(diagnosis.findings, allowed)
            if isinstance(table, Table):
                jobs += plan_jobs(table, diagnosis, allowed, ctx.runner, ctx.clock_millis())
        ordered = tuple(by_gain(jobs))
        actions = (*(a for j in ordered for a in j.actions), *_warnings(ordered, left))
        return Plan(actions, _Maintenance(ordered, tuple(left), budget))

    def execute(self, ctx: CallContext, plan: Plan[_Maintenance]) -> Report:
        """Run the jobs until the budget ends."""
        work, outcomes = plan.payload, list[Outcome]()
        deadline = None if work.budget_ms is None else ctx.clock_millis() + work.budget_ms
        for number, job in enumerate(work.jobs):
            ctx.progress(number, len(work.jobs), f"{job.measure} {job.table.name}")
            outcomes.append(run_job(job, ctx.runner, ctx.clock_millis, deadline))
        rows = [tuple(_outcome_row(o)) for o in (*outcomes, *work.left)]
        changed = tuple(dict.fromkeys(o.table for o in outcomes if o.changed))
        return Report(result_rows=rows, changed_tables=changed)


def _warnings(jobs: Sequence[Job], left: Sequence[Outcome]) -> Iterator[Action]:
    """Yield what a run would report as failed or left."""
    for job in jobs:
        if job.error is not None:
            yield Action(WARN, job.table.name, 0, f"{job.statement} cannot run: {job.error}")
    for o in left:
        statement = "" if o.statement is None else f": {o.statement}"
        yield Action(WARN, o.table, 0, f"{o.findings} is left, {o.reason}{statement}")


def _outcome_row(o: Outcome) -> Iterator[Any]:
    yield from (o.table, o.findings, o.statement, str(o.status), o.reason)
    numbers = (o.files_in, o.files_out, o.bytes_in, o.bytes_out, o.duration_ms)
    yield from (None,) * len(numbers) if o.status is Status.LEFT else numbers


def _measures(given: str | None) -> frozenset[Measure]:
    names = [name.strip().lower() for name in (given or "").split(",") if name.strip()]
    for name in names:
        if name not in set(Measure):
            raise ArgumentError(
                f"actions contains '{name}'; the choices are {', '.join(Measure)}.", hint=did_you_mean(name, Measure)
            )
    return frozenset(map(Measure, names)) or frozenset(Measure)

"""Procedures that examine tables: doctor and verify."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.named_tables import named_tables
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.procedure import Column, Param, ParamType, procedure
from paimon_spark.calls.report import Report
from paimon_spark.core.table import Table
from paimon_spark.engine.health.doctor import diagnose, failed_diagnosis
from paimon_spark.engine.health.findings import Finding, Severity, in_order
from paimon_spark.engine.health.verify import Depth, VerifiedDefect, failed_verification, verify
from paimon_spark.errors import ArgumentError, PaimonError, did_you_mean

_TABLES = Param(
    "table",
    ParamType.STRING,
    "The table: `t`, `db.t` or `catalog.db.t`; `db.*` means all tables of a database.",
    required=True,
)
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
    summary="Report what is wrong with a table, what that costs, and the statement that mends it.",
    params=(
        _TABLES,
        Param(
            "severity",
            ParamType.STRING,
            "Report findings of this severity and of higher ones: `error`, `warning` or `info`.",
            default="info",
        ),
        _LISTS,
    ),
    columns=(
        Column("table", "string", "the table", nullable=False),
        Column("severity", "string", "`error`, `warning` or `info`", nullable=False),
        Column("finding", "string", "code of the finding; see [Health](../health.md)", nullable=False),
        Column("found", "string", "what was found, with numbers", nullable=False),
        Column("mend", "string", "statement that mends it; null where only a decision does"),
        Column("gain_bytes", "bigint", "bytes that the statement frees, or that need not be read any more"),
        Column("gain_files", "bigint", "how many files fewer there are after it"),
        Column("estimated", "boolean", "whether the gain is an estimate"),
    ),
    example="CALL sys.doctor('default.T');",
    reports=False,
)
class Doctor:
    """Examine a table, or all tables of a database: one row per finding, the most urgent first.

    Manifests, references and directory listings are read, data files are not, and nothing is changed. Without a
    finding there is no row. A table of `db.*` that cannot be read is a finding, too.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Examination]:
        """Find the tables."""
        tables = tuple(named_tables(ctx, args.text("table")))
        list_files = args.flag("list_files", default=True)
        return Plan((), _Examination(tables, _severity(args.optional_text("severity")), list_files))

    def execute(self, ctx: CallContext, plan: Plan[_Examination]) -> Report:
        """Examine them."""
        work, findings = plan.payload, list[Finding]()
        for number, (name, table) in enumerate(work.tables):
            ctx.progress(number, len(work.tables), f"examine {name}")
            findings += examined(ctx, name, table, list_files=work.list_files)
        wanted = list(Severity)[: list(Severity).index(work.least) + 1]
        chosen = in_order(f for f in findings if f.severity in wanted)
        return Report(result_rows=[tuple(f.to_plain().values()) for f in chosen])


def examined(ctx: CallContext, name: str, table: Table | PaimonError, *, list_files: bool) -> tuple[Finding, ...]:
    """Return the findings about a table; one that cannot be read is a finding."""
    if isinstance(table, PaimonError):
        return failed_diagnosis(name, table).findings
    try:
        return diagnose(table, ctx.runner, ctx.clock_millis(), list_directories=list_files).findings
    except PaimonError as e:
        return failed_diagnosis(name, e).findings


@dataclass(frozen=True, slots=True)
class _Verification:
    """The tables to verify, or why one cannot be loaded, and how deep."""

    tables: tuple[tuple[str, Table | PaimonError], ...]
    depth: Depth


@procedure(
    name="verify",
    summary="Check that every file that a snapshot, tag, branch or changelog needs exists and is sound.",
    params=(
        _TABLES,
        Param(
            "level",
            ParamType.STRING,
            "`metadata` reads metadata, deletion vectors and directory listings; `footers` also opens each data file; "
            "`data` also decodes all rows.",
            default="metadata",
        ),
    ),
    columns=(
        Column("table", "string", "the table", nullable=False),
        Column("defect", "string", "code of the defect; see [Health](../health.md)", nullable=False),
        Column("path", "string", "the file", nullable=False),
        Column("found", "string", "what was found, and what was expected", nullable=False),
        Column("needed_by", "string", "some of the references that need the file"),
        Column("references", "int", "how many references need it"),
    ),
    example="CALL sys.verify('default.T', 'footers');",
    reports=False,
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
        depth = _depth(args.optional_text("level"))
        return Plan((), _Verification(tuple(named_tables(ctx, args.text("table"))), depth))

    def execute(self, ctx: CallContext, plan: Plan[_Verification]) -> Report:
        """Verify them."""
        work, rows = plan.payload, []
        for number, (name, table) in enumerate(work.tables):
            ctx.progress(number, len(work.tables), f"verify {name}")
            found = _defects(ctx, table, work.depth)
            rows += [(name, d.defect, d.path, d.found, d.needed_by or None, d.references) for d in found]
        return Report(result_rows=rows)


def _defects(ctx: CallContext, table: Table | PaimonError, depth: Depth) -> list[VerifiedDefect]:
    if isinstance(table, PaimonError):
        return [failed_verification(table)]
    try:
        return list(verify(table, ctx.runner, depth))
    except PaimonError as e:
        return [failed_verification(e)]


def _depth(given: str | None) -> Depth:
    try:
        return Depth((given or Depth.METADATA).strip().lower())
    except ValueError:
        raise ArgumentError(
            f"level is '{given}'; the choices are {', '.join(Depth)}.", hint=did_you_mean(str(given), Depth)
        ) from None


def _severity(given: str | None) -> Severity:
    try:
        return Severity((given or Severity.INFO).strip().lower())
    except ValueError:
        raise ArgumentError(
            f"severity is '{given}'; the choices are {', '.join(Severity)}.",
            hint=did_you_mean(str(given), Severity),
        ) from None

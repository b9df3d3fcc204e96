"""Runs the examination of tables in this process, and prints it as a table, JSON or an HTML page."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from paimon_spark.calls.context import CallContext
from paimon_spark.calls.named_tables import named_tables
from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.cli.env import CatalogChoice
from paimon_spark.cli.result_formats import Answer, printed
from paimon_spark.engine.health.doctor import Diagnosis, diagnose, failed_diagnosis
from paimon_spark.engine.health.findings import Finding, Severity, in_order
from paimon_spark.engine.health.page import to_html, to_json
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import PaimonError
from paimon_spark.spec.quoted_text import sql_path

_COLUMNS = (
    ("table", "string"),
    ("severity", "string"),
    ("finding", "string"),
    ("found", "string"),
    ("remedy", "string"),
    ("gain_bytes", "bigint"),
    ("gain_files", "bigint"),
    ("estimated", "boolean"),
)


def named_by(database: str | None, table: str | None) -> str | None:
    """Return what two options name: a table, all tables of a database, or nothing."""
    if database is None:
        return table
    return f"{sql_path(database)}.*" if table is None else sql_path(database, table)


def examine(choice: CatalogChoice, table: str, *, listing: bool, threads: int) -> list[Diagnosis]:
    """Examine a table, or all tables of a database.

    Raises:
        PaimonError: there is no such table.
    """
    context = CallContext(
        catalog=open_catalog({**dict(choice.options), "warehouse": choice.warehouse}, creates=False),
        catalog_name=choice.name,
        runner=LocalRunner(threads),
        clock_millis=_now,
    )
    return list(_diagnoses(context, table, listing=listing))


def _diagnoses(context: CallContext, text: str, *, listing: bool) -> Iterator[Diagnosis]:
    for name, table in named_tables(context, text):
        try:
            if isinstance(table, PaimonError):
                yield failed_diagnosis(name, table)
            else:
                yield diagnose(table, context.runner, _now(), list_directories=listing)
        except PaimonError as e:
            yield failed_diagnosis(name, e)


def text_of(diagnoses: Sequence[Diagnosis], form: str) -> str:
    """Return the findings as ``table``, ``json``, ``csv``, ``tsv`` or ``html``."""
    if form == "html":
        return to_html(diagnoses, _now(), datetime.fromtimestamp(_now() / 1000).astimezone().tzinfo or UTC)
    if form == "json":
        return to_json(diagnoses, _now())
    rows = [tuple(f.to_plain().values()) for f in _findings(diagnoses)]
    return "\n".join(printed(Answer(_COLUMNS, rows), form)) if rows or form != "table" else ""


def summary_of(diagnoses: Sequence[Diagnosis]) -> str:
    """Return one line with the number of examined tables and of the findings by severity."""
    counts = Counter(f.severity for f in _findings(diagnoses))
    findings = ", ".join(f"{counts[s]} {s}" for s in Severity if counts[s]) or "no findings"
    return f"{len(diagnoses)} {'table' if len(diagnoses) == 1 else 'tables'} examined: {findings}"


def fails(diagnoses: Sequence[Diagnosis], least: str | None) -> bool:
    """Return whether there is a finding of severity `least` or a higher one."""
    order = list(Severity)
    return least is not None and any(
        order.index(f.severity) <= order.index(Severity(least)) for f in _findings(diagnoses)
    )


def _findings(diagnoses: Sequence[Diagnosis]) -> list[Finding]:
    return in_order(f for d in diagnoses for f in d.findings)


def _now() -> int:
    return time.time_ns() // 1_000_000

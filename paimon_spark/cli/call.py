"""Runs a CALL in this process, without a JVM: for small tables, cron jobs and ad-hoc use."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping

from paimon_spark.calls.context import CallContext, no_progress
from paimon_spark.calls.progress import reporter
from paimon_spark.calls.run import CallResult, only_reads, run_call
from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.cli.env import CatalogChoice
from paimon_spark.cli.interrupts import interruptible
from paimon_spark.cli.local_zone import LocalZone
from paimon_spark.cli.result_formats import Answer
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.spark.conf import session_options

_STATEMENT = re.compile(r"(\s|--[^\n]*(\n|$)|/\*.*?\*/)*(?P<word>call|explain)\b(?!\s*\()", re.IGNORECASE | re.DOTALL)
"""The start of a statement: after blanks and comments, a word that is not the name of a procedure."""


def statement_of(text: str, *, explain: bool) -> str:
    """Return the full statement for ``compact('db.t')``, ``sys.compact(…)``, a CALL or a procedure name."""
    text = text.strip().rstrip(";")
    start = _STATEMENT.match(text)
    if start is None:
        text = text if "(" in text else f"{text}()"
        text = "CALL " + (text if "." in text.split("(", 1)[0] else f"sys.{text}")
    return f"EXPLAIN {text}" if explain and (start is None or start["word"].lower() != "explain") else text


def run(choice: CatalogChoice, text: str, *, explain: bool, threads: int) -> CallResult:
    """Run the procedure on the tables of the catalog.

    Raises:
        PaimonError: the statement is invalid, or the procedure failed.
    """
    from paimon_spark.sqlparse.call import parse_call  # actions need no parser

    with interruptible():
        statement = parse_call(statement_of(text, explain=explain))
        creates = not only_reads(statement, choice.name)
        return run_call(statement, local_context(choice, threads, creates=creates))


def local_context(
    choice: CatalogChoice, threads: int, conf: Mapping[str, str] | None = None, *, creates: bool = True
) -> CallContext:
    """Return the context of a CALL in this process; `conf` are settings as those of a session.

    With `creates`, a missing warehouse is created.

    Raises:
        PaimonError: the catalog's options are wrong.
    """
    return CallContext(
        catalog=open_catalog({**dict(choice.options), "warehouse": choice.warehouse}, creates=creates),
        catalog_name=choice.name,
        runner=LocalRunner(threads),
        clock_millis=lambda: int(time.time() * 1000),
        zone=LocalZone(),
        progress=reporter(_write_progress) if sys.stderr.isatty() else no_progress,
        table_options=lambda identifier: session_options(conf or {}, choice.name, identifier),
    )


def _write_progress(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def answer_of(result: CallResult) -> Answer:
    """Return a result for printing."""
    return Answer(result.columns, result.rows, is_plan=result.is_plan)

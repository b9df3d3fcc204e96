"""Runs a CALL in this process, without a JVM: for small tables, cron jobs and ad-hoc use."""

from __future__ import annotations

import os
import sys
import time
from datetime import datetime, timedelta, tzinfo
from zoneinfo import available_timezones

from paimon_spark.calls.context import CallContext, no_progress
from paimon_spark.calls.progress import reporter
from paimon_spark.calls.report import NOTHING_TO_DO
from paimon_spark.calls.run import CallResult, run_call
from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.cli.env import CatalogChoice
from paimon_spark.cli.render import record_lines, table_lines
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.spec.rows import Timestamp

WIDE = 120
KEYWORDS = ("call ", "explain ")


class LocalZone(tzinfo):
    """The time zone of this machine, including past and future offsets."""

    @property
    def key(self) -> str:
        """Return the name of the zone's region; UTC if the machine does not provide it."""
        name = (
            os.environ.get("TZ", "").removeprefix(":") or os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
        )
        return name if name in available_timezones() else "UTC"

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        """Return the UTC offset of the local time."""
        return moment.replace(tzinfo=None).astimezone().utcoffset() if moment is not None else None

    def dst(self, moment: datetime | None) -> timedelta | None:
        """Return None: the system does not provide it."""
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        """Return the name of the zone."""
        return moment.replace(tzinfo=None).astimezone().tzname() if moment is not None else None


def statement_of(text: str, *, explain: bool) -> str:
    """Return the full statement for ``compact('db.t')``, ``sys.compact(…)``, a CALL or a procedure name."""
    text = text.strip().rstrip(";")
    if not text.lower().startswith(KEYWORDS):
        text = text if "(" in text else f"{text}()"
        text = "CALL " + (text if "." in text.split("(", 1)[0] else f"sys.{text}")
    return f"EXPLAIN {text}" if explain and not text.lower().startswith("explain ") else text


def run(choice: CatalogChoice, text: str, *, explain: bool, threads: int) -> CallResult:
    """Run the procedure on the tables of the catalog.

    Raises:
        PaimonError: the statement is invalid, or the procedure failed.
    """
    context = CallContext(
        catalog=open_catalog({**dict(choice.options), "warehouse": choice.warehouse}),
        catalog_name=choice.name,
        runner=LocalRunner(threads),
        clock_millis=lambda: int(time.time() * 1000),
        zone=LocalZone(),
        progress=reporter(_say) if sys.stderr.isatty() else no_progress,
    )
    return run_call(statement_of(text, explain=explain), context)


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def lines(result: CallResult, form: str) -> list[str]:
    """Return the result as lines: an aligned table, or tab-separated with a header.

    A plan without actions has no rows; the table output then has a sentence.
    """
    if form == "table" and not result.rows and result.is_plan:
        return [NOTHING_TO_DO]
    names = [name for name, _ in result.columns]
    rows = [["NULL" if v is None else _text(v) for v in row] for row in result.rows]
    if form == "tsv":
        return ["\t".join(row) for row in [names, *rows]]
    table = table_lines([names, *rows])
    return record_lines(names, rows[0]) if len(rows) == 1 and len(table[1]) > WIDE else table


def _text(value: object) -> str:
    if isinstance(value, Timestamp):
        return f"{datetime.fromtimestamp(value.millis / 1000):%Y-%m-%d %H:%M:%S.%f}"[:-3]
    return str(value).lower() if isinstance(value, bool) else str(value)

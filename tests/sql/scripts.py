"""Run a script of ``sql/`` in a Spark session and write down what every statement answered."""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.sql import SparkSession

from paimon_spark.cli.render import record_lines, table_lines
from paimon_spark.sqlparse.script import split_script

WIDE = 120
MASKS = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uuid>"),
    (re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}"), "<run>"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(?!')"), "<time>"),
    (re.compile(r"\(\d+ bytes\)"), "(<bytes>)"),
    (re.compile(r"(file:)?/[^\s,'\"\]]*/(?=[^/\s]*\.db/)"), "<warehouse>/"),
    (re.compile(r"^/[^\s]*/(?=(user|privilege)\.sys$)"), "<warehouse>/"),
    (re.compile(r"^/[^\s]*/warehouse\d*$"), "<warehouse>"),
)
#: Columns whose values differ from run to run.
VOLATILE = re.compile(
    r"(bytes|^user$|_ms$|size|duration|time_millis|commit_time|commit_user|creation_time)", re.IGNORECASE
)


def transcript(spark: SparkSession, script: Path) -> str:
    """Return the statements of the script, each with its answer below."""
    statements = split_script(script.read_text(encoding="utf-8"))
    parts = ("\n".join([f"{s.text};", *answer(spark, s.text)]) for s in statements)
    return "\n\n".join(parts) + "\n"


def answer(spark: SparkSession, statement: str) -> list[str]:
    """Return the rows as aligned lines; volatile values are masked."""
    frame = spark.sql(statement)
    names = frame.columns
    if not names:
        return []
    rows = [[_masked(n, v) for n, v in zip(names, row, strict=True)] for row in frame.collect()]
    if any("\n" in cell for row in rows for cell in row):
        return [line.rstrip() for row in rows for cell in row for line in cell.splitlines()]
    lines = table_lines([names, *rows])
    return record_lines(names, rows[0]) if len(rows) == 1 and len(lines[1]) > WIDE else lines


def _masked(name: str, value: object) -> str:
    if value is None:
        return "NULL"
    if VOLATILE.search(name):
        return "<volatile>"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    for pattern, to in MASKS:
        text = pattern.sub(to, text)
    return text

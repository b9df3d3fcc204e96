"""The `spark-submit` program for SQL scripts: ``spark-submit … submit.py script.sql [name=value …]``.

For clusters without the stock `spark-sql` program. Statements run in order in one session; results are printed as
tables; the first failing statement ends the run with a non-zero exit status. Jobs that the script has started run on:
the program ends when all of them have ended, or with a non-zero exit status when one has failed.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from paimon_spark.cli.render import table_lines
from paimon_spark.cli.script_progress import failure_at, without_position
from paimon_spark.sqlparse.script import Statement, split_script

SHOWN = 1000
_POLL_SECONDS = 0.5
_ECHO = "SQLQueryContextLogger"
"""PySpark logs errors through this logger as JSON lines; this program prints errors itself."""


def main(arguments: list[str]) -> int:
    """Run the script named first; further arguments set variables for ``${name}``."""
    if not arguments:
        sys.stderr.write("usage: spark-submit submit.py SCRIPT.sql [name=value …]\n")
        return 2
    try:
        script = Path(arguments[0]).read_text(encoding="utf-8-sig")
    except OSError as error:
        sys.stderr.write(f"The script {arguments[0]} cannot be read: {error.strerror}.\n")
        return 1
    spark = SparkSession.builder.getOrCreate()
    logging.getLogger(_ECHO).disabled = True
    try:
        for variable in arguments[1:]:
            name, _, value = variable.partition("=")
            spark.conf.set(name, value)
        jobs: dict[str, StreamingQuery] = {}
        for statement in split_script(script):
            try:
                show(spark.sql(statement.text))
            except PySparkException as error:
                sys.stderr.write(failure(error, statement, arguments[0]))
                return 1
            jobs |= {job.id: job for job in spark.streams.active}
        return wait_for(list(jobs.values()))
    finally:
        spark.stop()


def wait_for(jobs: Sequence[StreamingQuery]) -> int:
    """Wait until all jobs have ended; return the exit status, which is not 0 as soon as one has failed."""
    if running := [_name(job) for job in jobs if job.isActive]:
        sys.stderr.write(f"The script has ended, and its jobs run on: {', '.join(running)}.\n")
    while True:
        for job in jobs:
            if not job.isActive and (error := job.exception()) is not None:
                sys.stderr.write(f"The job {_name(job)} has failed: {error}\n")
                return 1
        if not any(job.isActive for job in jobs):
            return 0
        time.sleep(_POLL_SECONDS)


def _name(job: StreamingQuery) -> str:
    return f"'{job.name}'" if job.name else job.id


def failure(error: PySparkException, statement: Statement, script: str) -> str:
    """Return the message for a failed statement: the error, and the failing line of the script."""
    text, within = without_position(str(error))
    lines = statement.text.split("\n")
    if within is None or not 1 < within <= len(lines):
        return f"{text}\n{failure_at(statement, script)}\n"
    line = statement.line + within - 1
    return f"{text}\n{failure_at(statement, script, line, lines[within - 1].strip())}\n"


def show(answer: DataFrame) -> None:
    """Print a result of at most `SHOWN` rows; statements without columns print nothing."""
    if not answer.columns:
        return
    rows = [[_text(cell) for cell in row] for row in answer.take(SHOWN)]
    for line in table_lines([answer.columns, *rows]):
        print(line)
    print(flush=True)


def _text(cell: object) -> str:
    return "NULL" if cell is None else str(cell)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

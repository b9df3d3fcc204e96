"""CACHE TABLE: cached rows are those of the query, and follow the changes of statements."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from tests.query_results import rows

COUNT = "SELECT count(*) FROM t"


@contextmanager
def cached(spark: SparkSession) -> Iterator[None]:
    """Cache the table `t`, with its rows."""
    spark.sql("CACHE TABLE t")
    try:
        yield
    finally:
        spark.sql("UNCACHE TABLE IF EXISTS t")


@contextmanager
def setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    """Set an option of the session."""
    spark.sql(f"SET `spark.paimon.{key}` = `{value}`")
    try:
        yield
    finally:
        spark.sql(f"RESET `spark.paimon.{key}`")


@pytest.fixture
def table(spark: SparkSession) -> SparkSession:
    """The table `t` with a row in each of two snapshots."""
    spark.sql("CREATE TABLE t (k INT, v STRING)")
    spark.sql("INSERT INTO t VALUES (1, 'a')")
    spark.sql("INSERT INTO t VALUES (2, 'b')")
    return spark


OPTIONS = pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("incremental-between", "1,2", [(2, "b")]),
        ("scan.snapshot-id", "1", [(1, "a")]),
        ("scan.file-creation-time-millis", "99999999999999", []),
    ],
)


@OPTIONS
def test_an_option_of_the_session_reads_other_rows(
    table: SparkSession, key: str, value: str, expected: list[tuple]
) -> None:
    with cached(table):
        with setting(table, key, value):
            assert rows(table, "SELECT * FROM t") == expected
        assert rows(table, COUNT) == [(2,)]


@OPTIONS
def test_other_sessions_do_not_get_the_rows_of_an_option(
    table: SparkSession, key: str, value: str, expected: list[tuple]
) -> None:
    other = table.newSession()
    other.sql(f"USE paimon.{table.catalog.currentDatabase()}")
    with setting(table, key, value), cached(table):
        assert rows(table, "SELECT * FROM t") == expected
        assert rows(other, COUNT) == [(2,)]
        other.sql("INSERT INTO t VALUES (3, 'c')")
        assert rows(table, "SELECT * FROM t") == expected
        assert rows(other, COUNT) == [(3,)]


@pytest.mark.parametrize(
    ("statement", "count"),
    [
        ("INSERT INTO t /*+ OPTIONS('write-buffer-size' = '64 mb') */ VALUES (3, 'c')", 3),
        ("DELETE FROM t WHERE k = 1 AND __paimon_bucket >= 0", 1),
        ("INSERT OVERWRITE t SELECT * FROM t WHERE k = 1", 1),
        ("TRUNCATE TABLE t", 0),
    ],
)
def test_a_change_is_seen(table: SparkSession, statement: str, count: int) -> None:
    with cached(table):
        assert rows(table, COUNT) == [(2,)]
        table.sql(statement)
        assert rows(table, COUNT) == [(count,)]


def test_an_update_by_a_metadata_column_is_seen(table: SparkSession) -> None:
    with cached(table):
        table.sql("UPDATE t SET v = 'new' WHERE k = 2 AND __paimon_file_path IS NOT NULL")
        assert rows(table, "SELECT v FROM t WHERE k = 2") == [("new",)]


def test_rows_with_new_columns_are_seen(table: SparkSession) -> None:
    with cached(table), setting(table, "write.merge-schema", "true"):
        table.sql("INSERT INTO t BY NAME SELECT 3 AS k, 'c' AS v, 'new' AS w")
        assert rows(table, COUNT) == [(3,)]


def test_rows_after_a_new_column_are_seen(table: SparkSession) -> None:
    with cached(table):
        table.sql("ALTER TABLE t ADD COLUMN w INT")
        table.sql("INSERT INTO t VALUES (3, 'c', 3)")
        assert rows(table, "SELECT * FROM t WHERE k = 3") == [(3, "c", 3)]


def test_dropped_partitions_are_not_seen(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (k INT, p INT) PARTITIONED BY (p)")
    spark.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    with cached(spark):
        assert rows(spark, COUNT) == [(2,)]
        spark.sql("ALTER TABLE t DROP PARTITION (p = 1)")
        assert rows(spark, COUNT) == [(1,)]

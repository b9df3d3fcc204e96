"""SQL functions of the catalog."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession


@pytest.fixture
def partitioned(spark: SparkSession) -> SparkSession:
    spark.sql("CREATE TABLE t (id INT, n INT, dt STRING) PARTITIONED BY (n, dt)")
    spark.sql("INSERT INTO t VALUES (1, 9, 'b'), (2, 10, 'a'), (3, 10, 'c'), (4, 11, 'a'), (5, NULL, 'z')")
    spark.sql("DELETE FROM t WHERE n = 11")
    return spark


def test_max_pt_is_the_newest_partition_with_files(partitioned: SparkSession) -> None:
    spark = partitioned
    assert spark.sql("SELECT paimon.sys.max_pt('t')").first() == ("10",)
    spark.sql("CREATE VIEW newest AS SELECT id FROM t WHERE n = paimon.sys.max_pt('t')")
    query = spark.sql("SELECT id FROM newest ORDER BY id")
    assert [r.id for r in query.collect()] == [2, 3]
    spark.sql("INSERT INTO t VALUES (6, 12, 'a')")
    assert [r.id for r in spark.sql("SELECT id FROM newest").collect()] == [6]


def test_max_pt_prunes_partitions(partitioned: SparkSession) -> None:
    (plan,) = partitioned.sql("EXPLAIN SELECT id FROM t WHERE n = paimon.max_pt(lower('T'))").first() or ("",)
    assert "partitions=2/5" in plan


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("max_pt(dt)", "The argument .*dt of max_pt is not the name of a Paimon table"),
        ("max_pt(5)", r"takes the name of a table, not \(INT\)"),
        ("max_pt('flat')", "is not partitioned"),
        ("max_pt('empty')", "no partition with files and a value of 'dt'"),
        ("max_pt('nowhere')", "nowhere"),
        ("max_pt('spark_catalog.default.x')", "'spark_catalog.default.x', the argument of max_pt, is not"),
    ],
)
def test_max_pt_refuses(partitioned: SparkSession, call: str, told: str) -> None:
    partitioned.sql("CREATE TABLE flat (id INT)")
    partitioned.sql("CREATE TABLE empty (id INT, dt STRING) PARTITIONED BY (dt)")
    with pytest.raises(Exception, match=told):
        partitioned.sql(f"SELECT paimon.sys.{call} FROM t").collect()

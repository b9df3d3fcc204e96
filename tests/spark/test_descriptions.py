"""DESCRIBE of tables."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
_TYPES = (
    "k INT NOT NULL COMMENT 'the key', c CHAR(3), v VARCHAR(20) COMMENT 'it''s', d DECIMAL(12, 2), "
    "s STRUCT<a: INT, b: ARRAY<STRING>>, m MAP<STRING, DATE>, t TIMESTAMP, n TIMESTAMP_NTZ, bin BINARY, `odd name` STRING"
)


@pytest.mark.parametrize("layout", ["", "PARTITIONED BY (`odd name`, k)", "TBLPROPERTIES ('bucket' = '-1')"])
def test_describe_is_the_head_of_its_extended_form(spark: SparkSession, layout: str) -> None:
    spark.sql(f"CREATE TABLE t ({_TYPES}) {layout}")
    shown = spark.sql("DESCRIBE t")
    rows = shown.collect()
    head = spark.sql("DESCRIBE EXTENDED t").collect()[: len(rows)]
    assert rows == head
    assert len(rows) == 10 + (4 if "PARTITIONED" in layout else 0)
    assert shown.columns == ["col_name", "data_type", "comment"]
    assert [r.col_name for r in shown.where("comment = 'the key'").limit(1).collect()] == ["k"]


def test_describe_is_the_same_command_for_others(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (k INT)")
    described = spark.sql("DESCRIBE t")
    spark.sql("ALTER TABLE t ADD COLUMN v INT")
    assert [tuple(r) for r in described.collect()] == [("k", "int", None)]
    (plan,) = spark.sql("EXPLAIN DESCRIBE t").collect()
    assert "DescribeTable" in plan[0]
    spark.sql("DECLARE OR REPLACE a STRING")
    with pytest.raises(AnalysisException, match="INTO"):
        spark.sql("EXECUTE IMMEDIATE 'DESCRIBE t' INTO a")


def test_describe_of_a_partition_is_refused_by_spark(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (k INT, p STRING) PARTITIONED BY (p)")
    with pytest.raises(AnalysisException, match=r"(?i)partition"):
        spark.sql("DESCRIBE t PARTITION (p = 'a')").collect()

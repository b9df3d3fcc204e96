"""Columns that changed their type, read by Spark: values, filters, statistics, time zones, and changes that are refused."""

from __future__ import annotations

from itertools import product

import pytest
from pyspark.sql import SparkSession

from tests.query_results import rows
from tests.variants import mostly_slow

DOUBLES = {1: "1.0E20", 2: "1.0E-5", 3: "1.23456789E8", 4: "9999999.0", 5: "Infinity", 6: "NaN", 7: "-0.0", 8: None}

KEY = "'primary-key' = 'id', 'bucket' = '1', 'write-only' = 'true', "


def ids(spark: SparkSession, condition: str) -> list[int]:
    return [i for (i,) in rows(spark, f"SELECT id FROM t WHERE {condition} ORDER BY id")]


@pytest.mark.parametrize(
    ("key", "file_format"), mostly_slow(product(["", KEY], ["parquet", "orc", "avro"]), ("", "parquet"), (KEY, "orc"))
)
def test_filters_on_a_changed_column_see_the_new_values(spark: SparkSession, file_format: str, key: str) -> None:
    spark.sql(f"CREATE TABLE t (id INT, v DOUBLE) TBLPROPERTIES ({key}'file.format' = '{file_format}')")
    spark.sql("INSERT INTO t VALUES (1, 1e20D), (2, 1e-5D), (3, 123456789D), (4, 9999999D)")
    spark.sql("INSERT INTO t VALUES (5, double('infinity')), (6, double('nan')), (7, -0.0D), (8, NULL)")
    spark.sql("ALTER TABLE t ALTER COLUMN v TYPE STRING")
    assert dict(rows(spark, "SELECT * FROM t")) == DOUBLES
    for value in ["1.0E20", "-0.0", "NaN", "9999999.0", "2"]:
        for op, holds in {"=": str.__eq__, "<": str.__lt__, ">=": str.__ge__, "<>": str.__ne__}.items():
            want = [i for i, v in DOUBLES.items() if v is not None and holds(v, value)]
            assert ids(spark, f"v {op} '{value}'") == want, (op, value)
    assert ids(spark, "v IS NULL") == [8]
    assert ids(spark, "v LIKE '1.%'") == [1, 2, 3]
    assert ids(spark, "v IN ('1.0E-5', 'Infinity', '1e-5')") == [2, 5]
    assert rows(spark, "SELECT min(v), max(v), count(v) FROM t") == [("-0.0", "NaN", 7)]
    spark.sql("INSERT INTO t VALUES (9, 'text')")
    spark.sql("CALL sys.compact(table => 't')")
    assert dict(rows(spark, "SELECT * FROM t")) == DOUBLES | {9: "text"}


def test_decimals_that_do_not_fit_are_null_to_filters_too(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT, v INT)")
    spark.sql("INSERT INTO t VALUES (1, 5), (2, 123456)")
    spark.sql("ALTER TABLE t ALTER COLUMN v TYPE DECIMAL(12, 2)")
    assert [(i, str(v)) for i, v in rows(spark, "SELECT * FROM t ORDER BY id")] == [(1, "5.00"), (2, "123456.00")]
    assert ids(spark, "v > 5") == [2]
    assert ids(spark, "v IS NULL") == []


@pytest.mark.parametrize(("zone", "shown"), [("UTC", "2024-06-01 10:00:00"), ("Asia/Tokyo", "2024-06-01 19:00:00")])
def test_the_time_zone_of_the_session_counts(spark: SparkSession, zone: str, shown: str) -> None:
    spark.sql(
        "CREATE TABLE t (id INT, v TIMESTAMP) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'write-only' = 'true')"
    )
    spark.sql("INSERT INTO t VALUES (1, NULL)")
    spark.sql("INSERT INTO t VALUES (1, timestamp_micros(1717236000000000))")
    spark.sql("ALTER TABLE t ALTER COLUMN v TYPE STRING")
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", zone)
        ((_, text),) = rows(spark, "SELECT * FROM t")
        assert text == f"{shown}.000000"
        spark.sql("CALL sys.compact(table => 't')")
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert rows(spark, "SELECT v FROM t") == [(text,)]


@pytest.mark.parametrize(("old", "new"), [("DATE", "VARCHAR(10)"), ("TIMESTAMP", "CHAR(30)")])
def test_changes_that_no_reader_knows_are_refused(spark: SparkSession, old: str, new: str) -> None:
    spark.sql(f"CREATE TABLE t (id INT, v {old})")
    with pytest.raises(Exception, match=r"cannot change from|NOT_SUPPORTED_CHANGE_COLUMN"):
        spark.sql(f"ALTER TABLE t ALTER COLUMN v TYPE {new}")

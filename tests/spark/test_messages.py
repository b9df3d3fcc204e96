"""What a failed statement says: one short message with a code, and the way out."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, NumberFormatException, PySparkException, SparkRuntimeException
from pyspark.sql import SparkSession


def said(spark: SparkSession, sql: str, kind: type[Exception] = PySparkException) -> str:
    """Return the message of a statement that fails."""
    with pytest.raises(kind) as caught:
        spark.sql(sql)
    return str(caught.value)


@pytest.mark.parametrize("properties", ["", "TBLPROPERTIES ('primary-key' = 'id')"])
def test_a_value_that_fails_at_run_time_is_told_without_stacks(spark: SparkSession, properties: str) -> None:
    spark.sql(f"CREATE TABLE t (id INT NOT NULL, d INT, v STRING NOT NULL, s VARCHAR(3)) {properties}")
    spark.sql("INSERT INTO t VALUES (1, 1, 'a', 'abc')")
    for sql, code, kind in (
        ("UPDATE t SET d = 'abc'", "CAST_INVALID_INPUT", NumberFormatException),
        ("UPDATE t SET v = NULL", "NOT_NULL_ASSERT_VIOLATION", SparkRuntimeException),
        ("UPDATE t SET s = 'abcd'", "EXCEED_LIMIT_LENGTH", SparkRuntimeException),
        ("INSERT INTO t SELECT 2, 2, 'b', repeat('x', 4)", "EXCEED_LIMIT_LENGTH", SparkRuntimeException),
        (
            "INSERT INTO t SELECT 2, 2, IF(rand() < 2, NULL, 'b'), 'x'",
            "NOT_NULL_ASSERT_VIOLATION",
            SparkRuntimeException,
        ),
    ):
        message = said(spark, sql, kind)
        assert message.startswith(f"[{code}]")
        assert "JVM stacktrace" not in message
        assert "\tat " not in message
        assert "Job aborted" not in message
    assert [tuple(r) for r in spark.sql("SELECT * FROM t").collect()] == [(1, 1, "a", "abc")]


def test_a_missing_table_is_told_with_what_may_be_meant(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE orders (id INT)")
    database = spark.catalog.currentDatabase()
    for sql, meant in (
        ("SELECT * FROM `orders$snapshot`", "snapshots"),
        ("SELECT * FROM oders", "orders"),
        (f"SELECT * FROM paimon.{database}.oders", "orders"),
        ("SELECT * FROM range(1) WHERE id IN (SELECT id FROM oders)", "orders"),
        ("INSERT INTO oders VALUES (1)", "orders"),
        ("DELETE FROM oders WHERE id = 1", "orders"),
        ("DESCRIBE TABLE oders", "orders"),
        (f"SELECT * FROM {database}x.orders", database),
    ):
        with pytest.raises(AnalysisException, match=f"Did you mean '.*{meant}'") as caught:
            spark.sql(sql)
        assert str(caught.value).startswith("[TABLE_OR_VIEW_NOT_FOUND]")
        assert caught.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    with pytest.raises(AnalysisException, match="oders"):
        spark.range(1).writeTo("oders").append()
    spark.sql("DROP TABLE IF EXISTS oders")
    spark.sql("UNCACHE TABLE IF EXISTS oders")
    assert not spark.catalog.tableExists("oders")


def test_a_paimon_table_in_the_session_catalog_is_refused_with_the_catalogs_that_there_are(spark: SparkSession) -> None:
    spark.sql("USE spark_catalog.default")
    message = said(spark, "CREATE TABLE lost (id INT) USING paimon", AnalysisException)
    assert "Run USE paimon first, or name the catalog, as in paimon.default.lost." in message
    with pytest.raises(AnalysisException, match="USE paimon"):
        spark.range(1).write.format("paimon").saveAsTable("lost")
    with pytest.raises(AnalysisException, match="needs a path"):
        spark.read.format("paimon").load()
    assert not spark.catalog.tableExists("lost")


def plan_of(spark: SparkSession, sql: str) -> str:
    return "\n".join(r[0] for r in spark.sql(f"EXPLAIN {sql}").collect())


def test_explain_names_what_a_statement_does_to_which_table(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT, v STRING, p INT) PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'id,p')")
    name = f"{spark.catalog.currentDatabase()}.t"
    source = "(SELECT 1 AS id, 'x' AS v, 1 AS p) s"
    for sql, told in (
        ("INSERT INTO t VALUES (1, 'a', 1)", f"appends to {name}"),
        ("INSERT OVERWRITE t VALUES (1, 'a', 1)", f"overwrites {name}"),
        ("INSERT OVERWRITE t PARTITION (p = 1) VALUES (1, 'a')", f"overwrites {name} where p = 1"),
        ("DELETE FROM t WHERE id = 1 AND v IS NULL", f"DELETE FROM {name} WHERE ((t.id = 1) AND (t.v IS NULL))"),
        ("UPDATE t SET v = concat(v, '!') WHERE p > 1", f"UPDATE {name} SET v = concat(t.v, '!') WHERE (t.p > 1)"),
        (
            f"MERGE INTO t USING {source} ON t.id = s.id AND t.p = s.p WHEN MATCHED AND s.v = 'y' THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *",
            f"MERGE INTO {name} ON ((t.id = s.id) AND (t.p = s.p)) WHEN MATCHED AND (s.v = 'y') THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v, p) VALUES (s.id, s.v, s.p)",
        ),
        ("DELETE FROM t WHERE id IN (SELECT id FROM range(3))", f"DELETE FROM {name} WHERE"),
    ):
        for explained in (plan_of(spark, sql), plan_of(spark, f"FORMATTED {sql}"), plan_of(spark, f"EXTENDED {sql}")):
            assert told in explained
            assert "Lambda" not in explained
            assert "PaimonWrite@" not in explained
    assert spark.sql("SELECT count(*) FROM t").collect()[0][0] == 0

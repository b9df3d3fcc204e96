"""Changelog producers and deletion vectors of primary key tables in SQL, and the examples of their page."""

from __future__ import annotations

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession

from tests.spark.page_examples import run_examples

LOOKUP = "'primary-key'='id', 'bucket'='2', 'changelog-producer'='lookup'"
VECTORS = "'primary-key'='id', 'bucket'='2', 'deletion-vectors.enabled'='true'"
LOG = "rowkind STRING, id INT, v STRING"


def check(spark: SparkSession, sql: str, rows: list[tuple], columns: str) -> None:
    assert_df_equality(
        spark.sql(sql), spark.createDataFrame(rows, columns), ignore_row_order=True, ignore_nullable=True
    )


def log_since(spark: SparkSession, table: str, before: int) -> str:
    return f"SELECT * FROM paimon_incremental_query('`{table}$audit_log`', {before}, {last_snapshot(spark, table)})"


def last_snapshot(spark: SparkSession, table: str) -> int:
    return spark.sql(f"SELECT max(snapshot_id) FROM `{table}$snapshots`").first()[0]


def test_examples_of_the_page(spark: SparkSession) -> None:
    assert run_examples(spark, "changelogs.md") == 2


def test_lookup_reports_what_statements_change(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE t (id INT, v STRING) TBLPROPERTIES ({LOOKUP})")
    spark.sql("INSERT INTO t SELECT CAST(id AS INT), concat('v', id) FROM range(1000)")
    before = last_snapshot(spark, "t")
    spark.sql("UPDATE t SET v = 'x' WHERE id = 7")
    spark.sql("DELETE FROM t WHERE id IN (8, 2000)")
    spark.sql(
        """MERGE INTO t USING (SELECT * FROM VALUES (9, 'm'), (1000, 'n') AS s (id, v)) s ON t.id = s.id
           WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"""
    )
    rows = [
        ("-U", 7, "v7"), ("+U", 7, "x"), ("-D", 8, "v8"), ("-U", 9, "v9"), ("+U", 9, "m"), ("+I", 1000, "n"),
    ]  # fmt: skip
    check(spark, log_since(spark, "t", before), rows, LOG)
    spark.sql("INSERT OVERWRITE t VALUES (1, 'only')")
    check(spark, log_since(spark, "t", before), rows, LOG)


@pytest.mark.parametrize("wide", ["false", "true"])
def test_vectors_leave_nothing_to_merge(spark: SparkSession, wide: str) -> None:
    spark.sql(f"CREATE TABLE t (id INT, v STRING) TBLPROPERTIES ({VECTORS}, 'deletion-vectors.bitmap64'='{wide}')")
    spark.sql("INSERT INTO t SELECT CAST(id AS INT), concat('v', id) FROM range(200000)")
    spark.sql("UPDATE t SET v = 'x' WHERE id % 1000 = 7")
    spark.sql("DELETE FROM t WHERE id % 1000 = 8")
    rows = [(199800, 200)]
    check(spark, "SELECT count(*) AS n, count_if(v = 'x') AS x FROM t", rows, "n LONG, x LONG")
    plan = spark.sql("EXPLAIN SELECT sum(id) FROM t").first()[0]
    assert ", 0 merge)" in plan
    check(spark, "SELECT * FROM t WHERE id IN (1007, 1008, 1009)", [(1007, "x"), (1009, "v1009")], "id INT, v STRING")
    spark.sql("CALL sys.compact('t')")
    check(spark, "SELECT count(*) AS n, count_if(v = 'x') AS x FROM t", rows, "n LONG, x LONG")


def test_statements_change_rows_that_queries_do_not_see(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE t (id INT, v STRING) TBLPROPERTIES ({VECTORS}, 'write-only'='true')")
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    check(spark, "SELECT * FROM t", [], "id INT, v STRING")
    spark.sql("DELETE FROM t WHERE id = 1")
    spark.sql("UPDATE t SET v = upper(v) WHERE id = 2")
    spark.sql("CALL sys.compact('t')")
    check(spark, "SELECT * FROM t", [(2, "B"), (3, "c")], "id INT, v STRING")

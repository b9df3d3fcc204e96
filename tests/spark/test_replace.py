"""CREATE OR REPLACE TABLE and REPLACE TABLE: history stays, and a failure changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.query_results import rows


def table_files(spark: SparkSession, warehouse: Path, table: str) -> set[str]:
    database = spark.sql("SELECT current_database()").collect()[0][0]
    root = warehouse / f"{database}.db" / table
    return {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and not p.name.startswith(".")}


@pytest.fixture
def table(spark: SparkSession) -> SparkSession:
    spark.sql("CREATE TABLE t (id INT, v STRING) TBLPROPERTIES ('primary-key'='id', 'bucket'='2')")
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    return spark


def test_snapshots_of_before_stay_readable(table: SparkSession) -> None:
    table.sql(
        "CREATE OR REPLACE TABLE t TBLPROPERTIES ('primary-key'='k', 'bucket'='1') AS "
        "SELECT concat('k', id) AS k, id * 2 AS v, id FROM t WHERE id > 1"
    )
    assert rows(table, "SELECT * FROM t ORDER BY k") == [("k2", 4, 2), ("k3", 6, 3)]
    assert rows(table, "SELECT * FROM t VERSION AS OF 1 ORDER BY id") == [(1, "a"), (2, "b"), (3, "c")]
    assert rows(table, "SELECT snapshot_id, schema_id, commit_kind, operation FROM `t$snapshots`") == [
        (1, 0, "APPEND", "WRITE"),
        (2, 1, "OVERWRITE", "CREATE_OR_REPLACE_TABLE_AS_SELECT"),
    ]
    assert rows(table, "SELECT schema_id FROM `t$schemas`") == [(0,), (1,)]
    table.sql("INSERT INTO t VALUES ('k2', 5, 2)")
    table.sql("CALL sys.compact('t')")
    assert rows(table, "SELECT * FROM t ORDER BY k") == [("k2", 5, 2), ("k3", 6, 3)]
    assert "bucket=1" in str(rows(table, "SELECT * FROM `t$options` WHERE key = 'bucket'")).replace("', '", "=")


def test_a_replacement_without_rows_truncates(table: SparkSession) -> None:
    table.sql("REPLACE TABLE t (id INT, w DOUBLE) TBLPROPERTIES ('bucket'='-1')")
    assert rows(table, "SELECT * FROM t") == []
    assert table.table("t").columns == ["id", "w"]
    assert rows(table, "SELECT count(*) FROM t VERSION AS OF 1") == [(3,)]
    table.sql("INSERT INTO t VALUES (7, 1.5)")
    assert rows(table, "SELECT * FROM t") == [(7, 1.5)]


def test_a_failed_query_leaves_the_table_as_it_was(table: SparkSession, warehouse: Path) -> None:
    before = table_files(table, warehouse, "t")
    failing = "SELECT id, CAST(IF(id = 19000, raise_error('no'), 1) AS INT) AS v FROM range(0, 20000, 1, 1)"
    with pytest.raises(Exception, match="no"):
        table.sql(f"CREATE OR REPLACE TABLE t AS {failing}")
    assert table_files(table, warehouse, "t") == before
    assert rows(table, "SELECT * FROM t ORDER BY id") == [(1, "a"), (2, "b"), (3, "c")]
    with pytest.raises(Exception, match="no"):
        table.sql(f"CREATE TABLE n AS {failing}")
    assert rows(table, "SHOW TABLES LIKE 'n'") == []


def test_what_cannot_be_replaced(table: SparkSession) -> None:
    with pytest.raises(Exception, match="partition columns"):
        table.sql("CREATE OR REPLACE TABLE t (id INT, v STRING) PARTITIONED BY (v)")
    with pytest.raises(AnalysisException, match="NOT_FOUND"):
        table.sql("REPLACE TABLE nosuch (id INT)")
    with pytest.raises(Exception, match="parquet"):
        table.sql("CREATE OR REPLACE TABLE t (id INT) USING parquet")
    assert rows(table, "SELECT count(*) FROM t") == [(3,)]


def test_create_or_replace_also_creates(spark: SparkSession) -> None:
    spark.sql("CREATE OR REPLACE TABLE c AS SELECT 1 AS id")
    spark.sql("CREATE TABLE d AS SELECT 2 AS id")
    spark.range(3).writeTo("c").createOrReplace()
    assert rows(spark, "SELECT count(*) FROM c") == [(3,)]
    assert rows(spark, "SELECT operation FROM `d$snapshots`") == [("CREATE_TABLE_AS_SELECT",)]


def test_partitions_are_replaced_under_the_new_schema(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE p (id INT, dt STRING) PARTITIONED BY (dt)")
    spark.sql("INSERT INTO p VALUES (1, 'a'), (2, 'b')")
    spark.sql("CREATE OR REPLACE TABLE p PARTITIONED BY (dt) AS SELECT dt, id AS k FROM p WHERE dt = 'b'")
    assert rows(spark, "SELECT k, dt FROM p") == [(2, "b")]
    assert rows(spark, "SELECT partition FROM `p$partitions`") == [("dt=b",)]
    assert rows(spark, "SELECT id, dt FROM p VERSION AS OF 1 ORDER BY id") == [(1, "a"), (2, "b")]


def test_snapshots_of_before_are_read_by_their_own_options(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE s (k INT, v INT) TBLPROPERTIES ('primary-key'='k', 'bucket'='1', 'merge-engine'='aggregation', "
        "'fields.v.aggregate-function'='sum')"
    )
    spark.sql("INSERT INTO s VALUES (1, 10)")
    spark.sql("INSERT INTO s VALUES (1, 5)")
    spark.sql("CREATE OR REPLACE TABLE s AS SELECT 7 AS k, 7 AS v")
    assert rows(spark, "SELECT * FROM s VERSION AS OF 2") == [(1, 15)]
    assert rows(spark, "SELECT * FROM s WITH ('scan.snapshot-id' = '2')") == [(1, 15)]
    assert rows(spark, "SELECT * FROM s") == [(7, 7)]
    with pytest.raises(Exception, match="another primary key"):
        spark.sql("SELECT * FROM paimon_incremental_query('s', 1, 3)").collect()
    with pytest.raises(Exception, match="another primary key"):
        spark.sql("CALL sys.rollback('s', '2')")
    with pytest.raises(Exception, match=r"data-file\.path-directory"):
        spark.sql("CREATE OR REPLACE TABLE s (k INT) TBLPROPERTIES ('data-file.path-directory'='data')")

"""INSERT by `upsert-key` through all doors of Spark: in the engine process and as a job."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from paimon_spark import connect
from tests.query_results import rows

ORDERED = "'upsert-key' = 'k,j', 'sequence.field' = 's'"
KINDS = [
    "",
    "'deletion-vectors.enabled' = 'true'",
    "'bucket' = '2', 'bucket-key' = 'v'",
    "'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true'",
]
JOB = {"few": "100000", "job": "0"}
sizes = pytest.mark.parametrize("size", JOB)


def create(
    spark: SparkSession, size: str, *options: str, columns: str = "k INT, j CHAR(2), s BIGINT, v STRING"
) -> None:
    spark.conf.set("spark.paimon.write.local-max-rows", JOB[size])
    spark.sql(f"CREATE TABLE t ({columns}) TBLPROPERTIES ({', '.join(o for o in options if o)})")


def all_rows(spark: SparkSession) -> list[tuple]:
    return sorted(rows(spark, "SELECT * FROM t"), key=str)


def last(spark: SparkSession) -> tuple:
    return rows(spark, "SELECT snapshot_id, operation FROM `t$snapshots` ORDER BY 1 DESC LIMIT 1")[0]


@sizes
@pytest.mark.parametrize("kind", KINDS)
def test_the_largest_sequence_remains(spark: SparkSession, size: str, kind: str) -> None:
    create(spark, size, ORDERED, kind)
    spark.sql("INSERT INTO t VALUES (1, 'a', 1, 'p'), (1, 'a ', 2, 'q'), (NULL, NULL, 3, 'r'), (2, NULL, NULL, 'n')")
    spark.sql(
        "INSERT INTO t VALUES (NULL, NULL, 2, 'R'), (1, 'a', 2, 'Q'), (2, NULL, 0, 'm'), (3, 'b', 1, 'x'), (3, 'b', 0, 'y')"
    )
    wanted = [(1, "a ", 2, "Q"), (2, None, 0, "m"), (3, "b ", 1, "x"), (None, None, 3, "r")]
    assert all_rows(spark) == wanted
    assert ("MERGE",) in rows(spark, "SELECT operation FROM `t$snapshots`")
    spark.sql("INSERT INTO t SELECT * FROM t")
    assert all_rows(spark) == wanted


@sizes
def test_of_equal_sequences_the_largest_row_remains(spark: SparkSession, size: str) -> None:
    create(spark, size, "'upsert-key' = 'k', 'sequence.field' = 's'", columns="k INT, s BIGINT, v INT DEFAULT 5")
    spark.sql("INSERT INTO t VALUES (0, 0, 0)")
    statement = "INSERT INTO t VALUES (1, 1, NULL), (1, 1, 3)"
    assert ".t with the same k\n" in spark.sql(f"EXPLAIN {statement}").head()[0]
    spark.sql(statement)
    assert all_rows(spark) == [(0, 0, 0), (1, 1, 5)]


@sizes
def test_several_new_rows_of_a_key(spark: SparkSession, size: str) -> None:
    create(spark, size, "'upsert-key' = 'k'")
    spark.sql("INSERT INTO t VALUES (1, 'a', 1, 'p'), (NULL, 'a', 1, 'q')")
    spark.sql("INSERT INTO t VALUES (2, 'a', 1, 'p'), (2, 'a', 2, 'q'), (NULL, 'a', 2, 'r')")
    before = last(spark)
    with pytest.raises(Exception, match=r"MERGE_CARDINALITY_VIOLATION\] Several of the new rows .*'upsert-key' is k"):
        spark.sql("INSERT INTO t VALUES (NULL, 'a', 3, 'p'), (NULL, 'a', 4, 'q')")
    assert last(spark) == before
    assert [r[0] for r in all_rows(spark)] == [1, 2, 2, None]


@sizes
def test_by_name_and_with_new_columns(spark: SparkSession, size: str) -> None:
    create(spark, size, "'upsert-key' = 'k'", columns="k INT, v STRING DEFAULT 'none'")
    spark.createDataFrame([(1, "a"), (2, "b")], "k INT, v STRING").writeTo("t").append()
    spark.sql("INSERT INTO t BY NAME SELECT 2 AS k")
    spark.sql("INSERT INTO t (v, k) VALUES ('c', 3)")
    assert all_rows(spark) == [(1, "a"), (2, "none"), (3, "c")]
    more = spark.createDataFrame([("A", 1, 5), ("d", 4, 6)], "v STRING, k INT, n INT")
    more.writeTo("t").option("write.merge-schema", "true").append()
    assert all_rows(spark) == [(1, "A", 5), (2, "none", None), (3, "c", None), (4, "d", 6)]


def test_overwrites_and_tables_of_a_query(spark: SparkSession) -> None:
    spark.sql(
        f"CREATE TABLE t TBLPROPERTIES ({ORDERED}) AS SELECT * FROM VALUES (1, 1, 1, 'a'), (1, 1, 2, 'b') AS t(k, j, s, v)"
    )
    assert all_rows(spark) == [(1, 1, 2, "b")]
    spark.sql("INSERT OVERWRITE t VALUES (1, 1, 1, 'a'), (1, 1, 2, 'b')")
    assert all_rows(spark) == [(1, 1, 1, "a"), (1, 1, 2, "b")]


@sizes
def test_loaded_files(spark: SparkSession, size: str, tmp_path: Path) -> None:
    create(spark, size, ORDERED)
    spark.sql("INSERT INTO t VALUES (1, 'a', 1, 'p')")
    (tmp_path / "new.csv").write_text("1,a,2,q\n2,b,1,r\n2,b,2,s\n")
    spark.sql(f"COPY INTO t FROM '{tmp_path}' FILE_FORMAT = (TYPE = CSV)")
    assert all_rows(spark) == [(1, "a ", 2, "q"), (2, "b ", 2, "s")]


@sizes
@pytest.mark.parametrize("mode", ["append", "update"])
def test_batches_of_a_stream(spark: SparkSession, size: str, mode: str, tmp_path: Path) -> None:
    create(spark, size, "'upsert-key' = 'word'", columns="word STRING, n BIGINT")
    spark.sql("CREATE TABLE words (word STRING)")
    for words in ("('a'), ('b')", "('a'), (NULL)", "('a')"):
        spark.sql(f"INSERT INTO words VALUES {words}")
        read = spark.readStream.table("words")
        counted = (
            read.groupBy("word").count().withColumnRenamed("count", "n")
            if mode == "update"
            else read.selectExpr("word", "1L AS n")
        )
        stream = (
            counted.writeStream.outputMode(mode).option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        )
        stream.toTable("t").awaitTermination()
    counts = [("a", 3), ("b", 1), (None, 1)] if mode == "update" else [("a", 1), ("b", 1), (None, 1)]
    assert all_rows(spark) == sorted(counts, key=str)


def test_more_digits_than_spark_compares(spark: SparkSession, warehouse: Path) -> None:
    database = rows(spark, "SELECT current_database()")[0][0]
    schema = pa.schema([("k", pa.timestamp("ns")), ("v", pa.string())])
    table = connect(warehouse).create_table(f"{database}.t", schema, options={"upsert-key": "k"})
    for n in (1, 2):
        table.append(pa.table([pa.array([1, 2], pa.timestamp("ns")), [f"a{n}", f"b{n}"]], schema=schema))
    with pytest.raises(Exception, match=r"UNSUPPORTED_FEATURE.*'k'.*more than 6 digits.*append of the Python API"):
        spark.sql("INSERT INTO t VALUES (TIMESTAMP_NTZ '2026-01-01 00:00:00', 'c')")
    assert sorted(table.to_arrow().column("v").to_pylist()) == ["a2", "b2"]


def test_the_option_is_checked(spark: SparkSession) -> None:
    for options, columns, error in (
        ("'upsert-key' = 'z'", "k INT", "The column 'z', which the option 'upsert-key' names, does not exist"),
        ("'upsert-key' = 'k,k'", "k INT", "'upsert-key' names 'k' more than once"),
        ("'upsert-key' = 'k'", "k ARRAY<INT>", "'k' of type ARRAY cannot be in the upsert key"),
        ("'upsert-key' = 'k', 'primary-key' = 'k'", "k INT", "'upsert-key' = 'k' is for tables without a primary key"),
    ):
        with pytest.raises(Exception, match=error):
            spark.sql(f"CREATE TABLE x ({columns}) TBLPROPERTIES ({options})")
    spark.sql("CREATE TABLE t (k INT, v STRING)")
    spark.sql("INSERT INTO t VALUES (1, 'a')")
    with pytest.raises(Exception, match="does not exist"):
        spark.sql("ALTER TABLE t SET TBLPROPERTIES ('upsert-key' = 'z')")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('upsert-key' = 'k')")
    spark.sql("ALTER TABLE t RENAME COLUMN k TO id")
    spark.sql("INSERT INTO t VALUES (1, 'b')")
    assert all_rows(spark) == [(1, "b")]
    with pytest.raises(Exception, match="upsert-key"):
        spark.sql("ALTER TABLE t DROP COLUMN id")
    spark.sql("ALTER TABLE t UNSET TBLPROPERTIES ('upsert-key')")
    spark.sql("INSERT INTO t VALUES (1, 'c')")
    assert all_rows(spark) == [(1, "b"), (1, "c")]

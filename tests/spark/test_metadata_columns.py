"""The hidden columns with the location of a row: file, position, partition and bucket."""

from __future__ import annotations

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession

from tests.query_results import rows

FORMATS = pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
PLACES = "__paimon_file_path, __paimon_row_index, __paimon_bucket"


def files_of(spark: SparkSession, table: str) -> dict[str, int]:
    return dict(rows(spark, f"SELECT file_path, bucket FROM `{table}$files`"))


@FORMATS
def test_rows_of_append_tables(spark: SparkSession, file_format: str) -> None:
    spark.sql(
        "CREATE TABLE t (id INT, d DATE, `a b` STRING) PARTITIONED BY (d, `a b`) "
        f"TBLPROPERTIES ('bucket'='3', 'bucket-key'='id', 'file.format'='{file_format}')"
    )
    for start in (0, 20):
        spark.sql(
            f"INSERT INTO t SELECT id, date_add(DATE '2026-01-01', CAST(id % 2 AS INT)), 'x y/' || id % 2 FROM range({start}, {start} + 20)"
        )
    found = rows(spark, f"SELECT id, {PLACES}, __paimon_partition FROM t")
    files = files_of(spark, "t")
    assert len(found) == 40
    assert {path for _, path, *_ in found} == set(files)
    assert all(files[path] == bucket for _, path, _, bucket, _ in found)
    assert {(tuple(partition), n % 2) for n, *_, partition in found} == {
        (tuple(r), r[1] == "x y/1") for r in rows(spark, "SELECT DISTINCT d, `a b` FROM t")
    }
    for path in files:
        assert sorted(index for _, p, index, *_ in found if p == path) == list(
            range(sum(p == path for _, p, *_ in found))
        )
    assert rows(spark, "SELECT count(*) FROM t WHERE __paimon_partition.`a b` = 'x y/0'") == [(20,)]
    partition = spark.sql("SELECT DISTINCT __paimon_partition.d FROM t WHERE id = 1")
    assert_df_equality(partition, spark.sql("SELECT d FROM t WHERE id = 1"), ignore_nullable=True)


@FORMATS
def test_merged_rows_are_where_the_last_version_is(spark: SparkSession, file_format: str) -> None:
    spark.sql(
        "CREATE TABLE t (id INT, v STRING) TBLPROPERTIES "
        f"('primary-key'='id', 'bucket'='2', 'write-only'='true', 'file.format'='{file_format}')"
    )
    spark.sql("INSERT INTO t SELECT id, 'old' FROM range(20)")
    old = set(files_of(spark, "t"))
    spark.sql("INSERT INTO t SELECT id, 'new' FROM range(5, 10)")
    spark.sql("DELETE FROM t WHERE id = 7")
    found = rows(spark, f"SELECT id, v, {PLACES} FROM t")
    files = files_of(spark, "t")
    assert {n for n, *_ in found} == set(range(20)) - {7}
    assert all((path in old) == (v == "old") and files[path] == bucket for _, v, path, _, bucket in found)
    assert all(index < 20 for *_, index, _ in found)
    by_file = rows(spark, "SELECT __paimon_file_path, id FROM t ORDER BY 1, __paimon_row_index")
    assert by_file == sorted(by_file)
    spark.sql("CALL sys.compact(table => 't', compact_strategy => 'full')")
    found = rows(spark, f"SELECT id, v, {PLACES} FROM t")
    assert {path for _, _, path, *_ in found} == set(files_of(spark, "t"))
    assert {n for n, *_ in found} == set(range(20)) - {7}


def test_they_have_to_be_named(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT, c CHAR(3)) PARTITIONED BY (c)")
    spark.sql("INSERT INTO t VALUES (7, 'x'), (8, 'x')")
    assert rows(spark, "SELECT * FROM t WHERE id = 8") == [(8, "x  ")]
    both = spark.sql("SELECT *, __paimon_bucket, __paimon_row_index, __paimon_partition FROM t ORDER BY 1")
    assert both.columns == ["id", "c", "__paimon_bucket", "__paimon_row_index", "__paimon_partition"]
    assert both.schema["__paimon_partition"].dataType.simpleString() == "struct<c:string>"
    assert [tuple(r)[2:4] for r in both.collect()] == [(0, 0), (0, 1)]
    described = rows(spark, "DESCRIBE TABLE EXTENDED t")
    start = described.index(("# Metadata Columns", "", ""))
    assert [(r[0], r[1]) for r in described[start + 1 : start + 5]] == [
        ("__paimon_file_path", "string"),
        ("__paimon_row_index", "bigint"),
        ("__paimon_partition", "struct<c:string>"),
        ("__paimon_bucket", "int"),
    ]


def test_tables_without_partitions_have_empty_ones(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    assert rows(spark, f"SELECT {PLACES}, __paimon_partition FROM t") == []
    spark.sql("INSERT INTO t VALUES (7)")
    frame = spark.sql("SELECT *, __paimon_bucket, __paimon_partition FROM t")
    assert frame.schema["__paimon_partition"].dataType.simpleString() == "struct<>"
    assert [tuple(r) for r in frame.collect()] == [(7, 0, ())]


def test_conditions_on_them(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT, v INT) TBLPROPERTIES ('bucket'='2', 'bucket-key'='id')")
    spark.sql("INSERT INTO t SELECT id, 0 FROM range(20)")
    in_first = rows(spark, "SELECT count(*) FROM t WHERE __paimon_bucket = 0")[0][0]
    assert 0 < in_first < 20
    assert rows(spark, "SELECT __paimon_bucket, count(*) FROM t GROUP BY 1 ORDER BY 1") == [
        (0, in_first),
        (1, 20 - in_first),
    ]
    joined = "SELECT count(*) FROM t a JOIN t b ON a.__paimon_file_path = b.__paimon_file_path AND a.id = b.id"
    assert rows(spark, joined) == [(20,)]


@pytest.mark.parametrize(
    "properties",
    ["'bucket'='2', 'bucket-key'='id'", "'primary-key'='id', 'bucket'='2'"],
)
def test_rows_are_changed_by_where_they_are(spark: SparkSession, properties: str) -> None:
    spark.sql(f"CREATE TABLE t (id INT, v INT, c CHAR(2)) TBLPROPERTIES ({properties})")
    spark.sql("INSERT INTO t SELECT id, 0, 'x' FROM range(20)")
    in_first = rows(spark, "SELECT count(*) FROM t WHERE __paimon_bucket = 0")[0][0]
    spark.sql("UPDATE t SET v = __paimon_bucket + 1 WHERE __paimon_bucket = 0")
    assert rows(spark, "SELECT v, count(*) FROM t GROUP BY v ORDER BY v") == [(0, 20 - in_first), (1, in_first)]
    spark.sql(
        "MERGE INTO t USING (SELECT 1 AS b) s ON t.__paimon_bucket = s.b "
        "WHEN MATCHED AND t.__paimon_row_index >= 0 THEN UPDATE SET v = 2"
    )
    assert rows(spark, "SELECT v, count(*) FROM t GROUP BY v ORDER BY v") == [(1, in_first), (2, 20 - in_first)]
    spark.sql("DELETE FROM t WHERE __paimon_bucket = 1")
    assert rows(spark, "SELECT DISTINCT v, c, __paimon_bucket FROM t") == [(1, "x ", 0)]
    spark.sql("DELETE FROM t WHERE __paimon_row_index IS NULL")
    assert rows(spark, "SELECT count(*) FROM t") == [(in_first,)]


def test_a_column_of_that_name_comes_first(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT, __paimon_bucket STRING)")
    spark.sql("INSERT INTO t VALUES (1, 'mine')")
    assert rows(spark, "SELECT * FROM t") == [(1, "mine")]
    assert rows(spark, "SELECT __paimon_bucket, __paimon_row_index FROM t") == [("mine", 0)]


def test_the_past_and_views(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT) TBLPROPERTIES ('primary-key'='id', 'bucket'='2')")
    spark.sql("INSERT INTO t VALUES (1)")
    first = rows(spark, f"SELECT {PLACES} FROM t")
    spark.sql("INSERT INTO t VALUES (1)")
    assert rows(spark, f"SELECT {PLACES} FROM t VERSION AS OF 1") == first
    spark.sql(f"CREATE OR REPLACE TEMP VIEW places AS SELECT id, {PLACES} FROM t VERSION AS OF 1")
    assert [r[1:] for r in rows(spark, "SELECT * FROM places")] == first

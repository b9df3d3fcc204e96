"""INSERT and SELECT: buckets, overwrites, push-down, what EXPLAIN shows."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.query_results import rows


def plan(spark: SparkSession, sql: str) -> str:
    return "\n".join(r[0] for r in spark.sql("EXPLAIN " + sql).collect())


def files_of(spark: SparkSession, warehouse: Path, table: str) -> set[str]:
    database = spark.sql("SELECT current_database()").collect()[0][0]
    root = warehouse / f"{database}.db" / table
    return {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and p.name.startswith("data-")}


@pytest.mark.parametrize("bucket", ["2", "-1"])
def test_upserts_replace_rows(spark: SparkSession, bucket: str) -> None:
    spark.sql(f"CREATE TABLE t (id INT, v STRING) TBLPROPERTIES ('primary-key'='id', 'bucket'='{bucket}')")
    spark.sql("INSERT INTO t SELECT id, concat('a', id) FROM range(20000)")
    spark.sql("INSERT INTO t SELECT id * 2, 'b' FROM range(100)")
    spark.sql("INSERT INTO t VALUES (1, 'c'), (1, 'd')")
    assert rows(spark, "SELECT count(*), count(DISTINCT id) FROM t") == [(20000, 20000)]
    assert rows(spark, "SELECT * FROM t WHERE id IN (0, 1, 2, 3) ORDER BY id") == [
        (0, "b"),
        (1, "d"),
        (2, "b"),
        (3, "a3"),
    ]


def test_dynamic_buckets_grow_and_keep_their_keys(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE t (p INT, id INT, v INT) PARTITIONED BY (p) "
        "TBLPROPERTIES ('primary-key'='p,id', 'dynamic-bucket.target-row-num'='3000')"
    )
    for v in range(3):
        spark.sql(f"INSERT INTO t SELECT id % 2, id, {v} FROM range(12000)")
    assert rows(spark, "SELECT p, count(*), sum(v) FROM t GROUP BY p ORDER BY p") == [
        (0, 6000, 12000),
        (1, 6000, 12000),
    ]
    assert rows(spark, "SELECT count(DISTINCT bucket) > 1 FROM `t$files`") == [(True,)]


def test_every_type_comes_back(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE t (b BOOLEAN, i8 TINYINT, i16 SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, m DECIMAL(30, 5), "
        "s STRING, c CHAR(4), vc VARCHAR(9), x BINARY, dt DATE, ts TIMESTAMP, nt TIMESTAMP_NTZ, "
        "a ARRAY<INT>, mp MAP<STRING, INT>, r STRUCT<p: INT, q: STRING>)"
    )
    spark.sql(
        "INSERT INTO t VALUES (true, 1S, 2S, 3, 4L, 1.5F, 2.5D, 12345.67891, 'text', 'ab', 'var', X'0102', "
        "DATE'2024-05-14', TIMESTAMP'2024-05-14 10:20:30.123456', TIMESTAMP_NTZ'2024-05-14 10:20:30.5', "
        "array(1, NULL), map('k', 1), named_struct('p', 1, 'q', 'z'))"
    )
    (got,) = spark.sql("SELECT * FROM t").collect()
    assert got.m == decimal.Decimal("12345.67891")
    assert got.c == "ab  "
    assert got.nt == datetime.datetime(2024, 5, 14, 10, 20, 30, 500000)
    assert got.a == [1, None]
    assert got.mp == {"k": 1}
    assert got.r == (1, "z")


def test_static_and_dynamic_overwrite(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (k INT, dt STRING) PARTITIONED BY (dt)")
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    spark.sql("INSERT OVERWRITE t PARTITION (dt = 'a') VALUES (9)")
    assert rows(spark, "SELECT * FROM t ORDER BY k") == [(2, "b"), (9, "a")]
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    spark.sql("INSERT OVERWRITE t VALUES (7, 'b'), (8, 'c')")
    assert rows(spark, "SELECT * FROM t ORDER BY k") == [(7, "b"), (8, "c"), (9, "a")]
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "static")
    spark.sql("INSERT OVERWRITE t VALUES (5, 'z')")
    assert rows(spark, "SELECT * FROM t") == [(5, "z")]
    spark.sql("TRUNCATE TABLE t")
    assert rows(spark, "SELECT * FROM t") == []


def test_ctas_write_to_and_save_as_table(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE c TBLPROPERTIES ('primary-key'='id') AS SELECT 1 AS id, 'x' AS v")
    assert rows(spark, "SELECT * FROM c") == [(1, "x")]
    frame = spark.range(3).selectExpr("CAST(id AS INT) AS id", "'y' AS v")
    frame.writeTo("c").append()
    assert rows(spark, "SELECT count(*) FROM c") == [(3,)]
    frame.write.format("paimon").saveAsTable("s")
    frame.write.format("paimon").mode("append").saveAsTable("s")
    assert rows(spark, "SELECT count(*) FROM s") == [(6,)]
    with pytest.raises(Exception, match=r"(?i)already exists"):
        frame.write.format("paimon").saveAsTable("s")


def test_ctas_saves_an_old_state(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t AS SELECT 1 AS k")
    spark.sql("INSERT INTO t VALUES (2)")
    spark.sql("SET spark.paimon.scan.snapshot-id = 1")
    spark.sql("CREATE TABLE old AS SELECT * FROM t")
    spark.sql("RESET spark.paimon.scan.snapshot-id")
    assert rows(spark, "SELECT * FROM old") == [(1,)]


def test_save_and_load_by_path(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    frame = spark.range(4).selectExpr("id", "id % 2 AS p")
    frame.write.format("paimon").partitionBy("p").save(path)
    assert spark.read.format("paimon").load(path).where("p = 1").count() == 2
    frame.write.format("paimon").mode("append").save(path)
    assert spark.read.format("paimon").load(path).count() == 8
    frame.write.format("paimon").mode("overwrite").save(path)
    assert spark.read.format("paimon").load(path).count() == 4
    with pytest.raises(Exception, match=r"(?i)exists"):
        frame.write.format("paimon").save(path)


def test_a_path_is_read_as_of_a_version(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for i in (1, 2):
        spark.range(i).selectExpr("id").write.format("paimon").mode("append").save(path)

    def count(**options: str) -> int:
        return spark.read.format("paimon").options(**options).load(path).count()

    assert (count(), count(versionAsOf="1"), count(timestampAsOf="2200-01-01")) == (3, 1, 3)
    with pytest.raises(PySparkException, match=r"SNAPSHOT_NOT_FOUND"):
        count(versionAsOf="7")
    with pytest.raises(PySparkException, match=r"INVALID_OPTION.*'scan.snapshot-id' = '2'.*VERSION AS OF"):
        count(versionAsOf="1", **{"scan.snapshot-id": "2"})
    with pytest.raises(PySparkException, match=r"INVALID_OPTION.*A stream of .* cannot begin"):
        spark.readStream.format("paimon").option("versionAsOf", "1").load(path)


def test_a_path_has_its_own_schema(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.range(2).write.format("paimon").save(path)
    assert spark.read.format("paimon").schema("id LONG").load(path).count() == 2
    for reader in (spark.read, spark.readStream):
        with pytest.raises(PySparkException, match=r"INVALID_ARGUMENT.*columns id BIGINT.*, not k INT"):
            reader.format("paimon").schema("k INT").load(path).explain()


def test_a_save_that_fails_leaves_no_table(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    failing = spark.range(4).selectExpr("IF(id = 3, raise_error('too many'), id) AS id")
    for mode in ("errorifexists", "append", "overwrite"):
        with pytest.raises(Exception, match="too many"):
            failing.write.format("paimon").mode(mode).save(str(path))
        assert not path.exists()
    spark.range(3).write.format("paimon").save(str(path))
    with pytest.raises(Exception, match="too many"):
        failing.write.format("paimon").mode("append").save(str(path))
    assert spark.read.format("paimon").load(str(path)).count() == 3


def test_time_travel(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT) TBLPROPERTIES ('primary-key'='id')")
    spark.sql("INSERT INTO t VALUES (1)")
    spark.sql("CALL sys.create_tag(table => 't', tag => 'one')")
    spark.sql("INSERT INTO t VALUES (2)")
    assert rows(spark, "SELECT * FROM t VERSION AS OF 1") == [(1,)]
    assert rows(spark, "SELECT count(*) FROM t VERSION AS OF 'one'") == [(1,)]
    assert rows(spark, "SELECT count(*) FROM t TIMESTAMP AS OF '2999-01-01'") == [(2,)]
    assert spark.read.option("scan.snapshot-id", "1").table("t").count() == 1
    with pytest.raises(Exception, match=r"TAG_NOT_FOUND|SNAPSHOT_NOT_FOUND"):
        spark.sql("SELECT * FROM t VERSION AS OF 'nosuch'").collect()


def test_raw_splits_are_scanned_natively_and_pruned(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT, v STRING, dt STRING) PARTITIONED BY (dt)")
    spark.sql("INSERT INTO t SELECT id, concat('v', id), concat('d', id % 4) FROM range(100)")
    shown = plan(spark, "SELECT id FROM t WHERE dt = 'd1' AND id > 50")
    assert "FileScan parquet" in shown
    assert "GreaterThan(id,50)" in shown
    assert "partitions=1/4" in shown
    assert "MapInArrow" not in shown
    assert rows(spark, "SELECT count(*) FROM t WHERE dt = 'd1' AND id > 50") == [(12,)]


def test_only_splits_that_are_merged_go_through_workers(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT, v INT) TBLPROPERTIES ('primary-key'='id', 'bucket'='1')")
    spark.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    spark.sql("INSERT INTO t VALUES (2, 3)")
    assert "PaimonMergeRead" in plan(spark, "SELECT * FROM t")
    assert rows(spark, "SELECT count(*) FROM t") == [(2,)]
    assert "PaimonMetadata" not in plan(spark, "SELECT count(*) FROM t")
    spark.sql("CALL sys.compact('t')")
    assert "PaimonMergeRead" not in plan(spark, "SELECT * FROM t")
    assert "PaimonMetadata" in plan(spark, "SELECT count(*) FROM t")
    assert rows(spark, "SELECT count(*) FROM t") == [(2,)]
    assert rows(spark, "SELECT * FROM t WHERE v = 2") == []


@pytest.mark.parametrize("properties", ["", "TBLPROPERTIES ('primary-key'='id', 'bucket'='1')"])
def test_single_fields_of_structs(spark: SparkSession, properties: str) -> None:
    spark.sql(
        "CREATE TABLE t (id INT, s STRUCT<x: INT, y: STRING, z: STRUCT<a: INT, b: STRING>>, "
        f"l ARRAY<STRUCT<p: INT, q: STRING>>) {properties}"
    )
    nested = "named_struct('x', 1, 'y', 'zebra', 'z', named_struct('a', 2, 'b', 'bee'))"
    spark.sql(f"INSERT INTO t VALUES (1, {nested}, array(named_struct('p', 3, 'q', 'queue'))), (2, NULL, NULL)")
    assert rows(spark, "SELECT s.y FROM t ORDER BY id") == [("zebra",), (None,)]
    assert rows(spark, "SELECT s.z.b, l.q FROM t WHERE s.y = 'zebra'") == [("bee", ["queue"])]
    assert rows(spark, "SELECT count(s.x), max(s.z.b) FROM t") == [(1, "bee")]


@pytest.mark.parametrize("options", ["'bucket'='-1'", "'primary-key'='k', 'bucket'='1'", "'file.format'='orc'"])
def test_nan_is_found_whatever_the_statistics_of_a_file_say(spark: SparkSession, options: str) -> None:
    spark.sql(f"CREATE TABLE t (k INT, d DOUBLE, f FLOAT, s STRUCT<x: DOUBLE>) TBLPROPERTIES ({options})")
    nan = "double('NaN'), float('NaN'), named_struct('x', double('NaN'))"
    numbers = "1.0D, 1.0F, named_struct('x', 1.0D)"
    spark.sql(f"INSERT INTO t VALUES (1, {numbers}), (2, {nan}), (3, {numbers})")
    for where in (
        "d > 5",
        "d <> 1",
        "d NOT IN (1, 2)",
        "d = double('NaN')",
        "NOT f <= 5",
        "f <=> float('NaN')",
        "s.x > 5",
    ):
        assert rows(spark, f"SELECT k FROM t WHERE {where}") == [(2,)], where
    assert rows(spark, "SELECT k FROM t WHERE d < 5 ORDER BY k") == [(1,), (3,)]
    shown = plan(spark, "SELECT k FROM t WHERE d > 5 AND k > 0")
    assert "GreaterThan(k,0)" in shown
    assert "GreaterThan(d," not in shown
    spark.sql("DELETE FROM t WHERE d > 5")
    assert rows(spark, "SELECT k FROM t ORDER BY k") == [(1,), (3,)]


def test_a_float_equals_the_number_that_it_stores(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (k INT, f FLOAT)")
    spark.sql("INSERT INTO t VALUES (1, 0.1F)")
    for where in ("f = 0.1F", "f <= CAST(0.1 AS FLOAT)", "f IN (0.1F, 7F)", "f <=> 0.1F"):
        assert rows(spark, f"SELECT k FROM t WHERE {where}") == [(1,)], where


def test_dynamic_partition_pruning_reaches_the_native_scan(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE f (id INT, dt INT) PARTITIONED BY (dt)")
    spark.sql("INSERT INTO f SELECT id, id % 5 FROM range(500)")
    spark.sql("CREATE TABLE d (dt INT, name STRING)")
    spark.sql("INSERT INTO d SELECT id, concat('n', id) FROM range(5)")
    query = "SELECT count(*) FROM f JOIN d ON f.dt = d.dt WHERE d.name = 'n3'"
    assert rows(spark, query) == [(100,)]
    assert "dynamicpruning" in plan(spark, query)


def test_joins_and_subqueries_over_merge_splits(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT, v INT) TBLPROPERTIES ('primary-key'='id', 'bucket'='2')")
    spark.sql("INSERT INTO t SELECT id, id FROM range(100)")
    spark.sql("INSERT INTO t SELECT id, -id FROM range(50)")
    assert rows(spark, "SELECT count(*) FROM t a JOIN t b ON a.v = b.v") == [(100,)]
    assert rows(spark, "SELECT count(*) FROM t WHERE v = (SELECT max(v) FROM t)") == [(1,)]
    spark.sql("INSERT INTO t SELECT id, v + 1000 FROM t")
    assert rows(spark, "SELECT min(v), count(*) FROM t") == [(951, 100)]


def test_a_failed_insert_leaves_the_table_as_it_was(spark: SparkSession, warehouse: Path) -> None:
    spark.sql("CREATE TABLE t (id INT, v INT) TBLPROPERTIES ('primary-key'='id', 'bucket'='4')")
    spark.sql("INSERT INTO t VALUES (1, 1)")
    before = files_of(spark, warehouse, "t")
    failing = "SELECT id, CAST(IF(id = 19000, raise_error('no'), 1) AS INT) FROM range(20000)"
    with pytest.raises(Exception, match="no"):
        spark.sql(f"INSERT INTO t {failing}")
    assert files_of(spark, warehouse, "t") == before
    assert rows(spark, "SELECT * FROM t") == [(1, 1)]


def test_a_null_in_a_not_null_column_is_told_by_name(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT, v INT) TBLPROPERTIES ('primary-key'='id')")
    with pytest.raises(Exception, match="id"):
        spark.sql("INSERT INTO t VALUES (CAST(NULL AS INT), 1)")
    assert rows(spark, "SELECT * FROM t") == []


def test_no_stray_files_appear_in_the_working_directory(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    spark.sql("INSERT INTO t VALUES (1)")
    assert not {"metastore_db", "derby.log"} & {p.name for p in Path.cwd().iterdir()}


def test_columns_left_out_get_their_default(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT, v INT DEFAULT 7, c CHAR(3), p STRING) PARTITIONED BY (p)")
    spark.sql("INSERT INTO t (id, p) VALUES (1, 'x')")
    spark.sql("INSERT INTO t PARTITION (p = 'y') (c, id) SELECT 'ab', 2")
    assert rows(spark, "SELECT * FROM t ORDER BY id") == [(1, 7, None, "x"), (2, 7, "ab ", "y")]
    spark.sql("CREATE TABLE n (id INT NOT NULL, v INT)")
    with pytest.raises(Exception, match="id"):
        spark.sql("INSERT INTO n (v) VALUES (1)")


def test_a_limit_over_merged_files_is_exact(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE t (p INT, id INT, v STRING) PARTITIONED BY (p) "
        "TBLPROPERTIES ('primary-key'='p,id', 'bucket'='2', 'write-only'='true')"
    )
    for text in ("old", "new"):
        spark.sql(f"INSERT INTO t SELECT CAST(id % 3 AS INT), CAST(id AS INT), '{text}' FROM range(3000)")
    for query, count in (
        ("SELECT * FROM t LIMIT 7", 7),
        ("SELECT * FROM t LIMIT 2999", 2999),
        ("SELECT * FROM t LIMIT 5000", 3000),
        ("SELECT * FROM t LIMIT 10 OFFSET 2995", 5),
        ("SELECT * FROM t WHERE p = 1 LIMIT 998", 998),
        ("SELECT * FROM t WHERE id >= 2990 LIMIT 50", 10),
        ("SELECT * FROM t WHERE v = 'old' LIMIT 5", 0),
        ("SELECT id, v FROM (SELECT * FROM t LIMIT 40) WHERE p < 3", 40),
    ):
        found = spark.sql(query).collect()
        assert len({row.id for row in found}) == len(found) == count, query
        assert all(row.v == "new" for row in found)
    last = spark.sql("SELECT id FROM t ORDER BY id DESC LIMIT 3").collect()
    assert [row.id for row in last] == [2999, 2998, 2997]

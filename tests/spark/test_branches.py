"""Branches, fallback reads and ANALYZE TABLE through SQL and the reader's options."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.query_results import rows


@pytest.fixture
def branched(spark: SparkSession) -> SparkSession:
    """The table t (k, a) with the branch b of its first snapshot."""
    spark.sql("CREATE TABLE t (k INT, a INT) TBLPROPERTIES ('primary-key'='k', 'bucket'='1')")
    spark.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    spark.sql("CALL sys.create_tag('t', 'start')")
    spark.sql("CALL sys.create_branch('t', 'b', 'start')")
    spark.sql("INSERT INTO t VALUES (3, 3)")
    return spark


def test_a_branch_is_read_and_written_by_its_name(branched: SparkSession) -> None:
    branched.sql("INSERT INTO `t$branch_b` VALUES (9, 9)")
    branched.sql("UPDATE `t$branch_b` SET a = 20 WHERE k = 2")
    branched.sql("DELETE FROM `t$branch_b` WHERE k = 1")
    branched.sql(
        "MERGE INTO `t$branch_b` USING (SELECT 9 AS k) s ON `t$branch_b`.k = s.k WHEN MATCHED THEN UPDATE SET a = 90"
    )
    assert rows(branched, "SELECT * FROM `t$branch_b` ORDER BY k") == [(2, 20), (9, 90)]
    assert rows(branched, "SELECT * FROM t ORDER BY k") == [(1, 1), (2, 2), (3, 3)]
    assert rows(branched, "SELECT * FROM `t$branch_b` VERSION AS OF 'start' ORDER BY k") == [(1, 1), (2, 2)]
    assert rows(branched, "SELECT count(*) FROM `t$branch_b$snapshots` WHERE commit_kind = 'APPEND'") == [(5,)]


def test_the_option_branch_chooses_a_branch_to_read(branched: SparkSession, warehouse: Path) -> None:
    assert rows(branched, "SELECT * FROM t WITH ('branch'='b') ORDER BY k") == [(1, 1), (2, 2)]
    reader = branched.read.option("branch", "b")
    assert reader.table("t").count() == 2
    path = warehouse / f"{branched.catalog.currentDatabase()}.db" / "t"
    assert branched.read.format("paimon").option("branch", "b").load(str(path)).count() == 2
    assert branched.read.format("paimon").load(str(path)).count() == 3
    with pytest.raises(PySparkException, match="name of the table has the branch 'b'"):
        branched.sql("SELECT * FROM `t$branch_b` WITH ('branch'='c')").collect()
    with pytest.raises(PySparkException, match="branch"):
        branched.sql("INSERT INTO t WITH ('branch'='b') VALUES (5, 5)")
    assert rows(branched, "SELECT count(*) FROM t") == [(3,)]


def test_a_branch_has_a_schema_of_its_own(branched: SparkSession) -> None:
    branched.sql("ALTER TABLE `t$branch_b` ADD COLUMN d STRING")
    branched.sql("INSERT INTO `t$branch_b` VALUES (4, 4, 'd')")
    assert rows(branched, "SELECT * FROM `t$branch_b` ORDER BY k") == [(1, 1, None), (2, 2, None), (4, 4, "d")]
    assert branched.table("t").columns == ["k", "a"]
    branched.sql("CALL sys.fast_forward('t', 'b')")
    assert rows(branched, "SELECT * FROM t ORDER BY k") == [(1, 1, None), (2, 2, None), (4, 4, "d")]


def test_a_fallback_branch_completes_partitions(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (dt STRING, name STRING, amount BIGINT) PARTITIONED BY (dt)")
    spark.sql("CALL sys.create_branch('t', 'test')")
    spark.sql("ALTER TABLE `t$branch_test` SET TBLPROPERTIES ('bucket-key'='name', 'bucket'='2')")
    spark.sql("INSERT INTO t VALUES ('20240725', 'apple', 5), ('20240725', 'banana', 7)")
    spark.sql(
        "INSERT INTO `t$branch_test` VALUES ('20240725', 'peach', 9), ('20240726', 'cherry', 3), ('20240726', 'pear', 6)"
    )
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('scan.fallback-branch'='test')")
    own = [("20240725", "apple", 5), ("20240725", "banana", 7)]
    other = [("20240726", "cherry", 3), ("20240726", "pear", 6)]
    assert rows(spark, "SELECT * FROM t ORDER BY dt, name") == own + other
    assert rows(spark, "SELECT count(*) FROM t") == [(4,)]
    assert rows(spark, "SELECT name FROM t WHERE dt = '20240726' AND amount > 3") == [("pear",)]
    assert rows(spark, "SELECT count(*) FROM (SELECT * FROM t LIMIT 3)") == [(3,)]
    joined = "SELECT t.name FROM t JOIN (SELECT '20240726' AS d) s ON t.dt = s.d ORDER BY 1"
    assert rows(spark, joined) == [("cherry",), ("pear",)]
    spark.sql("DELETE FROM t WHERE amount > 5")
    assert rows(spark, "SELECT * FROM t ORDER BY dt, name") == [own[0], *other]
    spark.sql("INSERT INTO t VALUES ('20240726', 'mango', 8)")
    assert rows(spark, "SELECT * FROM t ORDER BY dt, name") == [own[0], ("20240726", "mango", 8)]
    assert rows(spark, "SELECT count(*) FROM `t$branch_test`") == [(3,)]
    with pytest.raises(PySparkException, match=r"scan\.fallback-branch"):
        spark.sql("CALL sys.delete_branch('t', 'test')")


def estimate(spark: SparkSession, sql: str) -> str:
    """Return the first line of the optimized plan with the optimizer's estimate."""
    plan: str = spark.sql(f"EXPLAIN COST {sql}").collect()[0][0]
    return next(line for line in plan.splitlines() if line.startswith("Aggregate"))


def test_analyze_stores_what_the_optimizer_uses(spark: SparkSession) -> None:
    columns = "k INT, s STRING, d DATE, n DECIMAL(8,2), b BOOLEAN, t TIMESTAMP_NTZ, x ARRAY<INT>"
    spark.sql(f"CREATE TABLE t ({columns}) TBLPROPERTIES ('primary-key'='k', 'bucket'='1')")
    spark.sql("ANALYZE TABLE t COMPUTE STATISTICS")
    assert rows(spark, "SELECT * FROM `t$statistics`") == []
    spark.sql(
        "INSERT INTO t VALUES (1, 'a', DATE'2024-01-01', 1.25, true, TIMESTAMP_NTZ'2024-01-01 10:00:00', array(1)),"
        " (2, NULL, NULL, NULL, NULL, NULL, NULL),"
        " (3, 'ccc', DATE'2023-01-01', -7, false, TIMESTAMP_NTZ'2024-01-02 10:00:00.5', array(2))"
    )
    spark.sql("INSERT INTO t (k, s) VALUES (3, 'ddd')")
    spark.sql("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS k, S, d, n, b, t")
    ((snapshot, count, size, text),) = rows(
        spark, "SELECT snapshot_id, mergedRecordCount, mergedRecordSize, colstat FROM `t$statistics`"
    )
    assert (snapshot, count) == (2, 3)
    assert isinstance(size, int)
    assert size > 0
    shape = "struct<{}>".format(
        ",".join(
            f"{c}:struct<colId:int,distinctCount:bigint,min:string,max:string,nullCount:bigint,avgLen:bigint>"
            for c in "ksdnbt"
        )
    )
    ((parsed,),) = rows(spark, f"SELECT from_json(colstat, '{shape}') FROM `t$statistics`")
    found = parsed.asDict(recursive=True)  # type: ignore[attr-defined]
    assert found["k"] == {"colId": 0, "distinctCount": 3, "min": "1", "max": "3", "nullCount": 0, "avgLen": 4}
    assert found["s"] == {"colId": 1, "distinctCount": 2, "min": None, "max": None, "nullCount": 1, "avgLen": 2}
    assert (found["d"]["min"], found["d"]["max"]) == ("19723", "19723")
    assert (found["n"]["min"], found["b"]["max"], found["t"]["min"]) == ("1.25", "true", "2024-01-01 10:00:00.000000")
    assert isinstance(text, str)
    last = rows(spark, "SELECT commit_kind, delta_record_count FROM `t$snapshots` ORDER BY snapshot_id DESC LIMIT 1")
    assert last == [("ANALYZE", 0)]
    described = dict(rows(spark, "DESCRIBE TABLE EXTENDED t k"))
    assert described["min"] == "Optional[1]", "as Spark writes it"
    assert [described[n] for n in ("max", "num_nulls", "distinct_count")] == ["Optional[3]", "0", "3"]
    assert dict(rows(spark, "DESCRIBE EXTENDED t s"))["num_nulls"] == "1"
    assert "max" not in dict(rows(spark, "DESCRIBE EXTENDED t x")), "a column that was not analyzed"
    grouped = "SELECT b, count(*) FROM t GROUP BY b"
    assert "rowCount" not in estimate(spark, grouped)
    spark.conf.set("spark.sql.cbo.enabled", "true")
    assert "rowCount=2)" in estimate(spark, grouped)
    assert rows(spark, "SELECT k, d FROM t WHERE t > TIMESTAMP_NTZ'2024-01-01' AND n < 2") == [
        (1, datetime.date(2024, 1, 1))
    ]


def test_statistics_stay_until_the_schema_changes(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (k INT)")
    spark.sql("INSERT INTO t VALUES (1)")
    spark.sql("ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS")
    spark.sql("INSERT INTO t VALUES (2)")
    spark.sql("CALL sys.compact('t')")
    assert rows(spark, "SELECT snapshot_id, mergedRecordCount FROM `t$statistics`") == [(1, 1)]
    spark.sql("ALTER TABLE t ADD COLUMN c INT")
    spark.sql("INSERT INTO t VALUES (3, 3)")
    assert rows(spark, "SELECT snapshot_id FROM `t$statistics`") == []


def test_statistics_are_those_of_the_newest_rows(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (k INT)")
    spark.sql("INSERT INTO t VALUES (1)")
    spark.sql("INSERT INTO t VALUES (2)")
    spark.sql("ALTER TABLE t RENAME COLUMN k TO n")
    spark.conf.set("spark.paimon.scan.snapshot-id", "1")
    spark.sql("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS n")
    spark.conf.unset("spark.paimon.scan.snapshot-id")
    assert rows(spark, "SELECT snapshot_id, schema_id, mergedRecordCount FROM `t$statistics`") == [(2, 1, 2)]


@pytest.mark.parametrize(
    ("statement", "match"),
    [
        ("ANALYZE TABLE t COMPUTE STATISTICS NOSCAN", "NOSCAN"),
        ("ANALYZE TABLE t PARTITION (p = 1) COMPUTE STATISTICS", "PARTITION"),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS nosuch", "nosuch"),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS x", "x"),
        ("ANALYZE TABLE `t$files` COMPUTE STATISTICS", "system table"),
    ],
)
def test_what_cannot_be_analyzed_is_refused(spark: SparkSession, statement: str, match: str) -> None:
    spark.sql("CREATE TABLE t (k INT, x ARRAY<INT>, p INT) PARTITIONED BY (p)")
    spark.sql("INSERT INTO t VALUES (1, array(1), 1)")
    with pytest.raises(PySparkException, match=match):
        spark.sql(statement)
    assert rows(spark, "SELECT count(*) FROM `t$snapshots`") == [(1,)]

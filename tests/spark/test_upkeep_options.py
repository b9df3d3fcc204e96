"""Options of commits, tags and expiry in SQL: of the table, the session and the statement."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.query_results import rows

CONTENT = "SELECT k, v, p FROM t ORDER BY k, p"


def names(place: Path) -> list[str]:
    return sorted(p.name for p in place.iterdir() if not p.name.startswith(".")) if place.exists() else []


def test_options_of_a_table(spark: SparkSession, warehouse: Path) -> None:
    spark.sql(
        "CREATE TABLE t (k INT, v STRING, p STRING) PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'k,p', "
        "'bucket' = '1', 'snapshot.expire.clean-empty-directories' = 'true', 'tag.create-success-file' = 'true', "
        "'manifest.compression' = 'snappy', 'write.sequence-number-init-mode' = 'snapshot', 'write-only' = 'true', "
        "'metastore.partitioned-table' = 'true')"
    )
    place = warehouse / f"{spark.catalog.currentDatabase()}.db" / "t"
    spark.sql("INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'y')")
    spark.sql("INSERT INTO t VALUES (2, 'c', 'y')")
    spark.sql("ALTER TABLE t CREATE TAG one AS OF VERSION 1")
    assert names(place / "tag" / "tag-success-file") == ["one_SUCCESS"]
    spark.sql("ALTER TABLE t DELETE TAG one")
    assert names(place / "tag" / "tag-success-file") == []
    assert b"snappy" in (place / "manifest" / names(place / "manifest")[0]).read_bytes()[:9000]
    spark.sql("DELETE FROM t WHERE p = 'x'")
    spark.sql("CALL sys.expire_snapshots(table => 't', retain_max => 1, older_than => '2100-01-01')")
    assert [n for n in names(place) if n.startswith("p=")] == ["p=y"]
    assert rows(spark, CONTENT) == [(2, "c", "y")]
    spark.sql("INSERT INTO t VALUES (2, 'd', 'y'), (3, 'e', 'x')")
    assert rows(spark, CONTENT) == [(2, "d", "y"), (3, "e", "x")]
    with pytest.raises(PySparkException, match="Choose one of zstd, snappy, deflate, bzip2, xz, null"):
        spark.sql("CREATE TABLE u (k INT) TBLPROPERTIES ('manifest.compression' = 'lz4')")


def test_commits_after_changes_of_others(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (k INT, v STRING, p STRING) PARTITIONED BY (p)")
    spark.sql("INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'y')")
    spark.sql("INSERT OVERWRITE t PARTITION (p = 'x') VALUES (1, 'c')")
    strict = "commit.strict-mode.last-safe-snapshot"
    spark.sql(f"INSERT INTO t /*+ OPTIONS('{strict}' = '1') */ VALUES (3, 'd', 'y')")
    with pytest.raises(PySparkException, match=r"p=x in snapshot 2 \(OVERWRITE\), after the last safe snapshot 1"):
        spark.sql(f"INSERT INTO t /*+ OPTIONS('{strict}' = '1') */ VALUES (3, 'd', 'x')")
    spark.sql(f"SET spark.paimon.{strict} = 1")
    try:
        with pytest.raises(PySparkException, match="snapshot 2"):
            spark.sql("DELETE FROM t WHERE k = 1")
    finally:
        spark.sql(f"RESET spark.paimon.{strict}")
    spark.sql(f"ALTER TABLE t SET TBLPROPERTIES ('{strict}' = '2')")
    spark.sql("INSERT INTO t VALUES (4, 'e', 'x')")
    assert rows(spark, CONTENT) == [(1, "c", "x"), (2, "b", "y"), (3, "d", "y"), (4, "e", "x")]


def test_deleted_rows_are_removed_with_new_ids(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE t (k INT, v STRING) TBLPROPERTIES ('row-tracking.enabled' = 'true', "
        "'data-evolution.enabled' = 'true', 'deletion-vectors.enabled' = 'true')"
    )
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    spark.sql("DELETE FROM t WHERE k = 2")
    spark.sql("CALL sys.compact(table => 't', options => 'data-evolution.compaction.rewrite-row-ids=true')").collect()
    assert rows(spark, "SELECT k, v, _ROW_ID FROM t ORDER BY k") == [(1, "a", 3), (3, "c", 4)]

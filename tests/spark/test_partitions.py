"""ALTER TABLE … DROP PARTITION and TRUNCATE TABLE … PARTITION, with whole and partial specs."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.query_results import rows


@pytest.fixture
def table(spark: SparkSession) -> SparkSession:
    spark.sql("CREATE TABLE p (k INT, dt STRING, hh INT) PARTITIONED BY (dt, hh)")
    spark.sql("INSERT INTO p VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 1), (4, 'b', 2), (5, 'c', 1), (6, NULL, 1)")
    return spark


def left(spark: SparkSession) -> list[int]:
    return [k for (k,) in rows(spark, "SELECT k FROM p ORDER BY k")]


def test_partitions_are_dropped(table: SparkSession) -> None:
    table.sql("ALTER TABLE p DROP PARTITION (dt = 'a', hh = 2)")
    assert left(table) == [1, 3, 4, 5, 6]
    table.sql("ALTER TABLE p DROP PARTITION (dt = 'b')")
    assert left(table) == [1, 5, 6]
    assert [r[0] for r in rows(table, "SHOW PARTITIONS p")] == ["dt=a/hh=1", "dt=c/hh=1", "dt=null/hh=1"]
    table.sql("ALTER TABLE p DROP PARTITION (dt = 'a'), PARTITION (dt = 'c', hh = 1)")
    assert left(table) == [6]
    operations = rows(table, "SELECT operation FROM `p$snapshots` WHERE commit_kind = 'OVERWRITE'")
    assert len(operations) == 3


def test_a_partial_spec_may_name_a_later_column(table: SparkSession) -> None:
    table.sql("ALTER TABLE p DROP PARTITION (hh = 1)")
    assert left(table) == [2, 4]


def test_missing_partitions_are_told_unless_if_exists(table: SparkSession) -> None:
    table.sql("ALTER TABLE p DROP PARTITION (dt = 'nosuch')")
    assert left(table) == [1, 2, 3, 4, 5, 6]
    with pytest.raises(Exception, match="PARTITIONS_NOT_FOUND"):
        table.sql("ALTER TABLE p DROP PARTITION (dt = 'nosuch', hh = 1)")
    table.sql("ALTER TABLE p DROP IF EXISTS PARTITION (dt = 'nosuch'), PARTITION (dt = 'a')")
    assert left(table) == [3, 4, 5, 6]
    with pytest.raises(Exception, match=r"(?i)partition"):
        table.sql("ALTER TABLE p DROP PARTITION (k = 3)")
    assert left(table) == [3, 4, 5, 6]


def test_partitions_are_truncated(table: SparkSession) -> None:
    table.sql("TRUNCATE TABLE p PARTITION (dt = 'b')")
    assert left(table) == [1, 2, 5, 6]
    table.sql("TRUNCATE TABLE p PARTITION (dt = 'a', hh = 1)")
    assert left(table) == [2, 5, 6]
    table.sql("TRUNCATE TABLE p")
    assert left(table) == []


def test_partitions_need_not_be_added(table: SparkSession) -> None:
    snapshots = "SELECT count(*) FROM `p$snapshots`"
    table.sql("ALTER TABLE p ADD PARTITION (dt = 'n', hh = 1)")
    table.sql("ALTER TABLE p ADD IF NOT EXISTS PARTITION (dt = 'a', hh = 1) PARTITION (dt = 'n', hh = 2)")
    assert rows(table, snapshots) == [(1,)]
    assert len(rows(table, "SHOW PARTITIONS p")) == 6
    with pytest.raises(Exception, match="PARTITIONS_ALREADY_EXIST"):
        table.sql("ALTER TABLE p ADD PARTITION (dt = 'a', hh = 1)")
    with pytest.raises(Exception, match="ADD PARTITION with a location is not possible"):
        table.sql("ALTER TABLE p ADD PARTITION (dt = 'n', hh = 3) LOCATION '/somewhere/else'")
    with pytest.raises(Exception, match=r"(?i)partition"):
        table.sql("ALTER TABLE p ADD PARTITION (dt = 'n')")
    table.sql("INSERT INTO p PARTITION (dt = 'n', hh = 1) VALUES (7)")
    assert left(table) == [1, 2, 3, 4, 5, 6, 7]


def test_another_tables_partitions_stay(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE u (k INT)")
    spark.sql("INSERT INTO u VALUES (1)")
    with pytest.raises(Exception, match=r"(?i)partition"):
        spark.sql("ALTER TABLE u DROP PARTITION (k = 1)")
    assert rows(spark, "SELECT * FROM u") == [(1,)]


def test_a_partition_cannot_be_renamed(table: SparkSession) -> None:
    with pytest.raises(AnalysisException, match=r"\[UNSUPPORTED_FEATURE\] Renaming a partition is not possible"):
        table.sql("ALTER TABLE p PARTITION (dt = 'b', hh = 1) RENAME TO PARTITION (dt = 'z', hh = 1)")
    with pytest.raises(AnalysisException, match=r"\[UNSUPPORTED_FEATURE\] The location of a table"):
        table.sql("ALTER TABLE p SET LOCATION '/elsewhere'")
    assert left(table) == [1, 2, 3, 4, 5, 6]

"""DELETE with deletion vectors: positions of rows reach the writers as bitmaps, in the engine process or in tasks."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.query_results import rows
from tests.spark.test_small_buckets import tasks_of

VECTORS = "'deletion-vectors.enabled'='true'"
MARKS = f"{VECTORS}, 'deletion-vectors.mark-deletes'='true', 'primary-key'='p,id', 'bucket'='1'"
LOCAL, TASKS = "'write.local-max-rows'='1000'", "'write.local-max-rows'='0'"
KINDS = pytest.mark.parametrize("kind", [VECTORS, MARKS], ids=["append", "keyed"])


def partitioned(spark: SparkSession, properties: str, partitions: int, count: int) -> None:
    spark.sql(f"CREATE TABLE t (id BIGINT, p INT, v STRING) PARTITIONED BY (p) TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO t SELECT id, id % {partitions}, concat('v', id) FROM range({count})")


def kept(spark: SparkSession) -> list[int]:
    return [r[0] for r in rows(spark, "SELECT id FROM t ORDER BY id")]


@KINDS
@pytest.mark.parametrize("where", [LOCAL, TASKS], ids=["local", "tasks"])
@pytest.mark.parametrize("partitions", [3, 40])
def test_rows_are_deleted_in_few_and_in_many_files(spark: SparkSession, kind: str, where: str, partitions: int) -> None:
    partitioned(spark, f"{kind}, {where}", partitions, 2000)
    left = set(range(2000))
    for condition, gone in (
        ("id % 7 = 3", set(range(3, 2000, 7))),
        ("id % 7 = 4", set(range(4, 2000, 7))),
        ("id > 10", set(range(11, 2000))),
    ):
        spark.sql(f"DELETE FROM t WHERE {condition} AND p <> 2")
        left -= gone - set(range(2, 2000, partitions))
        assert kept(spark) == sorted(left)


@KINDS
@pytest.mark.parametrize("where", [LOCAL, TASKS], ids=["local", "tasks"])
def test_rows_of_a_file_come_from_many_tasks(spark: SparkSession, kind: str, where: str) -> None:
    partitioned(spark, f"{kind}, {where}", 2, 1000)
    spark.sql("CREATE TEMP VIEW chosen AS SELECT id * 3 AS id FROM range(500)")
    for setting, value in {
        "adaptive.coalescePartitions.enabled": "false",
        "autoBroadcastJoinThreshold": "-1",
        "shuffle.partitions": "4",
    }.items():
        spark.conf.set(f"spark.sql.{setting}", value)
    name = spark.catalog.currentDatabase()
    before = len(tasks_of(spark, f"write {name}.t"))
    try:
        for _ in range(2):
            spark.sql("DELETE FROM t WHERE id IN (SELECT id FROM chosen)")
            assert kept(spark) == [i for i in range(1000) if i % 3]
    finally:
        spark.sql("DROP VIEW chosen")
    assert len(tasks_of(spark, f"write {name}.t")) > before
    assert tasks_of(spark, f"find rows of {name}.t") == []


def test_large_files_of_unmarkable_rows_are_read_by_tasks(spark: SparkSession) -> None:
    """Files at level 0 may hold the only version of a key, so their rows are deleted by rows of kind -D."""
    spark.sql(
        "CREATE TABLE t (id BIGINT NOT NULL, v STRING) TBLPROPERTIES ('primary-key'='id', 'bucket'='2', "
        f"{VECTORS}, 'deletion-vectors.mark-deletes'='true', 'write-only'='true')"
    )
    spark.sql("INSERT INTO t SELECT id, sha2(CAST(id AS STRING), 512) FROM range(200000)")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('write-only'='false')")
    assert rows(spark, "SELECT min(level), sum(file_size_in_bytes) > 8 << 20 FROM `t$files`") == [(0, True)]
    name = f"write {spark.catalog.currentDatabase()}.t"
    before = len(tasks_of(spark, name))
    spark.sql("DELETE FROM t WHERE id % 5 = 1")
    assert len(tasks_of(spark, name)) > before
    assert rows(spark, "SELECT count(*), sum(id % 5) FROM t") == [(160000, 360000)]
    assert rows(spark, "SELECT count(*) FROM t WHERE id % 5 = 1") == [(0,)]


@pytest.mark.parametrize(("where", "writes"), [(LOCAL, False), (TASKS, True)], ids=["local", "tasks"])
def test_few_files_need_no_job_of_writers(spark: SparkSession, where: str, writes: bool) -> None:
    partitioned(spark, f"{VECTORS}, {where}", 2, 1000)
    name = f"{spark.catalog.currentDatabase()}.t"
    before = len(tasks_of(spark, f"write {name}"))
    spark.sql("DELETE FROM t WHERE id % 10 = 1")
    assert tasks_of(spark, f"find rows of {name}") == ([] if writes else [2])
    assert (len(tasks_of(spark, f"write {name}")) > before) is writes


@KINDS
def test_small_reads_find_the_rows_without_a_task(spark: SparkSession, kind: str) -> None:
    spark.conf.set("spark.paimon.read.local-max-bytes", "16 mb")
    partitioned(spark, f"{kind}, {LOCAL}", 2, 1000)
    name = spark.catalog.currentDatabase()
    before = len(tasks_of(spark, f"write {name}.t"))
    spark.sql("DELETE FROM t WHERE id % 10 = 1 AND p = 1")
    assert kept(spark) == [i for i in range(1000) if i % 10 != 1]
    assert len(tasks_of(spark, f"write {name}.t")) == before


@KINDS
def test_a_statement_whose_condition_fails_deletes_nothing(spark: SparkSession, kind: str) -> None:
    partitioned(spark, f"{kind}, {LOCAL}", 2, 100)
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        spark.sql("DELETE FROM t WHERE 10 / (id - 50) > 1")
    assert len(kept(spark)) == 100

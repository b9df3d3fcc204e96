"""Clustered append tables through Spark: writes, compaction by one job or by tasks, and queries that read less."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.engine.select import plan_select
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.predicate import Comparison, and_
from tests.query_results import rows
from tests.variants import mostly_slow

CHECKSUM = "SELECT count(*), bit_xor(xxhash64(*)), sum(xxhash64(*) % 1000003) FROM t"
LEVELS = "SELECT partition, level, count(*) > 1, sum(record_count) FROM `t$files` GROUP BY ALL ORDER BY 1, 2"

UNSORTED = (
    "SELECT count(*) FROM (SELECT a, lag(a) OVER (PARTITION BY __paimon_file_path ORDER BY __paimon_row_index) "
    "AS before FROM t) WHERE a < before"
)


def insert(spark: SparkSession, part: int, p: int) -> None:
    spark.sql(
        f"INSERT INTO t SELECT /*+ COALESCE(1) */ id DIV 100, id % 100, if(id % 9 = 0, NULL, uuid()), {p} "
        f"FROM range(10000) WHERE (id * 7919) % 4 = {part}"
    )


def rows_to_read(spark: SparkSession, warehouse: Path, column: str) -> int:
    catalog = open_catalog({"warehouse": str(warehouse)})
    table = catalog.load_table(Identifier(spark.catalog.currentDatabase(), "t"))
    wanted = and_(Comparison("=", "p", 0), Comparison(">=", column, 10), Comparison("<", column, 15))
    return plan_select(table, predicate=wanted).counts.rows


@pytest.mark.parametrize("mode", mostly_slow(["global-sort", "local-sort"], "global-sort"))
def test_files_are_clustered_step_by_step(spark: SparkSession, warehouse: Path, mode: str) -> None:
    spark.sql(
        "CREATE TABLE t (a INT, b INT, s STRING, p INT) PARTITIONED BY (p) TBLPROPERTIES ('target-file-size' = '20 kb', "
        "'num-sorted-run.compaction-trigger' = '3', 'deletion-vectors.enabled' = 'true')"
    )
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('clustering.incremental' = 'true', 'clustering.columns' = 'a,b')")
    for part in range(4):
        insert(spark, part, 0)
    insert(spark, 0, 1)
    spark.sql("DELETE FROM t WHERE a BETWEEN 50 AND 59")
    before = rows(spark, CHECKSUM)
    assert rows(spark, LEVELS) == [("{0}", 0, True, 10000), ("{1}", 0, False, 2500)]
    everything = rows_to_read(spark, warehouse, "b")
    explained = spark.sql("EXPLAIN CALL sys.compact(table => 't')").collect()
    assert len(explained) == 4
    assert "sorted by a, b (zorder) into level 3" in explained[0].reason
    options = f"options => 'clustering.incremental.mode={mode}'"
    done = spark.sql(f"CALL sys.compact(table => 't', {options})").collect()[0]
    assert (done.status, done.files_in, done.rows) == ("done", 4, 9000)
    assert done.files_out > 1
    assert rows(spark, LEVELS) == [("{0}", 3, True, 9000), ("{1}", 0, False, 2500)]
    assert rows(spark, CHECKSUM) == before
    if mode == "global-sort":
        assert rows_to_read(spark, warehouse, "a") < everything * 0.8
        assert rows_to_read(spark, warehouse, "b") < everything * 0.8
    insert(spark, 1, 0)
    assert spark.sql("CALL sys.compact(table => 't')").collect()[0].status == "nothing to do"
    before = rows(spark, CHECKSUM)
    database = spark.catalog.currentDatabase()
    call = f"CALL sys.compact_database(including_databases => '{database}', compact_strategy => 'full')"
    assert [r.status for r in spark.sql(call).collect()] == [None, "done"]
    assert [r[1] for r in rows(spark, LEVELS)] == [3, 3]
    assert rows(spark, CHECKSUM) == before
    kinds = rows(spark, "SELECT commit_kind FROM `t$snapshots` ORDER BY snapshot_id DESC LIMIT 1")
    assert kinds == [("COMPACT",)]


def test_buckets_keep_their_rows_in_order(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE t (a INT, b INT, s STRING, p INT) TBLPROPERTIES ('bucket' = '2', 'bucket-key' = 'b', "
        "'bucket-append-ordered' = 'false', 'clustering.incremental' = 'true', 'clustering.columns' = 'a')"
    )
    for part in range(4):
        insert(spark, part, 0)
    insert(spark, 0, 0)
    assert rows(spark, LEVELS) == [("{}", 5, True, 12500)]
    assert rows(spark, UNSORTED) == [(0,)]


@pytest.mark.parametrize(
    ("tasks", "options"),
    [
        (None, {"columns": "a"}),
        (None, {"incremental": "true", "columns": "a", "incremental.optimize-write": "true"}),
        (3, {"incremental": "true", "columns": "a", "incremental.optimize-write": "true"}),
    ],
)
def test_statements_sort_what_they_write(spark: SparkSession, tasks: int | None, options: dict[str, str]) -> None:
    given = ", ".join(f"'clustering.{k}' = '{v}'" for k, v in options.items())
    spark.sql(f"CREATE TABLE t (a INT, b INT, s STRING, p INT) PARTITIONED BY (p) TBLPROPERTIES ({given})")
    if tasks is not None:
        spark.sql(f"ALTER TABLE t SET TBLPROPERTIES ('sink.parallelism' = '{tasks}')")
    spark.sql("INSERT INTO t SELECT id * 7919 % 5000, id % 7, uuid(), id % 2 FROM range(5000)")
    spark.sql("INSERT INTO t VALUES (9, 1, 'x', 0), (8, 1, 'x', 1), (7, 1, NULL, 0)")
    assert rows(spark, UNSORTED) == [(0,)]
    assert rows(spark, "SELECT count(*), sum(a) FROM t") == [(5003, 12497524)]
    if tasks is not None:
        apart = "SELECT count(*) FROM `t$files` WHERE record_count > 1500"
        assert rows(spark, apart) == [(2,)]  # the range of one task in each partition

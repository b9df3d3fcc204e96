"""Small buckets share tasks and commits."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession

from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import write_arrow
from paimon_spark.spec.identifier import Identifier


def tasks_of(spark: SparkSession, words: str) -> list[int]:
    """Return how many tasks each job has whose description begins with `words`."""
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    jobs = context.statusStore().jobsList(None)
    found = [jobs.apply(i) for i in range(jobs.size())]
    return [j.numTasks() for j in found if j.description().isDefined() and j.description().get().startswith(words)]


def rows_and_tasks(spark: SparkSession, query: str) -> tuple[list[Row], int]:
    """Return the rows of a query, and how many tasks ran for it."""
    name = uuid.uuid4().hex
    spark.sparkContext.setJobDescription(name)
    try:
        rows = spark.sql(query).collect()
    finally:
        spark.sparkContext.setJobDescription(None)
    return rows, sum(tasks_of(spark, name))


def filled(spark: SparkSession, warehouse: Path, buckets: int, partitions: int, rows: int) -> Table:
    """Return the table `t`, with two commits of these rows in each partition, of which the second one is the latest."""
    spark.sql(
        "CREATE TABLE t (p INT, k INT, v STRING) PARTITIONED BY (p) "
        f"TBLPROPERTIES ('primary-key'='p,k', 'bucket'='{buckets}', 'write-only'='true')"
    )
    database = spark.sql("SELECT current_database()").collect()[0][0]
    table = open_catalog({"warehouse": str(warehouse)}).load_table(Identifier(database, "t"))
    for n in range(2):
        write_arrow(
            table,
            pa.table(
                {
                    "p": pa.array([p for p in range(partitions) for _ in range(rows)], pa.int32()),
                    "k": pa.array([k for _ in range(partitions) for k in range(rows)], pa.int32()),
                    "v": [f"{n}-{k}" for _ in range(partitions) for k in range(rows)],
                }
            ),
        )
    return table


def test_many_small_partitions_are_few_tasks_and_one_commit(spark: SparkSession, warehouse: Path) -> None:
    table = filled(spark, warehouse, buckets=1, partitions=200, rows=5)
    done = spark.sql("CALL sys.compact('t')").collect()[0]
    assert (done.files_in, done.files_out, done.rows) == (400, 200, 1000)
    assert (done.snapshot_before, done.snapshot_after) == (2, 3)
    (tasks,) = tasks_of(spark, f"compact {table.name}")
    assert 2 <= tasks <= 8
    assert spark.sql("SELECT count(*), sum(k) FROM t WHERE v = concat('1-', k)").collect()[0][:] == (1000, 2000)


def test_a_bucket_that_fails_is_named_its_task_leaves_nothing(spark: SparkSession, warehouse: Path) -> None:
    table = filled(spark, warehouse, buckets=1, partitions=10, rows=5)
    files = sorted(s.path for s in table.file_io.list_recursive(table.path) if s.name.startswith("data-"))
    content = table.file_io.read(files[-1])
    table.file_io.write(files[-1], b"junk")
    with pytest.raises(Exception, match=files[-1].rpartition("/")[2]):
        spark.sql("CALL sys.compact('t')")
    assert sorted(s.path for s in table.file_io.list_recursive(table.path) if s.name.startswith("data-")) == files
    table.file_io.write(files[-1], content)
    assert spark.sql("CALL sys.compact('t')").collect()[0].files_out == 10


def test_small_splits_that_are_merged_share_tasks(spark: SparkSession, warehouse: Path) -> None:
    filled(spark, warehouse, buckets=40, partitions=2, rows=400)
    assert "80 merge" in spark.sql("EXPLAIN SELECT * FROM t").collect()[0][0]
    rows, tasks = rows_and_tasks(spark, "SELECT p, k, v FROM t")
    assert sorted(rows) == [(p, k, f"1-{k}") for p in range(2) for k in range(400)]
    assert 2 <= tasks <= 8
    rows, tasks = rows_and_tasks(spark, "SELECT k FROM t WHERE p = 1 LIMIT 7")
    assert (len({r.k for r in rows}), tasks) == (7, 1)


def test_dead_rows_of_small_buckets_are_found_by_few_tasks(spark: SparkSession, warehouse: Path) -> None:
    filled(spark, warehouse, buckets=40, partitions=2, rows=30_000)
    assert "80 native without superseded rows" in spark.sql("EXPLAIN SELECT * FROM t").collect()[0][0]
    query = "SELECT count(*), sum(p), sum(k), count(DISTINCT p, k) FROM t WHERE v = concat('1-', k)"
    rows, tasks = rows_and_tasks(spark, query)
    assert rows == [(60_000, 30_000, 30_000 * 29_999, 60_000)]
    again, fewer = rows_and_tasks(spark, query)
    assert again == rows
    assert 2 <= tasks - fewer <= 8


def test_a_query_that_reads_no_file_starts_no_task(spark: SparkSession, warehouse: Path) -> None:
    filled(spark, warehouse, buckets=2, partitions=2, rows=5)
    for query in (
        "SELECT * FROM t WHERE k = 99",
        "SELECT p + 1, v FROM t WHERE p = 7 AND v LIKE '1%'",
        "SELECT __paimon_partition, __paimon_row_index, v FROM t WHERE p = 7",
        "SELECT * FROM `t$audit_log` WHERE k = 99",
    ):
        assert rows_and_tasks(spark, query) == ([], 0)
    assert spark.sql("SELECT count(*), max(v) FROM t WHERE k = 99").collect()[0][:] == (0, None)
    joined = spark.sql("SELECT count(a.v), count(b.v) FROM t a LEFT JOIN (SELECT * FROM t WHERE k = 99) b ON a.k = b.k")
    assert joined.collect()[0][:] == (10, 0)

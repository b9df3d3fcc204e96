"""A compaction job beside a stream that only writes; a savepoint of a stream, and the way back to it."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

import paimon_spark
from paimon_spark.calls.compact_stream import compact_stream
from paimon_spark.calls.context import CallContext
from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.engine.runner import LocalRunner

KEYED = "'primary-key'='id', 'bucket'='2', 'write-only'='true', 'num-sorted-run.compaction-trigger'='3'"
KEYED_BY_P = "'primary-key'='id,p', 'bucket'='1', 'write-only'='true'"


def rows(spark: SparkSession, sql: str) -> list[tuple]:
    return sorted(tuple(r) for r in spark.sql(sql).collect())


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.3)


@pytest.fixture
def jobs(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose jobs commit each second and end with the test."""
    spark.sql("SET 'execution.checkpointing.interval' = '1 s'")
    yield spark
    for job, *_ in rows(spark, "SHOW JOBS"):
        spark.sql(f"STOP JOB '{job}'")


def test_a_job_compacts_what_a_stream_writes(jobs: SparkSession, tmp_path: Path) -> None:
    jobs.sql(f"CREATE TABLE t (id BIGINT NOT NULL, v BIGINT) TBLPROPERTIES ({KEYED}, 'snapshot.num-retained.max'='12')")
    (started,) = jobs.sql("CALL sys.compact(table => 't', streaming => true)").collect()
    assert started.result
    ((job, name, *_),) = rows(jobs, "SHOW JOBS")
    assert started.status == f"started the job '{name}'"
    with pytest.raises(Exception, match=rf"\[INVALID_ARGUMENT\] The job '{name}' is running already"):
        jobs.sql("CALL sys.compact(table => 't', streaming => true)")
    source = jobs.readStream.format("rate").option("rowsPerSecond", 200).load()
    writer = source.selectExpr("value % 50 AS id", "value AS v").writeStream
    query: StreamingQuery = writer.option("checkpointLocation", str(tmp_path / "c")).toTable("t")
    try:
        until(lambda: jobs.sql("SELECT 1 FROM `t$snapshots` WHERE commit_kind = 'COMPACT'").count() >= 2)
        jobs.sql("DELETE FROM t WHERE id = 0")  # a writer beside the stream and the job
        until(lambda: jobs.sql("SELECT 1 FROM t").count() >= 49)
        for _ in range(5):  # readers see each key once, and never an older value than before
            found = rows(jobs, "SELECT count(*) = count(DISTINCT id), max(v) = max(v) FROM t")
            assert found == [(True, True)]
    finally:
        query.stop()
    assert query.exception() is None
    assert rows(jobs, "SHOW JOBS")[0][0] == job
    until(lambda: jobs.sql("SELECT 1 FROM `t$files` WHERE level = 0").count() < 6)
    assert jobs.sql("SELECT 1 FROM `t$snapshots`").count() <= 14  # the job expires snapshots, which the writer does not
    assert rows(jobs, f"STOP JOB '{name}'") == [(job, None)]
    assert rows(jobs, "SHOW JOBS") == []


def test_a_job_compacts_what_becomes_idle(jobs: SparkSession) -> None:
    jobs.sql(f"CREATE TABLE i (id BIGINT NOT NULL, p INT NOT NULL) PARTITIONED BY (p) TBLPROPERTIES ({KEYED_BY_P})")
    jobs.sql(
        "CALL sys.compact(table => 'i', streaming => true, compact_strategy => 'full', partition_idle_time => '4s')"
    )
    jobs.sql("INSERT INTO i VALUES (1, 1)")
    jobs.sql("INSERT INTO i VALUES (1, 1)")
    until(lambda: rows(jobs, "SELECT count(*) FROM `i$files`") == [(1,)])
    assert jobs.sql("SELECT 1 FROM `i$snapshots` WHERE commit_kind = 'COMPACT'").count() == 1


def test_the_loop_without_spark_compacts_and_stops(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    options = {"write-only": "true", "bucket": "1", "num-sorted-run.compaction-trigger": "3"}
    catalog = paimon_spark.connect(tmp_path)
    catalog.create_database("d")
    table = catalog.create_table("d.t", schema, primary_key="id", options=options)
    stop, done = threading.Event(), []
    ctx = CallContext(
        catalog=open_catalog({"warehouse": str(tmp_path)}),
        catalog_name="paimon",
        runner=LocalRunner(),
        clock_millis=lambda: time.time_ns() // 1_000_000,
    )
    loop = threading.Thread(
        target=compact_stream,
        args=(ctx, {"table": "d.t"}, stop),
        kwargs={"interval_millis": 20, "on_result": done.append},
    )
    loop.start()
    try:
        for n in range(12):
            table.append(pa.table({"id": range(n, n + 10)}, schema=schema))
        until(lambda: any(r.changed_tables for r in done))
    finally:
        stop.set()
        loop.join(60)
    assert not loop.is_alive()
    assert table.to_arrow().num_rows == 21


def test_back_to_a_savepoint_and_on(jobs: SparkSession, tmp_path: Path) -> None:
    """Stop with a savepoint, write on, roll back to its tag, and continue with the checkpoints of that time."""
    jobs.sql("CREATE TABLE r (n BIGINT)")
    jobs.sql("CREATE TABLE t (n BIGINT) WITH ('sink.savepoint.auto-tag' = 'true')")
    jobs.sql(f"SET 'execution.checkpointing.dir' = 'file:{tmp_path}/points'")
    jobs.sql("SET 'pipeline.name' = 'copy'")
    insert = "INSERT INTO t SELECT n FROM paimon_changes('r')"
    copied = partial(rows, jobs, "SELECT n FROM t")
    jobs.sql("INSERT INTO r VALUES (1), (2)")
    jobs.sql(insert)
    until(lambda: copied() == [(1,), (2,)])
    ((job, tag),) = rows(jobs, "STOP JOB 'copy' WITH SAVEPOINT")
    shutil.copytree(tmp_path / "points", tmp_path / "saved")
    jobs.sql("INSERT INTO r VALUES (3)")
    jobs.sql(insert)
    until(lambda: copied() == [(1,), (2,), (3,)])
    jobs.sql("STOP JOB 'copy'")
    jobs.sql(f"CALL sys.rollback_to(table => 't', tag => '{tag}')")
    assert copied() == [(1,), (2,)]
    shutil.rmtree(tmp_path / "points")
    shutil.copytree(tmp_path / "saved", tmp_path / "points")
    assert rows(jobs, insert) == [(job,)]
    until(lambda: copied() == [(1,), (2,), (3,)])
    jobs.sql("STOP JOB 'copy'")
    assert copied() == [(1,), (2,), (3,)]

"""Streams whose source has nothing, blocks, or is faster than the sink."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.streaming import StreamingQuery

import paimon_spark
from benchmarks.process_tree import cpu_seconds
from paimon_spark.api.table import TableHandle
from paimon_spark.testing.invariants import leaked, violations

SCHEMA = pa.schema([("id", pa.int64()), ("file", pa.int64())])
QUIET_SECONDS = 4
Rows = Callable[[str], list[tuple]]


def until(condition: Callable[[], bool], query: StreamingQuery | None = None) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        assert query is None or query.exception() is None
        time.sleep(0.1)


@pytest.fixture
def rows(spark: SparkSession) -> Rows:
    return lambda sql: sorted(tuple(r) for r in spark.sql(sql).collect())


@pytest.fixture
def handle(spark: SparkSession, warehouse: Path) -> Callable[[str], TableHandle]:
    database = spark.catalog.currentDatabase()
    return lambda name: paimon_spark.connect(warehouse).table(f"{database}.{name}")


def test_a_stream_waits_for_a_source_that_stalls(spark: SparkSession, rows: Rows, tmp_path: Path) -> None:
    """Neither triggers without news nor snapshots without rows for the stream become snapshots of the target."""
    spark.sql("CREATE TABLE s (id INT)")
    spark.sql("CREATE TABLE t (id INT)")
    writer = spark.readStream.table("s").writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.toTable("t")
    jvm = spark._jvm
    assert jvm is not None
    driver = int(jvm.java.lang.ProcessHandle.current().pid())
    try:
        spark.sql("INSERT INTO s VALUES (1), (2), (3), (4), (5), (6), (7)")
        until(lambda: spark.table("t").count() == 7, query)
        time.sleep(1)
        before = cpu_seconds(driver)
        time.sleep(QUIET_SECONDS)
        assert cpu_seconds(driver) - before < QUIET_SECONDS / 4
        for n in range(1, 7):
            spark.sql(f"DELETE FROM s WHERE id = {n}")  # an overwrite, which a stream skips
        batches = tmp_path / "checkpoint/commits"
        until(lambda: (batches / "1").exists(), query)
        assert rows("SELECT snapshot_id, commit_identifier FROM `t$snapshots`") == [(1, 0)]
        spark.sql("INSERT INTO s VALUES (8)")
        until(lambda: spark.table("t").count() == 8, query)
        written = rows("SELECT snapshot_id, commit_identifier FROM `t$snapshots`")
        last = written[-1][1]
        until(lambda: (batches / str(last)).exists(), query)  # the checkpoint's commit follows the table's
    finally:
        query.stop()
    assert query.exception() is None
    assert written == [(1, 0), (2, max(int(f.name) for f in batches.glob("[0-9]*")))]


def test_batches_that_give_no_rows_are_no_snapshots(spark: SparkSession, rows: Rows, tmp_path: Path) -> None:
    """A batch may only fill the state, and one that Spark runs without input may find nothing to emit."""
    spark.sql("CREATE TABLE t (second INT, n BIGINT)")
    directory = tmp_path / "source"
    directory.mkdir()
    source = spark.readStream.schema("at TIMESTAMP").json(str(directory)).withWatermark("at", "1 second")
    counts = source.groupBy("at").count().selectExpr("second(at) AS second", "count AS n")

    def run(seconds: int) -> None:
        (directory / f"{seconds}.json").write_text(f'{{"at": "2026-01-01T00:00:{seconds}Z"}}')
        writer = counts.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).toTable("t").awaitTermination()

    run(10)
    assert rows("SELECT * FROM `t$snapshots`") == []
    run(11)
    assert rows("SELECT * FROM t") == [(10, 1)]
    run(20)
    assert rows("SELECT * FROM t") == [(10, 1), (11, 1)]
    last = max(int(f.name) for f in (tmp_path / "checkpoint/commits").glob("[0-9]*"))
    identifiers = [i for (i,) in rows("SELECT commit_identifier FROM `t$snapshots`")]
    assert len(identifiers) == 2 < last
    assert identifiers[0] < identifiers[1] <= last


@pytest.mark.parametrize("key", ["", "TBLPROPERTIES ('primary-key'='id', 'bucket'='2')"])
def test_a_blocked_batch_can_be_stopped(
    spark: SparkSession, rows: Rows, handle: Callable[[str], TableHandle], tmp_path: Path, key: str
) -> None:
    spark.sql("CREATE TABLE s (id INT)")
    spark.sql(f"CREATE TABLE t (id INT NOT NULL) {key}")
    blocked = tmp_path / "blocked"

    @udf("int")
    def block(value: int) -> int:
        if value == 2:
            blocked.touch()
            time.sleep(600)
        return value

    source = spark.readStream.table("s")
    query = source.select(block("id").alias("id")).writeStream.option("checkpointLocation", str(tmp_path / "c"))
    spark.sql("INSERT INTO s VALUES (1)")
    running = query.toTable("t")
    try:
        until(lambda: spark.table("t").count() == 1, running)
        before = rows("SELECT * FROM `t$snapshots`")
        spark.sql("INSERT INTO s VALUES (2), (3)")
        until(blocked.exists, running)
    finally:
        started = time.monotonic()
        running.stop()
    assert time.monotonic() - started < 20
    assert not running.isActive
    assert running.exception() is None
    assert rows("SELECT * FROM `t$snapshots`") == before
    loaded = handle("t").load()
    assert violations(loaded) == []
    until(lambda: [path for path in leaked(loaded) if "/stream/attempt-" not in path] == [])
    again = source.writeStream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    again.toTable("t").awaitTermination()
    assert rows("SELECT * FROM t") == [(1,), (2,), (3,)]


SIZES = (10, 20, 500, 30, 40, 60, 5)
"""The rows of the files of a source; two files together may exceed a limit, and one alone does."""


def packed(weights: list[int], most: int) -> list[list[int]]:
    """Return the files of each batch: as many as fit, and one at least."""
    found: list[list[int]] = []
    for file, weight in enumerate(weights):
        if not found or sum(weights[f] for f in found[-1]) + weight > most:
            found.append([])
        found[-1].append(file)
    return found


@pytest.mark.parametrize("start", [{}, {"scan.snapshot-id": "1"}])
@pytest.mark.parametrize("limit", ["Files", "Bytes", "Rows"])
def test_batches_stay_within_their_limit(
    spark: SparkSession, warehouse: Path, tmp_path: Path, limit: str, start: dict[str, str]
) -> None:
    """From the first snapshot on, batches are as large as they may be; those of the state have an order of their own."""
    catalog, name = paimon_spark.connect(warehouse), f"{spark.catalog.currentDatabase()}.s"
    source = catalog.create_table(name, SCHEMA, options={"write-only": "true"})
    for file, size in enumerate(SIZES):
        source.append(pa.table({"id": range(size), "file": [file] * size}, schema=SCHEMA))
    weights = {"Files": [1] * len(SIZES), "Bytes": sizes_of(source), "Rows": list(SIZES)}[limit]
    most = {"Files": 3, "Bytes": weights[0] + weights[1] + 1, "Rows": 100}[limit]
    batches: list[list[int]] = []
    frame = spark.readStream.options(**{f"read.stream.max{limit}PerTrigger": most, **start}).table("s")
    writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    keep = writer.foreachBatch(lambda found, _: batches.append([r.file for r in found.collect()]))
    keep.trigger(availableNow=True).start().awaitTermination()
    files = [sorted(set(batch)) for batch in batches]
    assert sum(map(len, batches)) == sum(SIZES)
    assert sorted(f for batch in files for f in batch) == list(range(len(SIZES)))
    assert all(len(batch) == 1 or sum(weights[f] for f in batch) <= most for batch in files)
    if start:
        assert files == packed(weights, most)


def sizes_of(table: TableHandle) -> list[int]:
    """Return the bytes of the files of an append table in the order of their commits."""
    files = (Path(table.load().path) / "bucket-0").glob("data-*")
    return [f.stat().st_size for f in sorted(files, key=lambda f: f.stat().st_mtime_ns)]


def test_a_source_faster_than_the_sink_is_caught_up(spark: SparkSession, warehouse: Path, tmp_path: Path) -> None:
    """The backlog grows while the stream reads it; no batch is larger for that."""
    commits, size, most = 120, 50, 500
    catalog, database = paimon_spark.connect(warehouse), spark.catalog.currentDatabase()
    source = catalog.create_table(f"{database}.s", SCHEMA, options={"write-only": "true"})
    spark.sql("CREATE TABLE t (id BIGINT NOT NULL, file BIGINT) TBLPROPERTIES ('primary-key'='id', 'bucket'='2')")

    def write(numbers: range) -> None:
        for n in numbers:
            source.append(pa.table({"id": range(n * size, n * size + size), "file": [n] * size}, schema=SCHEMA))

    write(range(commits // 2))
    frame = spark.readStream.options(**{"read.stream.maxRowsPerTrigger": most, "scan.snapshot-id": 1}).table("s")
    writer = frame.writeStream.outputMode("update").option("checkpointLocation", str(tmp_path / "checkpoint"))
    faster = threading.Thread(target=write, args=(range(commits // 2, commits),), daemon=True)
    query = writer.toTable("t")
    try:
        faster.start()
        until(lambda: spark.table("t").count() == commits * size, query)
    finally:
        query.stop()
        faster.join(60)
    read = [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]
    assert max(read) == most
    assert sum(read) == commits * size
    counted = spark.sql("SELECT count(DISTINCT id), count(DISTINCT file), max(id) FROM t").head()
    assert counted is not None
    assert tuple(counted) == (commits * size, commits, commits * size - 1)

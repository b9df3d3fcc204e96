"""A pool that the writers of an executor share: loads far larger than it, in processes that stay small."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from paimon_spark.spark.memory import task_slots

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peaks of memory are read from /proc"),
]
MB = 1 << 20
POOL_MB = 8
ROWS = 800_000
WIDTH = 200


def workers(spark: SparkSession) -> list[Path]:
    """Return the /proc directories of this application's Python workers."""
    jvm = spark._jvm
    assert jvm is not None
    parents, names = {}, {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            names[int(place.name)] = (place / "cmdline").read_text()
        except OSError:
            continue
    driver = int(jvm.java.lang.ProcessHandle.current().pid())
    daemons = {p for p, name in names.items() if "pyspark.daemon" in name and parents[p] == driver}
    return [Path("/proc") / str(p) for p, parent in parents.items() if parent in daemons]


def kib(place: Path, what: str) -> int:
    lines = (place / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what + ":"))


def growth(spark: SparkSession, statement: str) -> int:
    """Return by how many bytes the largest worker grew at most while a statement ran."""
    before = {}
    for place in workers(spark):
        (place / "clear_refs").write_text("5")  # forgets the peak so far
        before[place] = kib(place, "VmRSS")
    spark.sql(statement)
    idle = min(before.values())
    return max(kib(place, "VmHWM") - before.get(place, idle) for place in workers(spark)) << 10


@pytest.fixture
def source(spark: SparkSession) -> DataFrame:
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "2048")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    frame = spark.range(0, ROWS, 1, 2).selectExpr(
        "CAST(id * 7919 % 800000 AS INT) AS k", f"rpad(sha2(CAST(id AS STRING), 256), {WIDTH}, '-') AS v"
    )
    frame.createOrReplaceTempView("source")
    for name in ("warm", "small", "large"):
        spark.sql(
            f"CREATE TABLE {name} (k INT, v STRING) "
            "TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '2', 'write-only' = 'true')"
        )
    spark.sql("INSERT INTO warm SELECT * FROM source WHERE k < 20000")
    return frame


@pytest.mark.slow
def test_a_load_of_twenty_pools(spark: SparkSession, source: DataFrame) -> None:
    pool = POOL_MB * MB
    assert ROWS * WIDTH / pool > 19
    assert task_slots(spark.sparkContext) == 2
    options = f"'sink.use-managed-memory-allocator'='true', 'sink.managed.writer-buffer-memory'='{POOL_MB}M'"
    shared = growth(spark, f"INSERT INTO small /*+ OPTIONS({options}) */ SELECT * FROM source")
    alone = growth(spark, "INSERT INTO large SELECT * FROM source")
    print(f"peaks of a worker: {shared / MB:.0f} MB with a pool of {POOL_MB} MB, {alone / MB:.0f} MB without")
    assert shared < 6 * pool
    assert shared < alone / 2
    for name in ("small", "large"):
        head = spark.sql(f"SELECT count(*), count(DISTINCT k), min(length(v)) FROM {name}").head()
        assert head is not None
        assert tuple(head) == (ROWS, ROWS, WIDTH)
    assert spark.sql("SELECT * FROM small EXCEPT SELECT * FROM source").count() == 0


def test_a_pool_that_is_too_small_is_refused(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (k INT) TBLPROPERTIES ('primary-key' = 'k')")
    spark.sql("SET spark.paimon.sink.use-managed-memory-allocator = true")
    spark.sql("SET 'paimon.*.*.t.sink.managed.writer-buffer-memory' = '1 mb'")
    with pytest.raises(Exception, match="too small for the 2 task slots"):
        spark.sql("INSERT INTO t VALUES (1)")
    assert spark.table("t").count() == 0

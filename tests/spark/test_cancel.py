"""Jobs that are cancelled or fail: they end in time, and no file of theirs stays."""

from __future__ import annotations

import getpass
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark import InheritableThread
from pyspark.sql import DataFrame, Row, SparkSession

LIMIT_S = 5
GROUP = "to be cancelled"


def files(spark: SparkSession, warehouse: Path, table: str) -> set[str]:
    """Return every file and directory of a table."""
    database = spark.sql("SELECT current_database()").collect()[0][0]
    root = warehouse / f"{database}.db" / table
    return {p.relative_to(root).as_posix() for p in root.rglob("*")}


@contextmanager
def running(spark: SparkSession, statement: str) -> Iterator[list[str]]:
    """Run a statement in a job group beside the block; yields where its failure will be."""
    failure: list[str] = []

    def run() -> None:
        spark.sparkContext.setJobGroup(GROUP, "a statement")
        try:
            spark.sql(statement)
        except Exception as error:  # noqa: BLE001 - looked at in the test's own thread
            failure.append(str(error))

    thread = InheritableThread(run)
    thread.start()
    try:
        yield failure
    finally:
        thread.join(60)


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 50
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def has_job(spark: SparkSession) -> bool:
    tracker = spark.sparkContext.statusTracker()
    infos = [tracker.getJobInfo(j) for j in tracker.getJobIdsForGroup(GROUP)]
    return any(i is not None and i.status == "RUNNING" for i in infos)


def has_task(spark: SparkSession) -> bool:
    """Return whether a task of the group runs."""
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(j) for j in tracker.getJobIdsForGroup(GROUP)]
    stages = [tracker.getStageInfo(s) for j in jobs if j is not None for s in j.stageIds]
    return any(s is not None and s.numActiveTasks > 0 for s in stages)


def cancel(spark: SparkSession, failure: list[str]) -> None:
    """Cancel the group; the statement must fail in time."""
    started = time.monotonic()
    spark.sparkContext.cancelJobGroup(GROUP)
    wait_for(lambda: bool(failure))
    assert time.monotonic() - started < LIMIT_S
    assert "[STATEMENT_CANCELLED]" in failure[0]
    assert "SPARK_JOB" not in failure[0]


@pytest.mark.parametrize("bucket", ["-1", "2"])
def test_a_cancelled_insert_leaves_no_file(spark: SparkSession, warehouse: Path, bucket: str) -> None:
    key = ", 'bucket-key'='id'" if bucket == "2" else ""
    spark.sql(f"CREATE TABLE t (id BIGINT) TBLPROPERTIES ('bucket'='{bucket}'{key})")
    spark.sql("INSERT INTO t SELECT id FROM range(10)")
    before = files(spark, warehouse, "t")
    sleep = "reflect('java.lang.Thread', 'sleep', 60000L) IS NOT NULL"
    slow = f"SELECT id FROM range(0, 400000, 1, 2) WHERE id < 399999 OR {sleep}"
    with running(spark, f"INSERT INTO t {slow}") as failure:
        wait_for(lambda: has_job(spark))
        if bucket == "-1":
            wait_for(lambda: files(spark, warehouse, "t") != before)
        cancel(spark, failure)
    assert files(spark, warehouse, "t") == before
    assert spark.sql("SELECT count(*) FROM t").collect()[0][0] == 10


def test_a_task_that_swallows_an_interrupt_is_cancelled(spark: SparkSession, warehouse: Path) -> None:
    spark.sql("CREATE TABLE w (id BIGINT)")
    before = files(spark, warehouse, "w")
    steps = (
        "reflect('java.util.concurrent.locks.LockSupport', 'parkNanos', 60000000000L)",
        "reflect('java.lang.Thread', 'interrupted')",
        "reflect('java.lang.Thread', 'sleep', 60000L)",
    )
    slow = f"SELECT id FROM range(1) WHERE concat({', '.join(steps)}) IS NOT NULL"
    with running(spark, f"INSERT INTO w {slow}") as failure:
        wait_for(lambda: has_task(spark))
        time.sleep(1)
        cancel(spark, failure)
    assert files(spark, warehouse, "w") == before


def test_a_cancelled_compaction_leaves_no_file(spark: SparkSession, warehouse: Path) -> None:
    spark.sql(
        "CREATE TABLE c (id BIGINT, v STRING) TBLPROPERTIES ('primary-key'='id', 'bucket'='1', 'write-only'='true',"
        " 'target-file-size'='1 mb')"
    )
    for _ in range(3):
        spark.sql("INSERT INTO c SELECT id, uuid() FROM range(600000)")
    before = files(spark, warehouse, "c")
    with running(spark, "CALL sys.compact('c')") as failure:
        wait_for(lambda: files(spark, warehouse, "c") != before or bool(failure))
        cancel(spark, failure)
    time.sleep(1)
    assert files(spark, warehouse, "c") == before
    assert spark.sql("SELECT count(*) FROM c").collect()[0][0] == 600_000


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_cancelled_export_leaves_no_file(spark: SparkSession, tmp_path: Path, *, overwrite: bool) -> None:
    out = tmp_path / "out"
    if overwrite:
        out.mkdir()
        (out / "old").write_text("x")
    sleep = "reflect('java.lang.Thread', 'sleep', 60000L) IS NOT NULL"
    query = f"SELECT id FROM range(0, 400000, 1, 2) WHERE id < 399999 OR {sleep}"
    statement = f"COPY INTO '{out}' FROM ({query}) FILE_FORMAT = (TYPE = CSV) OVERWRITE = {overwrite}"
    with running(spark, statement) as failure:
        wait_for(lambda: has_job(spark) and any(p.name.startswith("part-") for p in out.rglob("*")))
        cancel(spark, failure)
    assert sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*")) == ["out", "out/old"] * overwrite


def other_session(spark: SparkSession) -> SparkSession:
    """Return a second session of the application."""
    session = spark.newSession()
    session.sql("USE paimon")
    return session


def seen_and_cancelled(other: SparkSession, failure: list[str], *, after: float = 0) -> Row:
    """Cancel the only CALL that runs, so many seconds after it was seen; return what the other session saw of it."""
    seen: list[Row] = []
    wait_for(lambda: bool(seen.extend(other.sql("CALL sys.running()").collect()) or seen or failure))
    assert not failure
    time.sleep(after)
    assert other.sql(f"CALL sys.cancel('{seen[-1].id}')").collect()[0].result
    wait_for(lambda: bool(failure))
    assert "[STATEMENT_CANCELLED]" in failure[0]
    assert other.sql("CALL sys.running()").collect() == []
    return seen[-1]


def test_another_session_sees_and_cancels_a_compaction(spark: SparkSession, warehouse: Path) -> None:
    spark.sql(
        "CREATE TABLE r (id BIGINT, v STRING) TBLPROPERTIES ('primary-key'='id', 'bucket'='1', 'write-only'='true',"
        " 'target-file-size'='1 mb')"
    )
    for _ in range(2):
        spark.sql("INSERT INTO r SELECT id, uuid() FROM range(1000000)")
    slow = "'file.compression'='zstd', 'file.compression.zstd-level'='19'"
    spark.sql(f"ALTER TABLE r SET TBLPROPERTIES ({slow})")
    before = files(spark, warehouse, "r")
    other = other_session(spark)
    with running(spark, "CALL sys.compact('r')") as failure:
        wait_for(lambda: files(spark, warehouse, "r") != before or bool(failure))
        seen = seen_and_cancelled(other, failure)
    assert (seen.procedure, seen.table, seen.user) == ("compact", "r", getpass.getuser())
    assert seen.progress.startswith("0/1 compact ")
    assert files(spark, warehouse, "r") == before


def test_another_session_cancels_a_merge(spark: SparkSession, warehouse: Path) -> None:
    spark.sql("CREATE TABLE m (id BIGINT, v BIGINT) TBLPROPERTIES ('primary-key'='id', 'bucket'='1')")
    spark.sql("INSERT INTO m SELECT id, id FROM range(10)")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW s AS SELECT id FROM range(1)")
    before = files(spark, warehouse, "m")
    other = other_session(spark)
    slow = "v = if(reflect(''java.lang.Thread'', ''sleep'', 60000L) IS NULL, 1L, 2L)"
    call = f"CALL sys.merge_into('m', '', '', 's', 'm.id = s.id', '', '{slow}')"
    with running(spark, call) as failure:
        wait_for(lambda: has_job(spark) or bool(failure))
        seen = seen_and_cancelled(other, failure, after=1)
    assert (seen.procedure, seen.table, seen.progress) == ("merge_into", "m", None)
    assert files(spark, warehouse, "m") == before
    assert spark.sql("SELECT sum(v) FROM m").collect()[0][0] == 45


def test_a_failed_task_takes_the_files_of_the_others_along(spark: SparkSession, warehouse: Path) -> None:
    spark.sql("CREATE TABLE f (id BIGINT, p INT) PARTITIONED BY (p)")
    spark.sql("INSERT INTO f VALUES (1, 1)")
    before = files(spark, warehouse, "f")
    bad = "if(id = 199999, raise_error(concat('at ', reflect('java.lang.Thread', 'sleep', 3000L))), 0)"
    with pytest.raises(Exception, match=r"(?s)at |USER_RAISED"):
        spark.sql(f"INSERT INTO f SELECT id + {bad}, CAST(id % 3 AS INT) FROM range(0, 200000, 1, 2)")
    assert files(spark, warehouse, "f") == before
    assert spark.sql("SELECT * FROM f").collect() == [(1, 1)]


def test_ctrl_c_also_ends_what_a_statement_parses(spark: SparkSession) -> None:
    jvm, session = cast("Any", spark._jvm), spark._jsparkSession
    slow = 'reflect("java.lang.Thread", "sleep", 20000L) IS NOT NULL'
    text = f"EXECUTE IMMEDIATE 'SELECT id FROM range(2) WHERE {slow}'"
    parsed = session.sessionState().sqlParser().parsePlan(text)
    jvm.org.apache.hadoop.hive.common.HiveInterruptUtils.interrupt()
    with pytest.raises(Exception, match="SPARK_JOB_CANCELLED"):
        DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, parsed), spark).collect()
    assert spark.sql("SELECT count(*) FROM range(2)").collect() == [(2,)]

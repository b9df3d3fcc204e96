"""Python workers, and the process that starts them, are killed while statements run: each succeeds or fails with the
cause.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.end_to_end.kills import _processes

WORKER, DAEMON = "worker", "daemon"
STATEMENTS = {
    "a merging read": "SELECT sum(id), max(v) FROM keyed",
    "a write": "INSERT INTO plain SELECT id, CAST(id AS STRING) FROM range(0, 30000, 1, 2)",
    "a compaction": "CALL paimon.sys.compact(table => '{database}.keyed', compact_strategy => 'full')",
    "a merge": "MERGE INTO keyed USING (SELECT id * 3 AS id FROM range(500)) s ON keyed.id = s.id "
    "WHEN MATCHED THEN UPDATE SET v = 'merged' WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'new')",
    "a lookup compaction": "CALL paimon.sys.compact(table => '{database}.looked', compact_strategy => 'minor')",
    "a delete that marks rows": "DELETE FROM marked WHERE id % 3 = 0",
}


def _pids(role: str) -> list[int]:
    """Return the workers of this process, or these and what starts them."""
    found = _processes()
    below, new = set[int](), {os.getpid()}
    while new:
        new = {pid for pid, (parent, _) in found.items() if parent in new}
        below |= new
    daemons = {pid for pid in below if "pyspark.daemon" in found[pid][1]}
    workers = {pid for pid in daemons if found[pid][0] in daemons}
    return sorted(workers if role == WORKER else daemons)


@contextmanager
def killed(role: str) -> Iterator[None]:
    """Kill every process of a role that there is meanwhile."""
    done = threading.Event()

    def kill() -> None:
        while not done.is_set():
            for pid in _pids(role):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            done.wait(0.03)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.fixture
def tables(spark: SparkSession) -> str:
    """Two tables, one of which holds rows that must be merged; the name of their database."""
    database = spark.catalog.currentDatabase()
    options = "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2', 'write-only' = 'true')"
    spark.sql(f"CREATE TABLE keyed (id BIGINT NOT NULL, v STRING) {options}")
    spark.sql("CREATE TABLE plain (id BIGINT, v STRING)")
    more = options.replace(")", ", 'changelog-producer' = 'lookup')")
    spark.sql(f"CREATE TABLE looked (id BIGINT NOT NULL, v STRING) {more}")
    vectors = (
        "'deletion-vectors.enabled' = 'true', 'deletion-vectors.mark-deletes' = 'true', 'write.local-max-rows' = '0'"
    )
    marking = f"TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2', {vectors})"
    spark.sql(f"CREATE TABLE marked (id BIGINT NOT NULL, v STRING) {marking}")
    spark.sql("INSERT INTO marked SELECT id, CAST(id AS STRING) FROM range(0, 1000, 1, 2)")
    for name in ("keyed", "keyed", "keyed", "looked"):
        spark.sql(f"INSERT INTO {name} SELECT id, CAST(id AS STRING) FROM range(0, 1000, 1, 2)")
    return database


@pytest.mark.parametrize("role", [WORKER, DAEMON])
def test_a_statement_whose_workers_are_killed_says_so(spark: SparkSession, tables: str, role: str) -> None:
    failures = []
    for name, statement in STATEMENTS.items():
        with killed(role):
            try:
                spark.sql(statement.format(database=tables)).collect()
            except Exception as error:  # noqa: BLE001 - judged below
                failures.append((name, str(error)))
    assert {name for name, _ in failures} == set(STATEMENTS)
    for name, text in failures:
        assert text.startswith("[WORKER_FAILED] "), f"{name}: {text}"
        assert "\n" not in text.partition("JVM stacktrace")[0].strip(), f"{name}: {text}"
    assert spark.sql("SELECT count(*) FROM keyed").first()[0] >= 1000  # type: ignore[index]
    assert spark.sql("SELECT count(*) FROM marked").first()[0] == 1000  # type: ignore[index]
    spark.sql(STATEMENTS["a delete that marks rows"])
    assert spark.sql("SELECT count(*) FROM marked").first()[0] == 666  # type: ignore[index]
    spark.sql(STATEMENTS["a lookup compaction"].format(database=tables)).collect()
    changes = spark.read.option("incremental-between", "0,2").table("`looked$audit_log`")
    assert [tuple(r) for r in changes.groupBy("rowkind").count().collect()] == [("+I", 1000)]
    assert spark.sql(STATEMENTS["a write"]).collect() == []
    spark.sql(STATEMENTS["a merge"]).collect()
    assert spark.sql("SELECT count(*) FROM keyed WHERE v = 'merged'").first()[0] >= 333  # type: ignore[index]


def test_a_worker_that_died_before_spark_looked_it_up_is_named(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    error = jvm.java.lang.IllegalStateException("Python daemon failed to launch worker.")
    found = json.loads(jvm.org.apache.spark.sql.paimonbridge.TaskFailure.description(error))
    assert found["code"] == "WORKER_FAILED"

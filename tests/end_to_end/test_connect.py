"""Spark Connect: a client without a JVM, the catalog on the server."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest

from paimon_spark.bridge.jars import spark_home
from tests.end_to_end.programs import Place, free_port, plain_conf, server

CLIENT = """
    import sys
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    spark.sql("CREATE DATABASE paimon.remote")
    spark.sql("CREATE TABLE paimon.remote.t (id INT, v STRING) TBLPROPERTIES ('primary-key' = 'id')")
    spark.sql("INSERT INTO paimon.remote.t VALUES (1, 'a'), (2, 'b')")
    spark.sql("INSERT INTO paimon.remote.t VALUES (2, 'c')")
    print("ANSWER", [tuple(r) for r in spark.table("paimon.remote.t").orderBy("id").collect()])
    print("STATUS", spark.sql("CALL paimon.sys.compact(table => 'remote.t')").collect()[0]["result"])
    spark.stop()
"""


def connect_server(place: Place, port: int, *settings: str) -> list[str | Path]:
    return [
        *(spark_home() / "bin" / "spark-submit", *plain_conf(place.warehouse)),
        *(
            "--conf",
            f"spark.connect.grpc.binding.port={port}",
            "--conf",
            "spark.connect.grpc.binding.address=127.0.0.1",
        ),
        *settings,
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"),
    ]


MERGES = """
    import sys
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    spark.sql("CREATE DATABASE paimon.remote")
    spark.sql("CREATE TABLE paimon.remote.t (id INT, v STRING) TBLPROPERTIES ('primary-key' = 'id')")
    spark.sql("INSERT INTO paimon.remote.t VALUES (1, 'a'), (2, 'b')")
    for i in range(4):
        spark.sql(f"MERGE INTO paimon.remote.t USING (SELECT {i} AS id, 'm' AS v) s ON t.id = s.id "
                  "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *")
    for i in range(3):
        spark.sql(f"CALL paimon.sys.merge_into(target_table => 'remote.t', source_table => 's', "
                  f"source_sqls => 'CREATE TEMPORARY VIEW s AS SELECT {i} AS id, chr(67 + {i}) AS v', "
                  "merge_condition => 't.id = s.id', matched_upsert_setting => 'v = s.v')")
    print("ANSWER", [tuple(r) for r in spark.table("paimon.remote.t").orderBy("id").collect()], flush=True)
    sys.stdin.readline()
    spark.stop()
"""


@pytest.mark.slow
def test_merges_of_a_session_share_its_python_workers(place: Place) -> None:
    port = free_port()
    client = place.directory / "client.py"
    client.write_text(textwrap.dedent(MERGES))
    isolated = ("--conf", "spark.sql.artifact.isolation.enabled=true")
    with server(place, connect_server(place, port, *isolated), port) as started:
        command = [sys.executable, str(client), f"sc://127.0.0.1:{port}"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            assert running.stdin is not None
            answer = running.stdout.readline()
            daemons = daemons_below(started.pid)
            running.stdin.write("\n")
            running.stdin.close()
            assert answer == "ANSWER [(0, 'C'), (1, 'D'), (2, 'E'), (3, 'm')]\n"
            assert running.wait(60) == 0
    assert 1 <= daemons <= 2


def daemons_below(pid: int) -> int:
    """Return how many processes that fork Python workers descend from a process; the workers do not count."""
    found = 0
    with suppress(FileNotFoundError, ProcessLookupError):  # the process ended
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in _children(thread):
                found += 1 if "pyspark.daemon" in _command(child) else daemons_below(child)
    return found


def _children(thread: Path) -> list[int]:
    try:
        return [int(child) for child in (thread / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):  # the thread ended
        return []


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_a_remote_session_writes_reads_and_calls(place: Place) -> None:
    port = free_port()
    command = connect_server(place, port)
    client = place.directory / "client.py"
    client.write_text(textwrap.dedent(CLIENT))
    with server(place, command, port):
        done = place.run([sys.executable, client, f"sc://127.0.0.1:{port}"])
    assert "ANSWER [(1, 'a'), (2, 'c')]" in done.stdout
    assert "STATUS True" in done.stdout


STREAMS = """
    import sys, time
    from pyspark.sql import SparkSession
    from paimon_spark.streaming import changelog_count, changelog_kind, changelog_max, changes

    spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    spark.sql("CREATE DATABASE paimon.remote")
    keyed = "TBLPROPERTIES ('primary-key' = '{}', 'bucket' = '1', 'changelog-producer' = 'lookup')"
    spark.sql("CREATE TABLE paimon.remote.s (id INT, g INT, v INT) " + keyed.format("id"))
    spark.sql("CREATE TABLE paimon.remote.t (g INT, n BIGINT, v INT) " + keyed.format("g"))
    spark.sql("INSERT INTO paimon.remote.s VALUES (1, 1, 5), (2, 1, 6), (3, 2, 7)")
    groups = changes(spark, "paimon.remote.s").groupBy("g")
    totals = groups.agg(changelog_count().alias("n"), changelog_max("v").alias("v"), changelog_kind())
    def run():
        writer = totals.writeStream.outputMode("update").option("checkpointLocation", sys.argv[2])
        writer.trigger(availableNow=True).toTable("paimon.remote.t").awaitTermination()
    run()
    spark.sql("DELETE FROM paimon.remote.s WHERE id > 1")
    run()
    print("ANSWER", [tuple(r) for r in spark.table("paimon.remote.t").orderBy("g").collect()])
    spark.sql("SET 'pipeline.name' = 'copy'")
    spark.sql("USE paimon.remote")
    spark.sql("INSERT INTO t SELECT g + 10, n, v, rowkind FROM paimon_changes('t')").collect()
    print("JOBS", [r[1] for r in spark.sql("SHOW JOBS").collect()])
    print("STOPPED", len(spark.sql("STOP JOB 'copy'").collect()))
    spark.stop()
"""


@pytest.mark.slow
def test_streams_of_a_remote_session(place: Place) -> None:
    port = free_port()
    client = place.directory / "client.py"
    client.write_text(textwrap.dedent(STREAMS))
    with server(place, connect_server(place, port), port):
        done = place.run([sys.executable, client, f"sc://127.0.0.1:{port}", place.directory / "checkpoint"])
    assert done.stdout.splitlines() == ["ANSWER [(1, 1, 5)]", "JOBS ['copy']", "STOPPED 1"]

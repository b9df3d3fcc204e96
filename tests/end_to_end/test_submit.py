"""spark-submit: a SQL script, and a PySpark program."""

from __future__ import annotations

import re
import subprocess
import time

import pytest

from tests.end_to_end.programs import BIN, ROOT, Place

SCRIPT = """
-- A table, twice the same key.
CREATE DATABASE paimon.jobs;
CREATE TABLE paimon.jobs.t (id INT, v STRING) TBLPROPERTIES ('primary-key' = 'id');
INSERT INTO paimon.jobs.t VALUES (1, 'a;b'), (2, '${word}');
INSERT INTO paimon.jobs.t VALUES (1, 'c');
SELECT * FROM paimon.jobs.t ORDER BY id;
"""

PROGRAM = """
import sys
from pyspark.sql import SparkSession, functions as F

import paimon_spark

builder = paimon_spark.configure(SparkSession.builder, catalog="paimon", warehouse=sys.argv[1])
spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
spark.sql("CREATE DATABASE paimon.jobs")
numbers = spark.range(100).select("id", (F.col("id") % 3).cast("int").alias("part"))
numbers.writeTo("paimon.jobs.numbers").using("paimon").partitionedBy("part").create()
numbers.where("part = 0").writeTo("paimon.jobs.numbers").overwritePartitions()
rows = spark.sql("SELECT part, count(*) AS n, sum(id) AS s FROM paimon.jobs.numbers GROUP BY part ORDER BY part").collect()
print("ANSWER", [tuple(row) for row in rows])
spark.stop()
"""
EXPECTED = [(part, len(range(part, 100, 3)), sum(range(part, 100, 3))) for part in range(3)]


@pytest.mark.slow
def test_a_script_through_the_launcher(place: Place) -> None:
    script = place.directory / "job.sql"
    script.write_text(SCRIPT)
    done = place.cli("submit", script, "word=x")
    assert done.stdout.splitlines() == ["id  v", "--  -", " 1  c", " 2  x", ""]
    assert place.left_behind() == {"warehouse", "job.sql"}


def test_a_script_with_the_plain_settings(place: Place) -> None:
    script = place.directory / "job.sql"
    script.write_text(SCRIPT)
    done = place.stock("spark-submit", ROOT / "paimon_spark/cli/submit.py", script, "word=x")
    assert done.stdout.splitlines()[2:4] == [" 1  c", " 2  x"]


@pytest.mark.slow
def test_a_failing_script_has_an_exit_status(place: Place) -> None:
    script = place.directory / "job.sql"
    script.write_text("SELECT 1 AS one; CALL paimon.sys.compact(table => 'no.such'); SELECT 2 AS two")
    done = place.cli("submit", script, check=False)
    assert done.returncode != 0
    assert "one" in done.stdout
    assert "two" not in done.stdout
    assert "[DATABASE_NOT_FOUND]" in done.stdout
    assert f"Failed at line 1 of {script}: CALL paimon.sys.compact(table => 'no.such')\n" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_failing_script_names_one_line_and_it_is_right(place: Place) -> None:
    script = place.directory / "job.sql"
    script.write_bytes(
        "\ufeff-- head\r\nSELECT 1 AS one;\r\n/* two\r\n*/ SELECT 1,\r\n-- inside\r\n  nope;\r\n".encode()
    )
    done = place.cli("submit", script, check=False)
    assert f"Failed at line 6 of {script}: nope\n" in done.stdout
    assert len(re.findall(r"\b[Ll]ine \d+", done.stdout)) == 1, done.stdout
    assert "'Project" not in done.stdout


def test_a_script_that_is_not_there_is_told(place: Place) -> None:
    done = place.cli("submit", "nosuch.sql", check=False)
    assert done.returncode == 1
    assert "The script nosuch.sql cannot be read" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.slow
def test_a_pyspark_program_configures_itself(place: Place) -> None:
    program = place.directory / "program.py"
    program.write_text(PROGRAM)
    from paimon_spark.bridge.jars import spark_home

    submit = [spark_home() / "bin/spark-submit", "--master", "local[2]", "--conf", "spark.ui.enabled=false"]
    done = place.run([*submit, program, place.warehouse])
    assert f"ANSWER {EXPECTED}" in done.stdout


def test_a_pyspark_program_with_the_plain_settings(place: Place) -> None:
    program = place.directory / "program.py"
    program.write_text(PROGRAM)
    done = place.stock("spark-submit", program, place.warehouse)
    assert f"ANSWER {EXPECTED}" in done.stdout


STREAMS = """
CREATE DATABASE paimon.jobs;
USE paimon.jobs;
CREATE TABLE s (id INT);
CREATE TABLE t (id INT);
INSERT INTO s VALUES (1), (2);
SET 'execution.checkpointing.interval' = '1 s';
SET 'pipeline.name' = 'copy';
INSERT INTO t SELECT id FROM paimon_changes('s');
SET 'pipeline.name' = 'broken';
INSERT INTO t SELECT CAST(raise_error(concat('no ', id)) AS INT) FROM paimon_changes('s');
SELECT 'the end' AS said;
"""


@pytest.mark.slow
def test_a_script_waits_for_its_jobs(place: Place) -> None:
    script = place.directory / "job.sql"
    script.write_text(STREAMS)
    done = place.cli("submit", script, check=False)
    assert done.returncode == 1
    assert "the end" in done.stdout
    told = done.stdout + done.stderr
    assert "The script has ended, and its jobs run on:" in told
    assert re.search(r"The job 'broken' has failed: .*no 1", told, re.DOTALL)


STOPPABLE = """
CREATE DATABASE paimon.jobs;
USE paimon.jobs;
CREATE TABLE s (id INT);
CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED) WITH ('bucket' = '1');
SET 'execution.checkpointing.interval' = '1 s';
INSERT INTO s VALUES (1), (2);
SET 'pipeline.name' = 'copy';
INSERT INTO t SELECT id FROM paimon_changes('s');
CALL sys.compact(table => 't', streaming => true);
SELECT 'the end' AS said;
"""


@pytest.mark.slow
def test_jobs_of_a_script_are_stopped_from_another_process(place: Place) -> None:
    script = place.directory / "job.sql"
    script.write_text(STOPPABLE)
    command = [BIN / "paimon-spark", "submit", "--warehouse", place.warehouse, "--master", "local[2]", script]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    table = place.warehouse / "jobs.db/t"
    until = time.monotonic() + 120
    while not list(table.glob("snapshot/snapshot-*")):
        assert time.monotonic() < until
        assert program.poll() is None
        time.sleep(0.2)
    place.cli("stop", "--database", "jobs", "--table", "t", "--query", "copy")
    assert program.poll() is None
    place.cli("stop", "--database", "jobs", "--table", "t", "--query", "compact_jobs.t")
    said, _ = program.communicate(timeout=60)
    assert program.returncode == 0, said
    assert [f.name for f in (table / "stream").iterdir() if not f.name.startswith("attempt-")] == []

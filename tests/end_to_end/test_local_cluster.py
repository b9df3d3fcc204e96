"""Small reads where tasks run in other processes than the driver, which a local master does not show."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from paimon_spark.bridge.jars import spark_home
from tests.end_to_end.programs import ROOT, spark_environ

pytestmark = pytest.mark.slow

PROGRAM = """
import sys
import paimon_spark
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local-cluster[1,1,600]")
for key, value in {
    "driver.memory": "600m", "executor.memory": "500m", "ui.enabled": "false", "sql.shuffle.partitions": "2",
}.items():
    builder = builder.config(f"spark.{key}", value)
spark = paimon_spark.configure(builder, catalog="paimon", warehouse=sys.argv[1]).getOrCreate()
spark.sql("CREATE DATABASE paimon.d")
spark.sql(
    "CREATE TABLE paimon.d.t (id BIGINT NOT NULL, v INT, s STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')"
)
spark.sql("INSERT INTO paimon.d.t SELECT id, 5, concat('n', id) FROM range(20000)")
for query in (
    "SELECT count(*), sum(v) FROM paimon.d.t",
    "SELECT count(*), sum(v), max(s) FROM paimon.d.t WHERE id >= 0",
    "SELECT id FROM paimon.d.t ORDER BY s DESC LIMIT 2",
    "SELECT count(*) FROM paimon.d.t JOIN (SELECT max(id) AS id FROM paimon.d.t GROUP BY v) USING (id)",
):
    frame = spark.sql(query)
    planned = "PaimonDriverTask" in frame._jdf.queryExecution().executedPlan().toString()
    print("ANSWER", planned, [tuple(row) for row in frame.collect()])
spark.stop()
"""


def test_operators_over_a_small_table_run_in_the_driver(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path / "warehouse"],
        cwd=tmp_path,
        env=spark_environ() | {"PYTHONPATH": str(ROOT), "SPARK_HOME": str(spark_home())},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert [line.removeprefix("ANSWER ") for line in done.stdout.splitlines() if line.startswith("ANSWER")] == [
        "True [(20000, 100000)]",
        "True [(20000, 100000, 'n9999')]",
        "True [(9999,), (9998,)]",
        "True [(1,)]",
    ]

"""The example of the documentation through the shell, and Spark's own scans with Hadoop's client."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from paimon_spark.bridge.jars import cache_dir
from paimon_spark.bridge.s3_jars import fetch_s3_jars
from paimon_spark.errors import EngineError
from tests.end_to_end.programs import BIN, ROOT, TIMEOUT, spark_environ
from tests.stores import S3Server, moto_server

SECRETS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with moto_server() as running:
        yield running


def run(script: str, place: Path, **environ: str) -> str:
    """Run a script of the shell with this `paimon-spark`; return its output."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=place,
        env={**spark_environ(), "PYTHONPATH": str(ROOT), "PATH": path, **environ},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_the_example_of_the_documentation_runs(server: S3Server, tmp_path: Path) -> None:
    page = (ROOT / "docs/s3.md").read_text(encoding="utf-8")
    [script] = re.findall(r"```sh\n(export AWS_ACCESS_KEY_ID.*?)```", page, re.DOTALL)
    for example, real in {
        "my-bucket": server.bucket(),
        "http://localhost:9000": server.endpoint,
        "my-access-key": server.access_key,
        "my-secret-key": server.secret_key,
    }.items():
        assert example in script
        script = script.replace(example, real)
    said = run(script, tmp_path)
    assert re.search(r"1\s+paid", said)
    assert re.search(r"2\s+new", said)
    assert server.secret_key not in said
    assert server.access_key not in said


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_sparks_own_scans_read_the_store(server: S3Server, tmp_path: Path, scheme: str) -> None:
    try:
        fetch_s3_jars(print)
    except EngineError as e:
        pytest.skip(str(e))
    bucket = server.bucket()
    sql = """
        SET spark.paimon.read.local-max-bytes = 0;
        CREATE TABLE paimon.default.p (k INT, day STRING, v STRING) PARTITIONED BY (day);
        INSERT INTO paimon.default.p SELECT CAST(id AS INT), IF(id < 5, 'mon', 'tue'), concat('v', id) FROM range(10);
        CREATE TABLE paimon.default.o TBLPROPERTIES ('file.format'='orc') AS SELECT * FROM paimon.default.p;
        EXPLAIN SELECT * FROM paimon.default.p WHERE day = 'mon' AND k > 2;
        SELECT 'parquet', k, v FROM paimon.default.p WHERE day = 'mon' AND k > 2 ORDER BY k;
        SELECT 'orc', sum(k), count(DISTINCT v) FROM paimon.default.o;
        UPDATE paimon.default.p SET v = 'changed' WHERE k = 3;
        SELECT 'changed', k, v FROM paimon.default.p WHERE v = 'changed';
    """
    options = f"--option s3.endpoint={server.endpoint} --option s3.path.style.access=true"
    command = f'paimon-spark spark-sql --warehouse {scheme}://{bucket}/w {options} --master "local[2]" -e "$SQL"'
    keys = dict(zip(SECRETS, (server.access_key, server.secret_key), strict=True))
    said = run(command, tmp_path, SQL=sql, PAIMON_SPARK_CACHE=str(cache_dir()), **keys)
    assert re.search(r"splits=1 \(1 native, 0 merge\)", said)
    assert "FileScan parquet" in said
    assert re.findall(r"^parquet\t(\d)\t(v\d)$", said, re.MULTILINE) == [("3", "v3"), ("4", "v4")]
    assert re.search(r"^orc\t45\t10$", said, re.MULTILINE)
    assert re.search(r"^changed\t3\tchanged$", said, re.MULTILINE)
    assert server.secret_key not in said
    assert server.access_key not in said
    assert server.door is not None
    assert any("hadoop" in agent.lower() for agent in server.door.agents)

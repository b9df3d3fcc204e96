"""kill -9 of a streaming query between its commit of the table and that of its checkpoint: each row arrives once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import TableHandle
from tests.end_to_end.programs import ROOT, spark_environ
from tests.end_to_end.stream_program import COPY, SOURCE

COMMITS = 8
_PATIENCE_SECONDS = 240


def tables(warehouse: Path) -> tuple[TableHandle, TableHandle]:
    """Return a table with some commits, and an empty one."""
    catalog = paimon_spark.connect(warehouse)
    catalog.create_database("d")
    schema = pa.schema([("id", pa.int64()), ("s", pa.string())])
    options = {"write-only": "true"}
    source, copy = (catalog.create_table(name, schema, options=options) for name in (SOURCE, COPY))
    for n in range(COMMITS):
        source.append(pa.table({"id": range(10 * n, 10 * n + 10), "s": [f"row {n}"] * 10}, schema=schema))
    return source, copy


def program(directory: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.end_to_end.stream_program"]
    path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH", "")) if p)
    with (directory / "program.log").open("ab") as log:
        return subprocess.Popen(
            [*command, str(directory / "warehouse"), str(directory / "checkpoint")],
            cwd=directory,
            env=spark_environ() | {"PYTHONPATH": path},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def kill_at(running: subprocess.Popen[bytes], snapshot: Path) -> None:
    """Kill the program and all that it has started once a snapshot is there."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not snapshot.exists():
        assert running.poll() is None, "the program has ended before it was killed"
        assert time.monotonic() < deadline
        time.sleep(0.0005)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()


@pytest.mark.slow
def test_each_row_arrives_once_whenever_the_query_dies(tmp_path: Path) -> None:
    source, copy = tables(tmp_path / "warehouse")
    snapshots, commits = tmp_path / "warehouse/d.db/copy/snapshot", tmp_path / "checkpoint/commits"
    replayed = 0
    for batch in (0, 2, 5):
        kill_at(program(tmp_path), snapshots / f"snapshot-{batch + 1}")
        replayed += not (commits / str(batch)).exists()
    assert program(tmp_path).wait(_PATIENCE_SECONDS) == 0, (tmp_path / "program.log").read_text()[-4000:]
    assert replayed, "no kill was between the two commits"
    wanted = source.to_arrow().sort_by("id")
    assert copy.to_arrow().sort_by("id").equals(wanted)
    assert len(list(snapshots.glob("snapshot-*"))) == COMMITS

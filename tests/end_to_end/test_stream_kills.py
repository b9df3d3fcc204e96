"""kill -9 of a streaming query between its commit of the table and that of its checkpoint: each row arrives once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import TableHandle
from paimon_spark.testing.invariants import lost, violations
from paimon_spark.testing.trials_of_processes import faults_of_cleaning
from tests.end_to_end.kills import ENGINE, JVM, WORKER, pids_of
from tests.end_to_end.programs import ROOT, spark_environ
from tests.end_to_end.stream_program import COPY, SOURCE

COMMITS = 8
_PATIENCE_SECONDS = 600
_MOST_UNREAD = 10


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


def program(directory: Path, how: str = "once") -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.end_to_end.stream_program"]
    path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH", "")) if p)
    with (directory / "program.log").open("ab") as log:
        return subprocess.Popen(
            [*command, str(directory / "warehouse"), str(directory / "checkpoint"), how],
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


class RandomKills:
    """A stream between two tables whose processes die at random moments, while others compact and expire its target."""

    def __init__(self, directory: Path, seed: int) -> None:
        paimon_spark.jar_path()  # compiled before the first program waits for it
        self._directory, self._random = directory, Random(seed)
        self._source, self.copy = tables(directory / "warehouse")
        self._next = 10 * COMMITS
        self.killed: Counter[str] = Counter()
        self._running: subprocess.Popen[bytes] | None = None

    def run(self, kills: int) -> None:
        """Kill so often, then let the stream end."""
        try:
            while self.killed.total() < kills:
                self._source.append(self._rows())
                self._beside()
                self._kill()
        finally:
            self._end()
        assert program(self._directory, "rest").wait(_PATIENCE_SECONDS) == 0, self._log()

    def _rows(self) -> pa.Table:
        ids = range(self._next, self._next + self._random.randrange(1, 2000))
        self._next = ids.stop
        return pa.table({"id": ids, "s": [f"row {i}" for i in ids]})

    def _beside(self) -> None:
        """Do what others do to the copy."""
        what = self._random.randrange(4)
        if what == 0:
            self.copy.compact()
        elif what == 1:
            self.copy.expire_snapshots(retain_max=20)

    def _kill(self) -> None:
        if self._running is None or self._running.poll() is not None:
            self._running = program(self._directory, self._random.choice(["forever", "workers"]))
            before = len(self._batches())
            self._wait(lambda: len(self._batches()) > before)
        time.sleep(self._random.random() * 1.5)
        role = self._random.choice([ENGINE, ENGINE, WORKER, WORKER, JVM])
        found = pids_of(self._running.pid, role)
        if role == JVM:
            self._end()
        elif found:
            os.kill(self._random.choice(found), signal.SIGKILL)
        self.killed[role] += role == JVM or bool(found)

    def _batches(self) -> list[Path]:
        return list((self._directory / "checkpoint/commits").glob("[0-9]*"))

    def _wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, self._log()
            time.sleep(1)
            if self._source.snapshots()[-1].id < _MOST_UNREAD * (1 + len(self._batches())):
                self._source.append(self._rows())

    def _end(self) -> None:
        if self._running is not None:
            os.killpg(self._running.pid, signal.SIGKILL)
            self._running.wait()
            self._running = None

    def _log(self) -> str:
        return (self._directory / "program.log").read_text(errors="replace")[-4000:]

    def check(self) -> None:
        """Check that each row of the source arrived once, each batch is one snapshot, and only what a crash leaves is left."""
        wanted, found = (t.to_arrow().column("id").to_pylist() for t in (self._source, self.copy))
        assert sorted(found) == sorted(wanted)
        assert len(wanted) == self._next
        table = self.copy.load()
        assert violations(table) == []
        assert lost(table) == set()
        snapshots = [s for i in table.snapshots.ids() if (s := table.snapshots.find(i)) is not None]
        batches = [(s.commit_user, s.commit_identifier) for s in snapshots if s.commit_kind.value == "APPEND"]
        assert len(batches) == len(set(batches))
        left = [fault for fault in faults_of_cleaning(self.copy) if "/stream/attempt-" not in fault]
        assert left == []  # the file of the last attempt stays


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_hundred_random_kills(tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Twenty-five for each seed."""
    trial = RandomKills(tmp_path, seed)
    trial.run(25)
    with capsys.disabled():
        print(f"\nseed {seed}: killed {dict(trial.killed)}")
    trial.check()
    assert min(trial.killed[role] for role in (ENGINE, WORKER, JVM)) > 0

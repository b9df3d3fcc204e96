"""Several connections to a Thrift server at once: the number of small queries per second of each engine."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyspark
from pyhive import hive
from thrift.transport.TTransport import TTransportException

from benchmarks.engines import Engine
from benchmarks.process_tree import Usage

CONNECTIONS = 8
QUERIES = 25
"""The queries of a connection in a turn, unless the turn ends before."""
TURN_S = 20
TURNS = 3
TARGET = 1.25
"""Minimum queries per second, relative to the fastest peer: the inverse of 0.8 times the time."""
_STARTS_WITHIN_S = 240
_SERVER = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
_ROWS = ", ".join(f"({n}, 'row {n}', {n}.5)" for n in range(10))
STATEMENTS: Mapping[str, str] = {
    "lookup of a key": "SELECT * FROM {t} WHERE id = {n} % 10",
    "SELECT of 10 rows": "SELECT * FROM {t} ORDER BY id",
}


@dataclass(frozen=True, slots=True)
class Rate:
    """Queries per second of each turn, and CPU milliseconds of a query on average."""

    turns: tuple[float, ...]
    cpu: float

    @property
    def best(self) -> float:
        """Return the queries per second of the best turn."""
        return max(self.turns)


@dataclass(slots=True)
class Rates:
    """Measurements by statement and engine, and failures."""

    found: dict[str, dict[str, Rate]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def as_figures(self) -> dict[str, object]:
        """Return the figures for the file of results."""
        return {
            name: {engine: {"per_second": r.turns, "cpu_milliseconds": r.cpu} for engine, r in by_engine.items()}
            for name, by_engine in self.found.items()
        }

    def as_text(self) -> list[str]:
        """Return the table for the terminal."""
        lines = []
        for name, by_engine in self.found.items():
            cells = "".join(f"{f'{engine} {r.best:.1f} ({r.cpu:.0f})':>28}" for engine, r in by_engine.items())
            peers = [r.best for engine, r in by_engine.items() if engine != "paimon-spark"]
            own = by_engine.get("paimon-spark")
            ratio = own.best / max(peers) if own and peers else None
            word = "" if ratio is None else f"   {ratio:.2f} ≥ {TARGET} {'reached' if ratio >= TARGET else 'missed'}"
            lines.append(f"  {name:<20}{cells}{word}")
        return lines


@dataclass(frozen=True, slots=True)
class _Turn:
    """The queries of a turn, and the wall and CPU seconds until all connections had their results."""

    queries: int
    wall: float
    cpu: float


@dataclass(frozen=True, slots=True)
class _Asked:
    """A server with its connections, which stay open: closing the first one would close the jars of the session."""

    engine: Engine
    pid: int
    connections: Sequence[Any]

    @property
    def table(self) -> str:
        return f"{self.engine.database}.asked"

    def prepare(self) -> None:
        columns = "id BIGINT NOT NULL, name STRING, amount DOUBLE"
        for text in (
            f"CREATE DATABASE IF NOT EXISTS {self.engine.database}",
            f"CREATE TABLE {self.table} ({columns}) {self.engine.small_layout}",
            f"INSERT INTO {self.table} VALUES {_ROWS}",
        ):
            _run(self.connections[0], text)

    def turn(self, text: str) -> _Turn:
        """Query with all connections at once."""
        began = time.perf_counter()

        def ask(connection: Any) -> int:
            for n in range(QUERIES):
                _run(connection, text.format(t=self.table, n=n))
                if time.perf_counter() - began > TURN_S:
                    return n + 1
            return QUERIES

        with Usage(self.pid) as usage, ThreadPoolExecutor(CONNECTIONS) as pool:
            queries = sum(pool.map(ask, self.connections))
            ended = time.perf_counter()
        return _Turn(queries, ended - began, usage.cpu)


def measure(engines: Sequence[Engine], work: Path, report: Callable[[str], None]) -> Rates:
    """Start a server of each engine, and query the servers in turns, so that all have the same machine load."""
    rates = Rates()
    with contextlib.ExitStack() as stack:
        asked: dict[str, _Asked] = {}
        for engine in engines:
            if engine.deletes:
                with _noted(rates, f"Thrift server of {engine.label}"):
                    server = stack.enter_context(_server(engine, work / "thrift"))
                    server.prepare()
                    asked[engine.name] = server
        for name, text in STATEMENTS.items():
            turns: dict[str, list[_Turn]] = {}
            for number in range(TURNS + 1):
                for engine_name, server in list(asked.items()):
                    done = False
                    with _noted(rates, f"{name} over Thrift, {server.engine.label}"):
                        turn = server.turn(text)
                        done = True
                        if number:
                            turns.setdefault(engine_name, []).append(turn)
                    if not done:
                        asked.pop(engine_name)
            for engine_name, done_turns in turns.items():
                cpu = 1000 * sum(t.cpu for t in done_turns) / sum(t.queries for t in done_turns)
                rate = Rate(tuple(t.queries / t.wall for t in done_turns), cpu)
                rates.found.setdefault(name, {})[engine_name] = rate
            report(f"  {CONNECTIONS} connections: {name}")
    return rates


@contextlib.contextmanager
def _noted(rates: Rates, what: str) -> Iterator[None]:
    """Record the failure of an engine, and continue with the others."""
    try:
        yield
    except (OSError, hive.Error, TTransportException) as e:
        rates.failures.append(f"{what}: {str(e)[:500]}")


@contextlib.contextmanager
def _connection(port: int) -> Iterator[Any]:
    connection = hive.connect("127.0.0.1", port)
    try:
        yield connection
    finally:
        with contextlib.suppress(TTransportException, OSError):
            connection.close()


def _run(connection: Any, text: str) -> None:
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.execute(text)
        if cursor.description is not None:
            cursor.fetchall()


@contextlib.contextmanager
def _server(engine: Engine, work: Path) -> Iterator[_Asked]:
    """Run the stock Thrift server with the settings of an engine, and connect to it."""
    directory = work / engine.name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    conf = {**engine.session(directory), "spark.sql.catalogImplementation": "in-memory"}
    if jar := conf.get("spark.jars"):
        conf["spark.driver.extraClassPath"] = jar
    options = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    home = Path(pyspark.__file__).parent
    environ = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    command = [str(home / "bin" / "spark-submit"), "--class", _SERVER]
    binding = [f"hive.server2.thrift.{key}={value}" for key, value in (("port", port), ("bind.host", "127.0.0.1"))]
    hiveconf = [part for one in binding for part in ("--hiveconf", one)]
    with (directory / "server.log").open("w") as log:
        process = subprocess.Popen(
            [*command, *options, "spark-internal", *hiveconf], stdout=log, stderr=log, cwd=directory, env=environ
        )
    try:
        _wait(process, port)
        with contextlib.ExitStack() as stack:
            yield _Asked(engine, process.pid, [stack.enter_context(_connection(port)) for _ in range(CONNECTIONS)])
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + _STARTS_WITHIN_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.5)
    raise OSError("it does not start; see its log")

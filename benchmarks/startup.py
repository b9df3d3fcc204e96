"""The startup cost of a session: `spark-sql`, and the first statement of a program."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyspark

from benchmarks.engines import PEERS, Engine, ours, parquet
from benchmarks.session import EngineFailedError, EngineSession

FIRST = {"first SELECT": "SELECT * FROM {t} ORDER BY id", "first INSERT": "INSERT INTO {t} VALUES (100, 'new', 0.5)"}
TARGET = 1.2
"""Maximum cost of the first statement of a session, relative to Paimon's."""


def startup_seconds(rounds: int, work: Path) -> dict[str, list[float]]:
    """Return the wall seconds of `spark-sql -e 'select 1'`, without and with the extension, each a list over rounds."""
    found: dict[str, list[float]] = {"stock": [], "with the extension": []}
    for _ in range(rounds):
        for name, engine in zip(found, (parquet(), ours()), strict=True):
            found[name].append(_start(engine, work))
    return found


def first_statements(
    engines: Sequence[Engine], rounds: int, work: Path
) -> tuple[dict[str, dict[str, list[tuple[float, float]]]], list[str]]:
    """Return CPU and wall seconds of the first statement of a session by statement and engine, and failures.

    Time is measured from the end of the session's start, and so includes the rest of the start of an engine.
    """
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    failures: list[str] = []
    chosen = [e for e in engines if e.name in PEERS]
    for number in range(rounds):
        for name, text in FIRST.items():
            for engine in chosen:
                try:
                    cost = _first(engine, text, work / "first" / engine.name, made=number > 0)
                    found.setdefault(name, {}).setdefault(engine.name, []).append(cost)
                except EngineFailedError as e:
                    failures.append(f"{name}: {e}")
    return found, failures


def _first(engine: Engine, text: str, warehouse: Path, *, made: bool) -> tuple[float, float]:
    table = f"{engine.database}.first"
    log = warehouse.with_suffix(".log")
    if not made:
        warehouse.mkdir(parents=True, exist_ok=True)
        session = EngineSession(engine, warehouse, log)
        create = f"CREATE TABLE {table} (id BIGINT NOT NULL, name STRING, amount DOUBLE) {engine.small_layout}"
        session.run(f"CREATE DATABASE {engine.database}", create, f"INSERT INTO {table} VALUES (1, 'one', 0.5)")
        session.close()
    session = EngineSession(engine, warehouse, log, kept=True)
    try:
        cost = session.run(text.format(t=table))
    finally:
        session.close()
    return cost.cpu, cost.wall


def _start(engine: Engine, work: Path) -> float:
    conf = {"spark.sql.catalogImplementation": "in-memory", **engine.session(work / "startup")}
    options = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    home = Path(pyspark.__file__).parent
    env = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    began = time.perf_counter()
    subprocess.run(
        [str(home / "bin" / "spark-sql"), *options, "-e", "select 1"],
        check=True,
        env=env,
        cwd=work,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - began

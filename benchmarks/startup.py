"""What the extension costs a `spark-sql` that does next to nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pyspark

from benchmarks.engines import Engine, ours, parquet


def startup_seconds(rounds: int, work: Path) -> dict[str, list[float]]:
    """Return the wall seconds of `spark-sql -e 'select 1'`, without and with the extension, each a list over rounds."""
    found: dict[str, list[float]] = {"stock": [], "with the extension": []}
    for _ in range(rounds):
        for name, engine in zip(found, (parquet(), ours()), strict=True):
            found[name].append(_start(engine, work))
    return found


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

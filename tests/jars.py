"""Jars that tests need beside the project's own, fetched once through Spark's package resolver."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from paimon_spark.bridge.jars import spark_home

STORE = Path(__file__).resolve().parents[1] / ".cache" / "ivy"


def resolved(*coordinates: str, excludes: Sequence[str] = ()) -> list[Path]:
    """Return the jars of Maven coordinates, fetched unless `.cache` has them.

    Raises:
        FileNotFoundError: a jar could not be fetched.
    """
    jars = [STORE / "jars" / f"{group}_{name}-{version}.jar" for group, name, version in map(_parts, coordinates)]
    if not all(jar.exists() for jar in jars):
        _fetch(coordinates, excludes)
    missing = [jar.name for jar in jars if not jar.exists()]
    if missing:
        message = f"{', '.join(missing)} could not be resolved into {STORE}."
        raise FileNotFoundError(message)
    return jars


def _parts(coordinate: str) -> list[str]:
    return coordinate.split(":")


def _fetch(coordinates: Sequence[str], excludes: Sequence[str]) -> None:
    # The class to run does not exist on purpose: resolving the packages is all that is wanted.
    subprocess.run(
        [
            str(spark_home() / "bin" / "spark-submit"),
            *("--conf", f"spark.jars.ivy={STORE}", "--packages", ",".join(coordinates)),
            *(("--exclude-packages", ",".join(excludes)) if excludes else ()),
            *("--class", "paimon.spark.ResolveOnly", "none.jar"),
        ],
        env={**os.environ, "SPARK_HOME": str(spark_home()), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        check=False,
    )

"""Run scripts of table steps through Apache Paimon's own Java API (`PaimonPeer.java`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyspark

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
VERSION = "1.4.2"
COORDINATE = f"org.apache.paimon:paimon-bundle:{VERSION}"


def spark_home() -> Path:
    """Return the home of the installed pyspark."""
    return Path(pyspark.__file__).resolve().parent


def bundle_jar() -> Path:
    """Return Paimon's bundle jar, resolved once through Spark's own package resolver.

    `PAIMON_BUNDLE_JAR` names a jar to use instead.
    """
    if given := os.environ.get("PAIMON_BUNDLE_JAR"):
        return Path(given)
    store = ROOT / ".cache" / "ivy"
    jar = store / "jars" / f"org.apache.paimon_paimon-bundle-{VERSION}.jar"
    if not jar.exists():
        # The class to run does not exist on purpose: resolving the package is all that is wanted.
        subprocess.run(
            [
                str(spark_home() / "bin" / "spark-submit"),
                *("--conf", f"spark.jars.ivy={store}", "--packages", COORDINATE),
                *("--class", "paimon.spark.ResolveOnly", str(HERE / "none.jar")),
            ],
            env={**os.environ, "SPARK_HOME": str(spark_home()), "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            check=False,
        )
    if not jar.exists():
        message = f"{COORDINATE} could not be resolved; set PAIMON_BUNDLE_JAR to a copy of the jar."
        raise FileNotFoundError(message)
    return jar


def run_steps(warehouse: Path, steps: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Run `steps` in order and return one answer per step; a step that fails raises RuntimeError."""
    done = subprocess.run(
        [
            "java",
            *("-cp", f"{bundle_jar()}:{spark_home() / 'jars'}/*"),
            str(HERE / "PaimonPeer.java"),
            str(warehouse),
        ],
        input="\n".join(json.dumps(s) for s in steps),
        capture_output=True,
        text=True,
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if len(answers) != len(steps):
        raise RuntimeError(done.stderr[-2000:])
    for step, answer in zip(steps, answers, strict=True):
        if "error" in answer:
            message = f"{step}: {answer['error']}"
            raise RuntimeError(message)
    return answers

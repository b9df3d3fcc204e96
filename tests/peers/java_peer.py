"""Run scripts of table steps through Apache Paimon's own Java API (the `.java` files beside this one)."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyspark

from tests.jars import resolved

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NEWEST = "1.4.2"
OLDEST = "0.9.0"
RELEASES = (NEWEST, OLDEST)
"""The Java releases that read and change the tables written here: a recent one, and the oldest that is promised."""


def spark_home() -> Path:
    """Return the home of the installed pyspark."""
    return Path(pyspark.__file__).resolve().parent


def coordinate(release: str) -> str:
    """Return the name of the bundle jar of a release."""
    return f"org.apache.paimon:paimon-bundle:{release}"


def bundle_jar(release: str = NEWEST) -> Path:
    """Return Paimon's bundle jar, resolved once through Spark's own package resolver.

    `PAIMON_BUNDLE_JARS` names a directory with jars to use instead.
    """
    if given := os.environ.get("PAIMON_BUNDLE_JARS"):
        return Path(given) / f"paimon-bundle-{release}.jar"
    try:
        return resolved(coordinate(release))[0]
    except FileNotFoundError as missing:
        message = f"{missing} Set PAIMON_BUNDLE_JARS to a directory with the jar."
        raise FileNotFoundError(message) from missing


def command(program: str, jar: Path, *arguments: str, zone: str = "UTC") -> list[str]:
    """Return the command that runs one of the Java programs beside this file, compiled before."""
    classpath = f"{_compiled(program, jar)}:{_libraries(jar)}"
    return ["java", "-Xmx1g", f"-Duser.timezone={zone}", "-cp", classpath, program, *arguments]


def _libraries(jar: Path) -> str:
    return f"{jar}:{spark_home() / 'jars'}/*"


def _compiled(program: str, jar: Path) -> Path:
    """Return the directory with the classes of a program, compiled once for a jar and a version of the sources."""
    source = HERE / f"{program}.java"
    content = b"".join(s.read_bytes() for s in sorted(HERE.glob("*.java")))
    out = ROOT / ".cache" / "peer" / hashlib.sha256(content + f"{program} {jar.resolve()}".encode()).hexdigest()[:16]
    if not (out / f"{program}.class").exists():
        out.mkdir(parents=True, exist_ok=True)
        compiler = ["javac", "-nowarn", "-cp", _libraries(jar), "-sourcepath", str(HERE), "-d", str(out), str(source)]
        subprocess.run(compiler, check=True)
    return out


def run_steps(
    warehouse: Path,
    steps: Sequence[Mapping[str, Any]],
    release: str = NEWEST,
    *,
    zone: str = "UTC",
    program: str = "PaimonPeer",
    jar: Path | None = None,
) -> list[dict[str, Any]]:
    """Run `steps` in order in the time zone `zone`, one answer per step; a step that fails raises RuntimeError."""
    answers = try_steps(warehouse, steps, release, zone=zone, program=program, jar=jar)
    for step, answer in zip(steps, answers, strict=True):
        if "error" in answer:
            message = f"{step}: {answer['error']}"
            raise RuntimeError(message)
    return answers


def try_steps(
    warehouse: Path,
    steps: Sequence[Mapping[str, Any]],
    release: str = NEWEST,
    *,
    zone: str = "UTC",
    program: str = "PaimonPeer",
    jar: Path | None = None,
) -> list[dict[str, Any]]:
    """Run `steps` like `run_steps`, or with a `jar`; the answer of a step that fails has its "error"."""
    done = subprocess.run(
        command(program, jar or bundle_jar(release), str(warehouse), zone=zone),
        input="\n".join(json.dumps(s) for s in steps),
        capture_output=True,
        text=True,
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if len(answers) != len(steps):
        raise RuntimeError(done.stderr[-2000:])
    return answers

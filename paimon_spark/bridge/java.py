"""The Java that Spark would start, and whether this Spark release supports it.

Uses the standard library only, so that the Makefile can run it before anything is installed:
``python -m paimon_spark.bridge.java 4.1``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from paimon_spark.errors import EngineError, ErrorKind

#: Java releases by Spark minor; on others, Hadoop's login at the start of every Spark program fails.
SUPPORTED: Mapping[str, tuple[int, ...]] = {
    "4.0": (17, 21),
    "4.1": (17, 21),
    "4.2": (17, 21, 25),
    "4.3": (17, 21, 25),
}
DEFAULT_MINOR = "4.1"
INSTALL_ROOTS = ("/usr/lib/jvm", "/opt/java", "/opt", "/Library/Java/JavaVirtualMachines")
INSTALL_HINT = "Install one, for example `apt-get install openjdk-17-jre-headless` or `brew install openjdk@17`."


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation: its launcher and its major version."""

    command: str
    major: int


def spark_minor() -> str:
    """Return the minor release of the installed pyspark, such as ``4.1``, or the default one if there is none."""
    try:
        return ".".join(metadata.version("pyspark").split(".")[:2])
    except metadata.PackageNotFoundError:
        return DEFAULT_MINOR


def find_java(environ: Mapping[str, str] = os.environ) -> Java | None:
    """Return the Java that Spark's launcher would take (`JAVA_HOME`, else the search path), or None."""
    home = environ.get("JAVA_HOME")
    command = f"{home}/bin/java" if home else shutil.which("java", path=environ.get("PATH"))
    return _probe(command) if command else None


def check_java(environ: Mapping[str, str] = os.environ, *, minor: str | None = None) -> Java:
    """Return the Java that will be used.

    Raises:
        EngineError: there is none, or the installed Spark does not support it.
    """
    minor = minor or spark_minor()
    wanted = SUPPORTED.get(minor, SUPPORTED[DEFAULT_MINOR])
    names = f"{', '.join(map(str, wanted[:-1]))} or {wanted[-1]}"
    java = find_java(environ)
    if java is not None and java.major in wanted:
        return java
    found = f"{java.command} is Java {java.major}" if java else "no Java was found"
    message = f"Spark {minor} needs Java {names}, but {found}."
    raise EngineError(message, hint=_fix(wanted), kind=ErrorKind.ENVIRONMENT)


def _fix(wanted: tuple[int, ...]) -> str:
    for root in INSTALL_ROOTS:
        for home in sorted(Path(root).glob("*")) if Path(root).is_dir() else ():
            for candidate in (home, home / "Contents" / "Home"):
                java = _probe(str(candidate / "bin" / "java")) if _looks_like(candidate, wanted) else None
                if java and java.major in wanted:
                    return f"Run: export JAVA_HOME={candidate}"
    return INSTALL_HINT


def _looks_like(home: Path, wanted: tuple[int, ...]) -> bool:
    return (home / "bin" / "java").exists() and any(str(v) in str(home) for v in wanted)


def _probe(command: str) -> Java | None:
    try:
        done = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr + done.stdout)
    if not version:
        return None
    major, minor = int(version[1]), int(version[2] or 0)
    return Java(command, minor if major == 1 else major)


def main() -> int:
    """Return 0 if Java is suitable, else print one line to stderr and return 1; the argument is a Spark minor."""
    try:
        check_java(minor=sys.argv[1] if len(sys.argv) > 1 else None)
    except EngineError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

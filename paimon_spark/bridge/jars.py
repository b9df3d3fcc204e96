"""The bridge jar: shipped in the wheel, or compiled once for the installed pyspark.

The Scala compiler is taken from pyspark's own jars, so a Java runtime is all that is needed. A jar serves one
Spark minor version only: Spark's internal interfaces are not binary compatible between them.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from paimon_spark.errors import EngineError, ErrorKind

SOURCES = Path(__file__).parent / "scala"
PREBUILT = Path(__file__).parent / "jars"
SERVICES = {
    "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister": "paimon.spark.DataSource\n",
}
HASH_ENTRY = "META-INF/paimon-spark-bridge.sha256"
JAVA_MAJORS = (17, 21)
_STAMP = (2020, 1, 1, 0, 0, 0)


def jar_path() -> str:
    """Return the path of the bridge jar for the installed pyspark, compiling it when there is none.

    Raises:
        EngineError: pyspark or a suitable Java is missing, or the compiler failed.
    """
    spark = spark_version()
    digest = source_hash()
    prebuilt = PREBUILT / prebuilt_name(spark)
    if _built_from(prebuilt, digest):
        return str(prebuilt)
    cached = cache_dir() / f"paimon-spark-bridge-{spark}-{digest[:16]}.jar"
    if not cached.exists():
        build(cached)
    return str(cached)


def prebuilt_name(spark: str) -> str:
    """Return the name a shipped jar has for the Spark version `spark`."""
    return f"paimon-spark-bridge_{'.'.join(spark.split('.')[:2])}.jar"


def cache_dir() -> Path:
    """Return the directory that compiled jars are kept in."""
    chosen = os.environ.get("PAIMON_SPARK_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "paimon-spark"


def source_hash() -> str:
    """Return the hash over everything that the jar is made from."""
    digest = hashlib.sha256()
    for source in sorted(SOURCES.glob("*.scala")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    for name, text in sorted(SERVICES.items()):
        digest.update(f"{name}\0{text}\0".encode())
    return digest.hexdigest()


def spark_version() -> str:
    """Return the version of the installed pyspark."""
    try:
        return version("pyspark")
    except PackageNotFoundError:
        raise EngineError(
            "pyspark is not installed.", hint="Run: pip install 'pyspark>=4.0,<4.4'", kind=ErrorKind.ENVIRONMENT
        ) from None


def spark_home() -> Path:
    """Return the directory of the installed pyspark, which is a whole Spark."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        spark_version()
        raise EngineError("The installed pyspark has no files.", kind=ErrorKind.ENVIRONMENT)
    return Path(spec.origin).parent


def java() -> str:
    """Return the `java` command to use.

    Raises:
        EngineError: there is none, or its version is not 17 or 21.
    """
    fix = "Install Java 17 or 21 (for example: apt-get install openjdk-17-jre-headless) or point JAVA_HOME at it."
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if command is None or not Path(command).exists():
        where = f"JAVA_HOME={home} holds no bin/java." if home else "No Java was found on PATH."
        raise EngineError(where, hint=fix, kind=ErrorKind.ENVIRONMENT)
    said = subprocess.run([command, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)(?:\.(\d+))?', said)
    major = int(found[1]) if found else 0
    if major not in JAVA_MAJORS:
        shown = said.splitlines()[0] if said else "no version at all"
        raise EngineError(f"{command} is not Java 17 or 21: it says {shown}.", hint=fix, kind=ErrorKind.ENVIRONMENT)
    return command


def build(target: Path) -> None:
    """Compile the Scala sources for the installed pyspark into the jar `target`.

    Raises:
        EngineError: the compiler failed.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="paimon-spark-build-") as work:
        classes = Path(work) / "classes"
        classes.mkdir()
        _compile(classes)
        built = Path(work) / "bridge.jar"
        _zip(classes, built)
        partial = target.with_suffix(f".{os.getpid()}.tmp")
        shutil.copyfile(built, partial)
        partial.replace(target)


def _compile(classes: Path) -> None:
    sources = [str(p) for p in sorted(SOURCES.glob("*.scala"))]
    command = [java(), "-Xss8m", "-cp", str(spark_home() / "jars" / "*"), "scala.tools.nsc.Main"]
    done = subprocess.run(
        [*command, "-nowarn", "-usejavacp", "-d", str(classes), *sources], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise EngineError(
            f"The bridge does not compile against pyspark {spark_version()}:\n{done.stdout}{done.stderr}",
            hint="Use a supported pyspark (4.0 to 4.3).",
            kind=ErrorKind.ENVIRONMENT,
        )


def _zip(classes: Path, target: Path) -> None:
    entries = {p.relative_to(classes).as_posix(): p.read_bytes() for p in classes.rglob("*") if p.is_file()}
    entries |= {name: text.encode() for name, text in SERVICES.items()}
    entries[HASH_ENTRY] = source_hash().encode()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as jar:
        for name in sorted(entries):
            jar.writestr(zipfile.ZipInfo(name, _STAMP), entries[name], zipfile.ZIP_DEFLATED)


def _built_from(jar: Path, digest: str) -> bool:
    if not jar.exists():
        return False
    with zipfile.ZipFile(jar) as opened:
        return HASH_ENTRY in opened.namelist() and opened.read(HASH_ENTRY).decode() == digest


def main() -> None:
    """Build what is missing and print the jar's path."""
    print(jar_path())  # noqa: T201 - the answer of a command


if __name__ == "__main__":
    main()

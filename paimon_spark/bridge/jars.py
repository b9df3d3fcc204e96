"""The bridge jar: shipped in the wheel, or compiled once for the installed pyspark.

The Scala compiler is taken from pyspark's own jars, so a Java runtime is all that is needed. A jar serves one
Spark minor version only: Spark's internal interfaces are not binary compatible between them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from paimon_spark.bridge.java import check_java
from paimon_spark.errors import EngineError, ErrorKind
from paimon_spark.version import __version__

SOURCES = Path(__file__).parent / "scala"
PREBUILT = Path(__file__).parent / "jars"
SERVICES = {
    "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister": "paimon.spark.DataSource\n",
}
HASH_ENTRY = "META-INF/paimon-spark-bridge.sha256"
VERSION_ENTRY = "META-INF/paimon-spark-bridge.version"
RUNNING = "PAIMON_SPARK_BRIDGE"
"""The environment variable with the version, the source hash and the path of the running bridge."""
_SHOWN = 12
_STAMP = (2020, 1, 1, 0, 0, 0)


def jar_path() -> str:
    """Return the path of the bridge jar for the installed pyspark, compiling it if there is none.

    Raises:
        EngineError: pyspark or a suitable Java is missing, or the compiler failed.
    """
    spark = spark_version()
    if not SOURCES.is_dir():
        return _unpacked(spark)
    digest = source_hash()
    prebuilt = PREBUILT / prebuilt_name(spark)
    if _built_from(prebuilt, digest):
        return str(prebuilt)
    cached = cache_dir() / f"paimon-spark-bridge-{spark}-{digest[:16]}.jar"
    if not cached.exists():
        build(cached)
    return str(cached)


def _unpacked(spark: str) -> str:
    """Return the bridge jar of the archive that this package is imported from, extracted for Java.

    Raises:
        EngineError: the archive was made for other releases of Spark.
    """
    resource = files("paimon_spark.bridge").joinpath("jars", prebuilt_name(spark))
    if not resource.is_file():
        raise EngineError(
            f"The archive that paimon_spark is imported from has no bridge jar for pyspark {spark}.",
            hint="Write it with `paimon-spark env --archive` where this pyspark is installed.",
            kind=ErrorKind.ENVIRONMENT,
        )
    data = resource.read_bytes()
    target = cache_dir() / f"paimon-spark-bridge-{spark}-{hashlib.sha256(data).hexdigest()[:16]}.jar"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(f".{os.getpid()}.tmp")
        partial.write_bytes(data)
        partial.replace(target)
    return str(target)


def prebuilt_name(spark: str) -> str:
    """Return the name of the shipped jar for the Spark version `spark`."""
    return f"paimon-spark-bridge_{'.'.join(spark.split('.')[:2])}.jar"


def cache_dir() -> Path:
    """Return the directory of compiled jars."""
    chosen = os.environ.get("PAIMON_SPARK_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "paimon-spark"


def source_hash() -> str:
    """Return the hash of all sources of the jar."""
    digest = hashlib.sha256()
    for source in sorted(SOURCES.rglob("*.scala")):
        digest.update(source.relative_to(SOURCES).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
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
    """Return the directory of the installed pyspark, which is a complete Spark.

    Under spark-submit, pyspark is imported from an archive, and SPARK_HOME is the directory.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        spark_version()
        raise EngineError("The installed pyspark has no files.", kind=ErrorKind.ENVIRONMENT)
    home, named = Path(spec.origin).parent, os.environ.get("SPARK_HOME")
    return home if named is None or (home / "jars").is_dir() else Path(named)


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
    sources = [str(p) for p in sorted(SOURCES.rglob("*.scala"))]
    command = [check_java().command, "-Xss8m", "-cp", str(spark_home() / "jars" / "*"), "scala.tools.nsc.Main"]
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
    entries[VERSION_ENTRY] = __version__.encode()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as jar:
        for name in sorted(entries):
            jar.writestr(zipfile.ZipInfo(name, _STAMP), entries[name], zipfile.ZIP_DEFLATED)


def _built_from(jar: Path, digest: str) -> bool:
    if not jar.exists():
        return False
    with zipfile.ZipFile(jar) as opened:
        return HASH_ENTRY in opened.namelist() and opened.read(HASH_ENTRY).decode() == digest


def check_running(stated: str | None) -> None:
    """Reject a bridge that was built from other sources than those of this package: the two may be incompatible.

    Args:
        stated: the value of the variable `RUNNING`; None if there is none.

    Raises:
        EngineError: the bridge is a different one.
    """
    if not SOURCES.is_dir():
        return
    jar_version, jar_hash, place = (stated or "unknown\nunknown\nunknown").split("\n", 2)
    own = source_hash()
    if jar_hash == own:
        return
    raise EngineError(
        f"The bridge jar {place} does not belong to the installed paimon-spark: the jar is version {jar_version} "
        f"({jar_hash[:_SHOWN]}), the package in {SOURCES.parents[1]} is version {__version__} ({own[:_SHOWN]}).",
        hint="Set spark.jars to the jar that `paimon-spark env` prints with that Python, or spark.paimon.python to the "
        "Python from which the jar is.",
        kind=ErrorKind.ENVIRONMENT,
    )


def prebuild() -> str:
    """Compile the jar of the installed pyspark into the package, for a wheel; return its path."""
    target = PREBUILT / prebuilt_name(spark_version())
    if not _built_from(target, source_hash()):
        build(target)
    return str(target)


def main(arguments: Sequence[str]) -> int:
    """Build the jar if it is missing and print its path; with `--prebuild`, build it into the package."""
    try:
        path = prebuild() if "--prebuild" in arguments else jar_path()
    except EngineError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

"""Packaging of paimon-spark as one file for clusters where it is not installed."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path

from paimon_spark.bridge.jars import jar_path, prebuilt_name, spark_version
from paimon_spark.errors import EngineError, ErrorKind, UsageError
from paimon_spark.version import __version__

PACKAGES = ("paimon_spark", "procedures")
_LEFT_OUT = frozenset({"scala", "jars", "__pycache__"})
_METADATA = ("METADATA", "entry_points.txt")
_STAMP = (2020, 1, 1, 0, 0, 0)


def write_archive(target: Path) -> Path:
    """Write an archive for `spark-submit --py-files`: both packages, the entry points of procedures, and the bridge.

    Raises:
        UsageError: the file name does not end in `.zip`, which Spark requires for imports.
        EngineError: the file cannot be written.
    """
    if target.suffix != ".zip":
        raise UsageError(
            f"--archive takes the name of a .zip file, not '{target.name}'.", hint="Example: paimon-spark.zip"
        )
    partial = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in sorted(_entries()):
                archive.writestr(zipfile.ZipInfo(name, _STAMP), content, zipfile.ZIP_DEFLATED)
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise EngineError(
            f"The archive {target} cannot be written: {error.strerror}.",
            hint="Name a file in a directory that exists.",
            kind=ErrorKind.ENVIRONMENT,
        ) from error
    return target


def _entries() -> Iterator[tuple[str, bytes]]:
    """Yield the files of the archive."""
    for package in PACKAGES:
        spec = find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec is not None else ():
            root = Path(place)
            for path in root.rglob("*"):
                inside = path.relative_to(root)
                if path.is_file() and _LEFT_OUT.isdisjoint(inside.parts):
                    yield f"{package}/{inside.as_posix()}", path.read_bytes()
    installed = distribution("paimon-spark")
    for name in _METADATA:
        yield f"paimon_spark-{__version__}.dist-info/{name}", (installed.read_text(name) or "").encode()
    yield f"paimon_spark/bridge/jars/{prebuilt_name(spark_version())}", Path(jar_path()).read_bytes()

"""The package as one file."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from paimon_spark.bridge.jars import jar_path
from paimon_spark.cli.archive import write_archive
from paimon_spark.errors import EngineError, UsageError

PROGRAM = """
import paimon_spark
from paimon_spark.bridge.session import settings
from paimon_spark.calls.registry import installed_registry
from paimon_spark.spec.option_catalogue import find_option
print(paimon_spark.__file__)
print(installed_registry().get("compact").name, find_option("bucket").name)
print(settings(None, None)["spark.jars"].split(",")[0])
print(settings(None, None)["spark.paimon.pythonPath"])
"""


def test_the_package_works_from_the_archive_alone(tmp_path: Path) -> None:
    archive, cache = write_archive(tmp_path / "p.zip"), tmp_path / "cache"
    environ = {**os.environ, "PYTHONPATH": str(archive), "PAIMON_SPARK_CACHE": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environ, capture_output=True, text=True, check=True
    )
    place, found, jar, path = done.stdout.splitlines()
    assert place.startswith(f"{archive}/")
    assert found == "compact bucket"
    assert Path(jar).parent == cache
    assert Path(jar).read_bytes() == Path(jar_path()).read_bytes()
    assert path == str(archive)


def test_the_same_package_makes_the_same_archive(tmp_path: Path) -> None:
    one, other = (write_archive(tmp_path / name).read_bytes() for name in ("a.zip", "b.zip"))
    assert one == other
    names = zipfile.ZipFile(tmp_path / "a.zip").namelist()
    assert not [n for n in names if n.endswith((".scala", ".pyc"))]
    assert len(names) == len(set(names))


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot be written"):
        write_archive(tmp_path / "none" / "p.zip")
    with pytest.raises(UsageError, match=r"takes the name of a \.zip file"):
        write_archive(tmp_path / "p.tar")


def test_an_archive_for_another_spark_says_so(tmp_path: Path) -> None:
    whole, part = write_archive(tmp_path / "p.zip"), tmp_path / "part.zip"
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(part, "w") as target:
        for name in source.namelist():
            target.writestr(name.replace("bridge_", "bridge_9."), source.read(name))
    program = "from paimon_spark.bridge.jars import jar_path; jar_path()"
    environ = {**os.environ, "PYTHONPATH": str(part)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert "has no bridge jar for pyspark" in done.stderr

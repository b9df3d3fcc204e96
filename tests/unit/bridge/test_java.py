"""Finding the Java that Spark would start."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_spark.bridge.java import check_java, find_java
from paimon_spark.errors import EngineError, ErrorKind


def java_home(place: Path, version: str) -> dict[str, str]:
    launcher = place / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    launcher.chmod(0o755)
    return {"JAVA_HOME": str(place), "PATH": "/usr/bin:/bin"}


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21), ("1.8.0_392", 8), ("25.0.1", 25)])
def test_versions_are_understood(tmp_path: Path, version: str, major: int) -> None:
    java = find_java(java_home(tmp_path, version))
    assert java is not None
    assert java.major == major


@pytest.mark.parametrize(("version", "minor"), [("17.0.15", "4.0"), ("21.0.2", "4.1"), ("25.0.1", "4.3")])
def test_a_supported_java_is_taken(tmp_path: Path, version: str, minor: str) -> None:
    assert check_java(java_home(tmp_path, version), minor=minor).command == f"{tmp_path}/bin/java"


@pytest.mark.parametrize("version", ["11.0.2", "25.0.1", "1.8.0"])
def test_another_java_is_told_in_one_line_with_the_fix(tmp_path: Path, version: str) -> None:
    with pytest.raises(EngineError) as caught:
        check_java(java_home(tmp_path, version), minor="4.1")
    said = str(caught.value)
    assert caught.value.kind is ErrorKind.ENVIRONMENT
    assert said.startswith("[ENVIRONMENT] Spark 4.1 needs Java 17 or 21, but ")
    assert "\n" not in said
    assert "export JAVA_HOME=" in said or "Install one" in said


def test_no_java_at_all(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="no Java was found"):
        check_java({"PATH": str(tmp_path)}, minor="4.1")

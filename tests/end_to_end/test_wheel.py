"""The wheel, installed into an empty environment without network, runs the quick start."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.end_to_end.programs import ROOT, TIMEOUT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel() -> Path:
    """The wheel that `make dist` has built."""
    wheels = sorted((ROOT / "dist").glob("paimon_spark-*.whl"))
    assert wheels, "run `make dist` first"
    return wheels[-1]


def test_the_wheel_carries_jars_scripts_and_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.startswith("paimon_spark/bridge/jars/") and name.endswith(".jar") for name in names)
    for part in ("procedures/compaction.py", "sql/quickstart.sql", "conf/log4j2.properties", "licenses/LICENSE"):
        assert any(name.endswith(part) for name in names), part
    assert not any("/tests/" in name or name.startswith("tests/") for name in names)


def test_the_quick_start_runs_from_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    offline = ["--no-index", "--no-deps", "--find-links", wheel.parent, "--quiet", "--disable-pip-version-check"]
    subprocess.run([python, "-m", "pip", "install", *offline, "paimon-spark"], check=True)
    _lend_dependencies(home)
    environ = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "SPARK_HOME", "VIRTUAL_ENV"}}
    environ |= {"PAIMON_SPARK_CACHE": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    share = home / "share" / "paimon_spark"
    done = subprocess.run(
        [
            *(
                home / "bin" / "paimon-spark",
                "sql",
                "--warehouse",
                tmp_path / "warehouse",
                "--format",
                "table",
                "--echo",
            ),
            *("-d", f"license={share / 'LICENSE'}", "-f", share / "sql" / "quickstart.sql"),
        ],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "licence-text" in done.stdout
    assert not (tmp_path / "cache").exists(), "the jar comes from the wheel"


def _lend_dependencies(home: Path) -> None:
    """Let the new environment see Spark and the other packages of this one, but not this project."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    lent = home / "lib" / version / "site-packages" / "lent.pth"
    lent.write_text(sysconfig.get_path("purelib") + "\n")

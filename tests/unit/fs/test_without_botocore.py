"""Locations on S3 in an environment without the extra `s3`: every error has the command to install it."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BLOCKER = Path(__file__).parent / "without_botocore"
ENVIRON = {**os.environ, "PYTHONPATH": os.pathsep.join([str(BLOCKER), str(ROOT)])}
TOLD = r"\[ENVIRONMENT\] Locations on S3 need the package botocore.* `pip install 'paimon-spark\[s3\]'`"
CONNECT = "import paimon_spark; paimon_spark.connect('s3://bucket/w').list_databases()"
WORKER = """
from paimon_spark.fs.resolve import file_io_from_config
from paimon_spark.fs.s3_settings import S3Settings
file_io_from_config({'scheme': 's3', 'settings': S3Settings.of({}, 'bucket').to_text()})
"""
CLI = ["-m", "paimon_spark.cli.main"]
COMMANDS = {
    "Python": ["-c", CONNECT],
    "a worker": ["-c", WORKER],
    "call": [*CLI, "call", "compact('a.t')", "--warehouse", "s3://bucket/w"],
    "selftest": [*CLI, "selftest", "--directory", "s3://bucket/w"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_way_in_names_the_extra(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, *COMMANDS[name]], env=ENVIRON, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode != 0
    assert re.search(TOLD, done.stderr), done.stderr[-2000:]
    if name not in ("Python", "a worker"):
        assert "Traceback" not in done.stderr


def test_what_is_not_on_s3_needs_no_botocore(tmp_path: Path) -> None:
    code = f"import paimon_spark; print(paimon_spark.connect('{tmp_path}/w').list_databases())"
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRON, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['default']"


def _imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def test_no_other_extra_is_imported_by_the_package() -> None:
    """What an extra installs is imported in one room, behind one check that names the extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[\[>=<; ]", d)[0].partition(".")[0] for d in project["dependencies"]}
    known = {*sys.stdlib_module_names, *needed, "py4j", "compression", "_typeshed", "paimon_spark", "procedures"}
    strangers: dict[str, set[str]] = {}
    for package in ("paimon_spark", "procedures"):
        for path in (ROOT / package).rglob("*.py"):
            for name in _imported(path) - known:
                strangers.setdefault(name, set()).add(path.relative_to(ROOT).as_posix())
    strangers.pop("pytest")  # of the kit for tests, which nothing else imports
    for name in ("pyhive", "sqlalchemy"):  # of the dialect, which only SQLAlchemy loads
        assert strangers.pop(name) == {"paimon_spark/clients/sqlalchemy.py"}
    assert strangers.keys() == {"botocore"}
    assert all(path.startswith("paimon_spark/fs/s3") for path in strangers["botocore"])

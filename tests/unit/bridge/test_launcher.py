"""The environment of Python workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import paimon_spark
from paimon_spark.bridge.launcher import worker_environment

ROOT = str(Path(paimon_spark.__file__).parents[1])


def test_workers_find_the_package_and_allocate_by_malloc() -> None:
    found = worker_environment({}, {"PYTHONPATH": "/else"})
    assert found["PYTHONPATH"] in (os.pathsep.join([ROOT, "/else"]), "/else")
    program = "import pyarrow; print(pyarrow.default_memory_pool().backend_name)"
    answer = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **found}, capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "system"


def test_what_is_set_by_hand_stays() -> None:
    pool = "ARROW_DEFAULT_MEMORY_POOL"
    assert worker_environment({}, {pool: "mimalloc"})[pool] == "mimalloc"
    assert worker_environment({pool: "jemalloc"}, {pool: "mimalloc"})[pool] == "jemalloc"
    path = os.pathsep.join(["/first", ROOT])
    assert worker_environment({"PYTHONPATH": path}, {"PYTHONPATH": "/else"})["PYTHONPATH"] == path

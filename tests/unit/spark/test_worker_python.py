"""Which Python runs on the machines of a cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from paimon_spark.spark.worker_python import worker_python

ENGINE = "/engine/bin/python"


def context(master: str, setting: str | None = None) -> Any:
    conf = SimpleNamespace(get=lambda key: {"spark.pyspark.python": setting}[key])
    return SimpleNamespace(master=master, getConf=lambda: conf)


@pytest.mark.parametrize(
    ("master", "setting", "variable", "chosen"),
    [
        ("local[2]", "./other/python", "/usr/bin/python3", ENGINE),
        ("local", None, "/usr/bin/python3", ENGINE),
        ("spark://host:7077", "./environment/bin/python", "/usr/bin/python3", "./environment/bin/python"),
        ("spark://host:7077", None, "/opt/python", "/opt/python"),
        ("yarn", None, None, ENGINE),
        ("local-cluster[2,1,1024]", "/opt/python", None, "/opt/python"),
    ],
)
def test_the_python_of_workers(master: str, setting: str | None, variable: str | None, chosen: str) -> None:
    environ = {} if variable is None else {"PYSPARK_PYTHON": variable}
    assert worker_python(context(master, setting), ENGINE, environ) == chosen

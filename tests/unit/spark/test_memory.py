"""How many tasks share the memory of an executor."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from paimon_spark.spark.memory import task_slots


def context(master: str, parallelism: int = 40, **conf: str) -> Any:
    given = {f"spark.{k.replace('_', '.')}": v for k, v in conf.items()}
    return SimpleNamespace(
        master=master,
        defaultParallelism=parallelism,
        getConf=lambda: SimpleNamespace(get=lambda k, d=None: given.get(k, d)),
    )


@pytest.mark.parametrize(
    ("master", "conf", "slots"),
    [
        ("local", {}, 1),
        ("local[4]", {}, 4),
        ("local[4, 2]", {}, 4),
        ("local[*]", {}, 40),
        ("local-cluster[2,3,1024]", {}, 3),
        ("spark://host:7077", {"executor_cores": "8"}, 8),
        ("spark://host:7077", {"executor_cores": "8", "task_cpus": "2"}, 4),
        ("spark://host:7077", {}, 40),
        ("yarn", {}, 1),
        ("k8s://https://host", {"executor_cores": "5"}, 5),
        ("local[2]", {"executor_cores": "8"}, 2),
    ],
)
def test_slots(master: str, conf: dict[str, str], slots: int) -> None:
    assert task_slots(context(master, **conf)) == slots

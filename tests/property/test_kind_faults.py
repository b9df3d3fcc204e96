"""Histories of every kind of table in which the store fails, the process dies, or another commit comes between."""

from __future__ import annotations

import os
from random import Random

import pytest

from paimon_spark.testing.fault_histories import FaultHistory
from paimon_spark.testing.scenarios import KINDS
from tests.variants import every

SEED = int(os.environ.get("PAIMON_SPARK_SEED", "1"))


def run(kind: str, seed: int, steps: int) -> FaultHistory:
    random = Random(f"{kind} {seed}")
    form = random.choice(["parquet", "orc"])
    history = FaultHistory(kind, random, {"file.format": form, "num-sorted-run.compaction-trigger": "3"})
    done: list[str] = []
    try:
        while len(done) < steps:
            done.append(history.step())
        history.finish()
    except AssertionError as e:
        raise AssertionError("\n".join([f"{kind}, seed {seed}", *done, str(e)])) from e
    return history


@pytest.mark.parametrize("kind", every(3, KINDS))
def test_disturbed_histories(kind: str) -> None:
    history = run(kind, SEED, 16)
    assert history.faults + history.met > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_disturbed_histories(kind: str) -> None:
    for seed in range(SEED, SEED + 20):
        run(kind, seed, 25)

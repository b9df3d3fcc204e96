"""Procedures in random histories: no file that a reference needs is deleted, and what stays reads as before."""

from __future__ import annotations

import os
from random import Random

import pytest

from tests.property.procedure_histories import CALLS, ELSEWHERE, HISTORIES, ProcedureHistory
from tests.unit.procedures.calling import REGISTRY

KINDS_OF_ITS_OWN = {"merge_branch", "rescale"}
"""Procedures that refuse some of the tables: with a primary key or compactions, or without a number of buckets."""
SEED = int(os.environ.get("PAIMON_SPARK_SEED", "1"))


def run(kind: str, seed: int, steps: int) -> ProcedureHistory:
    history = ProcedureHistory(kind, Random(f"{kind} {seed}"))
    done: list[str] = []
    try:
        while len(done) < steps:
            done.append(history.step())
    except AssertionError as e:
        raise AssertionError("\n".join([f"{kind}, seed {seed}", *done, str(e)])) from e
    return history


def test_every_procedure_takes_part() -> None:
    """A new procedure belongs in one of the two tables."""
    assert {p.name for p in REGISTRY} == CALLS.keys() | ELSEWHERE.keys()
    assert not CALLS.keys() & ELSEWHERE.keys()


@pytest.mark.parametrize("kind", HISTORIES)
def test_procedures_in_disturbed_histories(kind: str) -> None:
    history = run(kind, SEED, 30)
    assert history.faults + history.met > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", HISTORIES)
def test_procedures_in_many_histories(kind: str) -> None:
    called: dict[str, int] = {}
    for seed in range(SEED, SEED + 20):
        for name, count in run(kind, seed, 40).called.items():
            called[name] = called.get(name, 0) + count
    assert {n for n in CALLS if not called.get(n)} <= KINDS_OF_ITS_OWN

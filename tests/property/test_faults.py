"""Every operation of the table with every fault of the store: before or after, never between, and a retry completes."""

from __future__ import annotations

import os
from random import Random

import pytest

from paimon_spark.testing.faults import Mode
from paimon_spark.testing.scenarios import SCENARIOS
from paimon_spark.testing.trials import Prepared, Trial, numbers, prepare, trial, trials
from tests.variants import every

SEED = int(os.environ.get("PAIMON_SPARK_SEED", "1"))
MODES = [m for m in Mode if m not in (Mode.SLOW, Mode.CRASH_BEFORE)]
"""A crash before an operation is one after the operation before; being slow is for many processes at once."""
_PREPARED: dict[str, Prepared] = {}


def prepared(name: str) -> Prepared:
    if name not in _PREPARED:
        _PREPARED[name] = prepare(SCENARIOS[name])
    return _PREPARED[name]


def told(found: Trial) -> str:
    return "\n".join([f"fault: {found.fired}", f"error: {found.error}", *found.complaints])


@pytest.mark.parametrize("name", SCENARIOS)
def test_undisturbed_operations_leave_nothing_behind(name: str) -> None:
    """A rollback does: data files of what it removes stay until orphans are removed."""
    assert prepared(name).leaked <= prepared(name).leaked_before or SCENARIOS[name].rolls_back


@pytest.mark.parametrize("name", every(2, SCENARIOS))
def test_some_faults(name: str) -> None:
    """A few operations, drawn by a seed, go wrong in ways drawn by it too."""
    random = Random(f"{SEED} {name}")
    tried = 0
    for mode in random.sample(MODES, len(MODES)):
        possible = numbers(prepared(name), mode)
        if possible and tried < 4:
            n = random.choice(possible)
            found = trial(prepared(name), n, mode)
            assert not found.complaints, f"{name}, operation {n}\n{told(found)}"
            tried += 1
    assert tried


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name.lower())
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_fault(name: str, mode: Mode) -> None:
    """Every operation goes wrong in turn."""
    bad = [told(t) for t in trials(prepared(name), mode) if t.complaints]
    assert not bad, f"{len(bad)} of them:\n" + "\n\n".join(bad[:5])

"""Random histories of every kind of table, each step taken here or by a release of Paimon."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_spark.testing.scenarios import KINDS
from tests.peers.java_peer import NEWEST, bundle_jar
from tests.peers.trial_machine import ENGINES, STEPS, run_histories
from tests.peers.trial_peer import TrialPeer

HISTORIES = 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*sorted(KINDS), ENGINES])
def test_histories_in_turn(tmp_path: Path, kind: str) -> None:
    warehouse = tmp_path / "warehouse"
    warehouse.mkdir()
    with TrialPeer(bundle_jar(NEWEST), warehouse) as peer:
        steps = run_histories(peer, warehouse, 1, HISTORIES, kinds=(kind,))
    assert sum(steps.values()) > HISTORIES * STEPS / 2
    assert {name.rsplit(" ", 1)[1] for name in steps} == {"here", "there"}

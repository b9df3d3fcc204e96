"""Random histories of every kind of table, each step taken here or by a release of Paimon."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_spark.testing.scenarios import PLAIN_KINDS, SHOWN
from tests.peers.java_peer import NEWEST, bundle_jar
from tests.peers.trial_machine import ENGINES, STEPS, run_histories
from tests.peers.trial_peer import TrialPeer

HISTORIES = 5


IN_THIS_RELEASE = [k for k, kind in sorted(PLAIN_KINDS.items()) if not SHOWN.keys() <= kind.options.keys()]
"""The kinds that the released bundle reads; `deletion-vectors.merge-on-read` is an option of Paimon 2.0."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*IN_THIS_RELEASE, ENGINES])
def test_histories_in_turn(tmp_path: Path, kind: str) -> None:
    warehouse = tmp_path / "warehouse"
    warehouse.mkdir()
    with TrialPeer(bundle_jar(NEWEST), warehouse) as peer:
        steps = run_histories(peer, warehouse, 1, HISTORIES, kinds=(kind,))
    assert sum(steps.values()) > HISTORIES * STEPS / 2
    assert {name.rsplit(" ", 1)[1] for name in steps} == {"here", "there"}

"""Random histories of every kind of table, each step taken here or by a release of Paimon."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paimon_spark.testing.scenarios import ORDERED, PLAIN_KINDS, SHOWN
from tests.peers.java_peer import NEWEST, bundle_jar
from tests.peers.trial_machine import ENGINES, STEPS, run_histories
from tests.peers.trial_peer import TrialPeer

HISTORIES = 5
JAR = os.environ.get("PEER_JAR", "")


OF_PAIMON_2 = SHOWN.keys() | ORDERED.keys()
IN_THIS_RELEASE = [k for k, kind in sorted(PLAIN_KINDS.items()) if not OF_PAIMON_2 & kind.options.keys()]
"""The kinds that the released bundle reads: those without options of Paimon 2.0."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*IN_THIS_RELEASE, ENGINES])
def test_histories_in_turn(tmp_path: Path, kind: str) -> None:
    warehouse = tmp_path / "warehouse"
    warehouse.mkdir()
    with TrialPeer(bundle_jar(NEWEST), warehouse) as peer:
        steps = run_histories(peer, warehouse, 1, HISTORIES, kinds=(kind,))
    assert sum(steps.values()) > HISTORIES * STEPS / 2
    assert {name.rsplit(" ", 1)[1] for name in steps} == {"here", "there"}


@pytest.mark.slow
@pytest.mark.skipif(not JAR, reason="PEER_JAR names no jar of Paimon 2.0")
@pytest.mark.parametrize("kind", [k for k in sorted(PLAIN_KINDS) if k not in IN_THIS_RELEASE])
def test_histories_of_later_features(tmp_path: Path, kind: str) -> None:
    warehouse = tmp_path / "warehouse"
    warehouse.mkdir()
    with TrialPeer(Path(JAR), warehouse) as peer:
        steps = run_histories(peer, warehouse, 1, HISTORIES, kinds=(kind,))
    assert {name.rsplit(" ", 1)[1] for name in steps} == {"here", "there"}

"""Tables with `upsert-key` that Paimon and this project write in turn. Needs the jar of release 2.0 in `PEER_JAR`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.peers.upsert_histories import KINDS

JAR = os.environ.get("PEER_JAR", "")
pytestmark = [
    pytest.mark.peer,
    pytest.mark.slow,
    pytest.mark.skipif(not JAR, reason="only release 2.0 of Paimon has `upsert-key`: give its jar in PEER_JAR"),
]


def test_both_sides_store_the_same_rows() -> None:
    program = [sys.executable, "-m", "tests.peers.upsert_histories", JAR]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.stdout.count("same rows") == 2 * len(KINDS), done.stderr[-3000:]

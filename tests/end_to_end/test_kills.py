"""kill -9 of the engine, of Python workers and of the JVM while statements run: nothing is lost, nothing half visible."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.kills import ENGINE, JVM, WORKER, Trial


def test_a_few_kills_in_spark(tmp_path: Path) -> None:
    tally = Trial(tmp_path, seed=1).run(engines=3, workers=3, jvms=1)
    assert tally.killed == {ENGINE: 3, WORKER: 3, JVM: 1}
    assert tally.acknowledged >= 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", [11, 12, 13, 14])
def test_two_hundred_kills_in_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int) -> None:
    """Fifty and one for each seed."""
    tally = Trial(tmp_path, seed=seed).run(engines=17, workers=31, jvms=3)
    with capsys.disabled():
        print(f"\n{tally}; {tally.seconds:.0f} s")
    assert tally.killed == {ENGINE: 17, WORKER: 31, JVM: 3}
    assert tally.hit[ENGINE] >= 5
    assert tally.hit[WORKER] >= 3  # by chance: a worker may have nothing to do when it is killed
    assert tally.acknowledged >= 12

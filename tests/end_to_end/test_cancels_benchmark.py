"""The benchmark of cancels, on small tables: CALLs that fail leave their tables as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import engines
from benchmarks.cancels import CASES, MOMENTS, measure

pytestmark = pytest.mark.slow


def test_cancelled_calls_leave_their_tables(tmp_path: Path) -> None:
    cases = [c for c in CASES if c.template != "files"]
    reported: list[str] = []
    found = measure(engines.ours(), tmp_path, reported.append, rows=100_000, cases=cases)
    assert found.failures == []
    assert found.whole.keys() == {c.procedure for c in cases}
    assert all(len(each) <= len(MOMENTS) for each in found.seconds.values())
    assert len(reported) == len(cases)

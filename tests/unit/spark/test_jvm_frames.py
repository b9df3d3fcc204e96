"""What the engine keeps of the sessions that it served."""

from __future__ import annotations

from functools import partial

import pytest

from paimon_spark.spark import jvm_frames as frames


def test_sessions_are_let_go_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "SparkSession", lambda _context, jsparkSession: [jsparkSession])  # noqa: N803
    monkeypatch.setattr(frames, "_jvm_frames", {"context": None})
    monkeypatch.setattr(frames, "_sessions", {})
    first = frames.session_for("s0", lambda: 0)
    for i in range(1, 500):
        frames.session_for(f"s{i}", partial(int, i))
        assert frames.session_for("s0", lambda: 0) is first
    assert len(frames._sessions) <= 64
    assert frames.session_for("s1", lambda: 1) == [1]

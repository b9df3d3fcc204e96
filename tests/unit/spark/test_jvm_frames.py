"""What the engine keeps of the sessions that it served."""

from __future__ import annotations

from paimon_spark.spark.jvm_frames import SessionCache


def test_sessions_are_let_go_after_a_while() -> None:
    sessions = SessionCache[list[int]]()
    first = sessions.get("s0", lambda: [0])
    for i in range(1, 500):
        sessions.get(f"s{i}", lambda: [0])
        assert sessions.get("s0", lambda: [0]) is first
    assert len(sessions) <= 64
    assert sessions.get("s1", lambda: [1]) == [1]

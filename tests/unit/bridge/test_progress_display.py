"""The line that shows running CALLs in a notebook."""

from __future__ import annotations

import io
import threading
from typing import Any

import paimon_spark
from paimon_spark.calls.progress import LINE


class Session:
    """Answers as a session in which a CALL begins and ends."""

    def __init__(self, *answers: list[dict[str, Any]]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.seen = threading.Event()

    def sql(self, text: str) -> Session:
        self.asked.append(text)
        return self

    def collect(self) -> list[dict[str, Any]]:
        if len(self.answers) == 1:
            self.seen.set()
        return self.answers.pop(0) if self.answers else []


def test_the_line_shows_what_runs_and_is_wiped() -> None:
    running = {"procedure": "compact", "progress": "1/4 compact db.t, 2.0/s, 0:02 left"}
    session, out = Session([], [running], [{"procedure": "merge_into", "progress": None}]), io.StringIO()
    with paimon_spark.show_progress(session, "lake", stream=out):
        assert session.seen.wait(30)
    lines = out.getvalue().split("\r")
    assert [line.strip() for line in lines[:2]] == ["1/4 compact db.t, 2.0/s, 0:02 left", "merge_into"]
    assert lines[-2:] == [" " * LINE, ""]
    assert set(session.asked) == {"CALL `lake`.sys.running()"}


def test_nothing_is_written_if_nothing_runs() -> None:
    session, out = Session([], [], []), io.StringIO()
    with paimon_spark.show_progress(session, stream=out):
        assert session.seen.wait(30)
    assert out.getvalue() == ""

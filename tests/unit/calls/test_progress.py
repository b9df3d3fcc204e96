"""The progress line: it moves, keeps its width, and leaves nothing behind."""

from __future__ import annotations

import pytest

from paimon_spark.calls.progress import LINE, progress_line, reporter


@pytest.mark.parametrize("what", ["compact default.t", "compact " + "x" * 200])
def test_the_line_has_one_width_and_returns_to_its_start(what: str) -> None:
    for done in range(8):
        text = progress_line(done, 7, what)
        assert len(text) == LINE + 1
        assert text.endswith("\r")
        assert "\n" not in text
    assert "3/7" in progress_line(3, 7, what)


def test_the_last_task_wipes_the_line() -> None:
    said: list[str] = []
    report = reporter(said.append)
    for done in range(3):
        report(done, 2, "compact t")
    assert ["[" in text for text in said] == [True, True, False]
    assert said[-1].strip() == ""


def test_nothing_to_do_draws_nothing() -> None:
    assert progress_line(0, 0, "compact t").strip() == ""


def test_the_pace_is_that_since_the_first_report() -> None:
    said: list[str] = []
    ticks = iter([0.0, 0.0, 4.0, 4000.0, 5000.0, 5000.0, 5001.0])
    report = reporter(said.append, lambda: next(ticks))
    report(0, 10, "compact t")
    report(8, 10, "compact t")
    report(9, 10, "compact t")
    report(0, 10, "compact u")
    report(1, 10, "compact u")
    assert [text.split("]")[1].strip() for text in said] == [
        "0/10",
        "8/10 2.0/s, 0:01 left",
        "9/10 0.1/min, 7:24 left",
        "0/10",
        "1/10 1.0/s, 0:09 left",
    ]
    assert {len(text) for text in said} == {LINE + 1}

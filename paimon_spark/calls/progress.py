"""Progress bar of a CALL: one line that a terminal redraws in place."""

from __future__ import annotations

from collections.abc import Callable

LINE = 79
_WIDTH = 30


def progress_line(done: int, total: int, what: str) -> str:
    """Return the bar for `done` of `total` tasks, or the text that clears it when all are done.

    Every text ends with a carriage return, so the next output overwrites it.
    """
    if done >= total:
        return wiped_line()
    filled = _WIDTH * done // total
    count = f" [{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{total}"
    return (what[: LINE - len(count)] + count).ljust(LINE) + "\r"


def wiped_line() -> str:
    """Return the text that clears the bar's line."""
    return " " * LINE + "\r"


def reporter(say: Callable[[str], None]) -> Callable[[int, int, str], None]:
    """Return a progress function for a CALL that writes its bar with `say`."""

    def report(done: int, total: int, what: str) -> None:
        say(progress_line(done, total, what))

    return report

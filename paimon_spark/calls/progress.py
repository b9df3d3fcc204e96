"""The progress of a CALL as one line that a terminal draws over and over."""

from __future__ import annotations

from collections.abc import Callable

LINE = 79
_WIDTH = 30


def progress_line(done: int, total: int, what: str) -> str:
    """Return the bar for `done` of `total` tasks, or what wipes it away when all are done.

    Each text ends by returning the cursor to the start of its line, so whatever is printed next takes its place.
    """
    if done >= total:
        return wiped_line()
    filled = _WIDTH * done // total
    count = f" [{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{total}"
    return (what[: LINE - len(count)] + count).ljust(LINE) + "\r"


def wiped_line() -> str:
    """Return what leaves the bar's line empty."""
    return " " * LINE + "\r"


def reporter(say: Callable[[str], None]) -> Callable[[int, int, str], None]:
    """Return a progress function for a CALL that draws its bar with `say`."""

    def report(done: int, total: int, what: str) -> None:
        say(progress_line(done, total, what))

    return report

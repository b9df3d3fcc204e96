"""Progress of a CALL: rate, remaining time, and a progress bar that a terminal redraws in place."""

from __future__ import annotations

import time
from collections.abc import Callable

LINE = 79
_WIDTH = 20
_MINUTE, _HOUR = 60, 3600


class Pace:
    """Derives the rate and the remaining time of tasks from the time since the first report.

    Args:
        clock: the current time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._what: str | None = None
        self._done = 0
        self._started = (0.0, 0)

    def text(self, done: int, total: int, what: str) -> str:
        """Return rate and remaining time, ``2.5/s, 0:40 left``; empty before a task is done."""
        if what != self._what or done < self._done:
            self._what, self._started = what, (self._clock(), done)
        self._done = done
        since, before = self._started
        elapsed, finished = self._clock() - since, done - before
        if finished <= 0 or elapsed <= 0 or done >= total:
            return ""
        rate = finished / elapsed
        shown = f"{rate:.1f}/s" if rate >= 1 else f"{rate * _MINUTE:.1f}/min"
        return f"{shown}, {_duration(round((total - done) / rate))} left"


def _duration(seconds: int) -> str:
    """Return a duration as ``m:ss`` or ``h:mm:ss``."""
    minutes = f"{seconds % _HOUR // _MINUTE}:{seconds % _MINUTE:02}"
    return minutes if seconds < _HOUR else f"{seconds // _HOUR}:{minutes.zfill(5)}"


def progress_line(done: int, total: int, what: str, pace: str = "") -> str:
    """Return the bar for `done` of `total` tasks, or the text that clears it when all are done.

    Every text ends with a carriage return, so the next output overwrites it.
    """
    if done >= total:
        return wiped_line()
    filled = _WIDTH * done // total
    count = f" [{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{total}" + (f" {pace}" if pace else "")
    return (what[: LINE - len(count)] + count).ljust(LINE) + "\r"


def wiped_line() -> str:
    """Return the text that clears the bar's line."""
    return " " * LINE + "\r"


def reporter(
    write: Callable[[str], None], clock: Callable[[], float] = time.monotonic
) -> Callable[[int, int, str], None]:
    """Return a progress function for a CALL that writes its bar with `write`."""
    pace = Pace(clock)

    def report(done: int, total: int, what: str) -> None:
        write(progress_line(done, total, what, pace.text(done, total, what)))

    return report

"""The progress of a CALL as one line on the terminal of the program that the user started."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from paimon_spark.spark.frames import toolbox

SWITCH = "spark.paimon.progress"
_WIDTH = 30


def progress_bar(conf: Mapping[str, str]) -> Callable[[int, int, str], None]:
    """Return the reporter of a CALL: a bar where the session asks for it, else nothing."""
    if conf.get(SWITCH, "false").lower() != "true":
        return _silent
    return _bar


def _silent(done: int, total: int, what: str) -> None:
    pass


def _bar(done: int, total: int, what: str) -> None:
    filled = _WIDTH * done // max(total, 1)
    end = "\n" if done >= total else ""
    toolbox().say(f"\r{what} [{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{total}{end}")

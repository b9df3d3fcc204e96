"""The progress of a CALL on the terminal of the user's program, if the program enables it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from paimon_spark.calls.context import no_progress
from paimon_spark.calls.progress import reporter, wiped_line
from paimon_spark.spark.jvm_frames import jvm_frames

SWITCH = "spark.paimon.progress"


def progress_bar(conf: Mapping[str, str]) -> Callable[[int, int, str], None]:
    """Return the reporter of a CALL: a bar if the session enables it, else nothing."""
    return reporter(_write) if _is_enabled(conf) else no_progress


@contextmanager
def wiped_after_failure(conf: Mapping[str, str]) -> Iterator[None]:
    """Remove the bar of a CALL that fails, so that its error is on a separate line."""
    try:
        yield
    except Exception:
        if _is_enabled(conf):
            _write(wiped_line())
        raise


def _is_enabled(conf: Mapping[str, str]) -> bool:
    return conf.get(SWITCH, "false").lower() == "true"


def _write(text: str) -> None:
    jvm_frames().printToTerminal(text)

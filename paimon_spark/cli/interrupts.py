"""Ctrl-C and termination signals: the running operation ends at a point where the table is consistent."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from paimon_spark.core.cancellation import cancellable

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interruptible() -> Iterator[None]:
    """Cancel the operations of the block at the first signal; end the process at the second one."""
    with on_signal("Cancelling …") as flag, cancellable(flag):
        yield


@contextmanager
def on_signal(message: str) -> Iterator[threading.Event]:
    """Yield a flag that the first signal sets, with a message; the second one ends the process."""
    flag = threading.Event()

    def received(_number: int, _frame: FrameType | None) -> None:
        flag.set()
        for each in _SIGNALS:
            signal.signal(each, signal.default_int_handler)
        sys.stderr.write(f"\n{message}\n")

    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    before = [signal.signal(each, received) for each in _SIGNALS]
    try:
        yield flag
    finally:
        for each, handler in zip(_SIGNALS, before, strict=True):
            signal.signal(each, handler)

"""Ctrl-C and termination while this process works: what runs ends where nothing is half done."""

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
    flag = threading.Event()

    def cancel(_number: int, _frame: FrameType | None) -> None:
        flag.set()
        for each in _SIGNALS:
            signal.signal(each, signal.default_int_handler)
        sys.stderr.write("\nCancelling …\n")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [signal.signal(each, cancel) for each in _SIGNALS]
    try:
        with cancellable(flag):
            yield
    finally:
        for each, handler in zip(_SIGNALS, before, strict=True):
            signal.signal(each, handler)

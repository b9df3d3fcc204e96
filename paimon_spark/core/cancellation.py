"""Cooperative cancellation: the caller passes in a flag, and long operations check it.

The flag is checked only where no operation is half-done: while metadata is read, and while waiting. A commit that has
published its snapshot, and the cleanup after a failure, always complete.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from paimon_spark.errors import StatementCancelledError

_flag: ContextVar[threading.Event | None] = ContextVar("cancelled", default=None)


@contextmanager
def cancellable(flag: threading.Event) -> Iterator[None]:
    """Cancel the operations of this thread inside the block once `flag` is set."""
    token = _flag.set(flag)
    try:
        yield
    finally:
        _flag.reset(token)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Disable cancellation inside the block, for operations that must complete, and for cleanup."""
    token = _flag.set(None)
    try:
        yield
    finally:
        _flag.reset(token)


def current_flag() -> threading.Event | None:
    """Return the flag that cancels the operations of this thread; None if nothing does."""
    return _flag.get()


def is_cancelled() -> bool:
    """Return whether the statement of this thread has been cancelled."""
    flag = _flag.get()
    return flag is not None and flag.is_set()


def checkpoint() -> None:
    """Raise an error if the statement of this thread has been cancelled.

    Raises:
        StatementCancelledError: it has been cancelled.
    """
    if is_cancelled():
        raise cancellation()


def cancellation(with_what: str = "") -> StatementCancelledError:
    """Return the error of a statement that was cancelled, and with what: its job, for example."""
    told = f" with {with_what}" if with_what else ""
    return StatementCancelledError(
        f"The statement was cancelled{told}.", hint="What it committed before stays. Run it again if needed."
    )

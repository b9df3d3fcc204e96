"""Ending a statement from outside: whoever runs it hands in a flag, and long operations look at it as they go.

Only places where nothing is half-done look at the flag: reads of metadata and waits. A commit that has published its
snapshot, and the deletion of files after a failure, run to their end.
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
    """Let `flag`, once it is set, end what runs in this thread meanwhile."""
    token = _flag.set(flag)
    try:
        yield
    finally:
        _flag.reset(token)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let what runs meanwhile come to its end: it would leave something half-done, or cleans up."""
    token = _flag.set(None)
    try:
        yield
    finally:
        _flag.reset(token)


def is_cancelled() -> bool:
    """Return whether the statement that runs in this thread is to end."""
    flag = _flag.get()
    return flag is not None and flag.is_set()


def checkpoint() -> None:
    """Do nothing, unless the statement that runs in this thread is to end.

    Raises:
        StatementCancelledError: it is.
    """
    if is_cancelled():
        raise StatementCancelledError(
            "The statement was cancelled.", hint="The table is as it was before; run the statement again if need be."
        )

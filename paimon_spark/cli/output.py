"""Standard output of the command."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Pipe(io.FileIO):
    """A stream whose reader may leave before the end, as `head` does: what is written after that goes nowhere."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            return memoryview(data).nbytes


@contextmanager
def forgiving_output() -> Iterator[None]:
    """Do what the body does to its end, even if nobody reads standard output to its own."""
    given = sys.stdout
    if given is not sys.__stdout__ or not isinstance(given, io.TextIOWrapper):
        yield
        return
    given.flush()
    raw = io.BufferedWriter(_Pipe(given.fileno(), "w", closefd=False))
    with (
        io.TextIOWrapper(raw, given.encoding, given.errors, line_buffering=given.line_buffering) as out,
        redirect_stdout(out),
    ):
        yield

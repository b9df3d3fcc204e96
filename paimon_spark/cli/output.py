"""Standard output of the command."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_ESCAPES = "backslashreplace"
_STRICT = ("strict", "surrogateescape")
"""How Python treats characters that the encoding of standard output lacks: it fails."""


class _ForgivingFile(io.FileIO):
    """A stream that ignores writes after its reader has closed the pipe, as `head` does."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except (BrokenPipeError, ConnectionResetError):
            return memoryview(data).nbytes


@contextmanager
def forgiving_output() -> Iterator[None]:
    """Run the block to its end even if the reader of standard output closes the pipe.

    Characters that the encoding of standard output lacks are escaped.
    """
    given = sys.stdout
    if given is not sys.__stdout__ or not isinstance(given, io.TextIOWrapper):
        yield
        return
    given.flush()
    file = _ForgivingFile(given.fileno(), "w", closefd=False)
    with (
        io.TextIOWrapper(
            file if given.write_through else io.BufferedWriter(file),  # as in Python with -u
            given.encoding,
            _ESCAPES if given.errors in _STRICT else given.errors,
            line_buffering=given.line_buffering,
            write_through=given.write_through,
        ) as out,
        redirect_stdout(out),
    ):
        yield

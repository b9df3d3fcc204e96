"""Standard output of the command."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_ESCAPES = "backslashreplace"
_STRICT = ("strict", "surrogateescape")
"""How Python treats characters that the encoding of standard output lacks: it fails."""


@dataclass(slots=True)
class Output:
    """What became of standard output: the first failure of a write, if any."""

    failure: OSError | None = None


class _ForgivingFile(io.FileIO):
    """A stream that ignores writes after its reader has closed the pipe, as `head` does, and after a failure."""

    def __init__(self, descriptor: int, output: Output) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._output = output

    def write(self, data: ReadableBuffer, /) -> int:
        if self._output.failure is None:
            try:
                return super().write(data)
            except (BrokenPipeError, ConnectionResetError):
                pass
            except OSError as error:
                self._output.failure = error
        return memoryview(data).nbytes


def open_closed_streams() -> None:
    """Open the null device in place of each standard stream that is closed.

    Otherwise, files would take the descriptors of these streams, and messages would be written to the files.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it takes the lowest descriptor that is free
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


@contextmanager
def forgiving_output() -> Iterator[Output]:
    """Run the block to its end even if the reader of standard output closes the pipe, or a write fails.

    Characters that the encoding of standard output lacks are escaped.
    """
    given, output = sys.stdout, Output()
    if given is not sys.__stdout__ or not isinstance(given, io.TextIOWrapper):
        yield output
        return
    given.flush()
    file = _ForgivingFile(given.fileno(), output)
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
        yield output

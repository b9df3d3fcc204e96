"""Make the answers of the stock ``spark-sql`` program readable: aligned tables, statements echoed above them.

The program writes rows as tab-separated lines on stdout and, after every statement, one ``Time taken`` line on stderr.
Those lines tell where an answer ends; everything else on stderr passes through untouched.
"""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import sys
from collections.abc import Sequence
from typing import TextIO

from paimon_spark.sqlparse.script import Statement

_END = re.compile(r"^Time taken: ([\d.]+) seconds(?:, Fetched (\d+) row\(s\))?\s*$")
_NOISE = ("WARNING: Using incubator modules", "Spark master: ", "Spark Web UI available at")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?%?|NULL")


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return `rows`, the first of which is the header, as aligned lines; numbers stand to the right."""
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [len(c) > 1 and all(_NUMBER.fullmatch(v) for v in c[1:]) for c in columns]

    def line(cells: Sequence[str]) -> str:
        padded = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True))
        return "  ".join(padded).rstrip()

    return [line(rows[0]), "  ".join("-" * w for w in widths), *map(line, rows[1:])]


def answer_lines(lines: Sequence[str], fetched: int | None) -> list[str]:
    """Return the answer of one statement as lines to print.

    `fetched` is the number of rows the program announced, None for a statement without an answer; what it printed then
    is no more than a header. An answer whose cells contain line breaks is printed as it came, below its header.
    """
    if fetched is None:
        return []
    rows = [line.split("\t") for line in lines]
    if len(rows) == fetched + 1 and len({len(row) for row in rows}) == 1:
        return table_lines(rows)
    return list(lines[1:])


class Renderer:
    """Turns the two output streams of one run of ``spark-sql`` into readable text on `out`."""

    def __init__(self, statements: Sequence[Statement], *, echo: bool, out: TextIO, err: TextIO) -> None:
        self._statements = list(statements)
        self._echo = echo
        self._out = out
        self._err = err
        self._pending: list[str] = []
        self._done = 0

    def announce(self) -> None:
        """Print the comment and the text of the statement that runs next."""
        if self._echo and self._done < len(self._statements):
            statement = self._statements[self._done]
            print(file=self._out)
            for line in statement.comment.splitlines():
                print(self._styled(f"-- {line}", "2"), file=self._out)
            print(self._styled(f"{statement.text};", "1"), file=self._out, flush=True)

    def on_output(self, line: str) -> None:
        """Keep a line of the answer until the answer is complete."""
        self._pending.append(line)

    def on_message(self, line: str) -> None:
        """Pass a line of stderr on, unless it is noise."""
        if not line.startswith(_NOISE):
            self._err.write(line + "\n")
            self._err.flush()

    def finish(self, end: re.Match[str]) -> None:
        """Print the answer of the statement that has just ended and announce the next one."""
        fetched = int(end[2]) if end[2] else None
        for line in answer_lines(self._pending, fetched):
            print(line, file=self._out)
        count = "" if fetched is None else f", {fetched} row{'' if fetched == 1 else 's'}"
        print(self._styled(f"({float(end[1]):.1f} s{count})", "2"), file=self._out, flush=True)
        self._pending = []
        self._done += 1
        self.announce()

    def close(self) -> None:
        """Print what arrived without an end, as happens before an error."""
        for line in self._pending:
            print(line, file=self._out)
        self._out.flush()

    def _styled(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._out.isatty() else text


class _Pump:
    """Reads the two pipes of a process as lines."""

    def __init__(self, output: int, messages: int, renderer: Renderer) -> None:
        self._output = output
        self._renderer = renderer
        self._buffers = {output: b"", messages: b""}

    def drain(self, fd: int) -> bool:
        """Hand over the lines that can be read now; return False at the end of the stream."""
        while True:
            try:
                chunk = os.read(fd, 65536)
            except BlockingIOError:
                return True
            *lines, rest = (self._buffers[fd] + chunk).split(b"\n")
            self._buffers[fd] = rest
            for line in lines if chunk or not rest else [*lines, rest]:
                self._hand_over(fd, line.decode("utf-8", "replace"))
            if not chunk:
                return False

    def _hand_over(self, fd: int, line: str) -> None:
        if fd == self._output:
            self._renderer.on_output(line)
        elif end := _END.match(line):
            self.drain(self._output)
            self._renderer.finish(end)
        else:
            self._renderer.on_message(line)


def pump(process: subprocess.Popen[bytes], renderer: Renderer) -> int:
    """Feed `renderer` from the pipes of `process` until both close; return the exit status.

    A ``Time taken`` line is written after the answer it closes, so that whatever the answer put into the other pipe can
    be read by then without waiting.
    """
    pipes = [pipe.fileno() for pipe in (process.stdout, process.stderr) if pipe is not None]
    reader = _Pump(pipes[0], pipes[1], renderer)
    with selectors.DefaultSelector() as selector:
        for fd in pipes:
            os.set_blocking(fd, False)
            selector.register(fd, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                if not reader.drain(key.fd):
                    selector.unregister(key.fd)
    renderer.close()
    return process.wait()


def standard(statements: Sequence[Statement], *, echo: bool) -> Renderer:
    """Return a renderer that writes to this process's stdout and stderr."""
    return Renderer(statements, echo=echo, out=sys.stdout, err=sys.stderr)

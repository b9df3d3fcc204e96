"""Make the answers of the stock ``spark-sql`` program readable: aligned tables, statements echoed above them.

The program writes rows as tab-separated lines on stdout and, after every statement, one ``Time taken`` line on stderr.
Read through one pipe, in the order in which they were written, those lines tell where an answer ends.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from paimon_spark.sqlparse.script import Statement

_END = re.compile(r"^Time taken: ([\d.]+) seconds(?:, Fetched (\d+) row\(s\))?\s*$")
_MESSAGE = re.compile(r"^\d\d:\d\d:\d\d (WARN|ERROR|FATAL|INFO|DEBUG) ")
#: Where in Spark an error came from: of no use to those who wrote the statement.
_FRAME = re.compile(r"\s+(at \S+\(|\.\.\. \d+ more|Suppressed: )")
_NO_ANSWER = "Response code"
_NOISE = ("WARNING: Using incubator modules", "Spark master: ", "Spark Web UI available at")
#: A single row wider than this is printed downwards.
WIDE = 120
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


def answer_lines(lines: Sequence[str], fetched: int) -> list[str]:
    """Return the answer of one statement as lines to print.

    `fetched` is the number of rows the program announced. A statement without an answer prints no more than a header.
    An answer whose cells contain line breaks is printed as it came, without its header.
    """
    if not lines or (fetched == 0 and lines[0] == _NO_ANSWER):
        return []
    rows = [line.split("\t") for line in lines]
    if len(rows) != fetched + 1 or len({len(row) for row in rows}) != 1:
        return list(lines[1:])
    table = table_lines(rows)
    if len(table[1]) <= WIDE:
        return table
    return record_lines(rows[0], rows[1]) if fetched == 1 else table_lines(without_common_directory(rows))


def without_common_directory(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return `rows` with the directory that all paths of a column share cut down to ``…/``."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    for column in columns:
        paths = [v for v in column[1:] if v != "NULL"]
        if paths and all(v.startswith("/") for v in paths):
            shared = os.path.commonpath([str(Path(v).parent) for v in paths]).rstrip("/")
            column[1:] = [v if v == "NULL" else f"…{v[len(shared) :]}" for v in column[1:]]
    return [list(row) for row in zip(*columns, strict=True)]


def record_lines(names: Sequence[str], values: Sequence[str]) -> list[str]:
    """Return one row as lines, one for each column."""
    width = max(map(len, names))
    return [f"{name.ljust(width)}  {value}" for name, value in zip(names, values, strict=True)]


class Renderer:
    """Turns the lines of one run of ``spark-sql`` into readable text on `out`; messages go to `err`."""

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

    def on_line(self, line: str) -> None:
        """Take the next line: a message, a line of the answer, or the end of the answer."""
        if end := _END.match(line):
            self._finish(float(end[1]), int(end[2] or 0))
        elif _MESSAGE.match(line):
            print(line, file=self._err, flush=True)
        elif not line.startswith(_NOISE):
            self._pending.append(line)

    def on_progress(self, text: str) -> None:
        """Take a progress bar, which redraws its line; it is for people only."""
        if self._err.isatty():
            self._err.write(text)
            self._err.flush()

    def close(self) -> None:
        """Print what arrived without an end: it is the error that ended the run, here without its stack."""
        for line in self._pending:
            if not _FRAME.match(line):
                print(line, file=self._err, flush=True)

    def _finish(self, seconds: float, fetched: int) -> None:
        answer = answer_lines(self._pending, fetched)
        for line in answer:
            print(line, file=self._out)
        count = f", {fetched} row{'' if fetched == 1 else 's'}" if answer else ""
        if answer or self._echo:
            print(self._styled(f"({seconds:.1f} s{count})", "2"), file=self._out, flush=True)
        self._pending = []
        self._done += 1
        self.announce()

    def _styled(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._out.isatty() else text


def pump(process: subprocess.Popen[bytes], renderer: Renderer) -> int:
    """Feed `renderer` from the one pipe that carries both streams of `process`; return the exit status."""
    pipe = process.stdout
    buffer = b""
    while pipe is not None and (chunk := os.read(pipe.fileno(), 65536)):
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            renderer.on_line(_after_progress(line, renderer).decode("utf-8", "replace"))
        buffer = _after_progress(buffer, renderer)
    if buffer:
        renderer.on_line(buffer.decode("utf-8", "replace"))
    renderer.close()
    return process.wait()


def _after_progress(text: bytes, renderer: Renderer) -> bytes:
    """Show the progress in `text`, which ends by returning to the start of the line, and return what follows it."""
    progress, mark, rest = text.rpartition(b"\r")
    if mark:
        renderer.on_progress((progress + mark).decode("utf-8", "replace"))
    return rest


def standard(statements: Sequence[Statement], *, echo: bool) -> Renderer:
    """Return a renderer that writes to this process's stdout and stderr."""
    return Renderer(statements, echo=echo, out=sys.stdout, err=sys.stderr)

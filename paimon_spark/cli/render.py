"""Formats the output of the stock ``spark-sql`` program: aligned tables, with the statements echoed above them.

The program writes rows as tab-separated lines to stdout and, after each statement, a ``Time taken`` line to stderr.
With both streams in one pipe, in write order, these lines delimit the results.
"""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import IO, BinaryIO, Protocol, TextIO

from paimon_spark.cli.script_progress import PlanFilter, ScriptProgress

_END = re.compile(r"^Time taken: ([\d.]+) seconds(?:, Fetched (\d+) row\(s\))?\s*$")
_MESSAGE = re.compile(r"^\d\d:\d\d:\d\d (WARN|ERROR|FATAL|INFO|DEBUG) ")
#: Source locations inside Spark, which are of no use to the author of the statement.
_FRAME = re.compile(r"\s+(at \S+\(|\.\.\. \d+ more|Suppressed: )")
_NO_ANSWER = "Response code"
_NOISE = (
    "WARNING: Using incubator modules",
    "Spark master: ",
    "Spark Web UI available at",
    "Interrupting... Be patient",
    "Press Ctrl+C again to kill JVM",
)
_CANCELLED = "TaskKilled (Stage cancelled"
"""Spark's warning for each task of a cancelled statement."""
_CODED = re.compile(r"\[[A-Z_.]+\] ")
_CLASS = re.compile(r"(?:[\w$]+\.)+[\w$]+(?:Exception|Error): (?=\[[A-Z_.]+\] )")
"""The class of an exception before its code, which Spark 4.0 prints."""
_QUOTE = "== SQL"
#: Maximum number of lines of a result held back until its end is known.
HELD = 10_000
#: A single row wider than this is printed vertically.
WIDE = 120
_CHANGES = "op\t"
"""The start of the header of a query in streaming mode. The lines after it are changes, printed at once."""
_CHANGE = re.compile(r"(\+I|-U|\+U|-D)\t")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?%?|NULL")


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return `rows`, header first, as aligned lines; numbers are right-aligned."""
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [len(c) > 1 and all(_NUMBER.fullmatch(v) for v in c[1:]) for c in columns]

    def line(cells: Sequence[str]) -> str:
        padded = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True))
        return "  ".join(padded).rstrip()

    return [line(rows[0]), "  ".join("-" * w for w in widths), *map(line, rows[1:])]


def is_error(lines: Sequence[str]) -> bool:
    """Return whether the first line that is not empty is an error with a code."""
    first = next((line for line in lines if line.strip()), "")
    return _CODED.match(_CLASS.sub("", first)) is not None


def gist(lines: Sequence[str]) -> list[str]:
    """Return an error without its class and the quoted statement; other lines unchanged."""
    if not is_error(lines):
        return list(lines)
    shown = [line for line in lines if line.strip()]
    shown[0] = _CLASS.sub("", shown[0])
    return list(takewhile(lambda line: not line.startswith(_QUOTE), shown))


def answer_lines(lines: Sequence[str], fetched: int, *, readable: bool = True) -> list[str]:
    """Return the output of one statement as lines to print.

    `fetched` is the row count that the program reports. A statement without a result prints only a header. A result
    with line breaks in its cells is printed unformatted, and a single cell with line breaks without its header.
    """
    if not lines or (fetched == 0 and lines[0] == _NO_ANSWER):
        return []
    if not readable:
        return list(lines)
    rows = [line.split("\t") for line in lines]
    if len(rows) != fetched + 1 or len({len(row) for row in rows}) != 1:
        return list(lines[1:] if fetched == 1 and len(rows[0]) == 1 else lines)
    table = table_lines(rows)
    if len(table[1]) <= WIDE:
        return table
    return record_lines(rows[0], rows[1]) if fetched == 1 else table_lines(without_common_directory(rows))


def without_common_directory(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return `rows` with the common directory of all paths of a column shortened to ``…/``."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    for column in columns:
        paths = [v for v in column[1:] if v != "NULL"]
        if paths and all(v.startswith("/") for v in paths):
            shared = os.path.commonpath([str(Path(v).parent) for v in paths]).rstrip("/")
            column[1:] = [v if v == "NULL" else f"…{v[len(shared) :]}" for v in column[1:]]
    return [list(row) for row in zip(*columns, strict=True)]


def record_lines(names: Sequence[str], values: Sequence[str]) -> list[str]:
    """Return one row as lines, one per column."""
    width = max(map(len, names))
    return [f"{name.ljust(width)}  {value}" for name, value in zip(names, values, strict=True)]


def is_header_of_changes(lines: Sequence[str]) -> bool:
    """Return whether `lines` are the header of a query in streaming mode."""
    return len(lines) == 1 and lines[0].startswith(_CHANGES)


class LiveChanges:
    """Prints the changes of a query in streaming mode as they arrive, header first, in columns that only widen."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._widths: list[int] = []
        self.count = 0

    def show(self, line: str) -> None:
        """Print one line."""
        cells = line.split("\t")
        self._widths.extend(0 for _ in cells[len(self._widths) :])
        for i, cell in enumerate(cells):
            self._widths[i] = max(self._widths[i], len(cell))
        self.count += _CHANGE.match(line) is not None
        text = "  ".join(c.ljust(w) for c, w in zip(cells, self._widths, strict=False))
        print(text.rstrip(), file=self._out, flush=True)


class Renderer:
    """Formats the output of one ``spark-sql`` run: results to `out`, messages to `err`.

    Args:
        course: the statements of the script.
        echo: print each statement above its result.
        out: stream for results.
        err: stream for messages.
        typed: interactive use: confirm statements without a result, and shorten errors.
        readable: print aligned tables instead of tab-separated lines.
    """

    def __init__(
        self,
        progress: ScriptProgress,
        *,
        echo: bool = False,
        out: TextIO,
        err: TextIO,
        typed: bool = False,
        readable: bool = True,
    ) -> None:
        self._typed = typed
        self._readable = readable
        self._progress = progress
        self._echo = echo
        self._out = out
        self._err = err
        self._pending: list[str] = []
        self._changes: LiveChanges | None = None
        self._plans = PlanFilter()

    def announce(self) -> None:
        """Print the comment and the text of the next statement."""
        if self._echo and (statement := self._progress.running) is not None:
            print(file=self._out)
            for line in statement.comment.splitlines():
                print(self._styled(f"-- {line}", "2"), file=self._out)
            print(self._styled(f"{statement.text};", "1"), file=self._out, flush=True)

    def on_line(self, line: str) -> None:
        """Process the next line: a message, a line of a result, or the end of a result."""
        if end := _END.match(line):
            self._finish(float(end[1]), int(end[2] or 0))
        elif _MESSAGE.match(line):
            if _CANCELLED not in line:
                print(line, file=self._err, flush=True)
        elif not line.startswith(_NOISE):
            self._on_output(line)

    def _on_output(self, line: str) -> None:
        if self._changes is None and self._readable and _CHANGE.match(line) and is_header_of_changes(self._pending):
            self._changes = LiveChanges(self._out)
            self._changes.show(self._pending.pop())
        if self._changes is not None and line != _NO_ANSWER:
            self._changes.show(line)
        else:
            self._pending.append(line)

    def on_progress(self, text: str) -> None:
        """Print a progress bar, which overwrites its line; only on a terminal."""
        if self._err.isatty():
            self._err.write(text)
            self._err.flush()

    def close(self, status: int) -> None:
        """Print the remaining lines, which are the error that ended the run, without its stack trace."""
        self._print_error()
        if (message := self._progress.failure_message(status)) is not None:
            print(message, file=self._err, flush=True)

    def _print_error(self) -> None:
        for line in gist(self._pending) if self._typed else self._pending:
            text = self._progress.on_message(line)
            if self._plans.passes(line) and not _FRAME.match(line):
                print(text, file=self._err, flush=True)

    def _finish(self, seconds: float, fetched: int) -> None:
        if self._typed and not fetched and is_error(self._pending):  # Spark 4.0 times failed statements too
            self._print_error()
            self._pending = []
            return
        answer = answer_lines(self._pending, fetched, readable=self._readable)
        for line in answer:
            print(line, file=self._out)
        count = f", {fetched} row{'' if fetched == 1 else 's'}" if answer else ""
        if self._changes is not None:
            count = f", {self._changes.count} change{'' if self._changes.count == 1 else 's'}"
        if self._typed or count or self._echo:
            print(self._styled(f"({seconds:.1f} s{count})", "2"), file=self._out, flush=True)
        self._pending, self._changes = [], None
        self._progress.on_end()
        self.announce()

    def _styled(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._out.isatty() else text


class Answers:
    """Copies rows to `out` unchanged, except the header of a statement without a result.

    The end of a result is reported on the other stream. Only the last lines of a result are held back until then.
    """

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._held: deque[bytes] = deque()
        self._passed = 0

    def on_line(self, line: bytes) -> None:
        """Process the next result line."""
        self._held.append(line)
        while len(self._held) > HELD:
            self._pass(1)

    def on_end(self, fetched: int) -> None:
        """Process the end of a statement with `fetched` rows; lines after its last row belong to the next statement."""
        if fetched:
            self._pass(fetched + 1 - self._passed)
        elif _NO_ANSWER.encode() in self._held:
            self._pass(self._held.index(_NO_ANSWER.encode()))
            self._held.popleft()
        else:
            self.close()
        self._passed = 0
        self._out.flush()

    def close(self) -> None:
        """Write the remaining lines."""
        self._pass(len(self._held))
        self._out.flush()

    def _pass(self, count: int) -> None:
        for _ in range(min(count, len(self._held))):
            self._out.write(self._held.popleft() + b"\n")
            self._passed += 1


class Notes:
    """Copies messages to `err`, without stack traces and greetings; statement times are passed to `answers` only."""

    def __init__(self, answers: Answers, progress: ScriptProgress, err: TextIO) -> None:
        self._answers = answers
        self._progress = progress
        self._err = err
        self._plans = PlanFilter()

    def on_line(self, line: bytes) -> None:
        """Process the next line."""
        text = after_progress(line, self).decode("utf-8", "replace")
        if end := _END.match(text):
            self._answers.on_end(int(end[2] or 0))
            self._progress.on_end()
        elif self._plans.passes(text) and not (text.startswith(_NOISE) or _CANCELLED in text or _FRAME.match(text)):
            print(self._progress.on_message(text), file=self._err, flush=True)

    def close(self, status: int) -> None:
        """Print which statement ended a failed run."""
        if (message := self._progress.failure_message(status)) is not None:
            print(message, file=self._err, flush=True)

    def on_progress(self, text: str) -> None:
        """Print a progress bar, which overwrites its line; only on a terminal."""
        if self._err.isatty():
            self._err.write(text)
            self._err.flush()


class _Pipe:
    """A non-blocking reader of one stream of a process."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        if pipe is None:
            raise ValueError("the stream of the process is not a pipe")
        self._pipe = pipe
        self._rest = b""
        os.set_blocking(pipe.fileno(), False)

    def arrived(self, selector: selectors.BaseSelector) -> list[bytes]:
        """Return the available lines; a stream at its end is removed from the selector."""
        if self._pipe not in selector.get_map():
            return []
        chunks = [self._rest]
        while True:
            try:
                chunk = os.read(self._pipe.fileno(), 65536)
            except BlockingIOError:
                break
            chunks.append(chunk)
            if not chunk:
                selector.unregister(self._pipe)
                break
        *lines, self._rest = b"".join(chunks).split(b"\n")
        return [*lines, self._rest] if self._rest and not chunks[-1] else lines


def pass_on(process: subprocess.Popen[bytes], progress: ScriptProgress, out: BinaryIO, err: TextIO) -> int:
    """Copy both streams of `process`, which runs the script of `progress`, to `out` and `err`; return its exit status.

    A statement writes its rows before its end is reported. Each round therefore reads messages first and rows second,
    and processes rows first.
    """
    answers = Answers(out)
    notes = Notes(answers, progress, err)
    rows, messages = _Pipe(process.stdout), _Pipe(process.stderr)
    with selectors.DefaultSelector() as selector:
        for pipe in (process.stdout, process.stderr):
            selector.register(pipe, selectors.EVENT_READ)  # type: ignore[arg-type]
        while selector.get_map():
            selector.select()
            lines = messages.arrived(selector)
            for line in rows.arrived(selector):
                answers.on_line(line)
            for line in lines:
                notes.on_line(line)
    answers.close()
    status = process.wait()
    notes.close(status)
    return status


class _ShowsProgress(Protocol):
    def on_progress(self, text: str) -> None: ...


def after_progress(text: bytes, renderer: _ShowsProgress) -> bytes:
    """Print the progress in `text`, which ends with a carriage return, and return the rest."""
    progress, mark, rest = text.rpartition(b"\r")
    if mark:
        renderer.on_progress((progress + mark).decode("utf-8", "replace"))
    return rest


def pump(process: subprocess.Popen[bytes], renderer: Renderer) -> int:
    """Pass lines from the common pipe of both streams of `process` to `renderer`; return the exit status."""
    pipe = process.stdout
    buffer = b""
    while pipe is not None and (chunk := os.read(pipe.fileno(), 65536)):
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            renderer.on_line(after_progress(line, renderer).decode("utf-8", "replace"))
        buffer = after_progress(buffer, renderer)
    if buffer:
        renderer.on_line(buffer.decode("utf-8", "replace"))
    status = process.wait()
    renderer.close(status)
    return status


def standard(progress: ScriptProgress, *, echo: bool) -> Renderer:
    """Return a renderer that writes to this process's stdout and stderr."""
    return Renderer(progress, echo=echo, out=sys.stdout, err=sys.stderr)

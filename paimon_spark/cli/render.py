"""Make the answers of the stock ``spark-sql`` program readable: aligned tables, statements echoed above them.

The program writes rows as tab-separated lines on stdout and, after every statement, one ``Time taken`` line on stderr.
Read through one pipe, in the order in which they were written, those lines tell where an answer ends.
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
#: Where in Spark an error came from: of no use to those who wrote the statement.
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
"""What Spark warns of for each task of a statement that was cancelled on purpose."""
_CODED = re.compile(r"\[[A-Z_.]+\] ")
_QUOTE = "== SQL"
#: So many lines of an answer are held back until its end is told.
HELD = 10_000
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


def gist(lines: Sequence[str]) -> list[str]:
    """Return what an error says, without the statement that it quotes; other lines as they are."""
    said = [line for line in lines if line.strip()]
    if not said or not _CODED.match(said[0]):
        return list(lines)
    return list(takewhile(lambda line: not line.startswith(_QUOTE), said))


def answer_lines(lines: Sequence[str], fetched: int, *, readable: bool = True) -> list[str]:
    """Return the answer of one statement as lines to print.

    `fetched` is the number of rows the program announced. A statement without an answer prints no more than a header.
    An answer whose cells contain line breaks is printed as it came, without its header.
    """
    if not lines or (fetched == 0 and lines[0] == _NO_ANSWER):
        return []
    if not readable:
        return list(lines)
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
    """Turns the lines of one run of ``spark-sql`` into readable text on `out`; messages go to `err`.

    Args:
        course: the statements that are run.
        echo: print each of them above its answer.
        out: where answers go.
        err: where messages go.
        typed: somebody types the statements, and wants a sign from each of them, and of errors the gist.
        readable: print aligned tables, and not lines with tabs.
    """

    def __init__(
        self,
        course: ScriptProgress,
        *,
        echo: bool = False,
        out: TextIO,
        err: TextIO,
        typed: bool = False,
        readable: bool = True,
    ) -> None:
        self._typed = typed
        self._readable = readable
        self._course = course
        self._echo = echo
        self._out = out
        self._err = err
        self._pending: list[str] = []
        self._plans = PlanFilter()

    def announce(self) -> None:
        """Print the comment and the text of the statement that runs next."""
        if self._echo and (statement := self._course.running) is not None:
            print(file=self._out)
            for line in statement.comment.splitlines():
                print(self._styled(f"-- {line}", "2"), file=self._out)
            print(self._styled(f"{statement.text};", "1"), file=self._out, flush=True)

    def on_line(self, line: str) -> None:
        """Take the next line: a message, a line of the answer, or the end of the answer."""
        if end := _END.match(line):
            self._finish(float(end[1]), int(end[2] or 0))
        elif _MESSAGE.match(line):
            if _CANCELLED not in line:
                print(line, file=self._err, flush=True)
        elif not line.startswith(_NOISE):
            self._pending.append(line)

    def on_progress(self, text: str) -> None:
        """Take a progress bar, which redraws its line; it is for people only."""
        if self._err.isatty():
            self._err.write(text)
            self._err.flush()

    def close(self, status: int) -> None:
        """Print what arrived without an end: it is the error that ended the run, here without its stack."""
        for line in gist(self._pending) if self._typed else self._pending:
            text = self._course.on_message(line)
            if self._plans.passes(line) and not _FRAME.match(line):
                print(text, file=self._err, flush=True)
        if (told := self._course.told(status)) is not None:
            print(told, file=self._err, flush=True)

    def _finish(self, seconds: float, fetched: int) -> None:
        answer = answer_lines(self._pending, fetched, readable=self._readable)
        for line in answer:
            print(line, file=self._out)
        count = f", {fetched} row{'' if fetched == 1 else 's'}" if answer else ""
        if self._typed or answer or self._echo:
            print(self._styled(f"({seconds:.1f} s{count})", "2"), file=self._out, flush=True)
        self._pending = []
        self._course.on_end()
        self.announce()

    def _styled(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._out.isatty() else text


class Answers:
    """Passes rows on to `out` as they are, but for the header of a statement that has no answer.

    Where an answer ends is told on the other stream. Of a long answer the rows are not held back until then.
    """

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._held: deque[bytes] = deque()
        self._passed = 0

    def on_line(self, line: bytes) -> None:
        """Take the next line of some answer."""
        self._held.append(line)
        while len(self._held) > HELD:
            self._pass(1)

    def on_end(self, fetched: int) -> None:
        """Take the end of a statement with so many rows; lines behind its last row are of the next statement."""
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
        """Pass on what is left."""
        self._pass(len(self._held))
        self._out.flush()

    def _pass(self, count: int) -> None:
        for _ in range(min(count, len(self._held))):
            self._out.write(self._held.popleft() + b"\n")
            self._passed += 1


class Notes:
    """Passes messages on to `err`: no stacks, no greetings, and how long a statement took goes to `answers` alone."""

    def __init__(self, answers: Answers, course: ScriptProgress, err: TextIO) -> None:
        self._answers = answers
        self._course = course
        self._err = err
        self._plans = PlanFilter()

    def on_line(self, line: bytes) -> None:
        """Take the next line."""
        text = after_progress(line, self).decode("utf-8", "replace")
        if end := _END.match(text):
            self._answers.on_end(int(end[2] or 0))
            self._course.on_end()
        elif self._plans.passes(text) and not (text.startswith(_NOISE) or _CANCELLED in text or _FRAME.match(text)):
            print(self._course.on_message(text), file=self._err, flush=True)

    def close(self, status: int) -> None:
        """Tell which statement ended a run that failed."""
        if (told := self._course.told(status)) is not None:
            print(told, file=self._err, flush=True)

    def on_progress(self, text: str) -> None:
        """Take a progress bar, which redraws its line; it is for people only."""
        if self._err.isatty():
            self._err.write(text)
            self._err.flush()


class _Pipe:
    """One stream of a process, read without waiting."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        if pipe is None:
            raise ValueError("the stream of the process is not a pipe")
        self._pipe = pipe
        self._rest = b""
        os.set_blocking(pipe.fileno(), False)

    def arrived(self, selector: selectors.BaseSelector) -> list[bytes]:
        """Return the lines that have arrived; a stream that has ended leaves the selector."""
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


def pass_on(process: subprocess.Popen[bytes], course: ScriptProgress, out: BinaryIO, err: TextIO) -> int:
    """Pass the two streams of `process`, which runs the script of `course`, on to `out` and `err`; return its status.

    A statement writes its rows before its end is told, so the rows are looked for after the messages have arrived, and
    taken before them.
    """
    answers = Answers(out)
    notes = Notes(answers, course, err)
    rows, messages = _Pipe(process.stdout), _Pipe(process.stderr)
    with selectors.DefaultSelector() as selector:
        for pipe in (process.stdout, process.stderr):
            selector.register(pipe, selectors.EVENT_READ)  # type: ignore[arg-type]
        while selector.get_map():
            selector.select()
            said = messages.arrived(selector)
            for line in rows.arrived(selector):
                answers.on_line(line)
            for line in said:
                notes.on_line(line)
    answers.close()
    status = process.wait()
    notes.close(status)
    return status


class _ShowsProgress(Protocol):
    def on_progress(self, text: str) -> None: ...


def after_progress(text: bytes, renderer: _ShowsProgress) -> bytes:
    """Show the progress in `text`, which ends by returning to the start of the line, and return what follows it."""
    progress, mark, rest = text.rpartition(b"\r")
    if mark:
        renderer.on_progress((progress + mark).decode("utf-8", "replace"))
    return rest


def pump(process: subprocess.Popen[bytes], renderer: Renderer) -> int:
    """Feed `renderer` from the one pipe that carries both streams of `process`; return the exit status."""
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


def standard(course: ScriptProgress, *, echo: bool) -> Renderer:
    """Return a renderer that writes to this process's stdout and stderr."""
    return Renderer(course, echo=echo, out=sys.stdout, err=sys.stderr)

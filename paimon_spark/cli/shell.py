"""The interactive shell of `paimon-spark sql`: lines are edited here, and stock ``spark-sql`` runs the statements.

The program reads commands from a pipe. Each statement is passed as a file for its `source` command, so the program
echoes nothing, counts only the lines of the statement, and prints its prompt when done.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TextIO

from paimon_spark.cli.render import Renderer, after_progress
from paimon_spark.cli.script_progress import ScriptProgress
from paimon_spark.sqlparse.script import complete_statements
from paimon_spark.version import __version__

GREETING = f"paimon-spark {__version__}: end statements with a semicolon; Ctrl-C cancels one, Ctrl-D or exit ends."
_PROMPT = re.compile(rb"spark-sql \((.*)\)> ")
_BARE = ("exit", "quit")
_HISTORY = ".paimon-spark-history"
_HISTORY_PLACE = "PAIMON_SPARK_HISTORY"
_HISTORY_LINES = 2000


class Shell:
    """Reads statements until the end of input and runs them one by one.

    Args:
        process: ``spark-sql`` with pipes for its input and for both outputs combined, in a session of its own.
        ask: returns the next line for a prompt; raises EOFError at the end, and KeyboardInterrupt on Ctrl-C.
        scratch: a directory for the statement files.
        readable: print aligned tables instead of tab-separated lines.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        ask: Callable[[str], str],
        scratch: Path,
        *,
        readable: bool = True,
        out: TextIO | None = None,
        err: TextIO | None = None,
    ) -> None:
        if process.stdin is None or process.stdout is None:
            raise ValueError("the streams of the process are not pipes")
        self._process = process
        self._stdin, self._stdout = process.stdin, process.stdout
        self._ask = ask
        self._file = scratch / "statement.sql"
        self._readable = readable
        self._out, self._err = out or sys.stdout, err or sys.stderr
        self._database = ""
        self._interrupts = 0
        self._typing = False

    def run(self) -> int:
        """Run until the input or the program ends; return the exit status."""
        with self._passing_signals():
            alive = self._listen()
            if alive:
                print(GREETING, file=self._err, flush=True)
            while alive and (statements := self._typed()) is not None:
                for text in statements:
                    alive = alive and (self._interrupts > 0 or self._do(text))
            with suppress(BrokenPipeError):
                self._stdin.close()
            return self._process.wait()

    def _typed(self) -> list[str] | None:
        """Return the next complete statements of the user; None at the end of input."""
        prompt, text = f"spark-sql ({self._database})> ", ""
        while True:
            try:
                text += self._line("".rjust(len(prompt) - 2) + "> " if text.strip() else prompt) + "\n"
            except KeyboardInterrupt:
                print(file=self._err)
                text = ""
            except EOFError:
                print(file=self._err)
                return None
            if text.strip().lower() in _BARE:
                return [text.strip()]
            done, rest = complete_statements(text)
            if done and not rest.strip():
                return [s.text for s in done]
            if not done and not rest.strip():
                text = ""

    def _line(self, prompt: str) -> str:
        """Read a line; only during this call are signals raised as exceptions, which `_typed` handles."""
        self._interrupts = 0
        try:
            self._typing = True
            return self._ask(prompt)
        finally:
            self._typing = False

    def _do(self, text: str) -> bool:
        """Run a statement and print its output; return whether the program still runs."""
        self._file.write_text(f"{text};\n", encoding="utf-8")
        try:
            self._stdin.write(f"source {self._file};\n".encode())
            self._stdin.flush()
        except BrokenPipeError:
            return False
        return self._listen()

    def _listen(self) -> bool:
        """Print output of the program until its prompt; return False if it ends instead."""
        progress = ScriptProgress((), alone=False)
        renderer = Renderer(progress, out=self._out, err=self._err, typed=True, readable=self._readable)
        held = b""
        while chunk := os.read(self._stdout.fileno(), 65536):
            *lines, held = (held + chunk).split(b"\n")
            for line in lines:
                renderer.on_line(after_progress(line, renderer).decode("utf-8", "replace"))
            held = after_progress(held, renderer)
            if prompt := _PROMPT.fullmatch(held):
                self._database = prompt[1].decode("utf-8", "replace")
                renderer.close(0)
                return True
        renderer.on_line(held.decode("utf-8", "replace"))
        renderer.close(0)
        return False

    @contextmanager
    def _passing_signals(self) -> Iterator[None]:
        """Handle termination signals and Ctrl-C with `_on_signal` inside the block."""
        numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
        before = {number: signal.signal(number, self._on_signal) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        """Handle Ctrl-C at the prompt by discarding the line; forward every other signal to the program.

        The end of the program also ends input.
        """
        typing, self._typing = self._typing, False
        if typing and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._process.send_signal(number)
        if typing:
            raise EOFError
        self._interrupts += number == signal.SIGINT
        if self._interrupts == 1:
            os.write(2, b"\nCancelling; Ctrl-C again ends the session.\n")


@contextmanager
def terminal_lines() -> Iterator[Callable[[str], str]]:
    """Yield a function that reads a line from the terminal, with editing and history if Python supports them."""
    history = Path(os.environ.get(_HISTORY_PLACE) or Path.home() / _HISTORY)
    try:
        import readline
    except ImportError:
        yield _ask
        return
    with suppress(OSError):
        readline.read_history_file(history)
    readline.set_history_length(_HISTORY_LINES)
    try:
        yield _ask
    finally:
        with suppress(OSError):
            history.touch(mode=0o600)
            readline.write_history_file(history)


def _ask(prompt: str) -> str:
    """Return the next line; the prompt is not written to redirected output."""
    if sys.stdout.isatty():
        return input(prompt)
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.removesuffix("\n")

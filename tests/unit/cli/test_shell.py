"""The shell behind a program that talks like ``spark-sql``: no Ctrl-C takes it down, whenever it comes."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paimon_spark.cli.launch import end
from paimon_spark.cli.shell import GREETING, Shell

PROGRAM = """
import signal, sys
from pathlib import Path
signal.signal(signal.SIGINT, lambda *_: None)
prompt = "spark-sql (default)> "
print(end=prompt, flush=True)
for line in sys.stdin:
    said = Path(line.removeprefix("source ").strip().rstrip(";")).read_text().strip()
    if said == "exit;":
        sys.exit(3)
    print("a", said, "Time taken: 0.1 seconds, Fetched 1 row(s)", sep="\\n")
    print(end=prompt, flush=True)
"""


class InterruptedFile(type(Path())):  # type: ignore[misc]
    """A path where Ctrl-C comes while its file is written: a line is typed, and the statement not on its way yet."""

    def write_text(self, data: str, encoding: str | None = None, *_: object) -> int:
        signal.raise_signal(signal.SIGINT)
        return Path(str(self)).write_text(data, encoding=encoding)


class InterruptedText(io.StringIO):
    """A text where Ctrl-C comes with every answer that is printed."""

    def write(self, text: str) -> int:
        signal.raise_signal(signal.SIGINT)
        return super().write(text)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A program that answers every statement with its text, and that a hangup ends even below `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        started = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    finally:
        signal.signal(signal.SIGHUP, before)
    with started:
        yield started
        end(started)


def typing(*lines: str | int) -> Callable[[str], str]:
    """Return what types `lines` one after the other; a number is a signal that comes instead of a line."""
    rest = iter(lines)

    def ask(_prompt: str) -> str:
        line = next(rest, None)
        if line is None:
            raise EOFError
        if isinstance(line, str):
            return line
        signal.raise_signal(line)
        return "the signal was lost;"

    return ask


def run(
    process: subprocess.Popen[bytes], ask: Callable[[str], str], scratch: Path, out: io.StringIO
) -> tuple[int, str]:
    """Run a shell to its end; return its status and its messages."""
    err = io.StringIO()
    before = signal.getsignal(signal.SIGINT)
    status = Shell(process, ask, scratch, readable=False, out=out, err=err).run()
    assert signal.getsignal(signal.SIGINT) is before
    assert process.returncode == status
    return status, err.getvalue()


def test_ctrl_c_ends_the_line_that_is_typed(process: subprocess.Popen[bytes], tmp_path: Path) -> None:
    out = io.StringIO()
    status, said = run(process, typing("SELECT 'never", signal.SIGINT, "SELECT 1;", "exit"), tmp_path, out)
    assert status == 3
    assert out.getvalue() == "a\nSELECT 1;\n(0.1 s, 1 row)\n"
    assert GREETING in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_end_ends_program_and_typing(
    process: subprocess.Popen[bytes], tmp_path: Path, number: signal.Signals
) -> None:
    status, _ = run(process, typing(number, "SELECT 1;"), tmp_path, io.StringIO())
    assert status == -number


def test_ctrl_c_before_a_statement_runs_leaves_the_shell_alive(
    process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    out = io.StringIO()
    scratch = InterruptedFile(tmp_path)
    status, _ = run(process, typing("SELECT 1;", "SELECT 2; SELECT 3;"), scratch, out)
    assert status == 0
    assert "SELECT 1;" in out.getvalue()
    assert "SELECT 2;" in out.getvalue()
    assert "SELECT 3;" not in out.getvalue()


def test_ctrl_c_while_printing_an_answer_leaves_the_shell_alive(
    process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    out = InterruptedText()
    status, _ = run(process, typing("SELECT 1;", "SELECT 2;", "exit"), tmp_path, out)
    assert status == 3
    assert "SELECT 1;" in out.getvalue()
    assert "SELECT 2;" in out.getvalue()


def test_a_program_that_hears_nothing_is_ended_and_waited_for() -> None:
    deaf = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE, start_new_session=True) as started:
        assert started.stdout is not None
        started.stdout.readline()
        end(started)
        assert started.returncode == -signal.SIGTERM
        with pytest.raises(ProcessLookupError):
            os.kill(started.pid, 0)
        end(started)

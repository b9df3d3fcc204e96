"""Programs that believe a person types to them."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.end_to_end.programs import Place, spark_environ

_STYLE = re.compile("\x1b\\[[0-9;?]*[a-zA-Z]")
PROMPT = r"spark-sql \([^)]*\)> "


def wait_for(what: Callable[[], bool], seconds: float = 120) -> float:
    """Wait until something holds; return how long it took."""
    started = time.monotonic()
    while not what():
        assert time.monotonic() - started < seconds, f"not within {seconds} s"
        time.sleep(0.05)
    return time.monotonic() - started


@dataclass
class Terminal:
    """A program that believes a person types to it."""

    process: subprocess.Popen[bytes]
    master: int
    said: str = field(default="")

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        os.write(self.master, b"\x03")

    def listen(self, seconds: float = 0.1) -> str:
        """Return all output so far."""
        while select.select([self.master], [], [], seconds)[0]:
            try:
                said = os.read(self.master, 65536)
            except OSError:  # it has ended
                break
            self.said += said.decode(errors="replace")
        return self.said

    def answer(self, text: str, prompt: str = PROMPT) -> str:
        """Type lines; return the output up to the next prompt."""
        since = len(self.listen())
        self.type(text)
        wait_for(lambda: len(self.listen()) > since + len(text) and self.hears(f"{prompt}$", since + len(text)))
        return _STYLE.sub("", self.said[since:]).replace("\r\n", "\n").replace("\r", "")

    def hears(self, pattern: str, since: int = 0) -> bool:
        return re.search(pattern, self.listen()[since:]) is not None


def own_the_terminal() -> None:
    """Let Ctrl-C reach this process, also where the tests run in the background, which ignores it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def terminal(
    place: Place, command: Sequence[str | Path], environ: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    """Run a program in a terminal until the block ends."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [str(part) for part in command],
        cwd=place.directory,
        env=spark_environ() | {"TERM": "dumb", **(environ or {})},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=own_the_terminal,
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(master)

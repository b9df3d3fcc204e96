"""CPU seconds and resident memory of a process and its descendants, from /proc."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """The data of one process in /proc; `cpu` in seconds, with that of ended children."""

    pid: int
    parent: int
    java: bool
    cpu: float
    resident: int


def _read(pid: int) -> Process | None:
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    name, _, rest = stat.partition("(")[2].rpartition(")")
    fields = rest.split()
    return Process(
        pid,
        int(fields[1]),
        "java" in name,
        sum(map(int, fields[11:15])) / _TICK,
        int(fields[21]) * _PAGE,
    )


def tree(root: int) -> list[Process]:
    """Return a process and its living descendants."""
    found = [p for entry in _PROC.iterdir() if entry.name.isdigit() and (p := _read(int(entry.name)))]
    children: dict[int, list[Process]] = defaultdict(list)
    for process in found:
        children[process.parent].append(process)
    members = [p for p in found if p.pid == root]
    for process in members:
        members.extend(children[process.pid])
    return members


def cpu_seconds(root: int) -> float:
    """Return the CPU seconds of a process and its descendants so far."""
    return sum(p.cpu for p in tree(root))


def resident(root: int) -> int:
    """Return the resident memory of a process and its descendants, in bytes."""
    return sum(p.resident for p in tree(root))


class MemoryPeak:
    """Samples resident memory while the block runs: of the JVM, and of all other processes (Python) together.

    Pages that forked workers share count for each of them, so the figure for Python is an upper bound.
    """

    def __init__(self, root: int, seconds: float = 0.1) -> None:
        self._root = root
        self._seconds = seconds
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.java = 0
        self.python = 0

    def __enter__(self) -> MemoryPeak:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.is_set():
            members = tree(self._root)
            self.java = max(self.java, sum(p.resident for p in members if p.java))
            self.python = max(self.python, sum(p.resident for p in members if not p.java))
            self._done.wait(self._seconds)

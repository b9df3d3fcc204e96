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
    """The data of one process in /proc.

    Attributes:
        pid: its number.
        parent: that of its parent.
        java: whether it is a JVM.
        cpu: its CPU seconds and those of its ended children that it waited for.
        own: its CPU seconds.
        started: when it started, which tells processes of the same number apart.
        resident: its resident memory in bytes.
    """

    pid: int
    parent: int
    java: bool
    cpu: float
    own: float
    started: int
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
        sum(map(int, fields[11:13])) / _TICK,
        int(fields[19]),
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


class Usage:
    """Samples what a process and its descendants use while the block runs.

    Processes that end count up to their last sample. The total of `cpu_seconds` does not do for that: Spark's Python
    daemon does not wait for its workers, so the time of a worker is in no total once it has ended.

    Attributes:
        cpu: CPU seconds of all processes, known after the block.
        java: peak resident memory of the JVM in bytes.
        python: that of all other processes together. Pages that forked workers share count for each of them, so this
            is an upper bound.
    """

    def __init__(self, root: int, seconds: float = 0.1) -> None:
        self._root = root
        self._seconds = seconds
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._before: dict[tuple[int, int], float] = {}
        self._last: dict[tuple[int, int], float] = {}
        self.cpu = 0.0
        self.java = 0
        self.python = 0

    def __enter__(self) -> Usage:
        self._before = self._sample()
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        self._thread.join()
        self._sample()
        self.cpu = sum(spent - self._before.get(process, 0.0) for process, spent in self._last.items())

    def _watch(self) -> None:
        while not self._done.wait(self._seconds):
            self._sample()

    def _sample(self) -> dict[tuple[int, int], float]:
        members = tree(self._root)
        self.java = max(self.java, sum(p.resident for p in members if p.java))
        self.python = max(self.python, sum(p.resident for p in members if not p.java))
        found = {(p.pid, p.started): p.own for p in members}
        self._last |= found
        return found

"""Fault injection for stores; the failing operation and the kind of failure are chosen by number or by a seed.

`FaultFileIO` wraps any FileIO. Operations are numbered, and a schedule decides which of them fail and how.
`Mode.CRASH_*` simulates a crash of the process: afterwards no operation has an effect, so no cleanup can run.
"""

from __future__ import annotations

import errno
import io
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from random import Random
from typing import ClassVar, Protocol, TypeVar

import pyarrow as pa

from paimon_spark.errors import OutcomeUnknownError
from paimon_spark.fs.base import FileIO, FileStatus
from paimon_spark.fs.resolve import register

_T = TypeVar("_T")
Statuses = list[FileStatus]
_SLOW_SECONDS = 0.002


class Mode(StrEnum):
    """How an operation fails."""

    BEFORE = "error before the effect"
    AFTER = "error after the effect"
    UNKNOWN_BEFORE = "unknown outcome, no effect"
    UNKNOWN_AFTER = "unknown outcome, with effect"
    LOST_ACK = "returns false although it had its effect"
    PARTIAL = "half of the bytes, then an error"
    CRASH_BEFORE = "the process dies before the effect"
    CRASH_AFTER = "the process dies after the effect"
    CRASH_PARTIAL = "the process dies after half of the bytes"
    STALE = "a listing without the last changes"
    SLOW = "slow"


WRITES = frozenset(
    {
        "write",
        "create_exclusive",
        "output",
        "close_output",
        "delete",
        "delete_dir",
        "delete_empty_dir",
        "rename",
        "mkdirs",
    }
)
"""Operations that change the store; opening a file for writing counts as `output`."""
_EXCLUSIVE = frozenset({"create_exclusive", "rename"})
_CONTENT = frozenset({"output", "write", "create_exclusive"})
_LISTS = frozenset({"list", "list_recursive"})
_APPLIES: Mapping[Mode, frozenset[str]] = {
    Mode.AFTER: WRITES,
    Mode.UNKNOWN_BEFORE: frozenset({"create_exclusive"}),
    Mode.UNKNOWN_AFTER: frozenset({"create_exclusive"}),
    Mode.LOST_ACK: _EXCLUSIVE,
    Mode.PARTIAL: _CONTENT,
    Mode.CRASH_PARTIAL: _CONTENT,
    Mode.CRASH_BEFORE: WRITES,
    Mode.CRASH_AFTER: WRITES,
    Mode.STALE: _LISTS,
}
"""Operations that a mode applies to; modes that are not listed apply to all."""
CRASHES = frozenset({Mode.CRASH_BEFORE, Mode.CRASH_AFTER, Mode.CRASH_PARTIAL})


class InjectedFaultError(OSError):
    """The error of an injected fault."""

    def __init__(self, what: str) -> None:
        super().__init__(errno.EIO, f"injected: {what}")


class Schedule(Protocol):
    """Decides which operations fail."""

    def choose(self, operation: str, path: str) -> Mode | None:
        """Return how the next operation fails, or None."""
        ...


class Never:
    """A schedule without failures."""

    def choose(self, operation: str, path: str) -> Mode | None:
        """Return None."""
        return None


class Nth:
    """A schedule in which the nth operation that the mode applies to fails, and no other."""

    def __init__(self, n: int, mode: Mode) -> None:
        self.left = n
        self.mode = mode
        self.fired: str | None = None

    def choose(self, operation: str, path: str) -> Mode | None:
        """Count the operation; return the mode if it is the nth."""
        if not applies(self.mode, operation):
            return None
        self.left -= 1
        if self.left != 0:
            return None
        self.fired = f"{operation} {path}"
        return self.mode


class Recorder:
    """A schedule without failures that records all operations."""

    def __init__(self) -> None:
        self.log: list[tuple[str, str]] = []

    def choose(self, operation: str, path: str) -> Mode | None:
        """Record the operation; return None."""
        self.log.append((operation, path))
        return None


class Seeded:
    """A schedule in which each operation fails with a probability, in a random mode, reproducible by the seed."""

    def __init__(self, seed: int, rate: float, modes: Sequence[Mode]) -> None:
        self._random = Random(seed)
        self._rate = rate
        self._modes = tuple(modes)

    def choose(self, operation: str, path: str) -> Mode | None:
        """Return a random mode that applies to the operation, or None."""
        possible = [m for m in self._modes if applies(m, operation)]
        if self._random.random() >= self._rate or not possible:
            return None
        return self._random.choice(possible)


def applies(mode: Mode, operation: str) -> bool:
    """Return whether a mode applies to an operation."""
    return operation in _APPLIES.get(mode, (operation,))


class FaultFileIO:
    """A FileIO that injects faults according to a schedule.

    Args:
        inner: the wrapped store.
        schedule: decides which operations fail; none by default. It may be replaced at any time.
        watch: called after each effect with the operation and its path, to check what readers see at that moment.
    """

    _alive: ClassVar[weakref.WeakValueDictionary[str, FaultFileIO]] = weakref.WeakValueDictionary()

    def __init__(
        self,
        inner: FileIO,
        schedule: Schedule | None = None,
        watch: Callable[[str, str], None] | None = None,
    ) -> None:
        self.inner = inner
        self.schedule: Schedule = schedule or Never()
        self.watch = watch
        self.crashed = False
        self.name = uuid.uuid4().hex
        self._recent: dict[str, FileStatus | None] = {}
        self._lock = threading.RLock()
        self._alive[self.name] = self

    @classmethod
    def named(cls, name: str) -> FaultFileIO:
        """Return the existing store of that name in this process."""
        return cls._alive[name]

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by name."""
        return (FaultFileIO.named, (self.name,))

    @property
    def preferred_read_bytes(self) -> int:
        return self.inner.preferred_read_bytes

    @property
    def exclusive_create(self) -> bool:
        """Return the value of the wrapped store."""
        return self.inner.exclusive_create

    def to_config(self) -> Mapping[str, str]:
        """Return the name of the store, which is valid in this process only."""
        return {"scheme": "fault", "name": self.name}

    # ---- reading

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        return self._run("read", path, lambda: self.inner.read(path))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Return a range of the content."""
        return self._run("read_range", path, lambda: self.inner.read_range(path, offset, length))

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for random access."""
        return self._run("open_input", path, lambda: self.inner.open_input(path))

    def exists(self, path: str) -> bool:
        """Return whether a file or directory exists."""
        return self._run("exists", path, lambda: self.inner.exists(path))

    def status(self, path: str) -> FileStatus:
        """Return the metadata of a path."""
        return self._run("status", path, lambda: self.inner.status(path))

    def list(self, path: str) -> Statuses:
        """Return the entries of a directory; a stale listing may miss recent changes."""
        found, mode = self._listing("list", path, lambda: self.inner.list(path))
        if mode is not Mode.STALE:
            return found
        base = path.rstrip("/")
        return self._as_before(found, lambda p: p.rpartition("/")[0] == base)

    def list_recursive(self, path: str) -> Iterator[FileStatus]:
        """Yield all files below a directory; a stale listing may miss recent changes."""
        found, mode = self._listing("list_recursive", path, lambda: [*self.inner.list_recursive(path)])
        if mode is Mode.STALE:
            found = self._as_before(found, lambda p: p.startswith(path.rstrip("/") + "/"))
        yield from found

    # ---- writing

    def write(self, path: str, data: bytes, overwrite: bool = True) -> None:  # noqa: FBT001, FBT002
        """Write a whole file; a partial write affects only a temporary file."""
        self.remember(path)
        self._run(
            "write", path, lambda: self.inner.write(path, data, overwrite), partial=lambda: self._half(path, data)
        )

    def sync(self, paths: Sequence[str]) -> None:
        """Make files durable."""
        self._run("sync", paths[0] if paths else "", lambda: self.inner.sync(paths))

    def create_exclusive(self, path: str, data: bytes) -> bool:
        """Create a file unless it exists; a partial write affects only a temporary file."""
        self.remember(path)
        return self._run(
            "create_exclusive",
            path,
            lambda: self.inner.create_exclusive(path, data),
            partial=lambda: self._half(path, data),
            lost=False,
        )

    def open_output(self, path: str) -> pa.NativeFile:
        """Open a new file for writing; its writes and its close may fail too."""
        out = self._run("output", path, lambda: self.inner.open_output(path))
        return pa.PythonFile(_Output(self, path, out), mode="w")

    def delete(self, path: str) -> bool:
        """Delete one file."""
        self.remember(path)
        return self._run("delete", path, lambda: self.inner.delete(path))

    def delete_dir(self, path: str) -> None:
        """Delete a directory and its content."""
        self._run("delete_dir", path, lambda: self.inner.delete_dir(path))

    def delete_empty_dir(self, path: str) -> bool:
        """Delete a directory if it is empty."""
        return self._run("delete_empty_dir", path, lambda: self.inner.delete_empty_dir(path))

    def rename(self, source: str, target: str) -> bool:
        """Rename a file or directory."""
        return self._run("rename", target, lambda: self.inner.rename(source, target), lost=False)

    def mkdirs(self, path: str) -> None:
        """Create a directory and its parents."""
        self._run("mkdirs", path, lambda: self.inner.mkdirs(path))

    # ---- helpers

    def _run(
        self,
        operation: str,
        path: str,
        effect: Callable[[], _T],
        *,
        partial: Callable[[], object] | None = None,
        lost: _T | None = None,
    ) -> _T:
        mode = self._choose(operation, path)
        if mode is Mode.SLOW:
            time.sleep(_SLOW_SECONDS)
        if mode in (None, Mode.SLOW, Mode.STALE):
            return self._affect(operation, path, effect)
        if mode in (Mode.AFTER, Mode.UNKNOWN_AFTER, Mode.LOST_ACK, Mode.CRASH_AFTER):
            self._affect(operation, path, effect)
        if mode in (Mode.PARTIAL, Mode.CRASH_PARTIAL) and partial is not None:
            partial()
        if mode is Mode.LOST_ACK and lost is not None:
            return lost
        self.fail(mode, operation)
        raise AssertionError

    def _choose(self, operation: str, path: str) -> Mode | None:
        with self._lock:
            if self.crashed:
                raise InjectedFaultError("the process is dead")
            mode = self.schedule.choose(operation, path)
            if mode in CRASHES:
                self.crashed = True
            return mode

    def _affect(self, operation: str, path: str, effect: Callable[[], _T]) -> _T:
        done = effect()
        if self.watch is not None and operation in WRITES:
            with self._lock:
                self.watch(operation, path)
        return done

    def fail(self, mode: Mode | None, operation: str) -> None:
        """Raise the error of a mode."""
        if mode in (Mode.UNKNOWN_AFTER, Mode.UNKNOWN_BEFORE):
            raise OutcomeUnknownError(f"injected: {mode}")
        raise InjectedFaultError(f"{operation}: {mode}")

    def _half(self, path: str, data: bytes) -> None:
        parent, _, name = path.rpartition("/")
        self.inner.write(f"{parent}/.{name}.{uuid.uuid4()}.tmp", data[: len(data) // 2])

    def _listing(self, operation: str, path: str, effect: Callable[[], Statuses]) -> tuple[Statuses, Mode | None]:
        mode = self._choose(operation, path)
        if mode not in (None, Mode.SLOW, Mode.STALE):
            self.fail(mode, operation)
        return effect(), mode

    def _as_before(self, found: Statuses, inside: Callable[[str], bool]) -> Statuses:
        with self._lock:
            recent = {p: s for p, s in self._recent.items() if inside(p)}
        kept = [s for s in found if s.path not in recent]
        return sorted([*kept, *(s for s in recent.values() if s is not None)], key=lambda s: s.path)

    def settle(self) -> None:
        """Let stale listings show everything done so far."""
        with self._lock:
            self._recent.clear()

    def remember(self, path: str) -> None:
        """Record the state of a path before its first change, for stale listings."""
        with self._lock:
            if path not in self._recent:
                try:
                    self._recent[path] = self.inner.status(path)
                except FileNotFoundError:
                    self._recent[path] = None

    def wrote(self, path: str, data: bytes, out: pa.NativeFile) -> None:
        """Write part of an output, or fail after half of it."""
        mode = self._choose("output", path)
        if mode is None or mode is Mode.SLOW:
            out.write(data)
            return
        if mode is not Mode.BEFORE and mode is not Mode.CRASH_BEFORE:
            out.write(data if mode in (Mode.AFTER, Mode.CRASH_AFTER) else data[: len(data) // 2])
        if mode in CRASHES:
            out.close()
        self.fail(mode, "output")

    def closed(self, path: str, out: pa.NativeFile) -> None:
        """Close an output, or fail before or after that."""
        self.remember(path)
        self._run("close_output", path, out.close)


class _Output(io.RawIOBase):
    """The output stream of a file with injected faults."""

    def __init__(self, store: FaultFileIO, path: str, out: pa.NativeFile) -> None:
        super().__init__()
        self._store, self._path, self._out = store, path, out
        self._at = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: object) -> int:
        content = bytes(data)  # type: ignore[call-overload]
        self._store.wrote(self._path, content, self._out)
        self._at += len(content)
        return len(content)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._store.closed(self._path, self._out)


register("fault", lambda config: FaultFileIO.named(config["name"]))

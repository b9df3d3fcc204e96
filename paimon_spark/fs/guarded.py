"""A FileIO that asks a guard before every operation, so that no code path can leave a check out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from paimon_spark.fs.base import FileIO, FileStatus


class Guard(Protocol):
    """Decides about operations on paths by raising an error. Picklable."""

    def check_read(self, path: str) -> None:
        """Return if the path may be read or listed."""
        ...

    def check_change(self, path: str) -> None:
        """Return if the path may be written, renamed or deleted."""
        ...


@dataclass(frozen=True, slots=True)
class GuardedFileIO:
    """The operations of `inner`, after the check of the guard.

    Tasks on other machines get `inner`: whoever plans them has been checked.
    """

    inner: FileIO
    guard: Guard

    @property
    def preferred_read_bytes(self) -> int:
        """Return the optimal request size for piecewise reads."""
        return self.inner.preferred_read_bytes

    @property
    def exclusive_create(self) -> bool:
        """Return True if `create_exclusive` is atomic among all processes that use the store."""
        return self.inner.exclusive_create

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        self.guard.check_read(path)
        return self.inner.read(path)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`; fewer at the end of the file."""
        self.guard.check_read(path)
        return self.inner.read_range(path, offset, length)

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for random access."""
        self.guard.check_read(path)
        return self.inner.open_input(path)

    def open_output(self, path: str) -> pa.NativeFile:
        """Open a new file for sequential writing, replacing an existing one."""
        self.guard.check_change(path)
        return self.inner.open_output(path)

    def write(self, path: str, data: bytes, overwrite: bool = True) -> None:  # noqa: FBT001, FBT002
        """Write a whole file atomically."""
        self.guard.check_change(path)
        self.inner.write(path, data, overwrite)

    def sync(self, paths: Sequence[str]) -> None:
        """Return when the content and names of written files survive a loss of power."""
        self.inner.sync(paths)

    def create_exclusive(self, path: str, data: bytes) -> bool:
        """Create `path` unless it exists; return whether this call created it."""
        self.guard.check_change(path)
        return self.inner.create_exclusive(path, data)

    def exists(self, path: str) -> bool:
        """Return whether a file or directory exists."""
        self.guard.check_read(path)
        return self.inner.exists(path)

    def status(self, path: str) -> FileStatus:
        """Return the metadata of a file or directory."""
        self.guard.check_read(path)
        return self.inner.status(path)

    def list(self, path: str) -> list[FileStatus]:
        """Return the entries of a directory, sorted by path; empty if it does not exist."""
        self.guard.check_read(path)
        return self.inner.list(path)

    def list_recursive(self, path: str) -> Iterator[FileStatus]:
        """Yield all files (no directories) below a directory; nothing if it does not exist."""
        self.guard.check_read(path)
        return self.inner.list_recursive(path)

    def delete(self, path: str) -> bool:
        """Delete one file; return False if it did not exist."""
        self.guard.check_change(path)
        return self.inner.delete(path)

    def delete_dir(self, path: str) -> None:
        """Delete a directory and its content; do nothing if it does not exist."""
        self.guard.check_change(path)
        self.inner.delete_dir(path)

    def delete_empty_dir(self, path: str) -> bool:
        """Delete a directory if it is empty; return False without changes if it is not empty or does not exist."""
        self.guard.check_change(path)
        return self.inner.delete_empty_dir(path)

    def rename(self, source: str, target: str) -> bool:
        """Rename a file or directory; return False without changes if the target exists."""
        self.guard.check_change(source)
        self.guard.check_change(target)
        return self.inner.rename(source, target)

    def mkdirs(self, path: str) -> None:
        """Create a directory and its parents; do nothing if it exists."""
        self.guard.check_change(path)
        self.inner.mkdirs(path)

    def to_config(self) -> Mapping[str, str]:
        """Return the configuration of `inner`."""
        return self.inner.to_config()


def unguarded(file_io: FileIO) -> FileIO:
    """Return the store behind a guard, for a look at its kind and its settings."""
    return file_io.inner if isinstance(file_io, GuardedFileIO) else file_io

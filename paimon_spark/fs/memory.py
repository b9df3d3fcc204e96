"""An in-memory store for tests and fault trials."""

from __future__ import annotations

import errno
import io
import os
import threading
import time
import uuid
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import pyarrow as pa

from paimon_spark.fs.base import PIECE_BYTES, FileStatus

_File = tuple[bytes, int]


class InMemoryFileIO:
    """FileIO of a dictionary. Within one process, a pickled copy accesses the same files."""

    _stores: ClassVar[weakref.WeakValueDictionary[str, InMemoryFileIO]] = weakref.WeakValueDictionary()

    def __init__(self, name: str | None = None) -> None:
        self.name = name or uuid.uuid4().hex
        self._files: dict[str, _File] = {}
        self._dirs: set[str] = set()
        self._lock = threading.RLock()
        self._stores[self.name] = self

    @classmethod
    def named(cls, name: str) -> InMemoryFileIO:
        """Return the store of that name in this process, created on first use."""
        found = cls._stores.get(name)
        return found if found is not None else cls(name)

    def fork(self) -> InMemoryFileIO:
        """Return an independent copy of the store."""
        other = InMemoryFileIO()
        with self._lock:
            other._files, other._dirs = dict(self._files), set(self._dirs)
        return other

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by name."""
        return (InMemoryFileIO.named, (self.name,))

    @property
    def preferred_read_bytes(self) -> int:
        """Return the optimal request size for piecewise reads."""
        return PIECE_BYTES

    @property
    def exclusive_create(self) -> bool:
        """Return True: the store has a single lock."""
        return True

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        with self._lock:
            found = self._files.get(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return found[0]

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`; fewer at the end of the file."""
        return self.read(path)[offset : offset + length]

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for random access."""
        return pa.BufferReader(self.read(path))

    def open_output(self, path: str) -> pa.NativeFile:
        """Open a new file for sequential writing; it becomes visible when it is closed."""
        return pa.PythonFile(_Output(self, path), mode="w")

    def write(self, path: str, data: bytes, overwrite: bool = True) -> None:  # noqa: FBT001, FBT002
        """Write a whole file atomically."""
        with self._lock:
            if not overwrite and path in self._files:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            if path in self._dirs:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            self._files[path] = (bytes(data), time.time_ns() // 1_000_000)
            self.mkdirs(_parent(path))

    def sync(self, paths: Sequence[str]) -> None:
        """Do nothing: there is nothing that outlives the process."""

    def create_exclusive(self, path: str, data: bytes) -> bool:
        """Create `path` unless it exists."""
        with self._lock:
            if path in self._files:
                return False
            self.write(path, data)
            return True

    def exists(self, path: str) -> bool:
        """Return whether a file or directory exists."""
        with self._lock:
            return path in self._files or path.rstrip("/") in self._dirs

    def status(self, path: str) -> FileStatus:
        """Return the metadata of a file or directory."""
        with self._lock:
            if path in self._files:
                data, mtime = self._files[path]
                return FileStatus(path, len(data), mtime, is_dir=False)
            if path.rstrip("/") in self._dirs:
                return FileStatus(path, 0, 0, is_dir=True)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def list(self, path: str) -> list[FileStatus]:
        """Return the entries of a directory, sorted by path."""
        base = path.rstrip("/")
        with self._lock:
            inside = [p for p in (*self._files, *self._dirs) if _parent(p) == base and p != base]
            return [self.status(p) for p in sorted(inside)]

    def list_recursive(self, path: str) -> Iterator[FileStatus]:
        """Yield all files below a directory."""
        prefix = path.rstrip("/") + "/"
        with self._lock:
            found = [self.status(p) for p in sorted(self._files) if p.startswith(prefix)]
        yield from found

    def delete(self, path: str) -> bool:
        """Delete one file; return False if it did not exist."""
        with self._lock:
            if path in self._dirs:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            return self._files.pop(path, None) is not None

    def delete_dir(self, path: str) -> None:
        """Delete a directory and its content."""
        base = path.rstrip("/")
        with self._lock:
            self._files = {p: f for p, f in self._files.items() if not p.startswith(base + "/")}
            self._dirs = {p for p in self._dirs if p != base and not p.startswith(base + "/")}

    def delete_empty_dir(self, path: str) -> bool:
        """Delete a directory if it is empty."""
        base = path.rstrip("/")
        with self._lock:
            if base not in self._dirs or any(_parent(p) == base for p in (*self._files, *self._dirs)):
                return False
            self._dirs.discard(base)
            return True

    def rename(self, source: str, target: str) -> bool:
        """Rename a file or directory unless the target exists."""
        old, new = source.rstrip("/"), target.rstrip("/")
        with self._lock:
            self.status(old)
            if self.exists(new):
                return False
            self._files = {_moved(p, old, new): f for p, f in self._files.items()}
            self._dirs = {_moved(p, old, new) for p in self._dirs}
            self.mkdirs(_parent(new))
            return True

    def mkdirs(self, path: str) -> None:
        """Create a directory and its parents."""
        with self._lock:
            part = path.rstrip("/")
            while part and part not in self._dirs:
                self._dirs.add(part)
                part = _parent(part)

    def to_config(self) -> Mapping[str, str]:
        """Return the name of the store, which is valid in this process only."""
        return {"scheme": "memory", "name": self.name}


class _Output(io.BytesIO):
    """A buffer that stores its content as a file when it is closed."""

    def __init__(self, store: InMemoryFileIO, path: str) -> None:
        super().__init__()
        self._store = store
        self._path = path

    def close(self) -> None:
        if not self.closed:
            self._store.write(self._path, self.getvalue())
        super().close()


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _moved(path: str, old: str, new: str) -> str:
    return new + path[len(old) :] if path == old or path.startswith(old + "/") else path

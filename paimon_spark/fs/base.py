"""The FileIO protocol: what the table requires of a store.

Paths are strings in the table's notation (`/warehouse/db.db/t` or `file:/warehouse/db.db/t`); results use the same
notation. A missing file raises the built-in FileNotFoundError; callers translate it into an error of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

PIECE_BYTES = 256 << 10
"""Read size at which a local store reaches full throughput."""


@dataclass(frozen=True, slots=True)
class FileStatus:
    """Metadata of a path; `mtime_ms` is in epoch milliseconds.

    A symbolic link has the metadata of its target; `is_link` is set for links.
    """

    path: str
    size: int
    mtime_ms: int
    is_dir: bool
    is_link: bool = False

    @property
    def name(self) -> str:
        """Return the last component of the path."""
        return self.path.rstrip("/").rsplit("/", 1)[-1]


class FileIO(Protocol):
    """File access of one store. Thread-safe and picklable.

    Writes create missing parent directories. A file is never visible under its final name with partial content, except
    through `open_output`, whose files are not referenced before they are closed.
    """

    @property
    def preferred_read_bytes(self) -> int:
        """Return the optimal request size for piecewise reads."""
        ...

    @property
    def exclusive_create(self) -> bool:
        """Return True if `create_exclusive` is atomic among all processes that use the store."""
        ...

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        ...

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`; fewer at the end of the file."""
        ...

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for random access."""
        ...

    def open_output(self, path: str) -> pa.NativeFile:
        """Open a new file for sequential writing, replacing an existing one."""
        ...

    def write(self, path: str, data: bytes, overwrite: bool = True) -> None:  # noqa: FBT001, FBT002
        """Write a whole file atomically.

        Raises:
            FileExistsError: the file exists and `overwrite` is false.
        """
        ...

    def sync(self, paths: Sequence[str]) -> None:
        """Return when the content and names of written files survive a loss of power.

        A store that acknowledges only what is durable does nothing. `create_exclusive` needs no call.
        """
        ...

    def create_exclusive(self, path: str, data: bytes) -> bool:
        """Create `path` unless it exists; return whether this call created it.

        Raises:
            OutcomeUnknownError: the request failed, and reading back did not resolve the outcome.
        """
        ...

    def exists(self, path: str) -> bool:
        """Return whether a file or directory exists."""
        ...

    def status(self, path: str) -> FileStatus:
        """Return the metadata of a file or directory."""
        ...

    def list(self, path: str) -> list[FileStatus]:
        """Return the entries of a directory, sorted by path; empty if it does not exist."""
        ...

    def list_recursive(self, path: str) -> Iterator[FileStatus]:
        """Yield all files (no directories) below a directory; nothing if it does not exist."""
        ...

    def delete(self, path: str) -> bool:
        """Delete one file; return False if it did not exist."""
        ...

    def delete_dir(self, path: str) -> None:
        """Delete a directory and its content; do nothing if it does not exist."""
        ...

    def delete_empty_dir(self, path: str) -> bool:
        """Delete a directory if it is empty; return False without changes if it is not empty or does not exist.

        A store without real directories always returns False.
        """
        ...

    def rename(self, source: str, target: str) -> bool:
        """Rename a file or directory; return False without changes if the target exists."""
        ...

    def mkdirs(self, path: str) -> None:
        """Create a directory and its parents; do nothing if it exists."""
        ...

    def to_config(self) -> Mapping[str, str]:
        """Return the configuration for `fs.resolve.file_io_from_config` to rebuild the FileIO in another process."""
        ...

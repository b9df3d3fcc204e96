"""What the table needs from a store: one small protocol.

A path is a text in the spelling of the table (`/warehouse/db.db/t` or `file:/warehouse/db.db/t`); answers use the same
spelling. A file that is not there raises the built-in FileNotFoundError; callers, who know what the file was for, turn
it into an error of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

PIECE_BYTES = 256 << 10
"""What a store close by gives at once without a loss of speed."""


@dataclass(frozen=True, slots=True)
class FileStatus:
    """What a store knows of a path without opening it; `mtime_ms` is in epoch milliseconds.

    A link is what it points to; `is_link` tells that there is one, where the store has links.
    """

    path: str
    size: int
    mtime_ms: int
    is_dir: bool
    is_link: bool = False

    @property
    def name(self) -> str:
        """Return the last part of the path."""
        return self.path.rstrip("/").rsplit("/", 1)[-1]


class FileIO(Protocol):
    """Bytes in and out of one store. Safe to share between threads; can be pickled.

    Writing methods create missing parent directories. Nothing is ever visible under its final name with partial
    content, except through `open_output`, whose files nobody refers to before they are closed.
    """

    @property
    def preferred_read_bytes(self) -> int:
        """Return how many bytes are best asked for at once where a file is read piece by piece."""
        ...

    @property
    def exclusive_create(self) -> bool:
        """Return True if `create_exclusive` is atomic among all processes that use the store."""
        ...

    def read(self, path: str) -> bytes:
        """Return the whole content."""
        ...

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`; fewer where the file ends before."""
        ...

    def open_input(self, path: str) -> pa.NativeFile:
        """Open for random access."""
        ...

    def open_output(self, path: str) -> pa.NativeFile:
        """Open a new file for sequential writing, replacing one of that name."""
        ...

    def write(self, path: str, data: bytes, overwrite: bool = True) -> None:  # noqa: FBT001, FBT002
        """Write a whole file in one step.

        Raises:
            FileExistsError: the file exists and `overwrite` is false.
        """
        ...

    def create_exclusive(self, path: str, data: bytes) -> bool:
        """Create `path` unless it exists; return whether this call created it.

        Raises:
            OutcomeUnknownError: the store failed and re-reading could not tell either.
        """
        ...

    def exists(self, path: str) -> bool:
        """Return whether a file or directory is there."""
        ...

    def status(self, path: str) -> FileStatus:
        """Return what is known of a file or directory."""
        ...

    def list(self, path: str) -> list[FileStatus]:
        """Return what is directly inside a directory, sorted by path; nothing if it is missing."""
        ...

    def list_recursive(self, path: str) -> Iterator[FileStatus]:
        """Yield all files (no directories) below a directory; nothing if it is missing."""
        ...

    def delete(self, path: str) -> bool:
        """Delete one file; return False if it was not there."""
        ...

    def delete_dir(self, path: str) -> None:
        """Delete a directory and all that is in it; a missing one is fine."""
        ...

    def delete_empty_dir(self, path: str) -> bool:
        """Delete a directory if nothing is in it; return False, and change nothing, if something is or it is missing.

        A store that has no directories of their own always returns False.
        """
        ...

    def rename(self, source: str, target: str) -> bool:
        """Rename a file or directory; return False, and change nothing, if the target exists."""
        ...

    def mkdirs(self, path: str) -> None:
        """Create a directory and its parents; an existing one is fine."""
        ...

    def to_config(self) -> Mapping[str, str]:
        """Return what `fs.resolve.file_io_from_config` needs to build an equal one in another process."""
        ...

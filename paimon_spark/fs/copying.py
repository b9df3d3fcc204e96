"""Copies of files, within a store or from one to another."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from paimon_spark.fs.base import FileIO
from paimon_spark.fs.guarded import GuardedFileIO, unguarded
from paimon_spark.fs.local import LocalFileIO, local_path

_PIECE = 8 << 20
_NOT_LINKED = (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)


def copy_file(source: FileIO, path: str, target: FileIO, new_path: str) -> int:
    """Copy a file piece by piece, replacing an existing one; return its size in bytes."""
    size = 0
    with source.open_input(path) as given, target.open_output(new_path) as taken:
        while piece := given.read(_PIECE):
            taken.write(piece)
            size += len(piece)
    return size


def link_or_copy(source: FileIO, path: str, target: FileIO, new_path: str) -> None:
    """Hard-link an immutable file within one local file system, or copy it.

    An existing target of the same size is that of an earlier attempt of the same task, and is kept; one of another size
    was left by a failed attempt.

    Raises:
        FileNotFoundError: there is no such file.
    """
    if _size(target, new_path) == source.status(path).size:
        return
    if not _linked(source, path, target, new_path):
        copy_file(source, path, target, new_path)


def link_within(file_io: FileIO, path: str, new_path: str) -> bool:
    """Hard-link an immutable file within one local file system; return whether the store can do so."""
    if isinstance(file_io, GuardedFileIO):
        file_io.guard.check_change(new_path)
    store = unguarded(file_io)
    return _linked(store, path, store, new_path)


def _linked(source: FileIO, path: str, target: FileIO, new_path: str) -> bool:
    if not (isinstance(source, LocalFileIO) and isinstance(target, LocalFileIO)):
        return False
    new = Path(local_path(new_path))
    new.parent.mkdir(parents=True, exist_ok=True)
    new.unlink(missing_ok=True)
    try:
        new.hardlink_to(local_path(path))
        os.utime(new)  # a link has the age of its file, but only a low age protects a file that is not committed yet
    except OSError as e:
        if e.errno not in _NOT_LINKED:
            raise
        return False
    return True


def sync_below(file_io: FileIO, root: str, paths: Sequence[str]) -> None:
    """Return when new files, and the directories between them and `root`, survive a loss of power."""
    root = root.rstrip("/")
    file_io.sync(paths)
    directories = {path.rpartition("/")[0] for path in paths}
    while inner := sorted(d for d in directories if d == root or d.startswith(f"{root}/")):
        file_io.sync(inner)
        directories = {d.rpartition("/")[0] for d in inner}


def _size(file_io: FileIO, path: str) -> int | None:
    """Return the size of a file, or None if it does not exist."""
    try:
        return file_io.status(path).size
    except FileNotFoundError:
        return None

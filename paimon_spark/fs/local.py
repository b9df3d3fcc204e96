"""The local file system, including shared mounts."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from paimon_spark.errors import ErrorKind, OutcomeUnknownError, UnsupportedError
from paimon_spark.fs.base import PIECE_BYTES, FileStatus
from paimon_spark.fs.refusals import refusal

_T = TypeVar("_T")
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}
_NEVER_LINKED = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM}
"""Errors of the file system itself, even over a network: the request was received and had no effect."""
_NOT_EMPTY = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR}
_OPENINGS = 8
"""How often a parent directory is created again if another process removes it while it is still empty."""
_TEMP_NAME_BYTES = 200
_SYNCING_THREADS = 4
_AT_FDCWD = -100
_RENAME_NOREPLACE = 1


def local_path(path: str) -> str:
    """Return the path for the operating system: the `file:` scheme is removed, percent signs are kept."""
    if path.startswith("file://"):
        return "/" + path[7:].lstrip("/")
    return path.removeprefix("file:")


@dataclass(frozen=True, slots=True)
class LocalFileIO:
    """FileIO of the operating system's files."""

    @property
    def preferred_read_bytes(self) -> int:
        """Return the optimal request size for piecewise reads."""
        return PIECE_BYTES

    @property
    def exclusive_create(self) -> bool:
        """Return True: in the kernel, a hard link to an existing name fails."""
        return True

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        return Path(local_path(path)).read_bytes()

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`; fewer at the end of the file."""
        with Path(local_path(path)).open("rb") as f:
            f.seek(offset)
            return f.read(length)

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for random access."""
        return pa.OSFile(local_path(path), "rb")

    def open_output(self, path: str) -> pa.NativeFile:
        """Open a new file for sequential writing, replacing an existing one."""
        target = Path(local_path(path))
        return _in_parent(target, lambda: pa.OSFile(str(target), "wb"))

    def write(self, path: str, data: bytes, overwrite: bool = True) -> None:  # noqa: FBT001, FBT002
        """Write a whole file atomically."""
        if not overwrite:
            if not self.create_exclusive(path, data):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            return
        target = Path(local_path(path))
        temp = _write_temp(target, data, durable=False)
        try:
            temp.replace(target)
        except OSError:
            _discard(temp)
            raise

    def sync(self, paths: Sequence[str]) -> None:
        """Synchronise the files, all at once so that they share a flush of the journal, then their directories."""
        files = [Path(local_path(p)) for p in paths]
        for group in (files, list({f.parent for f in files})):
            _sync_all(group)

    def create_exclusive(self, path: str, data: bytes) -> bool:
        """Create `path` unless it exists: hidden temporary file, fsync, hard link to the final name.

        Raises:
            StoreError: the file system rejected the request; nothing was created.
            OSError: the request failed after the file may have been created.
        """
        target = Path(local_path(path))
        try:
            temp = _write_temp(target, data, durable=True)
        except OSError as e:
            raise refusal(e, path) from e
        try:
            created = _publish(temp, target)
        except OSError as e:
            if e.errno in _NEVER_LINKED:
                raise refusal(e, path) from e
            raise
        finally:
            _discard(temp)
        if created:
            _sync(target.parent)
        return created

    def exists(self, path: str) -> bool:
        """Return whether a file or directory exists."""
        return os.path.exists(local_path(path))  # noqa: PTH110 - Path.exists raises for names that are too long

    def status(self, path: str) -> FileStatus:
        """Return the metadata of a file or directory."""
        target = Path(local_path(path))
        found = target.stat()
        is_dir = bool(found.st_mode & 0o040000)
        size, mtime = 0 if is_dir else found.st_size, found.st_mtime_ns // 1_000_000
        return FileStatus(path, size, mtime, is_dir, target.is_symlink())

    def list(self, path: str) -> list[FileStatus]:
        """Return the entries of a directory, sorted by path."""
        base = path.rstrip("/")
        try:
            with os.scandir(local_path(path)) as entries:
                found = [_entry_status(base, e) for e in entries]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as e:
            if e.errno == errno.ENAMETOOLONG:
                return []
            raise
        return sorted((s for s in found if s is not None), key=lambda s: s.path)

    def list_recursive(self, path: str) -> Iterator[FileStatus]:
        """Yield all files below a directory; links to other directories are not followed."""
        for status in self.list(path):
            if not status.is_dir:
                yield status
            elif not status.is_link:
                yield from self.list_recursive(status.path)

    def delete(self, path: str) -> bool:
        """Delete one file; return False if it did not exist."""
        try:
            Path(local_path(path)).unlink()
        except FileNotFoundError:
            return False
        return True

    def delete_dir(self, path: str) -> None:
        """Delete a directory and its content; for a symbolic link, only the link."""
        target = Path(local_path(path.rstrip("/") or "/"))
        try:
            if target.is_symlink():
                target.unlink()
            else:
                shutil.rmtree(target)
        except FileNotFoundError:
            return

    def delete_empty_dir(self, path: str) -> bool:
        """Delete a directory if it is empty."""
        try:
            Path(local_path(path)).rmdir()
        except OSError as e:
            if e.errno in _NOT_EMPTY:
                return False
            raise
        return True

    def rename(self, source: str, target: str) -> bool:
        """Rename a file or directory unless the target exists."""
        old, new = local_path(source), Path(local_path(target))
        new.parent.mkdir(parents=True, exist_ok=True)
        code = _rename_noreplace(old, str(new))
        if code in (errno.EEXIST, errno.ENOTEMPTY):
            return False
        if code == 0:
            return True
        if code not in (errno.ENOSYS, errno.EINVAL):
            raise OSError(code, os.strerror(code), source)
        if new.exists():
            return False
        Path(old).rename(new)
        return True

    def mkdirs(self, path: str) -> None:
        """Create a directory and its parents."""
        Path(local_path(path)).mkdir(parents=True, exist_ok=True)

    def to_config(self) -> Mapping[str, str]:
        """Return the configuration, which has no settings."""
        return {"scheme": "file"}


def _entry_status(base: str, entry: os.DirEntry[str]) -> FileStatus | None:
    try:
        found = entry.stat()
    except FileNotFoundError:
        return None
    is_dir = entry.is_dir()
    size, mtime = 0 if is_dir else found.st_size, found.st_mtime_ns // 1_000_000
    return FileStatus(f"{base}/{entry.name}", size, mtime, is_dir, entry.is_symlink())


def _in_parent(target: Path, create: Callable[[], _T]) -> _T:
    """Create the parent directory of `target` and a file in it; retried if others remove the empty directory."""
    for _ in range(_OPENINGS):
        with contextlib.suppress(FileNotFoundError):
            target.parent.mkdir(parents=True, exist_ok=True)
            return create()
    return create()


def _write_temp(target: Path, data: bytes, *, durable: bool) -> Path:
    temp = target.with_name(f".{_cut(target.name)}.{uuid.uuid4()}.tmp")
    try:
        with _in_parent(target, lambda: temp.open("xb")) as f:
            f.write(data)
            if durable:
                f.flush()
                os.fsync(f.fileno())
    except OSError as e:
        _discard(temp)
        e.filename = e.filename or str(target)
        raise
    return temp


def _discard(temp: Path) -> None:
    """Delete a temporary file, ignoring errors: only the result for the final file matters."""
    with contextlib.suppress(OSError):
        temp.unlink(missing_ok=True)


def _cut(name: str) -> str:
    """Return a name truncated to leave room for the affixes of a temporary name."""
    return os.fsencode(name)[:_TEMP_NAME_BYTES].decode(errors="ignore")


def _publish(temp: Path, target: Path) -> bool:
    """Link `temp` to its final name unless that exists. After an error, comparing inodes resolves the outcome."""
    try:
        os.link(temp, target)
    except OSError as e:
        if e.errno in _NO_HARD_LINKS:
            return _publish_by_rename(temp, target)
        try:
            if target.exists():
                return target.samefile(temp)
        except OSError as again:
            raise _unknown(target) from again
        if e.errno == errno.EEXIST:
            return False
        raise
    return True


def _publish_by_rename(temp: Path, target: Path) -> bool:
    inode = temp.stat().st_ino
    code = _rename_noreplace(str(temp), str(target))
    if code == 0:
        return True
    if code == errno.EEXIST:
        return False
    if code in (errno.ENOSYS, errno.EINVAL):
        raise UnsupportedError(
            f"The file system of '{target.parent}' cannot create a file atomically.",
            hint="Keep the warehouse on a file system with hard links.",
            kind=ErrorKind.UNSUPPORTED_STORE,
        )
    try:
        if target.exists():
            return target.stat().st_ino == inode
    except OSError as again:
        raise _unknown(target) from again
    raise OSError(code, os.strerror(code), str(target))


def _unknown(target: Path) -> OutcomeUnknownError:
    return OutcomeUnknownError(
        f"The store did not report whether '{target}' was created.",
        hint="Check whether it exists before you try again.",
    )


def _rename_noreplace(source: str, target: str) -> int:
    """Rename without replacing, by renameat2; return 0 or an errno (ENOSYS if the call is not available)."""
    libc = ctypes.CDLL(None, use_errno=True)
    call = getattr(libc, "renameat2", None)
    if call is None:
        return errno.ENOSYS
    done = call(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE)
    return 0 if done == 0 else ctypes.get_errno()


def _sync_all(files: Sequence[Path]) -> None:
    """Synchronize files at once; one after the other while the interpreter ends and takes no more work."""
    try:
        waiting = _syncing_threads(os.getpid()).map(_sync, files) if len(files) > 1 else map(_sync, files)
    except RuntimeError:
        waiting = map(_sync, files)
    for _ in waiting:
        pass


@cache
def _syncing_threads(pid: int) -> ThreadPoolExecutor:
    """Return the process-wide threads for disk I/O; starting new ones each time would cost more than they save."""
    return ThreadPoolExecutor(_SYNCING_THREADS, f"paimon-sync-{pid}")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""Metadata file access: reads and exclusive creates with coded errors, and best-effort deletion."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from paimon_spark.errors import (
    CorruptTableError,
    EngineError,
    ErrorKind,
    OutcomeUnknownError,
    PaimonError,
    StoreError,
)
from paimon_spark.fs.base import FileIO
from paimon_spark.fs.refusals import is_full, refusal
from paimon_spark.fs.resolve import scheme_of

THREADS = 8
_AT_ONCE = 1_000
"""So many keys are given to threads at a time: a future takes about a kilobyte."""
_K = TypeVar("_K")
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


@contextmanager
def translate_io_errors() -> Iterator[None]:
    """Translate errors of the file system into engine errors; a context manager and a decorator.

    Raises:
        StoreError: the file system is full; object stores raise StoreError on their own.
        EngineError: the file system failed otherwise.
    """
    try:
        yield
    except PaimonError:
        raise
    except OSError as e:
        if is_full(e):
            raise refusal(e) from e
        where = f" at {e.filename}" if e.filename else ""
        raise EngineError(
            f"The store failed{where}: {e.strerror or e}.",
            hint="Check that the store works and that this user may use it, then run the statement again.",
            kind=ErrorKind.ENVIRONMENT,
        ) from e


def create_once(file_io: FileIO, path: str, data: bytes) -> bool:
    """Create a file unless it exists; return whether it holds `data` now. If the response is lost, read the file back.

    Raises:
        OutcomeUnknownError: the create got no response and the file cannot be read back.
        OSError: the store failed and created nothing.
    """
    failure: OSError | OutcomeUnknownError | None = None
    try:
        if file_io.create_exclusive(path, data):
            return True
    except (OSError, OutcomeUnknownError) as e:
        failure = e
    try:
        return file_io.read(path) == data
    except FileNotFoundError:
        if failure is not None:
            raise failure from None
        return False
    except OSError as e:
        raise OutcomeUnknownError(
            f"The store did not report whether {path} was created, and cannot be queried: {e.strerror or e}.",
            hint="Check whether it exists before you try again.",
        ) from (failure or e)


def delete_best_effort(file_io: FileIO, paths: Iterable[str]) -> None:
    """Delete unreferenced files; failures are only logged, so that they do not hide the original error."""
    for path in paths:
        try:
            file_io.delete(path)
        except (OSError, PaimonError) as e:
            _log.warning("%s is obsolete but cannot be deleted: %s", path, e)


def read_if_there(file_io: FileIO, path: str) -> bytes | None:
    """Return the content of a file, or None if it does not exist.

    Raises:
        CorruptTableError: the path is a directory.
        EngineError: the file system failed.
        StoreError: the object store failed.
    """
    try:
        return file_io.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except IsADirectoryError as e:
        raise CorruptTableError(
            f"{path} is a directory where a file of the table should be.",
            hint="Remove the directory, or restore the file from a backup.",
        ) from e
    except StoreError:
        raise
    except OSError as e:
        if e.errno == errno.ENAMETOOLONG:
            return None
        raise EngineError(
            f"The file {path} cannot be read: {e.strerror or e}.",
            hint="Check that this user may read it and that the store works, then try again.",
            kind=ErrorKind.ENVIRONMENT,
        ) from e


def read_needed(file_io: FileIO, path: str, what: str) -> bytes:
    """Return the content of a file that the table references.

    Args:
        file_io: the store.
        path: the file.
        what: kind of file for messages, such as ``metadata file``.

    Raises:
        CorruptTableError: the file is missing or is a directory.
        EngineError: the file system failed.
        StoreError: the object store failed.
    """
    data = read_if_there(file_io, path)
    if data is None:
        raise CorruptTableError(
            f"The {what} {path} is missing; a concurrent expiration may have removed it.",
            hint="Read the table again. If that does not help, roll back to a snapshot or tag that is complete.",
            kind=ErrorKind.FILE_MISSING,
        )
    return data


def threads_for(place: str) -> int:
    """Return how many threads read small files of a store: one on a local disk, where more wait for each other."""
    return 1 if on_local_disk(place) else THREADS


def on_local_disk(place: str) -> bool:
    """Return whether a path is on a local disk."""
    return scheme_of(place) == "file"


def in_parallel(read: Callable[[_K], _T], keys: Sequence[_K], threads: int = THREADS) -> list[_T]:
    """Return what `read` returns for each key, in order; several files are read at a time."""
    return list(yielded_in_parallel(read, keys, threads))


def yielded_in_parallel(work: Callable[[_K], _T], keys: Sequence[_K], threads: int = THREADS) -> Iterator[_T]:
    """Yield what `work` returns for each key, in order; the memory does not grow with the number of keys.

    If the caller stops, the keys that no thread has begun are left out.
    """
    if threads == 1 or len(keys) <= 1:
        yield from map(work, keys)
        return
    with ThreadPoolExecutor(min(threads, len(keys))) as pool:
        for start in range(0, len(keys), _AT_ONCE):
            yield from pool.map(work, keys[start : start + _AT_ONCE])

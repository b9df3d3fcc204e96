"""Reduces the work of Spark's Python workers between two tasks.

A worker is reused for the next task. Before each task it invalidates the import caches, because modules may have been
added, and Python then reads the directory of every archive again: that of Spark's own, with its thousands of files,
once for every package in it. After each task the garbage collector scans all objects, including those of the imported
modules. Both together take longer than writing tens of thousands of rows.
"""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from zipimport import ZipImportError, zipimporter

_State = tuple[int, int] | None


class _Archive(zipimporter):
    """Finds modules in an archive, whose directory is read again only when the file has changed."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._state = _state(self.archive)

    def invalidate_caches(self) -> None:
        """Read the directory again if the file has changed."""
        state = _state(self.archive)
        if state != self._state:
            super().invalidate_caches()
            self._state = state


def _state(archive: str) -> _State:
    try:
        found = Path(archive).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def prepare_reuse() -> None:
    """Make later tasks of this process start faster."""
    plain = [path for path, finder in list(sys.path_importer_cache.items()) if type(finder) is zipimporter]
    for path in plain:
        with suppress(ZipImportError):
            sys.path_importer_cache[path] = _Archive(path)
    _skip_archive_checks()


@cache
def _skip_archive_checks() -> None:
    """Exclude the existing objects from garbage collection, once per process."""
    gc.freeze()

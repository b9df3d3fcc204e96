"""Removal of directories that are empty: after an expiry (`snapshot.clean-empty-directories`), and of a dropped table.

A writer may have created a directory without a file in it yet: `FileIO` creates it again with the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from paimon_spark.core.metadata_io import in_parallel
from paimon_spark.core.table import Table
from paimon_spark.errors import PaimonError
from paimon_spark.spec.paths import BUCKET_PREFIX


def remove_empty_directories(table: Table, deleted: Iterable[str]) -> None:
    """Remove the bucket directories of deleted files, then the partition directories above them, if they are empty.

    A directory that cannot be removed stays: it costs nothing but its name.
    """
    root, levels = f"{table.paths.data_root}/", len(table.schema.partition_keys)
    parents = {path.rpartition("/")[0] for path in deleted if path.startswith(root)}
    found = {d for d in parents if _is_bucket(d[len(root) :], levels)}
    for _ in range(levels + 1):
        in_parallel(lambda directory: _remove(table, directory), sorted(found))
        found = {d.rpartition("/")[0] for d in found}


def remove_directories_of_dropped(table: Table, deleted: Iterable[str]) -> None:
    """Remove the directories of deleted files, up to that of the table, if they are empty and the table does not exist.

    Writers that did not know that it was dropped or renamed have created them again.
    """
    found = {d for path in deleted for d in _directories(table, path)}
    with suppress(OSError, PaimonError):
        if not found or table.schema_store.any():
            return
        for directory in sorted(found, key=len, reverse=True):
            _remove(table, directory)


def _directories(table: Table, path: str) -> Iterator[str]:
    """Yield the directories of a file, up to that of the table."""
    while path.startswith(f"{table.path}/"):
        path = path.rpartition("/")[0]
        yield path


def _is_bucket(below: str, levels: int) -> bool:
    parts = below.split("/")
    return len(parts) == levels + 1 and parts[-1].startswith(BUCKET_PREFIX)


def _remove(table: Table, directory: str) -> None:
    with suppress(OSError):
        table.file_io.delete_empty_dir(directory)

"""Dropping a table: a mark is written, then the schemas are deleted, then everything else, and the mark last.

Without its schemas a directory is no table; with them, any other order of deletion would show an older state of it. The
mark lets an interrupted drop be completed. Nothing is deleted that was created after the files were listed: the name
may be in use again.
"""

from __future__ import annotations

from paimon_spark.core.schemas import SchemaStore
from paimon_spark.fs.base import FileIO

_MARK = ".dropped"
RUNNING_MILLIS = 3_600_000
"""A drop whose mark is younger may still be running."""


def drop(file_io: FileIO, path: str, schemas: SchemaStore) -> None:
    """Delete the directory of a table; of a symbolic link, only the link."""
    if file_io.status(path).is_link:
        file_io.delete_dir(path)
        return
    file_io.write(_mark(path), b"")
    for schema_id in schemas.ids():
        file_io.delete(schemas.paths.schema(schema_id))
    complete(file_io, path)


def is_incomplete(file_io: FileIO, path: str) -> bool:
    """Return whether a directory without a schema is what a drop has left of a table, or has not deleted yet."""
    return file_io.exists(_mark(path))


def began_millis(file_io: FileIO, path: str) -> int:
    """Return when the drop of a marked directory began, in epoch milliseconds."""
    return file_io.status(_mark(path)).mtime_ms


def complete(file_io: FileIO, path: str) -> None:
    """Delete the files of a marked directory, the mark last, and then the directory if it is empty."""
    schema = f"{path}/schema"
    strays = [s.path for s in file_io.list(schema) if s.path != _mark(path)]
    for found in file_io.list(path):
        if found.path != schema:
            file_io.delete_dir(found.path) if found.is_dir else file_io.delete(found.path)
    for stray in strays:
        file_io.delete(stray)
    file_io.delete(_mark(path))
    if file_io.delete_empty_dir(schema):
        file_io.delete_empty_dir(path)


def _mark(path: str) -> str:
    return f"{path}/schema/{_MARK}"

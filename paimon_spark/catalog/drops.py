"""Dropping a table: a mark is written, then the schemas are deleted, then everything else, and the mark last.

Without its schemas a directory is no table; with them, any other order of deletion would show an older state of it. The
mark lets an interrupted drop be completed.
"""

from __future__ import annotations

from paimon_spark.core.schemas import SchemaStore
from paimon_spark.fs.base import FileIO

_MARK = "schema/.dropped"


def drop(file_io: FileIO, path: str, schemas: SchemaStore) -> None:
    """Delete the directory of a table; of a symbolic link, only the link."""
    if file_io.status(path).is_link:
        file_io.delete_dir(path)
        return
    file_io.write(f"{path}/{_MARK}", b"")
    for schema_id in schemas.ids():
        file_io.delete(schemas.paths.schema(schema_id))
    complete(file_io, path)


def is_incomplete(file_io: FileIO, path: str) -> bool:
    """Return whether a directory without a schema is what an interrupted drop has left of a table."""
    return file_io.exists(f"{path}/{_MARK}")


def complete(file_io: FileIO, path: str) -> None:
    """Delete the files of a marked directory, the mark last."""
    for found in file_io.list(path):
        if found.name != "schema":
            file_io.delete_dir(found.path) if found.is_dir else file_io.delete(found.path)
    file_io.delete_dir(path)

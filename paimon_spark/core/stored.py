"""Reading the small files of a table, so that whatever stands in the way is told with the name of the file."""

from __future__ import annotations

import errno

from paimon_spark.errors import CorruptTableError, EngineError, ErrorKind, StoreError
from paimon_spark.fs.base import FileIO


def read_if_there(file_io: FileIO, path: str) -> bytes | None:
    """Return the content of a file, or None if there is none.

    Raises:
        CorruptTableError: there is a directory of that name.
        EngineError: the file system does not deliver it.
        StoreError: the object store does not.
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
    """Return the content of a file that the table refers to.

    Args:
        file_io: the store.
        path: the file.
        what: what kind of file it is, such as ``metadata file``.

    Raises:
        CorruptTableError: it is missing or a directory.
        EngineError: the file system does not deliver it.
        StoreError: the object store does not.
    """
    data = read_if_there(file_io, path)
    if data is None:
        raise CorruptTableError(
            f"The {what} {path} is missing; a concurrent expiration may have removed it.",
            hint="Read the table again. If that does not help, roll back to a snapshot or tag that is complete.",
            kind=ErrorKind.FILE_MISSING,
        )
    return data

"""Translation of file reader errors into errors that name the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from paimon_spark.errors import CorruptTableError, ErrorKind, UnsupportedError
from paimon_spark.format.timestamp_ranges import OutOfRangeError

MISSING_HINT = (
    "It may have been removed by an expiration that ran while the statement was reading; run the statement again. "
    "If the file stays missing, roll back to a snapshot that does not need it."
)
FAR_HINT = "The file is intact. Leave the column out, or read the table with Paimon itself."
UNREADABLE_HINT = (
    "The file is not known to be damaged: leave out the column that needs it, upgrade pyarrow, or read the table "
    "with Paimon itself."
)
DAMAGED_HINT = "Restore the file from a backup, or roll back to a snapshot that does not need it."


@contextmanager
def data_file_errors(path: str, file_size: int | None = None, actual_size: int | None = None) -> Iterator[None]:
    """Translate errors into CorruptTableError, or UnsupportedError for features that the library does not support.

    Errors of the store (with an errno) and out-of-memory errors pass through.
    """
    try:
        yield
    except FileNotFoundError as e:
        raise CorruptTableError(
            f"The data file '{path}' does not exist.", hint=MISSING_HINT, kind=ErrorKind.FILE_MISSING
        ) from e
    except MemoryError:
        raise
    except OutOfRangeError as e:
        raise UnsupportedError(f"The data file '{path}' has {e}.", hint=FAR_HINT) from e
    except (pa.ArrowNotImplementedError, pa.ArrowCapacityError) as e:
        raise unreadable(path, e, file_size, actual_size) from e
    except (pa.ArrowException, OSError, EOFError, ValueError, LookupError, TypeError, ArithmeticError) as e:
        if isinstance(e, OSError) and e.errno is not None:
            raise
        raise damaged(path, e, file_size, actual_size) from e


def unreadable(
    path: str, error: BaseException, file_size: int | None, actual_size: int | None
) -> CorruptTableError | UnsupportedError:
    """Return the error for a data file with an unsupported feature; a size mismatch means that it is damaged."""
    if file_size is not None and actual_size is not None and file_size != actual_size:
        return damaged(path, error, file_size, actual_size)
    return UnsupportedError(
        f"pyarrow {pa.__version__} cannot read all of the data file '{path}': {_first_line(error)}.",
        hint=UNREADABLE_HINT,
    )


def damaged(path: str, error: BaseException, file_size: int | None, actual_size: int | None) -> CorruptTableError:
    """Return the error for a malformed data file."""
    size = ""
    if file_size is not None and actual_size is not None and file_size != actual_size:
        size = f" It has {actual_size} bytes, its manifest records {file_size}."
    return CorruptTableError(
        f"The data file '{path}' cannot be read: {_first_line(error)}.{size}",
        hint=DAMAGED_HINT,
        kind=ErrorKind.CORRUPT_DATA_FILE,
    )


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0].rstrip(". ")

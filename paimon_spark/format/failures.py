"""What the file readers raise, turned into errors that name the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from paimon_spark.errors import CorruptTableError, ErrorKind

MISSING_HINT = (
    "It may have been removed by an expiration that ran while the statement was reading; run the statement again. "
    "If the file stays missing, roll back to a snapshot that does not need it."
)
DAMAGED_HINT = "Restore the file from a backup, or roll back to a snapshot that does not need it."


@contextmanager
def data_file_errors(path: str, file_size: int | None = None, actual_size: int | None = None) -> Iterator[None]:
    """Turn errors of the block into CorruptTableError; errors of the store itself (with an errno) pass through."""
    try:
        yield
    except FileNotFoundError as e:
        raise CorruptTableError(
            f"The data file '{path}' does not exist.", hint=MISSING_HINT, kind=ErrorKind.FILE_MISSING
        ) from e
    except (pa.ArrowException, OSError, EOFError, ValueError, LookupError, TypeError, ArithmeticError) as e:
        if isinstance(e, OSError) and e.errno is not None:
            raise
        raise damaged(path, e, file_size, actual_size) from e


def damaged(path: str, error: BaseException, file_size: int | None, actual_size: int | None) -> CorruptTableError:
    """Return the error for a data file that does not parse."""
    size = ""
    if file_size is not None and actual_size is not None and file_size != actual_size:
        size = f" It has {actual_size} bytes, its manifest says {file_size}."
    lines = str(error).splitlines() or [type(error).__name__]
    return CorruptTableError(
        f"The data file '{path}' cannot be read: {lines[0].rstrip('. ')}.{size}",
        hint=DAMAGED_HINT,
        kind=ErrorKind.CORRUPT_DATA_FILE,
    )

"""Errors of a file system that reject a request."""

from __future__ import annotations

import errno

from paimon_spark.errors import ErrorKind, StoreError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""No space or inodes left, quota exceeded, or file too large."""


def is_full(error: OSError) -> bool:
    """Return whether a write failed because the store is full."""
    return error.errno in _FULL


def refusal(error: OSError, path: str = "") -> StoreError:
    """Return the error for a request that had no effect.

    Args:
        error: error of the file system.
        path: path of the file to write, used if the error does not name it.
    """
    cause = error.strerror or str(error)
    where = path or error.filename
    if is_full(error):
        return StoreError(
            f"The store is full: {where} cannot be written ({cause})." if where else f"The store is full: {cause}.",
            hint="Make room on the disk or raise the quota, then run the statement again.",
            kind=ErrorKind.STORE_FULL,
        )
    found = StoreError(
        f"The store refuses to write {where or 'a file'}: {cause}.",
        hint="Check that this user may write there, then run the statement again.",
        kind=ErrorKind.ENVIRONMENT,
    )
    found.errno = error.errno
    return found

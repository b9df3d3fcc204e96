"""Hash index files of dynamic buckets: the key hashes of a bucket, big-endian and unordered.

(docs/spec/storage.md, section 14.2)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import CorruptTableError

_WORD = np.dtype(">i4")


def decode(data: bytes, where: str = "a hash index file") -> npt.NDArray[np.int32]:
    """Return the hashes in file order.

    Raises:
        CorruptTableError: the file size is not a multiple of the hash size.
    """
    if len(data) % _WORD.itemsize:
        raise CorruptTableError(
            f"{where} has {len(data)} bytes, which is not a multiple of the size of a hash.",
            hint="Restore the file from a backup, or rewrite the table with INSERT OVERWRITE.",
        )
    return np.frombuffer(data, _WORD).astype(np.int32)


def encode(hashes: npt.NDArray[np.int32]) -> bytes:
    """Return the content of an index file."""
    return np.ascontiguousarray(hashes, np.int32).astype(_WORD).tobytes()

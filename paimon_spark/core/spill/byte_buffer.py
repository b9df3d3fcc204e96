"""An append-only buffer of encoded bytes with random reads, which spills to the local disk.

It holds the packed files of large scans. Rows of writers and merges are spilled as sorted runs by `spill.space`.
"""

from __future__ import annotations

import os
import tempfile
import weakref

from paimon_spark.core.spill.space import local_directories, one_directory
from paimon_spark.errors import EngineError, ErrorKind

BUFFERED_BYTES = 1 << 20


class SpillBuffer:
    """An append-only byte buffer, backed by an unlinked temporary file.

    Reads are thread-safe once appending has ended; until then, only the appending thread may read.

    Args:
        buffered_bytes: approximate limit of the bytes in memory; below it, no file is created.
    """

    def __init__(self, buffered_bytes: int = BUFFERED_BYTES) -> None:
        self._buffered_bytes = buffered_bytes
        self._last = bytearray()
        self._on_disk = 0
        self._file: int | None = None

    def __len__(self) -> int:
        return self._on_disk + len(self._last)

    def append(self, data: bytes) -> int:
        """Append bytes and return their offset.

        Raises:
            EngineError: writing to the local disk failed.
        """
        begin = len(self)
        self._last += data
        if len(self._last) > self._buffered_bytes:
            try:
                self._write_out()
            except OSError as e:
                raise _refusal(e) from e
        return begin

    def read(self, begin: int, size: int) -> bytes:
        """Return `size` bytes from `begin`.

        Raises:
            EngineError: the bytes cannot be read back.
        """
        there = min(size, self._on_disk - begin)
        if self._file is None or there <= 0:
            at = begin - self._on_disk
            return bytes(self._last[at : at + size])
        try:
            found = os.pread(self._file, there, begin)
        except OSError as e:
            raise _refusal(e) from e
        if len(found) < there:
            raise _refusal(OSError(f"only {len(found)} of {there} bytes could be read"))
        return found if there == size else found + bytes(self._last[: size - there])

    def _write_out(self) -> None:
        if self._file is None:
            with tempfile.TemporaryFile(prefix="paimon-plan-", dir=one_directory(local_directories())) as made:
                self._file = os.dup(made.fileno())
            weakref.finalize(self, os.close, self._file)
        left, end = memoryview(bytes(self._last)), self._on_disk
        while left:
            written = os.pwrite(self._file, left, end)
            left, end = left[written:], end + written
        self._on_disk = end
        self._last = bytearray()


def _refusal(cause: OSError) -> EngineError:
    return EngineError(
        f"The plan of a scan cannot be spilled to the local disk: {cause.strerror or cause}.",
        hint="Make room in the directory for temporary files, or name another one: TMPDIR, SPARK_LOCAL_DIRS.",
        kind=ErrorKind.ENVIRONMENT,
    )

"""The rows of a file to change, read one chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from paimon_spark.errors import EngineError


class StoredChunks:
    """The chunks of a file, of which one at most is open: that with the position of the next change."""

    def __init__(self, path: str, chunks: Iterator[pa.Table]) -> None:
        self._path = path
        self._chunks = chunks
        self._rows: pa.Table | None = None
        self.start = 0
        """The position of the first row of the open chunk."""

    @property
    def end(self) -> int:
        """The position after the last row of the open chunk."""
        return self.start + (0 if self._rows is None else self._rows.num_rows)

    def open_next(self) -> None:
        """Open the next chunk, after the open one was closed.

        Raises:
            EngineError: the file has no further rows.
        """
        rows = next(self._chunks, None)
        if rows is None:
            raise EngineError(f"A changed row lies beyond the end of the file {self._path} ({self.start} rows).")
        self._rows = rows

    def close(self) -> pa.Table | None:
        """Close the open chunk and return its rows."""
        rows, self.start = self._rows, self.end
        self._rows = None
        return rows

    def rest(self) -> Iterator[pa.Table]:
        """Return the chunks after the open one."""
        return self._chunks

"""Files composed of bytes and of ranges of other files, and their rows as pyarrow decodes them batch by batch."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import pyarrow as pa
from pyarrow import orc


@dataclass(frozen=True, slots=True)
class Range:
    """A range of an open file."""

    source: pa.NativeFile
    offset: int
    length: int

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(self.length)
        return bytes(self.source.read_at(stop - start, self.offset + start)) if stop > start else b""


@dataclass(frozen=True, slots=True)
class Zeros:
    """A part of zeros in place of bytes that are not needed."""

    length: int

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(self.length)
        return bytes(max(0, stop - start))


Part = bytes | Range | Zeros
"""A part of a composed file."""


class Composed(io.RawIOBase):
    """A file that consists of some parts, one after the other."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._ends = tuple(accumulate(map(len, parts)))
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Change the position, and return it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._ends[-1]}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, at most `size`."""
        stop = self._ends[-1] if size < 0 else min(self._ends[-1], self._at + size)
        found: list[bytes] = []
        for part, end in zip(self._parts, self._ends, strict=True):
            start = end - len(part)
            if self._at < end and start < stop:
                found.append(part[max(0, self._at - start) : stop - start])
        self._at = max(self._at, stop)
        return found[0] if len(found) == 1 else b"".join(found)


def decoded(parts: Sequence[Part], columns: Sequence[str], batch_rows: int | None) -> Iterator[pa.RecordBatch]:
    """Yield some columns of an ORC file.

    Args:
        parts: the file.
        columns: the columns.
        batch_rows: the most rows of a batch, which never spans stripes; pyarrow decodes a few batches ahead. With None
            whole stripes are decoded, which is faster and takes more memory.
    """
    file = pa.PythonFile(Composed(parts), mode="r")
    if batch_rows is None:
        whole = orc.ORCFile(file)
        return (whole.read_stripe(i, columns=list(columns)) for i in range(whole.nstripes))
    from pyarrow import dataset  # it imports pandas

    fragment = dataset.OrcFileFormat().make_fragment(file)
    return iter(
        fragment.to_batches(
            columns=list(columns), batch_size=batch_rows, batch_readahead=0, fragment_readahead=0, use_threads=False
        )
    )

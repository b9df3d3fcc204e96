"""Very many data files as bytes: each becomes an object when it is looked at, and nothing keeps it."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from paimon_spark.format.packed_manifest import unpack_file
from paimon_spark.spec.manifest import DataFileMeta

Numbers = npt.NDArray[Any]


class FilePool:
    """Files by the numbers that they get as they come.

    Args:
        statistics: whether they are packed with their statistics.
    """

    def __init__(self, *, statistics: bool) -> None:
        self.statistics = statistics
        self._chunks: list[bytes] = []
        self._firsts: list[int] = []
        self._begins = array("I")
        self._sizes = array("Q")
        self._rows = array("Q")
        self._chosen = array("I")

    def __len__(self) -> int:
        return len(self._begins)

    def add(self, packed: Iterable[bytes], sizes: Numbers, rows: Numbers) -> None:
        """Take some packed files in; how large each is, and how many rows it has, can be told without unpacking it."""
        pieces = list(packed)
        self._firsts.append(len(self._begins))
        self._begins.extend(accumulate(map(len, pieces[:-1]), initial=0) if pieces else ())
        self._chunks.append(b"".join(pieces))
        self._sizes.extend(sizes.tolist())
        self._rows.extend(rows.tolist())

    def file(self, number: int) -> DataFileMeta:
        """Return a file."""
        chunk = self._chunks[bisect_right(self._firsts, number) - 1]
        return unpack_file(chunk, self._begins[number], statistics=self.statistics)

    def total_rows(self, numbers: Numbers) -> int:
        """Return how many rows some files have."""
        return int(np.frombuffer(self._rows, np.uint64)[numbers].sum())

    def choose(self, numbers: Iterable[int]) -> PackedFiles:
        """Return some files as a sequence that unpacks them when it is read."""
        begin = len(self._chosen)
        self._chosen.extend(numbers)
        return PackedFiles(self, begin, len(self._chosen) - begin)

    def chosen(self, begin: int, count: int) -> Iterator[DataFileMeta]:
        """Yield files that were chosen together."""
        return map(self.file, self._chosen[begin : begin + count])

    def chosen_size(self, begin: int, count: int) -> int:
        """Return the bytes of files that were chosen together."""
        return sum(map(self._sizes.__getitem__, self._chosen[begin : begin + count]))

    def chosen_rows(self, begin: int, count: int) -> int:
        """Return the rows of files that were chosen together."""
        return sum(map(self._rows.__getitem__, self._chosen[begin : begin + count]))


class PackedFiles(Sequence[DataFileMeta]):
    """Some files of a pool, in order; each look at one makes it anew."""

    __slots__ = ("_begin", "_count", "_pool")

    def __init__(self, pool: FilePool, begin: int, count: int) -> None:
        self._pool = pool
        self._begin = begin
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[DataFileMeta]:
        return self._pool.chosen(self._begin, self._count)

    @overload
    def __getitem__(self, index: int) -> DataFileMeta: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[DataFileMeta]: ...
    def __getitem__(self, index: int | slice) -> DataFileMeta | Sequence[DataFileMeta]:
        if isinstance(index, slice):
            return tuple(self)[index]
        place = range(self._begin, self._begin + self._count)[index]
        return next(self._pool.chosen(place, 1))

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return self._pool.chosen_size(self._begin, self._count)

    @property
    def row_count(self) -> int:
        """Return the rows of all files."""
        return self._pool.chosen_rows(self._begin, self._count)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackedFiles | tuple) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

"""Packed data file records, for very large scans: records are stored serialized and decoded on each access.

A `PackedFileStore` holds all files that a scan finds, with a few numeric columns. Selected files are copied so that
files that are read together are contiguous. A scan plan therefore keeps no per-file objects in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from paimon_spark.core.spill.byte_buffer import BUFFERED_BYTES, SpillBuffer
from paimon_spark.format.manifest.column_decoder import smallest
from paimon_spark.format.manifest.lazy_manifest import unpack_file, unpack_files
from paimon_spark.format.manifest.packed_file_sort import first_sequence_numbers, name_words
from paimon_spark.spec.manifest import DataFileMeta

Numbers = npt.NDArray[Any]
Record = tuple[bytes, int, int]
"""A packed file record, and the file's size in bytes and row count."""
_Piece = tuple[bytes, Numbers, Numbers]


@dataclass(frozen=True, slots=True)
class PackingLimits:
    """Parameters of a packed file store.

    Attributes:
        files_at_once: how many records are appended or read back at a time.
        gap_bytes: records at most this far apart are read with one request.
        parts: number of parts at which a numeric column is concatenated.
        buffered_bytes: approximate limit of the bytes in memory.
    """

    files_at_once: int = 4_096
    gap_bytes: int = 512
    parts: int = 64
    buffered_bytes: int = BUFFERED_BYTES


DEFAULT_LIMITS = PackingLimits()


class PackedFileStore:
    """A store of packed file records, numbered in insertion order.

    Args:
        statistics: whether records include statistics.
        limits: parameters of the store.
    """

    def __init__(self, *, statistics: bool, limits: PackingLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self.statistics = statistics
        self._found = SpillBuffer(limits.buffered_bytes)
        self._chosen = SpillBuffer(limits.buffered_bytes)
        self._lengths, self._sizes, self._rows = (_Column(limits.parts) for _ in range(3))
        self._ends_then: Numbers | None = None

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, packed: Iterable[bytes], sizes: Numbers, rows: Numbers) -> None:
        """Append packed records; the sizes and row counts of the files are kept as columns."""
        files = iter(packed)
        while pieces := list(islice(files, self._limits.files_at_once)):
            self._found.append(b"".join(pieces))
            self._lengths.extend(np.fromiter(map(len, pieces), np.int64, len(pieces)))
        self._sizes.extend(sizes)
        self._rows.extend(rows)

    def records(self, numbers: Numbers) -> Iterator[Record]:
        """Yield the records of the given numbers."""
        at = 0
        for data, begins, ends in self._pieces(numbers):
            some = numbers[at : at + len(begins)]
            files = map(data.__getitem__, map(slice, begins.tolist(), ends.tolist()))
            yield from zip(files, self._sizes.values[some].tolist(), self._rows.values[some].tolist(), strict=True)
            at += len(begins)

    def unpack(self, record: Record) -> DataFileMeta:
        """Decode a record."""
        return unpack_file(record[0], statistics=self.statistics)

    def total_rows(self, numbers: Numbers) -> int:
        """Return the total row count of the given files."""
        return int(self._rows.values[numbers].sum(dtype=np.uint64))

    def choose(self, records: Sequence[Record]) -> PackedFileList:
        """Copy a non-empty selection of records into a contiguous list that decodes them on access."""
        files, sizes, rows = zip(*records, strict=True)
        data = b"".join(files)
        begin = self._chosen.append(data)
        return PackedFileList(self._chosen, begin, len(data), len(records), self.statistics, sum(sizes), sum(rows))

    def in_order(self, numbers: Numbers) -> Numbers:
        """Return file numbers ordered by first sequence number, then by name.

        Args:
            numbers: file numbers in ascending order; the store must not have statistics.

        Raises:
            ValueError: the store has statistics.
        """
        if self.statistics:
            raise ValueError("packed files with statistics have no sequence order")
        sequences = np.concatenate([first_sequence_numbers(data, begins) for data, begins, _ in self._pieces(numbers)])
        order = np.argsort(sequences, kind="stable")
        ordered, sequences = numbers[order], sequences[order]
        del order
        like_last = np.concatenate(([False], sequences[1:] == sequences[:-1]))
        del sequences
        word = 0
        while len(tied := np.flatnonzero(like_last | np.append(like_last[1:], False))):
            words = self._name_words(ordered[tied], word)
            runs = np.cumsum(~like_last[tied], dtype=np.int32)
            order = np.lexsort((words, runs))
            ordered[tied], words = ordered[tied][order], words[order]
            like_last[tied[1:]] &= words[1:] == words[:-1]
            like_last[tied[words == 0]] = False
            word += 1
        return ordered

    def _name_words(self, numbers: Numbers, word: int) -> Numbers:
        """Return one 8-byte word of each file name; records are read in storage order."""
        order = np.argsort(numbers, kind="stable")
        words, at = np.empty(len(numbers), np.uint64), 0
        for data, begins, _ in self._pieces(numbers, order):
            words[order[at : at + len(begins)]] = name_words(data, begins, word)
            at += len(begins)
        return words

    def _pieces(self, numbers: Numbers, order: Numbers | None = None) -> Iterator[_Piece]:
        """Yield records in batches: bytes that contain them, and the start and end of each record in those bytes."""
        ends, lengths = self._ends, self._lengths.values
        for first in range(0, len(numbers), self._limits.files_at_once):
            part = slice(first, first + self._limits.files_at_once)
            some = numbers[part] if order is None else numbers[order[part]]
            yield self._piece(ends[some] - lengths[some], ends[some])

    def _piece(self, begins: Numbers, ends: Numbers) -> _Piece:
        apart = np.flatnonzero((begins[1:] < ends[:-1]) | (begins[1:] > ends[:-1] + self._limits.gap_bytes))
        firsts, lasts = np.concatenate(([0], apart + 1)), np.append(apart, len(ends) - 1)
        lows, sizes = begins[firsts], ends[lasts] - begins[firsts]
        data = b"".join(map(self._found.read, lows.tolist(), sizes.tolist()))
        moved = np.repeat(np.cumsum(sizes) - sizes - lows, lasts - firsts + 1)
        return data, begins + moved, ends + moved

    @property
    def _ends(self) -> Numbers:
        if self._ends_then is None or len(self._ends_then) < len(self):
            self._ends_then = np.cumsum(self._lengths.values, dtype=np.int64)
        return self._ends_then


class _Column:
    """A numeric column with one value per file, in the smallest integer types."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._whole: list[Numbers] = []
        self._parts: list[Numbers] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def extend(self, numbers: Numbers) -> None:
        """Append the values of more files."""
        self._parts.append(smallest(numbers))
        self._count += len(numbers)
        if len(self._parts) == self._limit:
            self._whole.append(np.concatenate(self._parts))
            self._parts = []

    @property
    def values(self) -> Numbers:
        """Return all values."""
        if len(self._whole) != 1 or self._parts:
            self._whole, self._parts = [np.concatenate([np.empty(0, np.uint8), *self._whole, *self._parts])], []
        return self._whole[0]


@dataclass(slots=True, eq=False)
class PackedFileList(Sequence[DataFileMeta]):
    """A contiguous list of packed files, in order; each access decodes the records again."""

    store: SpillBuffer
    begin: int
    length: int
    number: int
    statistics: bool
    size: int
    """Total size of the files in bytes."""
    row_count: int
    """Total row count of the files."""

    def digest(self) -> int:
        """Return a hash of the packed records."""
        return hash(self.store.read(self.begin, self.length))

    def __len__(self) -> int:
        return self.number

    def __iter__(self) -> Iterator[DataFileMeta]:
        return unpack_files(self.store.read(self.begin, self.length), statistics=self.statistics)

    @overload
    def __getitem__(self, index: int) -> DataFileMeta: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[DataFileMeta]: ...
    def __getitem__(self, index: int | slice) -> DataFileMeta | Sequence[DataFileMeta]:
        if isinstance(index, slice):
            return tuple(self)[index]
        return next(islice(self, range(self.number)[index], None))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackedFileList | tuple) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

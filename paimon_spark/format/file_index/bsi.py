"""The index ``bsi``: bit slices of numbers, those of negative ones by their absolute value."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_spark.format.file_index.base import IndexReader, Rows
from paimon_spark.format.file_index.container import NewerVersionError
from paimon_spark.format.file_index.roaring import Ints, bitmap_of, parse_bitmap, serialized
from paimon_spark.format.file_index.slices import BitSlices, bits_of, max_of, slice_rows
from paimon_spark.format.file_index.values import Code, Collector, Domain

_VERSION = 1
_HEAD = struct.Struct(">bi")
_FLAG = struct.Struct("?")
_SLICES = struct.Struct(">bqq")
_INT = struct.Struct(">i")
_LEAST = -(1 << 63)
_MOST_SLICES = 64


class BsiWriter:
    """Builds the index of one column of one file."""

    def __init__(self, domain: Domain, settings: Mapping[str, str]) -> None:
        self._found = Collector(domain)

    def add(self, values: pa.Array) -> None:
        """Add the values of the next rows."""
        self._found.add(values)

    def finish(self) -> bytes | None:
        """Return the index; None if it has the least 64-bit number, whose absolute value has too many bits."""
        numbers, positions = self._found.numbers(), self._found.positions
        if (numbers == _LEAST).any():
            return None
        negative = numbers < 0
        out = _HEAD.pack(_VERSION, self._found.rows)
        return out + _part(positions[~negative], numbers[~negative]) + _part(positions[negative], -numbers[negative])


def _part(positions: Ints, numbers: Ints) -> bytes:
    if not len(positions):
        return _FLAG.pack(False)  # noqa: FBT003 - the flag is the value
    most = max_of(numbers)
    slices = slice_rows(positions, numbers, bits_of(most))
    head = _FLAG.pack(True) + _SLICES.pack(_VERSION, 0, most) + serialized(bitmap_of(positions))  # noqa: FBT003
    return head + _INT.pack(len(slices)) + b"".join(map(serialized, slices))


@dataclass(frozen=True, slots=True)
class _Part:
    """The numbers of one sign, less `low`."""

    low: int
    bits: BitSlices

    def split(self, number: int) -> tuple[BitMap, BitMap, BitMap]:
        """Return the rows whose number is less than, equal to and greater than `number`."""
        return self.bits.split(number - self.low) if number >= self.low else (BitMap(), BitMap(), self.bits.valid)


class BsiReader(IndexReader):
    """Reads an index of a file with `rows` rows.

    Raises:
        ValueError: it is malformed, or of another file.
        NewerVersionError: it has an unknown version.
    """

    def __init__(self, data: bytes, domain: Domain, rows: int) -> None:
        self._data, self._rows = data, rows
        try:
            version, count = _HEAD.unpack_from(data)
            _check_version(version)
            if count != rows:
                raise ValueError(f"its index bsi is about {count} rows, and the file has {rows}")
            self._positive, at = self._read_part(_HEAD.size)
            self._negative, _ = self._read_part(at)
        except struct.error as e:
            raise ValueError(f"its index bsi is truncated: {e}") from e

    def _read_part(self, at: int) -> tuple[_Part, int]:
        if not _FLAG.unpack_from(self._data, at)[0]:
            return _Part(0, BitSlices(BitMap(), ())), at + _FLAG.size
        version, low, _ = _SLICES.unpack_from(self._data, at + _FLAG.size)
        _check_version(version)
        valid, at = self._bitmap(at + _FLAG.size + _SLICES.size)
        (count,) = _INT.unpack_from(self._data, at)
        if not 0 <= count <= _MOST_SLICES:
            raise ValueError(f"its index bsi has {count} slices")
        at += _INT.size
        slices = []
        for _ in range(count):
            found, at = self._bitmap(at)
            slices.append(found)
        return _Part(low, BitSlices(valid, slices)), at

    def _bitmap(self, at: int) -> tuple[BitMap, int]:
        found = parse_bitmap(self._data[at:], self._rows)
        return found, at + len(found.serialize())

    def among(self, codes: Sequence[Code]) -> Rows:
        """Return the rows whose value has one of the codes."""
        out = BitMap()
        for code in map(_number, codes):
            part = self._positive if code >= 0 else self._negative
            out |= part.split(abs(code))[1]
        return out

    def valid(self) -> Rows:
        """Return the rows that are not null."""
        return self._positive.bits.valid | self._negative.bits.valid

    def nulls(self) -> Rows:
        """Return the rows that are null."""
        return BitMap(range(self._rows)) - (self._positive.bits.valid | self._negative.bits.valid)

    def at_least(self, code: Code, *, strictly: bool = False) -> Rows:
        """Return the rows whose code is `code` or greater, or greater only."""
        number = _number(code)
        if number >= 0:
            _, equal, greater = self._positive.split(number)
            return greater if strictly else greater | equal
        less, equal, _ = self._negative.split(-number)
        return self._positive.bits.valid | (less if strictly else less | equal)

    def at_most(self, code: Code, *, strictly: bool = False) -> Rows:
        """Return the rows whose code is `code` or less, or less only."""
        number = _number(code)
        if number >= 0:
            less, equal, _ = self._positive.split(number)
            return self._negative.bits.valid | (less if strictly else less | equal)
        _, equal, greater = self._negative.split(-number)
        return greater if strictly else greater | equal


def _check_version(version: int) -> None:
    if version > _VERSION:
        raise NewerVersionError(f"its index bsi has the version {version}, and the known version is {_VERSION}")


def _number(code: Code) -> int:
    if isinstance(code, bytes):
        raise TypeError("a bit-sliced index has no strings")
    return int(np.int64(code))

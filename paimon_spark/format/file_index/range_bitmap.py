"""The index ``range-bitmap``: a dictionary of the distinct values, and bit slices of the code of each row."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_spark.format.file_index.base import IndexReader, Rows
from paimon_spark.format.file_index.container import NewerVersionError
from paimon_spark.format.file_index.dictionary import DictionaryReader, write_dictionary
from paimon_spark.format.file_index.roaring import Ints, bitmap_of, parse_bitmap, serialized
from paimon_spark.format.file_index.slices import BitSlices, bits_of, slice_rows
from paimon_spark.format.file_index.values import Code, Collector, Domain
from paimon_spark.spec.types import TypeRoot
from paimon_spark.spec.units import parse_memory

_VERSION = 1
_INT = struct.Struct(">i")
_HEAD = struct.Struct(">bii")
_SLICES = struct.Struct(">bbii")
_PAIR = struct.Struct(">ii")
_SMALL = (TypeRoot.BOOLEAN, TypeRoot.TINYINT, TypeRoot.SMALLINT)
_MOST_BYTES = (1 << 31) - 1


class RangeBitmapWriter:
    """Builds the index of one column of one file."""

    def __init__(self, domain: Domain, settings: Mapping[str, str]) -> None:
        default = "0b" if domain.type.root in _SMALL else "16kb"
        self._limit = parse_memory(settings.get("chunk-size", default))
        self._found = Collector(domain)

    def add(self, values: pa.Array) -> None:
        """Add the values of the next rows."""
        self._found.add(values)

    def finish(self) -> bytes | None:
        """Return the index; None without any value, because Paimon then misreads nulls, or if it is too large."""
        distinct, codes = self._found.distinct()
        if not len(distinct):
            return None
        values = write_dictionary(distinct, self._limit)
        ends = b"".join(distinct.records(part=slice(i, i + 1)) for i in (0, len(distinct) - 1))
        head = _HEAD.pack(_VERSION, self._found.rows, len(distinct)) + ends + _INT.pack(len(values))
        out = _INT.pack(len(head)) + head + values + _write_slices(self._found.positions, codes, len(distinct))
        return out if len(out) <= _MOST_BYTES else None


def _write_slices(positions: Ints, codes: Ints, count: int) -> bytes:
    slices = [serialized(s) for s in slice_rows(positions, codes, max(bits_of(count - 1), 1))]
    valid = serialized(bitmap_of(positions))
    lengths = np.array([len(s) for s in slices])
    listed = np.stack((np.cumsum(lengths) - lengths, lengths), axis=1).astype(">i4").tobytes()
    head = _SLICES.pack(_VERSION, len(slices), len(valid), len(listed)) + listed
    return _INT.pack(len(head)) + head + valid + b"".join(slices)


class RangeBitmapReader(IndexReader):
    """Reads an index of a file with `rows` rows.

    Raises:
        ValueError: it is malformed, or of another file.
        NewerVersionError: it has an unknown version.
    """

    def __init__(self, data: bytes, domain: Domain, rows: int) -> None:
        self._data, self._domain, self._rows = data, domain, rows
        try:
            (length,) = _INT.unpack_from(data)
            version, count, self._distinct = _HEAD.unpack_from(data, _INT.size)
            _check_version(version)
            if count != rows:
                raise ValueError(f"its range bitmap is about {count} rows, and the file has {rows}")
            self._dictionary_at = _INT.size + length
            (size,) = _INT.unpack_from(data, self._dictionary_at - _INT.size)
            self._slices_at = self._dictionary_at + size
            if self._distinct < 0 or size < 0 or self._slices_at > len(data):
                raise ValueError("its range bitmap is truncated")
        except struct.error as e:
            raise ValueError(f"its range bitmap is truncated: {e}") from e

    @cached_property
    def _dictionary(self) -> DictionaryReader:
        return DictionaryReader(self._data[self._dictionary_at : self._slices_at], self._domain)

    @cached_property
    def _slices(self) -> BitSlices:
        if not self._distinct:
            return BitSlices(BitMap(), ())
        data, at = self._data, self._slices_at
        (length,) = _INT.unpack_from(data, at)
        version, count, valid_size, listed = _SLICES.unpack_from(data, at + _INT.size)
        _check_version(version)
        if listed != _PAIR.size * count or valid_size < 0:
            raise ValueError("its range bitmap is malformed")
        body = at + _INT.size + length
        places = list(_PAIR.iter_unpack(data[at + _INT.size + _SLICES.size :][:listed]))
        start = body + valid_size
        valid = parse_bitmap(data[body:start], self._rows)
        return BitSlices(valid, [parse_bitmap(data[start + a : start + a + n], self._rows) for a, n in places])

    def _find(self, code: Code) -> tuple[BitMap, BitMap, BitMap]:
        """Return the rows whose code is less than, equal to and greater than `code`."""
        try:
            slices = self._slices
            if not self._distinct:
                return BitMap(), BitMap(), BitMap()
            place, known = self._dictionary.find(code)
            less, equal, greater = slices.split(place)
        except (struct.error, IndexError) as e:
            raise ValueError(f"its range bitmap is truncated: {e}") from e
        return (less, equal, greater) if known else (less, BitMap(), equal | greater)

    def among(self, codes: Sequence[Code]) -> Rows:
        """Return the rows whose value has one of the codes."""
        return BitMap.union(BitMap(), *(self._find(code)[1] for code in codes))

    def valid(self) -> Rows:
        """Return the rows that are not null."""
        return self._slices.valid.copy()

    def nulls(self) -> Rows:
        """Return the rows that are null."""
        return BitMap(range(self._rows)) - self._slices.valid

    def at_least(self, code: Code, *, strictly: bool = False) -> Rows:
        """Return the rows whose code is `code` or greater, or greater only."""
        _, equal, greater = self._find(code)
        return greater if strictly else greater | equal

    def at_most(self, code: Code, *, strictly: bool = False) -> Rows:
        """Return the rows whose code is `code` or less, or less only."""
        less, equal, _ = self._find(code)
        return less if strictly else less | equal


def _check_version(version: int) -> None:
    if version > _VERSION:
        raise NewerVersionError(f"its range bitmap has the version {version}, and the known version is {_VERSION}")

"""The index ``bitmap``: for each distinct value the positions of its rows.

A value of a single row has no bitmap: its offset is -1 - position. Version 2 groups the values into blocks, of which a
reader needs one.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_spark.format.file_index.base import IndexReader, Rows
from paimon_spark.format.file_index.container import NewerVersionError
from paimon_spark.format.file_index.roaring import Groups, Ints, bitmap_of, parse_bitmap, serialized
from paimon_spark.format.file_index.values import Code, Collector, Distinct, Domain
from paimon_spark.spec.units import parse_memory

_WITHOUT_BLOCKS, _WITH_BLOCKS = 1, 2
_DEFAULT_BLOCK = "16kb"
_HEAD = struct.Struct(">bii?")
_INT = struct.Struct(">i")
_PAIR = struct.Struct(">ii")
MOST_VALUES = 64 << 20
"""Maximum size of the distinct values of a file in bytes: above it, a Bloom filter is smaller and as selective."""
_MOST_BYTES = (1 << 31) - 1


class BitmapWriter:
    """Builds the index of one column of one file.

    Args:
        domain: the values.
        settings: the options of the index.
        most_values: maximum size of the distinct values in bytes; above it, there is no index.
    """

    def __init__(self, domain: Domain, settings: Mapping[str, str], most_values: int = MOST_VALUES) -> None:
        self._version = int(settings.get("version", _WITH_BLOCKS))
        self._block = parse_memory(settings.get("index-block-size", _DEFAULT_BLOCK))
        self._most_values = most_values
        self._found = Collector(domain, most_values)

    def add(self, values: pa.Array) -> None:
        """Add the values of the next rows."""
        self._found.add(values)

    def finish(self) -> bytes | None:
        """Return the index; None if a value does not fit into a block, or the index or its values are too large."""
        if self._found.is_full:
            return None
        distinct, codes = self._found.distinct()
        if int(distinct.sizes().sum()) > self._most_values:
            return None
        groups = Groups.of(self._found.positions, codes, len(distinct))
        nulls = BitMap(range(self._found.rows)) - bitmap_of(groups.positions)
        null_bits = serialized(nulls) if nulls else b""
        body = null_bits if len(nulls) > 1 else b""
        several = np.flatnonzero(groups.sizes > 1)
        bits, starts, lengths = groups.serialize(several)
        if len(body) + len(bits) > _MOST_BYTES:
            return None
        offsets = -1 - groups.positions[groups.starts] if len(distinct) else np.zeros(0, np.int64)
        offsets[several] = starts + len(body)
        sizes = np.full(len(distinct), -1, np.int64)
        sizes[several] = lengths
        null_offset = -1 - nulls[0] if len(nulls) == 1 else 0
        out = _HEAD.pack(self._version, self._found.rows, len(distinct), bool(nulls))
        if self._version == _WITHOUT_BLOCKS:
            out += (_INT.pack(null_offset) if nulls else b"") + distinct.records(offsets)
        else:
            blocks = _blocks(distinct, offsets, sizes, self._block)
            if blocks is None:
                return None
            out += (_PAIR.pack(null_offset, len(null_bits)) if nulls else b"") + blocks
        return out + body + bits


def _blocks(distinct: Distinct, offsets: Ints, lengths: Ints, limit: int) -> bytes | None:
    """Return the list of blocks and the blocks; None if a value does not fit into one."""
    sizes = distinct.sizes() + _PAIR.size
    if len(sizes) and int(sizes.max()) + _INT.size > limit:
        return None
    ends = np.cumsum(sizes)
    firsts, first = [], 0
    while first < len(sizes):
        firsts.append(first)
        before = int(ends[first - 1]) if first else 0
        first = int(np.searchsorted(ends, before + limit - _INT.size, side="right"))
    parts = [slice(a, b) for a, b in pairwise([*firsts, len(sizes)])]
    blocks = [_INT.pack(p.stop - p.start) + distinct.records(offsets, lengths, part=p) for p in parts]
    starts = np.cumsum([0, *map(len, blocks)])
    keys = Distinct(
        distinct.domain,
        distinct.values.take(pa.array(firsts, pa.int64())) if distinct.domain.is_text else distinct.values[firsts],
    )
    listed = keys.records(starts[:-1]) if firsts else b""
    return _INT.pack(len(blocks)) + listed + _INT.pack(int(starts[-1])) + b"".join(blocks)


class _Entry(NamedTuple):
    """The offset and the length of a bitmap; a length of -1 is unknown or of a single row."""

    offset: int
    length: int


class BitmapReader(IndexReader):
    """Reads an index of a file with `rows` rows.

    Raises:
        ValueError: it is malformed, or of another file.
        NewerVersionError: it has an unknown version.
    """

    def __init__(self, data: bytes, domain: Domain, rows: int) -> None:
        self._data, self._domain, self._rows = data, domain, rows
        if data and data[0] not in (_WITHOUT_BLOCKS, _WITH_BLOCKS):
            raise NewerVersionError(f"its bitmap index has the version {data[0]}, and the known versions are 1 and 2")
        try:
            self._read_head()
        except (struct.error, IndexError) as e:
            raise ValueError(f"its bitmap index is truncated: {e}") from e

    def _read_head(self) -> None:
        version, rows, self._count, has_null = _HEAD.unpack_from(self._data)
        if rows != self._rows:
            raise ValueError(f"its bitmap index is about {rows} rows, and the file has {self._rows}")
        at, self._null = _HEAD.size, None
        if has_null and version == _WITH_BLOCKS:
            self._null, at = _Entry(*_PAIR.unpack_from(self._data, at)), at + _PAIR.size
        elif has_null:
            self._null, at = _Entry(_INT.unpack_from(self._data, at)[0], -1), at + _INT.size
        self._keys: list[Code] = []
        self._blocks: list[int] = []
        self._parsed: set[int] = set()
        self._entries: dict[Code, _Entry] = {}
        if version == _WITHOUT_BLOCKS:
            self._entries, self._body = self._all_entries(at, self._count, with_length=False)
            return
        (blocks,) = _INT.unpack_from(self._data, at)
        places, at = self._all_entries(at + _INT.size, blocks, with_length=False)
        (size,) = _INT.unpack_from(self._data, at)
        start = at + _INT.size
        self._keys, self._blocks = list(places), [start + e.offset for e in places.values()]
        self._body = start + size

    def _all_entries(self, at: int, count: int, *, with_length: bool) -> tuple[dict[Code, _Entry], int]:
        """Return the entries from an offset on, and the offset after them."""
        out: dict[Code, _Entry] = {}
        for code, place in self._values(at, count, _PAIR.size if with_length else _INT.size):
            numbers = (
                _PAIR.unpack_from(self._data, place) if with_length else (*_INT.unpack_from(self._data, place), -1)
            )
            out[code] = _Entry(*numbers)
            at = place + (_PAIR.size if with_length else _INT.size)
        if len(out) != count:
            raise ValueError(f"its bitmap index has {len(out)} of {count} values")
        return out, at

    def _values(self, at: int, count: int, gap: int) -> Iterator[tuple[Code, int]]:
        """Yield values and the end of each; `gap` bytes are between them. Only one block, or the list of blocks."""
        if not 0 <= count <= len(self._data) // (gap + 1):
            raise ValueError(f"its bitmap index has {count} values")
        if not self._domain.is_text:
            dtype = np.dtype([("v", f">i{self._domain.width}"), ("gap", f"V{gap}")])
            if at + count * dtype.itemsize > len(self._data):
                raise ValueError("its bitmap index is truncated")
            stored = np.frombuffer(self._data, dtype, count, at)["v"].astype(np.int64)
            ends = at + self._domain.width + dtype.itemsize * np.arange(count)
            yield from zip(self._domain.codes(stored).tolist(), ends.tolist(), strict=True)
            return
        for _ in range(count):
            (length,) = _INT.unpack_from(self._data, at)
            end = at + _INT.size + length
            if length < 0 or end > len(self._data):
                raise ValueError("its bitmap index is truncated")
            yield self._data[at + _INT.size : end], end
            at = end + gap

    def _entry(self, code: Code) -> _Entry | None:
        if self._keys:
            found = bisect_right(self._keys, code) - 1
            if found < 0:
                return None
            self._parse_block(self._blocks[found])
        return self._entries.get(code)

    def _parse_block(self, at: int) -> None:
        if at not in self._parsed:
            (count,) = _INT.unpack_from(self._data, at)
            self._entries |= self._all_entries(at + _INT.size, count, with_length=True)[0]
            self._parsed.add(at)

    def _rows_of(self, entry: _Entry | None) -> BitMap:
        if entry is None:
            return BitMap()
        if entry.offset < 0:
            if -1 - entry.offset >= self._rows:
                raise ValueError(f"it names the row {-1 - entry.offset}, but the file has {self._rows} rows")
            return BitMap([-1 - entry.offset])
        start = self._body + entry.offset
        return parse_bitmap(self._data[start : None if entry.length < 0 else start + entry.length], self._rows)

    def among(self, codes: Sequence[Code]) -> Rows:
        """Return the rows whose value has one of the codes."""
        out = BitMap()
        try:
            for code in codes:
                out |= self._rows_of(self._entry(code))
        except struct.error as e:
            raise ValueError(f"its bitmap index is truncated: {e}") from e
        return out

    def nulls(self) -> Rows:
        """Return the rows that are null."""
        return self._rows_of(self._null)

    def valid(self) -> Rows:
        """Return the rows that are not null."""
        return BitMap(range(self._rows)) - self._rows_of(self._null)

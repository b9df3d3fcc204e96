"""Index files of the kind `btree`: keys in ascending order, each with the rows that have it, in blocks.

All fixed numbers are little-endian. The layout::

    blocks    entries, sorted by key; each block has a trailer (see `blocks`)
    nulls     the rows without a value as a 64-bit bitmap, and its CRC32; absent if there are none
    index     a block with an entry for each block: its last key, and its position and length
    footer    52 bytes: 20 for a Bloom filter, which is never there; position and length of the index, of the nulls;
              version 1; magic number

An entry is the length of its key, the key, the length of its value, and the value: the number of rows, then the rows.
All these numbers are of variable length, and rows count from the start of the range. A block ends with the length of
its entries and the byte 0 if they are equally long, else with their positions, their number, and the byte 1.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from pyroaring import BitMap

from paimon_spark.format.file_index.base import IndexReader, Rows
from paimon_spark.format.file_index.roaring import Ints, bitmap_of, spread
from paimon_spark.format.file_index.values import Code
from paimon_spark.format.global_index.blocks import Handle, Read, read_block, sealed
from paimon_spark.format.global_index.keys import KeyDomain
from paimon_spark.format.global_index.sorted_rows import FileSettings, SortedRows, bitmap64, parse_bitmap64
from paimon_spark.format.varints import (
    all_varints,
    lengths_of,
    put_bytes,
    put_varints_after,
    read_varint,
    varint,
    varints,
    varints_at,
)

_FOOTER = struct.Struct("<qiqqiqiii")
_MAGIC = 0x50425449
_VERSION = 1
_INT = struct.Struct("<i")
_CRC = struct.Struct("<I")
_TAIL = 5
"""Bytes at the end of a block, after the positions of its entries."""


# ------------------------------------------------------------------------------------------------- writing


def btree_file(rows: SortedRows, settings: FileSettings) -> bytes:
    """Return the index file of some rows."""
    records = _Records(rows)
    parts: list[bytes] = []
    index: list[tuple[bytes, Handle]] = []
    at = 0
    for first, end in pairwise(_block_starts(records.lengths, settings.block_size)):
        data, size = sealed(records.block(first, end), settings.compression, settings.level)
        parts.append(data)
        index.append((records.key(end - 1), Handle(at, size)))
        at += len(data)
    nulls = Handle(0, 0)
    if rows.nulls:
        body = bitmap64(rows.nulls)
        nulls = Handle(at, len(body))
        parts.append(body + _CRC.pack(zlib.crc32(body)))
        at += len(parts[-1])
    data, size = sealed(_index_block(index), settings.compression, settings.level)
    footer = _FOOTER.pack(0, 0, 0, at, size, nulls.offset, nulls.size, _VERSION, _MAGIC)
    return b"".join([*parts, data, footer])


class _Records:
    """The entries of the groups of rows; `lengths` are their bytes."""

    def __init__(self, rows: SortedRows) -> None:
        self._rows = rows
        self._counts = rows.counts
        self._key_ends = np.cumsum(rows.key_lengths)
        id_lengths = np.concatenate([[0], np.cumsum(lengths_of(rows.ids))])
        ends = np.append(rows.starts, len(rows.ids))
        self._id_bytes = np.diff(id_lengths[ends])
        self._values = lengths_of(self._counts) + self._id_bytes
        keys = rows.key_lengths
        self.lengths = lengths_of(keys) + keys + lengths_of(self._values) + self._values

    def key(self, group: int) -> bytes:
        """Return the key of a group."""
        end = int(self._key_ends[group])
        return self._rows.keys[end - int(self._rows.key_lengths[group]) : end].tobytes()

    def block(self, first: int, end: int) -> bytes:
        """Return the block of some consecutive groups."""
        lengths, some = self.lengths[first:end], slice(first, end)
        starts = np.cumsum(lengths) - lengths
        out = np.empty(int(lengths.sum()), np.uint8)
        places = starts.copy()
        keys, values, counts = self._rows.key_lengths[some], self._values[some], self._counts[some]
        places = put_varints_after(out, places, keys)
        key_start = int(self._key_ends[first]) - int(keys[0])
        put_bytes(out, places, self._rows.keys[key_start : int(self._key_ends[end - 1])], keys)
        places = put_varints_after(out, places + keys, values)
        places = put_varints_after(out, places, counts)
        row = int(self._rows.starts[first])
        ids, _ = varints(self._rows.ids[row : row + int(counts.sum())])
        put_bytes(out, places, ids, self._id_bytes[some])
        return out.tobytes() + _positions(starts, lengths)


def _positions(starts: Ints, lengths: Ints) -> bytes:
    """Return the end of a block: the positions of its entries."""
    if len(lengths) and bool((lengths == lengths[0]).all()):
        return _INT.pack(int(lengths[0])) + b"\0"
    return starts.astype("<i4").tobytes() + _INT.pack(len(starts)) + b"\1"


def _block_starts(lengths: Ints, size: int) -> list[int]:
    """Return where the blocks begin, and the end: a block ends with the entry that makes it larger than `size`."""
    ends = np.cumsum(lengths)
    with_positions = ends + _INT.size * np.arange(1, len(lengths) + 1)
    changes = np.flatnonzero(lengths[1:] != lengths[:-1]) + 1
    out = [0]
    while out[-1] < len(lengths):
        first = out[-1]
        before = int(ends[first - 1]) if first else 0
        last = int(np.searchsorted(ends, before + size - _TAIL, side="right"))
        at = int(np.searchsorted(changes, first, side="right"))
        differs = int(changes[at]) if at < len(changes) else len(lengths)
        if last >= differs:
            limit = before + _INT.size * first + size - _TAIL
            last = max(differs, int(np.searchsorted(with_positions, limit, side="right")))
        out.append(min(max(last, first) + 1, len(lengths)))
    return out


def _index_block(entries: Sequence[tuple[bytes, Handle]]) -> bytes:
    records = []
    for key, handle in entries:
        place = handle.packed()
        records.append(varint(len(key)) + key + varint(len(place)) + place)
    lengths = np.array([len(r) for r in records], np.int64)
    return b"".join(records) + _positions(np.cumsum(lengths) - lengths, lengths)


# ------------------------------------------------------------------------------------------------- reading


class BTreeReader(IndexReader):
    """Finds rows in a file.

    Args:
        read: reads bytes of the file.
        size: the bytes of the file.
        domain: the keys.
        rows: the number of rows of its range.

    Raises:
        ValueError: the file is malformed.
    """

    def __init__(self, read: Read, size: int, domain: KeyDomain, rows: int) -> None:
        self._read, self._domain, self._rows = read, domain, rows
        footer = read(size - _FOOTER.size, _FOOTER.size) if size >= _FOOTER.size else b""
        if len(footer) != _FOOTER.size:
            raise ValueError("it is cut off")
        *_, at, length, null_at, null_length, version, magic = _FOOTER.unpack(footer)
        if magic != _MAGIC or version != _VERSION:
            raise ValueError(f"it has the version {version} and the mark {magic:x} instead of {_VERSION}, {_MAGIC:x}")
        self._index, self._nulls = Handle(at, length), Handle(null_at, null_length)

    @cached_property
    def _blocks(self) -> tuple[list[Code], list[Handle]]:
        """Return the last key and the place of each block."""
        block = _Block(read_block(self._read, self._index))
        keys, handles = [], []
        for entry in range(len(block)):
            key, value = block.entry(entry)
            keys.append(self._domain.code(key))
            handles.append(Handle.parse(value)[0])
        return keys, handles

    def among(self, codes: Sequence[Code]) -> Rows:
        """Return the rows whose value has one of the codes."""
        found = BitMap()
        blocks: dict[int, _Block] = {}
        keys, _ = self._blocks
        for code in sorted(set(codes)):
            for place in range(bisect_left(keys, code), min(bisect_right(keys, code) + 1, len(keys))):
                if place not in blocks:
                    blocks = {place: self._block(place)}
                block = blocks[place]
                first, end = block.search(code, self._domain), block.search(code, self._domain, beyond=True)
                found |= self._bitmap(block.ids(first, end))
        return found

    def nulls(self) -> Rows:
        """Return the rows that are null."""
        if not self._nulls.size:
            return BitMap()
        data = self._read(self._nulls.offset, self._nulls.size + _CRC.size)
        body = data[: self._nulls.size]
        if len(data) != self._nulls.size + _CRC.size or _CRC.unpack(data[len(body) :])[0] != zlib.crc32(body):
            raise ValueError("the checksum of its nulls is wrong")
        return parse_bitmap64(body, self._rows)

    def at_least(self, code: Code, *, strictly: bool = False) -> Rows:
        """Return the rows whose code is `code` or greater, or greater only."""
        keys, _ = self._blocks
        found = BitMap()
        for place in range((bisect_right if strictly else bisect_left)(keys, code), len(keys)):
            block = self._block(place)
            first = block.search(code, self._domain, beyond=strictly)
            found |= self._bitmap(block.ids(first, len(block)))
        return found

    def at_most(self, code: Code, *, strictly: bool = False) -> Rows:
        """Return the rows whose code is `code` or less, or less only."""
        keys, _ = self._blocks
        found = BitMap()
        for place in range(min((bisect_left if strictly else bisect_right)(keys, code) + 1, len(keys))):
            block = self._block(place)
            end = block.search(code, self._domain, beyond=not strictly)
            found |= self._bitmap(block.ids(0, end))
        return found

    def _block(self, place: int) -> _Block:
        return _Block(read_block(self._read, self._blocks[1][place]))

    def _bitmap(self, ids: Ints) -> BitMap:
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < self._rows:
            raise ValueError(f"it names the row {int(ids.max())}, but its range has {self._rows} rows")
        return bitmap_of(ids)


class _Block:
    """The entries of a block.

    Raises:
        ValueError: the block is malformed.
    """

    def __init__(self, data: bytes) -> None:
        if len(data) < _TAIL:
            raise ValueError("a block is cut off")
        (number,) = _INT.unpack_from(data, len(data) - _TAIL)
        equal, end = data[-1] == 0, len(data) - _TAIL
        if equal:
            if number <= 0 or end % number:
                raise ValueError("the entries of a block are not equally long")
            self._places: Ints = np.arange(0, end, number)
        else:
            end -= _INT.size * number
            if number < 0 or end < 0:
                raise ValueError("the positions in a block are cut off")
            self._places = np.frombuffer(data, "<i4", number, end).astype(np.int64)
            if number and not 0 <= int(self._places.min()) <= int(self._places.max()) < end:
                raise ValueError("a position in a block is beyond its end")
        self._data = data[:end]

    def __len__(self) -> int:
        return len(self._places)

    def entry(self, number: int) -> tuple[bytes, bytes]:
        """Return the key and the value of an entry."""
        key, at = self._text(int(self._places[number]))
        return key, self._text(at)[0]

    def _text(self, at: int) -> tuple[bytes, int]:
        length, at = read_varint(self._data, at)
        if at + length > len(self._data):
            raise ValueError("an entry of a block is cut off")
        return self._data[at : at + length], at + length

    def search(self, code: Code, domain: KeyDomain, *, beyond: bool = False) -> int:
        """Return the number of the first entry whose key has the code or a greater one, or a greater one only."""

        def of_entry(place: int) -> Code:
            return domain.code(self._text(int(place))[0])

        return (bisect_right if beyond else bisect_left)(self._places, code, key=of_entry)

    def ids(self, first: int, end: int) -> Ints:
        """Return the rows of some entries."""
        data = np.frombuffer(self._data, np.uint8)
        keys, at = varints_at(data, self._places[first:end])
        values, at = varints_at(data, at + keys)
        ends = at + values
        counts, at = varints_at(data, at)
        if len(ends) and (int(ends.max()) > len(data) or bool((ends < at).any())):
            raise ValueError("an entry of a block is cut off")
        found = all_varints(data[spread(at, ends - at)])
        if len(found) != int(counts.sum()):
            raise ValueError("an entry of a block has another number of rows than it says")
        return found

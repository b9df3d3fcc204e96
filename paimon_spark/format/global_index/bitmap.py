"""Index files of the kind `bitmap`: a dictionary of the values in ascending order, and a bitmap of the rows of each.

All fixed numbers are big-endian, except those of block trailers. The layout::

    bitmaps       the rows of each value as a 64-bit bitmap
    dictionary    blocks of entries: key, position and length of the bitmap
    nulls         a bitmap of the rows without a value, and one of the others
    index         a block with an entry for each block of the dictionary: its first key, its position and length
    footer        48 bytes: position and length of the two bitmaps and of the index; number of values; version; mark

Blocks begin with the number of their entries. In them, numbers are of variable length, and keys preceded by theirs.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from pyroaring import BitMap

from paimon_spark.format.file_index.base import IndexReader, Rows
from paimon_spark.format.file_index.roaring import Groups, Ints
from paimon_spark.format.file_index.values import Code
from paimon_spark.format.global_index.blocks import Handle, Read, read_block, sealed
from paimon_spark.format.global_index.keys import KeyDomain
from paimon_spark.format.global_index.sorted_rows import FileSettings, SortedRows, bitmap64, cuts, parse_bitmap64
from paimon_spark.format.varints import (
    lengths_of,
    put_bytes,
    put_varints_after,
    read_varint,
    varint,
)

_FOOTER = struct.Struct(">qiqiqiiii")
_MAGIC = 0x42474958
_VERSION = 1
_PREFIX = np.frombuffer(bitmap64(BitMap([0]))[:12], np.uint8)
"""What a 64-bit bitmap has before its 32-bit one."""
_VALUES_AT_ONCE = 1 << 16
"""Number of bitmaps that are written together: array operations on them take many times their size."""
_MOST_VALUES = 10_000
"""A comparison that more values satisfy is not evaluated."""


# ------------------------------------------------------------------------------------------------- writing


def bitmap_file(rows: SortedRows, settings: FileSettings) -> bytes:
    """Return the index file of some rows."""
    parts, lengths = _bitmaps(rows)
    starts, at = np.cumsum(lengths) - lengths, int(lengths.sum())
    index: list[tuple[bytes, Handle]] = []
    entries = _Entries(rows, starts, lengths)
    for first, end in pairwise(cuts(entries.lengths, settings.block_size)):
        block, size = sealed(entries.block(first, end), settings.compression, settings.level)
        index.append((entries.key(first), Handle(at, size)))
        parts.append(block)
        at += len(block)
    valid = BitMap()
    valid.add_range(0, rows.rows)
    nulls, others = bitmap64(rows.nulls), bitmap64(valid - rows.nulls)
    body = varint(len(index)) + b"".join(varint(len(k)) + k + h.packed() for k, h in index)
    block, size = sealed(body, settings.compression, settings.level)
    middle = at + len(nulls)
    footer = _FOOTER.pack(
        at,
        len(nulls),
        middle,
        len(others),
        middle + len(others),
        size,
        len(rows.starts),
        _VERSION,
        _MAGIC,
    )
    return b"".join([*parts, nulls, others, block, footer])


def _bitmaps(rows: SortedRows) -> tuple[list[bytes], Ints]:
    """Return the bitmaps of all values one after the other, in parts, and the length of each."""
    count = len(rows.starts)
    ends = np.append(rows.starts[1:], len(rows.ids))
    parts: list[bytes] = []
    lengths = np.zeros(count, np.int64)
    for first in range(0, count, _VALUES_AT_ONCE):
        some = slice(first, min(first + _VALUES_AT_ONCE, count))
        start = int(rows.starts[first])
        groups = Groups(rows.ids[start : int(ends[some][-1])], rows.starts[some] - start)
        plain, _, sizes = groups.serialize(np.arange(len(groups.starts)))
        lengths[some] = sizes + len(_PREFIX)
        places = np.cumsum(lengths[some]) - lengths[some]
        out = np.empty(int(lengths[some].sum()), np.uint8)
        out[places[:, None] + np.arange(len(_PREFIX))] = _PREFIX
        put_bytes(out, places + len(_PREFIX), np.frombuffer(plain, np.uint8), sizes)
        parts.append(out.tobytes())
    return parts, lengths


class _Entries:
    """The dictionary; `lengths` are the bytes of its entries."""

    def __init__(self, rows: SortedRows, places: Ints, sizes: Ints) -> None:
        self._keys, self._key_lengths = rows.keys, rows.key_lengths
        self._key_ends = np.cumsum(rows.key_lengths)
        self._places, self._sizes = places, sizes
        keys = self._key_lengths
        self.lengths = lengths_of(keys) + keys + lengths_of(places) + lengths_of(sizes)

    def key(self, number: int) -> bytes:
        """Return the key of an entry."""
        end = int(self._key_ends[number])
        return self._keys[end - int(self._key_lengths[number]) : end].tobytes()

    def block(self, first: int, end: int) -> bytes:
        """Return a block of the dictionary."""
        some, lengths = slice(first, end), self.lengths[first:end]
        out = np.empty(int(lengths.sum()), np.uint8)
        keys = self._key_lengths[some]
        places = put_varints_after(out, np.cumsum(lengths) - lengths, keys)
        start = int(self._key_ends[first]) - int(keys[0])
        put_bytes(out, places, self._keys[start : int(self._key_ends[end - 1])], keys)
        put_varints_after(out, put_varints_after(out, places + keys, self._places[some]), self._sizes[some])
        return varint(end - first) + out.tobytes()


# ------------------------------------------------------------------------------------------------- reading


class BitmapReader(IndexReader):
    """Finds rows in a file; arguments and errors are those of `BTreeReader`."""

    def __init__(self, read: Read, size: int, domain: KeyDomain, rows: int) -> None:
        self._read, self._domain, self._rows = read, domain, rows
        footer = read(size - _FOOTER.size, _FOOTER.size) if size >= _FOOTER.size else b""
        if len(footer) != _FOOTER.size:
            raise ValueError("it is cut off")
        *places, _, version, magic = _FOOTER.unpack(footer)
        if magic != _MAGIC or version != _VERSION:
            raise ValueError(f"it has the version {version} and the mark {magic:x} instead of {_VERSION}, {_MAGIC:x}")
        self._nulls, self._others, self._index = (Handle(*places[i : i + 2]) for i in (0, 2, 4))

    @cached_property
    def _blocks(self) -> tuple[list[Code], list[Handle]]:
        """Return the first key and the place of each block of the dictionary."""
        return self._entries(self._index)

    def _entries(self, block: Handle) -> tuple[list[Code], list[Handle]]:
        data = read_block(self._read, block)
        count, at = read_varint(data, 0)
        keys, handles = [], []
        for _ in range(count):
            length, at = read_varint(data, at)
            if at + length > len(data):
                raise ValueError("an entry of a block is cut off")
            keys.append(self._domain.code(data[at : at + length]))
            handle, at = Handle.parse(data, at + length)
            handles.append(handle)
        return keys, handles

    def among(self, codes: Sequence[Code]) -> Rows:
        """Return the rows whose value has one of the codes."""
        found = BitMap()
        firsts, blocks = self._blocks
        last, keys, handles = -1, list[Code](), list[Handle]()
        for code in sorted(set(codes)):
            for place in range(self._first_block(code), bisect_right(firsts, code)):
                if place != last:
                    last, (keys, handles) = place, self._entries(blocks[place])
                found |= self._union(handles[bisect_left(keys, code) : bisect_right(keys, code)])
        return found

    def _first_block(self, code: Code) -> int:
        """Return the first block that may have the code or a greater one."""
        return max(bisect_left(self._blocks[0], code) - 1, 0)

    def valid(self) -> Rows:
        """Return the rows that are not null."""
        return self._bitmap(self._others)

    def nulls(self) -> Rows:
        """Return the rows that are null."""
        return self._bitmap(self._nulls)

    def at_least(self, code: Code, *, strictly: bool = False) -> Rows:
        """Return the rows whose code is `code` or greater, or greater only."""
        chosen: list[Handle] = []
        for place in range(self._first_block(code), len(self._blocks[1])):
            keys, handles = self._entries(self._blocks[1][place])
            chosen += handles[(bisect_right if strictly else bisect_left)(keys, code) :]
            if len(chosen) > _MOST_VALUES:
                return None
        return self._union(chosen)

    def at_most(self, code: Code, *, strictly: bool = False) -> Rows:
        """Return the rows whose code is `code` or less, or less only."""
        chosen: list[Handle] = []
        for place in range(bisect_right(self._blocks[0], code)):
            keys, handles = self._entries(self._blocks[1][place])
            chosen += handles[: (bisect_left if strictly else bisect_right)(keys, code)]
            if len(chosen) > _MOST_VALUES:
                return None
        return self._union(chosen)

    def _union(self, handles: Sequence[Handle]) -> BitMap:
        return BitMap.union(BitMap(), *map(self._bitmap, handles))

    def _bitmap(self, handle: Handle) -> BitMap:
        data = self._read(handle.offset, handle.size)
        if len(data) != handle.size:
            raise ValueError("a bitmap is cut off")
        return parse_bitmap64(data, self._rows)

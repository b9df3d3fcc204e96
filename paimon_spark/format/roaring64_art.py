"""64-bit roaring bitmaps in the radix tree layout of the Java library (``Roaring64Bitmap``), which Paimon stores.

All numbers are little-endian. The upper 48 bits of a value are the key of its container. The layout::

    byte    0 for an empty bitmap, which ends here; otherwise 1
    int64   number of containers
    nodes   the tree over the keys, in pre-order: children follow their parent, ascending by key
    int32   number of slot arrays: 1
    byte    -2
    int32   number of slots
    slots   byte 0 for an empty one; otherwise byte 1, kind as a byte, int32 cardinality, and the container
    int64   number of containers
    int32   index of the last array: 0
    int32   index of the last slot with a container

A node is its kind (0 to 3 for branches of up to 4, 16, 48 and 256 children, 4 for a leaf), an int16 with the number of
children, the length of its prefix as a byte, the prefix, and a body. Prefix and body of a branch have the key bytes of
its children; a leaf has its whole key, big-endian, and an int64 with the slot of its container. Containers are those of
the portable 32-bit format: runs (kind 0), a bitmap of 8192 bytes (1), or an array of uint16 (2).

The order in which containers were added determines their slots and the bodies of branches of up to 48 children, and the
growth of the slot array leaves empty slots at its end. `ArtBitmap` keeps both, so that a union has the bytes of a union
in Java. Only where runs and an array take equal space, or Java keeps runs that take more, the kinds may differ.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from pyroaring import BitMap

from paimon_spark.format.arrays import U64

_COUNT = struct.Struct("<q")
_NODE = struct.Struct("<BhB")
_KEY_BYTES = 6
_LEAF_BODY = struct.Struct(f"<{_KEY_BYTES}sq")
_LEAF = 4
_BRANCHES = ((4, 4), (16, 16), (48, 256), (256, 32))
"""The most children that a branch of each kind has, and the length of its body."""
_ARRAYS = struct.Struct("<ibi")
_NOT_TRIMMED = -2
_SLOT = struct.Struct("<BBi")
_TAIL = struct.Struct("<qii")
_RUN, _BITMAP, _ARRAY = range(3)
_BITMAP_BYTES = 8192
_ARRAY_MAX = 4096
_CHUNK = 1 << 16
_COOKIE = struct.Struct("<IIHHI")
_RUN_COOKIE = struct.Struct("<HHBHH")
_PLAIN, _RUNS = 12346, 12347
_RUNS_LENGTH = struct.Struct("<H")
_SHORT = 3
"""Arrays of up to this number of values are never longer than runs."""

_Stored: TypeAlias = tuple[int, int, bytes]
"""Kind, cardinality and bytes of a container."""


@dataclass(slots=True)
class ArtBitmap:
    """A bitmap as containers of the lower 16 bits, with their slots, which also determine its bytes.

    Attributes:
        containers: the containers by key, in the order of their slots; unchanged containers of a file are tuples.
        slots: the number of slots.
    """

    containers: dict[int, _Stored | BitMap] = field(default_factory=dict)
    slots: int = 0

    def add_all(self, other: ArtBitmap) -> None:
        """Add the values of another bitmap, which must not be used afterwards.

        Raises: ValueError: a container is malformed.
        """
        for key in sorted(other.containers):
            added = other.containers[key]
            own = self.containers.get(key)
            if own is None:
                self.containers[key] = added
                if len(self.containers) > self.slots:
                    self.slots = max(self.slots + self.slots // 2, len(self.containers))
            else:
                bits = _bits(own)
                bits |= _bits(added)
                self.containers[key] = bits

    def values(self) -> U64:
        """Return the values in ascending order.

        Raises: ValueError: a container is malformed.
        """
        parts = [
            np.frombuffer(_bits(self.containers[key]).to_array(), np.uint32) + np.uint64(key << 16)
            for key in sorted(self.containers)
        ]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)


def read_art(data: bytes) -> ArtBitmap:
    """Return a serialized bitmap. Bytes after it are ignored, as in Java; containers are checked when they are used.

    Raises: ValueError: the bytes are not a valid bitmap.
    """
    try:
        if data[0] == 0:
            return ArtBitmap()
        if data[0] != 1:
            raise ValueError(f"it begins with {data[0]}")
        keys, slots, at = _read_tree(data, 1 + _COUNT.size)
        containers, total, at = _read_slots(data, at)
    except (IndexError, struct.error):
        raise ValueError("it is cut off") from None
    if at + _TAIL.size > len(data):
        raise ValueError("it is cut off")
    if len(keys) == 1:
        return ArtBitmap({keys[0]: _only(containers, slots[0])}, total)
    if sorted(slots) != list(containers) or any(a >= b for a, b in pairwise(keys)):
        raise ValueError("its tree does not fit its containers")
    by_slot = dict(zip(slots, keys, strict=True))
    return ArtBitmap({by_slot[slot]: container for slot, container in containers.items()}, total)


def _only(containers: dict[int, _Stored], slot: int) -> _Stored:
    if [*containers] != [slot]:
        raise ValueError("its tree does not fit its containers")
    return containers[slot]


def _read_tree(data: bytes, at: int) -> tuple[list[int], list[int], int]:
    """Return the keys of the leaves, their slots, and where the tree ends."""
    keys: list[int] = []
    slots: list[int] = []
    pending = 1
    while pending:
        kind, count, prefix = _NODE.unpack_from(data, at)
        at += _NODE.size + prefix
        if kind == _LEAF:
            key, slot = _LEAF_BODY.unpack_from(data, at)
            keys.append(int.from_bytes(key, "big"))
            slots.append(slot)
            at += _LEAF_BODY.size
            pending -= 1
        elif kind < _LEAF and 0 < count <= _BRANCHES[kind][0]:
            at += _BRANCHES[kind][1]
            pending += count - 1
        else:
            raise ValueError("its tree has a node of no known kind")
    return keys, slots, at


def _read_slots(data: bytes, at: int) -> tuple[dict[int, _Stored], int, int]:
    """Return the containers by slot, the number of slots, and where they end."""
    arrays, _, total = _ARRAYS.unpack_from(data, at)
    if arrays != 1:
        raise ValueError(f"it has {arrays} arrays of containers")
    at += _ARRAYS.size
    out: dict[int, _Stored] = {}
    for slot in range(total):
        if not data[at]:
            at += 1
            continue
        mark, kind, cardinality = _SLOT.unpack_from(data, at)
        if mark != 1 or kind > _ARRAY or not 0 < cardinality <= _CHUNK:
            raise ValueError("it has a container of no known kind or size")
        at += _SLOT.size
        size = 2 * cardinality if kind == _ARRAY else _BITMAP_BYTES
        if kind == _RUN:
            size = 2 + 4 * _RUNS_LENGTH.unpack_from(data, at)[0]
        out[slot] = (kind, cardinality, data[at : at + size])
        at += size
    return out, total, at


def _bits(container: _Stored | BitMap) -> BitMap:
    """Return a container as a bitmap; raises ValueError if it is malformed."""
    if isinstance(container, BitMap):
        return container
    kind, cardinality, data = container
    if kind == _RUN:
        return BitMap.deserialize(_RUN_COOKIE.pack(_RUNS, 0, 1, 0, cardinality - 1) + data)
    if kind == _ARRAY and cardinality > _ARRAY_MAX:
        return BitMap(np.frombuffer(data, "<u2").astype(np.uint32))
    if kind == _BITMAP and cardinality <= _ARRAY_MAX:
        bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        return BitMap(np.flatnonzero(bits).astype(np.uint32))
    return BitMap.deserialize(_COOKIE.pack(_PLAIN, 1, 0, cardinality - 1, _COOKIE.size) + data)


def write_art(bitmap: ArtBitmap) -> bytes:
    """Return the bytes of a bitmap with containers of the smallest kind.

    Raises: ValueError: a container is malformed.
    """
    n = len(bitmap.containers)
    if not n:
        return b"\0"
    parts = [b"\1", _COUNT.pack(n)]
    slots = {key: slot for slot, key in enumerate(bitmap.containers)}
    _add_node(parts, sorted(slots), slots, 0)
    parts.append(_ARRAYS.pack(1, _NOT_TRIMMED, bitmap.slots))
    parts += map(_slot, bitmap.containers.values())
    parts += (bytes(bitmap.slots - n), _TAIL.pack(n, 0, n - 1))
    return b"".join(parts)


def _slot(container: _Stored | BitMap) -> bytes:
    if isinstance(container, tuple):
        kind, cardinality, data = container
        if kind == _ARRAY and cardinality <= _SHORT and _ascend(data, cardinality):
            return _SLOT.pack(1, kind, cardinality) + data
    bits = _bits(container)
    bits.run_optimize()
    data = bits.serialize()
    if data[0] == _RUNS & 0xFF:
        return _SLOT.pack(1, _RUN, len(bits)) + data[_RUN_COOKIE.size :]
    return _SLOT.pack(1, _ARRAY if len(bits) <= _ARRAY_MAX else _BITMAP, len(bits)) + data[_COOKIE.size :]


def _ascend(array: bytes, count: int) -> bool:
    values = struct.unpack(f"<{count}H", array)
    return count == 1 or (values[0] < values[1] and values[-2] < values[-1])


def _add_node(parts: list[bytes], keys: Sequence[int], slots: dict[int, int], depth: int) -> None:
    """Append the node over ascending keys, which agree in their first `depth` bytes, and its children."""
    first = keys[0]
    if len(keys) == 1:
        parts.append(_NODE.pack(_LEAF, 0, 0) + _LEAF_BODY.pack(first.to_bytes(_KEY_BYTES, "big"), slots[first]))
        return
    shift = ((first ^ keys[-1]).bit_length() - 1) // 8 * 8
    at = _KEY_BYTES - 1 - shift // 8
    children = []
    begin = 0
    while begin < len(keys):
        end = bisect_left(keys, (keys[begin] >> shift) + 1 << shift, begin + 1)
        children.append(keys[begin:end])
        begin = end
    kind = next(i for i, (most, _) in enumerate(_BRANCHES) if len(children) <= most)
    parts.append(_NODE.pack(kind, len(children), at - depth) + first.to_bytes(_KEY_BYTES, "big")[depth:at])
    ways = bytes(child[0] >> shift & 0xFF for child in children)
    added = [min(slots[key] for key in child) for child in children] if kind == 2 else []
    parts.append(_branch_body(kind, ways, added))
    for child in children:
        _add_node(parts, child, slots, at + 1)


def _branch_body(kind: int, ways: bytes, added: Sequence[int]) -> bytes:
    """Return the body of a branch with the key bytes `ways`, whose children were added in the order of `added`."""
    if kind == 3:
        return sum(1 << way for way in ways).to_bytes(32, "little")
    if kind == 0:
        return ways.ljust(4, b"\0")[::-1]
    if kind == 1:
        return _words(ways.ljust(16, b"\0"))
    order = sorted(range(len(ways)), key=added.__getitem__)
    grown = _BRANCHES[1][0]  # the children of the smaller branch that this one grew from are sorted
    index = bytearray(b"\xff" * 256)
    for place, child in enumerate([*sorted(order[:grown]), *order[grown:]]):
        index[ways[child]] = place
    return _words(bytes(index))


def _words(body: bytes) -> bytes:
    """Return bytes as the words of eight that Java fills from the upper end."""
    return b"".join(body[i : i + 8][::-1] for i in range(0, len(body), 8))

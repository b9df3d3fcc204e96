"""Sketches of Apache DataSketches: the unions of HLL and of theta sketches."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from paimon_spark.core.merge.aggregates.bitmaps import SerializedUnion
from paimon_spark.errors import EngineError, ErrorKind
from paimon_spark.spec.types import DataField

_THETA_LG_K = 12
"""The size of Paimon's unions: the default of the Java library."""
_PREAMBLE = struct.Struct("<BBBBBBHif")
"""Of theta sketches: longs of the preamble, version, family, two sizes, flags, seed hash, count, probability."""
_LONG_PREAMBLE = 3
_VERSION = 3
_QUICK_SELECT, _COMPACT = 2, 3
_FLAGS = 5
_EMPTY = 4
_ORDERED = 0x1A
_SINGLE_ITEM = 0x20
_SAMPLING = struct.pack("<f", 1.0)
_HLL_VERSION = 1
_HLL_FAMILY = 7
_HLL_LG_K = range(4, 22)
_HLL_COMPACT = 8
_HLL_LIST, _HLL_SET, _HLL_ARRAY = range(3)
_HLL_4, _HLL_6, _HLL_8 = range(3)
_LIST_ROOM = 8
_SET_LG_ROOM = 5
_ARRAY_START = 40
_SLOT_BITS = 26
_LARGEST = 63
_ELSEWHERE = 15
"""Marks the slots of an HLL_4 array whose value is among the exceptions."""


def hll_union(field: DataField) -> SerializedUnion:
    """Return the function that merges the HLL sketches of a column to compact ones of type HLL_4.

    Raises:
        EngineError: the library cannot be imported.
    """
    library = _library(field)

    def union(values: Sequence[bytes]) -> bytes:
        for value in values:
            _check_hll(value)
        merged = values[0]
        for value in values[1:]:
            newer = library.hll_sketch.deserialize(value)
            step = library.hll_union(newer.lg_config_k)  # Paimon's union has the size of the newer sketch
            step.update(newer)
            step.update(library.hll_sketch.deserialize(merged))
            merged = step.get_result(library.tgt_hll_type.HLL_4).serialize_compact()
        return merged

    return SerializedUnion(field, "HLL sketch", union)


def theta_union(field: DataField) -> SerializedUnion:
    """Return the function that merges the theta sketches of a column to compact ones.

    Raises:
        EngineError: the library cannot be imported.
    """
    library = _library(field)

    def union(values: Sequence[bytes]) -> bytes:
        merged = library.theta_union(_THETA_LG_K)
        for value in values:
            merged.update(library.compact_theta_sketch.deserialize(_compact(value)))
        return _as_java(merged.get_result().serialize())

    return SerializedUnion(field, "theta sketch", union)


def _library(field: DataField) -> Any:
    try:
        import datasketches  # here, because few tables have sketches
    except ImportError as e:
        raise EngineError(
            f"The sketches of column '{field.name}' need the package 'datasketches', which cannot be imported: {e}.",
            hint="Install it on all machines: pip install datasketches",
            kind=ErrorKind.ENVIRONMENT,
        ) from e
    return datasketches


def _check_hll(sketch: bytes) -> None:
    """Raise ValueError for a malformed HLL sketch, by which the library could read or write outside of its memory."""
    if len(sketch) < 8:
        raise ValueError("it is cut off")
    _, version, family, lg_k, lg_room, flags, count, mode = sketch[:8]
    if version != _HLL_VERSION or family != _HLL_FAMILY or lg_k not in _HLL_LG_K:
        raise ValueError("its preamble is not that of one")
    compact = bool(flags & _HLL_COMPACT)
    if mode & 3 == _HLL_LIST and count < _LIST_ROOM:
        _check_coupons(sketch, 8, count, count if compact else _LIST_ROOM)
    elif mode & 3 == _HLL_SET and lg_k - 3 >= _SET_LG_ROOM:
        (count,) = struct.unpack_from("<I", sketch.ljust(12, b"\xff"), 8)
        lg_room = max(lg_room, _SET_LG_ROOM)
        if lg_room > lg_k - 3 or 4 * count > 3 << lg_k - 3:
            raise ValueError("it has more coupons than fit")
        _check_coupons(sketch, 12, count, count if compact else 1 << lg_room)
    elif mode & 3 == _HLL_ARRAY and mode >> 2 & 3 <= _HLL_8 and len(sketch) >= _ARRAY_START:
        _check_array(sketch, mode >> 2 & 3, 1 << lg_k, compact=compact)
    else:
        raise ValueError("it has no known layout")


def _check_coupons(sketch: bytes, start: int, count: int, room: int) -> None:
    if len(sketch) < start + 4 * room:
        raise ValueError("it is cut off")
    if room - struct.unpack_from(f"<{room}I", sketch, start).count(0) != count:
        raise ValueError("it has empty coupons")


def _check_array(sketch: bytes, kind: int, k: int, *, compact: bool) -> None:
    least, exceptions = sketch[6], struct.unpack_from("<I", sketch, 36)[0]
    end = _ARRAY_START + {_HLL_4: k // 2, _HLL_6: k // 4 * 3 + 1, _HLL_8: k}[kind]
    room = exceptions if compact or not exceptions else 1 << sketch[4]
    if len(sketch) < end + 4 * room:
        raise ValueError("it is cut off")
    array = np.frombuffer(sketch, np.uint8, end - _ARRAY_START, _ARRAY_START)
    marked = []
    if kind == _HLL_4:
        values = np.stack((array & 15, array >> 4), axis=1).ravel()
        marked = np.flatnonzero(values == _ELSEWHERE).tolist()
        array = values[values != _ELSEWHERE] + least
    pairs = np.frombuffer(sketch, "<u4", room, end)
    slots = np.sort(pairs[pairs > 0] & ((1 << _SLOT_BITS) - 1) & (k - 1)).tolist()
    if slots != marked or least > _LARGEST or (kind != _HLL_6 and array.max(initial=0) > _LARGEST):
        raise ValueError("its array has values out of range")


def _compact(sketch: bytes) -> bytes:
    """Return a theta sketch in compact form; the library reads no updatable ones, which have a hash table."""
    if len(sketch) < _PREAMBLE.size or sketch[2] != _QUICK_SELECT:
        return sketch
    flags, seed_hash = sketch[_FLAGS], _PREAMBLE.unpack_from(sketch)[6]
    if flags & _EMPTY:
        return _PREAMBLE.pack(1, _VERSION, _COMPACT, 0, 0, _ORDERED | _EMPTY, seed_hash, 0, 1.0)[:8]
    theta, *_ = struct.unpack_from("<Q", sketch, 16)
    table = np.frombuffer(sketch, "<u8", offset=24)
    hashes = np.sort(table[(table > 0) & (table < theta)])
    head = _PREAMBLE.pack(_LONG_PREAMBLE, _VERSION, _COMPACT, 0, 0, _ORDERED, seed_hash, len(hashes), 1.0)
    return head + struct.pack("<Q", theta) + hashes.tobytes()


def _as_java(sketch: bytes) -> bytes:
    """Return a compact theta sketch with the values that the Java library gives to fields without a meaning."""
    if sketch[_FLAGS] & _EMPTY:
        return sketch[:6] + bytes(2)
    if len(sketch) == _PREAMBLE.size:
        return sketch[:_FLAGS] + bytes([sketch[_FLAGS] | _SINGLE_ITEM]) + sketch[_FLAGS + 1 :]
    return sketch[:12] + _SAMPLING + sketch[16:]

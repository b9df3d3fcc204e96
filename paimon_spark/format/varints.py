"""Numbers of variable length as arrays, and byte strings placed by arrays of offsets.

Varints have 7 bits a byte from the lowest; numbers that may be negative are first mapped to others by zigzag.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.format.arrays import I64, U64
from paimon_spark.format.file_index.roaring import Ints, spread

Bytes = npt.NDArray[np.uint8]
_LONGEST = 10
_MORE = 0x80
_DECIMAL_BYTES = 16


def zigzag(values: I64) -> U64:
    """Return numbers that are small if those given are near 0."""
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


def unzigzag(coded: U64) -> I64:
    """Return the numbers that `zigzag` was given."""
    return (coded >> np.uint64(1)).view(np.int64) ^ -(coded & np.uint64(1)).view(np.int64)


def varint(value: int) -> bytes:
    """Return one number, which is not negative."""
    out = bytearray()
    while value >= _MORE:
        out.append(value & 0x7F | _MORE)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it.

    Raises:
        ValueError: the data ends within the number.
    """
    value = 0
    for i in range(_LONGEST):
        if at + i >= len(data):
            break
        byte = data[at + i]
        value |= (byte & 0x7F) << 7 * i
        if byte < _MORE:
            return value, at + i + 1
    raise ValueError("a number does not end")


def lengths_of(values: Ints) -> Ints:
    """Return the bytes that each number takes."""
    out = np.ones(len(values), np.int64)
    limit = 1 << 7
    most = int(values.max(initial=0))
    while limit <= most:
        out += values >= limit
        limit <<= 7
    return out


def put_varints(out: Bytes, places: Ints, values: Ints, lengths: Ints) -> None:
    """Write each number at its place; `lengths` are those of `lengths_of`."""
    for i in range(int(lengths.max(initial=0))):
        has = lengths > i
        some = values[has]
        byte = some >> 7 * i & 0x7F
        out[places[has] + i] = np.where(lengths[has] > i + 1, byte | _MORE, byte).astype(np.uint8)


def put_varints_after(out: Bytes, places: Ints, values: Ints) -> Ints:
    """Write each number at its place; return the places after them."""
    lengths = lengths_of(values)
    put_varints(out, places, values, lengths)
    return places + lengths


def varints(values: Ints) -> tuple[Bytes, Ints]:
    """Return the numbers one after the other, and the length of each."""
    lengths = lengths_of(values)
    table = np.empty((len(values), int(lengths.max(initial=1))), np.uint8)
    for i in range(table.shape[1]):
        table[:, i] = (values >> values.dtype.type(7 * i)).astype(np.uint8) | _MORE
    out = table[np.arange(table.shape[1]) < lengths[:, None]]
    out[np.cumsum(lengths) - 1] &= _MORE - 1
    return out, lengths


def shortest_decimals(values: pa.Array) -> tuple[Bytes, Ints]:
    """Return the unscaled values of decimals without nulls one after the other, and the length of each.

    Each is in two's complement, the highest byte first, in as few bytes as possible: Java's `BigInteger.toByteArray`.
    """
    if not len(values):
        return np.zeros(0, np.uint8), np.zeros(0, np.int64)
    values = values.cast(pa.decimal128(values.type.precision, values.type.scale))
    start, size = _DECIMAL_BYTES * values.offset, _DECIMAL_BYTES * len(values)
    big = np.frombuffer(values.buffers()[1], np.uint8, size, start).reshape(-1, _DECIMAL_BYTES)[:, ::-1]
    sign = np.where(big[:, :1] >= 128, 255, 0)
    redundant = (big[:, :-1] == sign) & ((big[:, 1:] >= 128) == (sign == 255))
    unused = np.logical_and.accumulate(redundant, axis=1).sum(axis=1)
    return big[np.arange(_DECIMAL_BYTES) >= unused[:, None]], _DECIMAL_BYTES - unused


def varints_at(data: Bytes, places: Ints) -> tuple[Ints, Ints]:
    """Return the number at each place, and the place after it.

    Raises:
        ValueError: the data ends within a number, or one is too long.
    """
    values, at = np.zeros(len(places), np.int64), places.astype(np.int64)
    open_ = np.arange(len(places))
    for i in range(_LONGEST):
        if len(open_) and int(at[open_].max()) >= len(data):
            raise ValueError("a number does not end")
        byte = data[at[open_]].astype(np.int64)
        values[open_] |= (byte & 0x7F) << 7 * i
        at[open_] += 1
        open_ = open_[byte >= _MORE]
        if not len(open_):
            return values, at
    raise ValueError("a number is too long")


def all_varints(data: Bytes) -> Ints:
    """Return the numbers that the data consists of.

    Raises:
        ValueError: the data ends within a number.
    """
    if not len(data):
        return np.zeros(0, np.int64)
    ends = np.flatnonzero(data < _MORE)
    if not len(ends) or int(ends[-1]) != len(data) - 1:
        raise ValueError("a number does not end")
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends + 1 - starts
    if int(lengths.max()) > _LONGEST:
        raise ValueError("a number is too long")
    shifts = 7 * (np.arange(len(data)) - np.repeat(starts, lengths))
    return np.add.reduceat((data & 0x7F).astype(np.int64) << shifts, starts)


def put_bytes(out: Bytes, places: Ints, body: Bytes, lengths: Ints) -> None:
    """Write byte strings, given one after the other, at their places."""
    out[spread(places, lengths)] = body

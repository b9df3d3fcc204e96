"""Space-filling curves: one sort key over several columns that preserves locality in all of them.

Each value is encoded as 64 bits, or as a prefix of its text, so that unsigned order equals value order; the bits of all
columns are interleaved into one key (docs/spec/semantics.md, A8). Keys only order rows and are never stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.format.arrays import U64

U8 = npt.NDArray[np.uint8]
_SIGN = np.uint64(1 << 63)
_WORD_BYTES = 8
_HILBERT_BITS = 63


def zorder_keys(columns: Sequence[pa.Array], text_bytes: int) -> pa.Array:
    """Return the position of each row on the z-curve through `columns`, as binary that sorts bytewise.

    Args:
        columns: values of any non-nested type; null sorts first.
        text_bytes: length of the text prefix that is encoded.
    """
    return _binary(interleaved([_bytes(c, text_bytes) for c in columns]))


def hilbert_keys(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the position of each row on the Hilbert curve through `columns`, as sortable binary; null last."""
    points = [_axis(c) for c in columns]
    shift = np.uint64(64 - _HILBERT_BITS)
    turned = hilbert_transposed(points, _HILBERT_BITS)
    return _binary(interleaved([_big_endian(axis << shift) for axis in turned]))


def interleaved(columns: Sequence[U8]) -> U8:
    """Interleave the bits of byte matrices (rows × bytes), highest first; exhausted columns are skipped."""
    bits = [np.unpackbits(c, axis=1) for c in columns]
    longest = max(b.shape[1] for b in bits)
    starts = np.cumsum([0, *(b.shape[1] for b in bits)])
    order = [starts[i] + at for at in range(longest) for i, b in enumerate(bits) if at < b.shape[1]]
    return np.packbits(np.concatenate(bits, axis=1)[:, order], axis=1)


def hilbert_transposed(points: Sequence[U64], bits: int) -> list[U64]:
    """Return coordinates transformed so that their interleaved bits are the index on the Hilbert curve.

    John Skilling's method (Programming the Hilbert curve, 2004): rotations and reflections are undone level by level,
    then the Gray code. The loops run over bits and dimensions, not over rows.
    """
    x = [p.copy() for p in points]
    zero = np.uint64(0)
    levels = [np.uint64(1 << b) for b in range(bits - 1, 0, -1)]
    for q in levels:
        below = q - np.uint64(1)
        for i in range(len(x)):
            hit = (x[i] & q) != zero
            swap = np.where(hit, zero, (x[0] ^ x[i]) & below)
            x[0] ^= np.where(hit, below, swap)
            if i:
                x[i] ^= swap
    for i in range(1, len(x)):
        x[i] ^= x[i - 1]
    turn = np.zeros_like(x[0])
    for q in levels:
        turn ^= np.where((x[-1] & q) != zero, q - np.uint64(1), zero)
    return [axis ^ turn for axis in x]


def _bytes(column: pa.Array, text_bytes: int) -> U8:
    if _is_text(column.type):
        return _leading_bytes(column, text_bytes)
    words = ordered_words(column)
    words[_nulls(column)] = 0
    return _big_endian(words)


def _axis(column: pa.Array) -> U64:
    if _is_text(column.type):
        words = _leading_bytes(column, _WORD_BYTES).view(">u8").reshape(-1).astype(np.uint64)
    else:
        words = ordered_words(column)
    axis = words >> np.uint64(64 - _HILBERT_BITS)
    axis[_nulls(column)] = np.uint64((1 << _HILBERT_BITS) - 1)
    return axis


def ordered_words(column: pa.Array) -> U64:
    """Return 64-bit numbers in value order; the numbers of nulls are undefined."""
    kind = column.type
    if pa.types.is_boolean(kind):
        return _plain(column.cast(pa.uint8()), 0).astype(np.uint64) << np.uint64(63)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = np.ascontiguousarray(_plain(column.cast(pa.float64(), safe=False), 0.0)).view(np.int64)
        flipped = np.where(values < 0, np.int64(-1), np.int64(np.iinfo(np.int64).min))
        return (values ^ flipped).view(np.uint64)
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        column = column.cast(pa.int32())
    return _plain(column.cast(pa.int64()), 0).astype(np.int64).view(np.uint64) ^ _SIGN


def _plain(column: pa.Array, absent: Any) -> npt.NDArray[Any]:
    return np.array(pc.fill_null(column, absent).to_numpy(zero_copy_only=False))


def _nulls(column: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(pc.is_null(column).to_numpy(zero_copy_only=False), dtype=np.bool_)


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _leading_bytes(column: pa.Array, width: int) -> U8:
    """Return a fixed-length prefix of each value, zero-padded; zeros for null."""
    plain = pc.fill_null(column.cast(pa.large_binary()), b"")
    _, offsets, data = plain.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int64)[plain.offset : plain.offset + len(plain) + 1]
    source = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.zeros(1, dtype=np.uint8)
    at = bounds[:-1, None] + np.arange(width, dtype=np.int64)
    inside = at < bounds[1:, None]
    return np.where(inside, source[np.where(inside, at, 0)], np.uint8(0))


def _big_endian(words: U64) -> U8:
    return np.ascontiguousarray(words.astype(">u8")).view(np.uint8).reshape(len(words), _WORD_BYTES)


def _binary(matrix: U8) -> pa.Array:
    """Return the rows of a byte matrix as a binary array."""
    rows, width = matrix.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(width)
    data = pa.py_buffer(np.ascontiguousarray(matrix))
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), data])

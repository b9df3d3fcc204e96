"""Vectorized bucket hashes: the Murmur hash of each key as an internal binary row, without building the rows.

A binary row has a fixed part (null bits and one 8-byte slot per field) and a variable part (long strings, wide
decimals, high-precision timestamps). The fixed part is hashed column by column; the variable part field by field,
longest values first, so that each step works on a dense prefix of the rows. Results equal `spec.rows.murmur` bit for
bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.core.arrow import decimal_limbs, load_words, one_chunk, string_parts, values_of
from paimon_spark.core.buckets.hive_hash import hive_hashes
from paimon_spark.errors import UnsupportedError
from paimon_spark.format.arrays import I32, I64, U32, U64
from paimon_spark.spec.bucket_functions import BucketFunction
from paimon_spark.spec.types import AtomicType, DataField, TypeRoot, type_to_json

_BLOCK = 16384
_SEED = 42
_INLINE = 7
_WIDE_DECIMAL = 16
_COMPACT_DECIMAL = 18
_COMPACT_TIMESTAMP = 3
_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_STRINGS = (*_TEXTS, TypeRoot.BINARY, TypeRoot.VARBINARY)
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_INTS: dict[TypeRoot, tuple[Any, Any]] = {
    TypeRoot.TINYINT: (pa.int8(), np.uint8),
    TypeRoot.SMALLINT: (pa.int16(), np.uint16),
    TypeRoot.INT: (pa.int32(), np.uint32),
    TypeRoot.BIGINT: (pa.int64(), np.uint64),
    TypeRoot.DATE: (pa.int32(), np.uint32),
    TypeRoot.TIME: (pa.int32(), np.uint32),
    TypeRoot.FLOAT: (pa.float32(), np.uint32),
    TypeRoot.DOUBLE: (pa.float64(), np.uint64),
}
NANOS_PER = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def hash_rows(batch: pa.RecordBatch | pa.Table, fields: Sequence[DataField]) -> I32:
    """Return the signed 32-bit hash of `fields`, in this order, for each row of `batch`."""
    types = [_atomic(f) for f in fields]
    columns = [one_chunk(batch.column(f.name)) for f in fields]
    n = batch.num_rows
    out = np.empty(n, dtype=np.int32)
    for start in range(0, n, _BLOCK):
        size = min(_BLOCK, n - start)
        parts = [_encode(c.slice(start, size), t) for c, t in zip(columns, types, strict=True)]
        out[start : start + size] = _hash_block(parts, size)
    return out


def bucket_numbers(hashes: I32, buckets: int | I32) -> I32:
    """Return ``|hash % buckets|`` with the remainder truncated towards zero."""
    return (np.abs(hashes.astype(np.int64)) % buckets).astype(np.int32)


def key_buckets(
    function: BucketFunction, rows: pa.RecordBatch | pa.Table, fields: Sequence[DataField], buckets: int | I32
) -> I32:
    """Return the bucket of each row by its bucket key.

    Args:
        function: the bucket function.
        rows: the rows.
        fields: the columns of the bucket key, in order.
        buckets: the number of buckets, of the table or of the partition of each row.

    Raises:
        UnsupportedError: the function does not accept a column.
    """
    if function is BucketFunction.DEFAULT:
        return bucket_numbers(hash_rows(rows, fields), buckets)
    if function is BucketFunction.HIVE:
        positive = hive_hashes(rows, fields) & np.int32(np.iinfo(np.int32).max)
        return (positive.astype(np.int64) % buckets).astype(np.int32)
    column = one_chunk(rows.column(fields[0].name))
    if not pa.types.is_integer(column.type):
        raise _not_modulo(fields[0])
    values = values_of(column.fill_null(0) if column.null_count else column).astype(np.int64)
    return np.mod(values, buckets).astype(np.int32)


def _not_modulo(f: DataField) -> UnsupportedError:
    return UnsupportedError(
        f"The bucket function 'mod' does not accept the column '{f.name}' of type {type_to_json(f.type)}.",
        hint="Use a bucket key of one INT or BIGINT column, or the bucket function 'default'.",
    )


def _atomic(f: DataField) -> AtomicType:
    if not isinstance(f.type, AtomicType) or f.type.root in (TypeRoot.VARIANT, TypeRoot.BLOB):
        raise UnsupportedError(
            f"Column '{f.name}' of type {type_to_json(f.type)} cannot be a key.", hint="Use a column of an atomic type."
        )
    return f.type


class _Variable(NamedTuple):
    """The variable part of one field for all rows; `data` has 8 spare bytes at its end."""

    stored: I64
    lengths: I64
    starts: I64
    data: npt.NDArray[np.uint8]


class _Part(NamedTuple):
    """One field of all rows: null flags, slots, and the variable part if its type has one."""

    nulls: npt.NDArray[np.bool_] | None
    slots: U64
    variable: _Variable | None = None


def _encode(column: pa.Array, t: AtomicType) -> _Part:
    nulls = np.asarray(column.is_null()) if column.null_count else None
    if t.root in _STRINGS:
        return _encode_strings(column, nulls)
    if t.root is TypeRoot.DECIMAL:
        return _encode_decimals(column, t, nulls)
    if t.root in _TIMESTAMPS:
        return _encode_timestamps(column, t, nulls)
    if t.root is TypeRoot.BOOLEAN:
        return _Part(nulls, _zero_nulls(np.asarray(column.cast(pa.uint8()).fill_null(0)).astype(np.uint64), nulls))
    arrow, unsigned = _INTS[t.root]
    if column.type != arrow:
        column = column.view(arrow) if pa.types.is_temporal(column.type) else column.cast(arrow)
    values = np.ascontiguousarray(values_of(column))
    if t.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        values = np.where(np.isnan(values), np.array(np.nan, dtype=values.dtype), values)
    return _Part(nulls, _zero_nulls(values.view(unsigned).astype(np.uint64), nulls))


def _zero_nulls(values: U64, nulls: npt.NDArray[np.bool_] | None) -> U64:
    return values if nulls is None else np.where(nulls, np.uint64(0), values)


def _encode_strings(column: pa.Array, nulls: npt.NDArray[np.bool_] | None) -> _Part:
    starts, lengths, raw = string_parts(column)
    if nulls is not None:
        lengths = np.where(nulls, 0, lengths)
    data = np.concatenate([raw, np.zeros(8, dtype=np.uint8)])
    short = lengths <= _INLINE
    head = load_words(data, np.minimum(starts, len(raw)), np.minimum(lengths, _INLINE))
    inline = head | ((np.uint64(0x80) | lengths.astype(np.uint64)) << np.uint64(56))
    slots = _zero_nulls(np.where(short, inline, lengths.astype(np.uint64)), nulls)
    stored = np.where(short, 0, (lengths + 7) // 8 * 8)
    return _Part(nulls, slots, _Variable(stored, np.where(short, 0, lengths), starts, data))


def _encode_decimals(column: pa.Array, t: AtomicType, nulls: npt.NDArray[np.bool_] | None) -> _Part:
    wanted = pa.decimal128(t.precision, t.scale)
    low, high = decimal_limbs(column if column.type == wanted else column.cast(wanted))
    if (t.precision or 0) <= _COMPACT_DECIMAL:
        return _Part(nulls, _zero_nulls(low, nulls))
    n = len(column)
    raw = np.stack([low, high.view(np.uint64)], axis=1).view(np.uint8).reshape(n, 16)[:, ::-1]
    sign = raw[:, :1] >> 7
    plain = raw ^ (sign * np.uint8(255))
    leading = np.where((plain != 0).any(axis=1), (plain != 0).argmax(axis=1), 15)
    first = np.take_along_axis(plain, leading[:, None], axis=1)[:, 0]
    skip = np.maximum(np.where(first >= 0x80, leading - 1, leading), 0)
    lengths = (_WIDE_DECIMAL - skip).astype(np.int64)
    if nulls is not None:
        lengths = np.where(nulls, 0, lengths)
    data = np.concatenate([np.ascontiguousarray(raw).reshape(-1), np.zeros(8, np.uint8)])
    starts = np.arange(n, dtype=np.int64) * _WIDE_DECIMAL + np.where(lengths > 0, skip, 0)
    stored = np.full(n, _WIDE_DECIMAL, dtype=np.int64)
    return _Part(nulls, lengths.astype(np.uint64), _Variable(stored, lengths, starts, data))


def timestamp_parts(column: pa.Array) -> tuple[I64, I64]:
    """Return the epoch milliseconds (floored) of a timestamp array, and the nanoseconds within the millisecond."""
    values = values_of(column.view(pa.int64()))
    unit = column.type.unit
    if unit == "s":
        return values * 1000, np.zeros(len(values), np.int64)
    if unit == "ms":
        return values, np.zeros(len(values), np.int64)
    per_milli = 1_000_000 // NANOS_PER[unit]
    millis = values // per_milli
    return millis, (values - millis * per_milli) * NANOS_PER[unit]


def _encode_timestamps(column: pa.Array, t: AtomicType, nulls: npt.NDArray[np.bool_] | None) -> _Part:
    millis, nanos = timestamp_parts(column)
    if (t.precision or 0) <= _COMPACT_TIMESTAMP:
        return _Part(nulls, _zero_nulls(millis.view(np.uint64), nulls))
    n = len(column)
    data = np.concatenate([_zero_nulls(millis.view(np.uint64), nulls), np.zeros(1, np.uint64)]).view(np.uint8)
    full = np.full(n, 8, dtype=np.int64)
    slots = _zero_nulls(nanos.view(np.uint64), nulls)
    return _Part(nulls, slots, _Variable(full, full, np.arange(n, dtype=np.int64) * 8, data))


def _hash_block(parts: Sequence[_Part], n: int) -> I32:
    arity = len(parts)
    null_words = (arity + 63 + 8) // 64
    bits = np.zeros((null_words, n), dtype=np.uint64)
    length = np.full(n, 8 * (null_words + arity), dtype=np.int64)
    h = np.full(n, _SEED, dtype=np.uint32)
    slots: list[U64] = []
    for i, part in enumerate(parts):
        if part.nulls is not None:
            bits[(8 + i) // 64] |= part.nulls.astype(np.uint64) << np.uint64((8 + i) % 64)
        slot = part.slots
        if part.variable is not None:
            stored = part.variable.stored
            slot = np.where(stored > 0, slot | (length.astype(np.uint64) << np.uint64(32)), slot)
            length = length + stored
        slots.append(slot)
    for word in (*bits, *slots):
        h = _mix_word(h, word)
    for part in parts:
        if part.variable is not None:
            h = _mix_variable(h, part.variable)
    return _finish(h, length).view(np.int32)


def _mix_variable(h: U32, part: _Variable) -> U32:
    counts = (part.stored // 8).astype(np.int32)
    longest = int(counts.max(initial=0))
    if longest == 0:
        return h
    key = counts.astype(np.int16) if longest < np.iinfo(np.int16).max else counts
    order = np.argsort(key, kind="stable")[::-1]
    ascending = counts[order[::-1]]
    starts, lengths, sorted_h = part.starts[order], part.lengths[order], h[order]
    limit = len(part.data) - 8
    for step in range(longest):
        live = len(counts) - int(np.searchsorted(ascending, step, side="right"))
        at = np.minimum(starts[:live] + 8 * step, limit)
        word = load_words(part.data, at, lengths[:live] - 8 * step)
        sorted_h[:live] = _mix_word(sorted_h[:live], word)
    out = np.empty_like(h)
    out[order] = sorted_h
    return out


def _mix_word(h: U32, word: U64) -> U32:
    return _mix(_mix(h, word.astype(np.uint32)), (word >> np.uint64(32)).astype(np.uint32))


def _mix(h: U32, k: U32) -> U32:
    k = k * np.uint32(0xCC9E2D51)
    k = (k << np.uint32(15)) | (k >> np.uint32(17))
    h = h ^ (k * np.uint32(0x1B873593))
    h = (h << np.uint32(13)) | (h >> np.uint32(19))
    return h * np.uint32(5) + np.uint32(0xE6546B64)


def _finish(h: U32, length: I64) -> U32:
    h = h ^ length.astype(np.uint32)
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return h ^ (h >> np.uint32(16))

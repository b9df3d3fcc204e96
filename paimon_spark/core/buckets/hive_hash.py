"""Vectorized hashes of the bucket function `hive`: 31 × h + x over the columns, as Hive computes them.

Results equal `spec.bucket_functions.key_hash` bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.core.arrow import decimal_limbs, one_chunk, string_parts, values_of
from paimon_spark.errors import UnsupportedError
from paimon_spark.format.arrays import I32, U32, U64
from paimon_spark.spec.bucket_functions import hashes_with_hive
from paimon_spark.spec.types import AtomicType, DataField, TypeRoot, type_to_json

_BLOCK = 16384
_BASE = np.uint32(31)
_INVERSE = np.uint32(pow(31, -1, 1 << 32))
"""The factor that undoes a multiplication by 31, modulo 2^32."""
_HALF = np.uint64(32)
_STRINGS = (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY)
_LIMBS = 4


def hive_hashes(batch: pa.RecordBatch | pa.Table, fields: Sequence[DataField]) -> I32:
    """Return the signed 32-bit hash of `fields`, in this order, for each row of `batch`.

    Raises:
        UnsupportedError: a column has a type that the function does not accept.
    """
    n = batch.num_rows
    columns = [one_chunk(batch.column(f.name)) for f in fields]
    out = np.zeros(n, dtype=np.uint32)
    for start in range(0, n, _BLOCK):
        size = min(_BLOCK, n - start)
        h = out[start : start + size]
        for column, f in zip(columns, fields, strict=True):
            part = column.slice(start, size)
            own = _hashes(part, f)
            h[:] = h * _BASE + (np.where(np.asarray(part.is_null()), np.uint32(0), own) if part.null_count else own)
    return out.view(np.int32)


def _hashes(column: pa.Array, f: DataField) -> U32:
    if not isinstance(f.type, AtomicType) or not hashes_with_hive(f.type):
        raise UnsupportedError(
            f"The bucket function 'hive' does not accept the column '{f.name}' of type {type_to_json(f.type)}.",
            hint="Use another bucket key, or the bucket function 'default'.",
        )
    root = f.type.root
    if root in _STRINGS:
        return _text_hashes(column)
    if root is TypeRoot.DECIMAL:
        return _decimal_hashes(column, f.type)
    if root is TypeRoot.BOOLEAN:
        return np.asarray(column.cast(pa.uint8()).fill_null(0)).astype(np.uint32)
    if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return _float_hashes(values_of(column))
    if pa.types.is_temporal(column.type):
        column = column.view(pa.int32())
    values = values_of(column).astype(np.int64)
    return _folded(values.view(np.uint64)) if root is TypeRoot.BIGINT else values.astype(np.uint32)


def _folded(bits: U64) -> U32:
    return (bits ^ (bits >> _HALF)).astype(np.uint32)


def _float_hashes(values: npt.NDArray[Any]) -> U32:
    plain = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
    plain = np.where(plain == 0, np.array(0, values.dtype), plain)
    return _folded(plain.view(np.uint64)) if values.dtype == np.float64 else plain.view(np.uint32)


def _text_hashes(column: pa.Array) -> U32:
    """Return sum of byte × 31^(bytes after it), as a difference of prefix sums: 31 has an inverse modulo 2^32."""
    starts, lengths, raw = string_parts(column)
    if not len(raw):
        return np.zeros(len(starts), dtype=np.uint32)
    falling = np.multiply.accumulate(np.full(len(raw), _INVERSE)) * _BASE
    sums = np.zeros(len(raw) + 1, dtype=np.uint32)
    np.cumsum(raw.view(np.int8).astype(np.uint32) * falling, dtype=np.uint32, out=sums[1:])
    ends = starts + lengths
    # A byte at position i counts 31^-i in the sums; the hash of a text that ends at e counts it 31^(e - 1 - i).
    rising = np.multiply.accumulate(np.full(len(raw), _BASE)) * _INVERSE
    return np.where(lengths > 0, (sums[ends] - sums[starts]) * rising[np.maximum(ends - 1, 0)], np.uint32(0))


def _decimal_hashes(column: pa.Array, t: AtomicType) -> U32:
    wanted = pa.decimal128(t.precision, t.scale)
    low, high = decimal_limbs(column if column.type == wanted else column.cast(wanted))
    negative = high < 0
    size_low = np.where(negative, ~low + np.uint64(1), low)
    carry = (negative & (low == 0)).astype(np.uint64)
    size_high = np.where(negative, ~high.view(np.uint64) + carry, high.view(np.uint64))
    word = np.uint64(0xFFFFFFFF)
    limbs = np.stack([size_high >> _HALF, size_high & word, size_low >> _HALF, size_low & word])
    scales = _strip_zeros(limbs, t.scale or 0)
    h = np.zeros(len(low), dtype=np.uint32)
    for limb in limbs:
        h = h * _BASE + limb.astype(np.uint32)
    h = np.where(negative, ~h + np.uint32(1), h) * _BASE + scales
    return np.where(limbs.any(axis=0), h, np.uint32(0))


def _strip_zeros(limbs: U64, scale: int) -> U32:
    """Divide each number by 10 while it is a multiple of 10 and has a fraction; return the digits of the fractions."""
    scales = np.full(limbs.shape[1], scale, dtype=np.uint32)
    left = np.flatnonzero(limbs.any(axis=0))
    ten = np.uint64(10)
    for _ in range(scale):
        quotients = np.empty((_LIMBS, len(left)), dtype=np.uint64)
        rest = np.zeros(len(left), dtype=np.uint64)
        for i in range(_LIMBS):
            current = (rest << _HALF) | limbs[i, left]
            quotients[i], rest = current // ten, current % ten
        even = rest == 0
        left = left[even]
        if not len(left):
            break
        limbs[:, left] = quotients[:, even]
        scales[left] -= np.uint32(1)
    return scales

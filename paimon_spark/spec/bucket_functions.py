"""Functions from a bucket key to a bucket: a hash of the key, and its reduction to a number of buckets.

(docs/spec/storage.md, section 10)
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Any

from paimon_spark.spec.rows import bucket_of, encode_row, murmur, row_body, unscaled
from paimon_spark.spec.types import AtomicType, DataType, TypeRoot

_WORD = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF
_NO_HIVE_HASH = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


class BucketFunction(StrEnum):
    """The values of `bucket-function.type`."""

    DEFAULT = "default"
    MOD = "mod"
    HIVE = "hive"


def hashes_with_hive(t: DataType) -> bool:
    """Return whether the function `hive` accepts a column of this type."""
    return isinstance(t, AtomicType) and t.root not in _NO_HIVE_HASH


def key_hash(function: BucketFunction, values: Sequence[Any], types: Sequence[DataType]) -> int:
    """Return the hash of a bucket key, given as values of a binary row.

    Raises:
        TypeError: the function does not accept such a value.
    """
    if function is BucketFunction.DEFAULT:
        return murmur(row_body(encode_row(values, types)))
    if function is BucketFunction.MOD:
        return int(values[0] or 0)
    h = 0
    for value, t in zip(values, types, strict=True):
        h = h * 31 + (0 if value is None else _hive_hash(value, t)) & _WORD
    return _signed(h)


def bucket_for(function: BucketFunction, hashed: int, buckets: int) -> int:
    """Return the bucket of a key among `buckets`, by the hash of `key_hash`."""
    if function is BucketFunction.DEFAULT:
        return bucket_of(hashed, buckets)
    return hashed % buckets if function is BucketFunction.MOD else (hashed & _POSITIVE) % buckets


def _hive_hash(value: Any, t: DataType) -> int:
    root = t.root if isinstance(t, AtomicType) else None
    if root in _NO_HIVE_HASH:
        raise TypeError(root)
    if root is TypeRoot.DECIMAL and isinstance(t, AtomicType):
        return _decimal_hash(value, t.scale or 0)
    if root is TypeRoot.FLOAT:
        return _float_bits(value, "f", "I")
    if root is TypeRoot.BIGINT:
        return _folded(int(value))
    if root is TypeRoot.DOUBLE:
        return _folded(_float_bits(value, "d", "Q"))
    if isinstance(value, str | bytes):
        h = 0
        for byte in value.encode() if isinstance(value, str) else value:
            h = h * 31 + (byte - 256 if byte > 127 else byte) & _WORD
        return h
    return int(value)


def _folded(value: int) -> int:
    return (value ^ (value & (1 << 64) - 1) >> 32) & _WORD


def _float_bits(value: float, code: str, bits: str) -> int:
    if value == 0:
        return 0
    plain = float("nan") if value != value else value  # noqa: PLR0124 - NaN differs from itself
    return int(struct.unpack(f"<{bits}", struct.pack(f"<{code}", plain))[0])


def _decimal_hash(value: Decimal, scale: int) -> int:
    number = unscaled(value, scale)
    while scale and number and number % 10 == 0:
        number, scale = number // 10, scale - 1
    h, size = 0, abs(number)
    for shift in (96, 64, 32, 0):
        h = h * 31 + (size >> shift & _WORD) & _WORD
    return h * 31 * (-1 if number < 0 else 1) + scale if number else 0


def _signed(h: int) -> int:
    return h - (1 << 32) if h & 0x80000000 else h

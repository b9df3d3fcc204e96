"""Comparable keys: single rows as bounds, and whole columns for sorting.

Each atomic type is encoded as int64 numbers in value order, or as byte strings that compare unsigned. Trailing blanks
of a CHAR do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.core.arrow import decimal_limbs, load_words, one_chunk, string_parts, values_of
from paimon_spark.core.char_values import padded
from paimon_spark.errors import UnsupportedError
from paimon_spark.format.arrays import I64, U64, Mask
from paimon_spark.spec.types import AtomicType, DataField, TypeRoot, is_ordered, type_to_json

Column: TypeAlias = "I64 | pa.Array"
"""int64 numbers, or an array of (large) binary."""
Key: TypeAlias = tuple[Any, ...]

_SIGN = np.uint64(1 << 63)
_STRINGS = (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY)
_COMPACT_DECIMAL = 18
_PACK_BITS = 63
_DIGIT_BITS = 16
"""NumPy sorts numbers of up to this width by radix sort, and wider ones by comparison."""
_RADIX_FROM = 1024
_FEW_RUNS = 32
"""Numbers that form fewer sorted runs than this are merged, which is faster than a radix sort."""
_RANK_FROM = 128
"""Byte strings longer than this are replaced by their ranks, computed by Arrow, instead of being padded."""


def comparable_columns(rows: pa.Table, fields: Sequence[DataField]) -> list[Column]:
    """Return `fields` as comparable columns; a wide decimal yields two. The order of nulls is undefined."""
    out: list[Column] = []
    for f in fields:
        if not isinstance(f.type, AtomicType) or not is_ordered(f.type):
            raise UnsupportedError(
                f"Column '{f.name}' of type {type_to_json(f.type)} has no order.",
                hint="Use a column of an atomic type as key or sequence field.",
            )
        out.extend(_comparable(one_chunk(rows.column(f.name)), f.type))
    return out


def null_first_columns(rows: pa.Table, fields: Sequence[DataField]) -> list[Column]:
    """Return comparable columns without nulls, in which nulls come first.

    Each of `fields` yields whether it has a value, and the value.
    """
    out: list[Column] = []
    for f in fields:
        valid = np.asarray(one_chunk(rows.column(f.name)).is_valid())
        out.append(valid.astype(np.int64))
        found = comparable_columns(rows, [f])
        out += [np.where(valid, c, 0) if isinstance(c, np.ndarray) else c.fill_null(b"") for c in found]
    return out


def _comparable(column: pa.Array, t: AtomicType) -> list[Column]:
    if t.root in _STRINGS:
        column = padded(column, t)
        wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
        return [column.cast(pa.large_binary() if wide else pa.binary())]
    if t.root is TypeRoot.DECIMAL:
        low, high = decimal_limbs(column.cast(pa.decimal128(t.precision, t.scale)))
        if (t.precision or 0) <= _COMPACT_DECIMAL:
            return [low.view(np.int64)]
        return [high, (low ^ _SIGN).view(np.int64)]
    if t.root is TypeRoot.BOOLEAN:
        return [np.asarray(column.cast(pa.uint8()).fill_null(0)).astype(np.int64)]
    if t.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return [_ordered_floats(values_of(column))]
    if pa.types.is_temporal(column.type):
        column = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
    return [values_of(column).astype(np.int64, copy=False)]


def _ordered_floats(values: npt.NDArray[Any]) -> I64:
    plain = values.astype(np.float64)
    bits = np.where(np.isnan(plain), np.float64(np.nan), plain).view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(np.iinfo(np.int64).max), bits)


def key_at(columns: Sequence[Column], i: int) -> Key:
    """Return the key of row `i` as a tuple that compares like the key."""
    return tuple(int(c[i]) if isinstance(c, np.ndarray) else c[i].as_py() for c in columns)


def rows_below(columns: Sequence[Column], start: int, stop: int, key: Key, *, inclusive: bool) -> int:
    """Return how many of the sorted rows ``start … stop-1`` are less than `key` (or equal, when `inclusive`)."""
    if len(columns) == 1 and isinstance(columns[0], np.ndarray):
        return int(np.searchsorted(columns[0][start:stop], key[0], side="right" if inclusive else "left"))
    low, high = start, stop
    while low < high:
        middle = (low + high) // 2
        probe = key_at(columns, middle)
        if probe < key or (inclusive and probe == key):
            low = middle + 1
        else:
            high = middle
    return low - start


def key_order(columns: Sequence[Column]) -> tuple[I64, Mask]:
    """Return the row positions in key order, ties in input order, and which of them start a key.

    Keys that begin with strings are sorted by a few bytes of these, and only those that tie by all of their bytes.
    """
    if isinstance(columns[0], np.ndarray):
        return _in_order(sort_codes(columns))
    codes, exact = _leading_codes(columns[0])
    positions, fresh = _in_order(codes)
    if exact and len(columns) == 1:
        return positions, fresh
    tied = ~fresh
    tied[:-1] |= tied[1:]
    where = np.flatnonzero(tied)
    if len(where) > len(tied) // 2:
        return _in_order(sort_codes(columns))
    if len(where):
        some = positions[where]
        chosen = pa.array(some)
        order, fresh[where] = _in_order(sort_codes([_take(c, some, chosen) for c in columns]))
        positions[where] = some[order]
    return positions, fresh


def _in_order(codes: npt.NDArray[Any]) -> tuple[I64, Mask]:
    positions = sorted_positions(codes)
    ordered = codes[positions]
    fresh = np.empty(len(positions), dtype=np.bool_)
    fresh[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    return positions, fresh


def _take(column: Column, positions: I64, chosen: pa.Array) -> Column:
    return column[positions] if isinstance(column, np.ndarray) else column.take(chosen)


def _leading_codes(column: pa.Array) -> tuple[I64, bool]:
    """Return the first 8 bytes of each string after the prefix that all have, as numbers that order like the strings.

    The second value is whether equal numbers mean equal strings.
    """
    starts, lengths, raw = string_parts(column)
    data = np.concatenate([raw, np.zeros(8, dtype=np.uint8)])
    longest = int(lengths.max(initial=0))
    words, prefix = load_words(data, starts, lengths), 0
    while prefix < longest and (alike := _bytes_alike(words)):
        prefix += alike
        words = load_words(data, np.minimum(starts + prefix, len(raw)), lengths - prefix)
    exact = longest - prefix <= 8 and bool(raw.all())
    return (words.byteswap() ^ _SIGN).view(np.int64), exact


def _bytes_alike(words: U64) -> int:
    """Return how many first bytes of little-endian words are the same in all of them."""
    differences = int(np.bitwise_or.reduce(words ^ words[:1]))
    return ((differences & -differences).bit_length() - 1) // 8 if differences else 8


def sort_codes(columns: Sequence[Column]) -> npt.NDArray[Any]:
    """Return one sortable value per row: int64 if the key fits, else byte strings of equal width."""
    if len(columns) == 1 and isinstance(columns[0], np.ndarray):
        return columns[0]
    parts = [c if isinstance(c, np.ndarray) else _bytes_words(c) for c in columns]
    packed = _pack([p for p in parts if isinstance(p, np.ndarray)]) if _all_numbers(parts) else None
    if packed is not None:
        return packed
    words: list[npt.NDArray[np.uint64]] = []
    for part in parts:
        if isinstance(part, np.ndarray):
            words.append(part.view(np.uint64) ^ _SIGN)
        else:
            words.extend(part)
    return np.stack(words, axis=1).astype(">u8").view(f"S{8 * len(words)}").reshape(-1)


def sorted_positions(codes: npt.NDArray[Any]) -> I64:
    """Return the positions of `codes` in ascending order; the sort is stable."""
    if codes.dtype != np.int64 or len(codes) < _RADIX_FROM:
        return np.argsort(codes, kind="stable").astype(np.int64, copy=False)
    falls = int(np.count_nonzero(codes[1:] < codes[:-1]))
    if not falls:
        return np.arange(len(codes), dtype=np.int64)
    if falls < _FEW_RUNS:
        return np.argsort(codes, kind="stable")
    low = int(codes.min())
    distances = codes.view(np.uint64) - np.uint64(low % (1 << 64))
    positions = np.argsort(distances.astype(np.uint16), kind="stable")
    for shift in range(_DIGIT_BITS, (int(codes.max()) - low).bit_length(), _DIGIT_BITS):
        digits = (distances >> np.uint64(shift)).astype(np.uint16)
        positions = positions[np.argsort(digits[positions], kind="stable")]
    return positions


def _all_numbers(parts: Sequence[Any]) -> bool:
    return all(isinstance(p, np.ndarray) for p in parts)


def _pack(parts: Sequence[I64]) -> I64 | None:
    """Return the columns packed into one int64, or None if their value ranges do not fit."""
    lows = [int(p.min(initial=0)) for p in parts]
    widths = [(int(p.max(initial=0)) - low).bit_length() for p, low in zip(parts, lows, strict=True)]
    if sum(widths) > _PACK_BITS:
        return None
    out = np.zeros(len(parts[0]), dtype=np.int64)
    for part, low, width in zip(parts, lows, widths, strict=True):
        out = (out << np.int64(width)) | (part - np.int64(low))
    return out


def _bytes_words(column: pa.Array) -> I64 | list[npt.NDArray[np.uint64]]:
    """Return byte strings as zero-padded big-endian words, or as dense ranks if they are long."""
    starts, lengths, raw = string_parts(column)
    longest = int(lengths.max(initial=0))
    if longest > _RANK_FROM:
        return ranks(column)
    data = np.concatenate([raw, np.zeros(8, dtype=np.uint8)])
    limit = len(raw)
    words = [
        load_words(data, np.minimum(starts + at, limit), lengths - at).byteswap() for at in range(0, max(longest, 1), 8)
    ]
    if len(raw) and not raw.all():
        words.append(lengths.astype(np.uint64))
    return words


def ranks(column: pa.Array) -> I64:
    """Return the dense rank of every value (nulls last) as int64."""
    return pc.rank(column, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)


def dense_ranks(columns: Sequence[I64]) -> I64:
    """Return the rank of each row of `columns`, the first of which is the most significant; equal rows share a rank."""
    order = np.lexsort(list(reversed(columns)))
    changes = np.zeros(len(order), dtype=np.bool_)
    for c in columns:
        changes[1:] |= c[order][1:] != c[order][:-1]
    out = np.empty(len(order), dtype=np.int64)
    out[order] = np.cumsum(changes)
    return out


def sequence_codes(rows: pa.Table, fields: Sequence[DataField], *, descending: bool) -> list[I64]:
    """Return int64 columns that order rows by `fields`, most significant first.

    `descending` inverts the order of values but not of nulls: null always sorts first, so that it never wins.
    """
    out: list[I64] = []
    for f in fields:
        valid = np.asarray(one_chunk(rows.column(f.name)).is_valid())
        out.append(valid.astype(np.int64))
        for column in comparable_columns(rows, [f]):
            numbers = column if isinstance(column, np.ndarray) else ranks(column)
            out.append(np.where(valid, ~numbers if descending else numbers, 0))
    return out

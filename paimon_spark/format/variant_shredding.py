"""Values of shredded VARIANT columns: some members in typed columns, the rest as variants.

A group of such a file has `metadata`, the names of members, and, as each member and element below it, `value` and
`typed_value`. Without both, a member is missing; a `value` beside a typed object has its other members.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptTableError, UnsupportedError
from paimon_spark.format.arrays import I64, Mask
from paimon_spark.format.binary_values import (
    BYTES,
    NOTHING,
    U8,
    consecutive,
    content_of,
    joined,
    ragged,
    same,
    with_nulls,
)

_NULL = same(b"\x00")
_OBJECT, _ARRAY = 2, 3
_SHORT = 63
"""Longest text whose length is in its header."""
_SHREDDED = "typed_value"
_HINT = "Restore the file from a backup, or roll back to a snapshot that does not need it."


def is_shredded(kind: pa.DataType) -> bool:
    """Return whether values of a file's column are stored in parts."""
    return bool(pa.types.is_struct(kind)) and kind.get_field_index(_SHREDDED) >= 0


def whole_variants(array: pa.StructArray) -> pa.StructArray:
    """Return shredded values as structs of `value` and `metadata`.

    Raises:
        UnsupportedError: a member has a type that variants do not have.
        CorruptTableError: the parts do not fit together.
    """
    members = _members(array)
    metadata = members["metadata"].cast(BYTES)
    names = _Names.of(metadata, sorted(_typed_names(array.type)))
    value = names.values(array, np.arange(len(array), dtype=np.int64))
    parts = [
        pc.fill_null(value, _NULL).cast(pa.binary()),
        pc.fill_null(metadata, NOTHING).cast(pa.binary()),
    ]
    return pa.StructArray.from_arrays(parts, ["value", "metadata"], mask=array.is_null())


def _members(array: pa.StructArray) -> dict[str, pa.Array]:
    return dict(zip((f.name for f in array.type), array.flatten(), strict=True))


def _typed_names(kind: pa.DataType) -> set[str]:
    """Return the names of all members that have columns."""
    if not is_shredded(kind):
        return set()
    typed = kind.field(_SHREDDED).type
    if pa.types.is_struct(typed):
        return {f.name for f in typed}.union(*(_typed_names(f.type) for f in typed))
    return _typed_names(typed.value_type) if _is_list(typed) else set()


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Members of objects: the row, the rank of the name, the id of the name, and the value of each."""

    owner: I64
    rank: I64
    id: I64
    value: pa.Array


@dataclass(frozen=True, slots=True)
class _Names:
    """The names in the metadata of each row.

    Attributes:
        start: where the names of each row begin in `rank`.
        rank: the place of each name among all names of the batch.
        keys: the row and rank of each name as one number, ascending, and `ids`, the id of the name in that row.
        ids: see `keys`.
        known: the rank of each name that has a column.
        distinct: how many names the batch has.
    """

    start: I64
    rank: I64
    keys: I64
    ids: I64
    known: dict[str, int]
    distinct: int

    @classmethod
    def of(cls, metadata: pa.Array, typed: Sequence[str]) -> _Names:
        """Read the metadata of all rows; `typed` are the names of members with columns."""
        data, begin, length = _raw(metadata)
        held = length > 0
        width = np.ones(len(length), dtype=np.int64)
        width[held] = (data[begin[held]] >> 6) + 1
        size = _number(data, begin + 1, width * held)
        row, nth = _spread(size)
        first = (begin + 1 + width)[row]
        low = _number(data, first + nth * width[row], width[row])
        high = _number(data, first + (nth + 1) * width[row], width[row])
        texts = first + (size[row] + 1) * width[row]
        asked = pa.array([n.encode() for n in typed], BYTES)
        names = pa.concat_arrays([_slices(data, texts + low, high - low), asked])
        coded = names.dictionary_encode()
        order = pc.sort_indices(coded.dictionary).to_numpy(zero_copy_only=False)
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        rank = place[coded.indices.to_numpy(zero_copy_only=False)] if len(names) else np.empty(0, dtype=np.int64)
        known = dict(zip(typed, rank[len(row) :].tolist(), strict=True))
        keys = row * max(1, len(order)) + rank[: len(row)]
        by_key = np.argsort(keys, kind="stable")
        return cls(_before(size), rank[: len(row)], keys[by_key], nth[by_key], known, max(1, len(order)))

    def values(self, node: pa.StructArray, rows: I64) -> pa.Array:
        """Return the values of a group, null where it is missing; `rows` are the rows that they belong to."""
        members = _members(node)
        whole, typed = members.get("value"), members.get(_SHREDDED)
        whole = pa.nulls(len(node), BYTES) if whole is None else whole.cast(BYTES)
        if typed is None:
            return whole
        if pa.types.is_struct(typed.type):
            built = self._objects(typed, whole, rows)
        elif _is_list(typed.type):
            built = self._lists(typed, rows)
        else:
            built = _scalars(typed)
        return pc.coalesce(built, whole)

    def _objects(self, typed: pa.StructArray, rest: pa.Array, rows: I64) -> pa.Array:
        there = _mask(typed.is_valid())
        pieces = [self._rest_of(rest, there, rows)]
        for name, child in _members(typed).items():
            found = self.values(child, rows)
            owner = np.flatnonzero(_mask(found.is_valid()))
            rank = np.full(len(owner), self.known[name], dtype=np.int64)
            pieces.append(_Pieces(owner, rank, self._ids_of(name, rows[owner]), found.take(pa.array(owner))))
        owner, rank, ids = (np.concatenate([getattr(p, n) for p in pieces]) for n in ("owner", "rank", "id"))
        order = np.lexsort((rank, owner))
        if np.any((np.diff(owner[order]) == 0) & (np.diff(rank[order]) == 0)):
            raise CorruptTableError("a member of a VARIANT is stored twice", hint=_HINT)
        value = pa.concat_arrays([p.value for p in pieces]).take(pa.array(order))
        return _containers(np.bincount(owner, minlength=len(typed)), value, there, ids[order])

    def _ids_of(self, name: str, rows: I64) -> I64:
        wanted = rows * self.distinct + self.known[name]
        at = np.minimum(np.searchsorted(self.keys, wanted), max(0, len(self.keys) - 1))
        if len(wanted) and (not len(self.keys) or np.any(self.keys[at] != wanted)):
            message = f"the metadata of a VARIANT lacks the name of its member '{name}'"
            raise CorruptTableError(message, hint=_HINT)
        return self.ids[at] if len(wanted) else np.empty(0, dtype=np.int64)

    def _rest_of(self, rest: pa.Array, there: Mask, rows: I64) -> _Pieces:
        """Return the members that have no columns, of rows that have some in columns."""
        data, begin, _ = _raw(rest)
        holder = np.flatnonzero(there & _mask(rest.is_valid()))
        begin = begin[holder]
        header = data[begin].astype(np.int64)
        if np.any(header & 3 != _OBJECT):
            raise CorruptTableError("a VARIANT has members in columns and is no object", hint=_HINT)
        offset_width, id_width = ((header >> 2) & 3) + 1, ((header >> 4) & 3) + 1
        count_width = np.where(header >> 6 & 1, 4, 1)
        count = _number(data, begin + 1, count_width)
        ids_at = begin + 1 + count_width
        offsets_at = ids_at + count * id_width
        values_at = offsets_at + (count + 1) * offset_width
        of, nth = _spread(count)
        ids = _number(data, ids_at[of] + nth * id_width[of], id_width[of])
        low = _number(data, offsets_at[of] + nth * offset_width[of], offset_width[of])
        end = _number(data, offsets_at + count * offset_width, offset_width)
        # Values may be in any order: each ends where the next one begins.
        order = np.lexsort((low, of))
        following = np.append(low[order][1:], 0)
        last = np.append(np.diff(of[order]) != 0, np.ones(min(1, len(of)), dtype=bool))
        high = np.empty_like(low)
        high[order] = np.where(last, end[of[order]], following[: len(order)])
        owner = holder[of]
        rank = self.rank[self.start[rows[owner]] + ids]
        return _Pieces(owner, rank, ids, _slices(data, values_at[of] + low, high - low))

    def _lists(self, typed: pa.Array, rows: I64) -> pa.Array:
        there = _mask(typed.is_valid())
        lengths = pc.fill_null(pc.list_value_length(typed), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        value = pc.fill_null(self.values(typed.flatten(), np.repeat(rows, lengths)), _NULL)
        return _containers(lengths, value, there)


def _containers(counts: I64, value: pa.Array, there: Mask, ids: I64 | None = None) -> pa.Array:
    """Return objects, or without `ids` arrays, of values in order; null where none is `there`."""
    counts = counts.astype(np.int64)
    data, begin, lengths = _raw(value)
    owner, _ = _spread(counts)
    ends = np.cumsum(lengths)
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends])[_before(counts)]
    totals = np.concatenate([np.zeros(1, dtype=np.int64), ends])[np.cumsum(counts)] - starts
    width = _width(totals)
    large = bool(len(counts)) and int(counts.max()) > 255
    id_width = 1 if ids is None else _width(ids)
    if ids is None:
        header = (width - 1 | large << 2) << 2 | _ARRAY
    else:
        header = (width - 1 | (id_width - 1) << 2 | large << 4) << 2 | _OBJECT
    first = np.full((len(counts), 1), header, dtype=np.uint8)
    heads = np.concatenate([first, _little(counts, 4 if large else 1)], axis=1)
    offsets = np.empty(len(owner) + len(counts), dtype=np.int64)
    offsets[np.arange(len(owner)) + owner] = ends - lengths - starts[owner]
    offsets[np.cumsum(counts) + np.arange(len(counts))] = totals
    numbered = [] if ids is None else [consecutive(_little(ids, id_width), counts * id_width)]
    parts = [
        consecutive(heads, np.full(len(counts), heads.shape[1], dtype=np.int64)),
        *numbered,
        consecutive(_little(offsets, width), (counts + 1) * width),
        consecutive(data[begin[0] if len(begin) else 0 :], totals),
    ]
    return pc.if_else(pa.array(there), joined(parts), pa.scalar(None, BYTES))


def _scalars(typed: pa.Array) -> pa.Array:
    """Return values of a simple type, null where they are null."""
    kind = typed.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _texts(typed.cast(pa.large_string()).cast(BYTES))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        body = typed.cast(BYTES)
        return _headed(_prefixed(15, _raw(body)[2]), body)
    there = _mask(typed.is_valid())
    for matches, encode in _ENCODERS:
        if matches(kind):
            return with_nulls(encode(typed.drop_null()), there)
    raise UnsupportedError(
        f"Members of a VARIANT in columns of the type {kind} are not read by this release.",
        hint="Read the other columns only, or rewrite the table without 'variant.shreddingSchema'.",
    )


def _texts(body: pa.Array) -> pa.Array:
    lengths = _raw(body)[2]
    short = lengths <= _SHORT
    heads = _prefixed(16, lengths).copy()
    heads[short, 0] = lengths[short] << 2 | 1
    return _headed(heads, body, np.where(short, 1, 5))


def _prefixed(kind: int, lengths: I64) -> U8:
    head = np.full((len(lengths), 1), kind << 2, dtype=np.uint8)
    return np.concatenate([head, _little(lengths, 4)], axis=1)


def _headed(heads: U8, body: pa.Array, head_lengths: I64 | None = None) -> pa.Array:
    """Return `body` after the first bytes of each row of `heads`; null where the body is."""
    lengths = np.full(len(heads), heads.shape[1], dtype=np.int64) if head_lengths is None else head_lengths
    return joined([ragged(heads, lengths), body])


def _integers(array: pa.Array) -> pa.Array:
    """Return integers in as few bytes as they need: the types 3 to 6 have 1, 2, 4 and 8 bytes."""
    number = array.cast(pa.int64()).to_numpy(zero_copy_only=False)
    size = np.zeros(len(number), dtype=np.int64)
    for step, bits in enumerate((7, 15, 31), start=1):
        size[(number < -(1 << bits)) | (number >= 1 << bits)] = step
    heads = ((size + 3) << 2).astype(np.uint8)[:, None]
    return ragged(np.concatenate([heads, _bytes_of(number)], axis=1), 1 + (1 << size))


def _decimals(array: pa.Array) -> pa.Array:
    """Return decimals of the types 8 to 10: the scale, and the digits in 4, 8 or 16 bytes."""
    wide = array.cast(pa.decimal128(38, array.type.scale))
    words = np.frombuffer(wide.buffers()[1], dtype=np.int64).reshape(-1, 2)[wide.offset : wide.offset + len(wide)]
    low, high = words[:, 0], words[:, 1]
    fits = high == low >> 63
    step = np.where(fits & (np.abs(low) < 10**9), 0, np.where(fits & (np.abs(low) < 10**18), 1, 2))
    heads = np.stack([(step + 8) << 2, np.full(len(step), array.type.scale)], axis=1).astype(np.uint8)
    return ragged(np.concatenate([heads, np.ascontiguousarray(words).view(np.uint8)], axis=1), 2 + (4 << step))


def _fixed(kind: int, number: npt.NDArray[Any]) -> pa.Array:
    heads = np.full((len(number), 1), kind << 2, dtype=np.uint8)
    table = np.concatenate([heads, _bytes_of(number)], axis=1)
    return ragged(table, np.full(len(number), table.shape[1], dtype=np.int64))


def _booleans(array: pa.Array) -> pa.Array:
    heads = np.where(_mask(array), 1 << 2, 2 << 2).astype(np.uint8)[:, None]
    return ragged(heads, np.ones(len(array), dtype=np.int64))


def _floats(array: pa.Array) -> pa.Array:
    return _fixed(14 if pa.types.is_float32(array.type) else 7, array.to_numpy(zero_copy_only=False))


def _dates(array: pa.Array) -> pa.Array:
    return _fixed(11, array.cast(pa.int32()).to_numpy(zero_copy_only=False))


def _timestamps(array: pa.Array) -> pa.Array:
    micros = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())
    return _fixed(12 if array.type.tz else 13, micros.to_numpy(zero_copy_only=False))


_ENCODERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.Array]], ...] = (
    (pa.types.is_boolean, _booleans),
    (pa.types.is_signed_integer, _integers),
    (pa.types.is_decimal, _decimals),
    (lambda kind: pa.types.is_float32(kind) or pa.types.is_float64(kind), _floats),
    (pa.types.is_date32, _dates),
    (lambda kind: pa.types.is_timestamp(kind) and kind.unit in ("us", "ms"), _timestamps),
)


def _raw(array: pa.Array) -> tuple[U8, I64, I64]:
    """Return the bytes of binary values, where each one begins, and its length, 0 for nulls."""
    bounds, content = content_of(array)
    return np.frombuffer(content, np.uint8), bounds[:-1], np.where(_mask(array.is_valid()), np.diff(bounds), 0)


def _mask(array: pa.Array) -> Mask:
    found: Mask = array.to_numpy(zero_copy_only=False)
    return found.astype(bool)


def _before(counts: I64) -> I64:
    """Return the number of items before the first one of each row."""
    return np.cumsum(counts) - counts


def _spread(counts: I64) -> tuple[I64, I64]:
    """Return the row of each item, and its number in that row."""
    row = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    return row, np.arange(len(row), dtype=np.int64) - _before(counts)[row]


def _number(data: U8, at: I64, width: I64) -> I64:
    """Return little-endian numbers of up to four bytes."""
    out = np.zeros(len(at), dtype=np.int64)
    for byte in range(4):
        more = width > byte
        if np.any(at[more] + byte >= len(data)):
            raise CorruptTableError("a VARIANT ends too early", hint=_HINT)
        out[more] |= data[at[more] + byte].astype(np.int64) << 8 * byte
    return out


def _slices(data: U8, begin: I64, length: I64) -> pa.Array:
    """Return pieces of `data` as binary values."""
    if np.any(length < 0) or np.any(begin + length > len(data)):
        raise CorruptTableError("a VARIANT ends too early", hint=_HINT)
    row, nth = _spread(length)
    return consecutive(data[begin[row] + nth], length)


def _width(numbers: I64) -> int:
    """Return the number of bytes of the largest number."""
    largest = int(numbers.max()) if len(numbers) else 0
    return max(1, -(-largest.bit_length() // 8))


def _bytes_of(numbers: npt.NDArray[Any]) -> U8:
    return np.ascontiguousarray(numbers).view(np.uint8).reshape(len(numbers), numbers.dtype.itemsize)


def _little(numbers: I64, width: int) -> U8:
    return _bytes_of(numbers)[:, :width]

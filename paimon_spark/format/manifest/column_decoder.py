"""The columns by which manifest entries are selected, decoded for many entries at once.

The entries of all blocks are decoded in lockstep. The result has the offsets of the parts of each entry, which are not
decoded. Like the decoder of single entries, it supports the usual layout, and makes the same
checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from paimon_spark.format.arrays import I64
from paimon_spark.format.avro.lockstep import BlockSizeError, in_lockstep
from paimon_spark.format.manifest.file_decoder import decode_tail
from paimon_spark.format.manifest.layout import FILE_LAYOUT, HEAD_LAYOUT, Field, Kind, tail_layout
from paimon_spark.format.manifest.primitives import UnknownLayoutError, decode_null_counts, decode_texts
from paimon_spark.format.manifest.usual_bytes import TAIL_BYTES, TAILS
from paimon_spark.spec.identifier import is_one_name

_PAD = bytes(256)
_MAX_BYTES = 9
"""Longer numbers, which are unusual, are left to the reader of single entries."""
_TAIL_BEGINS = tail_layout()[0].name
_EXTRA_FILES = "_EXTRA_FILES"
_OF_IDENTITY = [i for i, f in enumerate(tail_layout()) if f.name in ("_EMBEDDED_FILE_INDEX", "_EXTERNAL_PATH")]
"""Fields of the tail that are part of a file's identity."""
_COLUMNS = (
    "_KIND",
    "_PARTITION",
    "_BUCKET",
    "_TOTAL_BUCKETS",
    "_LEVEL",
    "_FILE_SIZE",
    "_ROW_COUNT",
    "_MAX_SEQUENCE_NUMBER",
)
_UNSAFE = re.compile(rb"[\x00-\x09\x0b-\x1f\x7f-\xff/\\]")
"""Characters that no usual name has; line feeds separate the names."""


@dataclass(slots=True)
class DecodedColumns:
    """For each entry: its location and size, and the offsets of its parts in the block."""

    kind: npt.NDArray[Any]
    partition: npt.NDArray[Any]
    """An index to the distinct partitions."""
    bucket: npt.NDArray[Any]
    total_buckets: npt.NDArray[Any]
    level: npt.NDArray[Any]
    size: npt.NDArray[Any]
    rows: npt.NDArray[Any]
    max_sequence: npt.NDArray[Any]
    start: npt.NDArray[Any]
    file: npt.NDArray[Any]
    """Where the file begins, relative to `start`, as are the following."""
    keys_end: npt.NDArray[Any]
    numbers: npt.NDArray[Any]
    """Where the sequence numbers begin, which follow the statistics."""
    end: npt.NDArray[Any]
    plain: npt.NDArray[Any]
    """1 if the file has no extra files, embedded index or external path, else 0."""

    @property
    def nbytes(self) -> int:
        """Return the bytes of all columns."""
        return sum(getattr(self, f.name).nbytes for f in fields(self))


def joined(parts: Sequence[DecodedColumns]) -> DecodedColumns:
    """Return the entries of all parts, each column in the smallest type that holds it."""
    columns = (np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(DecodedColumns))
    return DecodedColumns(*map(smallest, columns))


def smallest(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a column in the smallest type that holds it."""
    if not len(column):
        return column
    low, high = np.min_scalar_type(column.min()), np.min_scalar_type(column.max())
    return column.astype(np.promote_types(low, high))


def decode_columns(blocks: Sequence[tuple[int, bytes]], partitions: dict[bytes, int]) -> DecodedColumns | None:
    """Return the columns of the entries of some blocks, or None unless every entry is valid and usual.

    Args:
        blocks: the number of entries of each block, and its bytes.
        partitions: the index of every known partition; new ones are added.
    """
    try:
        return _Reader(blocks, partitions).read()
    except (BlockSizeError, UnknownLayoutError, LookupError, UnicodeDecodeError):
        return None


def decode_longs(data: npt.NDArray[np.uint8], at: I64) -> tuple[I64, I64]:
    """Return the numbers that begin at some offsets, and their ends.

    Raises:
        UnknownLayoutError: one takes more than nine bytes.
        LookupError: one extends beyond the bytes.
    """
    byte = data[at].astype(np.int64)
    at = at + 1
    value = byte & 0x7F
    more = np.flatnonzero(byte > 0x7F)
    shift = 7
    while len(more):
        if shift >= 7 * _MAX_BYTES:
            raise UnknownLayoutError
        byte = data[at[more]].astype(np.int64)
        at[more] += 1
        value[more] |= (byte & 0x7F) << shift
        more = more[byte > 0x7F]
        shift += 7
    return (value >> 1) ^ -(value & 1), at


class _Reader:
    """Reads the entries of all blocks in lockstep; `_at` is the position in each block with remaining entries."""

    def __init__(self, blocks: Sequence[tuple[int, bytes]], partitions: dict[bytes, int]) -> None:
        self._partitions = partitions
        self._counts = np.array([count for count, _ in blocks], np.int64)
        self._lengths = np.array([len(data) for _, data in blocks], np.int64)
        self._raw = b"".join([*(data for _, data in blocks), _PAD])
        self._bytes = np.frombuffer(self._raw, np.uint8)
        self._size = len(self._raw) - len(_PAD)
        self._at = np.empty(0, np.int64)

    def read(self) -> DecodedColumns:
        table = np.empty((len(fields(DecodedColumns)), int(self._counts.sum())), np.int64)

        def decode(at: I64, begins: I64, ends: I64, entries: I64) -> I64:
            del ends
            self._at = at
            table[:, entries] = self._entries(begins)
            return self._at

        in_lockstep(self._counts, self._lengths, decode)
        return DecodedColumns(*table)

    def _entries(self, begins: I64) -> npt.NDArray[Any]:
        start = self._at
        values: dict[str, Any] = {f.name: self._value(f) for f in HEAD_LAYOUT}
        offsets: dict[str, I64] = {}
        for field in FILE_LAYOUT:
            if field.name == _TAIL_BEGINS:
                break
            offsets[field.name] = self._at
            values[field.name] = self._value(field)
        plain = values[_EXTRA_FILES] & self._skip_tail()
        file, keys_end, numbers = (offsets[n] - start for n in ("_FILE_NAME", "_KEY_STATS", "_MIN_SEQUENCE_NUMBER"))
        places = (start - begins, file, keys_end, numbers, self._at - start)
        return np.stack([*(values[n] for n in _COLUMNS), *places, plain])

    def _value(self, field: Field) -> I64 | None:
        """Skip a field in every lane; return its number, the index of the partition, or 1 for an empty list."""
        match field.kind:
            case Kind.INT | Kind.LONG:
                return self._within(self._longs(), field.least, field.most)
            case Kind.BYTES if field.name == "_PARTITION":
                return self._partition_ids()
            case Kind.STRING:
                self._names()
            case Kind.BYTES:
                self._span()
            case Kind.STATS:
                self._skip_stats()
            case Kind.STRINGS:
                return self._skip_names()
            case Kind.OPTIONAL_MILLIS:
                self._skip_optional(field)
            case _:
                raise UnknownLayoutError(field.name)
        return None

    def _longs(self) -> I64:
        """Read a number in every lane."""
        value, self._at = decode_longs(self._bytes, self._at)
        return value

    def _within(self, value: I64, low: int | None, high: int | None) -> I64:
        if (low is not None and (value < low).any()) or (high is not None and (value > high).any()):
            raise UnknownLayoutError
        return value

    def _span(self) -> tuple[I64, I64]:
        """Return the start and end of the length-prefixed bytes in every lane."""
        size = self._longs()
        begin, self._at = self._at, self._at + size
        if (size < 0).any() or (self._at > self._size).any():
            raise UnknownLayoutError
        return begin, self._at

    def _slices(self) -> Iterator[bytes]:
        begin, end = self._span()
        return (self._raw[b:e] for b, e in zip(begin.tolist(), end.tolist(), strict=True))

    def _names(self) -> None:
        names = list(self._slices())
        text = b"\n".join(names)
        if _UNSAFE.search(text) or text.count(b"\n") != len(names) - 1 or not {b"", b".", b".."}.isdisjoint(names):
            raise UnknownLayoutError

    def _partition_ids(self) -> I64:
        known = self._partitions
        return np.array([known.setdefault(p, len(known)) for p in self._slices()], np.int64)

    def _branches(self, at: I64) -> npt.NDArray[np.bool_]:
        """Return for every lane whether the union at this position has its second type, which is not null."""
        branch = self._bytes[at]
        there = branch == 2
        if not (there | (branch == 0)).all():
            raise UnknownLayoutError
        return there

    def _skip_stats(self) -> None:
        self._span()
        self._span()
        there = self._branches(self._at)
        self._at = self._at + 1
        lanes = np.flatnonzero(there)
        if len(lanes):
            after = self._after_counts(self._at[lanes])
            self._at[lanes] = after

    def _after_counts(self, at: I64) -> I64:
        """Return where null counts end: usually a block of n counts, each null or a number, and an empty block."""
        first = self._bytes[at].astype(np.int64)
        count = first >> 1
        usual = (first & 0x81 == 0) & (count > 0)
        after = np.where(usual, self._after_numbers(at, np.where(usual, count, 0)), at)
        usual &= self._bytes[after] == 0
        after += 1
        for lane in np.flatnonzero(~usual).tolist():
            after[lane] = decode_null_counts(self._raw, int(at[lane]), {})[1]
        return after

    def _after_numbers(self, at: I64, count: I64) -> I64:
        """Return where `count` optional numbers end, which begin one byte after `at`."""
        most = int(count.max())
        begins = np.minimum(at[:, None] + 1 + 2 * np.arange(most), self._size)
        small = (self._bytes[begins] == 2) & (self._bytes[begins + 1] < 0x80)
        after = at + 1 + 2 * count
        others = np.flatnonzero(~(small | (np.arange(most) >= count[:, None])).all(axis=1))
        if len(others):
            after[others] = self._after_any_numbers(at[others] + 1, count[others])
        return np.minimum(after, self._size)

    def _after_any_numbers(self, at: I64, count: I64) -> I64:
        for number in range(int(count.max())):
            lanes = np.flatnonzero(count > number)
            there = lanes[self._branches(at[lanes])]
            at[lanes] += 1
            _, at[there] = decode_longs(self._bytes, at[there])
            if (at > self._size).any():
                raise UnknownLayoutError
        return at

    def _skip_names(self) -> I64:
        """Skip a list of file names, which is usually empty; return 1 if it is, else 0."""
        empty = self._bytes[self._at] == 0
        lanes = np.flatnonzero(~empty)
        after = self._at + 1
        for lane in lanes.tolist():
            names, after[lane] = decode_texts(self._raw, int(self._at[lane]))
            if not all(map(is_one_name, names)):
                raise UnknownLayoutError
        self._go_to(after)
        return empty.astype(np.int64)

    def _skip_optional(self, field: Field) -> None:
        """Skip an optional number."""
        there = np.flatnonzero(self._branches(self._at))
        after = self._at + 1
        if len(there):
            values, after[there] = decode_longs(self._bytes, after[there])
            self._within(values, field.least, field.most)
        self._go_to(after)

    def _skip_tail(self) -> I64:
        """Skip the fields that most files lack; return 1 without an index or a path among them, else 0."""
        found = self._bytes[self._at[:, None] + np.arange(TAIL_BYTES)]
        after = self._at + TAIL_BYTES
        plain = np.ones(len(after), np.int64)
        for lane in np.flatnonzero(~_usual_tails(found)).tolist():
            values, after[lane] = decode_tail(self._raw, int(self._at[lane]))
            plain[lane] = all(values[i] is None for i in _OF_IDENTITY)
        self._at = after
        return plain

    def _go_to(self, after: I64) -> None:
        if (after > self._size).any():
            raise UnknownLayoutError
        self._at = after


_TEMPLATE = np.frombuffer(b"".join(TAILS), np.uint8).reshape(-1, TAIL_BYTES)
"""The bytes of all usual tails, one per row."""
_VARIES = [i for i in range(TAIL_BYTES) if len(np.unique(_TEMPLATE[:, i])) > 1]
_FIXED = [i for i in range(TAIL_BYTES) if i not in _VARIES]
_ALLOWED = {i: np.unique(_TEMPLATE[:, i]) for i in _VARIES}


def _usual_tails(found: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Return which rows of bytes are among the usual tails, whose bytes vary independently of each other."""
    usual: npt.NDArray[np.bool_] = (found[:, _FIXED] == _TEMPLATE[0, _FIXED]).all(axis=1)
    for i, allowed in _ALLOWED.items():
        usual &= np.isin(found[:, i], allowed)
    return usual

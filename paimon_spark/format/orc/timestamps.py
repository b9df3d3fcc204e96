"""ORC timestamps at any nesting depth, over the full range of the table's type.

pyarrow reads ORC timestamps as nanoseconds, limited to 1677 to 2262, and misreads some that were written in another
time zone. ORC stores a timestamp in two streams, seconds and nanoseconds. This module presents the file to pyarrow with
a modified tail that declares timestamps as integers, so pyarrow returns the seconds in place, at any depth. The
nanoseconds of each column are read through a generated single-column file with constant seconds. All encodings and
compressions of the library are supported.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from paimon_spark.format.arrays import I64
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.format.orc.layout import (
    DATA,
    DIRECT,
    FOOTER_TYPES,
    INSTANT,
    LIST,
    LONG,
    MAP,
    SECONDARY,
    STRUCT,
    TIMES,
    TIMESTAMP,
    StripeFooter,
    Tail,
    one_stripe,
)
from paimon_spark.format.orc.messages import Field, message, messages, with_field
from paimon_spark.format.timestamp_ranges import BILLION, check_range, in_column, timestamps
from paimon_spark.spec.types import ArrayType, AtomicType, DataField, DataType, MapType, MultisetType, RowType, TypeRoot

Leaf = Callable[[pa.Array, int, "DataType | None"], pa.Array]
"""Converts the seconds of a column, given its column number and its type in the table."""

EPOCH_2015 = 1420070400
"""Stored seconds count from 2015 in the time zone of the writer."""
_UNIVERSAL = ("UTC", "GMT", "", "Etc/UTC", "Z")
_ZEROS = {True: (b"\x7f\0\0", 130), False: (b"\xc1\xff\0\0", 512)}
"""For both versions of the integer encoding: the longest run of zeros, and its number of values."""


def has_timestamps(t: DataType) -> bool:
    """Return whether a type is, or contains, a timestamp."""
    if isinstance(t, AtomicType):
        return t.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
    if isinstance(t, RowType):
        return any(has_timestamps(f.type) for f in t.fields)
    if isinstance(t, MapType):
        return has_timestamps(t.key) or has_timestamps(t.value)
    return has_timestamps(t.element)


class TimestampFile:
    """An ORC file from which columns with timestamps are read.

    Raises:
        UnsupportedError: the compression is not supported.
    """

    def __init__(self, source: pa.NativeFile) -> None:
        self._source = source
        self.tail = Tail.read(source)
        self._holding = _holding(self.tail)
        footer = [(n, _timeless(v) if n == FOOTER_TYPES and isinstance(v, bytes) else v) for n, v in self.tail.footer]
        shown = _Shown(source, self.tail.footer_at, self.tail.with_footer(footer))
        self._file = orc.ORCFile(pa.PythonFile(shown, mode="r"))

    def read_stripe(self, index: int, fields: Sequence[DataField]) -> pa.RecordBatch:
        """Return existing columns of one stripe, with timestamps in the unit of their type.

        Raises:
            OutOfRangeError: a timestamp is out of range of that unit.
        """
        footer = self.tail.stripe_footer(self._source, self.tail.stripes[index])

        def decoded(seconds: pa.Array, column: int, t: DataType | None) -> pa.Array:
            zone = "UTC" if self.tail.columns[column].kind == INSTANT else footer.zone
            parts = wall_clock(*self._parts(seconds, column, footer), zone)
            target = _target(t)
            check_range(*parts, target)
            return timestamps(seconds, *parts, target)

        batch = self._file.read_stripe(index, columns=[f.name for f in fields])
        by_name = {f.name: f.type for f in fields}
        arrays = []
        for name, array, column in zip(batch.schema.names, batch.columns, self._top(batch), strict=True):
            with in_column(name):
                arrays.append(self._walk(array, column, by_name[name], decoded))
        return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)

    def stored(self, index: int, footer: StripeFooter) -> dict[int, tuple[I64, I64]]:
        """Return the stored seconds and nanoseconds of each timestamp column of a stripe, without nulls."""
        found: dict[int, tuple[I64, I64]] = {}

        def keep(seconds: pa.Array, column: int, t: DataType | None) -> pa.Array:
            del t
            found[column] = self._parts(seconds, column, footer)
            return seconds

        batch = self._file.read_stripe(index)
        for column, array in zip(self._top(batch), batch.columns, strict=True):
            self._walk(array, column, None, keep)
        return found

    def _top(self, batch: pa.RecordBatch) -> list[int]:
        """Return the column numbers of a batch."""
        root = self.tail.columns[0]
        by_name = dict(zip(root.names, root.children, strict=True))
        return [by_name[n] for n in batch.schema.names]

    def _walk(self, array: pa.Array, column: int, t: DataType | None, leaf: Leaf) -> pa.Array:
        """Return an array with `leaf` applied to its timestamps."""
        if column not in self._holding:
            return array
        node = self.tail.columns[column]
        if node.kind in TIMES:
            return leaf(array, column, t)
        mask = array.is_null()
        if node.kind == LIST:
            inner = t.element if isinstance(t, ArrayType) else None
            return pa.ListArray.from_arrays(
                array.offsets, self._walk(array.values, node.children[0], inner, leaf), mask=mask
            )
        if node.kind == MAP:
            key, value = _pair(t)
            keys = self._walk(array.keys, node.children[0], key, leaf)
            return pa.MapArray.from_arrays(
                array.offsets, keys, self._walk(array.items, node.children[1], value, leaf), mask=mask
            )
        members = {f.name: f.type for f in t.fields} if isinstance(t, RowType) else {}
        parts = [
            self._walk(array.field(i), child, members.get(name), leaf)
            for i, (name, child) in enumerate(zip(node.names, node.children, strict=True))
        ]
        return pa.StructArray.from_arrays(parts, names=list(node.names), mask=mask)

    def _parts(self, seconds: pa.Array, column: int, footer: StripeFooter) -> tuple[I64, I64]:
        """Return the non-null seconds and their nanoseconds."""
        whole = seconds.drop_null().to_numpy()
        if not len(whole):
            return whole, whole
        stream = next((s for s in footer.streams if s.column == column and s.kind == SECONDARY), None)
        if stream is None:
            raise ValueError("a column of timestamps has no nanoseconds")
        nanos = self._source.read_at(stream.length, stream.offset)
        encoding = footer.encodings[column]
        run, most = _ZEROS[encoding == DIRECT]
        zeros = self.tail.framing.plain(run * -(-len(whole) // most))
        streams = [(DATA, zeros), (SECONDARY, nanos)]
        file = one_stripe(self.tail.framing, TIMESTAMP, encoding, streams, len(whole))
        moments = orc.ORCFile(pa.BufferReader(file)).read().column(0).combine_chunks()
        return whole, moments.cast(pa.int64()).to_numpy() - EPOCH_2015 * BILLION


class _Shown(io.RawIOBase):
    """A file with its tail replaced."""

    def __init__(self, source: pa.NativeFile, until: int, end: bytes) -> None:
        self._source = source
        self._until = until
        self._end = end
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._until + len(self._end)}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        stop = self._until + len(self._end)
        stop = stop if size < 0 else min(stop, self._at + size)
        out = b""
        if self._at < min(stop, self._until):
            out = self._source.read_at(min(stop, self._until) - self._at, self._at)
        if stop > self._until:
            out += self._end[max(0, self._at - self._until) : stop - self._until]
        self._at = stop
        return out


def _timeless(data: bytes) -> bytes:
    """Return a type node with timestamp types replaced by integers."""
    fields: list[Field] = list(messages(data))
    return message(with_field(fields, 1, LONG)) if dict(fields).get(1, 0) in TIMES else data


def _holding(tail: Tail) -> frozenset[int]:
    """Return the columns that are, or contain, timestamps; children have higher numbers than their parents."""
    found: set[int] = set()
    for i in range(len(tail.columns) - 1, -1, -1):
        node = tail.columns[i]
        if node.kind in TIMES or (node.kind in (LIST, MAP, STRUCT) and not found.isdisjoint(node.children)):
            found.add(i)
    return frozenset(found)


def _pair(t: DataType | None) -> tuple[DataType | None, DataType | None]:
    if isinstance(t, MapType):
        return t.key, t.value
    return (t.element, None) if isinstance(t, MultisetType) else (None, None)


def _target(t: DataType | None) -> pa.DataType:
    found = pa.null() if t is None else to_arrow_type(t)
    return found if pa.types.is_timestamp(found) else pa.timestamp("us")


def wall_clock(seconds: I64, nanos: I64, zone: str) -> tuple[I64, I64]:
    """Return epoch seconds of the wall clock in the writer's zone, and nanoseconds in [0, 10^9).

    A writer truncates seconds towards 1970 if the fraction is at least a millisecond; before 1970, one second must then
    be subtracted. pyarrow writes negative nanoseconds instead.
    """
    if zone in _UNIVERSAL:
        wall = seconds + EPOCH_2015
        wall = wall - ((wall < 0) & (nanos > 999_999))
    else:
        local = pa.array([EPOCH_2015], pa.int64()).cast(pa.timestamp("s"))
        instants = seconds + pc.assume_timezone(local, zone).cast(pa.int64())[0].as_py()
        instants = instants - ((instants < 0) & (nanos > 999_999))
        wall = pc.local_timestamp(pa.array(instants, pa.int64()).cast(pa.timestamp("s", zone)))
        wall = wall.cast(pa.int64()).to_numpy()
    carried = nanos // BILLION
    return wall + carried, nanos - carried * BILLION

"""Timestamps of ORC files, at any depth and over the whole range that the table's type has.

pyarrow delivers timestamps of ORC in nanoseconds, which end in 1677 and 2262, and takes some that a writer in another
zone has stored for others. A file holds the seconds and the nanoseconds of a timestamp in two streams. So the file is
shown to pyarrow with a tail that says that its timestamps are integers, which makes it deliver the seconds, in place
inside of whatever they are in. The nanoseconds of each such column are read from a file of their own, with all
seconds the same. Every encoding and compression that the library knows serves.
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
"""Makes the seconds of a column into something else, told the number of the column and its type in the table."""

EPOCH_2015 = 1420070400
"""Stored seconds count from 2015, by the clock of the zone that the writer names."""
_UNIVERSAL = ("UTC", "GMT", "", "Etc/UTC", "Z")
_ZEROS = {True: (b"\x7f\0\0", 130), False: (b"\xc1\xff\0\0", 512)}
"""For both versions of the encoding of integers: the longest run of zeros and how many it has."""


def has_timestamps(t: DataType) -> bool:
    """Return whether values of a type are timestamps or hold any."""
    if isinstance(t, AtomicType):
        return t.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
    if isinstance(t, RowType):
        return any(has_timestamps(f.type) for f in t.fields)
    if isinstance(t, MapType):
        return has_timestamps(t.key) or has_timestamps(t.value)
    return has_timestamps(t.element)


class TimestampFile:
    """An ORC file of which columns with timestamps are wanted.

    Raises:
        UnsupportedError: the file has a compression that is not known here.
    """

    def __init__(self, source: pa.NativeFile, path: str) -> None:
        self._source = source
        self._path = path
        self.tail = Tail.read(source)
        self._holding = _holding(self.tail)
        footer = [(n, _timeless(v) if n == FOOTER_TYPES and isinstance(v, bytes) else v) for n, v in self.tail.footer]
        shown = _Shown(source, self.tail.footer_at, self.tail.with_footer(footer))
        self._file = orc.ORCFile(pa.PythonFile(shown, mode="r"))

    def read_stripe(self, index: int, fields: Sequence[DataField]) -> pa.RecordBatch:
        """Return the columns of one stripe, which the file must have; timestamps are in the unit of their type.

        Raises:
            OutOfRangeError: a timestamp is outside the range of that unit.
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
        """Return seconds and nanoseconds of each column of timestamps of a stripe as they are stored, without nulls."""
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
        """Return the numbers of the columns of a batch."""
        root = self.tail.columns[0]
        by_name = dict(zip(root.names, root.children, strict=True))
        return [by_name[n] for n in batch.schema.names]

    def _walk(self, array: pa.Array, column: int, t: DataType | None, leaf: Leaf) -> pa.Array:
        """Return an array with its timestamps made into what `leaf` says."""
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
        """Return the values without nulls, and the nanoseconds that belong to them."""
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
    """A file with another end than the one that it has."""

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
    """Return a type that is an integer where it was a timestamp."""
    fields: list[Field] = list(messages(data))
    return message(with_field(fields, 1, LONG)) if dict(fields).get(1, 0) in TIMES else data


def _holding(tail: Tail) -> frozenset[int]:
    """Return the columns that are timestamps or hold some: those inside a column have higher numbers."""
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
    """Return seconds since 1970 of the wall clock in the writer's zone, and nanoseconds from 0 to a billion.

    A writer cuts the fraction off the seconds towards 1970 where there is a millisecond at least: seconds of before
    are one too many then. pyarrow writes nanoseconds below 0 instead.
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
    read_columns = nanos // BILLION
    return wall + read_columns, nanos - read_columns * BILLION

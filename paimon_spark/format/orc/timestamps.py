"""ORC timestamps at any nesting depth, over the full range of the table's type.

pyarrow reads ORC timestamps as nanoseconds, limited to 1677 to 2262, and misreads some that were written in another
time zone. It reads columns that were written in UTC and have all values between 1970 and 2262 by their statistics.

ORC stores a timestamp in two streams, seconds and nanoseconds. For other columns, this module presents the file to
pyarrow with a modified tail that declares timestamps as integers, so pyarrow returns the seconds in place, at any
depth. The nanoseconds of each column are read through a generated single-column file with constant seconds, batch by
batch beside the seconds. All encodings and compressions of the library are supported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from paimon_spark.format.arrays import I64
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.format.orc.composed import Composed, Part, Range, decoded
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
from paimon_spark.format.orc.messages import Field, message, messages, parts_of, with_field
from paimon_spark.format.orc.statistics import Statistics
from paimon_spark.format.timestamp_ranges import BILLION, check_range, in_column, timestamps
from paimon_spark.spec.types import ArrayType, AtomicType, DataField, DataType, MapType, MultisetType, RowType, TypeRoot

Leaf = Callable[[pa.Array, int, "DataType | None"], pa.Array]
"""Converts the timestamps of a column, or their seconds, given its column number and its type in the table."""

EPOCH_2015 = 1420070400
"""Stored seconds count from 2015 in the time zone of the writer."""
_NANO_ROWS = 1 << 15
_NAMED_UNIVERSAL = ("UTC", "GMT", "Etc/UTC")
"""The zones of a writer in which pyarrow reads the wall clock. It reads a missing one as that of the machine."""
_UNIVERSAL = (*_NAMED_UNIVERSAL, "", "Z")
_LAST_MILLI = ((1 << 63) - 1) // 1_000_000 - 1
"""The last millisecond all of whose nanoseconds are timestamps in nanoseconds."""
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

    Args:
        source: the file.
        tail: its tail; it is read if it is not given.

    Raises:
        UnsupportedError: the compression is not supported.
    """

    def __init__(self, source: pa.NativeFile, tail: Tail | None = None) -> None:
        self._source = source
        self.tail = tail or Tail.read(source)
        self._statistics = Statistics(self.tail, source)
        self._holding = _holding(self.tail)
        self._names = {number: name for name, number in self.tail.numbers.items()}

    def batches(
        self, stripes: Sequence[int], fields: Sequence[DataField], batch_rows: int | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield existing columns of some stripes, with timestamps in the unit of their type.

        Args:
            stripes: the stripes.
            fields: the columns.
            batch_rows: see `decoded`. Files whose statistics do not count values are read by whole stripes.

        Raises:
            OutOfRangeError: a timestamp is out of range of its unit.
        """
        types = {f.name: f.type for f in fields}
        numbers = [self.tail.numbers[name] for name in types]
        if self._is_read_by_pyarrow(numbers, stripes):
            for batch in decoded(self.tail.of_stripes(self._source, stripes), list(map(str, numbers)), batch_rows):
                yield self._converted(batch, types, _in_unit)
        else:
            yield from self._by_parts(stripes, types, numbers, batch_rows)

    def _is_read_by_pyarrow(self, columns: Sequence[int], stripes: Sequence[int]) -> bool:
        """Return whether pyarrow reads all timestamps of some columns and stripes right."""
        times, rest = [], list(columns)
        while rest:
            number = rest.pop()
            node = self.tail.columns[number]
            rest += node.children
            times += [number] if node.kind in TIMES else []
        if not self._statistics.times_within(times, 1, _LAST_MILLI):
            return False
        footers = (self.tail.stripe_footer(self._source, self.tail.stripes[i]) for i in stripes)
        return all(f.zone in _NAMED_UNIVERSAL for f in footers)

    def _by_parts(
        self, stripes: Sequence[int], types: Mapping[str, DataType], numbers: Sequence[int], batch_rows: int | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield columns of some stripes whose seconds and nanoseconds are read apart."""
        counts = () if batch_rows is None else self._statistics.value_counts()
        batch_rows = batch_rows if counts else None
        chosen = ((i, self.tail.stripes[i].rows) for i in stripes)
        left, decode = 0, None
        for batch in decoded(self._timeless(stripes), list(map(str, numbers)), batch_rows):
            if not batch.num_rows:
                continue
            if not left:
                index, left = next(((i, rows) for i, rows in chosen if rows), (0, 0))
                decode = self._decoder(index, counts[index] if counts else None) if left else None
            if batch.num_rows > left or decode is None:
                raise ValueError("a stripe has more rows than the tail of the file records")
            left -= batch.num_rows
            yield self._converted(batch, types, decode)

    def stored(self, index: int, footer: StripeFooter) -> dict[int, tuple[I64, I64]]:
        """Return the stored seconds and nanoseconds of each timestamp column of a stripe, without nulls."""
        found: dict[int, tuple[I64, I64]] = {}

        def keep(seconds: pa.Array, column: int, t: DataType | None) -> pa.Array:
            del t
            whole = seconds.drop_null().to_numpy()
            found[column] = whole, self._nanoseconds(column, footer, len(whole), None).take(len(whole))
            return seconds

        file = orc.ORCFile(pa.PythonFile(Composed(self._timeless([index])), mode="r"))
        self._converted(file.read_stripe(0), {}, keep)
        return found

    def _timeless(self, stripes: Sequence[int]) -> Sequence[Part]:
        """Return the parts of a file of some stripes whose timestamps are declared as integers."""
        types = parts_of(self.tail.footer, FOOTER_TYPES)
        return self.tail.of_stripes(self._source, stripes, list(map(_timeless, types)))

    def _decoder(self, index: int, counts: Sequence[int] | None) -> Leaf:
        """Return the conversion of the seconds of a stripe, which takes them batch by batch.

        Args:
            index: the stripe.
            counts: the number of values of each of its columns; None if all are converted at once.
        """
        footer = self.tail.stripe_footer(self._source, self.tail.stripes[index])
        streams: dict[int, _Nanoseconds] = {}

        def decode(seconds: pa.Array, column: int, t: DataType | None) -> pa.Array:
            whole = seconds.drop_null().to_numpy()
            if column not in streams:
                count, rows = (len(whole), None) if counts is None else (counts[column], _NANO_ROWS)
                streams[column] = self._nanoseconds(column, footer, count, rows)
            zone = "UTC" if self.tail.columns[column].kind == INSTANT else footer.zone
            parts = wall_clock(whole, streams[column].take(len(whole)), zone)
            target = _target(t)
            check_range(*parts, target)
            return timestamps(seconds, *parts, target)

        return decode

    def _converted(self, batch: pa.RecordBatch, types: Mapping[str, DataType], leaf: Leaf) -> pa.RecordBatch:
        """Return a batch of numbered columns with their names, and with `leaf` applied to its timestamps."""
        numbers = list(map(int, batch.schema.names))
        names = [self._names[n] for n in numbers]
        arrays = batch.columns
        for i, number in enumerate(numbers):
            if number in self._holding:
                with in_column(names[i]):
                    arrays[i] = self._walk(arrays[i], number, types.get(names[i]), leaf)
        return pa.RecordBatch.from_arrays(arrays, names=names)

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

    def _nanoseconds(self, column: int, footer: StripeFooter, count: int, batch_rows: int | None) -> _Nanoseconds:
        """Return the nanoseconds of a column of a stripe that has `count` values, which are decoded as by `decoded`."""
        if not count:
            return _Nanoseconds(iter(()))
        stream = next((s for s in footer.streams if s.column == column and s.kind == SECONDARY), None)
        if stream is None:
            raise ValueError("a column of timestamps has no nanoseconds")
        encoding = footer.encodings[column]
        run, most = _ZEROS[encoding == DIRECT]
        zeros = self.tail.framing.plain(run * -(-count // most))
        streams: list[tuple[int, Part]] = [
            (DATA, zeros),
            (SECONDARY, Range(self._source, stream.offset, stream.length)),
        ]
        return _Nanoseconds(
            decoded(one_stripe(self.tail.framing, TIMESTAMP, encoding, streams, count), ["x"], batch_rows)
        )


class _Nanoseconds:
    """The nanoseconds of the values of a column, in order.

    Args:
        batches: the values as timestamps after the start of 2015.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest: I64 = np.empty(0, np.int64)

    def take(self, count: int) -> I64:
        """Return those of the next `count` values.

        Raises:
            ValueError: there are fewer.
        """
        parts, held = [self._rest], len(self._rest)
        while held < count:
            batch = next(self._batches, None)
            if batch is None:
                raise ValueError("a column of timestamps has fewer nanoseconds than seconds")
            parts.append(batch.column(0).cast(pa.int64()).to_numpy() - EPOCH_2015 * BILLION)
            held += len(parts[-1])
        whole = np.concatenate(parts)
        self._rest = whole[count:]
        return whole[:count]


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


def _in_unit(values: pa.Array, column: int, t: DataType | None) -> pa.Array:
    """Return timestamps after 1970 in the unit of their type."""
    del column
    return values.cast(_target(t), safe=False)


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

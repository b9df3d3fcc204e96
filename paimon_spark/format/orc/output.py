"""Output of ORC files: pyarrow's output unchanged, or with timestamps before 1970 corrected.

pyarrow stores fractions of a second before 1970 as negative nanoseconds, which the format does not allow: Java readers
fail or read another time. From the first batch with such a fraction on, a file is therefore built stripe by stripe in
memory: columns with such fractions are encoded again as the format requires.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from paimon_spark.errors import ArgumentError, ErrorKind
from paimon_spark.format.arrays import I64
from paimon_spark.format.nested_nulls import pack, packed
from paimon_spark.format.orc.composed import Composed, Zeros
from paimon_spark.format.orc.layout import (
    DATA,
    FOOTER_ROWS,
    FOOTER_STATISTICS,
    FOOTER_STRIPES,
    MAGIC,
    SECONDARY,
    Stripe,
    Tail,
)
from paimon_spark.format.orc.messages import Field, message, messages, number_of, parts_of, with_field
from paimon_spark.format.orc.statistics import BYTES, HAS_NULL, TIMES, VALUES
from paimon_spark.format.orc.timestamps import EPOCH_2015, TimestampFile, wall_clock
from paimon_spark.format.timestamp_ranges import BILLION, PER_SECOND

_BATCH_ROWS = 8192
_COPIED_BYTES = 1 << 20
_WHOLE = 1 << 40
_EXACT = 1 << 53
"""Integers up to this are exact as floating point numbers, which pyarrow converts seconds to internally."""
_CONTENT, _STRIDE = 2, 8


class Output(Protocol):
    """The output of a file's rows."""

    def write(self, table: pa.Table) -> None:
        """Append rows, in physical types."""

    def tell(self) -> int:
        """Return the size of the finished stripes."""

    def finish(self, empty: pa.Table) -> int:
        """Finish the file, writing `empty` if it has no rows; return its size."""

    def abort(self) -> None:
        """Close the stream."""


def open_output(out: pa.NativeFile, schema: pa.Schema, codec: str, stripe_bytes: int) -> Output:
    """Return the output for rows of a schema."""
    kind = _Checked if any(_has_timestamps(t) for t in schema.types) else _Streamed
    return kind(out, codec, stripe_bytes)


@dataclass(frozen=True, slots=True)
class _Begun:
    """The stripes at the start of a file without a tail.

    Attributes:
        source: the file with the tail that it would have; the stripes read as zeros.
        tail: this tail.
    """

    source: pa.NativeFile
    tail: Tail


class _Streamed:
    """Writes pyarrow's output unchanged."""

    def __init__(self, out: pa.NativeFile, codec: str, stripe_bytes: int) -> None:
        self._sink = _Sink(out)
        self._writer = orc.ORCWriter(pa.PythonFile(self._sink, mode="w"), compression=codec, stripe_size=stripe_bytes)
        self._written = False

    def write(self, table: pa.Table) -> None:
        self._writer.write(packed(table))
        self._written = True
        self._sink.check()

    def tell(self) -> int:
        return self._sink.tell()

    def cut(self) -> _Begun | None:
        """End the last stripe and leave out the tail; return None if no rows were written. The stream stays open."""
        if not self._written:
            return None
        sink = self._sink
        written = sink.tell()
        sink.hold()
        self._writer.close()
        source = pa.PythonFile(Composed([Zeros(written), *sink.held]), mode="r")
        tail = Tail.read(source)
        sink.release(tail.metadata_at - written)
        sink.check()
        return _Begun(source, tail)

    def finish(self, empty: pa.Table) -> int:
        if not self._written:
            self._writer.write(empty)
        self._writer.close()
        self._sink.finish()
        return self._sink.tell()

    def abort(self) -> None:
        with suppress(pa.ArrowException, OSError):
            self._writer.close()
        self._sink.abort()


class _Checked:
    """Writes pyarrow's output unchanged up to the first batch with timestamps to correct."""

    def __init__(self, out: pa.NativeFile, codec: str, stripe_bytes: int) -> None:
        self._output: _Streamed | _Corrected = _Streamed(out, codec, stripe_bytes)
        self._corrected = partial(_Corrected, out, codec, stripe_bytes)

    def write(self, table: pa.Table) -> None:
        if isinstance(self._output, _Streamed) and any(map(_needs_correction, table.columns)):
            self._output = self._corrected(self._output.cut())
        self._output.write(table)

    def tell(self) -> int:
        return self._output.tell()

    def finish(self, empty: pa.Table) -> int:
        return self._output.finish(empty)

    def abort(self) -> None:
        self._output.abort()


class _Corrected:
    """Builds each stripe as a file in memory and concatenates the stripes.

    Files with corrected stripes have no row index, because the offsets in it are no longer valid.
    """

    def __init__(self, out: pa.NativeFile, codec: str, stripe_bytes: int, begun: _Begun | None) -> None:
        self._out = out
        self._codec = codec
        self._stripe_bytes = stripe_bytes
        self._size = 0
        self._first: Tail | None = None
        self._stripes: list[Stripe] = []
        self._stripe_statistics: list[bytes] = []
        self._statistics: list[list[bytes]] = []
        self._changed = False
        if begun is None:
            self._put(MAGIC)
        else:
            self._size = begun.tail.metadata_at
            self._stripes += begun.tail.stripes
            self._keep_statistics(begun.source, begun.tail, frozenset())
        self._start()

    def _start(self) -> None:
        self._rows = 0
        self._needs_correction = False
        self._buffer = _Pieces()
        self._writer = orc.ORCWriter(
            pa.PythonFile(self._buffer, mode="w"),
            compression=self._codec,
            stripe_size=self._stripe_bytes,
            batch_size=_BATCH_ROWS,
        )

    def write(self, table: pa.Table) -> None:
        for start in range(0, table.num_rows, _BATCH_ROWS):
            part = packed(table.slice(start, _BATCH_ROWS))
            self._needs_correction = self._needs_correction or any(map(_needs_correction, part.columns))
            self._writer.write(part)
            self._rows += part.num_rows
            if self._buffer.tell() > len(MAGIC):
                self._add()
                self._start()

    def tell(self) -> int:
        return self._size

    def finish(self, empty: pa.Table) -> int:
        del empty
        if self._rows:
            self._add()
        self._put(self._tail())
        self._out.close()
        return self._size

    def abort(self) -> None:
        with suppress(pa.ArrowException, OSError):
            self._writer.close()
        with suppress(pa.ArrowException, OSError):
            self._out.close()

    def _put(self, data: bytes) -> None:
        self._out.write(data)
        self._size += len(data)

    def _copy(self, source: pa.NativeFile, stripe: Stripe) -> None:
        for start in range(0, stripe.length, _COPIED_BYTES):
            self._put(source.read_at(min(_COPIED_BYTES, stripe.length - start), stripe.offset + start))

    def _add(self) -> None:
        """Append the stripe in memory to the file, without statistics of corrected columns."""
        self._writer.close()
        source = pa.PythonFile(Composed(self._buffer.pieces), mode="r")
        tail = Tail.read(source)
        changed: set[int] = set()
        for index, stripe in enumerate(tail.stripes):
            corrected, moved = (
                _correct(source, index, stripe, self._codec, changed) if self._needs_correction else (b"", stripe)
            )
            self._stripes.append(_moved(moved, self._size))
            if corrected:
                self._put(corrected)
            else:
                self._copy(source, stripe)
        self._changed |= bool(changed)
        self._keep_statistics(source, tail, changed)

    def _keep_statistics(self, source: pa.NativeFile, tail: Tail, changed: Set[int]) -> None:
        """Keep the statistics of some stripes, without those of the columns in `changed`."""
        self._first = self._first or tail
        metadata = tail.framing.unpack(source.read_at(tail.footer_at - tail.metadata_at, tail.metadata_at))
        for one in parts_of(tuple(messages(metadata)), 1):
            columns = parts_of(tuple(messages(one)), 1)
            self._stripe_statistics.append(message([(1, c) for c in _timeless(columns, changed)]))
        self._statistics.append(_timeless(parts_of(tail.footer, FOOTER_STATISTICS), changed))

    def _tail(self) -> bytes:
        if self._first is None:
            raise ValueError("a file without stripes has no tail to rewrite")
        metadata = self._first.framing.plain(message([(1, s) for s in self._stripe_statistics]))
        own = (_CONTENT, FOOTER_STRIPES, FOOTER_ROWS, FOOTER_STATISTICS)
        footer: list[Field] = [f for f in self._first.footer if f[0] not in own]
        footer.append((_CONTENT, self._size - len(MAGIC)))
        footer += [(FOOTER_STRIPES, _stripe_message(s)) for s in self._stripes]
        footer.append((FOOTER_ROWS, sum(s.rows for s in self._stripes)))
        footer += [(FOOTER_STATISTICS, s) for s in _merged(self._statistics)]
        if self._changed:
            footer = with_field(footer, _STRIDE, 0)
        return metadata + self._first.with_footer(sorted(footer, key=lambda f: f[0]), len(metadata))


class _Target(ABC):
    """What the ORC library writes to, without a buffer."""

    def __init__(self) -> None:
        self._size = 0
        self.closed = False

    def write(self, data: bytes) -> int:
        self._take(data)
        self._size += len(data)
        return len(data)

    @abstractmethod
    def _take(self, data: bytes) -> None: ...

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:  # noqa: B027 - all targets are without a buffer
        """Do nothing: nothing is buffered."""

    def close(self) -> None:
        self.closed = True


class _Pieces(_Target):
    """Keeps what is written as it comes: a buffer that grows would hold it twice each time."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []

    def _take(self, data: bytes) -> None:
        self.pieces.append(data)


class _Sink(_Target):
    """A sink that never raises, because the library aborts the process if a stream fails.

    The first error is kept and raised by `check` and `finish`.
    """

    def __init__(self, out: pa.NativeFile) -> None:
        super().__init__()
        self._out = out
        self._error: BaseException | None = None
        self._holds = False
        self.held: list[bytes] = []

    def _take(self, data: bytes) -> None:
        if self._holds:
            self.held.append(data)
        elif self._error is None:
            try:
                self._out.write(data)
            except BaseException as e:  # noqa: BLE001 - an interrupt too would end the process
                self._error = e

    def hold(self) -> None:
        """From now on, keep in `held` what is written."""
        self._holds = True

    def release(self, length: int) -> None:
        """Write the first `length` bytes of `held` to the stream."""
        self._holds = False
        self._take(b"".join(self.held)[:length])

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def finish(self) -> None:
        self._out.close()
        self.check()

    def abort(self) -> None:
        """Close the stream; errors are not raised."""
        with suppress(pa.ArrowException, OSError):
            self._out.close()


def _correct(source: pa.NativeFile, index: int, stripe: Stripe, codec: str, changed: set[int]) -> tuple[bytes, Stripe]:
    """Return a stripe with corrected timestamps, and its location; empty if nothing has to be corrected.

    The corrected columns are added to `changed`.
    """
    file = TimestampFile(source)
    footer = file.tail.stripe_footer(source, stripe)
    made: dict[tuple[int, int], bytes] = {}
    for column, (seconds, nanos) in file.stored(index, footer).items():
        if ((nanos < 0) | (nanos >= BILLION)).any():
            data, secondary = _encoded(*_customary(seconds, nanos), codec)
            made |= {(column, DATA): data, (column, SECONDARY): secondary}
            changed.add(column)
    if not made:
        return b"", stripe
    streams = [(s, made.get((s.column, s.kind)) or source.read_at(s.length, s.offset)) for s in footer.streams]
    listed: list[Field] = [(1, message([(1, s.kind), (2, s.column), (3, len(data))])) for s, data in streams]
    end = file.tail.framing.plain(message([*listed, *(f for f in footer.fields if f[0] != 1)]))
    data = b"".join(data for _, data in streams)
    moved = Stripe(stripe.offset, stripe.index_length, len(data) - stripe.index_length, len(end), stripe.rows)
    return data + end, moved


def _customary(seconds: I64, nanos: I64) -> tuple[I64, I64]:
    """Return stored seconds and nanoseconds without negative nanoseconds.

    Readers subtract a second if the seconds are negative and the fraction is at least a millisecond. They do not for
    the last second before 1970, where negative nanoseconds are the only way to distinguish a fraction from one after
    1970.
    """
    whole, rest = wall_clock(seconds, nanos, "UTC")
    cut = (whole < 0) & (rest > 999_999)
    return whole + cut - EPOCH_2015, np.where(cut & (whole == -1), rest - BILLION, rest)


def _encoded(seconds: I64, nanos: I64, codec: str) -> tuple[bytes, bytes]:
    """Return the encoded streams of seconds and nanoseconds."""
    table = pa.table({"seconds": seconds, "nanos": pa.array(nanos).cast(pa.timestamp("ns"))})
    buffer = pa.BufferOutputStream()
    writer = orc.ORCWriter(buffer, compression=codec, stripe_size=_WHOLE)
    writer.write(table)
    writer.close()
    source = pa.BufferReader(buffer.getvalue())
    tail = Tail.read(source)
    (stripe,) = tail.stripes
    found = {(s.column, s.kind): s for s in tail.stripe_footer(source, stripe).streams}
    one, other = found[1, DATA], found[2, SECONDARY]
    return source.read_at(one.length, one.offset), source.read_at(other.length, other.offset)


def _moved(stripe: Stripe, offset: int) -> Stripe:
    return Stripe(offset, stripe.index_length, stripe.data_length, stripe.footer_length, stripe.rows)


def _stripe_message(s: Stripe) -> bytes:
    return message([(1, s.offset), (2, s.index_length), (3, s.data_length), (4, s.footer_length), (5, s.rows)])


def _timeless(statistics: Sequence[bytes], changed: Set[int]) -> list[bytes]:
    """Return column statistics without the bounds of columns in `changed`, which pyarrow rounds towards 1970."""
    return [
        message(f for f in messages(s) if f[0] != TIMES) if column in changed else s
        for column, s in enumerate(statistics)
    ]


def _merged(statistics: Sequence[Sequence[bytes]]) -> list[bytes]:
    """Return column statistics merged over stripes: those of a single stripe, else only counts."""
    if len(statistics) == 1:
        return list(statistics[0])
    out: list[bytes] = []
    for column in zip(*statistics, strict=True):
        parts = [tuple(messages(s)) for s in column]
        values, size = (sum(number_of(p, n) for p in parts) for n in (VALUES, BYTES))
        out.append(message([(VALUES, values), (HAS_NULL, max(number_of(p, HAS_NULL) for p in parts)), (BYTES, size)]))
    return out


def _has_timestamps(t: pa.DataType) -> bool:
    if pa.types.is_list(t):
        return _has_timestamps(t.value_type)
    if pa.types.is_map(t):
        return _has_timestamps(t.key_type) or _has_timestamps(t.item_type)
    return pa.types.is_timestamp(t) or (pa.types.is_struct(t) and any(_has_timestamps(f.type) for f in t))


def timestamps_in(array: pa.Array) -> Iterator[pa.Array]:
    """Yield the timestamp arrays in an array, at any nesting depth."""
    t = array.type
    if pa.types.is_timestamp(t):
        yield array
    elif pa.types.is_list(t) and _has_timestamps(t):
        yield from timestamps_in(array.flatten())
    elif pa.types.is_map(t) and _has_timestamps(t):
        whole = pack(array)
        yield from timestamps_in(whole.keys)
        yield from timestamps_in(whole.items)
    elif pa.types.is_struct(t):
        for member in array.flatten():
            yield from timestamps_in(member)


def _needs_correction(column: pa.ChunkedArray) -> bool:
    """Return whether a column has a fractional timestamp before 1970, or one that pyarrow rounds."""
    return any((((v < 0) & (v % unit != 0)) | (np.abs(v // unit) > _EXACT)).any() for v, unit in _numbers(column))


def check_last_second(name: str, column: pa.ChunkedArray) -> None:
    """Raise if a column has a time in the last second before 1970 with a fraction of a millisecond.

    In ORC, it cannot be distinguished from a time in the first second after 1970: Java readers read that, or fail.

    Raises:
        ArgumentError: the column has such a time.
    """
    for values, unit in _numbers(column):
        milli = unit // 1000
        found = (values > -unit) & (values < 0) & (values % milli != 0 if milli else False)
        if found.any():
            digits = len(str(unit)) - 1
            fraction = str(int(values[found][0]) + unit).zfill(digits)
            raise ArgumentError(
                f"Column '{name}' has the time 1969-12-31 23:59:59.{fraction}, which ORC files cannot store: in the "
                "last second before 1970 they support whole milliseconds only.",
                hint="Set 'file.format' to 'parquet', or round such times to milliseconds.",
                kind=ErrorKind.VALUE_NOT_STORABLE,
            )


def _numbers(column: pa.ChunkedArray) -> Iterator[tuple[I64, int]]:
    """Yield the times of a column, unless all are in the common range, and the number of their units per second."""
    for times in (t for c in column.chunks for t in timestamps_in(c)):
        numbers = times.cast(pa.int64())
        bounds = pc.min_max(numbers)
        unit = PER_SECOND[times.type.unit]
        if bounds["min"].is_valid and (bounds["min"].as_py() < 0 or bounds["max"].as_py() > _EXACT * unit):
            yield numbers.drop_null().to_numpy(), unit

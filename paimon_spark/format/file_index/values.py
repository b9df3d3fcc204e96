"""The values of indexed columns: as 64-bit numbers whose order is that of the values, or as byte strings.

A float becomes its position in the order of Java's `Float.compare`: -0.0 before 0.0, NaN last. A timestamp
of more than three digits is a number of microseconds; further digits are truncated.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.format.file_index.roaring import Ints, spread
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.types import AtomicType, TypeRoot

Code = int | bytes
Bytes = npt.NDArray[np.uint8]

_WIDTHS = {
    TypeRoot.BOOLEAN: 1,
    TypeRoot.TINYINT: 1,
    TypeRoot.SMALLINT: 2,
    TypeRoot.INT: 4,
    TypeRoot.DATE: 4,
    TypeRoot.TIME: 4,
    TypeRoot.FLOAT: 4,
}
_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY)
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_LENGTH = 4
_MILLIS, _MICROS = 3, 6


@dataclass(frozen=True, slots=True)
class Literal:
    """The codes that values equal to a literal may have.

    `exact` is true if all values with a code between them are equal to the literal.
    """

    low: Code
    high: Code
    exact: bool = True

    @property
    def codes(self) -> tuple[Code, ...]:
        """Return the codes, one or two."""
        return (self.low,) if self.low == self.high else (self.low, self.high)


@dataclass(frozen=True, slots=True)
class Domain:
    """How the values of a type are represented in indexes."""

    type: AtomicType

    @property
    def is_text(self) -> bool:
        """Return whether the codes are byte strings."""
        return self.type.root in _TEXTS

    @property
    def width(self) -> int:
        """Return the bytes of a serialized number."""
        return _WIDTHS.get(self.type.root, 8)

    def numbers(self, values: pa.Array) -> Ints:
        """Return the codes of values that are not null, as 64-bit numbers."""
        root = self.type.root
        if root is TypeRoot.DECIMAL:
            pairs = np.frombuffer(values.buffers()[1], "<i8")[2 * values.offset :]
            return pairs[: 2 * len(values) : 2]
        if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
            return self._ordinals(np.asarray(values))
        if root is TypeRoot.BOOLEAN:
            values = values.cast(pa.int8())
        elif root in (TypeRoot.DATE, TypeRoot.TIME):
            values = values.view(pa.int32())
        elif root in _TIMESTAMPS:
            nanos = values.type.unit == "ns"
            found = np.asarray(values.view(pa.int64()))
            return found // 1000 if nanos else found
        return np.asarray(values).astype(np.int64)

    def _ordinals(self, values: Ints) -> Ints:
        bits = np.where(np.isnan(values), np.asarray(np.nan, values.dtype), values).view(f"<i{self.width}")
        return self._mirrored(bits.astype(np.int64))

    def _mirrored(self, numbers: Ints) -> Ints:
        """Convert bits of floats to positions in their order, and back."""
        return np.where(numbers < 0, numbers ^ ((1 << 8 * self.width - 1) - 1), numbers)

    def stored(self, numbers: Ints) -> Ints:
        """Return codes as indexes store them: floats as their bits."""
        return self._mirrored(numbers) if self.type.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE) else numbers

    codes = stored
    """The inverse is the same."""

    def literal(self, value: Any) -> Literal | None:
        """Return the codes of a literal; None if the index cannot evaluate it."""
        root = self.type.root
        if self.is_text:
            text = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
            return Literal(text, text) if isinstance(text, bytes) else None
        if root is TypeRoot.BOOLEAN:
            return Literal(int(value), int(value)) if isinstance(value, bool) else None
        if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
            return self._float(value)
        if root in _TIMESTAMPS:
            return self._time(value)
        number, limit = self._whole(value), 1 << 8 * self.width - 1
        return None if number is None or not -limit <= number < limit else Literal(number, number)

    def _whole(self, value: Any) -> int | None:
        if self.type.root is not TypeRoot.DECIMAL:
            return value if isinstance(value, int) and not isinstance(value, bool) else None
        if not isinstance(value, Decimal) or not value.is_finite():
            return None
        numerator, denominator = value.as_integer_ratio()
        unscaled, rest = divmod(numerator * 10 ** (self.type.scale or 0), denominator)
        return None if rest else unscaled

    def _float(self, value: Any) -> Literal | None:
        if not isinstance(value, float):
            return None
        if value == 0:
            return Literal(-1, 0)
        form = "<f" if self.width == _LENGTH else "<d"
        try:
            stored = struct.unpack(form, struct.pack(form, value))[0]
        except OverflowError:
            return None
        if stored != value and value == value:  # noqa: PLR0124 - NaN differs from itself
            return None
        code = int(self._ordinals(np.array([value], form))[0])
        return Literal(code, code)

    def _time(self, value: Any) -> Literal | None:
        if not isinstance(value, Timestamp):
            return None
        precision = 6 if self.type.precision is None else self.type.precision
        if precision <= _MILLIS:
            return Literal(value.millis, value.millis, exact=value.nano_of_milli == 0)
        micros = value.millis * 1000 + value.nano_of_milli // 1000
        return Literal(micros, micros, exact=precision <= _MICROS and value.nano_of_milli % 1000 == 0)


def texts(values: pa.Array) -> tuple[Bytes, Ints]:
    """Return the bytes of strings that are not null, and their offsets, of which the first is 0."""
    binary = values.cast(pa.large_binary())
    _, places, data = binary.buffers()
    if not len(binary):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    offsets = np.frombuffer(places, np.int64)[binary.offset : binary.offset + len(binary) + 1]
    body = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    return body, offsets - offsets[0]


@dataclass(frozen=True, slots=True)
class Distinct:
    """The distinct values of a column in ascending order, as codes: numbers, or strings."""

    domain: Domain
    values: Any
    """An array of numbers, or an Arrow array of strings."""

    def __len__(self) -> int:
        return len(self.values)

    def sizes(self) -> Ints:
        """Return the bytes of each serialized value."""
        if not self.domain.is_text:
            return np.full(len(self), self.domain.width)
        return np.asarray(pc.binary_length(self.values)).astype(np.int64) + _LENGTH

    def records(self, *columns: Ints, part: slice = slice(None)) -> bytes:
        """Return each value of a part, followed by its 32-bit number of each column, one after the other."""
        values = self.values[part]
        parts = [c[part] for c in columns]
        if not self.domain.is_text:
            names = [f"c{i}" for i in range(len(parts))]
            dtype = np.dtype([("v", f">i{self.domain.width}"), *((n, ">i4") for n in names)])
            out = np.empty(len(values), dtype)
            out["v"] = self.domain.stored(values)
            for name, column in zip(names, parts, strict=True):
                out[name] = column
            return out.tobytes()
        data, offsets = texts(values)
        return _text_records(data, offsets, parts)


def _text_records(data: Bytes, offsets: Ints, columns: list[Ints]) -> bytes:
    lengths = np.diff(offsets)
    whole = lengths + _LENGTH * (1 + len(columns))
    starts = np.cumsum(whole) - whole
    out = np.empty(int(whole.sum()), np.uint8)
    out[spread(starts + _LENGTH, lengths)] = data
    places = [starts, *(starts + lengths + _LENGTH * (1 + i) for i in range(len(columns)))]
    for place, numbers in zip(places, (lengths, *columns), strict=True):
        out[place[:, None] + np.arange(_LENGTH)] = numbers.astype(">i4").view(np.uint8).reshape(-1, _LENGTH)
    return out.tobytes()


class Collector:
    """Collects the values of a column of one file with their positions.

    Args:
        domain: the values.
        most: maximum size of the serialized distinct values in bytes. Above it, all values are dropped.
    """

    def __init__(self, domain: Domain, most: int | None = None) -> None:
        self.domain = domain
        self.rows = 0
        self.is_full = False
        """Whether the distinct values exceed the maximum size."""
        self._most = most
        self._unchecked = 0
        self._positions: list[Ints] = []
        self._values: list[Any] = []

    def add(self, values: pa.Array) -> None:
        """Add the values of the next rows."""
        if self.is_full:
            return
        valid = np.asarray(values.is_valid())
        self._positions.append(np.flatnonzero(valid) + self.rows)
        self.rows += len(values)
        found = values.drop_null()
        self._values.append(
            found.cast(pa.large_binary()).dictionary_encode() if self.domain.is_text else self.domain.numbers(found)
        )
        if self._most is not None:
            self._unchecked += self._size(self._values[-1])
            if self._unchecked > self._most:
                self._check(self._most)

    def _size(self, values: Any) -> int:
        """Return the serialized size of numbers, or of the dictionary of strings."""
        if not self.domain.is_text:
            return len(values) * self.domain.width
        words = values.dictionary
        return int(pc.sum(pc.binary_length(words)).as_py() or 0) + len(words) * _LENGTH

    def _check(self, most: int) -> None:
        """Keep each value once; drop all if they are too large."""
        if self.domain.is_text:
            self._values = [self._words()]
            size = self._size(self._values[0])
        else:
            size = self._size(np.unique(self.numbers()))
        self._unchecked = 0
        if size > most:
            self.is_full = True
            self._values, self._positions = [], []

    @property
    def positions(self) -> Ints:
        """Return the positions of the rows that have a value."""
        return np.concatenate([np.zeros(0, np.int64), *self._positions])

    def numbers(self) -> Ints:
        """Return the values as numbers."""
        return np.concatenate([np.zeros(0, np.int64), *self._values])

    def distinct(self) -> tuple[Distinct, Ints]:
        """Return the distinct values, and the position of each value among them."""
        if not self.domain.is_text:
            found, codes = np.unique(self.numbers(), return_inverse=True)
            return Distinct(self.domain, found), codes
        words = self._words()
        order = np.asarray(pc.array_sort_indices(words.dictionary)).astype(np.int64)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        in_order = words.dictionary.take(pa.array(order, pa.int64()))
        return Distinct(self.domain, in_order), rank[np.asarray(words.indices)]

    def _words(self) -> pa.DictionaryArray:
        """Return all strings with one dictionary."""
        dictionary_type = pa.dictionary(pa.int32(), pa.large_binary())
        whole = pa.chunked_array(self._values, dictionary_type).unify_dictionaries().combine_chunks()
        return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole

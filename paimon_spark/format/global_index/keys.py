"""The keys of global indexes: values of the indexed column, serialized, in their order.

Numbers are little-endian: booleans and TINYINT in one byte, SMALLINT in two, INT, DATE, TIME (milliseconds) and FLOAT
(bits) in four, BIGINT, DOUBLE (bits), TIMESTAMP of up to three digits (milliseconds) and DECIMAL of up to 18 digits
(unscaled) in eight. Longer timestamps are the milliseconds in eight bytes and a variable-length number of nanoseconds,
longer decimals the unscaled number as Java's `BigInteger.toByteArray`, strings their UTF-8 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.format.file_index.roaring import Ints
from paimon_spark.format.file_index.values import Code, Domain, Literal, texts
from paimon_spark.format.varints import Bytes, lengths_of, put_varints, read_varint, shortest_decimals
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.types import AtomicType, TypeRoot

_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_MILLIS, _MICROS = 3, 6
_COMPACT_DECIMAL = 18
_LONG = 8
_DECIMAL_BYTES = 16
_NEGATIVE_ZERO = -1
"""Its code in the order of `Float.compare`."""

KEY_TYPES = (
    *_TEXTS,
    TypeRoot.BOOLEAN,
    TypeRoot.TINYINT,
    TypeRoot.SMALLINT,
    TypeRoot.INT,
    TypeRoot.BIGINT,
    *_FLOATS,
    TypeRoot.DECIMAL,
    TypeRoot.DATE,
    TypeRoot.TIME,
    *_TIMESTAMPS,
)
"""The types of columns that global indexes can have as keys."""


@dataclass(frozen=True, slots=True)
class KeyDomain(Domain):
    """The codes of values as in file indexes, but without loss; the key of a wide decimal is its unscaled number.

    Readers see -0.0 and 0.0 as one value. They are different keys, but the writer of Paimon for Spark mixes them.
    """

    @property
    def _per_milli(self) -> int:
        """Return the codes in a millisecond, of a timestamp."""
        precision = 6 if self.type.precision is None else self.type.precision
        return 1 if precision <= _MILLIS else 1_000 if precision <= _MICROS else 1_000_000

    @property
    def is_wide(self) -> bool:
        """Return whether values are decimals of more than 18 digits."""
        return self.type.root is TypeRoot.DECIMAL and (self.type.precision or 10) > _COMPACT_DECIMAL

    @property
    def _has_nanos(self) -> bool:
        return self.type.root in _TIMESTAMPS and self._per_milli > 1

    def literal(self, value: Any) -> Literal | None:
        """Return the codes of a literal; None if the index cannot evaluate it."""
        if self.type.root in _TIMESTAMPS:
            return self._instant(value)
        if self.is_wide:
            number = self._whole(value)
            return None if number is None else Literal(number, number)
        if self.type.root in _FLOATS and value == 0 and isinstance(value, float):
            return Literal(0, 0)
        return Domain.literal(self, value)

    def _instant(self, value: Any) -> Literal | None:
        if not isinstance(value, Timestamp):
            return None
        step = 1_000_000 // self._per_milli
        part, rest = divmod(value.nano_of_milli, step)
        code = value.millis * self._per_milli + part
        return Literal(code, code, exact=rest == 0)

    # ------------------------------------------------------------------------------------------- writing

    def sorted(self, values: pa.Array) -> tuple[Any, Ints]:
        """Return values that are not null in ascending order, as codes, and their former positions.

        Equal values keep their order. The codes are an array of numbers, or an Arrow array.
        """
        if self.is_text or self.is_wide:
            values = values.cast(pa.large_binary()) if self.is_text else values
            order = np.asarray(pc.array_sort_indices(values)).astype(np.int64)
            return values.take(pa.array(order)), order
        codes = self._codes(values)
        order = np.argsort(codes, kind="stable")
        return codes[order], order

    def _codes(self, values: pa.Array) -> Ints:
        if self.type.root in _TIMESTAMPS:
            found = np.asarray(values.view(pa.int64()))
            per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[values.type.unit]
            wanted = 1_000 * self._per_milli
            return found * (wanted // per_second) if wanted >= per_second else found // (per_second // wanted)
        return self.numbers(values)

    def group_starts(self, codes: Any) -> Ints:
        """Return the positions at which another value begins."""
        if not len(codes):
            return np.zeros(0, np.int64)
        if isinstance(codes, np.ndarray):
            differs = codes[1:] != codes[:-1]
        else:
            differs = np.asarray(pc.not_equal(codes.slice(1), codes.slice(0, len(codes) - 1)))
        return np.concatenate([[0], np.flatnonzero(differs) + 1]).astype(np.int64)

    def serialize(self, codes: Any) -> tuple[Bytes, Ints]:
        """Return the keys of codes one after the other, and the length of each."""
        if self.is_text:
            body, offsets = texts(codes)
            return body, np.diff(offsets)
        if self.is_wide:
            return shortest_decimals(codes)
        if self._has_nanos:
            return self._instants(codes)
        stored = self.stored(codes).astype(f"<i{self.width}")
        return stored.view(np.uint8).reshape(-1), np.full(len(codes), self.width, np.int64)

    def _instants(self, codes: Ints) -> tuple[Bytes, Ints]:
        millis, rest = np.divmod(codes, self._per_milli)
        nanos = rest * (1_000_000 // self._per_milli)
        sizes = lengths_of(nanos)
        lengths = sizes + _LONG
        starts = np.cumsum(lengths) - lengths
        out = np.empty(int(lengths.sum()), np.uint8)
        out[starts[:, None] + np.arange(_LONG)] = millis.astype("<i8").view(np.uint8).reshape(-1, _LONG)
        put_varints(out, starts + _LONG, nanos, sizes)
        return out, lengths

    # ------------------------------------------------------------------------------------------- reading

    def code(self, key: bytes) -> Code:
        """Return the code of a key.

        Raises:
            ValueError: the key has another length than those of the type.
        """
        if self.is_text:
            return key
        if self.is_wide:
            return int.from_bytes(key, "big", signed=True)
        if self._has_nanos:
            nanos, end = read_varint(key, _LONG)
            if end != len(key):
                raise ValueError(f"a key has {len(key)} bytes")
            millis = int.from_bytes(key[:_LONG], "little", signed=True)
            return millis * self._per_milli + nanos // (1_000_000 // self._per_milli)
        if len(key) != self.width:
            raise ValueError(f"a key has {len(key)} bytes instead of {self.width}")
        number = int.from_bytes(key, "little", signed=True)
        if self.type.root in _FLOATS:
            number = int(self.codes(np.array([number], np.int64))[0])
            return 0 if number == _NEGATIVE_ZERO else number
        return number


def key_domain(t: Any) -> KeyDomain | None:
    """Return the keys of a type; None if values of the type cannot be keys."""
    return KeyDomain(t) if isinstance(t, AtomicType) and t.root in KEY_TYPES else None

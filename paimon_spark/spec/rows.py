"""Rows as bytes: the binary row of partitions, keys and statistics, and its hash.

(docs/spec/storage.md, sections 8 and 10)

Values in Python: bool, int, float, str, bytes, Decimal; DATE is the epoch day and TIME the millisecond of the day, both
`int`; TIMESTAMP in either flavour is a `Timestamp`; ARRAY is a list, ROW a tuple, MAP and MULTISET a list of pairs,
VARIANT the pair (value, metadata).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from paimon_spark.errors import CorruptTableError, UnsupportedError
from paimon_spark.spec.types import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    atomic,
)

MAX_COMPACT_DECIMAL = 18
MAX_COMPACT_TIMESTAMP = 3
_INLINE = 7
_NANOS_PER_MILLI = 1_000_000
_RESTORE = "A manifest or a schema file is damaged: restore it from a backup."
_WORD = 8
_DECIMAL_BYTES = 16
_ARITY = struct.Struct(">i")
_PAIR = struct.Struct("<ii")
_INT = struct.Struct("<i")
_LONG = struct.Struct("<q")
_MALFORMED = (struct.error, IndexError, ValueError, ArithmeticError, RecursionError)
_MATH = Context(prec=80, rounding=ROUND_HALF_UP)
_DIRECT = {
    TypeRoot.BOOLEAN: "?",
    TypeRoot.TINYINT: "b",
    TypeRoot.SMALLINT: "h",
    TypeRoot.INT: "i",
    TypeRoot.DATE: "i",
    TypeRoot.TIME: "i",
    TypeRoot.BIGINT: "q",
    TypeRoot.FLOAT: "f",
    TypeRoot.DOUBLE: "d",
}
_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)


class Timestamp(NamedTuple):
    """A wall-clock time (or an instant) as epoch milliseconds and nanoseconds within the millisecond."""

    millis: int
    nano_of_milli: int = 0


_Encoder = Callable[[Any, bytearray, int], Any]
"""(value, variable part to extend, offset of the variable part) -> content of the slot."""
_Decoder = Callable[[Any, bytes, int], Any]
"""(content of the slot, buffer, start of the row in it) -> value."""


class _Slot(NamedTuple):
    """Encoding of one type in an 8-byte slot; without a coder, the slot contains the value itself."""

    code: str
    zero: Any
    encode: _Encoder | None = None
    decode: _Decoder | None = None
    reserve: int = 0


def encode_row(values: Sequence[Any], types: Sequence[DataType]) -> bytes:
    """Return `values` in the serialized form: big-endian arity, then the row's bytes."""
    return _codec(tuple(types)).dump(values)


def decode_row(data: bytes, types: Sequence[DataType]) -> tuple[Any, ...]:
    """Return the values of a serialized row; fields that the row lacks are None.

    Raises:
        CorruptTableError: the bytes are not a row of these types.
    """
    return _codec(tuple(types)).load(data)


def row_arity(data: bytes) -> int:
    """Return the number of fields of a serialized row.

    Raises:
        CorruptTableError: the bytes are too short for a row.
    """
    if len(data) < _ARITY.size:
        raise CorruptTableError(f"A serialized row of {len(data)} bytes is malformed: it has no arity.", hint=_RESTORE)
    try:
        return _arity(data)
    except ValueError as e:
        raise CorruptTableError(f"A serialized row of {len(data)} bytes is malformed: {e}.", hint=_RESTORE) from e


def _arity(data: bytes) -> int:
    arity: int = _ARITY.unpack_from(data)[0]
    if not 0 <= arity <= len(data):
        raise ValueError(f"it claims to have {arity} fields")
    return arity


def decode_field(data: bytes, index: int, t: DataType) -> Any:
    """Return the value of one field of a serialized row, or None if the row is shorter.

    Raises:
        CorruptTableError: the bytes are not a row with that type at `index`.
    """
    try:
        arity = _arity(data)
        if index >= arity or data[4 + (_WORD + index) // 8] >> ((_WORD + index) % 8) & 1:
            return None
        slot, reader = _reader(t)
        raw = reader.unpack_from(data, 4 + null_bytes(arity) + 8 * index)[0]
        return raw if slot.decode is None else slot.decode(raw, data, 4)
    except _MALFORMED as e:
        raise CorruptTableError(f"A serialized row of {len(data)} bytes is malformed: {e}.", hint=_RESTORE) from e


def row_body(data: bytes) -> bytes:
    """Return a serialized row without its arity prefix: the bytes that are hashed."""
    return data[4:]


def null_bytes(arity: int) -> int:
    """Return the length of the row kind byte and the null bits of a row."""
    return (arity + 63 + 8) // 64 * 8


def murmur(body: bytes) -> int:
    """Return the signed 32-bit hash of a row's bytes (without arity prefix)."""
    h = 42
    for (word,) in struct.iter_unpack("<I", body):
        k = word * 0xCC9E2D51 & 0xFFFFFFFF
        k = (k << 15 | k >> 17) * 0x1B873593 & 0xFFFFFFFF
        h ^= k
        h = ((h << 13 | h >> 19) & 0xFFFFFFFF) * 5 + 0xE6546B64 & 0xFFFFFFFF
    h ^= len(body)
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    h ^= h >> 16
    return h - 0x100000000 if h & 0x80000000 else h


def bucket_of(key_hash: int, buckets: int) -> int:
    """Return the bucket of a key by its hash (bucket function ``default``)."""
    return abs(key_hash) % buckets


def unscaled(value: Decimal, scale: int) -> int:
    """Return `value` × 10^scale, rounded half up if it has more digits."""
    return int(_MATH.to_integral_value(_MATH.scaleb(value, scale)))


def from_unscaled(value: int, scale: int) -> Decimal:
    """Return the decimal number `value` × 10^-scale with exactly `scale` fraction digits."""
    return _MATH.scaleb(Decimal(value), -scale)


class RowCodec:
    """Encoder and decoder of rows of fixed types; the fixed part is one compiled struct."""

    __slots__ = ("arity", "head", "slots", "special", "struct", "types")

    def __init__(self, types: tuple[DataType, ...]) -> None:
        self.types = types
        self.arity = len(types)
        self.head = null_bytes(self.arity)
        self.slots = tuple(_slot(t) for t in types)
        self.special = tuple((i, s.encode, s.decode) for i, s in enumerate(self.slots) if s.encode and s.decode)
        self.struct = struct.Struct("<" + "".join(_padded(s.code) for s in self.slots))

    def dump(self, values: Sequence[Any]) -> bytes:
        """Return the serialized form of `values`."""
        return _ARITY.pack(self.arity) + self.encode(values)

    def load(self, data: bytes) -> tuple[Any, ...]:
        """Return the values of a serialized row; fields that the row lacks are None.

        Raises:
            CorruptTableError: the bytes are not a row of these types.
        """
        try:
            arity = _arity(data)
            if arity >= self.arity:
                return self.decode(data, 4, arity)
            return _codec(self.types[:arity]).decode(data, 4, arity) + (None,) * (self.arity - arity)
        except _MALFORMED as e:
            raise CorruptTableError(f"A serialized row of {len(data)} bytes is malformed: {e}.", hint=_RESTORE) from e

    def encode(self, values: Sequence[Any]) -> bytes:
        """Return the row's bytes without arity prefix."""
        if len(values) != self.arity:
            raise ValueError(f"{len(values)} values for {self.arity} types")
        slots = list(values)
        var = bytearray()
        start = self.head + 8 * self.arity
        nulls = 0
        if None in slots:
            nulls = sum(1 << (i + 8) for i, v in enumerate(values) if v is None)
        for i, encode, _ in self.special:
            if slots[i] is not None:
                slots[i] = encode(slots[i], var, start)
            elif self.slots[i].reserve:
                slots[i] = (start + len(var)) << 32
                var += bytes(self.slots[i].reserve)
        if nulls:
            slots = [self.slots[i].zero if v is None else v for i, v in enumerate(slots)]
        return nulls.to_bytes(self.head, "little") + self.struct.pack(*slots) + var

    def decode(self, data: bytes, start: int, arity: int) -> tuple[Any, ...]:
        """Return the first `self.arity` values of the row of `arity` fields that starts at `start`."""
        head = null_bytes(arity)
        slots = list(self.struct.unpack_from(data, start + head))
        nulls = int.from_bytes(data[start : start + head], "little") >> 8
        if not nulls:
            for i, _, decode in self.special:
                slots[i] = decode(slots[i], data, start)
            return tuple(slots)
        for i, _, decode in self.special:
            if not nulls >> i & 1:
                slots[i] = decode(slots[i], data, start)
        return tuple(None if nulls >> i & 1 else v for i, v in enumerate(slots))


@lru_cache(maxsize=512)
def _codec(types: tuple[DataType, ...]) -> RowCodec:
    return RowCodec(types)


@lru_cache(maxsize=512)
def _reader(t: DataType) -> tuple[_Slot, struct.Struct]:
    slot = _slot(t)
    return slot, struct.Struct("<" + slot.code)


def _padded(code: str) -> str:
    width = struct.calcsize("<" + code)
    return code if width == _WORD else f"{code}{_WORD - width}x"


def _slot(t: DataType) -> _Slot:
    if isinstance(t, RowType):
        return _Slot("Q", 0, _var_encoder(_row_encoder(t)), _var_decoder(_row_decoder(t)))
    if isinstance(t, ArrayType):
        array = _Array(t.element)
        return _Slot("Q", 0, _var_encoder(array.encode), _var_decoder(array.decode))
    if isinstance(t, MapType | MultisetType):
        pairs = _Map(t)
        return _Slot("Q", 0, _var_encoder(pairs.encode), _var_decoder(pairs.decode))
    if t.root in _DIRECT:
        return _Slot(_DIRECT[t.root], 0)
    if t.root is TypeRoot.DECIMAL:
        return _decimal_slot(t)
    if t.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        if (t.precision or 0) <= MAX_COMPACT_TIMESTAMP:
            return _Slot("q", 0, lambda v, var, start: v[0], lambda raw, data, start: Timestamp(raw))
        return _Slot("Q", 0, _encode_timestamp, _decode_timestamp, 8)
    if t.root is TypeRoot.VARIANT:
        return _Slot("Q", 0, _var_encoder(_encode_variant), _var_decoder(_decode_variant))
    if t.root is TypeRoot.BLOB:
        raise UnsupportedError(
            "A column of type BLOB cannot be part of a key or of statistics.", hint="Read the other columns only."
        )
    if t.root in _TEXTS:
        return _Slot("8s", bytes(8), _encode_text, _decode_text)
    return _Slot("8s", bytes(8), _encode_bytes, _decode_bytes)


def _encode_bytes(value: bytes, var: bytearray, start: int) -> bytes:
    size = len(value)
    if size <= _INLINE:
        return value + bytes(_INLINE - size) + bytes((0x80 | size,))
    offset = start + len(var)
    var += value
    var += bytes(-size % 8)
    return _PAIR.pack(size, offset)


def _decode_bytes(raw: bytes, data: bytes, start: int) -> bytes:
    if raw[7] & 0x80:
        if raw[7] & 0x7F > _INLINE:
            raise ValueError("a value is longer than its slot")
        return raw[: raw[7] & 0x7F]
    size, offset = _PAIR.unpack(raw)
    return _part(data, start + offset, size)


def _encode_text(value: str, var: bytearray, start: int) -> bytes:
    return _encode_bytes(value.encode(), var, start)


def _decode_text(raw: bytes, data: bytes, start: int) -> str:
    return _decode_bytes(raw, data, start).decode()


def _encode_timestamp(value: Timestamp, var: bytearray, start: int) -> int:
    offset = start + len(var)
    var += _LONG.pack(value[0])
    return value[1] | offset << 32


def _decode_timestamp(raw: int, data: bytes, start: int) -> Timestamp:
    if raw & 0xFFFFFFFF >= _NANOS_PER_MILLI:
        raise ValueError(f"a millisecond has {raw & 0xFFFFFFFF} nanoseconds")
    return Timestamp(_LONG.unpack(_part(data, start + (raw >> 32), _WORD))[0], raw & 0xFFFFFFFF)


def _decimal_slot(t: AtomicType) -> _Slot:
    scale = t.scale or 0
    bound = 10 ** (t.precision or 0)

    def sound(number: int) -> Decimal:
        if not -bound < number < bound:
            raise ValueError(f"a decimal number has more than {t.precision} digits")
        return from_unscaled(number, scale)

    def encode_long(value: Decimal, var: bytearray, start: int) -> int:
        return unscaled(value, scale)

    def decode_long(raw: int, data: bytes, start: int) -> Decimal:
        return sound(raw)

    def encode_wide(value: Decimal, var: bytearray, start: int) -> int:
        number = unscaled(value, scale)
        body = number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
        offset = start + len(var)
        var += body.ljust(_DECIMAL_BYTES, b"\0")
        return len(body) | offset << 32

    def decode_wide(raw: int, data: bytes, start: int) -> Decimal:
        size = raw & 0xFFFFFFFF
        if not 0 < size <= _DECIMAL_BYTES:
            raise ValueError(f"a decimal number has {size} bytes")
        return sound(int.from_bytes(_part(data, start + (raw >> 32), size), "big", signed=True))

    if (t.precision or 0) <= MAX_COMPACT_DECIMAL:
        return _Slot("q", 0, encode_long, decode_long)
    return _Slot("Q", 0, encode_wide, decode_wide, _DECIMAL_BYTES)


def _part(data: bytes, offset: int, size: int) -> bytes:
    body = data[offset : offset + size] if offset >= 0 and size >= 0 else b""
    if len(body) != size:
        raise ValueError("a value points outside the row")
    return body


def _var_encoder(inner: Callable[[Any], bytes]) -> _Encoder:
    def encode(value: Any, var: bytearray, start: int) -> int:
        body = inner(value)
        offset = start + len(var)
        var += body
        var += bytes(-len(body) % 8)
        return len(body) | offset << 32

    return encode


def _var_decoder(inner: Callable[[bytes], Any]) -> _Decoder:
    def decode(raw: int, data: bytes, start: int) -> Any:
        return inner(_part(data, start + (raw >> 32), raw & 0xFFFFFFFF))

    return decode


def _row_encoder(t: RowType) -> Callable[[Any], bytes]:
    types = tuple(f.type for f in t.fields)
    return lambda value: _codec(types).encode(value)


def _row_decoder(t: RowType) -> Callable[[bytes], Any]:
    types = tuple(f.type for f in t.fields)
    return lambda body: _codec(types).decode(body, 0, len(types))


class _Array:
    """Encoder and decoder of array bodies."""

    __slots__ = ("slot", "width")

    def __init__(self, element: DataType) -> None:
        self.slot = _slot(element)
        self.width = struct.calcsize("<" + self.slot.code)

    def encode(self, values: Sequence[Any]) -> bytes:
        count = len(values)
        head = 4 + (count + 31) // 32 * 4
        fixed = head + count * self.width
        start = fixed + -fixed % 8
        nulls = sum(1 << i for i, v in enumerate(values) if v is None)
        var = bytearray()
        slots = list(values)
        for i, v in enumerate(values):
            if v is None:
                slots[i] = self.slot.zero
            elif self.slot.encode:
                slots[i] = self.slot.encode(v, var, start)
        body = struct.pack(f"<{self.slot.code * count}", *slots)
        return _INT.pack(count) + nulls.to_bytes(head - 4, "little") + body + bytes(start - fixed) + var

    def decode(self, body: bytes) -> list[Any]:
        count = _INT.unpack_from(body)[0]
        if not 0 <= count * self.width <= len(body):
            raise ValueError(f"an array of {len(body)} bytes claims to have {count} elements")
        head = 4 + (count + 31) // 32 * 4
        nulls = int.from_bytes(body[4:head], "little")
        slots = struct.unpack_from(f"<{self.slot.code * count}", body, head)
        if _claimed(self.slot, slots) > len(body):
            raise ValueError("the elements of an array overlap")
        decode = self.slot.decode
        return [None if nulls >> i & 1 else v if decode is None else decode(v, body, 0) for i, v in enumerate(slots)]


def _claimed(slot: _Slot, raw: Sequence[Any]) -> int:
    """Return the declared size of the elements of an array outside of their slots."""
    if slot.code == "8s":
        return sum(_PAIR.unpack(v)[0] for v in raw if not v[7] & 0x80)
    return sum(v & 0xFFFFFFFF for v in raw) if slot.code == "Q" and not slot.reserve else 0


class _Map:
    """Encoder and decoder of map bodies; a multiset is a map to INT."""

    __slots__ = ("keys", "values")

    def __init__(self, t: MapType | MultisetType) -> None:
        self.keys = _Array(t.key if isinstance(t, MapType) else t.element)
        self.values = _Array(t.value if isinstance(t, MapType) else atomic(TypeRoot.INT))

    def encode(self, value: Any) -> bytes:
        pairs = list(value.items() if isinstance(value, dict) else value)
        keys = self.keys.encode([k for k, _ in pairs])
        return _INT.pack(len(keys)) + keys + self.values.encode([v for _, v in pairs])

    def decode(self, body: bytes) -> list[tuple[Any, Any]]:
        size = _INT.unpack_from(body)[0]
        _check_inner(size, body)
        return list(zip(self.keys.decode(body[4 : 4 + size]), self.values.decode(body[4 + size :]), strict=True))


def _encode_variant(value: tuple[bytes, bytes]) -> bytes:
    return _INT.pack(len(value[0])) + value[0] + value[1]


def _decode_variant(body: bytes) -> tuple[bytes, bytes]:
    size = _INT.unpack_from(body)[0]
    _check_inner(size, body)
    return body[4 : 4 + size], body[4 + size :]


def _check_inner(size: int, body: bytes) -> None:
    if not 0 <= size <= len(body) - 4:
        raise ValueError(f"a value of {len(body)} bytes claims to contain one of {size}")

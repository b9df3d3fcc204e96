"""A minimal protobuf codec for ORC metadata: messages as lists of fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from paimon_spark.format.varints import varint

Field = tuple[int, int | bytes]
"""Number and value of a field: an integer, or bytes if it is length-delimited."""


def messages(data: bytes) -> Iterator[Field]:
    """Yield the fields of a protobuf message; fixed-width fields are skipped."""
    at = 0
    while at < len(data):
        tag, at = varint_at(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint_at(data, at)
            yield tag >> 3, value
        elif kind == 2:
            size, at = varint_at(data, at)
            if at + size > len(data):
                raise ValueError("a protobuf field is longer than its message")
            yield tag >> 3, data[at : at + size]
            at += size
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise ValueError("unknown wire type of a protobuf field")


def message(fields: Iterable[Field]) -> bytes:
    """Return a protobuf message with `fields`."""
    out = bytearray()
    for number, value in fields:
        if isinstance(value, bytes):
            out += varint(number << 3 | 2) + varint(len(value)) + value
        else:
            out += varint(number << 3) + varint(value)
    return bytes(out)


def with_field(fields: Iterable[Field], number: int, value: int) -> list[Field]:
    """Return `fields` with the values of field `number` replaced by a single value."""
    return [*(f for f in fields if f[0] != number), (number, value)]


def number_of(fields: Iterable[Field], number: int, default: int = 0) -> int:
    """Return the integer value of a field."""
    found = next((v for n, v in fields if n == number), default)
    if isinstance(found, bytes):
        raise TypeError("a number was expected in a protobuf field")
    return found


def parts_of(fields: Iterable[Field], number: int) -> list[bytes]:
    """Return the values of a repeated length-delimited field."""
    return [v for n, v in fields if n == number and isinstance(v, bytes)]


def numbers_of(fields: Iterable[Field], number: int) -> list[int]:
    """Return the values of a repeated integer field, packed or not."""
    out: list[int] = []
    for n, value in fields:
        if n == number and isinstance(value, bytes):
            at = 0
            while at < len(value):
                found, at = varint_at(value, at)
                out.append(found)
        elif n == number and isinstance(value, int):
            out.append(value)
    return out


def signed(value: int) -> int:
    """Return the signed integer of a zigzag varint."""
    return (value >> 1) ^ -(value & 1)


def varint_at(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at `at` and the position after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7

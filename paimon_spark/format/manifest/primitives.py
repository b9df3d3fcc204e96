"""Avro values of manifest entries, decoded from bytes: each function returns the value at an offset and its end.

They raise `UnknownLayoutError` on unusual values, LookupError beyond the end of the bytes, and
UnicodeDecodeError on invalid UTF-8.
"""

from __future__ import annotations

from paimon_spark.spec.kinds import FileSource
from paimon_spark.spec.manifest import EMPTY_ROW, EMPTY_STATS, SimpleStats

Counts = dict[bytes, tuple[int | None, ...]]
_SOURCES = {int(s): s for s in FileSource}
_MAX_SHIFT = 70


class UnknownLayoutError(ValueError):
    """Bytes that only the generic reader can decode or reject."""


def decode_long(data: bytes, at: int) -> tuple[int, int]:
    """Return an int or a long."""
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value, shift = byte & 0x7F, 7
    while byte > 0x7F:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift += 7
    if shift > _MAX_SHIFT or value >> 64:
        raise UnknownLayoutError
    return (value >> 1) ^ -(value & 1), at + 1


def decode_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """Return bytes."""
    size = data[at]
    if size & 0x81:
        size, at = decode_long(data, at)
    else:
        size, at = size >> 1, at + 1
    end = at + size
    if size < 0 or end > len(data):
        raise UnknownLayoutError
    return data[at:end], end


def _is_there(data: bytes, at: int) -> bool:
    """Return whether the union at an offset has its second type, which is not null."""
    branch = data[at]
    if branch not in (0, 2):
        raise UnknownLayoutError
    return branch == 2


def decode_text(data: bytes, at: int) -> tuple[str, int]:
    """Return a text."""
    raw, at = decode_bytes(data, at)
    return raw.decode(), at


def decode_optional_long(data: bytes, at: int) -> tuple[int | None, int]:
    """Return a number or null."""
    return decode_long(data, at + 1) if _is_there(data, at) else (None, at + 1)


def decode_optional_source(data: bytes, at: int) -> tuple[FileSource | None, int]:
    """Return the source of a file or null."""
    number, at = decode_optional_long(data, at)
    return (None if number is None else _SOURCES[number]), at


def decode_optional_text(data: bytes, at: int) -> tuple[str | None, int]:
    """Return a text or null."""
    return decode_text(data, at + 1) if _is_there(data, at) else (None, at + 1)


def decode_optional_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Return bytes or null."""
    return decode_bytes(data, at + 1) if _is_there(data, at) else (None, at + 1)


def decode_optional_texts(data: bytes, at: int) -> tuple[tuple[str, ...] | None, int]:
    """Return texts or null."""
    return decode_texts(data, at + 1) if _is_there(data, at) else (None, at + 1)


def decode_texts(data: bytes, at: int) -> tuple[tuple[str, ...], int]:
    """Return the texts of a list."""
    if data[at] == 0:
        return (), at + 1
    out = []
    while (count := data[at]) != 0:
        count, at = decode_long(data, at)
        if count < 0:
            raise UnknownLayoutError
        for _ in range(count):
            text, at = decode_bytes(data, at)
            out.append(text.decode())
    return tuple(out), at + 1


def decode_stats(data: bytes, at: int, counts: Counts) -> tuple[SimpleStats, int]:
    """Return statistics; `counts` caches null counts by their bytes."""
    low, at = decode_bytes(data, at)
    high, at = decode_bytes(data, at)
    if not _is_there(data, at):
        nulls: tuple[int | None, ...] = ()
        at += 1
    else:
        nulls, at = decode_null_counts(data, at + 1, counts)
    if not nulls and low == EMPTY_ROW and high == EMPTY_ROW:
        return EMPTY_STATS, at
    return SimpleStats(low, high, nulls), at


def decode_null_counts(data: bytes, at: int, known: Counts) -> tuple[tuple[int | None, ...], int]:
    """Read null counts; most are small numbers, and many files have the same ones.

    If there are n known counts below 64, they take a byte for n, two for each, and one for the end. Equal bytes mean
    equal counts with the same end.
    """
    if data[at] == 0:
        return (), at + 1
    span = data[at : at + (data[at] & 0x7E) + 2]
    found = known.get(span)
    if found is not None:
        return found, at + len(span)
    out: list[int | None] = []
    start = at
    while data[at] != 0:
        count, at = decode_long(data, at)
        if count < 0:
            raise UnknownLayoutError
        for _ in range(count):
            number, at = decode_optional_long(data, at)
            out.append(number)
    found, end = tuple(out), at + 1
    if end - start == len(span):
        known[span] = found
    return found, end

"""The container of the indexes of one data file: a header that locates each index by column and kind, then the indexes.

All numbers are big-endian. The container is a file beside the data file, or bytes in the manifest entry.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

MAGIC = 1493475289347502
VERSION = 1
EMPTY = -1
"""The start of an index without content: no row of the file has a value."""
_FIXED = struct.Struct(">qii")
_INT = struct.Struct(">i")
_UTF = struct.Struct(">H")
_PLACE = struct.Struct(">ii")
_LONGEST_HEADER = 64 << 20
HEADER_BYTES = 16 << 10
"""Number of bytes that a reader requests first."""

ReadRange = Callable[[int, int], bytes]
"""Returns bytes of the container: offset and length in, fewer bytes at its end."""


class NewerVersionError(ValueError):
    """The container, or an index in it, has a version that this release does not support."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an index is in its container."""

    start: int
    length: int

    @property
    def is_empty(self) -> bool:
        """Return whether the index has no content."""
        return self.start == EMPTY


Places = Mapping[str, Mapping[str, Place]]
"""The indexes of a container, by column and kind."""


def pack(indexes: Mapping[str, Mapping[str, bytes]]) -> bytes:
    """Return the container of indexes, given by column and kind."""
    names = [(_text(c), [(_text(k), body) for k, body in kinds.items()]) for c, kinds in indexes.items()]
    sizes = [_INT.size + len(c) + sum(len(k) + _PLACE.size for k, _ in kinds) for c, kinds in names]
    head = _FIXED.size + _INT.size + sum(sizes) + _INT.size
    out = bytearray(_FIXED.pack(MAGIC, VERSION, head) + _INT.pack(len(names)))
    at, bodies = head, []
    for column, kinds in names:
        out += column + _INT.pack(len(kinds))
        for kind, body in kinds:
            out += kind + _PLACE.pack(at, len(body))
            bodies.append(body)
            at += len(body)
    return bytes(out + _INT.pack(0)) + b"".join(bodies)


def read_places(read: ReadRange) -> Places:
    """Return the indexes of a container.

    Raises:
        ValueError: it is not a container, or is truncated.
        NewerVersionError: it has an unknown version.
    """
    first = read(0, HEADER_BYTES)
    if len(first) < _FIXED.size:
        raise ValueError(f"it has only {len(first)} bytes")
    magic, version, length = _FIXED.unpack_from(first)
    if magic != MAGIC:
        raise ValueError("it does not begin with the magic number of file indexes")
    if version != VERSION:
        raise NewerVersionError(f"it has the version {version}, and the known version is {VERSION}")
    if not _FIXED.size + 2 * _INT.size <= length <= _LONGEST_HEADER:
        raise ValueError(f"its header has {length} bytes")
    if length > len(first) >= HEADER_BYTES:
        first += read(len(first), length - len(first))
    if len(first) < length:
        raise ValueError("its header is truncated")
    try:
        return _parse(first[:length])
    except (struct.error, UnicodeDecodeError) as e:
        raise ValueError(f"its header is malformed: {e}") from e


def _parse(head: bytes) -> dict[str, dict[str, Place]]:
    (columns,) = _INT.unpack_from(head, _FIXED.size)
    at, found = _FIXED.size + _INT.size, dict[str, dict[str, Place]]()
    for _ in range(columns):
        column, at = _text_at(head, at)
        (kinds,) = _INT.unpack_from(head, at)
        at += _INT.size
        places = found.setdefault(column, {})
        for _ in range(kinds):
            kind, at = _text_at(head, at)
            place = Place(*_PLACE.unpack_from(head, at))
            at += _PLACE.size
            if not place.is_empty and (place.start < len(head) or place.length < 0):
                raise ValueError(f"its index '{kind}' of '{column}' has {place.length} bytes at {place.start}")
            places[kind] = place
    return found


def read_index(read: ReadRange, place: Place) -> bytes:
    """Return the bytes of an index.

    Raises:
        ValueError: the container is truncated.
    """
    data = read(place.start, place.length)
    if len(data) != place.length:
        raise ValueError(f"it ends {place.length - len(data)} bytes too early")
    return data


def _text(text: str) -> bytes:
    """Return a text in the encoding of Java's `DataOutput.writeUTF`."""
    units = text.encode("utf-16-be", "surrogatepass")
    body = b"".join(_unit(int.from_bytes(units[i : i + 2])) for i in range(0, len(units), 2))
    return _UTF.pack(len(body)) + body


def _unit(unit: int) -> bytes:
    if 1 <= unit < 0x80:
        return bytes((unit,))
    if unit < 0x800:
        return bytes((0xC0 | unit >> 6, 0x80 | unit & 0x3F))
    return bytes((0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F))


def _text_at(data: bytes, at: int) -> tuple[str, int]:
    (length,) = _UTF.unpack_from(data, at)
    end = at + _UTF.size + length
    if end > len(data):
        raise ValueError("its header is truncated")
    body = data[at + _UTF.size : end].replace(b"\xc0\x80", b"\x00")
    text = body.decode("utf-8", "surrogatepass")
    return text.encode("utf-16", "surrogatepass").decode("utf-16"), end

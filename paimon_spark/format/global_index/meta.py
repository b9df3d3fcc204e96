"""The metadata of a global index file in its manifest entry: first and last key, and whether there are nulls.

Each key is its length as a 32-bit number and its bytes; then a byte for nulls, the version 1, and a byte whose lowest
two bits say that the first or the last key is null. Older files end after the byte for nulls: of a column of texts, two
empty keys then are empty texts, or no keys at all.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_INT = struct.Struct("<i")
_VERSION = 1


@dataclass(frozen=True, slots=True)
class FileKeys:
    """The least and the greatest key of an index file, None if all rows are null, and whether some are."""

    first: bytes | None
    last: bytes | None
    has_nulls: bool

    def packed(self) -> bytes:
        """Return the metadata as bytes."""
        flags = (self.first is None) | (self.last is None) << 1
        keys = b"".join(_INT.pack(len(k or b"")) + (k or b"") for k in (self.first, self.last))
        return keys + bytes([self.has_nulls, _VERSION, flags])

    @classmethod
    def parse(cls, data: bytes, *, of_texts: bool = False) -> FileKeys:
        """Read the metadata.

        Args:
            data: the bytes.
            of_texts: whether a key may be empty. The keys of older files that may be empty, or null, count as empty.

        Raises:
            ValueError: it is malformed.
        """
        first, at = _key(data, 0)
        last, at = _key(data, at)
        if at >= len(data):
            raise ValueError("the range of its keys is cut off")
        nulls = data[at] == 1
        if len(data) >= at + 3:
            if data[at + 1] != _VERSION:
                raise ValueError(f"the range of its keys has the version {data[at + 1]}")
            flags = data[at + 2]
            return cls(None if flags & 1 else first, None if flags & 2 else last, nulls)
        if not first and not last and nulls and not of_texts:
            return cls(None, None, has_nulls=True)
        return cls(first, last, nulls)


def _key(data: bytes, at: int) -> tuple[bytes, int]:
    if at + _INT.size > len(data):
        raise ValueError("the range of its keys is cut off")
    (length,) = _INT.unpack_from(data, at)
    end = at + _INT.size + length
    if length < 0 or end > len(data):
        raise ValueError("the range of its keys is cut off")
    return data[at + _INT.size : end], end

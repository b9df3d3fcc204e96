"""Deletion vectors: bitmaps of the deleted rows of a data file (docs/spec/storage.md, section 14.1).

An index file is a version byte followed by the vectors: size, body, and CRC32 of the body. The magic number at the
start of the body distinguishes the 32-bit from the 64-bit format.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from paimon_spark.errors import CorruptTableError, UnsupportedError
from paimon_spark.spec.manifest import DeletionRange

FILE_VERSION = 1
_MAGIC_32 = struct.pack(">i", 1581511376)
_MAGIC_64 = struct.pack("<i", 1681511377)
_INT = struct.Struct(">i")
_UINT = struct.Struct(">I")
_COUNT = struct.Struct("<q")
_KEY = struct.Struct("<i")
_MAX_PARTS = 64
"""Maximum number of 32-bit bitmaps in a 64-bit vector; no data file has that many rows."""


def vector_in(block: bytes, found: DeletionRange, where: str = "a deletion vector file") -> BitMap:
    """Return the deleted positions of a serialized vector returned by `stored_vector`.

    Raises:
        CorruptTableError: the vector is not valid.
        UnsupportedError: the vector deletes rows beyond position 2^32.
    """
    try:
        return _body(block[_INT.size : -_UINT.size])
    except (struct.error, ValueError, IndexError, OverflowError) as e:
        raise _unsound(found, where, e) from e


def _unsound(found: DeletionRange, where: str, error: Exception) -> CorruptTableError:
    return CorruptTableError(
        f"{where} has no valid deletion vector for '{found.data_file}': {error}.",
        hint="Restore the file from a backup, or roll back to a snapshot that does not need it.",
    )


def _checked(data: bytes, found: DeletionRange) -> bytes:
    """Return the serialized vector at `found`, with size and verified checksum."""
    if data[:1] != bytes([FILE_VERSION]):
        raise ValueError("the file begins with an unknown version")
    if not (found.offset > 0 and 0 <= found.length <= len(data)):
        raise ValueError(f"its range of {found.length} bytes at {found.offset} is outside the file")
    (size,) = _INT.unpack_from(data, found.offset)
    if size < 0 or size not in (found.length, found.length - 8):
        raise ValueError(f"its size is {size}")
    end = found.offset + 4 + size
    (crc,) = _UINT.unpack_from(data, end)
    if zlib.crc32(memoryview(data)[found.offset + 4 : end]) != crc:
        raise ValueError("the checksum does not match")
    return data[found.offset : end + _UINT.size]


def positions(vector: BitMap, start: int, stop: int) -> npt.NDArray[np.int64]:
    """Return the deleted positions from `start` (inclusive) to `stop` (exclusive), in ascending order.

    A vector of a few bytes may delete billions of rows, so positions are expanded one range at a time.
    """
    part = vector & BitMap(range(start, min(stop, 1 << 32)))
    return np.frombuffer(part.to_array(), np.uint32).astype(np.int64)


def fingerprint(block: bytes) -> int:
    """Return a number that identifies a serialized vector among all vectors of its data file; never 0."""
    return len(block) << 32 | int(_UINT.unpack_from(block, len(block) - 4)[0])


def stored_vector(data: bytes, found: DeletionRange, where: str = "a deletion vector file") -> bytes:
    """Return one serialized vector with size and checksum, to copy it to another index file.

    Args:
        data: content of the whole index file.
        found: location of the vector.
        where: path of the file, for error messages.

    Raises:
        CorruptTableError: there is no valid vector at that location.
    """
    try:
        return _checked(data, found)
    except (struct.error, ValueError) as e:
        raise _unsound(found, where, e) from e


def _block(body: bytes) -> bytes:
    return _INT.pack(len(body)) + body + _UINT.pack(zlib.crc32(body))


class VectorFile:
    """Builds an index file of deletion vectors.

    Args:
        wide: write the 64-bit format, which old readers do not support.
    """

    def __init__(self, *, wide: bool = False) -> None:
        self._wide = wide
        self._out = bytearray([FILE_VERSION])
        self._ranges: list[DeletionRange] = []

    @property
    def size(self) -> int:
        """Return the current size in bytes."""
        return len(self._out)

    @property
    def ranges(self) -> tuple[DeletionRange, ...]:
        """Return the locations of the vectors in insertion order."""
        return tuple(self._ranges)

    @property
    def data(self) -> bytes:
        """Return the content of the file."""
        return bytes(self._out)

    def add(self, data_file: str, vector: BitMap) -> None:
        """Append the vector of a data file."""
        compact = vector.copy()
        compact.run_optimize()
        bits = compact.serialize()
        if self._wide:
            parts = _COUNT.pack(1) + _KEY.pack(0) + bits if vector else _COUNT.pack(0)
            body = _MAGIC_64 + parts
        else:
            body = _MAGIC_32 + bits
        length = len(body) + (8 if self._wide else 0)
        self._ranges.append(DeletionRange(data_file, len(self._out), length, len(vector)))
        self._out += _block(body)

    def add_stored(self, found: DeletionRange, block: bytes) -> None:
        """Append a serialized vector returned by `stored_vector`."""
        self._ranges.append(replace(found, offset=len(self._out)))
        self._out += block


def _body(body: bytes) -> BitMap:
    if body[:4] == _MAGIC_32:
        return BitMap.deserialize(body[4:])
    if body[:4] != _MAGIC_64:
        raise ValueError("unknown magic number")
    (count,) = _COUNT.unpack_from(body, 4)
    if not 0 <= count <= _MAX_PARTS:
        raise ValueError(f"it has {count} parts")
    at = 12
    out = BitMap()
    for expected in range(count):
        (key,) = _KEY.unpack_from(body, at)
        part = BitMap.deserialize(body[at + 4 :])
        at += 4 + len(part.serialize())
        if key < expected:
            raise ValueError("its parts are not in order")
        if key and part:
            raise UnsupportedError(
                "A deletion vector names rows beyond 2^32 of one data file.",
                hint="Compact the table with Paimon first.",
            )
        out |= part
    if at != len(body):
        raise ValueError(f"{len(body) - at} bytes follow it")
    return out

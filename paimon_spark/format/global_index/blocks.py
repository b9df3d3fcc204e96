"""Blocks of global index files: bytes, optionally compressed, and a trailer with the compression and a checksum."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from paimon_spark.format.varints import read_varint, varint

Read = Callable[[int, int], bytes]
"""Reads bytes of a file: position and length."""

TRAILER = struct.Struct("<BI")
_LZ4 = struct.Struct("<ii")
COMPRESSIONS = ("none", "zstd", "lz4")
"""The compressions of blocks by their number; 3 is LZO, which is not supported."""
_MOST = 1 << 31


@dataclass(frozen=True, slots=True)
class Handle:
    """The position of a block in its file, and its length without the trailer."""

    offset: int
    size: int

    def packed(self) -> bytes:
        """Return the handle as two variable-length numbers."""
        return varint(self.offset) + varint(self.size)

    @classmethod
    def parse(cls, data: bytes | memoryview, at: int = 0) -> tuple[Handle, int]:
        """Return the handle at a position, and the position after it.

        Raises:
            ValueError: the data ends within it.
        """
        offset, at = read_varint(data, at)
        size, at = read_varint(data, at)
        return cls(offset, size), at


def sealed(block: bytes, compression: str = "none", level: int = 1) -> tuple[bytes, int]:
    """Return a block with its trailer, and its length without; it is compressed if that saves an eighth."""
    kind = 0
    if compression != "none":
        packed = varint(len(block)) + _compressed(block, compression, level)
        if len(packed) < len(block) - len(block) // 8:
            block, kind = packed, COMPRESSIONS.index(compression)
    return block + TRAILER.pack(kind, _sum(block, kind)), len(block)


def read_block(read: Read, handle: Handle) -> bytes:
    """Return the content of a block.

    Raises:
        ValueError: the block is damaged, or its compression is not supported.
    """
    if handle.size < 0 or handle.size >= _MOST:
        raise ValueError(f"a block has {handle.size} bytes")
    data = read(handle.offset, handle.size + TRAILER.size)
    if len(data) != handle.size + TRAILER.size:
        raise ValueError("a block is cut off")
    body = data[: handle.size]
    kind, checksum = TRAILER.unpack(data[handle.size :])
    if checksum != _sum(body, kind):
        raise ValueError("the checksum of a block is wrong")
    if kind == 0:
        return body
    if kind >= len(COMPRESSIONS):
        raise ValueError(f"a block has the compression {kind}; supported are {', '.join(COMPRESSIONS)}")
    size, at = read_varint(body, 0)
    return _decompressed(body[at:], COMPRESSIONS[kind], size)


def _sum(block: bytes, kind: int) -> int:
    return zlib.crc32(bytes([kind]), zlib.crc32(block))


def _compressed(block: bytes, compression: str, level: int) -> bytes:
    if compression == "zstd":
        return bytes(pa.Codec("zstd", level).compress(block, asbytes=True))
    packed = bytes(pa.Codec("lz4_raw").compress(block, asbytes=True))
    return _LZ4.pack(len(packed), len(block)) + packed


def _decompressed(data: bytes, compression: str, size: int) -> bytes:
    if size >= _MOST:
        raise ValueError(f"a block has {size} bytes")
    try:
        if compression == "zstd":
            return bytes(pa.Codec("zstd").decompress(data, size, asbytes=True))
        packed, plain = _LZ4.unpack_from(data)
        if plain != size:
            raise ValueError("a block is damaged")
        return bytes(pa.Codec("lz4_raw").decompress(data[_LZ4.size : _LZ4.size + packed], size, asbytes=True))
    except (OSError, struct.error, pa.ArrowException) as e:
        raise ValueError(f"a block cannot be decompressed: {e}") from e

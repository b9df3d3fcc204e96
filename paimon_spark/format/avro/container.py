"""A hardened reader of Avro's container format: all declared sizes and counts are validated before use.

The Avro library trusts its input: it allocates the declared lengths, repeats zero-size values by a declared count,
and follows recursive schemas to any depth. This module rewrites a file as an uncompressed container with a finite
schema and validated counts and lengths.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType

from paimon_spark.format.varints import varint
from paimon_spark.format.zstd import ZstdDecompressor, ZstdError

_MAGIC = b"Obj\x01"
SYNC_BYTES = 16
SNAPPY = "snappy"
_WINDOW_BYTES = 1 << 20
_MAX_HEADER = 16 << 20
_MAX_DEPTH = 32
_MAX_LEAVES = 100_000
"""Maximum number of values of one record outside arrays and maps, whose elements take bytes in the file."""
_MAX_VARINT = 10
_XZ_MEMORY = 128 << 20
_PRIMITIVES = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}
"""Minimum encoded size of each primitive type."""
MALFORMED = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RecursionError,
    SchemaParseException,
    TypeError,
    UnknownType,
    ValueError,
    ZstdError,
    struct.error,
    zlib.error,
)
"""Exceptions that the Avro reader raises for malformed files."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of records: their number, and where its bytes are in the file."""

    count: int
    at: int
    size: int


class AvroContainer:
    """A container file with validated framing and schema; records are not validated.

    Args:
        content: the bytes of the file, in memory or read as they are needed.
        max_block: maximum uncompressed size of a block.
        max_total: maximum uncompressed size of all blocks.

    Raises:
        ValueError: the content is not an Avro container, or exceeds a limit.
    """

    def __init__(self, content: bytes | FileWindow, *, max_block: int, max_total: int | None = None) -> None:
        self._content = memoryview(content) if isinstance(content, bytes) else content
        self._max_block = max_block
        self._max_total = max_total
        cursor = _Cursor(self._content)
        if cursor.take(len(_MAGIC)) != _MAGIC:
            raise ValueError("it does not begin with the Avro magic")
        self._meta = _metadata(cursor)
        self._sync = bytes(cursor.take(SYNC_BYTES))
        self.codec = self._meta.get("avro.codec", b"null").decode()
        if self.codec not in _CODECS:
            raise ValueError(f"its compression codec {self.codec!r} is unknown")
        self.schema = json.loads(self._meta.get("avro.schema", b""))
        self.named = check_schema(self.schema)
        self.blocks = tuple(self._frames(cursor))

    @property
    def row_count(self) -> int:
        """Return the number of records declared by the blocks."""
        return sum(b.count for b in self.blocks)

    def stream(self, schema: Any = None, blocks: Iterable[tuple[int, bytes]] | None = None) -> BinaryIO:
        """Return the container uncompressed, as a stream that decompresses block by block.

        Args:
            schema: replaces the file's schema in the header; it must describe the same encoding.
            blocks: some blocks of `unpacked` instead of all.

        Raises:
            ValueError: while reading: a block cannot be decompressed, or exceeds a limit.
        """
        pieces = self._pieces(self.schema if schema is None else schema, self.unpacked() if blocks is None else blocks)
        return cast("BinaryIO", _Stream(pieces))

    def unpacked(self) -> Iterator[tuple[int, bytes]]:
        """Yield the record count and the uncompressed content of each block.

        Raises:
            ValueError: a block cannot be decompressed, or exceeds a limit.
        """
        total = 0
        for block in self.blocks:
            data = self._unpacked(block)
            total += len(data)
            if self._max_total is not None and total > self._max_total:
                raise ValueError(f"it decompresses to more than {self._max_total} bytes")
            if block.count > len(data):
                raise ValueError(f"a block of {len(data)} bytes claims to hold {block.count} records")
            yield block.count, data

    def unpack(self, index: int) -> bytes:
        """Return the uncompressed content of one block; raises as `unpacked`."""
        return self._unpacked(self.blocks[index])

    def _pieces(self, schema: Any, blocks: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
        yield header(schema, "null", self._sync)
        for count, data in blocks:
            yield number(count) + number(len(data))
            yield data  # not concatenated: a single row may be very large
            yield self._sync

    def _unpacked(self, block: Block) -> bytes:
        stored = self._content[block.at : block.at + block.size]
        data = _CODECS[self.codec](stored, self._max_block + 1)
        if len(data) > self._max_block:
            raise ValueError(f"a block decompresses to more than {self._max_block} bytes")
        return data

    def _frames(self, cursor: _Cursor) -> Iterator[Block]:
        while not cursor.at_end:
            count, size = cursor.varint(), cursor.varint()
            if count < 0:
                raise ValueError(f"a block claims to hold {count} records")
            yield Block(count, cursor.skip(size), size)
            if cursor.take(SYNC_BYTES) != self._sync:
                raise ValueError("the sync marker after a block is not that of the file")


def header(schema: Any, codec: str, sync: bytes) -> bytes:
    """Return the beginning of a container."""
    meta = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    entries = b"".join(number(len(k)) + k.encode() + number(len(v)) + v for k, v in meta.items())
    return _MAGIC + number(len(meta)) + entries + b"\0" + sync


def number(value: int) -> bytes:
    """Return the encoding of a count or a size, which is not negative."""
    return varint(value << 1)


class FileWindow:
    """The bytes of an open file, of which one part is in memory at a time. It suits reads in ascending order.

    Args:
        source: the file.
    """

    def __init__(self, source: pa.NativeFile) -> None:
        self._source = source
        self._length = int(source.size())
        self._at = 0
        self._part = memoryview(b"")

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, part: slice) -> memoryview:
        """Return the bytes from `part.start` to `part.stop`.

        Raises:
            OSError: the store fails.
            EOFError: the file is shorter than it was.
        """
        start, stop, _ = part.indices(self._length)
        if start < self._at or stop > self._at + len(self._part):
            self._part = memoryview(self._source.read_at(max(stop - start, _WINDOW_BYTES), start))
            self._at = start
            if len(self._part) < stop - start:
                raise EOFError(f"the file ends before byte {stop}")
        return self._part[start - self._at : stop - self._at]


class _Cursor:
    """A bounds-checked cursor over bytes."""

    def __init__(self, content: memoryview | FileWindow) -> None:
        self._content = content
        self.at = 0

    @property
    def at_end(self) -> bool:
        return self.at >= len(self._content)

    def take(self, size: int) -> memoryview:
        """Return the next bytes."""
        start = self.skip(size)
        return self._content[start : self.at]

    def skip(self, size: int) -> int:
        """Leave the next bytes out, and return where they begin."""
        if not 0 <= size <= len(self._content) - self.at:
            raise EOFError(f"{size} bytes were expected, {len(self._content) - self.at} are left")
        self.at += size
        return self.at - size

    def varint(self) -> int:
        value = 0
        for n in range(_MAX_VARINT):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << 7 * n
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise ValueError("a number has too many bytes")


def _metadata(cursor: _Cursor) -> Mapping[str, bytes]:
    found: dict[str, bytes] = {}
    start = cursor.at
    while count := cursor.varint():
        if count < 0:
            cursor.varint()
        for _ in range(abs(count)):
            key = bytes(cursor.take(cursor.varint())).decode()
            found[key] = bytes(cursor.take(cursor.varint()))
            if cursor.at - start > _MAX_HEADER:
                raise ValueError(f"its header has more than {_MAX_HEADER} bytes")
    return found


class _Stream:
    """A readable file over lazily produced chunks."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._current = io.BytesIO()

    def read(self, size: int) -> bytes:
        found = self._current.read(size)
        while len(found) < size:
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._current = io.BytesIO(piece)
            found += self._current.read(size - len(found))
        return found


# ------------------------------------------------------------------------------------------------- compression


def _plain(data: memoryview, limit: int) -> bytes:
    return bytes(data[:limit])


def _deflate(data: memoryview, limit: int) -> bytes:
    step = zlib.decompressobj(-zlib.MAX_WBITS)
    return _whole(step.decompress(data, limit), limit, ended=step.eof)


def _zstandard(data: memoryview, limit: int) -> bytes:
    step = ZstdDecompressor()
    return _whole(step.decompress(data, limit), limit, ended=step.eof)


def _bzip2(data: memoryview, limit: int) -> bytes:
    step = bz2.BZ2Decompressor()
    return _whole(step.decompress(data, limit), limit, ended=step.eof)


def _xz(data: memoryview, limit: int) -> bytes:
    step = lzma.LZMADecompressor(memlimit=_XZ_MEMORY)
    try:
        return _whole(step.decompress(bytes(data), limit), limit, ended=step.eof)
    except lzma.LZMAError as e:
        raise ValueError(f"a block cannot be decompressed: {e}") from e


def _whole(found: bytes, limit: int, *, ended: bool) -> bytes:
    if not ended and len(found) < limit:
        raise EOFError("a block ends too early")
    return found


def _snappy(data: memoryview, limit: int) -> bytes:
    body = data[:-4]
    size = 0
    for n in range(5):
        byte = _Cursor(body[n : n + 1]).take(1)[0]
        size |= (byte & 0x7F) << 7 * n
        if byte < 0x80:
            break
    if size > limit:
        return bytes(limit)
    try:
        return cast("bytes", pa.decompress(pa.py_buffer(bytes(body)), size, codec="snappy", asbytes=True))
    except pa.ArrowException as e:
        raise ValueError(f"a block cannot be decompressed: {e}") from e


_CODECS: dict[str, Callable[[memoryview, int], bytes]] = {
    "null": _plain,
    "deflate": _deflate,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
    SNAPPY: _snappy,
}


def with_snappy(data: bytes, *, max_block: int) -> bytes:
    """Return a container compressed with snappy, whose blocks end with a checksum of what they hold.

    The Avro library needs another library for it, which Arrow has inside.

    Args:
        data: a container of another codec.
        max_block: the maximum uncompressed size of its blocks.
    """
    file, sync = AvroContainer(data, max_block=max_block), os.urandom(SYNC_BYTES)
    pieces = [header(file.schema, SNAPPY, sync)]
    for count, content in file.unpacked():
        packed = pa.compress(content, codec=SNAPPY, asbytes=True) + struct.pack(">I", zlib.crc32(content))
        pieces += (number(count), number(len(packed)), packed, sync)
    return b"".join(pieces)


# ------------------------------------------------------------------------------------------------- schemas


def check_schema(schema: Any) -> dict[str, Any]:
    """Return the types that a schema defines, by name without namespace.

    Schemas with unbounded or excessively large records are rejected.

    Raises:
        ValueError: the schema is malformed, recursive or nested too deeply; array elements have zero size, so that any
            number of them fits in a file; a record has too many values, or duplicate column names.
    """
    measure = _Measure()
    measure.of(schema, 0)
    return measure.defined


@dataclass(frozen=True, slots=True)
class _Size:
    """The minimum encoded size of a type, and the number of its values."""

    bytes: int
    leaves: int


class _Measure:
    """Computes the sizes of the types of one schema; names refer to previously defined types."""

    def __init__(self) -> None:
        self._named: dict[str, _Size | None] = {}
        self._full_names: set[str] = set()
        self._used: set[str] = set()
        self.defined: dict[str, Any] = {}

    def of(self, schema: Any, depth: int) -> _Size:
        if depth > _MAX_DEPTH:
            raise ValueError("its schema is nested too deeply")
        if isinstance(schema, str):
            return self._word(schema)
        if isinstance(schema, list):
            if not schema:
                raise ValueError("its schema has an empty union")
            sizes = [self.of(s, depth + 1) for s in schema]
            return _Size(1 + min(s.bytes for s in sizes), max(s.leaves for s in sizes))
        if not isinstance(schema, dict):
            raise ValueError(f"its schema has a {type(schema).__name__} where a type is expected")  # noqa: TRY004
        return self._object(schema, depth)

    def _word(self, word: str) -> _Size:
        if word in _PRIMITIVES:
            return _Size(_PRIMITIVES[word], 1)
        short = word.rpartition(".")[2]
        found = self._named.get(short)
        if found is None:
            raise ValueError(f"its schema uses the type {word[:60]!r}, which is not defined before, or more than once")
        self._used.add(short)
        return found

    def _object(self, schema: dict[str, Any], depth: int) -> _Size:
        kind = schema.get("type")
        if kind in ("record", "error"):
            return self._record(schema, depth)
        if kind == "array":
            if self.of(schema.get("items"), depth + 1).bytes == 0:
                raise ValueError("its schema has an array of zero-width values")
            return _Size(1, 1)
        if kind == "map":
            self.of(schema.get("values"), depth + 1)
            return _Size(1, 1)
        if kind == "enum":
            return self._define(schema, _Size(1, 1))
        if kind == "fixed":
            size = schema.get("size")
            if type(size) is not int or size < 0:
                raise ValueError("its schema has a fixed type without a size")
            return self._define(schema, _Size(size, 1))
        return self.of(kind, depth + 1)

    def _record(self, schema: dict[str, Any], depth: int) -> _Size:
        fields = schema.get("fields")
        if not isinstance(fields, list) or not all(isinstance(f, dict) and "type" in f for f in fields):
            raise ValueError("its schema has a record without columns")
        names = [f.get("name") for f in fields]
        if not all(isinstance(n, str) for n in names) or len(set(names)) < len(names):
            raise ValueError("its schema has a record with a missing or duplicate column name")
        least = leaves = 0
        for f in fields:
            size = self.of(f["type"], depth + 1)
            least, leaves = least + size.bytes, leaves + size.leaves
            if leaves > _MAX_LEAVES:
                raise ValueError(f"its schema has a record of more than {_MAX_LEAVES} values")
        return self._define(schema, _Size(least, leaves + 1))

    def _define(self, schema: dict[str, Any], size: _Size) -> _Size:
        name = schema.get("name")
        if not isinstance(name, str):
            raise ValueError("its schema has a type that needs a name and has none")  # noqa: TRY004
        space, _, short = name.rpartition(".")
        full = f"{space or schema.get('namespace', '')}.{short}"
        if full in self._full_names or (short in self._named and short in self._used):
            raise ValueError(f"its schema defines the type {short[:60]!r} twice")
        self._full_names.add(full)
        if short in self._named:  # types of other namespaces may have it, if each is used only where it is defined
            self._named[short] = None
        else:
            self._named[short], self.defined[short] = size, schema
        return size

"""ORC file layout: tail, types, stripes, streams; and building single-stripe files from streams."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from paimon_spark.errors import UnsupportedError
from paimon_spark.format import zstd
from paimon_spark.format.orc.composed import Part, Range, decoded
from paimon_spark.format.orc.messages import (
    Field,
    message,
    messages,
    number_of,
    numbers_of,
    parts_of,
    varint_at,
    with_field,
)

MAGIC = b"ORC"
DATA, SECONDARY = 1, 5
DIRECT = 0
LONG, TIMESTAMP, LIST, MAP, STRUCT, INSTANT = 4, 9, 10, 11, 12, 18
TIMES = (TIMESTAMP, INSTANT)
FOOTER_STRIPES, FOOTER_TYPES, FOOTER_ROWS, FOOTER_STATISTICS = 3, 4, 6, 7
TYPE_NAMES = 3
SCRIPT_FOOTER, SCRIPT_METADATA = 1, 5
_SCRIPT_COMPRESSION, _SCRIPT_BLOCK = 2, 3
_NONE, _ZLIB, _SNAPPY, _LZO, _LZ4, _ZSTD, _BROTLI = range(7)
_NAMES = {_LZO: "lzo", _BROTLI: "brotli"}
_BLOCK = 256 << 10
_TAIL_GUESS = 16 << 10


@dataclass(frozen=True, slots=True)
class Framing:
    """The compression framing of streams: chunks with a three-byte header of the length and an uncompressed flag.

    Uncompressed files have no chunks.
    """

    compression: int
    block: int

    def unpack(self, data: bytes) -> bytes:
        """Return the uncompressed content of a stream.

        Raises:
            UnsupportedError: the compression is not supported.
        """
        if self.compression == _NONE:
            return data
        out = bytearray()
        at = 0
        while at < len(data):
            header = int.from_bytes(data[at : at + 3], "little")
            chunk = data[at + 3 : at + 3 + (header >> 1)]
            if len(chunk) < header >> 1:
                raise ValueError("a chunk of a stream is truncated")
            at += 3 + len(chunk)
            try:
                out += chunk if header & 1 else self._inflate(chunk)
            except (zlib.error, zstd.ZstdError) as e:
                raise ValueError(str(e)) from e
        return bytes(out)

    def plain(self, data: bytes) -> bytes:
        """Return a stream with the given content in uncompressed chunks."""
        if self.compression == _NONE:
            return data
        pieces = (data[i : i + self.block] for i in range(0, len(data), self.block))
        return b"".join((len(p) << 1 | 1).to_bytes(3, "little") + p for p in pieces)

    def _inflate(self, chunk: bytes) -> bytes:
        if self.compression == _ZSTD:
            return zstd.decompress(chunk)
        if self.compression == _ZLIB:
            return zlib.decompress(chunk, -15)
        if self.compression == _SNAPPY:
            size, _ = varint_at(chunk, 0)  # the chunk begins with its uncompressed length
            return bytes(pa.Codec("snappy").decompress(chunk, size, asbytes=True))
        if self.compression == _LZ4:
            return _unpack_lz4(chunk)
        raise UnsupportedError(
            f"Timestamps in ORC files with the compression {_NAMES.get(self.compression, self.compression)} cannot be "
            "read.",
            hint="The file is intact. Rewrite the table with Paimon and another orc.compress, such as zstd.",
        )


@dataclass(frozen=True, slots=True)
class Stripe:
    """Location of a stripe."""

    offset: int
    index_length: int
    data_length: int
    footer_length: int
    rows: int

    @property
    def length(self) -> int:
        """Return the length of the stripe, including its footer."""
        return self.index_length + self.data_length + self.footer_length


@dataclass(frozen=True, slots=True)
class Column:
    """A node of the type tree."""

    kind: int
    children: tuple[int, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of a stripe and its location in the file."""

    kind: int
    column: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class StripeFooter:
    """The footer of a stripe."""

    streams: tuple[Stream, ...]
    encodings: tuple[int, ...]
    zone: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Tail:
    """The tail of a file."""

    framing: Framing
    script: tuple[Field, ...]
    footer: tuple[Field, ...]
    footer_at: int
    metadata_at: int
    stripes: tuple[Stripe, ...]
    columns: tuple[Column, ...]

    @classmethod
    def read(cls, source: pa.NativeFile) -> Self:
        """Read the tail of a file.

        Raises:
            UnsupportedError: the compression is not supported.
        """
        size = source.size()
        data = source.read_at(min(size, _TAIL_GUESS), max(0, size - _TAIL_GUESS))
        script = tuple(messages(data[-1 - data[-1] : -1]))
        framing = Framing(number_of(script, _SCRIPT_COMPRESSION), number_of(script, _SCRIPT_BLOCK) or _BLOCK)
        end = size - 1 - data[-1]
        footer_at = end - number_of(script, SCRIPT_FOOTER)
        footer = tuple(messages(framing.unpack(source.read_at(end - footer_at, footer_at))))
        return cls(
            framing,
            script,
            footer,
            footer_at,
            footer_at - number_of(script, SCRIPT_METADATA),
            tuple(map(_stripe, parts_of(footer, FOOTER_STRIPES))),
            tuple(map(_column, parts_of(footer, FOOTER_TYPES))),
        )

    def stripe_footer(self, source: pa.NativeFile, stripe: Stripe) -> StripeFooter:
        """Read the footer of a stripe."""
        at = stripe.offset + stripe.index_length + stripe.data_length
        fields = tuple(messages(self.framing.unpack(source.read_at(stripe.footer_length, at))))
        streams: list[Stream] = []
        at = stripe.offset
        for raw in (tuple(messages(v)) for v in parts_of(fields, 1)):
            streams.append(Stream(number_of(raw, 1), number_of(raw, 2), at, number_of(raw, 3)))
            at += streams[-1].length
        encodings = tuple(number_of(messages(v), 1) for v in parts_of(fields, 2))
        zone = next((v.decode() for v in parts_of(fields, 3)), "")
        return StripeFooter(tuple(streams), encodings, zone, fields)

    @property
    def numbers(self) -> Mapping[str, int]:
        """Return the number of each column at the top level, by name."""
        root = self.columns[0]
        return dict(zip(root.names, root.children, strict=True))

    def decoded(
        self, source: pa.NativeFile, chosen: Sequence[int], columns: Sequence[str], batch_rows: int | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield some columns of some stripes, in any order; see `decoded`."""
        numbers = self.numbers
        names = {str(numbers[c]): c for c in columns}
        for batch in decoded(self.of_stripes(source, chosen), list(names), batch_rows):
            yield batch.rename_columns([names[n] for n in batch.schema.names])

    def of_stripes(self, source: pa.NativeFile, chosen: Sequence[int], types: Sequence[bytes] = ()) -> Sequence[Part]:
        """Return the parts of a file that has only some of the stripes, and other types if they are given.

        The names of its columns at the top level are their numbers: pyarrow takes some names for those of columns
        inside of rows or for columns of its own.
        """
        wanted = [(FOOTER_STRIPES, part) for part in parts_of(self.footer, FOOTER_STRIPES)]
        own = (FOOTER_STRIPES, FOOTER_TYPES, FOOTER_ROWS)
        footer: list[Field] = [f for f in self.footer if f[0] not in own]
        root, *others = types or parts_of(self.footer, FOOTER_TYPES)
        footer += [(FOOTER_TYPES, t) for t in (self._numbered(root), *others)]
        footer += [*(wanted[i] for i in chosen), (FOOTER_ROWS, sum(self.stripes[i].rows for i in chosen))]
        return [Range(source, 0, self.footer_at), self.with_footer(sorted(footer, key=lambda f: f[0]))]

    def _numbered(self, root: bytes) -> bytes:
        """Return the type of rows with the numbers of columns as their names."""
        names: list[Field] = [(TYPE_NAMES, str(c).encode()) for c in self.columns[0].children]
        return message([*(f for f in messages(root) if f[0] != TYPE_NAMES), *names])

    def with_footer(self, footer: Sequence[Field], metadata_length: int | None = None) -> bytes:
        """Return a copy of the tail, from the footer on, with another footer."""
        packed = self.framing.plain(message(footer))
        script = with_field(self.script, SCRIPT_FOOTER, len(packed))
        if metadata_length is not None:
            script = with_field(script, SCRIPT_METADATA, metadata_length)
        end = message(sorted(script, key=lambda f: f[0]))
        return packed + end + bytes([len(end)])


def one_stripe(
    framing: Framing, column: int, encoding: int, streams: Sequence[tuple[int, Part]], rows: int
) -> Sequence[Part]:
    """Return the parts of a file of one stripe with a single primitive column named `x`.

    Args:
        framing: compression framing of the streams.
        column: type kind of the column.
        encoding: column encoding.
        streams: kind and content of each stream.
        rows: number of values.
    """
    length = sum(len(s) for _, s in streams)
    listed: list[Field] = [(1, message([(1, kind), (2, 1), (3, len(s))])) for kind, s in streams]
    encodings: list[Field] = [(2, message([(1, e)])) for e in (DIRECT, encoding)]
    foot = framing.plain(message([*listed, *encodings, (3, b"UTC")]))
    place = message([(1, len(MAGIC)), (3, length), (4, len(foot)), (5, rows)])
    types: list[Field] = [(4, message([(1, STRUCT), (2, b"\1"), (3, b"x")])), (4, message([(1, column)]))]
    content = length + len(foot)
    footer = framing.plain(message([(1, len(MAGIC)), (2, content), (3, place), *types, (6, rows), (8, 0)]))
    script = message(
        [(1, len(footer)), (2, framing.compression), (3, framing.block), (4, b"\0\x0c"), (5, 0), (6, 6), (8000, MAGIC)]
    )
    return [MAGIC, *(s for _, s in streams), foot + footer + script + bytes([len(script)])]


def _stripe(data: bytes) -> Stripe:
    raw = tuple(messages(data))
    return Stripe(*(number_of(raw, i) for i in range(1, 6)))


def _column(data: bytes) -> Column:
    raw = tuple(messages(data))
    names = tuple(v.decode() for v in parts_of(raw, TYPE_NAMES))
    return Column(number_of(raw, 1), tuple(numbers_of(raw, 2)), names)


def _unpack_lz4(chunk: bytes) -> bytes:
    """Decompress an LZ4 block of unknown uncompressed length; used only for footers, which are short."""
    out = bytearray()
    at = 0
    while at < len(chunk):
        token = chunk[at]
        count, at = _lz4_length(chunk, at + 1, token >> 4)
        out += chunk[at : at + count]
        at += count
        if at >= len(chunk):
            break
        back = int.from_bytes(chunk[at : at + 2], "little")
        count, at = _lz4_length(chunk, at + 2, token & 15)
        if not 0 < back <= len(out):
            raise ValueError("an LZ4 chunk refers to bytes before its start")
        start, count = len(out) - back, count + 4
        out += (out[start:] * (count // back + 1))[:count]
    return bytes(out)


def _lz4_length(chunk: bytes, at: int, length: int) -> tuple[int, int]:
    if length == 15:
        while True:
            length += chunk[at]
            at += 1
            if chunk[at - 1] < 255:
                break
    return length, at

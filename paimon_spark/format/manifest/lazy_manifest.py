"""A manifest in memory: few entries as objects, many entries packed as in the file.

Of packed entries only the columns for selection are decoded, some 20 bytes per entry; an entry is decoded to an object
on each access, and not kept.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import fastavro
import numpy as np
import numpy.typing as npt

from paimon_spark.errors import CorruptTableError
from paimon_spark.format.avro.container import AvroContainer
from paimon_spark.format.manifest.column_decoder import DecodedColumns, decode_columns, joined
from paimon_spark.format.manifest.entry_decoder import decode_entry
from paimon_spark.format.manifest.file_decoder import decode_file, decode_file_without_stats
from paimon_spark.format.manifest.file_records import file_record
from paimon_spark.format.manifest.layout import FILE_FIELDS, record
from paimon_spark.format.manifest.primitives import Counts
from paimon_spark.spec.manifest import DataFileMeta, ManifestEntry

Rows = npt.NDArray[np.int64]
"""EntryColumns of entries in a manifest, in their order."""
FEWEST_BLOCKS = 16
"""Minimum number of blocks for decoding all blocks in parallel."""
_BLOCKS_AT_ONCE = 512
_BYTES_AT_ONCE = 8 << 20
ENTRY_BYTES = 950
"""Estimated bytes of an entry as objects and in columns, without its keys and statistics."""
_PLAIN = ((), None, None)
_SAMPLED = 8
_OBJECT_BYTES = 256


class Manifest:
    """The entries of one manifest as objects."""

    def __init__(self, entries: Iterable[ManifestEntry], where: str = "a manifest") -> None:
        self._entries = tuple(entries)
        self._places: EntryColumns | None = None
        self.where = where

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def nbytes(self) -> int:
        """Return the estimated size in memory in bytes."""
        return _OBJECT_BYTES + entries_bytes(self._entries)

    @property
    def partitions(self) -> Sequence[bytes]:
        """Return the distinct partitions."""
        return tuple(dict.fromkeys(e.partition for e in self._entries))

    def entries(self, rows: Rows | None = None) -> Iterator[ManifestEntry]:
        """Yield the entries, all or those at some positions."""
        return iter(self._entries) if rows is None else map(self._entries.__getitem__, rows.tolist())

    def entry_columns(self) -> EntryColumns:
        """Return the columns of the entries; computed once."""
        if self._places is None:
            self._places = self._read_columns()
        return self._places

    def _read_columns(self) -> EntryColumns:
        numbers = {p: n for n, p in enumerate(self.partitions)}
        columns = (
            [e.kind for e in self._entries],
            [numbers[e.partition] for e in self._entries],
            [e.bucket for e in self._entries],
            [e.total_buckets for e in self._entries],
            [e.file.level for e in self._entries],
            [e.file.file_size for e in self._entries],
            [e.file.row_count for e in self._entries],
            [e.file.max_sequence_number for e in self._entries],
            [(f.extra_files, f.embedded_index, f.external_path) == _PLAIN for f in (e.file for e in self._entries)],
        )
        return EntryColumns(tuple(numbers), *(np.array(c, np.int64) for c in columns))

    def packed_files(self, rows: Rows, *, statistics: bool) -> Iterator[bytes]:
        """Yield the files at some positions in the packed form of `unpack_file`."""
        return (pack_file(e.file, statistics=statistics) for e in self.entries(rows))

    def names(self, rows: Rows) -> Iterator[tuple[int, str]]:
        """Yield some positions, and the names of the files there."""
        return ((row, self._entries[row].file.file_name) for row in rows.tolist())


class EntryColumns:
    """The columns for the selection of manifest entries; `partition` is an index to `partitions`.

    The identity of a `plain` entry is its partition, bucket, level and name: it has no other parts.
    """

    __slots__ = (
        "bucket",
        "kind",
        "level",
        "max_sequence",
        "partition",
        "partitions",
        "plain",
        "rows",
        "size",
        "total_buckets",
    )

    def __init__(self, partitions: Sequence[bytes], *columns: npt.NDArray[Any]) -> None:
        self.partitions = partitions
        self.kind, self.partition, self.bucket, self.total_buckets, self.level, *rest = columns
        self.size, self.rows, self.max_sequence, self.plain = rest


class LazyManifest(Manifest):
    """The entries of one manifest, packed as in its file."""

    def __init__(self, file: AvroContainer, columns: DecodedColumns, partitions: Sequence[bytes], where: str) -> None:
        self._file = file
        self._columns = columns
        self._partitions = partitions
        self._firsts = np.concatenate(([0], np.cumsum([b.count for b in file.blocks])))
        self.where = where

    def __len__(self) -> int:
        return len(self._columns.kind)

    @property
    def nbytes(self) -> int:
        """Return the estimated size in memory in bytes."""
        blocks = sum(b.size + _OBJECT_BYTES for b in self._file.blocks)
        return blocks + self._columns.nbytes + sum(map(len, self._partitions)) + self._firsts.nbytes

    @property
    def partitions(self) -> Sequence[bytes]:
        """Return the distinct partitions."""
        return self._partitions

    def entries(self, rows: Rows | None = None) -> Iterator[ManifestEntry]:
        """Yield the entries, all or those at some positions.

        Raises:
            CorruptTableError: an entry is malformed.
        """
        counts: Counts = {}
        try:
            for data, of_block in self._by_block(rows):
                for at in self._columns.start[of_block].tolist():
                    yield decode_entry(data, at, counts)[0]
        except (LookupError, ValueError) as e:
            raise CorruptTableError(
                f"{self.where} cannot be read: its entries are malformed.", hint="Restore the file from a backup."
            ) from e

    def entry_columns(self) -> EntryColumns:
        """Return the columns of the entries."""
        c = self._columns
        columns = (c.kind, c.partition, c.bucket, c.total_buckets, c.level, c.size, c.rows, c.max_sequence, c.plain)
        return EntryColumns(self._partitions, *columns)

    def names(self, rows: Rows) -> Iterator[tuple[int, str]]:
        """Yield some positions, and the names of the files there."""
        for data, of_block in self._by_block(rows):
            begins = self._columns.start[of_block].astype(np.int64) + self._columns.file[of_block]
            for row, at in zip(of_block.tolist(), begins.tolist(), strict=True):
                size = data[at] >> 1
                if data[at] & 0x80:
                    yield row, decode_file(data, at, {})[0].file_name
                else:
                    yield row, data[at + 1 : at + 1 + size].decode()

    def packed_files(self, rows: Rows, *, statistics: bool) -> Iterator[bytes]:
        """Yield the files at some positions in the packed form of `unpack_file`."""
        c = self._columns
        for data, of_block in self._by_block(rows):
            start = c.start[of_block].astype(np.int64)
            places = (start + offset[of_block] for offset in (c.file, c.keys_end, c.numbers, c.end))
            file, keys_end, numbers, end = (p.tolist() for p in places)
            if statistics:
                yield from (data[a:b] for a, b in zip(file, end, strict=True))
            else:
                yield from (data[a:b] + data[x:y] for a, b, x, y in zip(file, keys_end, numbers, end, strict=True))

    def _by_block(self, rows: Rows | None) -> Iterator[tuple[bytes, Rows]]:
        """Yield the blocks with some entries, decompressed one at a time, and the positions of these entries."""
        chosen = np.arange(len(self)) if rows is None else rows
        cuts = np.searchsorted(chosen, self._firsts)
        for block in np.flatnonzero(cuts[1:] > cuts[:-1]).tolist():
            yield self._file.unpack(block), chosen[cuts[block] : cuts[block + 1]]


def decode_lazily(file: AvroContainer, where: str) -> LazyManifest | None:
    """Return the manifest of a usual file, or None unless all entries are valid and usual."""
    partitions: dict[bytes, int] = {}
    parts = []
    for blocks in _portions(file.unpacked()):
        columns = decode_columns(blocks, partitions)
        if columns is None:
            return None
        parts.append(joined([columns]))
    return LazyManifest(file, joined(parts), tuple(partitions), where)


def _portions(blocks: Iterable[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    portion: list[tuple[int, bytes]] = []
    size = 0
    for block in blocks:
        portion.append(block)
        size += len(block[1])
        if len(portion) == _BLOCKS_AT_ONCE or size >= _BYTES_AT_ONCE:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def entries_bytes(entries: Sequence[ManifestEntry]) -> int:
    """Return the estimated size of entries in memory in bytes, by a sample of them."""
    some = entries[::_SAMPLED]
    return sum(map(_entry_bytes, some)) * len(entries) // len(some) if some else 0


def _entry_bytes(entry: ManifestEntry) -> int:
    f = entry.file
    keys, values = f.key_stats, f.value_stats
    of_keys = len(f.min_key) + len(f.max_key) + len(keys.min_values) + len(keys.max_values)
    return ENTRY_BYTES + of_keys + len(values.min_values) + len(values.max_values) + len(values.null_counts) * 8


_STATISTICS = ("_KEY_STATS", "_VALUE_STATS")
_WHOLE = fastavro.parse_schema(record("record__FILE", FILE_FIELDS))
_WITHOUT = fastavro.parse_schema(
    record("record__FILE", {name: kind for name, kind in FILE_FIELDS.items() if name not in _STATISTICS})
)


def pack_file(file: DataFileMeta, *, statistics: bool) -> bytes:
    """Return a file of a manifest, with or without its statistics."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _WHOLE if statistics else _WITHOUT, file_record(file))
    return out.getvalue()


def unpack_file(data: bytes, at: int = 0, *, statistics: bool) -> DataFileMeta:
    """Return the packed file at an offset."""
    return (decode_file(data, at, {}) if statistics else decode_file_without_stats(data, at))[0]


def unpack_files(data: bytes, *, statistics: bool) -> Iterator[DataFileMeta]:
    """Yield consecutive packed files."""
    at = 0
    while at < len(data):
        file, at = decode_file(data, at, {}) if statistics else decode_file_without_stats(data, at)
        yield file

"""Tables that list any number of files that do not exist: their manifests are real, in the table's own format."""

from __future__ import annotations

import io
import random
import struct
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import islice
from pathlib import Path

import fastavro
import pyarrow as pa

from paimon_spark import connect
from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.metadata.manifest_store import ManifestStore, partition_stats
from paimon_spark.core.scan.scan import live_entries
from paimon_spark.core.table import Table
from paimon_spark.format.avro.container import AvroContainer
from paimon_spark.format.manifest.codec import write_manifest
from paimon_spark.format.manifest.lazy_manifest import pack_file
from paimon_spark.spec.kinds import FileKind
from paimon_spark.spec.manifest import DataFileMeta, ManifestEntry, ManifestFileMeta, SimpleStats
from paimon_spark.spec.rows import encode_row
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.types import DataType

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TABLE = "bench.files"
FIRST_DAY = 10_957
"""In days since 1970."""
KEYS_OF_A_FILE = 1_000
_SAMPLE = 50_000
_SNAPSHOTS = 3
_FULLER = 1.06
"""Factor of the size of manifests over the target, so that no commit merges them as too small."""
_IN_A_BLOCK = 50
_SYNC = 16
_DAY = struct.Struct("<i")
_FIRST_VALUE = 12
"""The offset of the first value of a serialized row: after the arity and the null bits."""
_VARIANTS = 2
_TOP_LEVEL = 5
_OVERLAPPED = 8
"""One in this number of buckets has a file at level 0, over all its keys."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The numbers of files, partitions, buckets per partition and snapshots of a table."""

    files: int
    partitions: int = 1
    buckets: int = 1
    snapshots: int = _SNAPSHOTS

    @classmethod
    def of_files(cls, files: int) -> Shape:
        """Return a table of ten buckets a day that grew day by day, a hundred files in a bucket.

        One of its few snapshots removes a file, so that an expiry has a file to delete.
        """
        return cls(files, max(1, files // 1_000), min(10, max(1, files // 100)), _SNAPSHOTS)

    @property
    def text(self) -> str:
        """Return its description."""
        snapshots = f", {self.snapshots:,} snapshots" if self.snapshots > _SNAPSHOTS else ""
        return f"{self.files:,} files, {self.partitions:,} partitions x {self.buckets:,} buckets{snapshots}"


@dataclass(frozen=True, slots=True)
class Listed:
    """One encoded manifest entry, and its contribution to the record in the manifest list."""

    record: bytes
    partition: bytes
    bucket: int
    level: int
    rows: int


@dataclass(frozen=True, slots=True)
class _Rest:
    """The encoded fields after the name of a file, and the offset of the day in them."""

    data: bytes
    days: tuple[int, ...]

    @classmethod
    def of(cls, file: DataFileMeta) -> _Rest:
        packed = pack_file(file, statistics=True)
        name = file.file_name.encode()
        data = packed[packed.index(name) + len(name) :]
        at = data.index(file.value_stats.min_values)
        behind = data.index(file.value_stats.max_values, at + 1)
        return cls(data, (at + _FIRST_VALUE, behind + _FIRST_VALUE))

    def on(self, day: int) -> bytes:
        out = bytearray(self.data)
        for at in self.days:
            _DAY.pack_into(out, at, day)
        return bytes(out)


@dataclass(frozen=True, slots=True)
class Synthetic:
    """Generates the entries of one table from a file that was really written."""

    table: Table
    shape: Shape
    example: ManifestEntry

    def day(self, number: int) -> bytes:
        """Return a partition."""
        return encode_row([FIRST_DAY + number], self.table.partition_types)

    def file(self, draw: random.Random, keys: tuple[int, int], day: int = 0, level: int = 0) -> DataFileMeta:
        """Return a file with these keys; its name and the statistics of its other columns are random."""
        types: list[DataType] = [f.type for f in self.table.key_fields]
        first, last = (encode_row([key], types) for key in keys)
        amounts = sorted(Decimal(draw.randrange(10**9)).scaleb(-2) for _ in range(2))
        notes = sorted(f"note {draw.randrange(10**6)}" for _ in range(2))
        columns = [f.type for f in self.table.schema.fields]
        low, high = (
            encode_row([FIRST_DAY + day, key, amount, note], columns)
            for key, amount, note in zip(keys, amounts, notes, strict=True)
        )
        return replace(
            self.example.file,
            file_name=_name(draw),
            file_size=draw.randrange(10**6, 10**8),
            min_key=first,
            max_key=last,
            key_stats=SimpleStats(first, last, (0,)),
            value_stats=SimpleStats(low, high, (0, 0, draw.randrange(100), 0)),
            row_count=keys[1] - keys[0] + 1,
            level=level,
        )

    def records(self) -> Iterator[Listed]:
        """Yield the files in the order of partitions and buckets; those of a day share some statistics."""
        draw = random.Random(0)
        rests: dict[tuple[int, int, int], _Rest] = {}
        for day in range(self.shape.partitions):
            partition, ends = self.day(day), dict[tuple[int, int, int], bytes]()
            for bucket in range(self.shape.buckets):
                head = self._head(partition, bucket)
                for first, last, level in self._spans(day * self.shape.buckets + bucket):
                    like = (first, last, draw.randrange(_VARIANTS))
                    if like not in ends:
                        if like not in rests:
                            keys = (first * KEYS_OF_A_FILE, last * KEYS_OF_A_FILE - 1)
                            rests[like] = _Rest.of(self.file(draw, keys, level=level))
                        ends[like] = rests[like].on(FIRST_DAY + day)
                    rows = (last - first) * KEYS_OF_A_FILE
                    yield Listed(head + _name(draw).encode() + ends[like], partition, bucket, level, rows)
            if len(rests) > _SAMPLE:
                rests.clear()

    def _head(self, partition: bytes, bucket: int) -> bytes:
        """Return the encoded fields before the name of a file."""
        entry = replace(self.example, kind=FileKind.ADD, partition=partition, bucket=bucket)
        data = write_manifest([replace(entry, total_buckets=self.shape.buckets)])
        record = AvroContainer(data, max_block=len(data) * 100).unpack(0)
        return record[: record.index(entry.file.file_name.encode())]

    def _spans(self, place: int) -> Iterator[tuple[int, int, int]]:
        """Yield the position of each file of a bucket in the order of keys, and its level."""
        places = self.shape.partitions * self.shape.buckets
        count = self.shape.files * (place + 1) // places - self.shape.files * place // places
        overlapped = place % _OVERLAPPED == 0 and count > 1
        yield from ((number, number + 1, _TOP_LEVEL) for number in range(count - overlapped))
        if overlapped:
            yield 0, count, 0

    def one_more(self, number: int, replaced: DataFileMeta | None = None) -> CommitMessage:
        """Return the entries that add a file to the last partition, and remove another one if there is one."""
        file = self.file(random.Random(-number), (0, KEYS_OF_A_FILE - 1), self.shape.partitions - 1)
        message = CommitMessage(
            partition=self.day(self.shape.partitions - 1), bucket=0, total_buckets=self.shape.buckets, new_files=(file,)
        )
        if replaced is None:
            return message
        return replace(message, new_files=(), compact_before=(replaced,), compact_after=(file,))


def _name(draw: random.Random) -> str:
    return f"data-{uuid.UUID(int=draw.getrandbits(128))}-0.parquet"


def build(warehouse: Path, shape: Shape) -> None:
    """Create a table of a shape, with constant memory."""
    catalog = connect(warehouse)
    catalog.create_database("bench", ignore_if_exists=True)
    fields = [("day", pa.date32()), ("id", pa.int64()), ("amount", pa.decimal128(12, 2)), ("note", pa.string())]
    schema = pa.schema([pa.field(name, kind, nullable=name not in ("day", "id")) for name, kind in fields])
    handle = catalog.create_table(
        TABLE,
        schema,
        primary_key=["day", "id"],
        partition_by=["day"],
        options={"bucket": str(shape.buckets), "write-only": "true"},
    )
    handle.upsert(pa.table([[FIRST_DAY], [1], [None], ["a note"]], schema=schema))
    synthetic = open_synthetic(warehouse, shape)
    _publish(synthetic)
    last: DataFileMeta | None = None
    for number in range(1, shape.snapshots):
        message = synthetic.one_more(number, last)
        FileStoreCommit(synthetic.table).commit([message])
        last = (*message.compact_after, *message.new_files)[0]


def open_synthetic(warehouse: Path, shape: Shape) -> Synthetic:
    """Create the table at a path, with the real file as the template."""
    table = connect(warehouse).table(TABLE).load()
    store, first = ManifestStore(table), table.snapshots.get(1)
    (example,) = live_entries(store, store.data_manifests(first))
    return Synthetic(table, shape, example)


def _publish(synthetic: Synthetic) -> None:
    """Write the manifests one by one, and one snapshot with all of them."""
    table = synthetic.table
    store, before = ManifestStore(table), table.snapshots.get(1)
    metas: list[ManifestFileMeta] = []
    rows = before.total_record_count or 0
    records = synthetic.records()
    wanted = int(table.options.manifest_target_file_size * _FULLER)
    while listed := _manifest(table, records, wanted):
        meta, count = listed
        metas.append(meta)
        rows += count
    base, base_size = store.write_list([*metas, *store.data_manifests(before)])
    delta, delta_size = store.write_list([])
    snapshot: Snapshot = replace(
        before,
        id=2,
        base_manifest_list=base,
        base_manifest_list_size=base_size,
        delta_manifest_list=delta,
        delta_manifest_list_size=delta_size,
        total_record_count=rows,
        delta_record_count=0,
    )
    if not table.snapshots.try_create(snapshot):
        raise RuntimeError("another commit came between")


def _manifest(table: Table, records: Iterator[Listed], wanted: int) -> tuple[ManifestFileMeta, int] | None:
    """Write one manifest of about the requested size; return it and the number of rows of its files."""
    out = bytearray(write_manifest([]))
    sync = bytes(out[-_SYNC:])
    days, buckets, levels, rows = Counter[bytes](), set[int](), set[int](), 0
    while len(out) < wanted and (block := list(islice(records, _IN_A_BLOCK))):
        data = zstd.compress(b"".join(r.record for r in block), 1)
        out += _number(len(block)) + _number(len(data)) + data + sync
        days.update(r.partition for r in block)
        buckets.update(r.bucket for r in block)
        levels.update(r.level for r in block)
        rows += sum(r.rows for r in block)
    if not days:
        return None
    name = table.paths.new_manifest_name()
    table.file_io.write(table.paths.manifest(name), bytes(out), overwrite=False)
    return ManifestFileMeta(
        file_name=name,
        file_size=len(out),
        num_added_files=days.total(),
        num_deleted_files=0,
        partition_stats=partition_stats(days, table.partition_types),
        schema_id=table.schema.id,
        min_bucket=min(buckets),
        max_bucket=max(buckets),
        min_level=min(levels),
        max_level=max(levels),
    ), rows


def _number(value: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", value)
    return out.getvalue()

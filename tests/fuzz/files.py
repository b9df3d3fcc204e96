"""Targets that take bytes from tables: metadata, rows, index files, descriptions of tasks."""

from __future__ import annotations

import io
import json
import random
import struct
import zlib
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_spark.core.commit_message import CommitMessage, messages_from_json, messages_to_json
from paimon_spark.core.scan.splits import Split, VectorRef, splits_from_json, splits_to_json
from paimon_spark.errors import PaimonError
from paimon_spark.format import deletion_vectors, hash_index
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.format.avro.container import MALFORMED, AvroContainer
from paimon_spark.format.avro.decoder import decode_blocks
from paimon_spark.format.manifest import codec as m
from paimon_spark.format.manifest.entry_decoder import has_known_layout
from paimon_spark.format.registry import for_name
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.identifier import is_one_name
from paimon_spark.spec.kinds import CommitKind, FileKind, FileSource
from paimon_spark.spec.manifest import (
    DataFileMeta,
    DeletionRange,
    IndexFileMeta,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
    SimpleStats,
)
from paimon_spark.spec.refs import Consumer, Tag, parse_consumer, parse_tag
from paimon_spark.spec.rows import Timestamp, decode_field, decode_row, encode_row
from paimon_spark.spec.schema import parse_schema
from paimon_spark.spec.snapshot import Snapshot, parse_snapshot
from paimon_spark.spec.table_statistics import parse_statistics
from paimon_spark.spec.types import type_from_json
from paimon_spark.spec.view import View, parse_view
from tests.fuzz.harness import Target

# ------------------------------------------------------------------------------------------------- JSON


def snapshot(data: bytes) -> None:
    """A snapshot is unchanged by a round trip, and names no file elsewhere."""
    found, _ = parse_snapshot(data, "snapshot-1")
    assert parse_snapshot(found.to_json(), "snapshot-1")[0] == found
    for name in (found.base_manifest_list, found.delta_manifest_list, found.index_manifest, found.statistics):
        assert name is None or is_one_name(name)


def tag(data: bytes) -> None:
    """A tag is unchanged by a round trip."""
    found = parse_tag(data, "tag-1")
    assert parse_tag(found.to_json(), "tag-1") == found
    assert found.time_retained_text is None or found.time_retained_text


def consumer(data: bytes) -> None:
    """A consumer is unchanged by a round trip."""
    found = parse_consumer(data, "consumer-1")
    assert parse_consumer(found.to_json(), "consumer-1") == found


def statistics(data: bytes) -> None:
    """Statistics of a table are unchanged by a round trip."""
    found = parse_statistics(data, "stat-1")
    assert parse_statistics(found.to_json(), "stat-1") == found


def view(data: bytes) -> None:
    """A view is unchanged by a round trip."""
    found = parse_view(data, "v.json")
    assert parse_view(found.to_json().encode(), "v.json") == found


def schema(data: bytes) -> None:
    """A schema is unchanged by a round trip, and rows of its columns can be made."""
    found = parse_schema(data, "schema-1")
    assert parse_schema(found.to_json(), "schema-1") == found
    types = [f.type for f in found.fields]
    if not any("BLOB" in repr(t) for t in types):
        assert decode_row(encode_row([None] * len(types), types), types) == (None,) * len(types)


def json_changed(rng: random.Random, data: bytes) -> bytes:
    """Change one value somewhere in a JSON text."""
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError):
        return data
    places: list[tuple[Any, Any]] = []
    _collect(raw, places, 0)
    if not places:
        return data
    holder, key = rng.choice(places)
    kind = rng.randrange(4)
    if kind == 0 and isinstance(holder, dict):
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[rng.choice(("x", "", key, "\u202e"))] = rng.choice(places)[0]
    else:
        holder[key] = rng.choice(_JSON_VALUES)
    try:
        return json.dumps(raw).encode()
    except (ValueError, RecursionError):
        return data


def _collect(raw: Any, places: list[tuple[Any, Any]], depth: int) -> None:
    if depth < 20 and isinstance(raw, dict | list):
        for key in raw if isinstance(raw, dict) else range(len(raw)):
            places.append((raw, key))
            _collect(raw[key], places, depth + 1)


_JSON_VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1,
    2**31,
    2**63 - 1,
    2**63,
    2**200,
    1.5,
    1e308,
    float("nan"),
    "",
    "..",
    "a/b",
    "\0",
    "\ud800",
    "x" * 300,
    "INT",
    "DECIMAL(38, 38)",
    "ARRAY",
    [],
    {},
    [[]],
    [1, 2, 3],
    {"a": 1},
    "PT1H",
    "2024-01-01T00:00:00",
    "APPEND",
)

SNAPSHOT = Snapshot(
    id=3,
    schema_id=0,
    base_manifest_list="manifest-list-b",
    delta_manifest_list="manifest-list-d",
    commit_user="u",
    commit_identifier=1,
    commit_kind=CommitKind.APPEND,
    time_millis=5,
    total_record_count=2,
    delta_record_count=1,
    index_manifest="index-manifest-1",
    statistics="stat-1",
    watermark=7,
    properties={"a": "b"},
    next_row_id=4,
    extra={"x": [1]},
)
_TYPES: list[Any] = [
    "INT NOT NULL",
    "STRING",
    "DECIMAL(10, 2)",
    "DECIMAL(38, 4)",
    "TIMESTAMP(3)",
    "TIMESTAMP(9)",
    "BOOLEAN",
    "BYTES",
    "DOUBLE",
    {"type": "ARRAY", "element": "INT"},
    {"type": "ARRAY", "element": {"type": "ARRAY", "element": "STRING"}},
    {"type": "MAP", "key": "STRING", "value": "BIGINT"},
    {"type": "MULTISET", "element": "STRING"},
    "VARIANT",
    {"type": "ROW", "fields": [{"id": 20, "name": "x", "type": "INT"}, {"id": 21, "name": "y", "type": "STRING"}]},
]
_SCHEMA = json.dumps(
    {
        "version": 3,
        "id": 1,
        "highestFieldId": 30,
        "partitionKeys": ["c1"],
        "primaryKeys": ["c0", "c1"],
        "options": {"bucket": "1"},
        "comment": "c",
        "timeMillis": 5,
        "fields": [{"id": i, "name": f"c{i}", "type": t} for i, t in enumerate(_TYPES)],
    }
).encode()

# ------------------------------------------------------------------------------------------------- rows

_ROWS: list[tuple[list[Any], list[Any]]] = [
    (["INT", "STRING", "BIGINT"], [5, "a longer text than seven", None]),
    (
        ["DECIMAL(10, 2)", "DECIMAL(38, 4)", "BOOLEAN"],
        [Decimal("1.25"), Decimal("123456789012345678901234.5678"), True],
    ),
    (["TIMESTAMP(3)", "TIMESTAMP(9)", "DATE"], [Timestamp(5, 0), Timestamp(-7, 999_999), 3]),
    (["BYTES", "DOUBLE", "FLOAT", "TINYINT"], [b"12345678901", 1.5, -0.0, -1]),
    ([_TYPES[9], _TYPES[10], _TYPES[11]], [[1, None, 3], [["a", "b" * 20], []], [("k", 1), ("l" * 9, None)]]),
    ([_TYPES[12], _TYPES[13], _TYPES[14]], [[("a", 2)], (b"v", b"meta"), (1, "y" * 10)]),
]
_ROW_TYPES = [[type_from_json(t) for t in types] for types, _ in _ROWS]


def row(data: bytes) -> None:
    """The first byte chooses the types. A row is unchanged by a round trip; its fields agree with it."""
    types = _ROW_TYPES[data[0] % len(_ROW_TYPES)] if data else _ROW_TYPES[0]
    found = decode_row(data[1:], types)
    assert len(found) == len(types)
    written = encode_row(found, types)
    assert repr(decode_row(written, types)) == repr(found)
    assert [repr(decode_field(data[1:], i, t)) for i, t in enumerate(types)] == [repr(v) for v in found]


_ROW_SAMPLES = [bytes([i]) + encode_row(values, _ROW_TYPES[i]) for i, (_, values) in enumerate(_ROWS)]

# ------------------------------------------------------------------------------------------------- Avro


def manifest(data: bytes) -> None:
    """A manifest is unchanged by a round trip, and names no file elsewhere."""
    packed = _read_packed(data)
    try:
        found = m.read_manifest(data)
    except PaimonError:
        assert isinstance(packed, PaimonError)
        raise
    assert packed == found
    assert m.read_manifest(m.write_manifest(found)) == found
    assert _read_generally(data) == found
    for entry in found:
        assert is_one_name(entry.file.file_name)
        assert all(map(is_one_name, entry.file.extra_files))
        assert isinstance(entry.partition, bytes)


def _read_packed(data: bytes) -> object:
    """Return what is read of a manifest that is kept packed, however small it is."""
    try:
        return list(m.open_manifest(data, fewest_blocks=1).entries())
    except PaimonError as error:
        return error


def _read_generally(data: bytes) -> object:
    """Return what the reader of any layout reads; a column that takes no bytes keeps the quick one away."""
    file = AvroContainer(data, max_block=1 << 30)
    if not has_known_layout(file.schema):
        return m.read_manifest(data)
    fields = [*file.schema["fields"], {"name": "_NOTHING", "type": "null"}]
    try:
        return m.read_manifest(file.stream(file.schema | {"fields": fields}).read(1 << 30))
    except PaimonError as error:
        # What a column would be if it were missing matters to nobody who reads what was written.
        return m.read_manifest(data) if "SchemaParseException: Default value" in str(error) else error


def manifest_list(data: bytes) -> None:
    """A manifest list is unchanged by a round trip, and names no file elsewhere."""
    found = m.read_manifest_list(data)
    assert m.read_manifest_list(m.write_manifest_list(found)) == found
    assert all(is_one_name(meta.file_name) for meta in found)


def index_manifest(data: bytes) -> None:
    """An index manifest is unchanged by a round trip."""
    found = m.read_index_manifest(data)
    assert m.read_index_manifest(m.write_index_manifest(found)) == found


def avro_rows(data: bytes) -> None:
    """A data file in Avro has as many rows as it declares, the same ones decoded by column and by the library."""
    by_column = _by_column(data)
    store = InMemoryFileIO()
    store.write("/f.avro", data)
    with for_name("avro").open_reader(store, "/f.avro", _AVRO_FIELDS) as reader:
        rows = pa.Table.from_batches(reader.batches(), to_arrow_schema(_AVRO_FIELDS))
        assert rows.num_rows == reader.row_count
    assert by_column is None or by_column.equals(rows)


def _by_column(data: bytes) -> pa.Table | None:
    try:
        file = AvroContainer(data, max_block=1 << 20)
        found = decode_blocks(list(file.unpacked()), file.schema, file.named, _AVRO_FIELDS)
    except (pa.ArrowException, *MALFORMED):
        return None
    if found is None:
        return None
    found.validate()
    return pa.Table.from_batches([found])


def avro_changed(rng: random.Random, data: bytes) -> bytes:
    """Change the schema, or the bytes of the records, of an Avro container that stays one."""
    try:
        header, blocks = _unpacked(data)
        _ = header["meta"]["avro.schema"]
    except Exception:  # noqa: BLE001 - what is no container any more is changed elsewhere
        return data
    schema_text, codec = header["meta"]["avro.schema"], header["meta"].get("avro.codec", b"null")
    if rng.random() < 0.4:
        schema_text = rng.choice((json_changed, _schema_changed))(rng, schema_text)
    else:
        blocks = [(n, _patched(rng, body)) for n, body in blocks]
    if rng.random() < 0.2:
        blocks = [(rng.choice((n, n + 1, 0, -1, 2**40, 2**62)), body) for n, body in blocks]
    return _packed(schema_text, codec, header["sync"], blocks)


def _patched(rng: random.Random, body: bytes) -> bytes:
    at = rng.randrange(len(body) + 1)
    new = rng.choice(
        (
            b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\0",
            b"\x01",
            b"\x02",
            b"\x14../../../../etc",
            rng.randbytes(3),
            b"\xff" * 9 + b"\1",
        )
    )
    return rng.choice((body[:at] + new + body[at + len(new) :], body[:at] + new + body[at:], body[:at], body * 2))


def _schema_changed(rng: random.Random, text: bytes) -> bytes:
    return text.replace(rng.choice(_AVRO_TYPES), rng.choice(_AVRO_TYPES), rng.choice((1, 2, -1)))


_AVRO_TYPES = (
    b'"string"',
    b'"bytes"',
    b'"long"',
    b'"int"',
    b'"null"',
    b'"double"',
    b'"record"',
    b'{"type": "array", "items": "null"}',
    b'["null", "long"]',
    b'["long", "string"]',
    b'{"type": "fixed", "name": "z", "size": 0}',
    b'"record__FILE"',
    b'"boolean"',
    b'{"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}',
    b'{"type": "map", "values": "long"}',
    b'{"type": "long", "logicalType": "timestamp-micros"}',
    b'{"type": "record", "name": "r", "fields": [{"name": "n", "type": ["null", "r"]}]}',
)
_HEADER = fastavro.parse_schema(
    {
        "type": "record",
        "name": "header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": 16}},
        ],
    }
)


def _unpacked(data: bytes) -> tuple[dict[str, Any], list[tuple[int, bytes]]]:
    header: Any = fastavro.schemaless_reader(io.BytesIO(data), _HEADER, None)
    blocks = [(b.num_records, b.bytes_.getvalue()) for b in fastavro.block_reader(io.BytesIO(data))]
    return header, blocks


def _packed(schema_text: bytes, codec: bytes, sync: bytes, blocks: list[tuple[int, bytes]]) -> bytes:
    out = io.BytesIO()
    meta = {"avro.schema": schema_text, "avro.codec": b"deflate" if codec != b"null" else codec}
    fastavro.schemaless_writer(out, _HEADER, {"magic": b"Obj\1", "meta": meta, "sync": sync})
    for count, body in blocks:
        if codec != b"null":
            step = zlib.compressobj(1, zlib.DEFLATED, -15)
            body = step.compress(body) + step.flush()
        out.write(_long(count) + _long(len(body)) + body + sync)
    return out.getvalue()


def _long(value: int) -> bytes:
    value = value << 1 ^ value >> 63
    out = bytearray()
    while value & ~0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


_STATS = SimpleStats(encode_row([1], _ROW_TYPES[0][:1]), encode_row([9], _ROW_TYPES[0][:1]), (0,))
_FILE = DataFileMeta(
    file_name="data-1-0.parquet",
    file_size=10,
    row_count=3,
    min_key=_STATS.min_values,
    max_key=_STATS.max_values,
    key_stats=_STATS,
    value_stats=_STATS,
    min_sequence_number=0,
    max_sequence_number=2,
    schema_id=0,
    level=1,
    extra_files=("data-1-0.index",),
    creation_time=1234,
    delete_row_count=0,
    embedded_index=b"\1",
    file_source=FileSource.APPEND,
    value_stats_cols=("a",),
    first_row_id=5,
    write_cols=("a", "b"),
)
_ENTRIES = [
    ManifestEntry(FileKind.ADD, encode_row([1], _ROW_TYPES[0][:1]), 0, 2, _FILE),
    ManifestEntry(FileKind.DELETE, encode_row([2], _ROW_TYPES[0][:1]), 1, 2, _FILE),
]
_METAS = [
    ManifestFileMeta(
        file_name="manifest-1-0",
        file_size=9,
        num_added_files=1,
        num_deleted_files=0,
        partition_stats=_STATS,
        schema_id=0,
        min_bucket=0,
        max_bucket=3,
        min_level=0,
        max_level=5,
    )
]
_INDEXES = [
    IndexManifestEntry(
        FileKind.ADD,
        bytes(12),
        0,
        IndexFileMeta(
            index_type="DELETION_VECTORS",
            file_name="index-1-0",
            file_size=33,
            row_count=1,
            deletion_ranges=(DeletionRange("data-1", 1, 24, 2), DeletionRange("data-2", 33, 24)),
        ),
    )
]


def _foreign(data: bytes) -> bytes:
    """Return a container whose records have a column more."""
    rows = list(fastavro.reader(io.BytesIO(data)))
    written: Any = fastavro.reader(io.BytesIO(data)).writer_schema
    plain = json.loads(json.dumps(written))
    plain["fields"].append({"name": "_NEW", "type": ["null", {"type": "array", "items": "string"}], "default": None})
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(plain), [{**r, "_NEW": ["x"]} for r in rows], codec="null")
    return out.getvalue()


_AVRO_FIELDS = parse_schema(_SCHEMA, "sample").fields[:5]


def _avro_file() -> bytes:
    store = InMemoryFileIO()
    writer = for_name("avro").open_writer(store, "/f.avro", _AVRO_FIELDS, compression="none")
    writer.write(to_arrow_schema(_AVRO_FIELDS).empty_table())
    table = pa.table({"c0": [1, 2], "c1": ["a", None], "c2": [None, None], "c3": [None, None], "c4": [None, None]})
    writer.write(table.cast(to_arrow_schema(_AVRO_FIELDS)))
    writer.close()
    return store.read("/f.avro")


# ------------------------------------------------------------------------------------------------- index files


def _vector_of(data: bytes, found: DeletionRange) -> BitMap:
    return deletion_vectors.vector_in(deletion_vectors.stored_vector(data, found), found)


def vectors(data: bytes) -> None:
    """The first 12 bytes locate the vector. A vector that is read is unchanged by a round trip."""
    offset, length, cardinality = struct.unpack(">iii", data[:12].ljust(12, b"\0"))
    found = _vector_of(data[12:], DeletionRange("data-1", offset, length, cardinality))
    for wide in (False, True):
        file = deletion_vectors.VectorFile(wide=wide)
        file.add("data-1", found)
        assert _vector_of(file.data, file.ranges[0]) == found
    for start in (0, 1000, 2**31, 2**32 - 10):
        here = deletion_vectors.positions(found, start, start + 1000)
        assert [int(i) + start in found for i in here - start] == [True] * len(here)


def _vector_sample(body: bytes) -> bytes:
    data = b"\1" + struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    return struct.pack(">iii", 1, len(body), 0) + data


def vector_changed(rng: random.Random, data: bytes) -> bytes:
    """Change the body of a vector and give it the checksum that it needs."""
    body = bytearray(data[17:-4])
    for _ in range(rng.randrange(1, 4)):
        if body:
            body[rng.randrange(min(len(body), 80))] = rng.choice((0, 1, 2, 127, 128, 255, rng.randrange(256)))
    return _vector_sample(bytes(body[: rng.choice((len(body), len(body), rng.randrange(len(body) + 1)))]))


def _all_rows() -> bytes:
    every = BitMap()
    every.add_range(0, 1 << 24)
    every.run_optimize()
    return every.serialize()


_BITMAPS = [b.serialize() for b in (BitMap(), BitMap([1, 5, 70000]), BitMap(range(0, 9000, 3)))] + [_all_rows()]
_MAGIC_32, _MAGIC_64 = struct.pack(">i", 1581511376), struct.pack("<i", 1681511377)


def hashes(data: bytes) -> None:
    """A hash index is the same when it is written again."""
    found = hash_index.decode(data)
    assert hash_index.encode(found) == data
    assert found.dtype == np.int32


# ------------------------------------------------------------------------------------------------- tasks


def splits(data: bytes) -> None:
    """Splits are the same after a second journey."""
    found = splits_from_json(data.decode("utf-8", "replace"))
    assert repr(splits_from_json(splits_to_json(found))) == repr(found)


def messages(data: bytes) -> None:
    """Commit messages are the same after a second journey."""
    found = messages_from_json(data.decode("utf-8", "replace"))
    assert repr(messages_from_json(messages_to_json(found))) == repr(found)


_SPLIT = Split(
    partition=bytes(12),
    bucket=0,
    total_buckets=1,
    files=(_FILE,),
    raw=True,
    snapshot_id=3,
    row_count=2,
    vectors=(VectorRef("/t/index/i", 1, 24, 1),),
)
_MESSAGE = CommitMessage(
    partition=bytes(12),
    bucket=0,
    total_buckets=1,
    new_files=(_FILE,),
    compact_before=(_FILE,),
    new_index_files=(_INDEXES[0].file,),
)


def _named(name: str, run: Callable[[bytes], None], *samples: bytes, change: Any = None, words: Any = ()) -> Target:
    return Target(name, run, samples, (change,) if change else (), words)


_JSON_WORDS = (b"null", b'"', b"[", b"{", b"]", b"}", b"1e999", b"-0", b"NaN", b'"\\ud800"', b"[" * 3000)
TARGETS = [
    _named("snapshot", snapshot, SNAPSHOT.to_json().encode(), change=json_changed, words=_JSON_WORDS),
    _named(
        "tag",
        tag,
        Tag(SNAPSHOT).to_json().encode(),
        json.dumps(
            json.loads(SNAPSHOT.to_json()) | {"tagCreateTime": [2024, 1, 2, 3, 4, 5, 6000], "tagTimeRetained": 3600.5}
        ).encode(),
        change=json_changed,
        words=_JSON_WORDS,
    ),
    _named(
        "statistics",
        statistics,
        b'{"snapshotId": 1, "schemaId": 0, "colStats": {"k": {"colId": 0}}}',
        change=json_changed,
        words=_JSON_WORDS,
    ),
    _named(
        "view",
        view,
        View("SELECT 1 AS a", [{"name": "a", "type": "integer"}], {"x": "1"}, {"p": "q"}, "c").to_json().encode(),
        change=json_changed,
        words=_JSON_WORDS,
    ),
    _named(
        "consumer",
        consumer,
        Consumer(5, 1_700_000_000_000, "lookup", needs_previous=True).to_json().encode(),
        change=json_changed,
        words=_JSON_WORDS,
    ),
    _named(
        "schema", schema, _SCHEMA, change=json_changed, words=(*_JSON_WORDS, b'"ARRAY"', b"NOT NULL", b"DECIMAL(99,1)")
    ),
    _named("manifest", manifest, m.write_manifest(_ENTRIES), _foreign(m.write_manifest(_ENTRIES)), change=avro_changed),
    _named(
        "manifest-list",
        manifest_list,
        m.write_manifest_list(_METAS),
        _foreign(m.write_manifest_list(_METAS)),
        change=avro_changed,
    ),
    _named(
        "index-manifest",
        index_manifest,
        m.write_index_manifest(_INDEXES),
        _foreign(m.write_index_manifest(_INDEXES)),
        change=avro_changed,
    ),
    _named("avro-rows", avro_rows, _avro_file(), change=avro_changed),
    _named("row", row, *_ROW_SAMPLES),
    _named(
        "deletion-vectors",
        vectors,
        *(_vector_sample(_MAGIC_32 + b) for b in _BITMAPS),
        *(_vector_sample(_MAGIC_64 + struct.pack("<qi", 1, 0) + b) for b in _BITMAPS),
        change=vector_changed,
    ),
    _named("hash-index", hashes, hash_index.encode(np.array([1, -2, 3], np.int32)), b""),
    _named("splits", splits, splits_to_json([_SPLIT]).encode(), change=json_changed, words=_JSON_WORDS),
    _named("messages", messages, messages_to_json([_MESSAGE]).encode(), change=json_changed, words=_JSON_WORDS),
]

"""Avro files that declare more than they contain are rejected before any allocation."""

from __future__ import annotations

import bz2
import io
import json
import lzma
import sys
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from paimon_spark.errors import CorruptTableError, UnsupportedError
from paimon_spark.format.avro.container import AvroContainer, check_schema
from paimon_spark.format.manifest import codec as manifests
from paimon_spark.spec.kinds import FileKind
from paimon_spark.spec.manifest import DataFileMeta, ManifestEntry

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SYNC = b"0123456789abcdef"
MB = 1 << 20


def long(value: int) -> bytes:
    value = value << 1 ^ value >> 63
    out = bytearray()
    while value & ~0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def container(schema: Any, *blocks: tuple[int, bytes], codec: str = "null") -> bytes:
    meta = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    head = b"".join(long(len(k)) + k.encode() + long(len(v)) + v for k, v in meta.items())
    body = b"".join(long(n) + long(len(b)) + b + SYNC for n, b in blocks)
    return b"Obj\1" + long(len(meta)) + head + b"\0" + SYNC + body


def deflated(data: bytes) -> bytes:
    step = zlib.compressobj(9, zlib.DEFLATED, -15)
    return step.compress(data) + step.flush()


def snappy(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="snappy", asbytes=True)) + zlib.crc32(data).to_bytes(4, "big")


COMPRESS = {
    "deflate": deflated,
    "zstandard": zstd.compress,
    "bzip2": bz2.compress,
    "xz": lambda data: lzma.compress(data, preset=0),
    "snappy": snappy,
    "null": bytes,
}
PLAIN = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """Hold every test of this module to a time and to a size of what Python allocates."""
    start = time.process_time()
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 400 * MB
    assert time.process_time() - start < 20


@pytest.mark.parametrize("codec", COMPRESS)
def test_every_codec_is_read(codec: str) -> None:
    blocks = [(2, b"\2\4"), (1, b"\6")]
    data = container(PLAIN, *((n, COMPRESS[codec](b)) for n, b in blocks), codec=codec)
    file = AvroContainer(data, max_block=100)
    assert file.row_count == 3
    rows: Any = fastavro.reader(file.stream())
    assert [r["a"] for r in rows] == [1, 2, 3]


@pytest.mark.parametrize("codec", COMPRESS)
def test_blocks_that_unpack_to_more_than_is_allowed(codec: str) -> None:
    data = container(PLAIN, (5, COMPRESS[codec](bytes(3 * MB))), codec=codec)
    file = AvroContainer(data, max_block=MB)
    with pytest.raises(ValueError, match="more than 1048576 bytes"):
        list(fastavro.reader(file.stream()))


def test_a_manifest_that_unpacks_to_more_than_is_allowed() -> None:
    data = _bomb("zstandard")
    assert len(data) < 10_000
    with pytest.raises(CorruptTableError, match="decompresses to more than"):
        manifests.read_manifest(data)


def _bomb(codec: str) -> bytes:
    schema = fastavro.reader(io.BytesIO(manifests.write_manifest([]))).writer_schema
    return container(json.loads(json.dumps(schema)), (5, COMPRESS[codec](bytes(17 * MB))), codec=codec)


@pytest.mark.parametrize("codec", [c for c in COMPRESS if c not in ("null", "snappy")])
def test_blocks_that_end_too_early(codec: str) -> None:
    packed = COMPRESS[codec](b"\2" * 5000 + bytes(range(128)) * 40)
    file = AvroContainer(container(PLAIN, (5, packed[:-12]), codec=codec), max_block=MB)
    with pytest.raises((ValueError, EOFError)):
        file.stream().read(10 * MB)


@pytest.mark.parametrize(
    "block",
    [(2**62, b"\2"), (-1, b"\2"), (3, b"\2\2")],
    ids=["huge count", "negative count", "too many for their bytes"],
)
def test_counts_that_cannot_be(block: tuple[int, bytes]) -> None:
    with pytest.raises(ValueError, match="claims to hold"):
        AvroContainer(container(PLAIN, block), max_block=MB).stream().read(MB)


@pytest.mark.parametrize("size", [-1, 2**40, 2**62])
def test_lengths_that_lead_out_of_the_file(size: int) -> None:
    data = container(PLAIN) + long(1) + long(size) + b"\2" + SYNC
    with pytest.raises(EOFError, match="were expected"):
        AvroContainer(data, max_block=MB)
    with pytest.raises(CorruptTableError):
        manifests.read_manifest(data)


@pytest.mark.parametrize(
    "head", [b"Obj\1" + long(2**62), b"Obj\1" + long(1) + long(2**40), b"Obj\1" + b"\xff" * 20, b"Obj\1", b"", b"PAR1"]
)
def test_headers_that_lie(head: bytes) -> None:
    with pytest.raises((ValueError, EOFError)):
        AvroContainer(head, max_block=MB)


def nested(depth: int, inner: Any) -> Any:
    for _ in range(depth):
        inner = {"type": "array", "items": inner}
    return inner


def laughs(depth: int) -> Any:
    inner: Any = {"type": "record", "name": "r0", "fields": [{"name": "a", "type": "null"}]}
    for i in range(1, depth):
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": f"r{i - 1}"}]
        inner = {"type": "record", "name": f"r{i}", "fields": fields}
    return inner


ENDLESS = {
    "array of null": {"type": "array", "items": "null"},
    "array of nothing": {"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}},
    "array of empty records": {"type": "array", "items": {"type": "record", "name": "e", "fields": []}},
    "recursive": {"type": "record", "name": "r", "fields": [{"name": "n", "type": ["null", "r"]}]},
    "namesake": {
        "type": "record",
        "name": "a.r",
        "namespace": "a",
        "fields": [
            {"name": "x", "type": {"type": "fixed", "name": "b.r", "size": 3}},
            {"name": "n", "type": ["null", "r"]},
        ],
    },
    "namesake before": {
        "type": "record",
        "name": "a.s",
        "fields": [
            {"name": "x", "type": {"type": "fixed", "name": "b.r", "size": 3}},
            {"name": "y", "type": {"type": "fixed", "name": "c.r", "size": 0}},
            {"name": "n", "type": {"type": "array", "items": "c.r"}},
        ],
    },
    "too deep": nested(100, "int"),
    "billion laughs": laughs(30),
    "negative size": {"type": "fixed", "name": "f", "size": -5},
    "unknown": "missing",
    "a number": 5,
    "no choice": [],
}


@pytest.mark.parametrize("name", ENDLESS)
def test_schemas_of_records_that_need_not_end(name: str) -> None:
    with pytest.raises(ValueError, match="its schema"):
        check_schema(ENDLESS[name])
    whole = json.loads(json.dumps(fastavro.reader(io.BytesIO(manifests.write_manifest([]))).writer_schema))
    whole["fields"].append({"name": "_NEW", "type": ENDLESS[name]})
    with pytest.raises(CorruptTableError, match="its schema"):
        manifests.read_manifest(container(whole, (1, bytes(200))))


def _entries(count: int) -> list[ManifestEntry]:
    file = DataFileMeta(
        file_name="d", file_size=1, row_count=1, min_sequence_number=0, max_sequence_number=0, schema_id=0, level=0
    )
    return [ManifestEntry(FileKind.ADD, b"", 0, 1, file)] * count


def test_more_records_than_a_file_of_its_size_can_name() -> None:
    one: Any = next(iter(fastavro.block_reader(io.BytesIO(manifests.write_manifest(_entries(1))))))
    schema = json.loads(json.dumps(one.writer_schema))
    data = container(schema, (150_000, deflated(one.bytes_.getvalue() * 150_000)), codec="deflate")
    assert len(data) < 100_000
    with pytest.raises(CorruptTableError, match="claim to hold 150000 records"):
        manifests.read_manifest(data)


@pytest.mark.parametrize(
    ("column", "wrong"),
    [("_FILE_NAME", '"bytes"'), ("_BUCKET", '["null", "string"]'), ("_PARTITION", '"string"'), ("_KIND", '"boolean"')],
)
def test_columns_of_another_type(column: str, wrong: str) -> None:
    schema = json.loads(json.dumps(fastavro.reader(io.BytesIO(manifests.write_manifest([]))).writer_schema))
    for f in (*schema["fields"], *schema["fields"][-1]["type"]["fields"]):
        if f["name"] == column:
            f["type"] = json.loads(wrong)
    with pytest.raises(CorruptTableError, match=r"column _\w+ has the type"):
        manifests.read_manifest(container(schema))


def test_null_is_no_name_of_a_file() -> None:
    schema = json.loads(json.dumps(fastavro.reader(io.BytesIO(manifests.write_manifest([]))).writer_schema))
    schema["fields"][-1]["type"]["fields"][0]["type"] = ["null", "string"]
    out = io.BytesIO()
    source: Any = fastavro.reader(io.BytesIO(manifests.write_manifest(_entries(1))))
    rows = [r | {"_FILE": r["_FILE"] | {"_FILE_NAME": None}} for r in source]
    fastavro.writer(out, fastavro.parse_schema(schema), rows)
    with pytest.raises(CorruptTableError, match="not a file name"):
        manifests.read_manifest(out.getvalue())


def test_unknown_columns_that_borrow_types_are_refused() -> None:
    schema = json.loads(json.dumps(fastavro.reader(io.BytesIO(manifests.write_manifest([]))).writer_schema))
    schema["fields"].append({"name": "_NEW", "type": "org.apache.paimon.avro.generated.record__FILE__KEY_STATS"})
    with pytest.raises(UnsupportedError, match="_NEW"):
        manifests.read_manifest(container(schema))

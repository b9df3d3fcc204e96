"""Avro records encoded and decoded by column, beside the Avro library."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.format.avro.container import MALFORMED, check_schema
from paimon_spark.format.avro.decoder import decode_blocks
from paimon_spark.format.avro.encoder import encode_rows
from paimon_spark.format.avro.output import BLOCK_BYTES
from paimon_spark.format.avro.schema import avro_schema
from paimon_spark.format.registry import for_name
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.types import ArrayType, DataField, parse_atomic
from tests.columns import ATOMIC, draw_array, draw_type, exact, fields_of

STORED = tuple(t for t in ATOMIC if "(9)" not in t)
Blocks = list[tuple[int, bytes]]


def draw(rng: random.Random) -> tuple[tuple[DataField, ...], pa.RecordBatch, Blocks]:
    """Return random columns, and their rows in blocks of random sizes."""
    fields = fields_of([draw_type(rng, depth=rng.randrange(4), atomic=STORED) for _ in range(rng.randint(1, 4))])
    sizes = [rng.choice((0, 1, 1, 3, 20)) for _ in range(rng.randint(1, 30))]
    arrays = [draw_array(rng, f.type, sum(sizes), whole_range=True) for f in fields]
    rows = pa.RecordBatch.from_arrays(arrays, schema=to_arrow_schema(fields))
    blocks: Blocks = []
    for size in sizes:
        part = rows.slice(sum(count for count, _ in blocks), size)
        blocks.append((size, encode_rows(part, fields)[1].to_pybytes()))
    return fields, rows, blocks


def physical(schema: Any) -> Any:
    """Return a schema without the meaning of its integers and bytes."""
    if isinstance(schema, list):
        return [physical(s) for s in schema]
    if isinstance(schema, dict):
        return {k: v if k == "default" else physical(v) for k, v in schema.items() if k != "logicalType"}
    return schema


def decoded(blocks: Blocks, written: Sequence[DataField], read: Sequence[DataField]) -> pa.RecordBatch:
    schema = avro_schema(written)
    found = decode_blocks(blocks, schema, check_schema(schema), read)
    assert found is not None
    found.validate(full=True)
    return found


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(rng=st.randoms(use_true_random=False))
def test_blocks_are_decoded_to_their_rows(rng: random.Random) -> None:
    fields, rows, blocks = draw(rng)
    found = decoded(blocks, fields, fields)
    for n, f in enumerate(fields):
        assert exact(found.column(n), f.type) == exact(rows.column(n), f.type), f.type


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(rng=st.randoms(use_true_random=False))
def test_columns_are_chosen_by_name(rng: random.Random) -> None:
    fields, rows, blocks = draw(rng)
    chosen = [*rng.sample(fields, rng.randint(0, len(fields))), DataField(99, "absent", parse_atomic("INT"))]
    found = decoded(blocks, fields, chosen)
    assert found.column(len(chosen) - 1).null_count == rows.num_rows
    for n, f in enumerate(chosen[:-1]):
        assert exact(found.column(n), f.type) == exact(rows.column(f.name), f.type), f.type


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(rng=st.randoms(use_true_random=False))
def test_the_library_encodes_the_same_bytes(rng: random.Random) -> None:
    fields, _, blocks = draw(rng)
    schema = fastavro.parse_schema(physical(avro_schema(fields)))
    for count, data in blocks:
        stream, again = io.BytesIO(data), io.BytesIO()
        for _ in range(count):
            record: Any = fastavro.schemaless_reader(stream, schema, None)
            fastavro.schemaless_writer(again, schema, record)
        assert again.getvalue() == data
        assert not stream.read()


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(rng=st.randoms(use_true_random=False))
def test_changed_bytes_are_rejected_or_give_valid_rows(rng: random.Random) -> None:
    fields, rows, blocks = draw(rng)
    schema = avro_schema(fields)
    number = rng.randrange(len(blocks))
    count, data = blocks[number]
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        if changed:
            changed[rng.randrange(len(changed))] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    if rng.random() < 0.3:
        del changed[rng.randrange(len(changed) + 1) :]
    blocks[number] = (count, bytes(changed))
    try:
        found = decode_blocks(blocks, schema, check_schema(schema), fields)
    except (pa.ArrowException, *MALFORMED):
        return
    if found is not None:
        found.validate()
        assert found.num_rows == rows.num_rows


ONE = (DataField(0, "c", parse_atomic("BIGINT")), DataField(1, "t", parse_atomic("STRING NOT NULL")))
GOOD = b"\2\6\4ab"


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ((1, b"\4\6\4ab"), "unknown branch"),
        ((1, b"\2" + b"\xff" * 11 + b"\4ab"), "too many bytes"),
        ((1, b"\2\6\x80\1ab"), "beyond its"),
        ((1, b"\2\6\3ab"), "beyond its|more bytes"),
        ((1, GOOD + GOOD), "more bytes than its records"),
        ((2, GOOD), "beyond its block"),
    ],
)
def test_malformed_blocks_are_named(block: tuple[int, bytes], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decoded([block], ONE, ONE)


def test_a_negative_size_ends_the_walk() -> None:
    texts = {"type": "array", "items": "string"}
    members = [{"name": "i", "type": "int"}, {"name": "a", "type": texts}]
    schema = {"type": "record", "name": "r", "fields": members}
    field = DataField(0, "i", parse_atomic("INT"))
    with pytest.raises(ValueError, match="beyond its block"):
        decode_blocks([(1, b"\2\2\3\0")] * 12, schema, check_schema(schema), [field])


def test_types_that_grow_are_left_to_the_library() -> None:
    inner: Any = {"type": "record", "name": "r0", "fields": [{"name": "x", "type": "int"}]}
    for n in range(1, 6):
        uses = [inner, *["r" + str(n - 1)] * 19]
        members = [{"name": f"a{k}", "type": {"type": "array", "items": use}} for k, use in enumerate(uses)]
        inner = {"type": "record", "name": f"r{n}", "fields": members}
    schema = {"type": "record", "name": "r", "fields": [{"name": "i", "type": "int"}, {"name": "a", "type": inner}]}
    field = DataField(0, "i", parse_atomic("INT"))
    assert decode_blocks([(0, b"")], schema, check_schema(schema), [field]) is None


def test_very_uneven_blocks_are_left_to_the_library() -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "i", "type": "int"}]}
    field = DataField(0, "i", parse_atomic("INT"))
    blocks = [(100_000, b"\2" * 100_000), *[(1, b"\2")] * 11]
    assert decode_blocks(blocks, schema, check_schema(schema), [field]) is None


def test_a_decimal_in_spare_bytes_is_left_to_the_library() -> None:
    field = DataField(0, "d", parse_atomic("DECIMAL(10, 2) NOT NULL"))
    schema = avro_schema([field])
    data = bytes([34]) + (5).to_bytes(17, "big")
    assert decode_blocks([(1, data)], schema, check_schema(schema), [field]) is None


def test_a_full_store_keeps_no_file() -> None:
    class Full(InMemoryFileIO):
        def open_output(self, path: str) -> Any:
            super().open_output(path).close()
            return pa.PythonFile(io.BytesIO(), mode="r")

    store = Full()
    with pytest.raises(OSError, match="writable"):
        for_name("avro").open_writer(store, "/f.avro", ONE)
    assert not store.exists("/f.avro")


def test_types_that_are_not_written_are_left_to_the_library() -> None:
    for written in (["null", "long", "string"], {"type": "enum", "name": "e", "symbols": ["a"]}, ["long"]):
        schema = {"type": "record", "name": "r", "fields": [{"name": "c", "type": written}]}
        assert decode_blocks([(0, b"")], schema, check_schema(schema), ONE[:1]) is None


@pytest.mark.parametrize("union", [["null", "long"], ["long", "null"]])
def test_null_may_be_either_branch_of_a_union(union: list[str]) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "c", "type": union}]}
    parsed, out = fastavro.parse_schema(schema), io.BytesIO()
    for value in (3, None, -70000):
        fastavro.schemaless_writer(out, parsed, {"c": value})
    found = decode_blocks([(3, out.getvalue())], schema, check_schema(schema), ONE[:1])
    assert found is not None
    assert found.column(0).to_pylist() == [3, None, -70000]


def test_arrays_in_several_parts_with_their_sizes() -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": "long"}}]}
    field = DataField(0, "a", ArrayType(parse_atomic("BIGINT NOT NULL"), nullable=False))
    data = b"\4\2\4" + b"\1\2\6" + b"\0"  # two values, then one with the size of its part, then the end
    found = decode_blocks([(1, data), (1, b"\0")], schema, check_schema(schema), [field])
    assert found is not None
    assert found.column(0).to_pylist() == [[1, 2, 3], []]


def test_few_long_arrays_are_left_to_the_library() -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": "long"}}]}
    field = DataField(0, "a", ArrayType(parse_atomic("BIGINT NOT NULL"), nullable=False))
    rows = pa.record_batch([pa.array([range(50_000)], pa.list_(pa.int64()))], ["a"])
    block = (1, encode_rows(rows, [field])[1].to_pybytes())
    assert decode_blocks([block] * 2, schema, check_schema(schema), [field]) is None


def test_decimals_take_as_few_bytes_as_java_writes() -> None:
    numbers = [sign * (1 << bits) + near for bits in range(0, 121, 4) for near in (-1, 0, 1) for sign in (-1, 1)]
    field = DataField(0, "d", parse_atomic("DECIMAL(38, 0) NOT NULL"))
    rows = pa.record_batch([pa.array(numbers, pa.decimal128(38, 0))], schema=to_arrow_schema([field]))
    begins, data = encode_rows(rows, [field])
    for number, begin, end in zip(numbers, begins[:-1], begins[1:], strict=True):
        least = (number if number >= 0 else ~number).bit_length() // 8 + 1
        assert data.to_pybytes()[begin:end] == bytes([2 * least]) + number.to_bytes(least, "big", signed=True)


def test_a_null_of_a_column_that_has_none_is_refused() -> None:
    rows = pa.record_batch([pa.array([1, None], pa.int64())], ["k"])
    with pytest.raises(ValueError, match="'k' is NOT NULL"):
        encode_rows(rows, [DataField(0, "k", parse_atomic("BIGINT NOT NULL"))])


def test_a_large_file_is_read_back() -> None:
    """More blocks than are decoded together, and the same rows in the small pieces of a merge."""
    count = 300_000
    fields = fields_of([parse_atomic("BIGINT NOT NULL"), parse_atomic("STRING"), parse_atomic("DECIMAL(12, 2)")])
    ids = pa.array(range(count), pa.int64())
    texts = pa.array([None if n % 7 == 0 else f"text of {n}" * (n % 9) for n in range(count)])
    cents = pa.array([None if n % 11 == 0 else n for n in range(count)], pa.decimal128(12, 2))
    rows = pa.Table.from_arrays([ids, texts, cents], schema=to_arrow_schema(fields))
    store, avro = InMemoryFileIO(), for_name("avro")
    writer = avro.open_writer(store, "/f.avro", fields)
    for batch in rows.to_batches(1000):
        writer.write(batch)
        assert writer.buffered_bytes < BLOCK_BYTES
    close = writer.bytes_written
    assert writer.close().size == pytest.approx(close, rel=0.05)
    with avro.open_reader(store, "/f.avro", fields) as reader:
        whole = list(reader.batches(10_000))
        assert max(b.num_rows for b in whole) == 10_000
        assert pa.Table.from_batches(whole) == rows
        assert pa.Table.from_batches(reader.chunks([0], 100_000)) == rows

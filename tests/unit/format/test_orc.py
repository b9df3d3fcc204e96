"""What only ORC files do."""

from __future__ import annotations

import datetime as dt
import io
import itertools
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import orc

from paimon_spark.errors import CorruptTableError, EngineError, UnsupportedError
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.format.nested_nulls import pack
from paimon_spark.format.orc.layout import FOOTER_ROWS, FOOTER_STATISTICS, FOOTER_STRIPES, Framing, Tail, one_stripe
from paimon_spark.format.orc.messages import message, messages, parts_of, with_field
from paimon_spark.format.orc.orc_format import WHOLE_BYTES, OrcReader
from paimon_spark.format.orc.statistics import HAS_NULL, VALUES, Statistics
from paimon_spark.format.orc.timestamps import TimestampFile, wall_clock
from paimon_spark.format.registry import for_name, open_reader
from paimon_spark.format.timestamp_ranges import PER_SECOND
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.types import ArrayType, DataField, MapType, MultisetType, RowType, parse_atomic
from tests.columns import draw_array
from tests.data_files import read_batches
from tests.variants import every

PATH = "/t/data-1.orc"
CODECS = ("zstd", "zlib", "snappy", "lz4", "uncompressed")
FAR = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)


def store_with(table: pa.Table, **options: object) -> InMemoryFileIO:
    out = io.BytesIO()
    orc.write_table(table, out, **options)
    store = InMemoryFileIO()
    store.write(PATH, out.getvalue())
    return store


def fields_of(**types: str) -> list[DataField]:
    return [DataField(i, n, parse_atomic(t)) for i, (n, t) in enumerate(types.items())]


def test_padding_of_char_is_cut_at_every_depth() -> None:
    row = RowType((DataField(2, "x", parse_atomic("CHAR(3)")),))
    fields = [
        DataField(0, "c", parse_atomic("CHAR(3)")),
        DataField(1, "a", ArrayType(row)),
        DataField(3, "s", parse_atomic("STRING")),
    ]
    table = pa.table({"c": ["a  ", None], "a": [[{"x": "b  "}, None], None], "s": ["keep  ", " "]})
    (batch,) = read_batches(store_with(table), PATH, fields)
    assert batch.to_pylist() == [
        {"c": "a", "a": [{"x": "b"}, None], "s": "keep  "},
        {"c": None, "a": None, "s": " "},
    ]


def test_time_is_an_int_and_ids_are_attributes() -> None:
    store = InMemoryFileIO()
    fields = fields_of(a="INT", tm="TIME(3)")
    writer = for_name("orc").open_writer(store, PATH, fields)
    writer.write(pa.table({"a": [1], "tm": [dt.time(1)]}).cast(to_arrow_schema(fields)))
    writer.close()
    schema = orc.ORCFile(store.open_input(PATH)).schema
    assert schema.field("tm").type == pa.int32()
    assert schema.field("tm").metadata == {b"paimon.id": b"1"}


def test_slices_of_rows_are_written_as_they_are() -> None:
    fields = [DataField(0, "r", RowType((DataField(1, "x", parse_atomic("INT")),)))]
    table = pa.table({"r": [None if i % 3 else {"x": i} for i in range(20)]}).cast(to_arrow_schema(fields))
    store = InMemoryFileIO()
    writer = for_name("orc").open_writer(store, PATH, fields)
    for start in range(0, 20, 7):
        writer.write(table.slice(start, 7))
    writer.close()
    assert pa.Table.from_batches(read_batches(store, PATH, fields)).to_pylist() == table.to_pylist()


def test_several_stripes_are_row_groups() -> None:
    rows = pa.table({"a": np.random.default_rng(0).integers(0, 2**60, 200_000)})
    store = store_with(rows, stripe_size=1 << 16, compression="zstd")
    with open_reader(store, PATH, fields_of(a="BIGINT")) as reader:
        assert reader.num_row_groups > 1
        assert sum(reader.row_group_rows) == 200_000
        assert reader.select_row_groups(pc.field("a") > 1) == list(range(reader.num_row_groups))
        chunks = list(reader.chunks(range(reader.num_row_groups), 1 << 16))
    assert pa.Table.from_batches(chunks).column("a") == rows["a"]


def test_timestamps_beyond_nanoseconds() -> None:
    fields = fields_of(k="INT", t="TIMESTAMP(6)", z="TIMESTAMP(3) WITH LOCAL TIME ZONE", s="STRING")
    table = pa.table(
        {
            "k": pa.array([1, 2, 3], pa.int32()),
            "t": pa.array([FAR, None, dt.datetime(1, 1, 1)], pa.timestamp("us")),
            "z": pa.array([None, 253402300799999, -62135596800000], pa.timestamp("ms", "UTC")),
            "s": ["x", None, "y"],
        }
    )
    for compression, version in itertools.product(CODECS, ("0.11", "0.12")):
        store = store_with(table, compression=compression, file_version=version)
        (batch,) = read_batches(store, PATH, fields)
        assert pa.Table.from_batches([batch]).equals(table.cast(to_arrow_schema(fields)))


@pytest.mark.parametrize(
    ("compression", "version", "whole"), every(3, itertools.product(CODECS, ["0.11", "0.12"], [WHOLE_BYTES, 0]))
)
def test_nested_timestamps_of_several_stripes(compression: str, version: str, whole: int) -> None:
    stamp = parse_atomic("TIMESTAMP(6)")
    row = RowType((DataField(7, "x", stamp), DataField(8, "y", parse_atomic("STRING"))))
    types = (stamp, ArrayType(stamp), row, MapType(stamp, ArrayType(row)), MultisetType(stamp))
    fields = [DataField(i, f"c{i}", t) for i, t in enumerate(types)]
    table = pa.Table.from_arrays(
        [draw_array(random.Random(i), f.type, 2000) for i, f in enumerate(fields)], schema=to_arrow_schema(fields)
    )
    table = pa.concat_tables([table] * 20).combine_chunks()
    packed = pa.table([pack(c.combine_chunks()) for c in table.columns], names=table.schema.names)
    store = store_with(packed, compression=compression, file_version=version, stripe_size=1 << 12)
    with open_reader(store, PATH, fields) as reader:
        assert reader.num_row_groups > 1
        assert sum(reader.row_group_rows) == table.num_rows
    with OrcReader(store, PATH, fields, None, whole_bytes=whole) as reader:
        for batch_rows in (97, 1 << 20):
            assert pa.Table.from_batches(reader.batches(batch_rows)).equals(table)
        stripes = range(1, reader.num_row_groups, 2)
        starts = np.cumsum([0, *reader.row_group_rows])
        found = pa.Table.from_batches(reader.batches(97, stripes))
    assert found.equals(pa.concat_tables(table.slice(starts[i], starts[i + 1] - starts[i]) for i in stripes))


@pytest.mark.parametrize("whole", [WHOLE_BYTES, 0])
@pytest.mark.parametrize("digits", [0, 3, 6, 9])
def test_timestamps_of_the_present_at_every_depth(digits: int, whole: int) -> None:
    stamp, local = (parse_atomic(f"TIMESTAMP({digits}){zone}") for zone in ("", " WITH LOCAL TIME ZONE"))
    row = RowType((DataField(7, "x", stamp), DataField(8, "y", local)))
    types = (stamp, local, ArrayType(local), row, MapType(parse_atomic("INT NOT NULL"), row))
    fields = [DataField(i, f"c{i}", t) for i, t in enumerate(types)]
    schema = to_arrow_schema(fields)
    n = 20_000
    unit = schema.types[0].unit
    counts = np.random.default_rng(3).integers(1, (2**63 - 1) // (10**9 // PER_SECOND[unit]), n)
    counts[:3] = PER_SECOND[unit], (1 << 33) * PER_SECOND[unit] + 1, 2**33 * PER_SECOND[unit]
    plain = pa.array(counts, mask=np.arange(n) % 7 == 5).cast(schema.types[0])
    zoned = plain.cast(schema.types[1])
    rows = pa.StructArray.from_arrays([plain, zoned], fields=list(schema.types[3]), mask=pa.array(counts % 5 == 3))
    at = pa.array(np.arange(n + 1), pa.int32())
    keys = pa.array(np.arange(n), pa.int32())
    columns = [plain, zoned, pa.ListArray.from_arrays(at, zoned), rows, pa.MapArray.from_arrays(at, keys, rows)]
    table = pa.table([c.cast(t) for c, t in zip(columns, schema.types, strict=True)], schema=schema)
    store = store_with(pa.table([pack(c.combine_chunks()) for c in table.columns], names=schema.names), stripe_size=1)
    tail = Tail.read(store.open_input(PATH))
    assert len(tail.stripes) > 1
    assert Statistics(tail, store.open_input(PATH)).times_within(range(1, 3), 1, 2**63 // 10**6)
    with OrcReader(store, PATH, fields, None, whole_bytes=whole) as reader:
        assert pa.Table.from_batches(reader.batches(997)).equals(table)


def test_statistics_tell_the_range_of_timestamps() -> None:
    for values, low, high, within in (
        ([2_000_000, None], 2000, 2000, True),
        ([2_000_000, 3_000_999], 2000, 3000, True),
        ([2_000_000], 2001, 3000, False),
        ([2_000_000], 0, 1999, False),
        ([-1_000_001], 0, 2, False),
        ([None], 5, 5, True),
    ):
        table = pa.table({"a": pa.array(values).cast(pa.int64()).cast(pa.timestamp("us"))})
        source = store_with(table).open_input(PATH)
        tail = Tail.read(source)
        assert Statistics(tail, source).times_within([1], low, high) is within, values
    zeros = [(FOOTER_STATISTICS, message([(VALUES, 0), (HAS_NULL, 0)]))] * 2
    for unusable in ([], zeros[:1], zeros):
        footer = (*(f for f in tail.footer if f[0] != FOOTER_STATISTICS), *unusable)
        assert not Statistics(replace(tail, footer=footer), source).times_within([1], 0, 9)


@pytest.mark.parametrize("micros", [999, 1000, 9_223_372_036_853_999, 9_223_372_036_854_000, 9_223_372_036_854_776])
def test_timestamps_at_the_ends_of_nanoseconds(micros: int) -> None:
    table = pa.table({"t": pa.array([1_000_000, None, micros]).cast(pa.timestamp("us"))})
    (batch,) = read_batches(store_with(table), PATH, fields_of(t="TIMESTAMP(6)"))
    assert pa.Table.from_batches([batch]).equals(table)


def with_zone(table: pa.Table, zone: bytes | None) -> InMemoryFileIO:
    """Return a store with a file of one stripe that names another zone of its writer, or none."""
    data = store_with(table, compression="uncompressed").read(PATH)
    tail = Tail.read(pa.BufferReader(data))
    (stripe,) = tail.stripes
    (place,) = parts_of(tail.footer, FOOTER_STRIPES)
    zones = [] if zone is None else [(3, zone)]
    foot = message([*(f for f in tail.stripe_footer(pa.BufferReader(data), stripe).fields if f[0] != 3), *zones])
    moved = message(with_field(messages(place), 4, len(foot)))
    footer = tail.with_footer([(n, moved if n == FOOTER_STRIPES else v) for n, v in tail.footer])
    end = stripe.offset + stripe.length
    store = InMemoryFileIO()
    store.write(PATH, data[: end - stripe.footer_length] + foot + data[end : tail.footer_at] + footer)
    return store


@pytest.mark.parametrize(
    ("zone", "wall"),
    [
        (b"GMT", [1_500_000, 1_751_328_000_250_000]),
        (b"Etc/UTC", [1_500_000, 1_751_328_000_250_000]),
        (None, [1_500_000, 1_751_328_000_250_000]),
        (b"Asia/Shanghai", [500_000, 1_751_328_000_250_000]),  # before 1970 there, and so rounded towards it
        (b"Europe/London", [3_601_500_000, 1_751_331_600_250_000]),
    ],
)
def test_timestamps_of_the_present_in_the_zone_of_the_writer(zone: bytes | None, wall: list[int]) -> None:
    table = pa.table({"t": pa.array([1_500_000, 1_751_328_000_250_000]).cast(pa.timestamp("us"))})
    (batch,) = read_batches(with_zone(table, zone), PATH, fields_of(t="TIMESTAMP(6)"))
    assert batch["t"].cast(pa.int64()).to_pylist() == wall


def test_a_large_stripe_is_decoded_piece_by_piece() -> None:
    numbers = np.random.default_rng(0).integers(0, 2**50, 800_000)
    rows = pa.table(
        {"a": numbers, "t": pa.array(numbers).cast(pa.timestamp("us")), "s": pa.array(numbers).cast("string")}
    )
    fields = fields_of(a="BIGINT", t="TIMESTAMP(6)", s="STRING")
    store = store_with(rows, compression="zstd")
    with open_reader(store, PATH, fields) as reader:
        assert reader.num_row_groups == 1
        before, most, count = pa.total_allocated_bytes(), 0, 0
        for batch in reader.chunks([0], 1 << 18):
            most = max(most, pa.total_allocated_bytes() - before)
            count += batch.num_rows
    assert count == rows.num_rows
    assert most < rows.nbytes / 4


@pytest.mark.parametrize("kind", ["array", "row", "map", "with old times"])
def test_repeated_texts_are_decoded_piece_by_piece(kind: str) -> None:
    text = pa.array(["x" * 1000] * 40_000)
    at = np.arange(len(text) + 1, dtype=np.int32)
    inner = parse_atomic("STRING")
    column, t = {
        "array": (pa.ListArray.from_arrays(at, text), ArrayType(inner)),
        "row": (pa.StructArray.from_arrays([text], names=["x"]), RowType((DataField(1, "x", inner),))),
        "map": (pa.MapArray.from_arrays(at, text, text), MapType(parse_atomic("STRING NOT NULL"), inner)),
        "with old times": (text, inner),
    }[kind]
    old = np.random.default_rng(0).integers(-(2**50), 0, len(text))
    fields = [DataField(0, "a", t), *fields_of(t="TIMESTAMP(6)")]
    schema = to_arrow_schema(fields)
    rows = pa.table([column.cast(schema.types[0]), pa.array(old).cast(schema.types[1])], schema=schema)
    wanted = fields if kind == "with old times" else fields[:1]
    store = InMemoryFileIO()
    writer = for_name("orc").open_writer(store, PATH, fields, options={"orc.stripe.size": "64 kb"})
    writer.write(rows)
    writer.close()
    with open_reader(store, PATH, wanted) as reader:
        assert reader.num_row_groups > 1
        found = list(reader.chunks(range(reader.num_row_groups), 2 << 20))
    assert pa.Table.from_batches(found).equals(rows.select([f.name for f in wanted]))
    assert max(b.nbytes for b in found) < 4 << 20


def with_rows(table: pa.Table, of_stripe: int, of_file: int) -> InMemoryFileIO:
    """Return a store with a file of one stripe whose footer has other numbers of rows."""
    source = store_with(table, compression="uncompressed").open_input(PATH)
    tail = Tail.read(source)
    stripe = next(v for n, v in tail.footer if n == FOOTER_STRIPES and isinstance(v, bytes))
    footer = [f for f in tail.footer if f[0] not in (FOOTER_STRIPES, FOOTER_ROWS)]
    footer += [(FOOTER_STRIPES, message(with_field(messages(stripe), 5, of_stripe))), (FOOTER_ROWS, of_file)]
    store = InMemoryFileIO()
    store.write(PATH, source.read_at(tail.footer_at, 0) + tail.with_footer(sorted(footer, key=lambda f: f[0])))
    return store


def test_a_file_of_more_rows_than_its_stripes_is_damaged() -> None:
    store = with_rows(pa.table({"a": [1, 2, 3]}), of_stripe=2, of_file=3)
    with pytest.raises(CorruptTableError, match=r"its stripes have 2 rows, its footer records 3"):
        open_reader(store, PATH, fields_of(a="BIGINT"))


@pytest.mark.parametrize("limit", [WHOLE_BYTES, 0])
def test_a_stripe_may_have_no_rows(limit: int) -> None:
    store = with_rows(pa.table({"t": pa.array([1], pa.timestamp("us"))}), of_stripe=0, of_file=0)
    with OrcReader(store, PATH, fields_of(t="TIMESTAMP(6)"), None, whole_bytes=limit) as reader:
        assert list(reader.batches()) == []


@pytest.mark.parametrize("limit", [WHOLE_BYTES, 0])
def test_a_stripe_with_too_few_nanoseconds_is_damaged(limit: int) -> None:
    table = pa.table({"t": pa.array(range(5000), pa.timestamp("us"))})
    whole = store_with(table, compression="uncompressed")
    source = whole.open_input(PATH)
    tail = Tail.read(source)
    (stripe,) = tail.stripes
    nanos = next(s for s in tail.stripe_footer(source, stripe).streams if s.kind == 5)
    data = bytearray(whole.read(PATH))
    data[nanos.offset : nanos.offset + nanos.length] = bytes([0xFF]) * nanos.length
    store = InMemoryFileIO()
    store.write(PATH, bytes(data))
    with (
        OrcReader(store, PATH, fields_of(t="TIMESTAMP(6)"), None, whole_bytes=limit) as reader,
        pytest.raises(CorruptTableError, match=r"data-1\.orc"),
    ):
        list(reader.batches(97))


def test_a_timestamp_that_the_unit_does_not_hold_is_no_damage() -> None:
    table = pa.table({"t": pa.array([FAR, None], pa.timestamp("us"))})
    with pytest.raises(UnsupportedError, match=r"data file '/t/data-1.orc' has in column 't' a timestamp.*intact"):
        list(read_batches(store_with(table), PATH, fields_of(t="TIMESTAMP(9)")))


def test_a_compression_that_nobody_unpacks_here_is_no_damage() -> None:
    data = bytearray(store_with(pa.table({"a": [1, 2, 3]}), compression="uncompressed").read(PATH))
    script = len(data) - 1 - data[-1]
    at = script + bytes(data[script:]).index(b"\x10\x00") + 1  # the field of the compression
    data[at] = 6
    store = InMemoryFileIO()
    store.write(PATH, bytes(data))
    with pytest.raises(UnsupportedError, match="The file is not known to be damaged"):
        list(read_batches(store, PATH, fields_of(a="BIGINT"), file_size=len(data)))
    with pytest.raises(CorruptTableError, match="its manifest records 7"):
        list(read_batches(store, PATH, fields_of(a="BIGINT"), file_size=7))


def test_timestamps_with_lzo_are_read_unless_footers_are_packed() -> None:
    lzo = Framing(3, 1 << 16)
    values = lzo.plain(bytes.fromhex("0a2710"))  # five times 10000, by the specification
    for footers, fails in ((lzo, False), (_Packed(3, 1 << 16), True)):
        file = one_stripe(footers, 9, 2, [(1, values), (5, lzo.plain(bytes.fromhex("0a0050")))], 5)
        store = InMemoryFileIO()
        store.write(PATH, b"".join(part[:] for part in file))
        if fails:
            with pytest.raises(UnsupportedError, match=r"lzo.*intact"):
                Tail.read(store.open_input(PATH))
            continue
        (batch,) = read_batches(store, PATH, fields_of(x="TIMESTAMP(6)"))
        assert batch["x"].cast(pa.int64()).to_pylist() == [(1420070400 + 5000) * 10**6] * 5


def test_footers_of_lz4_are_unpacked() -> None:
    random_bytes = random.Random(1).randbytes(300)
    for data in (b"", b"a", b"abc" * 500, random_bytes, random_bytes + b"\0" * 4000 + random_bytes):
        packed = pa.Codec("lz4_raw").compress(data, asbytes=True)
        chunk = (len(packed) << 1).to_bytes(3, "little") + packed
        assert Framing(4, 1 << 18).unpack(chunk) == data


def test_a_writer_in_another_zone_means_its_wall_clock() -> None:
    base = 1420070400 - 8 * 3600  # 2015 by the clock of Shanghai
    moments = {-5 * 3600 + 0.5: "1970-01-01T03:00:00.500", 1751328000.25: "2025-07-01T08:00:00.250"}
    seconds = np.array([int(m) for m in moments]) - base
    nanos = np.array([500_000_000, 250_000_000])
    wall, rest = wall_clock(seconds, nanos, "Asia/Shanghai")
    assert (wall * 1000 + rest // 10**6).tolist() == [
        int(np.datetime64(text, "ms").astype(np.int64)) for text in moments.values()
    ]


def test_fractions_before_1970_are_stored_as_readers_expect() -> None:
    fields = fields_of(t="TIMESTAMP(6)")
    times = [-1_000_001, -1_999_500, -500_000, -999_999, -2_000_000, 1_500_000, None, -62135596799999999]
    table = pa.table({"t": pa.array(times, pa.timestamp("us"))})
    store = InMemoryFileIO()
    writer = for_name("orc").open_writer(store, PATH, fields)
    writer.write(table)
    assert writer.close().size == store.status(PATH).size
    assert pa.Table.from_batches(read_batches(store, PATH, fields)).equals(table.cast(to_arrow_schema(fields)))
    source = store.open_input(PATH)
    file = TimestampFile(source)
    ((seconds, nanos),) = file.stored(0, file.tail.stripe_footer(source, file.tail.stripes[0])).values()
    below = [i for i, n in enumerate(nanos.tolist()) if n < 0]
    assert below == [2]  # the last second before 1970 has no other spelling
    assert (seconds + 1420070400).tolist() == [-1, -2, 0, -1, -2, 1, -62135596800]


def stored_nanoseconds(source: pa.NativeFile) -> list[np.ndarray]:
    """Return the nanoseconds of each stripe of a file with a column of timestamps, as they are stored."""
    file = TimestampFile(source)
    footers = [file.tail.stripe_footer(source, s) for s in file.tail.stripes]
    return [nanos for i, footer in enumerate(footers) for _, nanos in file.stored(i, footer).values()]


@pytest.mark.parametrize("old", [slice(0, 120_000), slice(0, 10), slice(70_000, None), slice(119_999, None)])
def test_stripes_with_and_without_old_fractions_make_one_file(old: slice) -> None:
    fields = fields_of(t="TIMESTAMP(6)", a="BIGINT")
    n = 120_000
    times = np.random.default_rng(2).integers(0, 2**50, n)
    times[old] *= -1
    table = pa.table({"t": pa.array(times).cast(pa.timestamp("us")), "a": np.arange(n)}).cast(to_arrow_schema(fields))
    store = InMemoryFileIO()
    writer = for_name("orc").open_writer(store, PATH, fields, options={"orc.stripe.size": "100 kb"})
    for start in range(0, n, 30_000):
        writer.write(table.slice(start, 30_000))
    assert writer.bytes_written > n
    assert writer.close().size == store.status(PATH).size
    tail = Tail.read(store.open_input(PATH))
    ends = [s.offset + s.length for s in tail.stripes]
    assert len(ends) > 2
    assert [s.offset for s in tail.stripes] == [3, *ends[:-1]]
    assert ends[-1] == tail.metadata_at
    assert [c[2] for c in Statistics(tail, store.open_input(PATH)).value_counts()] == [s.rows for s in tail.stripes]
    assert not any((nanos < 0).any() for nanos in stored_nanoseconds(store.open_input(PATH)))
    back = pa.Table.from_batches(read_batches(store, PATH, fields))
    assert back.equals(table)
    assert orc.ORCFile(store.open_input(PATH)).read().cast(table.schema).equals(table)


def test_values_inside_of_null_structs_shift_nothing() -> None:
    inner = RowType((DataField(2, "x", parse_atomic("INT")),))
    fields = [DataField(0, "r", RowType((DataField(1, "m", inner),)))]
    x = pa.array([0, 1, 2, 3, 4], pa.int32())
    m = pa.StructArray.from_arrays([x], names=["x"], mask=pa.array([True, False, False, True, False]))
    table = pa.table({"r": pa.StructArray.from_arrays([m], names=["m"])}).cast(to_arrow_schema(fields))
    store = InMemoryFileIO()
    writer = for_name("orc").open_writer(store, PATH, fields)
    writer.write(table)
    writer.close()
    found = [v["r"]["m"] for b in read_batches(store, PATH, fields) for v in b.to_pylist()]
    assert found == [None, {"x": 1}, {"x": 2}, None, {"x": 4}]


@pytest.mark.parametrize("inner", ["INT NOT NULL", "STRING NOT NULL", "DECIMAL(38, 2) NOT NULL"])
def test_a_null_row_may_have_members_that_are_not_null(inner: str) -> None:
    row = RowType((DataField(2, "x", parse_atomic(inner)),))
    fields = [DataField(0, "r", RowType((DataField(1, "m", row),))), DataField(3, "a", ArrayType(row))]
    schema = to_arrow_schema(fields)
    rows = pa.Table.from_arrays([pa.nulls(3, t) for t in schema.types], schema=schema)
    store = InMemoryFileIO()
    writer = for_name("orc").open_writer(store, PATH, fields)
    writer.write(rows)
    writer.close()
    assert pa.Table.from_batches(read_batches(store, PATH, fields)).equals(rows)


@pytest.mark.parametrize("whole", [0, WHOLE_BYTES])
@pytest.mark.parametrize("t", ["INT", "TIMESTAMP(3)"])
@pytest.mark.parametrize("name", ["a.b", ".a", "a.b.c", "[0]", "", "*", "A", "1", "__filename", "__batch_index"])
def test_columns_of_any_name_are_told_apart(name: str, t: str, whole: int) -> None:
    members = (DataField(1, "b", parse_atomic(t)), DataField(2, "b.c", parse_atomic("INT")))
    fields = [DataField(0, name, parse_atomic(t)), DataField(3, "a", RowType(members))]
    schema = to_arrow_schema(fields)
    table = pa.table([draw_array(random.Random(1), f.type, 50) for f in fields], schema=schema)
    store = InMemoryFileIO()
    writer = for_name("orc").open_writer(store, PATH, fields)
    writer.write(table)
    writer.close()
    for wanted in (fields, fields[:1], fields[1:]):
        with OrcReader(store, PATH, wanted, None, whole_bytes=whole) as reader:
            found = pa.Table.from_batches(reader.batches(7))
        assert found.equals(table.select([f.name for f in wanted]))


class _Packed(Framing):
    """Says of chunks that they are packed."""

    def plain(self, data: bytes) -> bytes:
        return (len(data) << 1).to_bytes(3, "little") + data


class _Full(io.RawIOBase):
    """A disk that is full after some bytes."""

    left = 1000

    def __init__(self, error: Exception) -> None:
        self._error = error

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.left -= len(data)
        if self.left < 0:
            raise self._error
        return len(data)


class _FullStore(InMemoryFileIO):
    error: Exception = OSError(28, "No space left on device")

    def open_output(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(_Full(self.error), mode="w")


class _FullObjectStore(_FullStore):
    error = EngineError("No space left in the bucket.", hint="Free some.")


@pytest.mark.parametrize("store", [_FullStore, _FullObjectStore])
def test_a_full_disk_is_an_error_and_not_the_end_of_the_process(store: type[_FullStore]) -> None:
    fields = fields_of(a="BIGINT")
    rows = pa.table({"a": np.random.default_rng(0).integers(0, 2**60, 10_000)})
    writer = for_name("orc").open_writer(store(), PATH, fields)
    writer.write(rows)
    with pytest.raises(type(store.error), match="No space left"):
        writer.close()
    writer.abort()


def test_a_full_disk_is_an_error_when_old_fractions_come() -> None:
    fields = fields_of(t="TIMESTAMP(6)")
    times = np.random.default_rng(0).integers(1, 2**50, 10_000)
    after, before = (pa.table({"t": pa.array(sign * times, pa.timestamp("us"))}) for sign in (1, -1))
    writer = for_name("orc").open_writer(_FullStore(), PATH, fields)
    writer.write(after)
    with pytest.raises(OSError, match="No space left"):
        writer.write(before)
    with pytest.raises(OSError, match="No space left"):
        writer.close()
    writer.abort()

"""What only Parquet files do."""

from __future__ import annotations

import datetime as dt
import io as bytes_io
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from paimon_spark.errors import UnsupportedError
from paimon_spark.format.arrow_types import ARROW_RELEASE, to_arrow_schema
from paimon_spark.format.int96 import shown_as_bytes
from paimon_spark.format.parquet import ParquetFormat, dictionary_columns
from paimon_spark.format.registry import open_reader
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.types import ArrayType, DataField, RowType, not_null, parse_atomic
from tests.data_files import read_batches

PATH = "/t/data-1.parquet"


def fields_of(**types: str) -> list[DataField]:
    return [DataField(i, n, parse_atomic(t)) for i, (n, t) in enumerate(types.items())]


def write(
    store: InMemoryFileIO,
    fields: list[DataField],
    data: pa.Table,
    file_format: ParquetFormat = ParquetFormat(),  # noqa: B008 - a value
    **more: Any,
) -> pq.ParquetFile:
    writer = file_format.open_writer(store, PATH, fields, **more)
    writer.write(data.cast(to_arrow_schema(fields)))
    writer.close()
    return pq.ParquetFile(pa.BufferReader(store.read(PATH)))


def encodings(file: pq.ParquetFile) -> dict[str, tuple[str, ...]]:
    group = file.metadata.row_group(0)
    return {group.column(i).path_in_schema: group.column(i).encodings for i in range(group.num_columns)}


ROWS = 20_000
MIXED = fields_of(_KEY_id="BIGINT NOT NULL", _SEQUENCE_NUMBER="BIGINT NOT NULL", few="STRING", many="STRING")
DATA = pa.table(
    {
        "_KEY_id": range(ROWS),
        "_SEQUENCE_NUMBER": range(ROWS),
        "few": [f"city {i % 7}" for i in range(ROWS)],
        "many": [f"row {i}" for i in range(ROWS)],
    }
)


@pytest.mark.parametrize("streamed", [True, False])
def test_chunks_are_small_where_the_first_rows_are_narrow(streamed: bool) -> None:
    store, fields, rows, limit = InMemoryFileIO(), fields_of(k="INT", wide="STRING"), 8192, 4 << 20
    noise = np.random.default_rng(0).bytes(2000 * rows).hex()
    texts = ["" if i < rows // 2 else noise[i * 4000 : (i + 1) * 4000] for i in range(rows)]
    store.write(PATH, _parquet(pa.table({"k": pa.array(range(rows), pa.int32()), "wide": texts})))
    with open_reader(store, PATH, fields, None) as reader:
        assert reader.num_row_groups == 1
        sizes = [chunk.nbytes for chunk in reader.chunks([0], limit, streamed=streamed)]
    assert sum(sizes) > 3 * limit
    assert max(sizes) < limit * 5 // 2


@pytest.mark.parametrize("streamed", [True, False])
def test_chunks_of_a_dictionary_adapt_to_the_size_of_rows(streamed: bool) -> None:
    store, rows, limit = InMemoryFileIO(), 60_000, 256 << 10
    table = pa.table({"short": [f"s{i % 7}" for i in range(rows)], "long": [f"{i % 7}" * 100 for i in range(rows)]})
    store.write(PATH, _parquet(table))
    for column in table.schema.names:
        with open_reader(store, PATH, fields_of(**{column: "STRING"}), None) as reader:
            chunks = list(reader.chunks([0], limit, streamed=streamed))
        assert chunks[0].num_rows == 1024
        assert all(limit // 2 < c.nbytes < limit * 1.1 for c in chunks[1:-1])
        assert len(chunks) > 2
        assert pa.Table.from_batches(chunks).column(0) == table.column(column)


def test_chunks_of_numbers_have_the_size_asked_for_at_once() -> None:
    store, fields = InMemoryFileIO(), fields_of(a="BIGINT", b="INT")
    rows = pa.table({"a": pa.nulls(100_000, pa.int64()), "b": pa.array([1] * 100_000, pa.int32())})
    store.write(PATH, _parquet(rows))
    with open_reader(store, PATH, fields, None) as reader:
        sizes = [chunk.num_rows for chunk in reader.chunks([0], 12 * 30_000)]
    assert all(29_000 < size <= 30_000 for size in sizes[:3])
    assert (len(sizes), sum(sizes)) == (4, 100_000)


@pytest.mark.parametrize(("short", "has_dictionary"), [(10, False), (1000, True)])
def test_one_long_value_takes_no_dictionary_from_short_ones(short: int, has_dictionary: bool) -> None:
    texts = ["a", "b"] * (short // 2) + ["c" * (1 << 20)]
    file = write(InMemoryFileIO(), fields_of(t="STRING"), pa.table({"t": texts}))
    assert file.metadata.row_group(0).column(0).has_dictionary_page is has_dictionary
    assert file.read().column("t").to_pylist() == texts


def _parquet(rows: pa.Table) -> bytes:
    sink = bytes_io.BytesIO()
    pq.write_table(rows, sink, row_group_size=rows.num_rows)
    return sink.getvalue()


def test_an_arrow_that_cannot_write_times_is_refused() -> None:
    old = ParquetFormat(arrow_release=22)
    fields = [*fields_of(k="INT"), DataField(1, "a", ArrayType(parse_atomic("TIME(3)")))]
    with pytest.raises(UnsupportedError, match="Upgrade to pyarrow 23"):
        write(InMemoryFileIO(), fields, to_arrow_schema(fields).empty_table(), old)
    assert write(InMemoryFileIO(), fields[:1], to_arrow_schema(fields[:1]).empty_table(), old).metadata.num_rows == 0


@pytest.mark.parametrize("release", {21, ARROW_RELEASE})
def test_lists_that_are_null_may_have_a_length(release: int) -> None:
    mask = pa.array([False, True, False])
    values = pa.array([1, 2, 3, 4, 5, 6], pa.int32())
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 4, 6], pa.int32()), values, mask=mask)
    shown = pa.ListArray.from_arrays(pa.array([0, 2, 4, 6], pa.int32()), values)
    fields = [
        DataField(0, "a", ArrayType(parse_atomic("INT"))),
        DataField(1, "r", RowType((DataField(2, "x", not_null(ArrayType(parse_atomic("INT")))),))),
    ]
    schema = to_arrow_schema(fields)
    structs = pa.StructArray.from_arrays([shown.cast(schema[1].type[0].type)], fields=list(schema[1].type), mask=mask)
    rows = pa.Table.from_arrays([lists.cast(schema[0].type), structs], schema=schema)
    file = write(InMemoryFileIO(), fields, rows, ParquetFormat(arrow_release=release))
    assert file.read().to_pylist() == [
        {"a": [1, 2], "r": {"x": [1, 2]}},
        {"a": None, "r": None},
        {"a": [5, 6], "r": {"x": [5, 6]}},
    ]


@pytest.mark.skipif(ARROW_RELEASE < 23, reason="pyarrow writes TIME to Parquet from 23 on")
def test_what_java_expects_of_the_file() -> None:
    fields = fields_of(
        d9="DECIMAL(9, 2)", d18="DECIMAL(18, 2)", d20="DECIMAL(20, 2)", t0="TIMESTAMP(0)", b="BINARY(4)", tm="TIME(0)"
    )
    fields.append(DataField(7, "ar", ArrayType(parse_atomic("INT"))))
    file = write(InMemoryFileIO(), fields, to_arrow_schema(fields).empty_table())
    columns = {file.schema.column(i).path: file.schema.column(i) for i in range(len(file.schema))}
    assert [columns[c].physical_type for c in ("d9", "d18", "d20", "b")] == [
        "INT32",
        "INT64",
        "FIXED_LEN_BYTE_ARRAY",
        "BYTE_ARRAY",
    ]
    assert columns["d20"].length == 9
    assert "milliseconds" in str(columns["t0"].logical_type)
    assert "isAdjustedToUTC=true, timeUnit=milliseconds" in str(columns["tm"].logical_type)
    assert "ar.list.element" in columns
    text = str(file.schema)
    assert "field_id=7 ar" in text
    assert f"field_id={536870911 + 7 * 1024 + 1} element" in text


def test_encodings_are_those_that_old_readers_know() -> None:
    file = write(InMemoryFileIO(), MIXED, DATA)
    found = encodings(file)
    assert "RLE_DICTIONARY" in found["few"]
    assert all("RLE_DICTIONARY" not in found[c] for c in ("many", "_KEY_id", "_SEQUENCE_NUMBER"))
    assert not any("DELTA" in e for names in found.values() for e in names)
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"


def test_options_of_the_writer() -> None:
    delta = encodings(write(InMemoryFileIO(), MIXED, DATA, options={"parquet.delta-encoding": "true"}))
    assert "DELTA_BINARY_PACKED" in delta["_KEY_id"]
    assert "DELTA_BINARY_PACKED" in delta["_SEQUENCE_NUMBER"]
    plain = encodings(write(InMemoryFileIO(), MIXED, DATA, options={"parquet.enable.dictionary": "false"}))
    assert "RLE_DICTIONARY" not in plain["few"]
    file = write(InMemoryFileIO(), MIXED, DATA, compression="none")
    assert file.metadata.row_group(0).column(0).compression == "UNCOMPRESSED"


def test_row_groups_are_bounded_and_skipped_by_statistics() -> None:
    store = InMemoryFileIO()
    write(store, MIXED, DATA, ParquetFormat(group_rows=5000))
    with open_reader(store, PATH, MIXED[:1]) as reader:
        assert reader.row_group_rows == (5000,) * 4
        assert reader.select_row_groups(pc.field("_KEY_id") == 7000) == [1]
        assert reader.select_row_groups(pc.field("no such column") == 1) == [0, 1, 2, 3]
        assert reader.select_row_groups(None) == [0, 1, 2, 3]
        assert sum(b.num_rows for b in reader.batches(1000, [1, 3])) == 10_000
    assert sum(b.num_rows for b in read_batches(store, PATH, MIXED[:1], pc.field("_KEY_id") < 100)) == 5000


@pytest.mark.parametrize("streamed", [True, False])
def test_a_chunk_spans_small_row_groups(streamed: bool) -> None:
    store = InMemoryFileIO()
    write(store, MIXED, DATA, ParquetFormat(group_rows=1000))
    with open_reader(store, PATH, MIXED[:1]) as reader:
        chunks = list(reader.chunks(range(2, 17), 8 * 4000, streamed=streamed))
    assert [c.num_rows for c in chunks] == [4000, 4000, 4000, 3000]
    assert pa.Table.from_batches(chunks)["_KEY_id"].equals(DATA["_KEY_id"].slice(2000, 15_000))


def test_row_groups_that_may_hold_nan_are_never_skipped() -> None:
    store = InMemoryFileIO()
    fields = fields_of(d="DOUBLE", k="INT", id="INT")
    write(store, fields, pa.table({"d": [5.0, float("nan")], "k": [1, 2], "id": [1, 2]}))
    with open_reader(store, PATH, fields) as reader:
        assert reader.select_row_groups((pc.field("d") > 6) | pc.is_nan(pc.field("d"))) == [0]
        assert reader.select_row_groups(pc.field("d") != 5) == [0]
        assert reader.select_row_groups((pc.field("k") > 6) & (pc.field("d") > 6)) == [0]
        assert reader.select_row_groups(pc.field("k") > 6) == []
        assert reader.select_row_groups(pc.field("id") > 6) == []  # the name of `d` is part of that of `id`


def test_single_keys_are_found_without_other_columns() -> None:
    store = InMemoryFileIO()
    write(store, MIXED, DATA.filter(pc.field("_KEY_id") != 7000), ParquetFormat(group_rows=5000))
    with open_reader(store, PATH, MIXED) as reader:
        for key, group in ((6999, 1), (7001, 1)):
            assert reader.has_match(group, pc.field("_KEY_id") == key, ["_KEY_id"])
        assert not reader.has_match(1, pc.field("_KEY_id") == 7000, ["_KEY_id"])


def test_a_large_batch_fills_several_row_groups() -> None:
    wide = fields_of(k="BIGINT", v="STRING")
    rows = pa.table({"k": range(40_000), "v": ["x" * 100] * 40_000})
    groups = write(InMemoryFileIO(), wide, rows).metadata
    assert [groups.row_group(i).num_rows for i in range(groups.num_row_groups)] == [9363, 9363, 9363, 9363, 2548]


def test_bytes_that_are_no_text_select_row_groups_too() -> None:
    store = InMemoryFileIO()
    write(store, fields_of(b="BYTES"), pa.table({"b": [b"\xff\x00", b"a"]}))
    with open_reader(store, PATH, fields_of(b="BYTES")) as reader:
        assert reader.select_row_groups(pc.starts_with(pc.field("b"), pattern=b"\xff")) == [0]


def test_floating_point_columns_have_no_statistics_without_nan() -> None:
    fields = [*fields_of(d="DOUBLE", f="FLOAT", k="INT"), DataField(3, "l", ArrayType(parse_atomic("DOUBLE")))]
    group = write(
        InMemoryFileIO(),
        fields,
        pa.table({"d": [5.0, float("nan")], "f": [1.0, 2.0], "k": [1, 2], "l": [[1.0], [2.0]]}),
    ).metadata.row_group(0)
    kept = [group.column(i).path_in_schema for i in range(group.num_columns) if group.column(i).is_stats_set]
    assert kept == ["k"]


def test_nanoseconds_are_int96_and_survive() -> None:
    fields = fields_of(t9="TIMESTAMP(9)", t3="TIMESTAMP(3)")
    store = InMemoryFileIO()
    rows = pa.table(
        {"t9": pa.array([1, -1, None], pa.timestamp("ns")), "t3": pa.array([5, -5, None], pa.timestamp("ms"))}
    )
    file = write(store, fields, rows)
    assert [file.schema.column(i).physical_type for i in range(2)] == ["INT96", "INT64"]
    (batch,) = read_batches(store, PATH, fields)
    assert batch.column(0).cast(pa.int64()).to_pylist() == [1, -1, None]
    assert batch.column(1).cast(pa.int64()).to_pylist() == [5, -5, None]


def test_days_of_int96_hold_no_time_below_midnight() -> None:
    fields = fields_of(t9="TIMESTAMP(9)")
    store = InMemoryFileIO()
    times = [0, -1, -86_400 * 10**9, -86_400 * 10**9 - 1, 2**63 - 1, -(2**63)]
    write(store, fields, pa.table({"t9": pa.array(times).cast(pa.timestamp("ns"))}))
    shown = shown_as_bytes(store.open_input(PATH), pq.read_metadata(store.open_input(PATH)))
    stored = pq.ParquetFile(store.open_input(PATH), metadata=shown).read().column(0).to_pylist()
    found = [(int.from_bytes(v[:8], "little"), int.from_bytes(v[8:], "little") - 2_440_588) for v in stored]
    assert found == [(t % (86_400 * 10**9), t // (86_400 * 10**9)) for t in times]


def test_int96_of_other_writers() -> None:
    """Arrow writes all timestamps so, or none; with or without its own schema beside, and with negative times of day."""
    far = [253402300799999999, -62135596799999999, -1, None]
    table = pa.table(
        {"t6": pa.array(far, pa.timestamp("us")), "t3": pa.array([5, -5, -(10**14), None], pa.timestamp("ms"))}
    )
    for stored in (True, False):
        store = InMemoryFileIO()
        out = bytes_io.BytesIO()
        pq.write_table(table, out, use_deprecated_int96_timestamps=True, store_schema=stored)
        store.write(PATH, out.getvalue())
        fields = fields_of(t6="TIMESTAMP(6)", t3="TIMESTAMP(3)")
        assert pa.Table.from_batches(read_batches(store, PATH, fields)).equals(table.cast(to_arrow_schema(fields)))
        with pytest.raises(UnsupportedError, match=r"data-1.parquet' has in column 't6' a timestamp.*file is intact"):
            list(read_batches(store, PATH, fields_of(t6="TIMESTAMP(9)")))


@pytest.mark.parametrize(
    ("wanted", "stored"),
    [
        ("TIMESTAMP(3)", pa.array([1_000_000, -1000], pa.timestamp("us"))),
        ("TIMESTAMP(6)", pa.array([253402300799, -62135596800], pa.timestamp("s"))),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", pa.array([5], pa.timestamp("us"))),
        ("TIMESTAMP(6)", pa.array([5], pa.timestamp("us", "UTC"))),
        ("TIME(3)", pa.array([86_399_999], pa.int32())),
        ("STRING", pa.array(["a", None]).dictionary_encode()),
        ("STRING", pa.array(["a", None], pa.large_string())),
        ("BYTES", pa.array([b"abc"], pa.binary(3))),
        ("DECIMAL(9, 2)", pa.array([Decimal("1.25")], pa.decimal128(9, 2))),
    ],
)
def test_other_physical_types_are_brought_to_the_wanted_one(wanted: str, stored: pa.Array) -> None:
    store = InMemoryFileIO()
    out = bytes_io.BytesIO()
    pq.write_table(pa.table({"x": stored}), out)
    store.write(PATH, out.getvalue())
    fields = fields_of(x=wanted)
    (batch,) = read_batches(store, PATH, fields)
    assert batch.schema == to_arrow_schema(fields)
    assert batch.column(0).null_count == stored.null_count


def test_int96_of_low_precision_reaches_far_years() -> None:
    store = InMemoryFileIO()
    out = bytes_io.BytesIO()
    far = dt.datetime(9999, 12, 31, 23, 59, 59)
    pq.write_table(pa.table({"x": pa.array([far], pa.timestamp("us"))}), out, use_deprecated_int96_timestamps=True)
    store.write(PATH, out.getvalue())
    (batch,) = read_batches(store, PATH, fields_of(x="TIMESTAMP(6)"))
    assert batch.column(0).to_pylist() == [far]


def test_dictionaries_are_judged_by_a_sample() -> None:
    table = pa.table(
        {
            "unique": np.arange(100_000),
            "late": np.concatenate([np.zeros(25_000, np.int64), np.arange(75_000)]),
            "few": np.arange(100_000) % 10,
            "nulls": pa.nulls(100_000, pa.string()),
            "flag": pa.array(np.arange(100_000) % 2 == 0),
            "nest": pa.array([{"a": [1]}] * 100_000),
        }
    )
    assert dictionary_columns(table) == ["few", "nulls", "nest.a.list.element"]

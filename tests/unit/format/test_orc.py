"""What only ORC files do."""

from __future__ import annotations

import datetime as dt
import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import orc

from paimon_spark.errors import UnsupportedError
from paimon_spark.format import orc as orc_format
from paimon_spark.format.arrow_types import ARROW_RELEASE, to_arrow_schema
from paimon_spark.format.orc_encodings import integers
from paimon_spark.format.orc_timestamps import read_timestamps
from paimon_spark.format.registry import for_name, open_reader, read_batches
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.types import ArrayType, DataField, RowType, parse_atomic

PATH = "/t/data-1.orc"
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
        chunks = [c for i in range(reader.num_row_groups) for c in reader.chunks(i, 1 << 16)]
    assert pa.Table.from_batches(chunks).column("a") == rows["a"]


@pytest.mark.parametrize("release", [24, ARROW_RELEASE])
def test_timestamps_beyond_nanoseconds(release: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orc_format, "ARROW_RELEASE", min(release, ARROW_RELEASE))
    fields = fields_of(k="INT", t="TIMESTAMP(6)", z="TIMESTAMP(3) WITH LOCAL TIME ZONE", s="STRING")
    table = pa.table(
        {
            "k": pa.array([1, 2, 3], pa.int32()),
            "t": pa.array([FAR, None, dt.datetime(1, 1, 1)], pa.timestamp("us")),
            "z": pa.array([None, 253402300799999, -62135596800000], pa.timestamp("ms", "UTC")),
            "s": ["x", None, "y"],
        }
    )
    for compression in ("zstd", "zlib", "uncompressed"):
        (batch,) = read_batches(store_with(table, compression=compression), PATH, fields)
        assert pa.Table.from_batches([batch]).equals(table.cast(to_arrow_schema(fields)))
    with pytest.raises(UnsupportedError, match="compression"):
        list(read_batches(store_with(table, compression="snappy"), PATH, fields))


def test_an_arrow_that_reads_nested_timestamps_wrong_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = [*fields_of(k="INT"), DataField(1, "a", ArrayType(parse_atomic("TIMESTAMP(3)")))]
    store = store_with(pa.table({"k": pa.array([1], pa.int32()), "a": pa.array([[5]], pa.list_(pa.timestamp("ms")))}))
    monkeypatch.setattr(orc_format, "ARROW_RELEASE", 24)
    with pytest.raises(UnsupportedError, match="column 'a'"):
        list(read_batches(store, PATH, fields))
    assert [b.to_pylist() for b in read_batches(store, PATH, fields[:1])] == [[{"k": 1}]]


def test_own_timestamp_decoding_agrees_with_the_library() -> None:
    random = np.random.default_rng(1)
    n = 5000
    spread = 9 * 10**15
    columns = {
        "uniform": random.integers(-spread, spread, n),
        "sorted": np.sort(random.integers(0, spread, n)),
        "steps": np.arange(n) * 1_000_000 + 5 * 10**14,
        "outliers": np.where(random.random(n) < 0.01, random.integers(0, spread, n), random.integers(0, 10**7, n)),
        "constant": np.full(n, 1_500_000_000_123_456),
        "near_epoch": random.integers(-1000, 1000, n) * 10**6,
    }
    nulls = random.random(n) < 0.3
    table = pa.table({c: pa.array(v, pa.int64(), mask=nulls).cast(pa.timestamp("us")) for c, v in columns.items()})
    source = store_with(table).open_input(PATH)
    fields = fields_of(**dict.fromkeys(columns, "TIMESTAMP(6)"))
    expected = orc.ORCFile(source).read()
    for f, got in zip(fields, read_timestamps(source, 0, fields), strict=True):
        assert got.equals(expected[f.name].combine_chunks().cast(got.type)), f.name


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("0a2710", [10000] * 5),
        ("5e035c a1ab 1e de ad be ef", [23713, 43806, 57005, 48879]),
        ("8e13 2b21 07d0 1e00 14 70 28 32 3c 46 50 5a 64 6e 78 82 8c 96 a0 aa b4 be fc e8", None),
        ("c6 09 02 02 22 42 42 46", [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]),
    ],
)
def test_integer_runs_of_the_orc_specification(data: str, expected: list[int] | None) -> None:
    if expected is None:
        expected = [2030, 2000, 2020, 1000000, *range(2040, 2200, 10)]
    assert integers(bytes.fromhex(data), len(expected), signed=False).tolist() == expected


class _Full(io.RawIOBase):
    """A disk that is full after some bytes."""

    left = 1000

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.left -= len(data)
        if self.left < 0:
            raise OSError(28, "No space left on device")
        return len(data)


class _FullStore(InMemoryFileIO):
    def open_output(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(_Full(), mode="w")


def test_a_full_disk_is_an_error_and_not_the_end_of_the_process() -> None:
    fields = fields_of(a="BIGINT")
    rows = pa.table({"a": np.random.default_rng(0).integers(0, 2**60, 10_000)})
    writer = for_name("orc").open_writer(_FullStore(), PATH, fields)
    writer.write(rows)
    with pytest.raises(OSError, match="No space left"):
        writer.close()
    writer.abort()

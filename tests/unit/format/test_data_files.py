"""What holds for data files of every format."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.errors import CorruptTableError, ErrorKind, UnsupportedError
from paimon_spark.format import registry
from paimon_spark.format.arrow_types import ARROW_RELEASE, to_arrow_schema
from paimon_spark.format.base import WrittenFile
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.compressions import COMPRESSIONS
from paimon_spark.spec.stats import ColumnStats, StatsMode
from paimon_spark.spec.types import ArrayType, DataField, DataType, MapType, MultisetType, RowType, parse_atomic
from tests.data_files import read_batches

FORMATS = [
    pytest.param(
        "parquet", marks=pytest.mark.skipif(ARROW_RELEASE < 23, reason="pyarrow writes TIME to Parquet from 23 on")
    ),
    "orc",
    "avro",
]
FULL = StatsMode.parse("full")


def fields_of(**types: str | DataType) -> list[DataField]:
    return [DataField(i, n, parse_atomic(t) if isinstance(t, str) else t) for i, (n, t) in enumerate(types.items())]


ROW = RowType((DataField(90, "x", parse_atomic("CHAR(4)")), DataField(91, "y", parse_atomic("DECIMAL(20, 1)"))))
FIELDS = fields_of(
    k="INT NOT NULL",
    bo="BOOLEAN",
    ti="TINYINT",
    si="SMALLINT",
    bi="BIGINT",
    f="FLOAT",
    d="DOUBLE",
    d9="DECIMAL(9, 2)",
    d18="DECIMAL(18, 3)",
    d38="DECIMAL(38, 10)",
    c="CHAR(5)",
    s="STRING",
    b="BINARY(3)",
    da="DATE",
    tm="TIME(3)",
    t3="TIMESTAMP(3)",
    t6="TIMESTAMP(6)",
    l3="TIMESTAMP(3) WITH LOCAL TIME ZONE",
    l6="TIMESTAMP(6) WITH LOCAL TIME ZONE",
    ar=ArrayType(parse_atomic("TIMESTAMP(3)")),
    mp=MapType(parse_atomic("STRING NOT NULL"), parse_atomic("TIME(3)")),
    mi=MapType(parse_atomic("INT NOT NULL"), ArrayType(parse_atomic("CHAR(3)"))),
    ms=MultisetType(parse_atomic("STRING NOT NULL")),
    ro=ROW,
)
COMPRESSED = [(name, codec) for name, codecs in COMPRESSIONS.items() for codec in (*codecs, "ZSTD", "uncompressed")]
STAMP = dt.datetime(2020, 2, 3, 4, 5, 6, 789000)
VALUES: dict[str, Any] = {
    "k": 1,
    "bo": True,
    "ti": -3,
    "si": 300,
    "bi": 2**60,
    "f": 1.5,
    "d": -0.25,
    "d9": Decimal("1234567.89"),
    "d18": Decimal("-1.125"),
    "d38": Decimal("12345678901234567890.5"),
    "c": "ab",
    "s": "héllo",
    "b": b"abc",
    "da": dt.date(1950, 1, 1),
    "tm": dt.time(1, 2, 3, 4000),
    "t3": STAMP,
    "t6": STAMP.replace(microsecond=123456),
    "l3": STAMP,
    "l6": STAMP,
    "ar": [STAMP, None],
    "mp": [("a", dt.time(1)), ("b", None)],
    "mi": [(1, ["x", None]), (2, None)],
    "ms": [("q", 3)],
    "ro": {"x": "zz", "y": Decimal("1.5")},
}
NULLS = dict.fromkeys(VALUES, None) | {"k": 2}
EMPTIES = VALUES | {
    "k": 3,
    "s": "",
    "b": b"",
    "t3": dt.datetime(1900, 1, 1, 0, 0, 0, 1000),
    "ar": [],
    "mp": [],
    "mi": [],
    "ms": [],
    "ro": {"x": None, "y": None},
}
TABLE = pa.Table.from_pylist([VALUES, NULLS, EMPTIES] * 3, schema=to_arrow_schema(FIELDS))


def write(io: InMemoryFileIO, path: str, fields: Sequence[DataField], data: pa.Table, **more: Any) -> WrittenFile:
    writer = registry.for_file(path).open_writer(io, path, fields, **more)
    for batch in data.to_batches(4):
        writer.write(batch)
    assert writer.rows == data.num_rows
    return writer.close()


def read(io: InMemoryFileIO, path: str, fields: Sequence[DataField], batch_rows: int = 2) -> pa.Table:
    batches = list(read_batches(io, path, fields, batch_rows=batch_rows))
    return pa.Table.from_batches(batches, to_arrow_schema(fields))


@pytest.fixture
def io() -> InMemoryFileIO:
    return InMemoryFileIO()


@pytest.mark.parametrize("name", FORMATS)
def test_every_type_comes_back_exactly(io: InMemoryFileIO, name: str) -> None:
    path = f"/t/data-1.{name}"
    written = write(io, path, FIELDS, TABLE)
    assert (written.size, written.rows) == (io.status(path).size, 9)
    back = read(io, path, FIELDS)
    back.validate(full=True)
    assert back.schema == to_arrow_schema(FIELDS)
    assert back.to_pylist() == TABLE.to_pylist()
    with registry.open_reader(io, path, FIELDS, written.size) as reader:
        assert reader.row_count == 9
        assert sum(reader.row_group_rows) == 9
        chunks = list(reader.chunks(range(reader.num_row_groups), 1 << 20))
    assert pa.Table.from_batches(chunks).equals(back)


@pytest.mark.parametrize("name", FORMATS)
def test_projection_absent_columns_and_no_columns(io: InMemoryFileIO, name: str) -> None:
    path = f"/t/data-1.{name}"
    write(io, path, FIELDS, TABLE)
    wanted = [FIELDS[11], DataField(99, "absent", parse_atomic("TIMESTAMP(3)")), FIELDS[0]]
    back = read(io, path, wanted)
    assert back.schema.names == ["s", "absent", "k"]
    assert back["absent"].null_count == 9
    assert read(io, path, wanted[1:2])["absent"].null_count == 9
    assert sum(b.num_rows for b in read_batches(io, path, [], batch_rows=4)) == 9
    with registry.open_reader(io, path, []) as reader:
        assert sum(c.num_rows for c in reader.chunks([0], 1 << 20)) == 9


@pytest.mark.parametrize("name", FORMATS)
def test_an_empty_file(io: InMemoryFileIO, name: str) -> None:
    path = f"/t/data-1.{name}"
    written = write(io, path, FIELDS, TABLE.slice(0, 0), stats_modes=[FULL] * len(FIELDS))
    assert written.rows == 0
    assert written.stats[0] == ColumnStats(None, None, 0)
    assert read(io, path, FIELDS).num_rows == 0


@pytest.mark.parametrize("name", FORMATS)
def test_missing_truncated_and_alien_files_are_named(io: InMemoryFileIO, name: str) -> None:
    path = f"/t/data-1.{name}"
    with pytest.raises(CorruptTableError, match="data-1") as missing:
        read(io, path, FIELDS)
    assert missing.value.kind is ErrorKind.FILE_MISSING
    size = write(io, path, FIELDS, TABLE).size
    good = io.read(path)
    for bad in (good[: size // 2], good[:-5], b"", b"no data file"):
        io.write(path, bad)
        with pytest.raises(CorruptTableError, match="data-1") as damaged:
            list(read_batches(io, path, FIELDS, file_size=size))
        assert damaged.value.kind is ErrorKind.CORRUPT_DATA_FILE
        assert f"its manifest records {size}" in str(damaged.value)


@pytest.mark.parametrize("name", FORMATS)
def test_abort_leaves_nothing(io: InMemoryFileIO, name: str) -> None:
    path = f"/t/data-1.{name}"
    writer = registry.for_name(name).open_writer(io, path, FIELDS)
    writer.write(TABLE)
    writer.abort()
    assert not io.exists(path)


@pytest.mark.parametrize("name", FORMATS)
def test_size_estimate_is_of_the_right_order(io: InMemoryFileIO, name: str) -> None:
    fields = fields_of(a="BIGINT", s="STRING")
    rows = pa.table({"a": range(50_000), "s": [f"value {i * 7919 % 50_000}" for i in range(50_000)]})
    writer = registry.for_name(name).open_writer(io, f"/t/d.{name}", fields)
    writer.write(rows.cast(to_arrow_schema(fields)))
    estimate = writer.bytes_written
    size = writer.close().size
    assert size / 4 < estimate < size * 4


def test_formats_are_found_by_suffix() -> None:
    assert registry.for_file("/a/b.c/data-x-0.parquet").name == "parquet"
    assert registry.for_file("data-x-0.zstd.orc").name == "orc"
    assert registry.for_name("AVRO").name == "avro"
    for name, shown in (("x.csv.gz", "csv"), ("x.lance", "lance"), ("noext", "''")):
        with pytest.raises(UnsupportedError, match=shown):
            registry.for_file(name)


@pytest.mark.parametrize(("name", "codec"), COMPRESSED)
def test_every_codec_that_is_offered_is_written(name: str, codec: str) -> None:
    store, path, fields = InMemoryFileIO(), f"/t/data-0.{name}", fields_of(k="INT NOT NULL", s="STRING")
    rows = pa.table({"k": range(1000), "s": [f"{i} {'the same text ' * 20}" for i in range(1000)]}).cast(
        to_arrow_schema(fields)
    )
    writer = registry.for_name(name).open_writer(store, path, fields, compression=codec)
    writer.write(rows)
    size = writer.close().size
    assert pa.Table.from_batches(read_batches(store, path, fields)).equals(rows)
    plain = registry.for_name(name).open_writer(store, f"/t/plain.{name}", fields, compression="none")
    plain.write(rows)
    assert (size < plain.close().size) is (codec not in ("none", "uncompressed"))


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_an_unknown_codec_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedError, match=r"compression 'snapy'.*Use one of zstd"):
        registry.for_name(name).open_writer(InMemoryFileIO(), "/t/f", FIELDS, compression="snapy")

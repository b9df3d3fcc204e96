"""Types of files of other writers, and the values that the readers return for them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from paimon_spark.format.arrow_types import VARIANT
from paimon_spark.format.stored_types import is_read_as, stored_file, stored_text
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.spec.types import ArrayType, DataField, DataType, MapType, RowType, parse_atomic
from tests.data_files import read_batches

WALL, INSTANT = datetime(1905, 1, 1, 2, 3, 4, 123456), datetime(1905, 1, 1, 2, 3, 4, 123456, UTC)
ROUND = datetime(2024, 5, 14, 10, 0, tzinfo=UTC)
NANOS = pa.timestamp("ns")


def kind(text: str) -> DataType:
    return parse_atomic(text)


LISTED, MAPPED = ArrayType(kind("INT")), MapType(kind("STRING"), kind("INT"))
ROW = RowType((DataField(1, "a", kind("INT")), DataField(2, "b", kind("STRING"))))


def write(path: Path, stored: pa.DataType, value: Any, *, int96: bool = False) -> str:
    table = pa.table({"c": pa.array([value, None], stored)})
    if path.suffix == ".orc":
        orc.write_table(table, path)
    else:
        pq.write_table(table, path, use_deprecated_int96_timestamps=int96)
    return str(path)


@pytest.mark.parametrize(
    ("suffix", "stored", "value", "t"),
    [
        *(
            (suffix, stored, value, t)
            for suffix in ("parquet", "orc")
            for stored, value, t in (
                (pa.int32(), -7, kind("INT")),
                (pa.int16(), -7, kind("INT")),
                (pa.int8(), -7, kind("TINYINT")),
                (pa.int64(), 1 << 40, kind("BIGINT")),
                (pa.float32(), 0.5, kind("FLOAT")),
                (pa.string(), "ä", kind("STRING")),
                (pa.binary(), b"x", kind("BYTES")),
                (pa.decimal128(10, 2), Decimal("1.50"), kind("DECIMAL(10, 2)")),
                (pa.date32(), date(1905, 1, 1), kind("DATE")),
                (pa.list_(pa.int32()), [1, None], LISTED),
                (pa.map_(pa.string(), pa.int32()), [("a", 1)], MAPPED),
                (pa.struct([("a", pa.int32()), ("b", pa.string())]), {"a": 1, "b": "x"}, ROW),
            )
        ),
        ("parquet", pa.large_string(), "ä", kind("STRING")),
        ("parquet", pa.dictionary(pa.int8(), pa.string()), "ä", kind("STRING")),
        ("parquet", pa.timestamp("us"), WALL, kind("TIMESTAMP(6)")),
        ("parquet", pa.timestamp("us", "UTC"), INSTANT, kind("TIMESTAMP(6) WITH LOCAL TIME ZONE")),
        ("parquet", pa.timestamp("ms", "UTC"), ROUND, kind("TIMESTAMP(6) WITH LOCAL TIME ZONE")),
        ("int96.parquet", NANOS, INSTANT, kind("TIMESTAMP(6) WITH LOCAL TIME ZONE")),
        ("orc", NANOS, WALL, kind("TIMESTAMP(6)")),
        ("orc", pa.timestamp("ns", "UTC"), INSTANT, kind("TIMESTAMP(6) WITH LOCAL TIME ZONE")),
    ],
)
def test_accepted_types_keep_their_values(
    tmp_path: Path, suffix: str, stored: pa.DataType, value: Any, t: DataType
) -> None:
    path, file_format = write(tmp_path / f"f.{suffix}", stored, value, int96="int96" in suffix), suffix.split(".")[-1]
    found = stored_file(LocalFileIO(), path, file_format)
    assert found.rows == 2
    assert is_read_as(found.schema.field("c").type, t, file_format)
    (batch,) = read_batches(LocalFileIO(), path, [DataField(0, "c", t)])
    assert batch.column(0).to_pylist() == [value, None]


@pytest.mark.parametrize(
    ("suffix", "stored", "t"),
    [
        *(
            (suffix, stored, t)
            for suffix in ("parquet", "orc")
            for stored, t in (
                (pa.int64(), kind("INT")),
                (pa.int32(), kind("BIGINT")),
                (pa.int32(), kind("SMALLINT")),
                (pa.string(), kind("INT")),
                (pa.int32(), kind("STRING")),
                (pa.binary(), kind("STRING")),
                (pa.float32(), kind("DOUBLE")),
                (pa.decimal128(10, 3), kind("DECIMAL(10, 2)")),
                (pa.int32(), kind("DATE")),
                (pa.list_(pa.int64()), LISTED),
                (pa.map_(pa.string(), pa.int64()), MAPPED),
                (pa.struct([("b", pa.string()), ("a", pa.int32())]), ROW),
                (pa.int32(), ROW),
            )
        ),
        ("parquet", pa.uint32(), kind("INT")),
        ("parquet", pa.timestamp("us"), kind("TIMESTAMP(6) WITH LOCAL TIME ZONE")),
        ("parquet", pa.timestamp("us", "UTC"), kind("TIMESTAMP(6)")),
        ("parquet", pa.timestamp("us"), kind("TIMESTAMP(3)")),
        ("parquet", NANOS, kind("TIMESTAMP(9)")),
        ("int96.parquet", NANOS, kind("TIMESTAMP(6)")),
        ("orc", NANOS, kind("TIMESTAMP(6) WITH LOCAL TIME ZONE")),
        ("orc", pa.timestamp("ns", "UTC"), kind("TIMESTAMP(6)")),
    ],
)
def test_types_of_other_values_are_refused(tmp_path: Path, suffix: str, stored: pa.DataType, t: DataType) -> None:
    path, file_format = write(tmp_path / f"f.{suffix}", stored, None, int96="int96" in suffix), suffix.split(".")[-1]
    found = stored_file(LocalFileIO(), path, file_format).schema.field("c").type
    assert not is_read_as(found, t, file_format)
    assert ("int96" in suffix) == (stored_text(found) == "int96")


@pytest.mark.parametrize(
    ("stored", "file_format", "accepted"),
    [
        (VARIANT, "parquet", True),
        (pa.struct(reversed(list(VARIANT))), "orc", True),
        (pa.struct([*VARIANT, ("typed_value", pa.int64())]), "parquet", True),
        (pa.struct([*VARIANT, ("typed_value", pa.int64())]), "orc", False),
        (pa.struct([("value", pa.string()), ("metadata", pa.binary())]), "parquet", False),
        (pa.binary(), "parquet", False),
    ],
)
def test_variants(stored: pa.DataType, file_format: str, accepted: bool) -> None:
    assert is_read_as(stored, kind("VARIANT"), file_format) is accepted

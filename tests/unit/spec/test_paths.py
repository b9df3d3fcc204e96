"""Paths, partition directories and new names."""

from __future__ import annotations

import json
import pickle
import struct
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import ArgumentError, UnsupportedError
from paimon_spark.spec.literals import date_text, java_float, parse_value, timestamp_text, to_single, value_text
from paimon_spark.spec.manifest import EMPTY_ROW, DataFileMeta, IndexFileMeta
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.paths import (
    DEFAULT_PARTITION,
    TablePaths,
    escape,
    partition_path,
    partition_text,
)
from paimon_spark.spec.rows import Timestamp, encode_row
from paimon_spark.spec.types import STRING, DataField, parse_atomic
from tests.reference_data import BUCKET_VECTORS

OWN = [
    ("DATE", 19857, "19857", "2024-05-14"),
    ("DATE", -719162, "-719162", "0001-01-01"),
    ("DATE", 2932896, "2932896", "9999-12-31"),
    ("TIME(3)", 45296789, "45296789", "12:34:56.789"),
    ("TIME(3)", 500, "500", "00:00:00.5"),
    ("TIME(3)", 43200000, "43200000", "12:00:00.0"),
    ("TIME(0)", 43200000, "43200000", "12:00:00"),
    ("TIMESTAMP(3)", Timestamp(1715682000000), "2024-05-14T10:20", "2024-05-14 10:20:00.000"),
    ("TIMESTAMP(6)", Timestamp(1715682030123, 456000), "2024-05-14T10:20:30.123456", "2024-05-14 10:20:30.123456"),
    ("DECIMAL(20, 8)", Decimal("1E-8"), "0.00000001", "0.00000001"),
    ("BOOLEAN", True, "true", "true"),
    ("FLOAT", 0.10000000149011612, "0.1", "0.1"),
    ("DOUBLE", 1e10, "1.0E10", "1.0E10"),
]


@pytest.mark.parametrize(("type_text", "value", "legacy", "modern"), OWN)
def test_value_text(type_text: str, value: Any, legacy: str, modern: str) -> None:
    t = parse_atomic(type_text)
    assert value_text(value, t) == legacy
    assert value_text(value, t, legacy=False) == modern
    assert parse_value(legacy, t) == pytest.approx(value) if type_text == "FLOAT" else parse_value(legacy, t) == value
    assert parse_value(modern, t) == parse_value(legacy, t)


@pytest.mark.parametrize(
    ("day", "text"),
    [
        (-719163, "0000-12-31"),
        (-719528, "0000-01-01"),
        (-719529, "-0001-12-31"),
        (2932897, "+10000-01-01"),
        (-5877641 * 365, "-5871769-06-02"),
        (106751991, "+294247-01-10"),
    ],
)
def test_days_of_years_that_python_does_not_know(day: int, text: str) -> None:
    assert date_text(day) == text
    assert timestamp_text(Timestamp(day * 86_400_000 + 60_000)) == f"{text}T00:01"


@pytest.mark.skipif(not BUCKET_VECTORS.exists(), reason="the shared vectors are not here")
def test_shared_vectors() -> None:
    for vector in json.loads(BUCKET_VECTORS.read_text())["partition_path_values"]:
        t = parse_atomic(vector["type"])
        raw = vector["value"]
        value = raw if raw is None or isinstance(raw, bool | int) else parse_value(raw, t)
        for legacy in (True, False):
            text = escape(partition_text(value, t, legacy=legacy))
            assert text == vector[f"legacy_{str(legacy).lower()}"], vector


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456.75, "123456.75"),
        (0.0125, "0.0125"),
        (-1.5e-10, "-1.5E-10"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (5e-324, "4.9E-324"),
        (1e-323, "9.9E-324"),
        (1e-322, "9.9E-323"),
        (1e23, "1.0E23"),
        (2.0**-44, "5.684341886080802E-14"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
    ],
)
def test_floats_print_as_in_java(value: float, expected: str) -> None:
    assert java_float(value, single=False) == expected


@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        (0x00000001, "1.4E-45"),
        (0x00000002, "2.8E-45"),
        (0x00000007, "9.8E-45"),
        (0x00800000, "1.1754944E-38"),
        (0x7F7FFFFF, "3.4028235E38"),
        (0x3DCCCCCD, "0.1"),
        (0x501502F9, "1.0E10"),
        (0x4A05199B, "2180710.8"),
        (0x4A051BBB, "2180846.8"),
        (0xCCBEBC20, "-1.0E8"),
        (0x7F800000, "Infinity"),
        (0x80000000, "-0.0"),
    ],
)
def test_floats_of_single_width_print_as_in_java(bits: int, expected: str) -> None:
    value = struct.unpack("<f", struct.pack("<I", bits))[0]
    assert java_float(value, single=True) == expected


@given(st.floats(width=32, allow_nan=False))
def test_floats_of_single_width_read_back(value: float) -> None:
    text = java_float(value, single=True)
    assert to_single(float(text.replace("Infinity", "inf"))) == value
    assert len(text) <= len(repr(value)) + len("-0.0E-")


@pytest.mark.parametrize("blank", ["", " ", "\t\u2003", "\u3000"])
@pytest.mark.parametrize("kept", ["\u00a0", "\u2007", "\u202f", "\u0085"])
def test_blank_values_are_those_of_java(blank: str, kept: str) -> None:
    text = parse_atomic("STRING")
    assert partition_text(blank, text) == DEFAULT_PARTITION
    assert partition_text(blank + kept, text) == blank + kept


def test_partition_path() -> None:
    fields = [DataField(0, "d t", STRING), DataField(1, "h", parse_atomic("INT"))]
    assert partition_path(["a/b=c", None], fields) == "d t=a%2Fb%3Dc/h=__DEFAULT_PARTITION__"
    assert partition_path(["  ", 1], fields, default_name="none") == "d t=none/h=1"
    assert partition_path([], []) == ""
    with pytest.raises(UnsupportedError):
        value_text(b"x", parse_atomic("BYTES"))


@given(st.text())
def test_escapes_can_be_undone(text: str) -> None:
    assert unquote(escape(text)) == text


def test_values_that_do_not_parse() -> None:
    bad = [
        ("INT", "1.5"),
        ("TINYINT", "128"),
        ("DATE", "2024-13-01"),
        ("TIMESTAMP(3)", "noon"),
        ("BOOLEAN", "2"),
        ("DECIMAL(4, 2)", "100.00"),
        ("DECIMAL(4, 2)", "1.234"),
        ("TIME(0)", "25:00:00"),
        ("INT", "1_0"),
    ]
    for type_text, text in bad:
        with pytest.raises(ArgumentError, match="is not a value of type"):
            parse_value(text, parse_atomic(type_text))


def _file(**values: Any) -> DataFileMeta:
    return DataFileMeta(
        file_name="data-u-0.parquet",
        file_size=1,
        row_count=1,
        min_sequence_number=0,
        max_sequence_number=0,
        schema_id=0,
        level=0,
        **values,
    )


def test_table_paths() -> None:
    paths = TablePaths("/w/db.db/t/", CoreOptions({}), (DataField(0, "p", STRING),))
    row = encode_row(["x"], [STRING])
    assert paths.snapshot(3) == "/w/db.db/t/snapshot/snapshot-3"
    assert paths.latest_hint == "/w/db.db/t/snapshot/LATEST"
    assert paths.data_file(row, 0, _file()) == "/w/db.db/t/p=x/bucket-0/data-u-0.parquet"
    inside = "/w/db.db/t/elsewhere/f"
    assert paths.data_file(row, 0, _file(external_path=inside)) == inside
    assert paths.extra_files(row, 0, _file(extra_files=("i",))) == ["/w/db.db/t/p=x/bucket-0/i"]
    assert paths.bucket_dir(row, -2) == "/w/db.db/t/p=x/bucket-postpone"
    index = IndexFileMeta(index_type="HASH", file_name="index-u-0", file_size=4, row_count=1)
    assert paths.index_file(row, 0, index) == "/w/db.db/t/index/index-u-0"
    assert pickle.loads(pickle.dumps(paths)).bucket_dir(row, 0) == paths.bucket_dir("p=x", 0)


def test_paths_of_branches_and_options() -> None:
    options = CoreOptions({"data-file.path-directory": "data", "index-file-in-data-file-dir": "true"})
    paths = TablePaths("file:/t", options, branch="b1")
    assert paths.schema(0) == "file:/t/branch/branch-b1/schema/schema-0"
    assert paths.tag("x") == "file:/t/branch/branch-b1/tag/tag-x"
    assert paths.manifest("manifest-u-0") == "file:/t/manifest/manifest-u-0"
    assert paths.bucket_dir(EMPTY_ROW, 1) == "file:/t/data/bucket-1"
    assert paths.new_index_file(EMPTY_ROW, 1, "index-u-0") == "file:/t/data/bucket-1/index-u-0"


def test_new_names_do_not_repeat() -> None:
    paths = TablePaths("/t", CoreOptions({"file.suffix.include.compression": "true", "data-file.prefix": "x-"}))
    assert paths.new_data_file("parquet", "zstd").startswith("x-")
    assert paths.new_data_file("parquet", "zstd").endswith("-0.zstd.parquet")
    assert paths.new_manifest_name() != paths.new_manifest_name()

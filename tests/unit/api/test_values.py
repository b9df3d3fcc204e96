"""Values that a table holds exactly are taken in whatever type they come; others leave the table unchanged."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.catalog import CatalogHandle
from paimon_spark.errors import ArgumentError, ErrorKind

NANOS = pa.timestamp("ns")
ZONED = pa.timestamp("ns", "Europe/Paris")


def unchecked(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return a column of another type without a check of its values."""
    return column.cast(wanted, safe=False)


TOO_LONG = unchecked(pa.array([Decimal(1), Decimal(12345)]), pa.decimal128(3, 0))


def texts(*values: bytes | None) -> pa.Array:
    """Return an array of texts with any bytes."""
    offsets, data = pa.array(values, pa.binary()).buffers()[1:]
    return pa.StringArray.from_buffers(len(values), offsets, data)


@pytest.fixture
def catalog(tmp_path: Path) -> CatalogHandle:
    return paimon_spark.connect(tmp_path / "w")


def refused(catalog: CatalogHandle, wanted: pa.DataType, given: pa.Array, message: str, **how: Any) -> None:
    table = catalog.create_table("t", pa.schema([("c", wanted)]), **how)
    with pytest.raises(ArgumentError, match=message) as e:
        table.append(pa.table({"c": given}))
    assert e.value.kind is ErrorKind.TYPE_MISMATCH
    assert e.value.hint
    assert table.snapshots() == []


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        (pa.timestamp("ms"), pa.array([1_000_000, 1_000_001], NANOS)),
        (pa.timestamp("us"), pa.array([1_000, 1_001], NANOS)),
        (pa.timestamp("ms"), pa.array([1], pa.timestamp("us"))),
        (pa.timestamp("us", "UTC"), pa.array([1], ZONED)),
        (pa.list_(pa.timestamp("ms")), pa.array([[1]], pa.list_(NANOS))),
        (pa.decimal128(5, 1), pa.array([9_999, 10_000])),
        (pa.decimal128(5, 2), unchecked(pa.array([Decimal("12345678.90")]), pa.decimal128(5, 2))),
        (pa.struct([("x", pa.decimal128(3, 0))]), pa.StructArray.from_arrays([TOO_LONG], names=["x"])),
        (pa.time32("ms"), unchecked(pa.array([1, 86_400_005], pa.int32()), pa.time32("ms"))),
        (pa.time32("ms"), unchecked(pa.array([-1], pa.int32()), pa.time32("ms"))),
        (pa.decimal128(38, 38), pa.array([1], pa.uint64())),
        (pa.list_(pa.decimal128(5, 1)), pa.array([[10_000]])),
        (pa.float32(), pa.array([1.0, 1e300])),
        (pa.float32(), pa.array([float("inf"), -1e39])),
        (pa.float32(), pa.array([1e300]).dictionary_encode()),
        (pa.list_(pa.float32()), pa.array([[1e300]], pa.list_(pa.float64(), 1))),
        (pa.struct([("x", pa.float32())]), pa.array([None, {"x": 1e300}])),
        (pa.map_(pa.string(), pa.float32()), pa.array([[("x", 1e300)]], pa.map_(pa.string(), pa.float64()))),
    ],
)
def test_values_that_would_change_are_refused(catalog: CatalogHandle, wanted: pa.DataType, given: pa.Array) -> None:
    refused(catalog, wanted, given, "Values for column 'c' of table default.t do not fit its type")


@pytest.mark.parametrize(
    ("wanted", "given", "shown"),
    [
        (pa.time32("ms"), pa.array([None, 0, 3_723_004_005], pa.time64("us")), "01:02:03.004005"),
        (pa.time32("ms"), pa.array([3_723_004_005], pa.time64("us")).dictionary_encode(), "01:02:03.004005"),
        (pa.date32(), pa.array([86_400_005], pa.date64()), "1970-01-02 00:00:00.005"),
        (pa.decimal128(4, 1), pa.array([Decimal("1.00")] * 9 + [Decimal("1.25"), Decimal("2.25")]), "1.25"),
        (pa.int8(), pa.array([1, 300, 2]), "300"),
    ],
)
def test_the_first_value_that_does_not_fit_is_shown(
    catalog: CatalogHandle, wanted: pa.DataType, given: pa.Array, shown: str
) -> None:
    refused(catalog, wanted, given, f": {re.escape(shown)} is not such a value")


def test_nested_types_are_spelled_as_in_sql(catalog: CatalogHandle) -> None:
    refused(catalog, pa.list_(pa.int32()), pa.array([[1 << 40]]), "do not fit its type ARRAY<INT>: Integer value")


def test_keys_that_would_become_one_are_refused(catalog: CatalogHandle) -> None:
    keys = pa.array([1_000_000, 1_000_001], NANOS)
    refused(
        catalog,
        pa.timestamp("ms"),
        keys,
        "1970-01-01 00:00:00.001000001 is not",
        primary_key="c",
        options={"bucket": 1},
    )
    table = catalog.table("t")
    table.append(pa.table({"c": keys[:1]}))
    with pytest.raises(ArgumentError, match=r"00:00:00\.001000001 is not such a value"):
        table.delete(keys=pa.table({"c": keys[1:]}))
    table.delete(keys=pa.table({"c": keys[:1]}))
    assert table.count() == 0


@pytest.mark.parametrize(
    ("wanted", "given", "read"),
    [
        (pa.timestamp("ms"), pa.array([1_000_000, None], NANOS), [dt.datetime(1970, 1, 1, 0, 0, 0, 1000), None]),
        (pa.timestamp("us", "UTC"), pa.array([1_000], ZONED), [dt.datetime(1970, 1, 1, 0, 0, 0, 1, dt.UTC)]),
        (pa.decimal128(5, 1), pa.array([9_999, None, -9_999]), [Decimal("9999.0"), None, Decimal("-9999.0")]),
        (pa.decimal128(5, 1), pa.array([7], pa.int8()).dictionary_encode(), [Decimal("7.0")]),
        (pa.decimal128(20, 0), pa.array([2**64 - 1], pa.uint64()), [Decimal(2**64 - 1)]),
        (pa.struct([("x", pa.decimal128(5, 1))]), pa.array([{"x": 7}, None]), [{"x": Decimal("7.0")}, None]),
        (pa.float32(), pa.array([0.1, None, 1e-300]), [pytest.approx(0.1), None, 0.0]),
        (pa.float32(), pa.array([float("inf"), float("-inf")]), [float("inf"), float("-inf")]),
        (pa.list_(pa.float32()), pa.array([[float("inf")], None]), [[float("inf")], None]),
    ],
)
def test_other_values_are_taken(catalog: CatalogHandle, wanted: pa.DataType, given: pa.Array, read: list[Any]) -> None:
    table = catalog.create_table("t", pa.schema([("c", wanted)]))
    table.append(pa.table({"c": given}))
    assert table.to_arrow().column("c").to_pylist() == read


CATEGORIES = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.uint32()), pa.array(["a", "b"], pa.string_view()))
BYTES = pa.DictionaryArray.from_arrays(pa.array([0], pa.uint8()), pa.array([b"a"], pa.binary_view()))


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (CATEGORIES, ["b", None, "a"]),
        (BYTES, [b"a"]),
        (pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), CATEGORIES), [["b", None], ["a"]]),
        (pa.LargeListArray.from_arrays(pa.array([0, 2, 3]), CATEGORIES), [["b", None], ["a"]]),
        (pa.FixedSizeListArray.from_arrays(CATEGORIES, 3), [["b", None, "a"]]),
        (pa.StructArray.from_arrays([CATEGORIES], ["x"]), [{"x": "b"}, {"x": None}, {"x": "a"}]),
        (pa.MapArray.from_arrays(pa.array([0, 1], pa.int32()), ["k"], CATEGORIES[:1]), [[("k", "b")]]),
    ],
    ids=lambda a: str(getattr(a, "type", "")),
)
def test_dictionaries_of_views_are_decoded(catalog: CatalogHandle, given: pa.Array, read: list[Any]) -> None:
    data = pa.table({"c": given})
    table = catalog.create_table("t", data.schema)
    table.append(data)
    table.append(data[1:])
    assert sorted(table.to_arrow().column("c").to_pylist(), key=str) == sorted(read + read[1:], key=str)


TEXTS = texts(b"a", b"\xff", b"b")


@pytest.mark.parametrize(
    "given",
    [
        TEXTS,
        TEXTS.cast(pa.large_string()),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), TEXTS),
        pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), TEXTS),
        pa.StructArray.from_arrays([TEXTS], ["x"]),
        pa.MapArray.from_arrays(pa.array([0, 1, 3], pa.int32()), TEXTS, TEXTS),
    ],
    ids=lambda a: str(a.type),
)
def test_texts_that_are_not_utf8_are_refused(catalog: CatalogHandle, given: pa.Array) -> None:
    refused(catalog, given.type, given, "Column 'c' of table default.t has a text that is not valid UTF-8")
    table = catalog.table("t")
    assert table.append(pa.table({"c": given[:1]})).rows == 1
    assert table.append(pa.table({"c": given[2:]})).rows == len(given) - 2


def test_a_partition_that_is_not_utf8_is_refused(catalog: CatalogHandle) -> None:
    table = catalog.create_table("t", pa.schema([("p", pa.string()), ("v", pa.int32())]), partition_by="p")
    with pytest.raises(ArgumentError, match=r"'p' .*not valid UTF-8"):
        table.append(pa.table({"p": TEXTS, "v": [1, 2, 3]}))
    assert table.snapshots() == []


@pytest.mark.parametrize("engine", ["deduplicate", "first-row"])
def test_keys_without_a_value_are_refused(catalog: CatalogHandle, engine: str) -> None:
    schema = pa.schema([("k", pa.int32()), ("v", pa.int32())])
    table = catalog.create_table("n", schema, primary_key="k", options={"bucket": 1, "merge-engine": engine})
    table.upsert(pa.table({"k": [1, 2], "v": [1, 2]}, schema=schema))
    with pytest.raises(ArgumentError, match=r"'k' of table default\.n is NOT NULL, but 1 rows"):
        table.delete(keys=pa.table({"k": pa.array([1, None], pa.int32())}))
    assert table.count() == 2

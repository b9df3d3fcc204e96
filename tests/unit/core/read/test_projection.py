"""Columns of older files as the table sees them today."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from paimon_spark.core.read.projection import convert, plan_columns
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import execute_compaction, plan_compaction
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import CorruptTableError, ErrorKind, UnsupportedError
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.spec.predicate import Comparison, IsNull
from paimon_spark.spec.types import ArrayType, DataField, MapType, MultisetType, RowType, not_null, parse_atomic
from paimon_spark.testing.tables import new_table, read_arrow

INT, BIGINT, STRING = parse_atomic("INT"), parse_atomic("BIGINT"), parse_atomic("STRING")

CASTS: list[tuple[str, str, list[Any], list[Any]]] = [
    ("INT", "BIGINT", [1, None], [1, None]),
    ("INT", "DOUBLE", [3, None], [3.0, None]),
    ("BIGINT", "INT", [2**32 + 5], [5]),
    ("INT", "STRING", [-7, None], ["-7", None]),
    ("INT", "DECIMAL(10, 2)", [3], [Decimal("3.00")]),
    ("DECIMAL(10, 2)", "DECIMAL(20, 4)", [Decimal("1.50")], [Decimal("1.5000")]),
    ("STRING", "INT", ["12", None], [12, None]),
    ("STRING", "VARCHAR(3)", ["abcdef", None], ["abc", None]),
    ("STRING", "BOOLEAN", ["TRUE", "no", None], [True, False, None]),
    ("DATE", "TIMESTAMP(3)", [date(2024, 5, 14)], [datetime(2024, 5, 14)]),
    ("TIMESTAMP(3)", "DATE", [datetime(2024, 5, 14, 23)], [date(2024, 5, 14)]),
    ("BOOLEAN", "STRING", [True], ["true"]),
]


@pytest.mark.parametrize(("old", "new", "values", "expected"), CASTS, ids=[f"{o} to {n}" for o, n, _, _ in CASTS])
def test_type_changes(old: str, new: str, values: list[Any], expected: list[Any]) -> None:
    source, target = parse_atomic(old), parse_atomic(new)
    got = convert(pa.array(values, to_arrow_type(source)), source, target)
    assert got.type == to_arrow_type(target)
    assert got.to_pylist() == expected


def test_values_that_cannot_be_read_are_an_error() -> None:
    with pytest.raises(CorruptTableError, match="cannot be read as INT"):
        convert(pa.array(["x"]), STRING, INT)


@pytest.mark.parametrize(
    ("old", "value", "shown"),
    [
        ("DATE", -800_000, "-0221-09-04"),
        ("DATE", -(2**31), "-2147483648"),
        ("TIMESTAMP(3)", -80_000_000_000_000, "-0566-11-26 01:46:40.000"),
        ("TIMESTAMP(6)", -80_000_000_000_000_000, "-0566-11-26 01:46:40.000000"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", -80_000_000_000_000, "-0566-11-26 01:46:40.000Z"),
        ("TIMESTAMP(3)", -(2**62), "-4611686018427387904"),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_a_day_without_a_text_is_an_error_that_names_it(old: str, value: int, shown: str, *, nested: bool) -> None:
    source = parse_atomic(old)
    arrow = to_arrow_type(source)
    column = pa.array([None, value, 0], pa.int32() if pa.types.is_date32(arrow) else pa.int64()).view(arrow)
    given, t = (pa.ListArray.from_arrays([0, 3], column), ArrayType(source)) if nested else (column, source)
    with pytest.raises(CorruptTableError) as e:
        convert(given, t, STRING)
    assert f"{shown} is not a date that can be cast to text" in str(e.value)
    assert e.value.kind is ErrorKind.CORRUPT_METADATA


def test_a_year_beyond_9999_has_its_last_four_digits() -> None:
    days = pa.array([2932896, 2932897, 2**31 - 1], pa.int32()).view(pa.date32())  # numpy: 5881580-07-11
    assert convert(days, parse_atomic("DATE"), STRING).to_pylist() == ["9999-12-31", "0000-01-01", "1580-07-11"]
    moment = pa.array([2**62]).view(pa.timestamp("ms"))  # numpy: 146140482-04-24T15:36:27.904
    assert convert(moment, parse_atomic("TIMESTAMP(3)"), STRING).to_pylist() == ["0482-04-24 15:36:27.904"]


@pytest.mark.parametrize("old", ["DATE", "TIMESTAMP(3)", "TIME(3)", "INT", "STRING"])
def test_nullability_does_not_decide_what_can_be_read(old: str) -> None:
    source = parse_atomic(old)
    column = pa.array([0], pa.int64() if old.startswith("TIMESTAMP") else pa.int32())
    column = column.cast(pa.string()) if old == "STRING" else column.view(to_arrow_type(source))
    expected = convert(column, source, STRING)
    for before in (source, not_null(source)):
        assert convert(column, before, not_null(STRING)).equals(expected)
        row, to = RowType((DataField(1, "a", before),)), RowType((DataField(1, "a", not_null(STRING)),))
        assert convert(pa.StructArray.from_arrays([column], names=["a"]), row, to).to_pylist() == [
            {"a": expected[0].as_py()}
        ]


def test_a_date_that_became_a_text_and_then_not_null_is_read() -> None:
    first = new_table({"k": "INT", "d": "DATE"})
    write_arrow(first, pa.table({"k": pa.array([1], pa.int32()), "d": [date(2024, 2, 29)]}))
    k, d = first.schema.fields
    second = evolved(first, k, replace(d, type=STRING))
    third = evolved(second, k, replace(d, type=not_null(STRING)))
    assert read_arrow(third).to_pylist() == [{"k": 1, "d": "2024-02-29"}]


def test_nested_members_follow_their_ids() -> None:
    old = RowType((DataField(5, "a", INT), DataField(6, "b", STRING)))
    new = RowType((DataField(6, "c", STRING), DataField(5, "a", BIGINT), DataField(9, "d", INT)))
    rows = [{"a": 1, "b": "x"}, None, {"a": None, "b": None}]
    want = [{"c": "x", "a": 1, "d": None}, None, {"c": None, "a": None, "d": None}]
    column = pa.array(rows, to_arrow_type(old))
    assert convert(column, old, new).to_pylist() == want
    assert convert(column.slice(1), old, new).to_pylist() == want[1:]
    lists = pa.array([rows, None, []], to_arrow_type(ArrayType(old)))
    assert convert(lists, ArrayType(old), ArrayType(new)).to_pylist() == [want, None, []]
    assert convert(lists.slice(1), ArrayType(old), ArrayType(new)).to_pylist() == [None, []]
    maps = pa.array([[("k", rows[0])], None], to_arrow_type(MapType(STRING, old)))
    assert convert(maps, MapType(STRING, old), MapType(STRING, new)).to_pylist() == [[("k", want[0])], None]


def test_maps_in_the_columns_of_an_older_file_are_refused() -> None:
    empty = new_table({"k": "INT"})
    first = evolved(empty, *empty.schema.fields, DataField(1, "m", MapType(not_null(STRING), INT)))
    write_arrow(
        first,
        pa.table(
            {"k": pa.array([1], pa.int32()), "m": pa.array([[("a", 1)]], to_arrow_type(first.schema.field("m").type))}
        ),
    )
    second = evolved(first, *first.schema.fields)
    layout = {"fields.m.map.storage-layout": "shared-shredding"}
    second.file_io.delete(second.paths.schema(first.schema.id))
    assert second.schema_store.try_create(replace(first.schema, options=layout))
    with pytest.raises(UnsupportedError, match=r"'fields.m.map.storage-layout' = 'shared-shredding'"):
        read_arrow(second)
    assert read_arrow(second, columns=["k"]).to_pylist() == [{"k": 1}]


def test_partition_values_come_from_the_manifest() -> None:
    fields = [DataField(0, "p", INT), DataField(1, "v", STRING)]
    plan = plan_columns(fields, fields, {"p": 7})
    assert [f.name for f in plan.physical] == ["v"]
    assert plan.apply(pa.table({"v": ["x", "y"]})).to_pydict() == {"p": [7, 7], "v": ["x", "y"]}


def evolved(table: Table, *fields: DataField) -> Table:
    schema = replace(table.schema, id=table.schema.id + 1, fields=fields, highest_field_id=9)
    assert table.schema_store.try_create(schema)
    return table.with_schema(schema)


def test_a_table_reads_and_compacts_files_of_every_schema() -> None:
    first = new_table(
        {"k": "INT", "a": "INT", "b": "STRING"}, primary_key=["k"], options={"bucket": "1", "write-only": "true"}
    )
    write_arrow(first, pa.table({"k": [1, 2], "a": [10, 20], "b": ["x", "y"]}))
    k, a, b = first.schema.fields
    second = evolved(first, b, k, replace(a, name="wide", type=BIGINT), DataField(3, "fresh", INT))
    write_arrow(second, pa.table({"b": ["z"], "k": [2], "wide": [2**40], "fresh": [5]}))
    third = evolved(second, k, second.schema.field("wide"), DataField(4, "b", INT))
    write_arrow(third, pa.table({"k": [3], "wide": [3], "b": [33]}))
    want = [
        {"k": 1, "wide": 10, "b": None},
        {"k": 2, "wide": 2**40, "b": None},
        {"k": 3, "wide": 3, "b": 33},
    ]
    assert sorted(read_arrow(third).to_pylist(), key=lambda r: int(r["k"])) == want
    assert read_arrow(third, columns=["k"], predicate=Comparison("=", "wide", 10)).to_pylist() == [{"k": 1}]
    assert read_arrow(third, predicate=IsNull("b")).num_rows == 2
    assert read_arrow(third, version=1).to_pylist() == [{"k": 1, "a": 10, "b": "x"}, {"k": 2, "a": 20, "b": "y"}]
    execute_compaction(plan_compaction(third), LocalRunner())
    assert read_arrow(third).to_pylist() == want


@pytest.mark.parametrize(
    ("zone", "local"),
    [
        ("UTC", datetime(2024, 6, 1, 10)),
        ("Asia/Tokyo", datetime(2024, 6, 1, 19)),
        ("-03:30", datetime(2024, 6, 1, 6, 30)),
    ],
)
def test_timestamps_lose_their_zone_in_the_zone_of_the_reader(zone: str, local: datetime) -> None:
    instant, wall = parse_atomic("TIMESTAMP(3) WITH LOCAL TIME ZONE"), parse_atomic("TIMESTAMP(3)")
    column = pa.array([datetime(2024, 6, 1, 10), None], to_arrow_type(instant))
    assert convert(column, instant, wall, zone).to_pylist() == [local, None]
    assert convert(convert(column, instant, wall, zone), wall, instant, zone).equals(column)
    lists = pa.array([[datetime(2024, 6, 1, 10)]], to_arrow_type(ArrayType(instant)))
    assert convert(lists, ArrayType(instant), ArrayType(wall), zone).to_pylist() == [[local]]


def test_compaction_writes_what_its_zone_makes_of_older_files() -> None:
    instant = "TIMESTAMP(3) WITH LOCAL TIME ZONE"
    first = new_table({"k": "INT", "t": instant}, primary_key=["k"], options={"bucket": "1", "write-only": "true"})
    for k in (1, 2):
        stamp = pa.array([datetime(2024, 6, 1, 10)], to_arrow_type(parse_atomic(instant)))
        write_arrow(first, pa.table({"k": pa.array([k], pa.int32()), "t": stamp}))
    k_field, t_field = first.schema.fields
    second = evolved(first, k_field, replace(t_field, type=parse_atomic("TIMESTAMP(3)")))
    assert set(read_arrow(second)["t"].to_pylist()) == {datetime(2024, 6, 1, 10)}
    execute_compaction(plan_compaction(second.in_zone(ZoneInfo("Asia/Tokyo"))), LocalRunner())
    assert set(read_arrow(second)["t"].to_pylist()) == {datetime(2024, 6, 1, 19)}


def test_a_member_that_did_not_change_stays_as_it_is() -> None:
    counted = MultisetType(STRING)
    old = RowType((DataField(1, "a", INT), DataField(2, "m", counted)))
    new = RowType((DataField(1, "a", BIGINT), DataField(2, "m", counted)))
    column = pa.array([{"a": 1, "m": [("x", 2)]}, None], to_arrow_type(old))
    assert convert(column, old, new).to_pylist() == [{"a": 1, "m": [("x", 2)]}, None]


def test_a_change_without_a_cast_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="cannot be read as BOOLEAN"):
        convert(pa.array([1.5]), parse_atomic("DOUBLE"), parse_atomic("BOOLEAN"))
    with pytest.raises(UnsupportedError, match="cannot be read as"):
        convert(pa.array([[1]]), ArrayType(INT), RowType((DataField(1, "a", INT),)))

"""What a table refuses of the rows that it is given."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.core.table import Table
from paimon_spark.core.write.row_conversion import WriteRules, prepare_batch
from paimon_spark.engine.insert import write_arrow
from paimon_spark.errors import ArgumentError, ErrorKind
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.evolution import new_schema
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.types import ArrayType, DataField, DataType, MapType, MultisetType, RowType, parse_atomic
from paimon_spark.testing.tables import read_arrow

STAMP = parse_atomic("TIMESTAMP(6)")
NANOS = parse_atomic("TIMESTAMP(9) WITH LOCAL TIME ZONE")


def rules_for(t: DataType, *formats: str) -> WriteRules:
    return WriteRules("d.t", (DataField(0, "c", t),), True, None, (), formats)


def nested(t: DataType, numbers: list[int]) -> pa.Array:
    """Return one value of a type with these times inside."""
    times = pa.array(numbers, pa.int64()).cast(pa.timestamp("us"))
    ends = pa.array([0, len(numbers)], pa.int32())
    if isinstance(t, ArrayType):
        return pa.ListArray.from_arrays(ends, times)
    if isinstance(t, RowType):
        return pa.StructArray.from_arrays([nested(t.fields[0].type, numbers)], names=["x"])
    if isinstance(t, MapType):
        return pa.MapArray.from_arrays(ends, pa.array(range(len(numbers)), pa.int32()), times)
    return pa.MapArray.from_arrays(ends, times, pa.array([1] * len(numbers), pa.int32()))


NESTED = (
    ArrayType(STAMP),
    RowType((DataField(1, "x", ArrayType(STAMP)),)),
    MapType(parse_atomic("INT NOT NULL"), STAMP),
    MultisetType(parse_atomic("TIMESTAMP(6) NOT NULL")),
)


@pytest.mark.parametrize(
    ("t", "number", "said"),
    [
        (STAMP, -1, "59.999999"),
        (STAMP, -998_999, "59.001001"),
        (NANOS, -1, "59.999999999"),
        (NANOS, -500_000_001, "59.4"),
    ],
)
def test_orc_refuses_submillis_in_the_last_second_before_1970(t: DataType, number: int, said: str) -> None:
    unit = "us" if t is STAMP else "ns"
    rows = pa.table({"c": pa.array([5, None, number], pa.int64()).cast(pa.timestamp(unit))})
    with pytest.raises(ArgumentError, match=rf"'c' has the time 1969-12-31 23:59:{said}") as refused:
        prepare_batch(rows, rules_for(t, "parquet", "orc"))
    assert refused.value.kind is ErrorKind.VALUE_NOT_STORABLE
    assert prepare_batch(rows, rules_for(t, "parquet", "avro")).count == 3


@pytest.mark.parametrize("t", NESTED, ids=lambda t: type(t).__name__)
def test_orc_refuses_them_inside_other_values(t: DataType) -> None:
    with pytest.raises(ArgumentError, match=r"59\.999999"):
        prepare_batch(pa.table({"c": nested(t, [7, -1])}), rules_for(t, "orc"))
    both = pa.concat_arrays([nested(t, [-1]), nested(t, [7, -1000, -1_000_001])])
    assert prepare_batch(pa.table({"c": both}).slice(1), rules_for(t, "orc")).count == 1


ROW_OF_REQUIRED = RowType((DataField(1, "a", parse_atomic("INT NOT NULL")), DataField(2, "b", parse_atomic("STRING"))))


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_null_row_needs_no_value_for_its_members(file_format: str) -> None:
    nested = MapType(parse_atomic("STRING NOT NULL"), ArrayType(ROW_OF_REQUIRED))
    table = nested_table({"r": ROW_OF_REQUIRED, "m": nested}, file_format)
    rows = [
        {"r": None, "m": None},
        {"r": {"a": 1, "b": None}, "m": [("k", [None, {"a": 2, "b": "x"}])]},
        {"r": None, "m": [("k", None)]},
    ]
    write_arrow(table, pa.Table.from_pylist(rows, schema=read_arrow(table).schema))
    assert read_arrow(table).to_pylist() == rows


@pytest.mark.parametrize(
    ("row", "path"),
    [
        ({"r": {"a": None, "b": "x"}, "m": None}, "r.a"),
        ({"r": None, "m": [("k", [{"a": None, "b": "x"}])]}, "m.value.element.a"),
    ],
)
def test_a_null_in_a_required_member_is_refused(row: dict[str, Any], path: str) -> None:
    nested = MapType(parse_atomic("STRING NOT NULL"), ArrayType(ROW_OF_REQUIRED))
    table = nested_table({"r": ROW_OF_REQUIRED, "m": nested}, "parquet")
    given = [{"r": {"a": 1, "b": None}, "m": []}, row]
    with pytest.raises(ArgumentError, match=rf"Column '{path}' .* is NOT NULL, but 1 rows have no value"):
        write_arrow(table, pa.Table.from_pylist(given, schema=read_arrow(table).schema))


def nested_table(columns: dict[str, DataType], file_format: str) -> Table:
    fields = [DataField(i, name, t) for i, (name, t) in enumerate(columns.items())]
    schema = new_schema(fields, options={"file.format": file_format}, now_millis=0)
    table = Table.of(Identifier("db", "t"), "/warehouse/db.db/t", schema, InMemoryFileIO())
    assert table.schema_store.try_create(schema)
    return table


@pytest.mark.parametrize(
    ("t", "unit", "given", "kept"),
    [
        ("TIMESTAMP(3)", "us", [-1, -999, -1000, -1001, 1999], [-1, -1, -1, -2, 1]),
        ("TIMESTAMP(3)", "ns", [-1, -1_000_001, 1_999_999], [-1, -2, 1]),
        ("TIMESTAMP(6)", "ns", [-1, -1000, -1001], [-1, -1, -2]),
        ("TIMESTAMP(9)", "us", [-1, 1], [-1000, 1000]),
        ("TIMESTAMP(3)", "us", [1_729_989_000_123_456, 1_729_992_600_123_456], [1_729_989_000_123, 1_729_992_600_123]),
    ],
)
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_fractions_that_a_column_lacks_are_cut_downwards(
    t: str, unit: str, given: list[int], kept: list[int], zone: str | None
) -> None:
    column = parse_atomic(t if zone is None else f"{t} WITH LOCAL TIME ZONE")
    rows = pa.table({"c": pa.array([*given, None], pa.int64()).cast(pa.timestamp(unit, zone))})
    found = prepare_batch(rows, rules_for(column, "parquet")).columns.column("c")
    assert found.cast(pa.int64()).to_pylist() == [*kept, None]


@pytest.mark.parametrize("t", [NESTED[0], NESTED[1], NESTED[2]], ids=lambda t: type(t).__name__)
def test_fractions_inside_other_values_are_cut_alike(t: DataType) -> None:
    coarse = parse_atomic("TIMESTAMP(3)")
    wanted = {
        ArrayType: ArrayType(coarse),
        RowType: RowType((DataField(1, "x", ArrayType(coarse)),)),
        MapType: MapType(parse_atomic("INT NOT NULL"), coarse),
    }[type(t)]
    given, whole = nested(t, [-1001, 7, -1, 2000]), nested(t, [-2000, 0, -1000, 2000])
    both = pa.concat_arrays([nested(t, [5]), given, pa.nulls(1, given.type), given.slice(0, 0)])
    found = prepare_batch(pa.table({"c": both}).slice(1), rules_for(wanted, "parquet")).columns.column("c")
    assert found.to_pylist() == [*whole.to_pylist(), None]

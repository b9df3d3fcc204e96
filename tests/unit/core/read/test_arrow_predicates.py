"""Filters over rows that were really written: what the statistics and the exact filter must agree on."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.core.arrow import arrow_scalar
from paimon_spark.core.read.arrow_predicates import to_expression
from paimon_spark.engine.insert import write_arrow
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.spec.predicate import Comparison, InList, Not, Operator, Predicate
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.types import DataField, parse_atomic
from paimon_spark.testing.tables import new_table, read_arrow


def kept(column_type: str, values: list[Any], predicate: Predicate, **options: str) -> list[int]:
    """Return which of `values`, numbered by column k, satisfy a filter over column v."""
    table = new_table({"k": "INT", "v": column_type}, options={n.replace("_", "."): o for n, o in options.items()})
    t = table.schema.field("v").type
    column = pa.array([arrow_scalar(v, t) for v in values], to_arrow_type(t))
    write_arrow(table, pa.table({"k": pa.array(range(len(values)), pa.int32()), "v": column}))
    return sorted(read_arrow(table, columns=["k"], predicate=predicate).column("k").to_pylist())


BETWEEN: list[tuple[Operator, list[int]]] = [
    ("<", [0, 1]),
    ("<=", [0, 1]),
    (">", [2]),
    (">=", [2]),
    ("=", []),
    ("<=>", []),
    ("!=", [0, 1, 2]),
]


@pytest.mark.parametrize(("op", "wanted"), BETWEEN)
def test_a_literal_finer_than_its_column_lies_between_two_values(op: Operator, wanted: list[int]) -> None:
    times = [Timestamp(-1, 0), Timestamp(5, 0), Timestamp(6, 0), None]
    assert kept("TIMESTAMP(3)", times, Comparison(op, "v", Timestamp(5, 400_000))) == wanted
    prices = [Decimal("-1.00"), Decimal("1.00"), Decimal("1.01"), None]
    assert kept("DECIMAL(10,2)", prices, Comparison(op, "v", Decimal("1.005"))) == wanted


def test_a_list_of_literals_finer_than_their_column() -> None:
    times = [Timestamp(5, 0), Timestamp(6, 0), None]
    finer = (Timestamp(5, 400_000), Timestamp(6, 0))
    assert kept("TIMESTAMP(3)", times, InList("v", finer)) == [1]
    assert kept("TIMESTAMP(3)", times, InList("v", finer[:1])) == []
    assert kept("TIMESTAMP(3)", times, InList("v", finer, negated=True)) == [0]


@pytest.mark.parametrize(
    ("value", "below"), [(Timestamp(-62_135_596_800_000, 0), True), (Timestamp(253_402_300_799_999, 999_999), False)]
)
def test_literals_out_of_the_range_of_their_column(value: Timestamp, below: bool) -> None:
    times = [Timestamp(-1, 1), Timestamp(5, 0), None]
    every, none = [0, 1], list[int]()
    for op in (">", ">="):
        assert kept("TIMESTAMP(9)", times, Comparison(op, "v", value)) == (every if below else none)
    for op in ("<", "<="):
        assert kept("TIMESTAMP(9)", times, Comparison(op, "v", value)) == (none if below else every)
    assert kept("TIMESTAMP(9)", times, Comparison("=", "v", value)) == none
    assert kept("TIMESTAMP(9)", times, Comparison("!=", "v", value)) == every
    assert kept("TIMESTAMP(9)", times, InList("v", (value, times[1]))) == [1]
    assert kept("TIMESTAMP(9)", times, Not(Comparison("<=>", "v", value))) == [0, 1, 2]


def test_zero_in_a_list_is_also_minus_zero() -> None:
    values = [0.0, -0.0, 1.0, float("nan"), None]
    assert kept("DOUBLE", values, InList("v", (-0.0,))) == [0, 1]
    assert kept("DOUBLE", values, InList("v", (0.0, 1.0))) == [0, 1, 2]
    assert kept("DOUBLE", values, Not(InList("v", (-0.0, 1.0)))) == [3]


def test_a_list_of_nulls_holds_nothing() -> None:
    for column_type, value in (("STRING", "a"), ("INT", 1), ("DATE", 1)):
        assert kept(column_type, [value, None], InList("v", (None,))) == []
        assert kept(column_type, [value, None], InList("v", (None,), negated=True)) == []


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("literal", ["ab", "ab  "])
def test_blanks_at_the_end_of_a_char_do_not_count(file_format: str, literal: str) -> None:
    values = ["ab  ", "ab", "abc ", None]
    assert kept("CHAR(4)", values, Comparison("=", "v", literal), file_format=file_format) == [0, 1]
    assert kept("CHAR(4)", values, InList("v", (literal,)), file_format=file_format) == [0, 1]
    assert kept("CHAR(4)", values, Comparison("<", "v", literal), file_format=file_format) == []
    assert kept("CHAR(4)", values, Comparison(">", "v", literal), file_format=file_format) == [2]
    assert kept("CHAR(4)", ["ab  "], Comparison("<=>", "v", literal), file_format=file_format) == [0]


@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, math.nan])
def test_a_partition_value_is_exactly_one_number(value: float) -> None:
    column = pa.table({"c": pa.array([0.0, -0.0, 1.5, math.nan, None])})
    fields = {"c": DataField(0, "c", parse_atomic("DOUBLE"))}
    test = Comparison("is", "c", value)
    same = [i for i, v in enumerate([0.0, -0.0, 1.5, math.nan, None]) if repr(v) == repr(value)]
    for negated in (False, True):
        kept = column.append_column("i", pa.array(range(5))).filter(to_expression(test, fields, negated=negated))
        assert kept["i"].to_pylist() == ([i for i in range(5) if i not in same] if negated else same)

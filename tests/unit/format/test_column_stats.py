"""Statistics gathered while writing."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.format.column_stats import StatsCollector
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.stats import UNKNOWN, ColumnStats, StatsMode
from paimon_spark.spec.types import DataField, parse_atomic


def collect(text: str, mode: str, *batches: list[Any]) -> ColumnStats:
    t = parse_atomic(text)
    collector = StatsCollector([DataField(0, "x", t)], [StatsMode.parse(mode)])
    for values in batches:
        array = pa.array(values, pa.int32() if text.startswith(("DATE", "TIME(")) else None)
        if array.type != to_arrow_type(t):
            array = array.cast(to_arrow_type(t))
        collector.update(pa.table({"x": array}))
    return collector.result()[0]


@pytest.mark.parametrize(
    ("text", "batches", "expected"),
    [
        ("INT", [[3, None], [], [1, 2]], ColumnStats(1, 3, 1)),
        ("BOOLEAN", [[True, False]], ColumnStats(False, True, 0)),
        ("DATE", [[-5, 7]], ColumnStats(-5, 7, 0)),
        ("TIME(3)", [[5, 86399999]], ColumnStats(5, 86399999, 0)),
        ("TIMESTAMP(3)", [[-1, 5]], ColumnStats(Timestamp(-1, 0), Timestamp(5, 0), 0)),
        ("TIMESTAMP(6)", [[-1, 1001]], ColumnStats(Timestamp(-1, 999000), Timestamp(1, 1000), 0)),
        ("TIMESTAMP(9)", [[-1, 1_000_001]], ColumnStats(Timestamp(-1, 999999), Timestamp(1, 1), 0)),
        ("DECIMAL(5, 2)", [[Decimal("1.50"), Decimal("-2.25")]], ColumnStats(Decimal("-2.25"), Decimal("1.50"), 0)),
        ("STRING", [["b", "é"], ["a"]], ColumnStats("a", "é", 0)),
        ("BYTES", [[b"\xff", b"\x00"]], ColumnStats(b"\x00", b"\xff", 0)),
        ("DOUBLE", [[1.5, None]], ColumnStats(1.5, 1.5, 1)),
        ("DOUBLE", [[1.5], [float("nan")], [7.0]], ColumnStats(None, None, 0)),
    ],
)
def test_full_statistics_have_exact_bounds(text: str, batches: list[list[Any]], expected: ColumnStats) -> None:
    assert collect(text, "full", *batches) == expected


@pytest.mark.parametrize("values", [[0.0], [-0.0], [0.0, -0.0], [-0.0, 0.0]])
@pytest.mark.parametrize("text", ["FLOAT", "DOUBLE"])
def test_zeros_are_within_bounds_of_both_signs(text: str, values: list[float]) -> None:
    found = collect(text, "full", values)
    assert [math.copysign(1, bound) for bound in (found.min, found.max)] == [-1, 1]


def test_modes() -> None:
    long = ["z" * 30, "abcdefgh" * 4, None]
    assert collect("STRING", "truncate(16)", long) == ColumnStats("abcdefgh" * 2, "z" * 15 + "{", 1)
    assert collect("STRING", "counts", long) == ColumnStats(None, None, 1)
    assert collect("STRING", "none", long) == UNKNOWN


def test_all_null_and_no_rows() -> None:
    assert collect("INT", "full", [None, None]) == ColumnStats(None, None, 2)
    assert collect("INT", "full") == ColumnStats(None, None, 0)

"""Statistics files of ANALYZE TABLE."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.bounds import LEAST_MILLIS, MOST_MILLIS
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.table_statistics import (
    ColumnStatistics,
    TableStatistics,
    parse_statistics,
    statistics_text,
    statistics_value,
)
from paimon_spark.spec.types import parse_atomic

FULL = TableStatistics(
    snapshot_id=3,
    schema_id=1,
    merged_record_count=5,
    merged_record_size=100,
    col_stats={
        "k": ColumnStatistics(col_id=0, distinct_count=5, min="1", max="9", null_count=0, avg_len=4, max_len=4),
        "s": ColumnStatistics(col_id=1),
    },
)


def test_a_file_says_what_was_written() -> None:
    assert parse_statistics(FULL.to_json(), "f") == FULL
    plain = json.loads(FULL.to_json())
    assert list(plain) == ["snapshotId", "schemaId", "mergedRecordCount", "mergedRecordSize", "colStats"]
    assert plain["colStats"]["s"] == {"colId": 1}
    empty = TableStatistics(snapshot_id=1, schema_id=0)
    assert parse_statistics(empty.to_json(), "f") == empty


def test_the_shown_text_is_that_of_paimon() -> None:
    assert TableStatistics(snapshot_id=1, schema_id=0).columns_json == "{ }"
    one = TableStatistics(snapshot_id=1, schema_id=0, col_stats={"k": ColumnStatistics(col_id=0, min="1")})
    assert one.columns_json == '{\n  "k" : {\n    "colId" : 0,\n    "min" : "1"\n  }\n}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"snapshotId": 1}',
        '{"snapshotId": "x", "schemaId": 0}',
        '{"snapshotId": 1, "schemaId": 0, "colStats": []}',
        '{"snapshotId": 1, "schemaId": 0, "colStats": {"k": 1}}',
        '{"snapshotId": 1, "schemaId": 0, "colStats": {"k": {}}}',
        '{"snapshotId": 1, "schemaId": 0, "colStats": {"k": null}}',
        '{"snapshotId": 1, "schemaId": 0, "colStats": {"k": {"colId": 0, "min": 1}}}',
    ],
)
def test_a_malformed_file_is_named(text: str) -> None:
    with pytest.raises(CorruptTableError, match="stat-1"):
        parse_statistics(text, "/t/statistics/stat-1")


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, "INT", None),
        (-7, "BIGINT", "-7"),
        (19723, "DATE", "19723"),
        (True, "BOOLEAN", "true"),
        (False, "BOOLEAN", "false"),
        (-2.5, "DOUBLE", "-2.5"),
        (1e22, "DOUBLE", "1.0E22"),
        (float("inf"), "FLOAT", "Infinity"),
        (Timestamp(1_704_103_200_000), "TIMESTAMP(0)", "2024-01-01 10:00:00"),
        (Decimal("-7.00"), "DECIMAL(8, 2)", "-7.00"),
        (Timestamp(1_704_103_200_000), "TIMESTAMP(3)", "2024-01-01 10:00:00.000"),
        (Timestamp(1_704_103_201_000), "TIMESTAMP(3)", "2024-01-01 10:00:01.000"),
        (Timestamp(1_704_103_200_500), "TIMESTAMP(6)", "2024-01-01 10:00:00.500000"),
        (Timestamp(1_704_103_200_500, 7000), "TIMESTAMP(6)", "2024-01-01 10:00:00.500007"),
        (Timestamp(-1), "TIMESTAMP(3)", "1969-12-31 23:59:59.999"),
    ],
)
def test_bounds_are_texts(value: object, kind: str, text: str | None) -> None:
    assert statistics_text(value, parse_atomic(kind)) == text
    assert statistics_value(text, parse_atomic(kind)) == value


@pytest.mark.parametrize(
    ("text", "kind"), [("x", "INT"), ("x", "TIMESTAMP(3)"), ("2", "BOOLEAN"), ("x", "DECIMAL(8, 2)")]
)
def test_a_text_of_another_type_is_no_bound(text: str, kind: str) -> None:
    assert statistics_value(text, parse_atomic(kind)) is None


@given(st.integers(LEAST_MILLIS, MOST_MILLIS), st.integers(0, 999))
def test_timestamps_survive_their_text(millis: int, micros: int) -> None:
    value = Timestamp(millis, micros * 1000)
    kind = parse_atomic("TIMESTAMP(6)")
    assert statistics_value(statistics_text(value, kind), kind) == value


def test_values_that_paimon_cannot_parse_are_left_out() -> None:
    assert statistics_text(Timestamp(253_402_300_800_000), parse_atomic("TIMESTAMP(3)")) is None
    assert statistics_text(float("nan"), parse_atomic("DOUBLE")) == "NaN"

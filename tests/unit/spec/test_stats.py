"""Column statistics: modes, truncation, and views through another schema."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import CorruptTableError, OptionError
from paimon_spark.spec.manifest import DataFileMeta, SimpleStats
from paimon_spark.spec.rows import Timestamp, encode_row
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.stats import (
    ColumnStats,
    StatsMode,
    comparable_stats,
    keeps_order,
    key_stats_view,
    stats_view,
    truncate_max,
    truncate_stats,
)
from paimon_spark.spec.types import DataField, not_null, parse_atomic


def test_modes() -> None:
    assert StatsMode.parse("truncate(16)") == StatsMode(length=16)
    assert StatsMode.parse(" FULL ") == StatsMode()
    assert StatsMode.parse("counts") == StatsMode(bounds=False)
    assert not StatsMode.parse("none").collects
    for bad in ("", "truncate", "truncate(0)", "all"):
        with pytest.raises(OptionError, match="statistics mode"):
            StatsMode.parse(bad)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("z" * 30, "z" * 15 + "{"),
        ("short", "short"),
        ("a" + "\U0010ffff" * 20, "b"),
        ("\U0010ffff" * 20, None),
        ("x" * 15 + "\ud7ff" + "y", "x" * 15 + "\ue000"),
        (b"\x01" + b"\xff" * 20, b"\x02"),
        (b"\xff" * 20, None),
    ],
)
def test_cut_maximum(value: Any, expected: Any) -> None:
    assert truncate_max(value, 16) == expected


def test_what_is_stored() -> None:
    cut = StatsMode(length=2)
    assert truncate_stats(ColumnStats("abc", "abz", 1), cut) == ColumnStats("ab", "ac", 1)
    assert truncate_stats(ColumnStats("abc", "\U0010ffff" * 3, 1), cut) == ColumnStats(None, None, 1)
    assert truncate_stats(ColumnStats(1, 10**9, 1), cut) == ColumnStats(1, 10**9, 1)
    assert truncate_stats(ColumnStats(1, 2, 3), StatsMode.parse("counts")) == ColumnStats(None, None, 3)
    assert truncate_stats(ColumnStats(1, 2, 3), StatsMode.parse("none")) == ColumnStats()


@given(st.text(min_size=1), st.integers(1, 5))
def test_a_cut_maximum_is_not_smaller(text: str, length: int) -> None:
    cut = truncate_max(text, length)
    assert cut is None or cut >= text


def _schema(schema_id: int, *fields: tuple[int, str, str], keys: tuple[str, ...] = ()) -> TableSchema:
    columns = tuple(DataField(i, n, parse_atomic(t)) for i, n, t in fields)
    return TableSchema(id=schema_id, fields=columns, highest_field_id=9, primary_keys=keys)


def _file(types: list[str], low: list[Any], high: list[Any], nulls: list[int | None], **more: Any) -> DataFileMeta:
    parsed = [parse_atomic(t) for t in types]
    stats = SimpleStats(encode_row(low, parsed), encode_row(high, parsed), tuple(nulls))
    return DataFileMeta(
        file_name="f",
        file_size=1,
        row_count=10,
        min_sequence_number=0,
        max_sequence_number=0,
        schema_id=0,
        level=0,
        value_stats=stats,
        key_stats=stats,
        **more,
    )


_CHARS = st.lists(st.tuples(st.text("a \t\0b", max_size=4), st.booleans()), min_size=1, max_size=4)


@given(stored=_CHARS, mode=st.sampled_from(["full", "truncate(1)", "truncate(2)"]))
def test_bounds_of_a_char_are_those_of_its_values_without_blanks(stored: list[tuple[str, bool]], mode: str) -> None:
    values = [text.rstrip(" ") for text, _ in stored]
    written = [v.ljust(4) if padded else v for v, (_, padded) in zip(values, stored, strict=True)]
    kept = truncate_stats(ColumnStats(min(written), max(written), 0), StatsMode.parse(mode))
    found = comparable_stats(kept, parse_atomic("CHAR(4)"))
    assert all(found.min is None or found.min <= v for v in values)
    assert all(found.max is None or v <= found.max for v in values)


def test_a_view_follows_field_ids() -> None:
    old = _schema(0, (0, "a", "INT"), (1, "b", "STRING"), (2, "c", "INT"))
    new = _schema(1, (1, "b2", "STRING"), (0, "a", "BIGINT"), (3, "c", "INT"))
    file = _file(["INT", "STRING", "INT"], [1, "x", 5], [9, "y", 6], [0, None, 0])
    assert dict(stats_view(file, old, new)) == {
        "b2": ColumnStats("x", "y", None),
        "a": ColumnStats(1, 9, 0),
        "c": ColumnStats(None, None, 10),
    }


def test_a_view_of_dense_and_missing_statistics() -> None:
    schema = _schema(0, (0, "a", "INT"), (1, "b", "STRING"))
    dense = _file(["STRING"], ["x"], ["y"], [2], value_stats_cols=("b",))
    view = stats_view(dense, schema, schema)
    assert list(view) == ["b"]
    assert view["b"] == ColumnStats("x", "y", 2)
    assert dict(stats_view(_file([], [], [], []), schema, schema)) == {"a": ColumnStats(), "b": ColumnStats()}


def test_bounds_of_an_altered_type_are_not_used() -> None:
    old, new = _schema(0, (0, "a", "INT")), _schema(1, (0, "a", "STRING"))
    assert stats_view(_file(["INT"], [5], [10], [0]), old, new)["a"] == ColumnStats()


def test_malformed_bounds_of_timestamps_are_unknown() -> None:
    schema = _schema(0, (0, "n", "BIGINT"), (1, "t", "TIMESTAMP(6)"))
    low, high = Timestamp(-1577, 0), Timestamp(1_704_164_645_123, 0)
    view = stats_view(_file(["BIGINT", "TIMESTAMP(3)"], [1, low], [2, high], [0, 3]), schema, schema)
    assert dict(view) == {"n": ColumnStats(1, 2, 0), "t": ColumnStats(None, None, 3)}
    wide = _schema(0, (0, "n", "BIGINT"), (1, "t", "DECIMAL(30, 0)"))
    with pytest.raises(CorruptTableError, match="malformed"):
        dict(stats_view(_file(["BIGINT", "BIGINT"], [1, -1], [2, -1], [0, 3]), wide, wide))


def test_key_view() -> None:
    old = _schema(0, (0, "v", "INT"), (1, "k", "INT NOT NULL"), keys=("k",))
    new = _schema(1, (0, "v", "INT"), (1, "k2", "INT NOT NULL"), keys=("k2",))
    assert dict(key_stats_view(_file(["INT"], [1], [2], [0]), old, new)) == {"k2": ColumnStats(1, 2, 0)}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("INT", "BIGINT", True),
        ("BIGINT", "INT", False),
        ("INT", "DOUBLE", True),
        ("BIGINT", "DOUBLE", False),
        ("INT", "STRING", False),
        ("VARCHAR(5)", "STRING", True),
        ("STRING", "VARCHAR(5)", False),
        ("DECIMAL(5, 2)", "DECIMAL(9, 2)", True),
        ("DECIMAL(5, 2)", "DECIMAL(9, 3)", False),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", True),
        ("TIMESTAMP(6)", "TIMESTAMP(3)", False),
        ("FLOAT", "DOUBLE", True),
        ("DATE", "DATE", True),
        ("CHAR(3)", "CHAR(5)", False),
    ],
)
def test_types_whose_bounds_carry_over(old: str, new: str, expected: bool) -> None:
    assert keeps_order(parse_atomic(old), not_null(parse_atomic(new))) is expected


def test_decimal_bounds() -> None:
    schema = _schema(0, (0, "a", "DECIMAL(20, 2)"))
    file = _file(["DECIMAL(20, 2)"], [Decimal("1.50")], [Decimal("2.25")], [0])
    assert stats_view(file, schema, schema)["a"] == ColumnStats(Decimal("1.50"), Decimal("2.25"), 0)

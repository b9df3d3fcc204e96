"""Defaults of columns as text."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from paimon_spark.errors import PaimonError
from paimon_spark.spec.defaults import check_default, parse_default, sql_default
from paimon_spark.spec.evolution import UpdateColumnDefault, apply_changes, new_schema
from paimon_spark.spec.types import STRING, ArrayType, DataField, DataType, MapType, RowType, parse_atomic

INT = parse_atomic("INT")
ROW = RowType((DataField(0, "a", INT), DataField(1, "b", STRING)))


def typed(t: str | DataType) -> DataType:
    return parse_atomic(t) if isinstance(t, str) else t


@pytest.mark.parametrize(
    ("text", "t", "value"),
    [
        ("'dv'", "STRING", "dv"),
        ("dv", "STRING", "dv"),
        ("''", "STRING", ""),
        ("'it''s'", "STRING", "it's"),
        (r"'it\'s'", "STRING", "it's"),
        ('"x"', "STRING", "x"),
        ("' x '", "STRING", " x "),
        ("7", "INT", 7),
        ("'7'", "INT", 7),
        ("-1.50", "DECIMAL(5, 2)", Decimal("-1.50")),
        ("1.5D", "DOUBLE", 1.5),
        ("TRUE", "BOOLEAN", True),
        ("'1970-01-02'", "DATE", 1),
        ("null", "STRING", None),
        ("ARRAY(1, NULL, 3)", ArrayType(INT), (1, None, 3)),
        ("array('a,b', ')')", ArrayType(STRING), ("a,b", ")")),
        ("[]", ArrayType(INT), ()),
        ("array(array(1), array())", ArrayType(ArrayType(INT)), ((1,), ())),
        ("MAP('a', 1, 'b', NULL)", MapType(STRING, INT), (("a", 1), ("b", None))),
        ("{a -> 1, b -> 2}", MapType(STRING, INT), (("a", 1), ("b", 2))),
        ("STRUCT(1, 'x')", ROW, (1, "x")),
        ("{1, x}", ROW, (1, "x")),
    ],
)
def test_the_text_of_a_default_is_a_literal(text: str, t: str | DataType, value: Any) -> None:
    assert parse_default(text, typed(t)) == value


@pytest.mark.parametrize(
    ("text", "t"),
    [
        ("concat('a', 'b')", "STRING"),
        ("current_user", "STRING"),
        ("'a' || 'b'", "STRING"),
        ("1 + 1", "INT"),
        ("current_date()", "DATE"),
        ("x", "INT"),
        ("1", ArrayType(INT)),
        ("ARRAY('x')", ArrayType(INT)),
        ("MAP('a')", MapType(STRING, INT)),
        ("MAP(NULL, 1)", MapType(STRING, INT)),
        ("STRUCT(1)", ROW),
    ],
)
def test_expressions_and_other_values_are_no_defaults(text: str, t: str | DataType) -> None:
    with pytest.raises(PaimonError, match="is not a value of type"):
        check_default(text, typed(t))


@pytest.mark.parametrize(
    ("text", "t", "sql"),
    [
        ("dv", "STRING", "'dv'"),
        ("it's", "STRING", r"'it\'s'"),
        ("'x'", "STRING", "'x'"),
        ("5", "STRING", "5"),
        ("'2024-05-14'", "DATE", "DATE '2024-05-14'"),
        ("2024-05-14 10:20:30", "TIMESTAMP(6)", "TIMESTAMP_NTZ '2024-05-14 10:20:30'"),
        ("NULL", "DATE", "NULL"),
        ("7", "INT", "7"),
        ("ARRAY(1)", ArrayType(INT), "ARRAY(1)"),
    ],
)
def test_sql_sees_a_default_in_the_type_of_the_column(text: str, t: str | DataType, sql: str) -> None:
    assert sql_default(text, typed(t)) == sql


def test_the_default_null_is_none() -> None:
    schema = new_schema([DataField(0, "a", INT, None, "NULL"), DataField(0, "b", INT, None, "5")], now_millis=0)
    assert [f.default_value for f in schema.fields] == [None, "5"]
    dropped = apply_changes(schema, [UpdateColumnDefault(("b",), "null")], 1, has_snapshots=True)
    assert dropped.field("b").default_value is None


def test_a_member_has_no_default() -> None:
    schema = new_schema([DataField(0, "r", ROW)], now_millis=0)
    with pytest.raises(PaimonError, match="cannot have a default"):
        apply_changes(schema, [UpdateColumnDefault(("r", "a"), "5")], 1, has_snapshots=True)

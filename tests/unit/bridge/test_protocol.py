"""The messages between the JVM and the engine."""

from __future__ import annotations

import dataclasses
import json
from decimal import Decimal

import pytest

from paimon_spark.bridge.protocol import (
    VERSION,
    compared,
    failed,
    parse_request,
    predicate_from_jvm,
    scan_predicate,
)
from paimon_spark.bridge.tables import TableToken
from paimon_spark.errors import EngineError, ErrorKind, NotFoundError
from paimon_spark.spark.values import value_from_jvm, value_to_jvm
from paimon_spark.spec.predicate import TRUE, And, Comparison, InList, IsNull, Not, Operator, StartsWith, evaluate
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import DataField, type_from_json

SCHEMA = TableSchema(
    id=0,
    fields=(DataField(0, "a", type_from_json("INT")), DataField(1, "s", type_from_json("STRING"))),
    highest_field_id=1,
)


def request(version: int) -> str:
    body = {"version": version, "session": "s", "conf": {}, "catalog": {"name": "c", "options": {}}, "args": {"x": 1}}
    return "load_table\n" + json.dumps(body)


def test_a_request_has_a_method_and_checked_arguments() -> None:
    method, envelope = parse_request(request(VERSION))
    assert (method, envelope.args, envelope.catalog.name) == ("load_table", {"x": 1}, "c")


def test_another_protocol_is_refused() -> None:
    with pytest.raises(EngineError, match=f"protocol {VERSION + 1}"):
        parse_request(request(VERSION + 1))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": "2"}, "Expected `int`, got `str`"),
        ({"conf": {"k": 1}}, "Expected `str`, got `int`"),
        ({"catalog": {"name": "c"}}, "missing required field `options`"),
        ({"args": None}, "Expected `object`, got `null`"),
    ],
)
def test_a_malformed_request_is_refused(changes: dict[str, object], said: str) -> None:
    method, _, body = request(VERSION).partition("\n")
    with pytest.raises(EngineError, match=f"The request 'load_table' is malformed: .*{said}"):
        parse_request(f"{method}\n{json.dumps(json.loads(body) | changes)}")


@pytest.mark.parametrize("text", ["", "load_table", "load_table\n", "load_table\n[]", "load_table\n{"])
def test_what_is_no_request_is_refused(text: str) -> None:
    with pytest.raises(EngineError, match="is malformed"):
        parse_request(text)


def test_a_token_is_checked() -> None:
    token = TableToken("d", "t", 3, snapshot=7, writes=True)
    assert TableToken.of(token.plain | {"kind": "data"}) == token
    with pytest.raises(EngineError, match="`schema_id`"):
        TableToken.of({"database": "d", "name": "t"})


def test_errors_carry_their_code() -> None:
    answer = json.loads(failed(NotFoundError("gone", kind=ErrorKind.TAG_NOT_FOUND)))
    assert answer["error"] == {"code": "TAG_NOT_FOUND", "message": "[TAG_NOT_FOUND] gone"}


def test_predicates_become_the_engines() -> None:
    raw = {
        "op": "and",
        "parts": [
            {"op": ">=", "column": "a", "value": "3"},
            {"op": "in", "column": "s", "values": ["x", None]},
            {"op": "not", "parts": [{"op": "starts_with", "column": "s", "value": "p"}]},
            {"op": "not_null", "column": "a"},
        ],
    }
    assert predicate_from_jvm(raw, SCHEMA) == And(
        (Comparison(">=", "a", 3), InList("s", ("x", None)), Not(StartsWith("s", "p")), IsNull("a", negated=True))
    )


def test_a_conjunct_over_a_column_of_no_table_is_left_to_spark() -> None:
    kind = {"op": "=", "column": "rowkind", "value": "+I"}
    known = {"op": "=", "column": "a", "value": "1"}
    assert predicate_from_jvm({"op": "and", "parts": [kind, known]}, SCHEMA) == Comparison("=", "a", 1)
    assert predicate_from_jvm({"op": "not", "parts": [kind]}, SCHEMA) == TRUE
    assert predicate_from_jvm({"op": "or", "parts": [kind, known]}, SCHEMA) == TRUE


def test_a_filter_on_nanoseconds_is_left_to_spark() -> None:
    columns = (
        *SCHEMA.fields,
        DataField(2, "t", type_from_json("TIMESTAMP(9)")),
        DataField(3, "u", type_from_json("TIMESTAMP(6)")),
    )
    schema = dataclasses.replace(SCHEMA, fields=columns)
    known = {"op": "=", "column": "a", "value": "1"}
    for op in ("=", "<=", "not_null"):
        cut = {"op": op, "column": "t", "value": "5"}
        assert scan_predicate({"op": "and", "parts": [cut, known]}, schema) == Comparison("=", "a", 1)
        assert scan_predicate({"op": "or", "parts": [cut, known]}, schema) == TRUE
    assert scan_predicate({"op": "=", "column": "u", "value": "5"}, schema) == Comparison("=", "u", Timestamp(0, 5000))
    assert scan_predicate(None, schema) == TRUE


@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">=", "<=>"])
@pytest.mark.parametrize("nanos", [0, 1, 999, 1_000, 1_999, 2_000, 998_999, 999_000, 999_999])
def test_nanoseconds_compare_as_the_microseconds_that_spark_sees(op: Operator, nanos: int) -> None:
    stored = Timestamp(-1, nanos)
    seen = Timestamp(-1, nanos - nanos % 1_000)
    for value in (Timestamp(-1, 1_000), Timestamp(-1, 999_000)):
        wanted = evaluate(Comparison(op, "t", value), {"t": seen})
        found = compared(op, "t", value, type_from_json("TIMESTAMP(9)"))
        assert evaluate(found, {"t": stored}) is wanted
        assert evaluate(found, {"t": None}) is evaluate(Comparison(op, "t", value), {"t": None})
        assert compared(op, "t", value, type_from_json("TIMESTAMP(6)")) == Comparison(op, "t", value)


@pytest.mark.parametrize(
    ("text", "paimon", "value"),
    [
        ("-5", "DATE", -5),
        ("true", "BOOLEAN", True),
        ("1.50", "DECIMAL(5, 2)", Decimal("1.50")),
        ("-1", "TIMESTAMP(6)", Timestamp(-1, 999000)),
        ("AQI=", "BYTES", b"\x01\x02"),
        ("x", "STRING", "x"),
        (None, "INT", None),
    ],
)
def test_values_go_both_ways(text: str | None, paimon: str, value: object) -> None:
    assert value_from_jvm(text, type_from_json(paimon)) == value
    assert value_to_jvm(value) == text


@pytest.mark.parametrize("text", ["Infinity", "-Infinity", "NaN", "0.0", "-0.0", "4.9E-324", "1.7976931348623157E308"])
def test_floating_point_numbers_are_spelt_as_the_jvm_reads_them(text: str) -> None:
    value = value_from_jvm(text, type_from_json("DOUBLE"))
    assert value_to_jvm(value) == text
    assert value_to_jvm(value_from_jvm(value_to_jvm(value), type_from_json("DOUBLE"))) == text


def test_numbers_of_single_width_reach_the_jvm_and_come_back() -> None:
    for text in ("1.4E-45", "3.4028235E38", "0.1", "-1.0E10"):
        single = value_from_jvm(text, type_from_json("FLOAT"))
        assert value_from_jvm(value_to_jvm(single), type_from_json("FLOAT")) == single

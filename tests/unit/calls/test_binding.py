from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paimon_spark.calls.binding import bind, literal_of
from paimon_spark.calls.procedure import Param, ParamType, PositionalOverload, Procedure
from paimon_spark.errors import ArgumentError, ErrorKind
from paimon_spark.sqlparse.call import parse_call

PROC = Procedure(
    name="demo",
    summary="",
    params=(
        Param("table", ParamType.STRING, "", required=True),
        Param("tag", ParamType.STRING, "", required=True, aliases=("tagName",)),
        Param("snapshot_id", ParamType.BIGINT, "", aliases=("snapshot",)),
        Param("n", ParamType.INT, ""),
        Param("force", ParamType.BOOLEAN, ""),
        Param("extra", ParamType.MAP, ""),
    ),
    columns=(),
    example="",
    body=None,
    forms=(
        PositionalOverload(("table", "tag", "snapshot_id"), name="by_id"),
        PositionalOverload(("table", "tag", "force"), name="by_flag"),
    ),
)


def call(arguments: Any) -> Any:
    statement = parse_call(f"CALL sys.demo({arguments})")
    return bind(PROC, statement.positional, statement.named)


def test_named_in_any_case_and_under_any_name() -> None:
    args = call("TABLE => 'a.b', `TagName` => 't', Snapshot => 5")
    assert args.values == {"table": "a.b", "tag": "t", "snapshot_id": 5}
    assert (args.text("table"), args.integer("snapshot_id"), args.integer("n"), args.flag("force")) == (
        "a.b",
        5,
        None,
        False,
    )


def test_read_only_procedures_have_no_dry_run() -> None:
    reading = replace(PROC, read_only=True)
    statement = parse_call("CALL sys.demo(table => 'a.b', tag => 't', dry_run => true)")
    assert bind(PROC, statement.positional, statement.named).dry_run
    with pytest.raises(ArgumentError, match=r"unknown argument 'dry_run'.*It changes nothing"):
        bind(reading, statement.positional, statement.named)


@pytest.mark.parametrize("absent", ["''", "NULL", "'  '"])
def test_blank_is_not_given(absent: Any) -> None:
    assert call(f"'a.b', 't', {absent}, {absent}").values == {"table": "a.b", "tag": "t"}


@pytest.mark.parametrize(
    ("source", "form", "values"),
    [
        ("7", "by_id", {"snapshot_id": 7}),
        ("'7'", "by_id", {"snapshot_id": 7}),
        ("true", "by_flag", {"force": True}),
        ("'TRUE'", "by_flag", {"force": True}),
        ("''", "by_id", {}),
    ],
)
def test_forms_of_one_length_are_told_apart_by_the_literals(source: Any, form: Any, values: Any) -> None:
    args = call(f"'a', 'b', {source}")
    assert args.form == form
    assert args.values == {"table": "a", "tag": "b", **values}


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("n => '12'", 12),
        ("n => -3", -3),
        ("n => 5S", 5),
        ("snapshot => 5L", 5),
        ("force => 'false'", False),
        ("extra => map('k', 1)", {"k": "1"}),
    ],
)
def test_casts(source: Any, value: Any) -> None:
    args = call(f"table => 'a', tag => 'b', {source}")
    assert list(args.values.values())[-1] == value


def test_anything_plain_is_text() -> None:
    assert call("table => 5, tag => DATE '2024-01-01'").values == {"table": "5", "tag": "2024-01-01"}


def test_dry_run_is_not_a_value() -> None:
    args = call("table => 'a', tag => 'b', dry_run => 'true'")
    assert args.dry_run
    assert "dry_run" not in args.values


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ("'a', tag => 'b'", "mixes positional and named"),
        ("'a', 'b', dry_run => true", "To see the plan, write EXPLAIN CALL"),
        ("1, 2, 3, 4, 5, NULL, true", "To see the plan, write EXPLAIN CALL"),
        ("table => 'a', Table => 'b', tag => 'c'", "names the argument 'table' twice."),
        ("table => 'a', tag => 'b', tagName => 'c'", "as 'tag' and as 'tagName'"),
        ("tabel => 'a'", "unknown argument 'tabel'. Did you mean 'table'?"),
        ("n => 1", "lacks the required arguments table, tag."),
        ("table => 'a', tag => ''", "lacks the required argument tag. An empty string or NULL counts as not given"),
        ("'a'", "lacks the required argument tag"),
        ("1, 2, 3, 4, 5, NULL, 7", "has 7 positional arguments, but takes at most 6"),
    ],
)
def test_one_clear_error_for_each_mistake(arguments: Any, part: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        call(arguments)
    assert part in str(caught.value)
    assert "Signature: sys.demo(table STRING, tag STRING, [snapshot_id BIGINT]" in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ("n => 'x'", ("'n'", "INT", "STRING value 'x'", "line 1, column")),
        ("n => 5L", ("'n'", "INT", "BIGINT value 5L")),
        ("n => 1.5", ("'n'", "INT", "DECIMAL value 1.5")),
        ("n => '3000000000'", ("'n'", "INT", "STRING")),
        (f"n => '{'5' * 5000}'", ("'n'", "INT", "STRING")),
        ("force => 1", ("'force'", "BOOLEAN", "INT value 1")),
        ("extra => 'k=v'", ("'extra'", "MAP<STRING,STRING>", "STRING value 'k=v'")),
        ("tag => map('a', 'b')", ("'tag'", "STRING", "MAP value")),
    ],
)
def test_a_wrong_type_names_both_types_value_and_parameter(arguments: Any, parts: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        call("table => 'a', " + ("" if "tag" in arguments else "tag => 'b', ") + arguments)
    assert caught.value.kind is ErrorKind.TYPE_MISMATCH
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("value", "kind"),
    [(None, "NULL"), (True, "BOOLEAN"), (5, "INT"), (1 << 40, "BIGINT"), ("x", "STRING"), ({"a": "b"}, "MAP")],
)
def test_literal_of(value: Any, kind: Any) -> None:
    assert (literal_of(value).type, literal_of(value).value) == (kind, value)

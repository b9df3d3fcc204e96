from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.sqlparse.call import parse_call


def values(text: Any) -> Any:
    return [(v.type, v.value) for v in parse_call(text).positional]


@pytest.mark.parametrize(
    ("source", "kind", "value"),
    [
        ("'abc'", "STRING", "abc"),
        ("'it''s'", "STRING", "it's"),
        ('"it""s"', "STRING", 'it"s'),
        ("'a' 'b'", "STRING", "ab"),
        (r"'a\'b\n\u0041'", "STRING", "a'b\nA"),
        (r"r'a\n'", "STRING", r"a\n"),
        ("''", "STRING", ""),
        ("''''", "STRING", "'"),
        ("'a;b -- c'", "STRING", "a;b -- c"),
        ("NULL", "NULL", None),
        ("true", "BOOLEAN", True),
        ("-4", "INT", -4),
        ("-2147483648", "INT", -2147483648),
        ("2147483648", "BIGINT", 2147483648),
        ("10L", "BIGINT", 10),
        ("5S", "SMALLINT", 5),
        ("1.5", "DECIMAL", Decimal("1.5")),
        ("1.5BD", "DECIMAL", Decimal("1.5")),
        (".5", "DECIMAL", Decimal("0.5")),
        ("- .5e1", "DOUBLE", -5.0),
        ("1e3", "DOUBLE", 1000.0),
        ("2F", "FLOAT", 2.0),
        ("DATE '2024-05-14'", "DATE", "2024-05-14"),
        ("TIMESTAMP '2024-05-14 10:00:00'", "TIMESTAMP", "2024-05-14 10:00:00"),
        ("map('a', 'b', 'c', 1)", "MAP", {"a": "b", "c": 1}),
        ("array(1, 2)", "ARRAY", (1, 2)),
        ("X'1f'", "BINARY", b"\x1f"),
    ],
)
def test_literals(source: Any, kind: Any, value: Any) -> None:
    assert values(f"CALL sys.p({source})") == [(kind, value)]


def test_names_keep_their_parts_and_case() -> None:
    call = parse_call("CALL `My Cat`.SYS.Compact(`table` => 'a', Order_By => 'b');")
    assert (call.catalog, call.namespace, call.procedure) == ("My Cat", "SYS", "Compact")
    assert [(n, v.value) for n, v in call.named] == [("table", "a"), ("Order_By", "b")]
    assert not call.explain


def test_bare_name_and_no_arguments() -> None:
    call = parse_call("call compact()")
    assert (call.catalog, call.namespace, call.procedure) == (None, None, "compact")
    assert call.positional == call.named == ()


@pytest.mark.parametrize("mode", ["", "EXTENDED", "formatted"])
def test_explain(mode: Any) -> None:
    assert parse_call(f"EXPLAIN {mode} CALL sys.compact('t') -- why").explain


def test_source_text_of_a_literal_is_kept() -> None:
    (value,) = parse_call("CALL sys.p(\n  'it''s')").positional
    assert (value.text, value.line, value.column) == ("'it''s'", 2, 3)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("CALL sys.p(1 + 2)", "'+' (line 1, column 14)"),
        ("CALL sys.p(concat('a', 'b'))", "'concat' (line 1, column 12)"),
        ("CALL sys.p('a',)", "')' (line 1, column 16)"),
        ("CALL sys.p('a'", "at the end of the statement"),
        ("CALL sys.p('a", "opened at line 1, column 12 is never closed"),
        ("CALL sys.p() x", "expected the end of the statement"),
        ("CALL a.b.c.d()", "too many parts"),
        ("CALL sys.p(999L, 99999999999999999999L)", "too large for its type"),
        ("CALL sys.p(map('a'))", "even number"),
        ("CALL sys.p", "'(' after the procedure's name"),
        ("SELECT 1", "not a CALL"),
        ("CALL a(); CALL b()", "found 2 statements"),
        ("EXPLAIN SELECT 1", "expected CALL"),
    ],
)
def test_errors_name_the_place(text: Any, part: Any) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse_call(text)
    assert part in str(caught.value)

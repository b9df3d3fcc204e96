"""Cutting scripts into statements."""

from __future__ import annotations

import pytest

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.sqlparse.script import Statement, complete_statements, split_script


def texts(script: str) -> list[str]:
    return [statement.text for statement in split_script(script)]


def test_semicolons_in_quotes_and_comments_end_no_statement() -> None:
    script = """SELECT 'a;b', "c;d", `e;f` -- one; more
      , 1; /* two; */ SELECT 2"""
    assert texts(script) == ["SELECT 'a;b', \"c;d\", `e;f` -- one; more\n      , 1", "SELECT 2"]


def test_escaped_quotes() -> None:
    assert texts(r"SELECT 'it\'s; so'; SELECT 'it''s; so'; SELECT `a``;b`") == [
        r"SELECT 'it\'s; so'",
        "SELECT 'it''s; so'",
        "SELECT `a``;b`",
    ]


def test_empty_statements_are_left_out() -> None:
    assert texts(" ;; -- nothing\n ; SELECT 1 ; -- the end\n") == ["SELECT 1"]


def test_the_comment_above_belongs_to_the_statement() -> None:
    assert split_script("-- First.\n-- Then.\nSELECT 1;\n\n/* Last. */\nSELECT 2;\nSELECT 3") == [
        Statement("SELECT 1", "First.\nThen."),
        Statement("SELECT 2", "Last."),
        Statement("SELECT 3", ""),
    ]


def test_hints_stay_in_the_text() -> None:
    assert texts("/*+ OPTIONS('a'='b') */ SELECT 1; SELECT /*+ BROADCAST(t) */ 2") == [
        "/*+ OPTIONS('a'='b') */ SELECT 1",
        "SELECT /*+ BROADCAST(t) */ 2",
    ]


def test_operators_that_look_like_comments() -> None:
    assert texts("SELECT 4 - 1, 4 / 2; SELECT -1") == ["SELECT 4 - 1, 4 / 2", "SELECT -1"]


def test_lines() -> None:
    assert [s.line for s in split_script("-- head\n\nSELECT 1;\n\n-- x\nSELECT\n2")] == [3, 6]


def test_parentheses_raw_texts_and_nested_comments() -> None:
    assert texts(r"SELECT (1;2); SELECT /* a /* nested; */ ; */ r'\'; SELECT 3") == [
        "SELECT (1;2)",
        r"SELECT /* a /* nested; */ ; */ r'\'",
        "SELECT 3",
    ]


def test_a_compound_block_is_one_statement() -> None:
    block = "BEGIN IF x THEN SELECT CASE WHEN a THEN 1 END; END IF; WHILE y DO SELECT 2; END WHILE; END"
    assert texts(f"SELECT 1; {block}; SELECT 2") == ["SELECT 1", block, "SELECT 2"]


def test_functions_in_a_case_open_no_block() -> None:
    query = "SELECT CASE WHEN c THEN IF(d, 1, 2) ELSE IF(e, 3, 4) END"
    block = f"BEGIN CASE WHEN a THEN IF b THEN {query}; END IF; END CASE; END"
    assert texts(f"{block}; SELECT 2") == [block, "SELECT 2"]


def test_a_column_named_end_closes_no_block() -> None:
    block = "BEGIN SELECT t.end, CASE WHEN t . end THEN 1 END AS end FROM t; SELECT 2; END"
    assert texts(f"{block}; SELECT 3") == [block, "SELECT 3"]


@pytest.mark.parametrize(
    ("typed", "done", "rest"),
    [
        ("SELECT 1", [], "SELECT 1"),
        ("SELECT 1;\n", ["SELECT 1"], "\n"),
        (" ;; SELECT 1;SELECT 'a;", ["SELECT 1"], "SELECT 'a;"),
        ("SELECT 1; -- more;\n", ["SELECT 1"], " -- more;\n"),
        ("SELECT 1; /* not; yet", ["SELECT 1"], " /* not; yet"),
        ("SELECT (1;\n", [], "SELECT (1;\n"),
        ("BEGIN SELECT 1;\n", [], "BEGIN SELECT 1;\n"),
        ("BEGIN SELECT 1; END;", ["BEGIN SELECT 1; END"], ""),
        ("-- only\n;", [], ""),
        ("", [], ""),
    ],
)
def test_statements_as_they_are_typed(typed: str, done: list[str], rest: str) -> None:
    found, left = complete_statements(typed)
    assert ([s.text for s in found], left) == (done, rest)


@pytest.mark.parametrize(("text", "part"), [("SELECT 'abc; SELECT 2", "quote '"), ("SELECT 1; /* x", "block comment")])
def test_what_is_opened_must_be_closed(text: str, part: str) -> None:
    with pytest.raises(SqlSyntaxError, match=part):
        split_script(text)

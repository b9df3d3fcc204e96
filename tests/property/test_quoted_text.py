"""Texts and names survive SQL and the arguments of procedures."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.spec.defaults import parse_default, sql_default
from paimon_spark.spec.identifier import split_name
from paimon_spark.spec.quoted_text import name_value, quoted_name, sql_path, sql_value, string_literal, string_value
from paimon_spark.spec.types import parse_atomic
from paimon_spark.sqlparse.call import parse_call
from paimon_spark.sqlparse.cursor import Cursor
from paimon_spark.sqlparse.hints import rewrite_hints
from paimon_spark.sqlparse.options_text import parse_options

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.text(
    "ab'\"\\`%_nu0;,-$ \n\r\0", max_size=20
)
NAMES = TEXTS.filter(bool)


@given(TEXTS, st.sampled_from("'\""))
def test_a_literal_has_the_value_of_its_text(text: str, quote: str) -> None:
    literal = string_literal(text, quote)
    assert string_value(literal) == text
    assert "\n" not in literal
    assert [v.value for v in parse_call(f"CALL sys.p({literal})").positional] == [text]
    assert parse_options(f"k={literal}") == {"k": text}


@given(TEXTS | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1))
def test_an_argument_arrives_as_it_was(value: object) -> None:
    (read,) = parse_call(f"CALL sys.p({sql_value(value)})").positional
    assert (type(read.value), read.value) == (type(value), value)


@given(NAMES)
def test_a_quoted_name_is_read_as_the_name(name: str) -> None:
    quoted = quoted_name(name)
    assert name_value(quoted) == Cursor(quoted).identifier("a name") == name
    assert split_name(quoted) == [name]


@given(st.lists(NAMES, min_size=1, max_size=3))
def test_a_path_is_read_as_its_parts(parts: list[str]) -> None:
    assert split_name(sql_path(*parts)) == parts


def test_only_plain_words_of_ascii_are_written_without_quotes() -> None:
    assert sql_path("db_1", "t$branch_b", "é", "1a") == "db_1.`t$branch_b`.`é`.`1a`"


@given(TEXTS)
def test_hints_and_defaults_keep_their_texts(text: str) -> None:
    literal = string_literal(text)
    assert literal in rewrite_hints(f"SELECT * FROM t /*+ OPTIONS('k'={literal}) */")
    column = parse_atomic("STRING")
    assert parse_default(sql_default(literal, column), column) == text

"""Any text survives a CALL, however it is quoted, and the scanners never lose a character."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import PaimonError
from paimon_spark.spec.predicate import columns_of
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import DataField, parse_atomic
from paimon_spark.sqlparse.call import parse_call
from paimon_spark.sqlparse.claims import is_paimon_statement
from paimon_spark.sqlparse.options_text import parse_options
from paimon_spark.sqlparse.partitions import each_partition
from paimon_spark.sqlparse.script import split_script
from paimon_spark.sqlparse.tokens import pieces
from paimon_spark.sqlparse.where import parse_where

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.text("ab'\"\\`;,-/*(){}#?:\n ", max_size=20)


def quoted(text: str, quote: str) -> str:
    body = text.replace("\\", "\\\\").replace(quote, "\\" + quote)
    return quote + body + quote


def doubled(text: str, quote: str) -> str:
    return quote + text.replace("\\", "\\\\").replace(quote, quote * 2) + quote


@given(TEXTS, st.sampled_from("'\""), st.booleans())
def test_a_text_arrives_as_it_was(text: str, quote: str, double: bool) -> None:
    literal = doubled(text, quote) if double else quoted(text, quote)
    statement = f"CALL sys.p({literal})"
    (value,) = parse_call(statement).positional
    assert (value.type, value.value) == ("STRING", text)
    assert is_paimon_statement(statement, {"p"})
    assert [s.text for s in split_script(f"{statement};{statement}")] == [statement, statement]


@given(TEXTS)
def test_pieces_join_to_the_text(text: str) -> None:
    assert "".join(p.text for p in pieces(text)) == text


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_whole_numbers(number: int) -> None:
    (value,) = parse_call(f"CALL sys.p({number})").positional
    assert value.value == number


SCHEMA = TableSchema(
    id=0,
    fields=(
        DataField(0, "p", parse_atomic("INT")),
        DataField(1, "q", parse_atomic("STRING")),
        DataField(2, "d", parse_atomic("DATE")),
    ),
    highest_field_id=2,
    partition_keys=("p", "q", "d"),
)
WORDS = ["p", "q", "d", "=", "<>", "<=>", "(", ")", "in", "not", "and", "or", "like", "between", "is", "null", "true"]
MORE = ["'a%'", "'2024-01-01'", "date", "1", "-", "1.5", "10L", ",", ";", "cast", "as", "int", "case", "map", "=>", "."]
NOISE = st.lists(st.sampled_from([*WORDS, *MORE, "`", "'", "--", "/*", "x"]), max_size=12).map(" ".join)


@given(NOISE | TEXTS)
def test_noise_gives_a_result_or_an_error_of_ours(noise: str) -> None:
    with contextlib.suppress(PaimonError):
        assert parse_call(f"CALL sys.p({noise})").procedure == "p"
    with contextlib.suppress(PaimonError):
        assert columns_of(parse_where(noise, SCHEMA)) <= set(SCHEMA.partition_keys)
    with contextlib.suppress(PaimonError):
        for text, predicate in each_partition(noise, SCHEMA):
            assert text
            assert columns_of(predicate) <= set(SCHEMA.partition_keys)
    with contextlib.suppress(PaimonError):
        assert all(key.strip() == key != "" for key in parse_options(noise))

"""CHAR values with the blanks that fill their length."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.core.char_values import padded, padded_columns, padded_value
from paimon_spark.core.merge.keys import comparable_columns
from paimon_spark.spec.types import DataField, parse_atomic

CHAR = parse_atomic("CHAR(3)")
TEXTS = st.text("a \t\u00e9\U0001f600", max_size=3)


@given(st.lists(st.none() | TEXTS))
def test_values_are_filled_up(texts: list[str | None]) -> None:
    expected = [None if t is None else t.rstrip(" ").ljust(3) for t in texts]
    for array in (pa.array(texts, pa.string()), pa.array([*texts, "x"], pa.large_string())[: len(texts)]):
        found = padded(array, CHAR)
        assert found.type == array.type
        assert found.to_pylist() == expected
    assert [padded_value(t, CHAR) for t in texts] == expected
    column = pa.table({"c": pa.chunked_array([texts, []], pa.string())})
    assert padded_columns(column, [DataField(0, "c", CHAR)]).column("c").to_pylist() == expected


@pytest.mark.parametrize(
    ("given", "expected"), [(b"\xff", b"\xff  "), (b"\xff ", b"\xff  "), (b"abcd ", b"abcd"), (b"", b"   ")]
)
def test_values_may_be_long_or_no_text(given: bytes, expected: bytes) -> None:
    array = pa.Array.from_buffers(pa.string(), 1, pa.array([given], pa.binary()).buffers())
    assert padded(array, CHAR).cast(pa.binary()).to_pylist() == [expected]


def test_other_texts_keep_their_blanks() -> None:
    array = pa.array(["a", "a "])
    assert padded(array, parse_atomic("VARCHAR(3)")) is array
    assert padded_value("a ", parse_atomic("STRING")) == "a "


@given(TEXTS, TEXTS)
def test_the_order_of_keys_does_not_depend_on_blanks(one: str, other: str) -> None:
    def key(text: str) -> bytes:
        (column,) = comparable_columns(pa.table({"c": [text]}), [DataField(0, "c", CHAR)])
        return bytes(column[0].as_py())

    full = (one.ljust(3).encode(), other.ljust(3).encode())
    assert (key(one) < key(other.rstrip(" "))) == (full[0] < full[1])
    assert (key(one.rstrip(" ")) == key(other)) == (full[0] == full[1])

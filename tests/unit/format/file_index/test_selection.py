"""Indexes of random values against random predicates: no row is lost, and exact kinds select exactly."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.spec.file_indexes import IndexKind, supports
from paimon_spark.spec.predicate import (
    And,
    Comparison,
    InList,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    evaluate,
)
from paimon_spark.spec.rows import Timestamp
from tests.file_indexes import TYPES, container_of, opened

_SETTINGS = {
    IndexKind.BLOOM_FILTER: {"items": "50", "fpp": "0.01"},
    IndexKind.BITMAP: {"index-block-size": "200b"},
    IndexKind.RANGE_BITMAP: {"chunk-size": "20b"},
}
_INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64, "date": 16}
_NANOS = {"timestamp(3)": 1_000_000, "timestamp(6)": 1000, "timestamp(9)": 1, "timestamp_ltz(6)": 1000}
CASES = [(n, k) for n, t in TYPES.items() for k in IndexKind if supports(k, t)]
INEXACT = ("char", "timestamp(9)")
"""Types without exact answers: only some writers store trailing blanks of CHAR, and an index has microseconds."""
EXACT_CASES = [(n, k) for n, k in CASES if k is not IndexKind.BLOOM_FILTER and n not in INEXACT]


def values_of(name: str, *, literal: bool) -> st.SearchStrategy[Any]:
    """Return values of a type; literals of timestamps may have more digits."""
    if name == "boolean":
        return st.booleans()
    if name in _INTEGERS:
        bits = _INTEGERS[name] - 1
        return st.integers(-4, 4) | st.integers(-(1 << bits), (1 << bits) - 1)
    if name == "time":
        return st.integers(0, 86_399_999)
    if name in ("float", "double"):
        special = st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -1.5])
        return special | st.floats(width=32 if name == "float" else 64)
    if name == "decimal":
        return st.integers(-300, 300).map(lambda n: Decimal(n).scaleb(-3 if literal and n % 5 == 0 else -2))
    if name in ("string", "char"):
        return st.text("ab é\U0001f600", max_size=4 if name == "char" else 40)
    if name == "bytes":
        return st.binary(max_size=40)
    step = 1 if literal else _NANOS[name]
    return st.builds(Timestamp, st.integers(-3, 3), st.integers(0, 999_999 // step).map(lambda n: n * step))


def predicates(name: str) -> st.SearchStrategy[Predicate]:
    """Return predicates over the column ``v`` of a type."""
    value = values_of(name, literal=True)
    some = st.lists(st.none() | value, min_size=1, max_size=4).map(tuple)
    leaves: st.SearchStrategy[Predicate] = (
        st.builds(Comparison, st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "<=>", "is"]), st.just("v"), value)
        | st.builds(InList, st.just("v"), some, st.booleans())
        | st.builds(IsNull, st.just("v"), st.booleans())
    )
    if name in ("string", "bytes"):
        leaves |= st.builds(StartsWith, st.just("v"), value)
    parts = st.lists(leaves, min_size=1, max_size=3).map(tuple)
    return (
        leaves
        | st.builds(And, parts)
        | st.builds(Or, parts)
        | st.builds(Not, leaves)
        | st.builds(Not, st.builds(Or, parts))
    )


@pytest.mark.parametrize(("name", "kind"), CASES)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_no_matching_row_is_lost(name: str, kind: IndexKind, data: st.DataObject) -> None:
    base = data.draw(st.lists(values_of(name, literal=False), min_size=1, max_size=8))
    values = data.draw(st.lists(st.none() | st.sampled_from(base), min_size=1, max_size=120))
    predicate = data.draw(predicates(name))
    version = {"version": "1"} if kind is IndexKind.BITMAP and data.draw(st.booleans()) else None
    if not any(v is not None for v in values) and kind is IndexKind.RANGE_BITMAP:
        return
    if kind is IndexKind.BSI and -(1 << 63) in values:
        return
    found = opened(
        name, container_of(name, kind, values, version or _SETTINGS.get(kind, {})), len(values)
    ).matching_rows(predicate)
    wanted = {i for i, v in enumerate(values) if evaluate(predicate, {"v": v}) is True}
    assert found is None or wanted <= set(found)


@pytest.mark.parametrize(("name", "kind"), EXACT_CASES)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_exact_kinds_select_exactly_the_rows_of_a_value(name: str, kind: IndexKind, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | values_of(name, literal=False), min_size=1, max_size=150))
    if not any(v is not None for v in values) or -(1 << 63) in values:
        return
    sought = data.draw(st.sampled_from([v for v in values if v is not None]))
    index = opened(name, container_of(name, kind, values, _SETTINGS.get(kind, {})), len(values))
    for predicate in (
        Comparison("=", "v", sought),
        Comparison("!=", "v", sought),
        InList("v", (sought,)),
        InList("v", (sought,), negated=True),
        IsNull("v"),
        IsNull("v", negated=True),
        *(Comparison(op, "v", sought) for op in ("<", "<=", ">", ">=") if kind is not IndexKind.BITMAP),
    ):
        wanted = {i for i, v in enumerate(values) if evaluate(predicate, {"v": v}) is True}
        found = index.matching_rows(predicate)
        assert found is not None
        assert set(found) == wanted, predicate

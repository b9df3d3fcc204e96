"""Filters: rows, statistics, fixed values, projection, JSON."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.errors import ArgumentError
from paimon_spark.spec.predicate import (
    FALSE,
    TRUE,
    And,
    Comparison,
    InList,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    and_,
    columns_of,
    evaluate,
    fixed_values,
    from_json,
    may_match,
    or_,
    project,
    push_not,
    split_and,
    to_json,
)
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.stats import ColumnStats

NAN = float("nan")
A1, A2, B1 = Comparison("=", "a", 1), Comparison("=", "a", 2), Comparison("=", "b", 1)


@pytest.mark.parametrize(
    ("pred", "value", "expected"),
    [
        (Comparison("=", "a", 1), 1, True),
        (Comparison("=", "a", 1), None, None),
        (Comparison("<=>", "a", None), None, True),
        (Comparison("<=>", "a", 1), None, False),
        (Comparison("=", "a", None), 1, None),
        (Not(Comparison("=", "a", 1)), None, None),
        (InList("a", (1, None)), 2, None),
        (InList("a", (1, None)), 1, True),
        (InList("a", (1, 2), negated=True), 3, True),
        (IsNull("a", negated=True), None, False),
        (Comparison("=", "a", NAN), NAN, True),
        (Comparison(">", "a", 5.0), NAN, True),
        (Comparison("<", "a", NAN), 5.0, True),
        (StartsWith("a", "x"), "xy", True),
        (Or((Comparison("=", "a", 1), IsNull("a"))), None, True),
        (And((Comparison("=", "a", 1), FALSE)), None, False),
        (TRUE, None, True),
    ],
)
def test_rows_follow_sql(pred: Predicate, value: Any, expected: bool | None) -> None:
    assert evaluate(pred, {"a": value}) is expected


def test_a_comparison_of_two_types_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="another type"):
        evaluate(Comparison("<", "a", "x"), {"a": 1})


@pytest.mark.parametrize(
    ("pred", "stats", "expected"),
    [
        (Comparison("=", "a", 5), ColumnStats(1, 4, 0), False),
        (Comparison("=", "a", 4), ColumnStats(1, 4, 0), True),
        (Comparison("<", "a", 1), ColumnStats(1, 4, 0), False),
        (Comparison(">=", "a", 5), ColumnStats(1, None, 0), True),
        (Comparison("!=", "a", 1), ColumnStats(1, 1, 0), False),
        (Comparison("=", "a", 1), ColumnStats(None, None, 10), False),
        (Comparison("=", "a", 1), ColumnStats(None, None, None), True),
        (Not(Comparison("<=>", "a", 5)), ColumnStats(None, None, 10), True),
        (Not(Comparison("=", "a", 5)), ColumnStats(5, 5, 0), False),
        (IsNull("a"), ColumnStats(1, 2, 0), False),
        (IsNull("a"), ColumnStats(1, 2, None), True),
        (IsNull("a", negated=True), ColumnStats(None, None, 10), False),
        (InList("a", (0, 9)), ColumnStats(1, 4, 0), False),
        (InList("a", (1, None), negated=True), ColumnStats(1, 4, 0), False),
        (StartsWith("a", "abc"), ColumnStats("ab", "abb", 0), False),
        (StartsWith("a", "abc"), ColumnStats("ab", "abd", 0), True),
        (Comparison(">", "a", 1.0), ColumnStats(0.0, NAN, 0), True),
        (Comparison(">", "a", 5.0), ColumnStats(1.0, 3.0, 0), True),
        (Comparison("=", "a", NAN), ColumnStats(1.0, 3.0, 0), True),
        (Comparison("!=", "a", 1.0), ColumnStats(1.0, 1.0, 0), True),
        (InList("a", (1.0,), negated=True), ColumnStats(1.0, 1.0, 0), True),
        (Comparison("=", "a", 5.0), ColumnStats(1.0, 3.0, 0), False),
        (Comparison("<", "a", 1.0), ColumnStats(1.0, 3.0, 0), False),
        (Comparison("<", "a", NAN), ColumnStats(1.0, 3.0, 0), True),
        (And((Comparison(">", "a", 5.0), Comparison("<", "a", 9.0))), ColumnStats(1.0, 3.0, 0), False),
        (Or((Comparison(">", "a", 5.0), Comparison("<", "a", 0.0))), ColumnStats(1.0, 3.0, 0), True),
        (Comparison(">", "a", "x"), ColumnStats(1, 2, 0), True),
        (Comparison("=", "z", 1), ColumnStats(1, 2, 0), True),
    ],
)
def test_files_are_skipped_only_on_proof(pred: Predicate, stats: ColumnStats, expected: bool) -> None:
    assert may_match(pred, {"a": stats}, 10) is expected


def test_fixed_values() -> None:
    both = ("a", "b")
    assert fixed_values(and_(A1, InList("b", (1, 2, None))), both) == [(1, 1), (1, 2)]
    assert fixed_values(and_(A1, A2), ("a",)) == []
    assert fixed_values(or_(and_(A1, B1), and_(A2, B1)), both) == [(1, 1), (2, 1)]
    assert fixed_values(and_(or_(A1, A2), B1), both) == [(1, 1), (2, 1)]
    assert fixed_values(A1, both) is None
    assert fixed_values(InList("a", tuple(range(1001))), ("a",)) is None
    assert fixed_values(Comparison("=", "a", 0.0), ("a",)) is None
    assert fixed_values(IsNull("a"), ("a",)) == [(None,)]
    assert fixed_values(Comparison("=", "a", None), ("a",)) == []


def test_project_and_helpers() -> None:
    assert project(and_(A1, B1), ["a"]) == A1
    assert project(or_(A1, B1), ["a"]) == TRUE
    assert project(Not(or_(A1, B1)), ["a"]) == Comparison("!=", "a", 1)
    assert split_and(And((A1, And((B1, TRUE))))) == [A1, B1]
    assert columns_of(Not(or_(A1, B1))) == {"a", "b"}
    assert and_(A1, FALSE) == FALSE
    assert or_(A1, TRUE) == TRUE


@pytest.mark.parametrize("text", ["", "1", '["between","a",1]', '["=","a"]', "{}"])
def test_malformed_json(text: str) -> None:
    with pytest.raises(ArgumentError):
        from_json(text)


_VALUES = (
    st.integers(-3, 3)
    | st.text(max_size=3)
    | st.binary(max_size=3)
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.floats(allow_nan=False)
    | st.booleans()
    | st.none()
    | st.builds(Timestamp, st.integers(), st.integers(0, 999_999))
)


def _predicates(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Predicate]:
    name = st.sampled_from(["a", "b"])
    leaves: st.SearchStrategy[Predicate] = st.one_of(
        st.builds(Comparison, st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "<=>"]), name, values),
        st.builds(InList, name, st.lists(values, max_size=3).map(tuple), st.booleans()),
        st.builds(IsNull, name, st.booleans()),
        st.sampled_from([TRUE, FALSE]),
    )
    return st.recursive(
        leaves,
        lambda part: st.one_of(
            st.builds(And, st.lists(part, max_size=3).map(tuple)),
            st.builds(Or, st.lists(part, max_size=3).map(tuple)),
            st.builds(Not, part),
        ),
        max_leaves=6,
    )


@settings(deadline=None)
@given(_predicates(_VALUES))
def test_json_round_trip(pred: Predicate) -> None:
    assert from_json(to_json(pred)) == pred
    assert from_json(to_json(Comparison("=", "a", Decimal("1.50")))) == Comparison("=", "a", Decimal("1.50"))


_SMALL = st.integers(-3, 3) | st.none() | st.just(Decimal("0.5"))


@settings(max_examples=300, deadline=None)
@given(_predicates(_SMALL), st.lists(st.tuples(_SMALL, _SMALL), min_size=1, max_size=4))
def test_statistics_and_projection_never_lose_a_row(pred: Predicate, rows: list[tuple[Any, Any]]) -> None:
    stats = {}
    for i, column in enumerate("ab"):
        values = [r[i] for r in rows if r[i] is not None]
        stats[column] = ColumnStats(min(values, default=None), max(values, default=None), len(rows) - len(values))
    fixed = fixed_values(pred, ("a", "b"))
    for row in rows:
        values = dict(zip("ab", row, strict=True))
        wrong_type = evaluate(pred, values)
        assert evaluate(push_not(pred), values) is wrong_type
        if wrong_type:
            assert may_match(pred, stats, len(rows))
            assert evaluate(project(pred, ["a"]), values)
            assert fixed is None or row in fixed

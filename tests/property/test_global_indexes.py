"""Random append tables, indexes and filters: the rows are the same with and without indexes, and those of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.api.row_changes import deletions
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.global_indexes import execute_create, index_column, index_kind, plan_create
from paimon_spark.engine.row_level import change_arrow, with_all_rows
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import plan_select
from paimon_spark.spec.kinds import Operation
from paimon_spark.spec.predicate import Comparison, InList, IsNull, Not, Predicate, StartsWith, and_, or_
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.tables import new_table, read_arrow
from tests.small_tables import put

Mask = np.ndarray[Any, np.dtype[np.bool_]]
Row = tuple[Any, ...]
COLUMNS = {"id": "INT", "k": "INT", "s": "STRING", "x": "DOUBLE", "d": "DECIMAL(9, 2)"}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "k": st.integers(0, 4),
    "s": st.text("ab", max_size=2),
    "x": st.sampled_from([float("-inf"), -1.5, -0.0, 0.0, 2.25, float("inf"), float("nan")]),
    "d": st.sampled_from([Decimal(n) / 4 for n in (-3, -1, 0, 2, 7)]),
}
NAMES = st.sampled_from(sorted(VALUES))
ROWS = st.lists(st.tuples(*(st.none() | v for v in VALUES.values())), min_size=1, max_size=8)
INDEX = st.tuples(st.just("index"), NAMES, st.sampled_from(["btree", "bitmap"]))
STEP = (
    st.tuples(st.just("insert"), ROWS) | st.just(("compact",)) | st.tuples(st.just("delete"), st.integers(0, 4)) | INDEX
)
STEPS = st.builds(
    lambda *parts: [s for p in parts for s in p],
    *[st.lists(STEP, max_size=3), st.lists(INDEX, min_size=1, max_size=3)] * 2,
)
Test = tuple[Predicate, "Question"]


@dataclass
class Content:
    """The rows of a table, by column: ranks of the values in the order of SQL, and which are null."""

    rows: list[Row] = field(default_factory=list)

    def column(self, name: str) -> tuple[Any, Mask]:
        """Return the values, anything in place of null, and which are null."""
        values = [r[list(COLUMNS).index(name)] for r in self.rows]
        null = np.array([v is None for v in values], bool)
        blank: Any = {"k": 0, "s": "", "x": 0.0, "d": Decimal(0)}[name]
        kinds = {"k": np.int64, "x": np.float64}
        filled = [blank if v is None else v for v in values]
        return np.array(filled, kinds.get(name, object)), null


@dataclass(frozen=True)
class Question:
    """A filter: which rows match it, and for which it is unknown."""

    asks: Callable[[Content], tuple[Mask, Mask]]


def _below(values: Any, value: Any) -> Mask:
    """Return which values are less in the order of SQL, whose greatest number is NaN."""
    if isinstance(value, float):
        found: Mask = np.where(np.isnan(value), ~np.isnan(values), values < value)
        return found
    return np.asarray(values < value, bool)


def _same(values: Any, value: Any) -> Mask:
    if isinstance(value, float) and np.isnan(value):
        found: Mask = np.isnan(values)
        return found
    return np.asarray(values == value, bool)


def _compared(op: str, values: Any, value: Any) -> Mask:
    below, same = _below(values, value), _same(values, value)
    return {
        "=": same,
        "<=>": same,
        "!=": ~same,
        "<": below,
        "<=": below | same,
        ">": ~below & ~same,
        ">=": ~below,
    }[op]


def _comparison(op: Any, name: str, value: Any) -> Test:
    def asks(content: Content) -> tuple[Mask, Mask]:
        values, null = content.column(name)
        found = _compared(op, values, value) & ~null
        return found, np.zeros_like(null) if op == "<=>" else null

    return Comparison(op, name, value), Question(asks)


def _among(name: str, some: list[Any], negated: bool) -> Test:
    def asks(content: Content) -> tuple[Mask, Mask]:
        values, null = content.column(name)
        found = np.zeros(len(null), bool)
        for value in some:
            found |= _same(values, value)
        return (~found if negated else found) & ~null, null

    return InList(name, tuple(some), negated), Question(asks)


def _null(name: str, negated: bool) -> Test:
    def asks(content: Content) -> tuple[Mask, Mask]:
        null = content.column(name)[1]
        return (~null if negated else null), np.zeros_like(null)

    return IsNull(name, negated), Question(asks)


def _prefix(prefix: str) -> Test:
    def asks(content: Content) -> tuple[Mask, Mask]:
        values, null = content.column("s")
        return np.array([v.startswith(prefix) for v in values], bool) & ~null, null

    return StartsWith("s", prefix), Question(asks)


def _not(inner: Test) -> Test:
    def asks(content: Content) -> tuple[Mask, Mask]:
        found, unknown = inner[1].asks(content)
        return ~found & ~unknown, unknown

    return Not(inner[0]), Question(asks)


def _both(one: Test, other: Test) -> Test:
    def asks(content: Content) -> tuple[Mask, Mask]:
        (a, b), (c, d) = one[1].asks(content), other[1].asks(content)
        failed = (~a & ~b) | (~c & ~d)
        return a & c, ~failed & (b | d)

    return and_(one[0], other[0]), Question(asks)


def _either(one: Test, other: Test) -> Test:
    def asks(content: Content) -> tuple[Mask, Mask]:
        (a, b), (c, d) = one[1].asks(content), other[1].asks(content)
        return a | c, ~(a | c) & (b | d)

    return or_(one[0], other[0]), Question(asks)


def _leaf(name: str) -> st.SearchStrategy[Test]:
    value, ops = VALUES[name], st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "<=>"])
    return st.one_of(
        st.builds(_comparison, ops, st.just(name), value),
        st.builds(_among, st.just(name), st.lists(value, min_size=1, max_size=3), st.booleans()),
        st.builds(_null, st.just(name), st.booleans()),
        st.builds(_prefix, st.text("ab", max_size=2)),
    )


TESTS = st.recursive(
    NAMES.flatmap(_leaf),
    lambda inner: st.one_of(st.builds(_both, inner, inner), st.builds(_either, inner, inner), st.builds(_not, inner)),
    max_leaves=4,
)


def _delete(table: Table, content: Content, k: int) -> None:
    gone = plan_select(with_all_rows(table), columns=(), predicate=Comparison("=", "k", k))
    change_arrow(table, deletions(gone), Operation.DELETE)
    content.rows = [r for r in content.rows if r[1] != k]


def _step(table: Table, content: Content, step: Row, number: int) -> None:
    match step:
        case ("insert", rows):
            new = [(number * 100 + i, *r) for i, r in enumerate(rows)]
            put(table, *new)
            content.rows += new
        case ("index", column, kind):
            execute_create(plan_create(table, index_column(table, column), index_kind(kind), None), LocalRunner())
        case ("delete", k):
            _delete(table, content, k)
        case _:
            execute_compaction(plan_compaction(table, strategy=Strategy.FULL), LocalRunner())


def _ids(table: Table, predicate: Predicate, content: Content, matching: Mask) -> list[int]:
    """Return the ids of the rows that are read, without those that readers may return though they do not match."""
    wanted = {r[0]: bool(m) for r, m in zip(content.rows, matching, strict=True)}
    found: list[int] = read_arrow(table, predicate=predicate).column("id").to_pylist()
    return sorted(i for i in found if wanted[i])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    evolving=st.sampled_from(["true", "false"]),
    rows=st.integers(1, 9),
    steps=STEPS,
    asked=st.lists(TESTS, min_size=4, max_size=12),
)
def test_indexes_leave_out_no_matching_row(evolving: str, rows: int, steps: list[Row], asked: list[Test]) -> None:
    options = {
        "row-tracking.enabled": "true",
        "data-evolution.enabled": evolving,
        "deletion-vectors.enabled": "true",
        "metadata.stats-mode": "none",
        "compaction.min.file-num": "2",
        "write-only": "true",
        "sorted-index.records-per-range": str(rows),
    }
    table, content = new_table(COLUMNS, options=options), Content()
    for number, step in enumerate([("insert", [(3, "a", 0.0, Decimal(1))] * 2), *steps]):
        _step(table, content, step, number)
    for predicate, question in asked:
        matching = question.asks(content)[0]
        model = sorted(r[0] for r, m in zip(content.rows, matching, strict=True) if m)
        assert _ids(table, predicate, content, matching) == model, predicate
        assert _ids(table.with_options({"global-index.enabled": "false"}), predicate, content, matching) == model
    assert violations(table) == []

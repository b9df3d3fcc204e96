"""Random tables and filters: the rows are the same with and without global indexes."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.core.table import Table
from paimon_spark.engine.global_indexes import execute_create, index_column, index_kind, plan_create
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.spec.predicate import Comparison, InList, IsNull, Not, Predicate, StartsWith, and_, evaluate, or_
from paimon_spark.testing.tables import new_table, read_arrow
from tests.small_tables import put

ROWS = st.lists(
    st.tuples(st.none() | st.integers(0, 9), st.none() | st.text("ab", max_size=3)), min_size=1, max_size=12
)
LEAVES = st.one_of(
    st.builds(Comparison, st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "<=>"]), st.just("k"), st.integers(-1, 10)),
    st.builds(Comparison, st.sampled_from(["=", "<", ">="]), st.just("v"), st.text("ab", max_size=3)),
    st.builds(InList, st.just("k"), st.lists(st.integers(0, 9), max_size=3).map(tuple), st.booleans()),
    st.builds(IsNull, st.sampled_from("kv"), st.booleans()),
    st.builds(StartsWith, st.just("v"), st.text("ab", max_size=2)),
)
PREDICATES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.builds(and_, inner, inner), st.builds(or_, inner, inner), st.builds(Not, inner)),
    max_leaves=4,
)


def _create(table: Table, column: str, kind: str) -> None:
    execute_create(plan_create(table, index_column(table, column), index_kind(kind), None), LocalRunner())


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_indexes_leave_out_no_matching_row(data: st.DataObject) -> None:
    fixed = {"row-tracking.enabled": "true", "metadata.stats-mode": "none", "sorted-index.records-per-range": "7"}
    evolving = {"data-evolution.enabled": data.draw(st.sampled_from(["true", "false"]))}
    table = new_table({"k": "INT", "v": "STRING"}, options=fixed | evolving)
    content: list[tuple[Any, ...]] = []
    for step in data.draw(
        st.lists(ROWS | st.tuples(st.sampled_from("kv"), st.sampled_from(["btree", "bitmap"])), max_size=6)
    ):
        if isinstance(step, tuple):
            _create(table, *step)
        else:
            put(table, *step)
            content += step
    predicate: Predicate = data.draw(PREDICATES)
    found = [tuple(r.values()) for r in read_arrow(table, predicate=predicate).to_pylist()]
    wanted = [r for r in content if evaluate(predicate, dict(zip("kv", r, strict=True))) is True]
    got = [r for r in found if evaluate(predicate, dict(zip("kv", r, strict=True))) is True]
    assert sorted(map(repr, got)) == sorted(map(repr, wanted))

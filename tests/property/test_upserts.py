"""Random INSERT histories of tables with `upsert-key`, against a list of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paimon_spark.core.row_level.upserted_rows import NewRows, UpsertRules
from paimon_spark.core.table import Table
from paimon_spark.engine.upsert import insert_arrow
from paimon_spark.errors import UsageError
from paimon_spark.testing.tables import new_table
from tests.small_tables import frame, rows

Row = tuple[Any, ...]
COLUMNS = {"k": "DOUBLE", "c": "CHAR(2)", "s": "INT", "u": "STRING", "v": "INT"}
KINDS = [
    {},
    {"deletion-vectors.enabled": "true"},
    {"row-tracking.enabled": "true", "data-evolution.enabled": "true"},
    {"bucket": "2", "bucket-key": "v", "compaction.min.file-num": "2"},
    {"bucket": "2", "bucket-key": "k,c", "deletion-vectors.enabled": "true"},
]
ROW = st.tuples(
    st.sampled_from([None, 0.0, -0.0, 1.5, math.nan]),
    st.sampled_from([None, "a ", "a", "bb"]),
    st.one_of(st.none(), st.integers(-2, 2)),
    st.sampled_from([None, "", "x", "xy"]),
    st.integers(0, 3),
)
BATCHES = st.lists(st.lists(ROW, max_size=6), min_size=1, max_size=5)


def table_of(options: dict[str, str], sequence: str) -> Table:
    order = {"sequence.field": sequence} if sequence else {}
    return new_table(COLUMNS, options={"upsert-key": "k,c", **order, **options})


def key(row: Row) -> Row:
    number, text = row[:2]
    return "nan" if number is not None and math.isnan(number) else number, None if text is None else text.rstrip()


def order_of(row: Row, sequence: str) -> list[Row]:
    return [
        (row["kcsuv".index(name)] is not None, row["kcsuv".index(name)] or type_of(name)())
        for name in sequence
        if name != ","
    ]


def bytes_of(row: Row) -> Row:
    """What tells rows with equal keys apart: the sign of a zero, and the blanks at the end of a text."""
    return math.copysign(1, 0.0 if row[0] is None else row[0]), row[1] or ""


def type_of(name: str) -> type:
    return str if name == "u" else int


def shown(rows: Sequence[Row]) -> list[str]:
    return sorted(str((*key(r), *r[2:])) for r in rows)


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("sequence", ["s", "u,s"])
@settings(max_examples=8, deadline=None)
@given(batches=BATCHES)
def test_the_largest_sequence_remains(options: dict[str, str], sequence: str, batches: list[list[Row]]) -> None:
    table, state = table_of(options, sequence), dict[Row, Row]()
    for batch in batches:
        insert_arrow(table, frame(table, batch))
        for row in sorted(batch, key=lambda r: [*order_of(r, sequence), *order_of(r, "suv"), *bytes_of(r)]):
            old = state.get(key(row))
            if old is None or order_of(row, sequence) >= order_of(old, sequence):
                state[key(row)] = row
        assert shown(rows(table)) == shown(list(state.values()))


@pytest.mark.parametrize("options", KINDS, ids=str)
@settings(max_examples=8, deadline=None)
@given(batches=BATCHES)
def test_without_a_sequence_every_new_row_remains(options: dict[str, str], batches: list[list[Row]]) -> None:
    table, state = table_of(options, ""), list[Row]()
    for batch in batches:
        stored, keys = {key(r) for r in state}, [key(r) for r in batch]
        if any(k in stored and keys.count(k) > 1 for k in keys):
            with pytest.raises(UsageError, match="Several of the new rows"):
                insert_arrow(table, frame(table, batch))
            continue
        insert_arrow(table, frame(table, batch))
        new = dict(zip(keys, batch, strict=True))
        state = [new.get(key(r), r) for r in state] + [r for r in batch if key(r) not in stored]
        assert shown(rows(table)) == shown(state)


@settings(max_examples=50, deadline=None)
@example(batch=[(0.0, "a ", 1, "x", 0), (-0.0, "a ", 1, "x", 0)], order=Random(0))
@given(batch=st.lists(ROW, min_size=1, max_size=20), order=st.randoms())
def test_the_newest_rows_do_not_depend_on_the_order(batch: list[Row], order: Any) -> None:
    table = table_of({}, "s")
    rules = UpsertRules.of(table)
    other = order.sample(batch, len(batch))
    first, second = (NewRows("t", rules, frame(table, b)).newest().rows for b in (batch, other))
    assert shown([tuple(r.values()) for r in first.to_pylist()]) == shown(
        [tuple(r.values()) for r in second.to_pylist()]
    )

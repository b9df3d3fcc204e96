"""Aggregate functions of texts, arrays, maps and nested tables: random histories against the row by row models."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.core.merge.aggregates.registry import build_aggregate
from paimon_spark.core.merge.engines.aggregation import Aggregation
from paimon_spark.core.merge.engines.partial_update import PartialUpdate, SequenceGroup
from paimon_spark.spec.aggregates import AggregateName, AggregateOptions
from paimon_spark.spec.types import STRING, ArrayType, DataField, DataType, MapType, RowType, parse_atomic
from tests.unit.core.merge import collection_models as models
from tests.unit.core.merge.merge_models import Column, Function, Group, PartialUpdateModel, Version, aggregation
from tests.unit.core.merge.test_merge_engines import by_key, merged

INT = parse_atomic("INT")
ROW = RowType(tuple(DataField(i, n, INT) for i, n in enumerate("abs")))
TIMED = RowType((DataField(0, "v", INT), DataField(1, "t", STRING)))
MANY = 200


def options(function: str, **values: Any) -> AggregateOptions:
    return AggregateOptions(function=AggregateName(function), **values)


Case = tuple[DataType, AggregateOptions, Function]

number = st.one_of(st.none(), st.integers(0, 2))
ELEMENTS: dict[str, tuple[DataType, st.SearchStrategy[Any]]] = {
    "numbers": (INT, number),
    "texts": (STRING, st.sampled_from([None, "", "a", "b"])),
    "arrays": (ArrayType(INT), st.one_of(st.none(), st.lists(number, max_size=2))),
    "rows": (TIMED, st.one_of(st.none(), st.fixed_dictionaries({"v": number, "t": st.sampled_from([None, "x"])}))),
    "maps": (MapType(STRING, INT), st.just([("k", 1)])),
}
nested_row = st.fixed_dictionaries(dict.fromkeys("abs", number))
nested_rows = st.lists(st.one_of(st.none(), nested_row), max_size=3)
timed_row = st.fixed_dictionaries({"v": number, "t": st.sampled_from([None, "1", "2", "3"])})


@st.composite
def collections(draw: st.DrawFn) -> tuple[Case, st.SearchStrategy[Any]]:
    """Return a case of ``collect``, and its values."""
    element, elements = draw(st.sampled_from(list(ELEMENTS.values())))
    distinct = draw(st.booleans())
    return (
        (ArrayType(element), options("collect", distinct=distinct), models.collect(distinct=distinct)),
        st.lists(elements, max_size=3),
    )


@st.composite
def nested(draw: st.DrawFn) -> tuple[Case, st.SearchStrategy[Any]]:
    """Return a case of ``nested_update``, and its values."""
    key = draw(st.sampled_from([(), ("a",), ("a", "b")]))
    sequence = draw(st.sampled_from([(), ("s",), ("s", "b")])) if key else ()
    limit = draw(st.sampled_from([0, 1, 2, 3, models.NO_LIMIT]))
    strategy = draw(st.sampled_from(["merge", "ignore"])) if key else "merge"
    function = (
        models.nested_update(key, sequence, limit, ignore_nulls=strategy == "ignore")
        if key
        else models.nested_rows(limit)
    )
    found = options(
        "nested_update",
        nested_key=key,
        nested_sequence=sequence,
        count_limit=limit,
        nested_key_null_strategy=strategy,
    )
    return (ArrayType(ROW), found, function), nested_rows


@st.composite
def partial(draw: st.DrawFn) -> tuple[Case, st.SearchStrategy[Any]]:
    """Return a case of ``nested_partial_update``, and its values."""
    key = draw(st.sampled_from([("a",), ("a", "b")]))
    strategy = draw(st.sampled_from(["merge", "ignore"]))
    function = models.nested_partial_update(key, ignore_nulls=strategy == "ignore")
    found = options("nested_partial_update", nested_key=key, nested_key_null_strategy=strategy, ignore_retract=True)
    return (ArrayType(ROW), found, function), nested_rows


def unique_keys(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.sampled_from("xyz"), values, max_size=3).map(lambda d: list(d.items()))


words = st.lists(st.sampled_from(["a", "b", "", " ", "cc", "\u00e9"]), max_size=3)
CASES: dict[str, st.SearchStrategy[tuple[Case, st.SearchStrategy[Any]]]] = {
    "listagg": st.tuples(st.booleans(), st.sampled_from([",", ";", "::", "\u00e9"])).map(
        lambda p: (
            (
                STRING,
                options("listagg", distinct=p[0], delimiter=p[1], ignore_retract=True),
                models.listagg(p[1], distinct=p[0]),
            ),
            words.map(p[1].join),
        )
    ),
    "collect": collections(),
    "merge_map": st.just(((MapType(STRING, INT), options("merge_map"), models.merge_map()), unique_keys(number))),
    "merge_map_with_keytime": st.just(
        (
            (
                MapType(STRING, TIMED),
                options("merge_map_with_keytime", ignore_retract=True),
                models.merge_map_with_keytime("t"),
            ),
            unique_keys(st.one_of(st.none(), timed_row)),
        )
    ),
    "nested_update": nested(),
    "nested_partial_update": partial(),
}
kind = st.sampled_from(["+I", "+I", "+U", "-U", "-D"])


@st.composite
def histories(draw: st.DrawFn, value: st.SearchStrategy[Any], function: str) -> list[Version]:
    """Return versions of up to three keys; the values of retracts have no equal elements and no null rows."""
    values = st.one_of(st.none(), value)
    found: list[Version] = []
    for _ in range(draw(st.integers(1, 10))):
        which, v = draw(kind), draw(values)
        if which in ("-U", "-D") and isinstance(v, list):
            v = models.collect(distinct=True).agg([], v)
            v = v if not function.startswith("nested") else [r for r in v if r is not None]
        found.append(
            (which, {"k": draw(st.integers(0, 2)), "g": draw(st.one_of(st.none(), st.integers(0, 4))), "v": v})
        )
    return found


def comparable(found: list[Version], t: DataType) -> list[Any]:
    """Return the rows with maps as dictionaries."""
    is_map = isinstance(t, MapType)
    return [(k, {n: dict(x) if is_map and n == "v" and x is not None else x for n, x in r.items()}) for k, r in found]


def columns(t: DataType) -> dict[str, DataField]:
    return {"k": DataField(0, "k", INT), "g": DataField(1, "g", INT), "v": DataField(2, "v", t)}


@pytest.mark.parametrize("function", CASES)
@settings(max_examples=MANY, deadline=None)
@given(data=st.data())
def test_aggregation_is_what_the_model_says(function: str, data: st.DataObject) -> None:
    (t, chosen, model), value = data.draw(CASES[function])
    removes = data.draw(st.booleans())
    c = columns(t)
    engine = Aggregation({"v": build_aggregate(c["v"], chosen)}, remove_record_on_delete=removes)
    column = Column(function, chosen.ignore_retract, own=model)
    history = data.draw(histories(value, function))
    expected = [aggregation(v, {"v": column}, remove_on_delete=removes) for v in by_key(history)]
    assert comparable(merged(c, engine, history), t) == comparable(expected, t)


@pytest.mark.parametrize("function", [name for name in CASES if name != "merge_map_with_keytime"])
@settings(max_examples=MANY // 4, deadline=None)
@given(data=st.data())
def test_rows_may_be_merged_in_parts(function: str, data: st.DataObject) -> None:
    (t, chosen, _), value = data.draw(CASES[function])
    c = columns(t)
    engine = Aggregation({"v": build_aggregate(c["v"], chosen)})
    history = [("+I", row) for _, row in data.draw(histories(value, function))]
    cuts = sorted(data.draw(st.sets(st.integers(0, len(history)), max_size=3)))
    parts = [history[a:b] for a, b in zip([0, *cuts], [*cuts, len(history)], strict=True) if a < b]
    first = [row for part in parts for row in merged(c, engine, part)]
    assert comparable(merged(c, engine, first), t) == comparable(merged(c, engine, history), t)


@pytest.mark.parametrize("function", CASES)
@settings(max_examples=MANY, deadline=None)
@given(data=st.data())
def test_partial_update_with_late_rows_is_what_the_model_says(function: str, data: st.DataObject) -> None:
    (t, chosen, model), value = data.draw(CASES[function])
    removes = data.draw(st.booleans())
    c = columns(t)
    group = SequenceGroup((c["g"],), ("v",), {"v": build_aggregate(c["v"], chosen)}, removes)
    column = Column(function, chosen.ignore_retract, own=model)
    expected = PartialUpdateModel("k", [Group(("g",), ("v",), {"v": column}, removes)])
    history = data.draw(histories(value, function))
    found = merged(c, PartialUpdate(frozenset("k"), (group,)), history)
    assert comparable(found, t) == comparable([expected.merge(v) for v in by_key(history)], t)

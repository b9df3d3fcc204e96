"""Merge engines: worked examples, and random versions of keys against the row by row models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.core.merge.aggregates.registry import build_aggregate
from paimon_spark.core.merge.engines.aggregation import Aggregation
from paimon_spark.core.merge.engines.first_row import first_row, first_row_ignoring_deletes
from paimon_spark.core.merge.engines.partial_update import PartialUpdate, SequenceGroup
from paimon_spark.core.merge.key_groups import MergeFunction
from paimon_spark.core.merge.sort_merge import MergeOrder, merge_rows
from paimon_spark.errors import ErrorKind, PaimonError
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.spec.aggregates import AggregateName, AggregateOptions
from paimon_spark.spec.types import DataField, parse_atomic
from tests.unit.core.merge.merge_models import Column, Group, PartialUpdateModel, Row, Version, aggregation

KINDS = ["+I", "-U", "+U", "-D"]


def fields(**types: str) -> dict[str, DataField]:
    return {n: DataField(i, n, parse_atomic(t)) for i, (n, t) in enumerate(types.items())}


def merged(columns: dict[str, DataField], function: MergeFunction, versions: Sequence[Version]) -> list[Version]:
    """Return the merged rows of `versions`, in the order of the column ``k``."""
    arrays: dict[str, Any] = {
        n: pa.array([values.get(n) for _, values in versions], to_arrow_type(f.type)) for n, f in columns.items()
    }
    arrays["_SEQUENCE_NUMBER"] = pa.array(np.arange(len(versions), dtype=np.int64))
    arrays["_VALUE_KIND"] = pa.array([KINDS.index(kind) for kind, _ in versions], pa.int8())
    found = merge_rows(pa.table(arrays), MergeOrder(key=(columns["k"],), function=function)).to_pylist()
    return [(KINDS[r["_VALUE_KIND"]], {n: r[n] for n in columns}) for r in found]


def rows(columns: dict[str, DataField], *tuples: tuple[Any, ...], kinds: str = "") -> list[Version]:
    names = list(columns)
    each = kinds.split() or ["+I"] * len(tuples)
    return [(kind, dict(zip(names, values, strict=True))) for kind, values in zip(each, tuples, strict=True)]


def values(found: list[Version]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for _, row in found]


def agg(columns: dict[str, DataField], **functions: str) -> Aggregation:
    out = {}
    for name, text in functions.items():
        word, _, ignore = text.partition(" ")
        options = AggregateOptions(function=AggregateName(word), ignore_retract=bool(ignore))
        out[name] = build_aggregate(columns[name], options)
    return Aggregation(out)


class TestPartialUpdate:
    KABC = fields(k="INT", a="INT", b="STRING", c="BOOLEAN")

    def test_values_that_are_not_null_win(self) -> None:
        versions = rows(self.KABC, (1, 10, None, None), (1, None, "x", None), (1, 20, None, True))
        assert values(merged(self.KABC, PartialUpdate(frozenset("k")), versions)) == [(1, 20, "x", True)]

    def test_a_retract_without_an_option_is_an_error(self) -> None:
        versions = rows(self.KABC, (1, 10, None, None), (1, None, "x", None), kinds="+I -D")
        with pytest.raises(PaimonError) as e:
            merged(self.KABC, PartialUpdate(frozenset("k")), versions)
        assert e.value.kind is ErrorKind.RETRACT_NOT_SUPPORTED

    def test_a_deleted_row_begins_again_with_its_values(self) -> None:
        c = fields(k="INT", a="STRING", b="STRING")
        engine = PartialUpdate(frozenset("k"), remove_record_on_delete=True)
        deleted = rows(c, (1, "x", None), (1, "x", None), kinds="+I -D")
        assert merged(c, engine, deleted)[0][0] == "-D"
        assert merged(c, engine, [*deleted, *rows(c, (1, None, "y"))]) == [("+I", {"k": 1, "a": "x", "b": "y"})]

    def test_sequence_groups_order_their_columns(self) -> None:
        c = fields(k="INT", f1="INT", f2="INT", g1="INT", f4="INT", f5="INT", g2="INT")
        groups = (SequenceGroup((c["g1"],), ("f1", "f2")), SequenceGroup((c["g2"],), ("f4", "f5")))
        engine = PartialUpdate(frozenset("k"), groups)
        history = rows(c, (1, 1, 1, 1, 1, 1, 1), (1, 2, 2, 2, 2, 2, None))
        steps = [
            ("+I", (1, 3, 3, 1, 3, 3, 3), (1, 2, 2, 2, 3, 3, 3)),
            ("-D", (1, 1, 1, 3, 1, 1, None), (1, None, None, 3, 3, 3, 3)),
            ("-D", (1, 1, 1, 3, 1, 1, 4), (1, None, None, 3, None, None, 4)),
            ("+I", (1, 4, 4, 4, 5, 5, 5), (1, 4, 4, 4, 5, 5, 5)),
            ("-D", (1, 1, 1, 6, 1, 1, 6), (1, None, None, 6, None, None, 6)),
        ]
        assert values(merged(c, engine, history)) == [(1, 2, 2, 2, 1, 1, 1)]
        for kind, version, expected in steps:
            history += rows(c, version, kinds=kind)
            assert values(merged(c, engine, history)) == [expected]

    def test_a_late_row_precedes_the_accumulated_value(self) -> None:
        c = fields(k="INT", g="INT", first="STRING", last="STRING", total="INT")
        names = {"first": "first_value", "last": "last_value", "total": "sum"}
        functions = {n: build_aggregate(c[n], AggregateOptions(function=AggregateName(f))) for n, f in names.items()}
        engine = PartialUpdate(frozenset("k"), (SequenceGroup((c["g"],), tuple(names), functions),))
        history = rows(c, (1, 1, "a", "a", 5), (1, 3, "b", "b", 7), (1, 2, "c", "c", 1))
        assert values(merged(c, engine, history)) == [(1, 3, "c", "b", 13)]

    def test_a_delete_of_a_listed_group_deletes_the_row(self) -> None:
        c = fields(k="INT", g1="INT", a="STRING", g2="INT", b="STRING")
        groups = (SequenceGroup((c["g1"],), ("a",)), SequenceGroup((c["g2"],), ("b",), removes_record=True))
        engine = PartialUpdate(frozenset("k"), groups)
        first = rows(c, (1, 1, "A", 1, "B"))
        retracted = merged(c, engine, [*first, *rows(c, (1, 2, None, None, None), kinds="-D")])
        assert retracted == [("+I", {"k": 1, "g1": 2, "a": None, "g2": 1, "b": "B"})]
        assert merged(c, engine, [*first, *rows(c, (1, None, None, 2, None), kinds="-D")])[0][0] == "-D"

    def test_an_ignored_first_delete_still_sets_its_values(self) -> None:
        c = fields(k="INT", a="INT", b="INT")
        engine = PartialUpdate(frozenset("k"), ignore_delete=True)
        assert merged(c, engine, rows(c, (1, 1, 7), (1, 2, None), kinds="-D +I")) == [("+I", {"k": 1, "a": 2, "b": 7})]


class TestAggregation:
    KSM = fields(k="INT", s="INT", m="INT")

    def test_each_column_has_its_function(self) -> None:
        engine = agg(self.KSM, s="sum", m="max")
        versions = rows(self.KSM, (1, 10, 10), (1, 5, 20), (1, None, None))
        assert values(merged(self.KSM, engine, versions)) == [(1, 15, 20)]

    def test_retracts_are_taken_back_or_ignored(self) -> None:
        versions = rows(self.KSM, (1, 10, 10), (1, 5, 20), (1, 5, 20), kinds="+I +I -U")
        assert values(merged(self.KSM, agg(self.KSM, s="sum", m="max ignore"), versions)) == [(1, 10, 20)]
        with pytest.raises(PaimonError, match=r"'max' of column 'm'.*ignore-retract") as e:
            merged(self.KSM, agg(self.KSM, s="sum", m="max"), versions)
        assert e.value.kind is ErrorKind.RETRACT_NOT_SUPPORTED

    def test_a_deleted_row_is_removed(self) -> None:
        engine = Aggregation(agg(self.KSM, s="sum", m="max").functions, remove_record_on_delete=True)
        history = rows(self.KSM, (1, 5, 5), (1, 6, 6), kinds="+I -D")
        assert merged(self.KSM, engine, history)[0][0] == "-D"
        assert values(merged(self.KSM, engine, [*history, *rows(self.KSM, (1, 1, 1))])) == [(1, 7, 6)]

    def test_a_required_column_cannot_become_null(self) -> None:
        engine = Aggregation(agg(self.KSM, s="last_value", m="max").functions, required=frozenset(["s"]))
        versions = rows(self.KSM, (1, 5, 5), (1, None, 6))
        with pytest.raises(PaimonError, match=r"NOT NULL column 's'.*DROP NOT NULL") as e:
            merged(self.KSM, engine, versions)
        assert e.value.kind is ErrorKind.NOT_NULL_VIOLATION
        removing = Aggregation(engine.functions, remove_record_on_delete=True, required=frozenset(["s"]))
        deleted = rows(self.KSM, (1, 5, 5), (1, None, 6), kinds="+I -D")
        assert merged(self.KSM, removing, deleted)[0][0] == "-D"

    def test_a_single_version_stays_as_it_is(self) -> None:
        found = merged(self.KSM, agg(self.KSM, s="sum", m="max"), rows(self.KSM, (1, 5, 5), kinds="-D"))
        assert found == [("-D", {"k": 1, "s": 5, "m": 5})]


def test_first_row_keeps_the_oldest_version() -> None:
    c = fields(k="INT", v="STRING")
    versions = rows(c, (1, "a"), (2, "c"), (1, "b"))
    assert values(merged(c, first_row, versions)) == [(1, "a"), (2, "c")]
    deletes = rows(c, (1, "d"), (1, "a"), (1, "b"), (2, "x"), (2, "y"), kinds="-D +I -D -D -D")
    assert values(merged(c, first_row_ignoring_deletes, deletes)) == [(1, "a")]
    with pytest.raises(PaimonError, match="ignore-delete"):
        merged(c, first_row, deletes)


small = st.one_of(st.none(), st.integers(-3, 3))
kind = st.sampled_from(["+I", "+I", "+U", "-U", "-D"])


@st.composite
def histories(draw: st.DrawFn, names: Sequence[str], kinds: st.SearchStrategy[str] = kind) -> list[Version]:
    count = draw(st.integers(1, 12))
    return [(draw(kinds), {"k": draw(st.integers(0, 2)), **{n: draw(small) for n in names}}) for _ in range(count)]


def by_key(versions: Sequence[Version]) -> list[list[Version]]:
    return [[v for v in versions if v[1]["k"] == k] for k in sorted({v[1]["k"] for v in versions})]


RETRACTABLE = ["sum", "last_value", "last_non_null_value"]
OTHERS = ["max", "min", "first_value", "first_non_null_value"]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_aggregation_is_what_the_model_says(data: st.DataObject) -> None:
    c = fields(k="INT", a="INT", b="INT")
    function = st.sampled_from([*RETRACTABLE, *(f"{n} ignore" for n in (*RETRACTABLE, *OTHERS))])
    texts = {n: data.draw(function) for n in "ab"}
    removes = data.draw(st.booleans())
    engine = Aggregation(agg(c, **texts).functions, remove_record_on_delete=removes)
    columns = {n: Column(t.split()[0], t.endswith("ignore")) for n, t in texts.items()}
    history = data.draw(histories("ab"))
    expected = [aggregation(v, columns, remove_on_delete=removes) for v in by_key(history)]
    assert merged(c, engine, history) == expected


@settings(max_examples=500, deadline=None)
@given(st.data())
def test_partial_update_is_what_the_model_says(data: st.DataObject) -> None:
    c = fields(k="INT", a="INT", b="INT", g="INT", h="INT", p="INT", q="INT", s="INT", r="INT")
    function = st.sampled_from([*RETRACTABLE, *(f"{n} ignore" for n in OTHERS)])
    texts = {n: data.draw(st.one_of(st.none(), function)) for n in "pqr"}
    chosen = {n: t for n, t in texts.items() if t is not None}
    layout = data.draw(st.sampled_from([(), (("g", "h"),), (("g", "h"), ("s",))]))
    protects = {("g", "h"): ("p", "q"), ("s",): ("r",)}
    removes = {g: data.draw(st.booleans()) for g in layout}
    ignore = data.draw(st.booleans()) and not any(removes.values())
    remove = not layout and not ignore
    built = agg(c, **chosen).functions
    engine = PartialUpdate(
        frozenset("k"),
        tuple(
            SequenceGroup(
                tuple(c[n] for n in g), protects[g], {n: built[n] for n in protects[g] if n in built}, removes[g]
            )
            for g in layout
        ),
        ignore_delete=ignore,
        remove_record_on_delete=remove,
    )
    columns = {n: Column(t.split()[0], t.endswith("ignore")) for n, t in chosen.items()}
    model = PartialUpdateModel(
        "k",
        [Group(g, protects[g], {n: columns[n] for n in protects[g] if n in columns}, removes[g]) for g in layout],
        ignore_delete=ignore,
        remove_on_delete=remove,
    )
    history: list[tuple[str, Row]] = data.draw(histories("abghpqsr"))
    assert merged(c, engine, history) == [model.merge(v) for v in by_key(history)]

"""Bitmaps and sketches: what Paimon merged, random sets against the models, and malformed values."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import datasketches
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from paimon_spark.core.merge.aggregates.inputs import Inputs
from paimon_spark.core.merge.aggregates.registry import Aggregate, build_aggregate
from paimon_spark.core.merge.engines.aggregation import Aggregation
from paimon_spark.core.merge.engines.partial_update import PartialUpdate, SequenceGroup
from paimon_spark.errors import CorruptTableError, EngineError, ErrorKind
from paimon_spark.format.roaring64_art import read_art, write_art
from paimon_spark.spec.aggregates import AggregateName, AggregateOptions
from paimon_spark.spec.types import DataField, parse_atomic
from tests.art_bitmaps import art_bitmap
from tests.peers.aggregate_bytes import Case, recorded
from tests.unit.core.merge.merge_models import Column, Group, PartialUpdateModel, Version, aggregation
from tests.unit.core.merge.test_merge_engines import by_key, fields, kind, merged

FIELD = DataField(0, "c", parse_atomic("BYTES"))
RECORDED = recorded()
FUNCTIONS = ["rbm32", "rbm64", "hll_sketch", "theta_sketch"]


def function(name: str, *, ignore_retract: bool = False) -> Aggregate:
    return build_aggregate(FIELD, AggregateOptions(function=AggregateName(name), ignore_retract=ignore_retract))


def values_of(name: str, *keys: list[bytes | None]) -> list[bytes | None]:
    """Return the aggregated value of each key."""
    column = pa.array([v for key in keys for v in key], pa.binary())
    counts = np.array([len(key) for key in keys], dtype=np.int64)
    found = function(name)(Inputs(column, np.arange(len(column), dtype=np.int64), np.cumsum(counts) - counts))
    if isinstance(found, np.ndarray):
        return [None if i < 0 else column[int(i)].as_py() for i in found]
    return found.to_pylist()


@pytest.mark.parametrize("case", RECORDED.values(), ids=list(RECORDED))
def test_values_are_merged_to_the_bytes_of_paimon(case: Case) -> None:
    assert values_of(case.function, list(case.inputs)) == [case.merged]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nulls_do_not_count_and_a_single_value_stays(name: str) -> None:
    case = RECORDED[f"{name} of the specification"]
    a, b = case.inputs
    assert values_of(name, [None], [None, a, None], [b"garbage"]) == [None, a, b"garbage"]
    assert values_of(name, [None, a, b], [None, None], [b, None], [a, b]) == [case.merged, None, b, case.merged]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("value", [b"", b"x", b"garbage of several bytes", bytes(40), b"\xff" * 40])
def test_a_malformed_value_is_an_error_that_names_the_column(name: str, value: bytes) -> None:
    sound = RECORDED[f"{name} of the specification"].inputs[0]
    if name == "rbm64" and value[:1] == b"\0":
        return  # empty, and Java ignores what follows
    for values in ([sound, value], [value, sound]):
        with pytest.raises(CorruptTableError, match="column 'c'") as e:
            values_of(name, values)
        assert e.value.kind is ErrorKind.CORRUPT_DATA_FILE


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_a_damaged_value_is_merged_or_an_error(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(list(RECORDED.values())))
    values = [bytearray(v) for v in case.inputs]
    damaged = data.draw(st.sampled_from(values))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(len(damaged) - 1, 0)))
        damaged[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    with suppress(CorruptTableError):
        (merged,) = values_of(case.function, [bytes(v) for v in values])
        assert merged


def test_sketches_without_the_library_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(EngineError, match=r"column 'c'.*pip install datasketches") as e:
        function("theta_sketch")
    assert e.value.kind is ErrorKind.ENVIRONMENT


def hll_of(numbers: frozenset[int]) -> bytes:
    sketch = datasketches.hll_sketch(12, datasketches.tgt_hll_type.HLL_4)
    for n in sorted(numbers):
        sketch.update(n)
    out: bytes = sketch.serialize_compact()
    return out


def coupons(sketch: bytes) -> frozenset[int]:
    """Return what an HLL sketch remembers, which is in list or set mode."""
    return frozenset(np.frombuffer(sketch, "<u4", offset=8 if sketch[0] == 2 else 12).tolist())


def theta_of(numbers: frozenset[int]) -> bytes:
    sketch = datasketches.update_theta_sketch(12)
    for n in sorted(numbers):
        sketch.update(n)
    out: bytes = sketch.compact().serialize()
    return out


WRITE: dict[str, Callable[[frozenset[int]], bytes]] = {
    "rbm32": lambda s: BitMap(s).serialize(),
    "rbm64": lambda s: write_art(art_bitmap(np.array(sorted(s), dtype=np.uint64))),
    "hll_sketch": hll_of,
    "theta_sketch": theta_of,
}
READ: dict[str, Callable[[bytes], frozenset[int]]] = {
    "rbm32": lambda b: frozenset(BitMap.deserialize(b)),
    "rbm64": lambda b: frozenset(read_art(b).values().tolist()),
    "hll_sketch": coupons,
    "theta_sketch": lambda b: frozenset(datasketches.compact_theta_sketch.deserialize(b)),
}
"""The members of a value; of a sketch, their hashes."""
sets = st.one_of(st.none(), st.frozensets(st.integers(0, 9) | st.integers(0, 1 << 20), max_size=12))


@st.composite
def versions(draw: st.DrawFn) -> list[Version]:
    count = draw(st.integers(1, 9))
    group = st.one_of(st.none(), st.integers(0, 3))
    return [(draw(kind), {"k": draw(st.integers(0, 2)), "g": draw(group), "c": draw(sets)}) for _ in range(count)]


def with_sets(rows: list[Version], change: Callable[[Any], Any]) -> list[Version]:
    return [(k, {**row, "c": None if row["c"] is None else change(row["c"])}) for k, row in rows]


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=100, deadline=None)
@given(history=versions(), grouped=st.booleans())
def test_random_sets_are_merged_as_the_model_says(name: str, history: list[Version], grouped: bool) -> None:
    columns = fields(k="INT", g="INT", c="BYTES")
    built = {"c": function(name, ignore_retract=True)}
    stored = with_sets(history, WRITE[name])
    members = with_sets(stored, READ[name])
    column = {"c": Column(name, ignore_retract=True)}
    if grouped:
        model = PartialUpdateModel("k", [Group(("g",), ("c",), column)])
        engine = PartialUpdate(frozenset("k"), (SequenceGroup((columns["g"],), ("c",), built),))
        expected = [model.merge(v) for v in by_key(members)]
        found = merged(columns, engine, stored)
    else:
        expected = [aggregation(v, column) for v in by_key(members)]
        found = merged(columns, Aggregation(built), stored)
    assert with_sets(found, READ[name]) == expected

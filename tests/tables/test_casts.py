"""Every cast of a column's type that Apache Paimon allows, with the answers that its Java release gave."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.core.read.projection import convert
from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.casts import can_change
from paimon_spark.spec.types import parse_atomic, type_from_json
from tests.tables.cast_values import NESTED, NESTED_TARGETS, VALUES, ZONES
from tests.tables.casting import column, deviations, good, nested, recorded, refused, shown, skipped

RECORDED = recorded()
CASES = [(zone, case) for zone in ZONES for case in RECORDED[zone]]
NAMES = [f"{c['from']} to {c['to']} in {z}" for z, c in CASES]
ALLOWED = [(z, c) for z, c in CASES if c["allowed"]]
NAMES_OF_ALLOWED = [n for n, (_, c) in zip(NAMES, CASES, strict=True) if c["allowed"]]


def test_the_table_is_whole() -> None:
    assert {c["from"] for _, c in CASES} == set(VALUES)
    assert len(ALLOWED) > 400
    assert all(len(c["values"]) == len(VALUES[c["from"]]) for _, c in ALLOWED)


@pytest.mark.parametrize(("zone", "case"), CASES, ids=NAMES)
def test_the_same_changes_are_allowed(zone: str, case: dict[str, Any]) -> None:
    assert can_change(parse_atomic(case["from"]), parse_atomic(case["to"]), explicit=True) is case["allowed"]


@pytest.mark.parametrize(("zone", "case"), ALLOWED, ids=NAMES_OF_ALLOWED)
def test_values_become_what_paimon_makes_of_them(zone: str, case: dict[str, Any]) -> None:
    source, target = parse_atomic(case["from"]), parse_atomic(case["to"])
    pairs = list(good(case))
    values, answers = [v for v, _ in pairs], [a for _, a in pairs]
    given = column([None, *values, None], source)
    got = convert(given, source, target, zone)
    got.validate(full=True)
    want = column([None, *deviations(case, answers), None], target)
    assert got.type == want.type
    assert shown(got) == shown(want)
    assert shown(convert(given.slice(1), source, target, zone)) == shown(got)[1:]
    assert len(convert(given.slice(0, 0), source, target, zone)) == 0
    assert convert(given.slice(0, 1), source, target, zone).null_count == 1


@pytest.mark.parametrize(("zone", "case"), ALLOWED, ids=NAMES_OF_ALLOWED)
def test_what_paimon_cannot_read_is_an_error_and_never_a_value(zone: str, case: dict[str, Any]) -> None:
    source, target = parse_atomic(case["from"]), parse_atomic(case["to"])
    for value, answer in zip(VALUES[case["from"]], case["values"], strict=True):
        if not skipped(case, value) and refused(case, value, answer):
            with pytest.raises(CorruptTableError, match="cannot be read as"):
                convert(column([value], source), source, target, zone)


@pytest.mark.parametrize(("zone", "case"), ALLOWED, ids=NAMES_OF_ALLOWED)
def test_what_stands_below_a_null_does_not_matter(zone: str, case: dict[str, Any]) -> None:
    source, target = parse_atomic(case["from"]), parse_atomic(case["to"])
    given = column(VALUES[case["from"]], source)
    hidden = pa.Array.from_buffers(given.type, len(given), [pa.py_buffer(bytes(64)), *given.buffers()[1:]])
    got = convert(hidden, source, target, zone)
    assert got.null_count == len(given)
    got.validate(full=True)


@pytest.mark.parametrize("case", RECORDED["nested"], ids=lambda c: f"{c['from']['type']} to {c['to']}")
def test_constructed_types_become_texts(case: dict[str, Any]) -> None:
    source, target = type_from_json(case["from"]), parse_atomic(case["to"])
    assert can_change(source, target, explicit=True) is case["allowed"]
    if not case["allowed"]:
        return
    values = {json.dumps(s): v for s, v in NESTED}[json.dumps(case["from"])]
    given = nested([None, *values, None], source)
    assert convert(given, source, target).to_pylist() == [None, *case["values"], None]
    assert convert(given.slice(1), source, target).to_pylist() == [*case["values"], None]
    assert convert(given.slice(1, 0), source, target).to_pylist() == []


def test_nested_types_are_all_asked() -> None:
    assert len(RECORDED["nested"]) == len(NESTED) * len(NESTED_TARGETS)

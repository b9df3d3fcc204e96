"""Indexes that Apache Paimon wrote: they are read, and the same bytes are written here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from paimon_spark.format.file_index.container import pack
from paimon_spark.spec.file_indexes import IndexKind
from paimon_spark.spec.predicate import Comparison, IsNull, evaluate
from tests.file_indexes import container_of, opened
from tests.peers.file_indexes import predicates_of, recorded, values_of

CASES = recorded()


def _name(case: dict[str, Any]) -> str:
    return "-".join((case["type"], case["kind"], *case["settings"].values()))


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_an_index_of_paimon_selects_the_rows(case: dict[str, Any]) -> None:
    name, kind = case["type"], IndexKind(case["kind"])
    values = values_of(name)
    reader = opened(name, pack({"v": {kind: bytes.fromhex(case["index"])}}), len(values))
    for predicate in predicates_of(name):
        wanted = {i for i, v in enumerate(values) if evaluate(predicate, {"v": v}) is True}
        found = reader.matching_rows(predicate)
        assert found is None or set(found) >= wanted, predicate
        exact = kind is not IndexKind.BLOOM_FILTER and name not in ("char", "timestamp(9)")
        if exact and (found is not None or isinstance(predicate, IsNull)):
            assert found is not None
            assert set(found) == wanted, predicate


ABSENT: dict[str, Callable[[int], Any]] = {
    "smallint": lambda i: 100 + i,
    "int": lambda i: 100 + i,
    "bigint": lambda i: 100 + i,
    "float": lambda i: i + 0.25,
    "double": lambda i: i + 0.25,
    "date": lambda i: 100 + i,
    "time": lambda i: 100 + i,
    "string": lambda i: f"absent {i}",
    "bytes": lambda i: b"absent %d" % i,
}
BLOOMS = [c for c in CASES if c["kind"] == IndexKind.BLOOM_FILTER and c["type"] in ABSENT]


@pytest.mark.parametrize("case", BLOOMS, ids=_name)
def test_a_bloom_filter_of_paimon_leaves_absent_values_out(case: dict[str, Any]) -> None:
    name, container = case["type"], pack({"v": {IndexKind.BLOOM_FILTER: bytes.fromhex(case["index"])}})
    reader = opened(name, container, len(values_of(name)))
    found = [reader.matching_rows(Comparison("=", "v", ABSENT[name](i))) for i in range(100)]
    assert all(rows is None or not len(rows) for rows in found)
    assert found.count(None) < 10, "false positives"


def test_a_bloom_filter_is_recorded_for_each_of_these_types() -> None:
    assert {c["type"] for c in BLOOMS} == ABSENT.keys()


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_the_bytes_are_those_of_paimon(case: dict[str, Any]) -> None:
    name, kind, stored = case["type"], IndexKind(case["kind"]), bytes.fromhex(case["index"])
    container = container_of(name, kind, values_of(name), case["settings"])
    written = container[len(container) - len(stored) :]
    assert len(container) == len(pack({"v": {kind: stored}}))
    if kind is IndexKind.BITMAP:  # Paimon stores the bitmaps in the order of a hash table
        assert len(written) == len(stored)
    else:
        assert written == stored

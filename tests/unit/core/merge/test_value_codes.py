"""Codes of Arrow values: equal values have equal codes, and different values different ones."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.core.merge.aggregates.value_codes import row_codes, value_codes
from paimon_spark.core.merge.keys import dense_ranks

ATOMS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int32(), st.integers(-2, 2)),
    (pa.int64(), st.sampled_from([0, 1 << 62, -(1 << 62)])),
    (pa.bool_(), st.booleans()),
    (pa.float64(), st.sampled_from([0.5, -1.0, 2.0])),
    (pa.string(), st.sampled_from(["", "a", "a\x00", "\u00e9"])),
    (pa.binary(), st.sampled_from([b"", b"\x00", b"\x00\x00"])),
    (pa.decimal128(20, 2), st.sampled_from([Decimal("1.00"), Decimal("-1.00")])),
    (pa.date32(), st.sampled_from([datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)])),
    (pa.time32("ms"), st.sampled_from([datetime.time(1), datetime.time(2)])),
    (pa.timestamp("us"), st.sampled_from([datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2)])),
]


@st.composite
def types(draw: st.DrawFn, depth: int = 2) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    """Return an Arrow type, and its values as `comparable` Python objects."""
    shape = draw(st.sampled_from(["atom", "list", "struct", "map"])) if depth else "atom"
    if shape == "atom":
        t, values = draw(st.sampled_from(ATOMS))
        return t, st.one_of(st.none(), values)
    t, values = draw(types(depth - 1))
    if shape == "list":
        return pa.list_(t), st.one_of(st.none(), st.lists(values, max_size=3))
    if shape == "map":
        keys = st.dictionaries(st.sampled_from("ab"), values, max_size=2)
        return pa.map_(pa.string(), t), st.one_of(st.none(), keys.map(lambda d: list(d.items())))
    other, others = draw(types(depth - 1))
    struct = pa.struct([("x", t), ("y", other)])
    return struct, st.one_of(st.none(), st.fixed_dictionaries({"x": values, "y": others}))


def comparable(value: Any, t: pa.DataType) -> Any:
    """Return a value with maps as sets."""
    if value is None:
        return None
    if pa.types.is_map(t):
        return frozenset((k, comparable(v, t.item_type)) for k, v in value)
    if pa.types.is_list(t):
        return tuple(comparable(v, t.value_type) for v in value)
    if pa.types.is_struct(t):
        return tuple(comparable(value[f.name], f.type) for f in t)
    return value


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_codes_are_equal_where_values_are(data: st.DataObject) -> None:
    t, values = data.draw(types())
    found = data.draw(st.lists(values, max_size=12))
    start = data.draw(st.integers(0, len(found)))
    codes = value_codes(pa.array(found, t).slice(start)).tolist()
    keys = [comparable(v, t) for v in found[start:]]
    assert len(codes) == len(keys)
    assert len(set(zip(codes, keys, strict=True))) == len(set(codes)) == len(set(keys))
    assert all(0 <= c <= len(codes) for c in codes)


@pytest.mark.parametrize("t", [pa.float32(), pa.float64()])
def test_nan_equals_nan_and_zeros_have_signs(t: pa.DataType) -> None:
    bits = np.array([0x7FF8000000000000, 0x7FF8000000000001], dtype=np.uint64).view(np.float64)
    codes = value_codes(pa.array([*bits, 0.0, -0.0, None, 0.0], t)).tolist()
    assert codes[0] == codes[1]
    assert len({codes[0], *codes[2:5]}) == 4
    assert codes[5] == codes[2]


def test_a_row_of_nulls_is_not_null() -> None:
    t = pa.struct([("x", pa.int32())])
    assert len(set(value_codes(pa.array([None, {"x": None}, {"x": 0}], t)).tolist())) == 3


def test_values_under_a_null_do_not_count() -> None:
    child = pa.array([1, 2], pa.int32())
    rows = pa.StructArray.from_arrays([child], names=["x"], mask=pa.array([True, True]))
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), child, mask=pa.array([True, True]))
    assert len(set(value_codes(rows).tolist())) == len(set(value_codes(lists).tolist())) == 1


def test_rows_without_members_are_equal() -> None:
    assert set(value_codes(pa.array([{}, {}], pa.struct([]))).tolist()) == {1}


def test_row_codes_of_one_two_and_more_columns() -> None:
    a, b = np.array([0, 0, 1, 1], np.int32), np.array([0, 1, 0, 0], np.int32)
    assert row_codes([a]).tolist() == a.tolist()
    assert row_codes([a, b]).tolist() == row_codes([a, b, a]).tolist() == [0, 1, 2, 2]


def test_dense_ranks_order_by_the_first_column() -> None:
    assert dense_ranks([np.array([2, 1, 2, 2]), np.array([0, 9, 5, 0])]).tolist() == [1, 0, 2, 1]

"""Space-filling curves: order inside a column, the weave of bits, and what makes a Hilbert curve one."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.core.compact.space_filling_curves import hilbert_keys, hilbert_transposed, interleaved, zorder_keys


def ordered(kind: pa.DataType, *values: object) -> pa.Array:
    return pa.array(values, kind)


IN_ORDER = [
    ordered(pa.int8(), -128, -1, 0, 1, 127),
    ordered(pa.int32(), -(1 << 31), -5, 0, 3, (1 << 31) - 1),
    ordered(pa.int64(), -(1 << 63), -1, 0, 1, (1 << 63) - 1),
    ordered(pa.float32(), float("-inf"), -2.5, -0.0, 0.0, 1e-3, 7.5, float("inf")),
    ordered(pa.float64(), float("-inf"), -1e300, -1e-300, 0.0, 1e-300, 1e300, float("inf")),
    ordered(pa.decimal128(20, 2), Decimal("-99999.99"), Decimal("-0.01"), Decimal(0), Decimal("300.5")),
    ordered(pa.bool_(), False, True),
    ordered(pa.date32(), dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(9999, 1, 1)),
    ordered(pa.timestamp("us", "UTC"), dt.datetime(1960, 1, 1), dt.datetime(1970, 1, 1), dt.datetime(2024, 1, 1)),
    ordered(pa.string(), "", "a", "aa", "b", "ä"),
    ordered(pa.binary(), b"", b"\x00\x01", b"\x7f", b"\xff"),
]


@pytest.mark.parametrize("column", IN_ORDER, ids=[str(c.type) for c in IN_ORDER])
def test_one_column_keeps_its_order(column: pa.Array) -> None:
    for keys in (zorder_keys([column], 8), hilbert_keys([column])):
        found = keys.to_pylist()
        assert found == sorted(found)
        # What 63 of 64 bits cannot tell apart may be equal there; the ends never are.
        assert found[0] < found[-1]
    assert len(set(zorder_keys([column], 8).to_pylist())) == len(column)


@pytest.mark.parametrize("column", IN_ORDER, ids=[str(c.type) for c in IN_ORDER])
def test_null_is_first_on_the_z_curve_last_on_the_hilbert_curve(column: pa.Array) -> None:
    with_null = pa.concat_arrays([column, pa.nulls(1, column.type)])
    z = zorder_keys([with_null], 8).to_pylist()
    assert z[-1] == bytes(8) == min(z)
    h = hilbert_keys([with_null]).to_pylist()
    assert h[-1] == max(h)


def test_a_slice_has_the_keys_of_its_rows() -> None:
    columns = [pa.array(["x", None, "long enough", "b"]), pa.array([4, None, 2, 1])]
    whole = zorder_keys(columns, 3).to_pylist()
    assert zorder_keys([c.slice(1, 2) for c in columns], 3).to_pylist() == whole[1:3]
    assert {len(k) for k in whole} == {3 + 8}
    assert hilbert_keys([c.slice(1, 2) for c in columns]).to_pylist() == hilbert_keys(columns).to_pylist()[1:3]
    assert zorder_keys([c.slice(0, 0) for c in columns], 3).to_pylist() == []


def test_bits_interleave_from_the_highest_and_skip_short_columns() -> None:
    a, b = np.array([[0b10110000]], np.uint8), np.array([[0b01000000, 0b10000001]], np.uint8)
    woven = interleaved([a, b])
    assert np.unpackbits(woven).tolist() == [1, 0, 0, 1, 1, 0, 1, *[0] * 9, 1, 0, 0, 0, 0, 0, 0, 1]


def test_the_z_curve_visits_quarter_after_quarter() -> None:
    grid = list(itertools.product(range(4), range(4)))
    keys = zorder_keys([pa.array([x for x, _ in grid]), pa.array([y for _, y in grid])], 8).to_pylist()
    visited = [p for _, p in sorted(zip(keys, grid, strict=True))]
    assert visited[:8] == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3)]


@pytest.mark.parametrize(("dimensions", "bits"), [(2, 4), (3, 3), (4, 2)])
def test_neighbours_on_the_hilbert_curve_are_neighbours_in_space(dimensions: int, bits: int) -> None:
    grid = np.array(list(itertools.product(range(1 << bits), repeat=dimensions)), dtype=np.uint64)
    turned = hilbert_transposed(list(grid.T), bits)
    index = np.zeros(len(grid), dtype=np.int64)
    for bit in range(bits - 1, -1, -1):
        for axis in turned:
            index = index * 2 + ((axis >> np.uint64(bit)) & np.uint64(1)).astype(np.int64)
    assert sorted(index) == list(range(len(grid)))
    steps = np.abs(np.diff(grid[np.argsort(index)].astype(np.int64), axis=0)).sum(axis=1)
    assert set(steps.tolist()) == {1}

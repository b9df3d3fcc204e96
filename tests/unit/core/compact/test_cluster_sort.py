"""Sorting by a clustering in one process: any types, nulls, and more rows than the buffer holds."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.core.compact.cluster_sort import ClusterSorter
from paimon_spark.core.compact.space_filling_curves import hilbert_keys, zorder_keys
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.testing.tables import new_table

TYPES: dict[str, st.SearchStrategy[Any]] = {
    "INT": st.integers(-(2**31), 2**31 - 1),
    "STRING": st.text(max_size=12),
    "BYTES": st.binary(max_size=12),
    "BOOLEAN": st.booleans(),
    "DOUBLE": st.floats(allow_nan=False),
    "DECIMAL(30, 3)": st.decimals("-1e20", "1e20", places=3),
    "DATE": st.dates(),
    "TIMESTAMP(9)": st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1)),
}


def sorted_rows(types: dict[str, str], strategy: str, chunks: list[pa.Table], **options: str) -> pa.Table:
    fixed = {"clustering.incremental": "true", "clustering.columns": ",".join(types), "clustering.strategy": strategy}
    table = new_table({**types, "n": "INT"}, options=fixed | options)
    return pa.concat_tables([chunks[0].slice(0, 0), *ClusterSorter(table).sorted(chunks)])


def rank(value: Any) -> tuple[bool, Any]:
    """Nulls first; equal zeros in the order of their signs."""
    if isinstance(value, float):
        return True, (value, math.copysign(1, value))
    return (False, 0) if value is None else (True, value)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_columns_in_order(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=3))
    types = {f"c{i}": name for i, name in enumerate(names)}
    rows = data.draw(st.lists(st.tuples(*(st.none() | TYPES[n] for n in names)), max_size=30))
    cut = data.draw(st.integers(0, len(rows)))
    probe = new_table(types)
    schema = pa.schema([*((f.name, to_arrow_type(f.type)) for f in probe.schema.fields), ("n", pa.int32())])

    def table(part: list[tuple[Any, ...]], start: int) -> pa.Table:
        numbered = [[r[i] for r in part] for i in range(len(types))]
        arrays = [
            pa.array(v, t) for v, t in zip([*numbered, range(start, start + len(part))], schema.types, strict=True)
        ]
        return pa.table(arrays, schema=schema)

    found = sorted_rows(types, "order", [table(rows[:cut], 0), table(rows[cut:], cut)])
    assert found.schema.equals(schema)
    expected = sorted(range(len(rows)), key=lambda i: [rank(v) for v in rows[i]])
    assert found.column("n").to_pylist() == expected


@pytest.mark.parametrize("spills", ["true", "false"])
@pytest.mark.parametrize("strategy", ["order", "zorder", "hilbert"])
def test_more_rows_than_the_buffer(strategy: str, spills: str) -> None:
    rng, types = np.random.default_rng(5), {"a": "INT", "s": "STRING"}
    options = {"write-buffer-size": "1 mb", "write-buffer-spillable": spills, "local-sort.max-num-file-handles": "2"}
    chunks = []
    for start in range(0, 200_000, 20_000):
        a = rng.integers(0, 50, 20_000)
        columns = [pa.array(a, pa.int32()), [f"text {x}" for x in rng.integers(0, 99, 20_000)]]
        chunks.append(pa.table([*columns, pa.array(range(start, start + 20_000), pa.int32())], names=["a", "s", "n"]))
    found, given_rows = sorted_rows(types, strategy, chunks, **options), pa.concat_tables(chunks)
    assert found.sort_by("n").equals(given_rows)
    through = [found.column(c).combine_chunks() for c in types]
    if strategy == "order":
        keys = list(zip(*(c.to_pylist() for c in through), strict=True))
    else:
        keys = (zorder_keys(through, 8) if strategy == "zorder" else hilbert_keys(through)).to_pylist()
    assert keys == sorted(keys)


def test_full_disks_and_no_rows() -> None:
    rows = pa.table({"a": pa.array(range(100_000, 0, -1), pa.int32()), "n": pa.array([0] * 100_000, pa.int32())})
    options = {"write-buffer-size": "1 mb", "write-buffer-spill.max-disk-size": "1 b"}
    found = sorted_rows({"a": "INT"}, "order", [rows] * 3, **options)
    assert found.column("a").to_pylist() == sorted(rows.column("a").to_pylist() * 3)
    assert sorted_rows({"a": "INT"}, "order", [rows.slice(0, 0)]).num_rows == 0


def test_wide_numbers_are_exact() -> None:
    wide = [decimal.Decimal(2**62) + i for i in (2, 0, 1)]
    rows = pa.table({"a": pa.array(wide, pa.decimal128(38, 0)), "n": pa.array([2, 0, 1], pa.int32())})
    assert sorted_rows({"a": "DECIMAL(38, 0)"}, "order", [rows]).column("n").to_pylist() == [0, 1, 2]

"""Superseded rows that the engine finds for a query that Spark runs."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from paimon_spark.core.cancellation import cancellable
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.select import plan_select
from paimon_spark.errors import EngineError, StatementCancelledError
from paimon_spark.spark.native_scan import superseded_rows_key
from paimon_spark.spark.read_modes import FEWEST_ROWS, ReadRequest
from paimon_spark.spark.superseded import superseded_in_engine
from paimon_spark.spec.predicate import TRUE
from paimon_spark.testing.tables import new_table


@pytest.fixture
def table() -> Table:
    """Two buckets; in each of them, the second file has newer rows of some keys of the first."""
    found = new_table({"k": "INT", "v": "INT"}, primary_key=["k"], options={"bucket": "2", "write-only": "true"})
    for rows in (FEWEST_ROWS, 1000):
        numbers = pa.array(np.arange(rows, dtype=np.int32))
        write_arrow(found, pa.table({"k": numbers, "v": numbers}))
    return found


def request_of(table: Table) -> ReadRequest:
    return ReadRequest(table, ("v",), TRUE, plan_select(table).splits)


def test_the_engine_finds_the_rows_of_the_wanted_splits(table: Table) -> None:
    request = request_of(table)
    one, other = (superseded_rows_key(table, s) for s in request.read_modes.filtered)
    batches = list(superseded_in_engine(request, [one, other]))
    assert [set(b.column("split").to_pylist()) for b in batches] == [{one}, {other}]
    assert [b.column("file").null_count for b in batches] == [1, 1]
    bitmaps = [data for b in batches for data in b.column("rows").drop_null().to_pylist()]
    assert sum(len(BitMap.deserialize(data)) for data in bitmaps) == 1000
    assert [b.to_pydict() for b in superseded_in_engine(request, [other])] == [batches[1].to_pydict()]


def test_the_engine_stops_if_the_statement_is_cancelled(table: Table) -> None:
    request, flag = request_of(table), threading.Event()
    flag.set()
    with cancellable(flag), pytest.raises(StatementCancelledError):
        list(superseded_in_engine(request, [superseded_rows_key(table, s) for s in request.read_modes.filtered]))


def test_splits_of_another_plan(table: Table) -> None:
    before = [superseded_rows_key(table, s) for s in request_of(table).read_modes.filtered]
    rows = pa.array([5], pa.int32())
    write_arrow(table, pa.table({"k": rows, "v": rows}))
    with pytest.raises(EngineError, match=r"db\.t was planned again"):
        list(superseded_in_engine(request_of(table), before))

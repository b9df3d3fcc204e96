"""Filters of reads in the past use the columns of the snapshot, as the rows do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import TableHandle
from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.engine.refs.branches import execute_create_branch, plan_create_branch
from paimon_spark.errors import ArgumentError, ErrorKind, NotFoundError
from paimon_spark.spec.evolution import RenameColumn
from paimon_spark.spec.identifier import Identifier


@pytest.fixture
def renamed(tmp_path: Path) -> TableHandle:
    """Return a table whose second snapshot calls `b` what the first calls `a`, and `c` what that calls `b`."""
    catalog = paimon_spark.connect(tmp_path)
    table = catalog.create_table("t", pa.schema([("b", pa.int64()), ("a", pa.string())]))
    table.append(pa.table({"b": [5, 10], "a": ["x", "y"]}))
    table.create_tag("past")
    changes = open_catalog({"warehouse": str(tmp_path)})
    changes.alter_table(Identifier.parse("default.t", "default"), [RenameColumn(("b",), "c")])
    changes.alter_table(Identifier.parse("default.t", "default"), [RenameColumn(("a",), "b")])
    table.append(pa.table({"c": [7], "b": ["z"]}))
    return table


@pytest.mark.parametrize("how", [{"version": 1}, {"version": "1"}, {"version": "past"}])
def test_filters_of_the_past_name_the_columns_of_the_snapshot(renamed: TableHandle, how: dict[str, Any]) -> None:
    assert renamed.to_arrow(filter="b > 6", **how).to_pylist() == [{"b": 10, "a": "y"}]
    assert renamed.to_arrow("b", "a = 'x'", **how).to_pylist() == [{"b": 5}]
    assert renamed.count("a = 'x' AND b < 6", **how) == 1
    with pytest.raises(NotFoundError) as e:
        renamed.count("c = 7", **how)
    assert e.value.kind is ErrorKind.COLUMN_NOT_FOUND


def test_filters_by_time_and_by_options_do_so_too(renamed: TableHandle, tmp_path: Path) -> None:
    past = renamed.snapshots()[0].time
    assert renamed.to_arrow(filter="b > 6", as_of=past).to_pylist() == [{"b": 10, "a": "y"}]
    catalog = paimon_spark.connect(tmp_path)
    assert catalog.table("t", {"scan.tag-name": "past"}).count("b > 6") == 1
    changes = catalog.table("t", {"incremental-between": "1,2"})
    assert changes.count("b = 'z'") == 1
    with pytest.raises(ArgumentError, match="reads changes"):
        changes.to_arrow(version=1)
    with pytest.raises(ArgumentError, match="reads changes"):
        changes.to_arrow(as_of=0)
    assert renamed.count("b = 'z'") == 1


def test_reads_of_two_branches_without_columns_have_all_rows(tmp_path: Path) -> None:
    catalog = paimon_spark.connect(tmp_path)
    table = catalog.create_table("t", pa.schema([("k", pa.int64()), ("p", pa.string())]), partition_by="p")
    table.append(pa.table({"k": [1, 2], "p": ["x", "x"]}))
    execute_create_branch(table.load(), plan_create_branch(table.load(), "b"))
    catalog.table("t$branch_b").append(pa.table({"k": [3, 4, 5], "p": ["y", "y", "y"]}))
    both = catalog.table("t", {"scan.fallback-branch": "b"})
    assert both.to_arrow([]).num_rows == both.to_arrow().num_rows == 5
    assert both.to_arrow([], "k > 1").num_rows == 4
    assert both.to_arrow([], limit=4).num_rows == 4
    assert sum(batch.num_rows for batch in both.to_reader([])) == 5

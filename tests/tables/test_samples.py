"""The sample tables, which Apache Paimon's Java release wrote, read as that release reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.core.table import Table
from paimon_spark.engine.select import plan_select
from paimon_spark.spec.identifier import Identifier
from paimon_spark.testing.tables import read_arrow
from tests.tables.plain import DATABASE, expected_of_sample, keys, rows_of, unpacked

HERE = Path(__file__).parent
NAMES = sorted(p.name.removesuffix(".tar.gz") for p in HERE.glob("*.tar.gz"))


@pytest.fixture
def sample(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Table, dict[str, Any]]:
    """The table of that name and what is expected of it."""
    name = request.param
    expected = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    catalog = unpacked(HERE / f"{name}.tar.gz", tmp_path / "warehouse")
    return catalog.load_table(Identifier(DATABASE, name)), expected


def assert_rows(table: Table, want: list[list[Any]], **travel: Any) -> None:
    got = read_arrow(table, **travel)
    assert keys(rows_of(got)) == keys(expected_of_sample(want, got.schema))


@pytest.mark.parametrize("sample", NAMES, indirect=True)
def test_latest_rows(sample: tuple[Table, dict[str, Any]]) -> None:
    table, expected = sample
    assert_rows(table, expected["rows"])
    known = plan_select(table).row_count
    assert known is None or known == len(expected["rows"])


@pytest.mark.parametrize("sample", NAMES, indirect=True)
def test_rows_of_every_snapshot(sample: tuple[Table, dict[str, Any]]) -> None:
    table, expected = sample
    assert table.snapshots.ids() == [int(s) for s in expected["rows_by_snapshot"]]
    for snapshot, want in expected["rows_by_snapshot"].items():
        assert_rows(table, want, version=snapshot)
        assert_rows(table.with_options({"scan.snapshot-id": snapshot}), want)
        assert_rows(table, want, timestamp_millis=table.snapshots.get(int(snapshot)).time_millis)


@pytest.mark.parametrize("sample", NAMES, indirect=True)
def test_single_columns_in_another_order(sample: tuple[Table, dict[str, Any]]) -> None:
    table, expected = sample
    names = table.schema.field_names[::-1]
    whole = read_arrow(table)
    assert read_arrow(table, columns=names).schema.names == list(names)
    for name in names:
        got = read_arrow(table, columns=[name])
        assert keys(rows_of(got)) == keys(rows_of(whole.select([name])))
    assert read_arrow(table, columns=[]).num_rows == len(expected["rows"])


@pytest.mark.parametrize("sample", ["pk_compacted"], indirect=True)
def test_rows_of_a_tag(sample: tuple[Table, dict[str, Any]]) -> None:
    table, expected = sample
    want = expected["rows_by_snapshot"]["1"]
    assert_rows(table, want, version="before")
    assert_rows(table.with_options({"scan.tag-name": "before"}), want)
    assert_rows(table.with_options({"scan.version": "before"}), want)

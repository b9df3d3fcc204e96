"""Changelog files of the producer ``input`` that are links to data files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from tests.unit.engine.changelogs import changes

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.float64())])


def logged(directory: Path, **options: str) -> Table:
    catalog = paimon_spark.connect(directory)
    catalog.create_database("db")
    given = {"bucket": "1", "changelog-producer": "input", "write-only": "true"}
    return catalog.create_table("db.t", SCHEMA, primary_key="k", options=given | options)


def data_of(*pairs: tuple[int, float]) -> pa.Table:
    return pa.Table.from_pylist([{"k": k, "v": v} for k, v in pairs], SCHEMA)


def inodes(directory: Path, prefix: str) -> set[int]:
    return {f.stat().st_ino for f in directory.glob(f"db.db/t/bucket-0/{prefix}-*") if f.suffix != ".index"}


def test_equal_files_are_one(tmp_path: Path) -> None:
    table = logged(tmp_path)
    table.upsert(data_of((2, 1.5), (1, 0.5)))
    assert inodes(tmp_path, "data") == inodes(tmp_path, "changelog") != set()
    assert changes(table.load()) == [[("+I", 1, 0.5), ("+I", 2, 1.5)]]


@pytest.mark.parametrize(
    ("options", "pairs"),
    [
        pytest.param({}, [(1, 0.5), (1, 2.5)], id="merged"),
        pytest.param({"changelog-file.format": "orc"}, [(1, 0.5), (2, 2.5)], id="format"),
        pytest.param({"changelog-file.compression": "lz4"}, [(1, 0.5), (2, 2.5)], id="compression"),
        pytest.param({"changelog-file.stats-mode": "none"}, [(1, 0.5), (2, 2.5)], id="statistics"),
        pytest.param({"file-index.bloom-filter.columns": "k"}, [(1, 0.5), (2, 2.5)], id="index"),
        pytest.param({}, [(1, float("nan")), (2, 2.5)], id="nan"),
    ],
)
def test_other_files_are_two(tmp_path: Path, options: dict[str, str], pairs: list[tuple[int, float]]) -> None:
    table = logged(tmp_path, **options)
    table.upsert(data_of(*pairs))
    assert len(inodes(tmp_path, "data")) == len(inodes(tmp_path, "changelog")) == 1
    assert inodes(tmp_path, "data") != inodes(tmp_path, "changelog")
    assert [row[:2] for row in changes(table.load())[0]] == [("+I", k) for k, _ in pairs]
    assert table.to_arrow().num_rows == len(dict(pairs))


def test_expiry_of_one_leaves_the_other(tmp_path: Path) -> None:
    table = logged(tmp_path)
    table.upsert(data_of((1, 0.5)))
    table.upsert(data_of((2, 1.5)))
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert len(inodes(tmp_path, "data")) == 2
    assert len(inodes(tmp_path, "changelog")) == 1
    assert table.to_arrow().sort_by("k").to_pylist() == [{"k": 1, "v": 0.5}, {"k": 2, "v": 1.5}]

"""What is decoded at a time while a bucket is merged: bounded, however large its row groups and many its runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_spark.core.read.split_reader import read_split
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.scan.splits import plan_splits
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import write_arrow
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.testing.tables import new_table

RUNS, ROWS = 6, 150_000
LIMIT = 96 << 20
MANY_RUNS, MANY_ROWS, MANY_COLUMNS = 40, 12_000, 20
MANY_LIMIT = 72 << 20


def read_all(table: Table) -> tuple[int, int]:
    """Read the only split; return how many rows it has, and the most that Arrow held meanwhile."""
    (split,) = plan_splits(table, scan(table, table.snapshots.latest()))
    before, most, rows = pa.total_allocated_bytes(), 0, 0
    for batch in read_split(table, split):
        most = max(most, pa.total_allocated_bytes() - before)
        rows += batch.num_rows
    return rows, most


def test_a_merge_holds_a_part_of_each_run(tmp_path: Path) -> None:
    table = new_table(
        {"k": "BIGINT", "v": "STRING"},
        primary_key=("k",),
        options={"bucket": "1", "write-only": "true"},
        file_io=LocalFileIO(),
        path=str(tmp_path / "db.db" / "t"),
    )
    for run in range(RUNS):
        keys = np.random.default_rng(run).permutation(ROWS * 4)[:ROWS]
        values = pc.utf8_lpad(pa.array(keys).cast(pa.string()), 240)
        write_arrow(table, pa.table({"k": pa.array(keys), "v": values}))
    rows, most = read_all(table)
    assert rows > ROWS * 3
    assert most < LIMIT, f"{most >> 20} MB"


def test_the_number_of_runs_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    table = new_table(
        {"k": "BIGINT", **{f"v{i}": "BIGINT" for i in range(MANY_COLUMNS)}},
        primary_key=("k",),
        options={"bucket": "1", "write-only": "true"},
        file_io=LocalFileIO(),
        path=str(tmp_path / "db.db" / "t"),
    )
    for run in range(MANY_RUNS):
        random = np.random.default_rng(run)
        keys = {"k": random.permutation(MANY_ROWS * 4)[:MANY_ROWS]}
        values = {f"v{i}": random.integers(0, 1 << 62, MANY_ROWS) for i in range(MANY_COLUMNS)}
        write_arrow(table, pa.table(keys | values))
    rows, most = read_all(table)
    assert rows > MANY_ROWS * 3
    assert most < MANY_LIMIT, f"{most >> 20} MB"

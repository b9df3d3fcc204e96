"""The example statements of Paimon's Flink guide, as they are printed there, through the stock spark-sql."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import write_arrow
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.testing.tables import new_table
from tests.end_to_end.programs import Place

pytestmark = pytest.mark.slow


def table_t(place: Place, snapshots: int = 1, name: str = "default.T") -> Table:
    """Return a table with that many snapshots, each of which gives key 1 another price."""
    options = {"bucket": "1", "write-only": "true"}
    path = str(place.warehouse / name.replace(".", ".db/"))
    table = new_table(
        {"id": "INT", "price": "INT"}, primary_key=["id"], options=options, file_io=LocalFileIO(), path=path
    )
    for n in range(snapshots):
        rows = pa.table({"id": pa.array([1, 2 + n], pa.int32()), "price": pa.array([n, n], pa.int32())})
        write_arrow(table, rows)
    return table


def call(place: Place, statement: str, *more: str) -> list[list[str]]:
    """Run a statement, and others after it, in the stock program; return the cells of the lines it prints."""
    done = place.stock("spark-sql", "-e", "; ".join(["USE paimon", statement, *more]))
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_compact_database(place: Place) -> None:
    tables = {
        name: table_t(place, snapshots=3, name=name)
        for name in ("db1.table_a", "db2.table_b", "db1.ignore", "db3.table_c")
    }
    total, *rows = call(
        place,
        "CALL sys.compact_database('db1|db2', 'combined', 'table_.*', 'ignore', 'sink.parallelism=4')",
    )
    assert total[0] == "Compact database finished. Success: 2, Failed: 0"
    assert [row[:5] for row in rows] == [
        ["done", "db1.table_a", "done", "3", "4"],
        ["done", "db2.table_b", "done", "3", "4"],
    ]
    assert {name: t.snapshots.latest_id() for name, t in tables.items()} == {
        "db1.table_a": 4,
        "db2.table_b": 4,
        "db1.ignore": 3,
        "db3.table_c": 3,
    }


def test_remove_orphan_files(place: Place) -> None:
    table = table_t(place)
    bucket = Path(table.path) / "bucket-0"
    old, young = bucket / "old", bucket / "young"
    for file in (old, young):
        file.write_bytes(b"x" * 7)
    long_ago = time.mktime((2020, 1, 1, 0, 0, 0, 0, 0, -1))
    os.utime(old, (long_ago, long_ago))
    answer, *rows = call(
        place,
        "CALL remove_orphan_files('default.T', '2023-10-31 12:00:00')",
        "SELECT id, price FROM default.T ORDER BY id",
    )
    assert answer[:4] == ["1", "7", "NULL", "done"]
    assert rows == [["1", "0"], ["2", "0"]]
    assert (old.exists(), young.exists()) == (False, True)


def test_reset_consumer(place: Place) -> None:
    table = table_t(place, snapshots=10)
    answer, consumer = call(
        place, "CALL sys.reset_consumer('default.T', 'myid', 10)", "SELECT * FROM default.`T$consumers`"
    )
    assert answer[:2] == ["true", "done"]
    assert consumer == ["myid", "10"]
    assert RefStore.of(table).consumers() == {"myid": 10}

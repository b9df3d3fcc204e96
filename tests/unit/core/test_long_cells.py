"""What one very long value costs in memory: a few copies at a time, which the libraries make, and none of ours."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark import connect

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the memory of a process")

CELL = 48 << 20
NAME = "db.t"
SMALL_FILES = 5
_TYPES = {"STRING": pa.string(), "BYTES": pa.binary()}


def make(place: Path, file_format: str, kind: str, keyed: bool) -> None:
    """Make a table with a few small files."""
    catalog = connect(place)
    catalog.create_database("db")
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", _TYPES[kind])])
    options = {"file.format": file_format, "bucket": "1" if keyed else "-1", "write-only": "true"}
    table = catalog.create_table(NAME, schema, primary_key=["k"] if keyed else [], options=options)
    for n in range(SMALL_FILES):
        rows = pa.table({"k": [n], "v": [b"a"]}).set_column(1, "v", pa.array([b"a"]).cast(_TYPES[kind]))
        _write(place, rows, table.primary_key)


def _write(place: Path, rows: pa.Table, keys: tuple[str, ...]) -> None:
    table = connect(place).table(NAME)
    (table.upsert if keys else table.append)(rows)


def add(place: Path, kind: str) -> float:
    """Add a row with the long value; return how many times its size the process grew beyond having it."""
    offsets = pa.py_buffer(np.array([0, CELL], np.int32))
    letters = pa.py_buffer(np.random.default_rng(0).integers(97, 123, CELL, dtype=np.uint8))
    values = pa.Array.from_buffers(_TYPES[kind], 1, [None, offsets, letters])
    rows = pa.table({"k": pa.array([SMALL_FILES], pa.int64()), "v": values})
    return _growth(lambda: _write(place, rows, connect(place).table(NAME).primary_key))


def compact(place: Path) -> float:
    """Compact the table; return how many times the size of the long value the process grew."""
    return _growth(lambda: connect(place).table(NAME).compact())


def read(place: Path) -> float:
    """Read the table; return how many times the size of the long value the process grew."""

    def all_rows() -> None:
        rows = sum(b.num_rows for b in connect(place).table(NAME).to_reader())
        assert rows == SMALL_FILES + 1

    return _growth(all_rows)


def _growth(work: Callable[[], object]) -> float:
    before = _high_water()
    work()
    return (_high_water() - before) / CELL


def _high_water() -> int:
    (kilobytes,) = re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(kilobytes) << 10


@pytest.fixture
def alone() -> Callable[..., float]:
    """Run a function in a process of its own."""

    def run(function: Callable[..., float], *args: object) -> float:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return pool.submit(function, *args).result()

    return run


@pytest.mark.parametrize(
    ("file_format", "kind", "keyed", "add_limit", "compact_limit", "read_limit"),
    [
        ("parquet", "STRING", False, 3.5, 5.0, 3.5),
        ("parquet", "BYTES", True, 3.5, 5.0, 3.5),
        ("orc", "BYTES", False, 1.5, 3.0, 3.0),
        ("avro", "STRING", True, 5.0, 7.0, 7.0),
    ],
)
def test_a_long_value_is_not_copied_more_often_than_it_must(
    file_format: str,
    kind: str,
    keyed: bool,
    add_limit: float,
    compact_limit: float,
    read_limit: float,
    alone: Callable[..., float],
    tmp_path: Path,
) -> None:
    """The limits leave a margin above what the library of each format needs by itself."""
    make(tmp_path, file_format, kind, keyed)
    assert alone(add, tmp_path, kind) < add_limit
    assert alone(compact, tmp_path) < compact_limit
    assert alone(read, tmp_path) < read_limit
    assert connect(tmp_path).table(NAME).count() == SMALL_FILES + 1

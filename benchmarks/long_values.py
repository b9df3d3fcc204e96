"""One very long value, written, compacted and read in separate processes."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa

from paimon_spark import connect

NAME = "bench.long"
SMALL_FILES = 5
TYPES = {"STRING": pa.string(), "BYTES": pa.binary()}


@dataclass(frozen=True, slots=True)
class LongValue:
    """A table with a few small files, and the row with a long value to add to it.

    Args:
        place: the warehouse.
        file_format: of the data files.
        kind: one of `TYPES`.
        keyed: whether the table has a primary key.
        size: bytes of the value.
    """

    place: Path
    file_format: str
    kind: str
    keyed: bool
    size: int

    def make(self) -> None:
        """Create the table with its small files."""
        catalog = connect(self.place)
        catalog.create_database("bench", ignore_if_exists=True)
        schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", TYPES[self.kind])])
        options = {"file.format": self.file_format, "bucket": "1" if self.keyed else "-1", "write-only": "true"}
        catalog.create_table(NAME, schema, primary_key=["k"] if self.keyed else [], options=options)
        for n in range(SMALL_FILES):
            self._write(pa.table({"k": pa.array([n], pa.int64()), "v": pa.array([b"a"]).cast(TYPES[self.kind])}))

    def _write(self, rows: pa.Table) -> None:
        table = connect(self.place).table(NAME)
        (table.upsert if self.keyed else table.append)(rows)

    def add(self) -> float:
        """Add the row; return the growth of the process beyond the value itself, in multiples of its size."""
        offsets = pa.py_buffer(np.array([0, self.size], np.int32))
        letters = pa.py_buffer(np.random.default_rng(0).integers(97, 123, self.size, dtype=np.uint8))
        values = pa.Array.from_buffers(TYPES[self.kind], 1, [None, offsets, letters])
        rows = pa.table({"k": pa.array([SMALL_FILES], pa.int64()), "v": values})
        return self._growth(lambda: self._write(rows))

    def compact(self) -> float:
        """Compact the table; return the growth of the process in multiples of the size of the value."""
        return self._growth(lambda: connect(self.place).table(NAME).compact())

    def read(self) -> float:
        """Read the table; return the growth of the process in multiples of the size of the value."""

        def all_rows() -> None:
            rows = sum(b.num_rows for b in connect(self.place).table(NAME).to_reader())
            if rows != SMALL_FILES + 1:
                raise RuntimeError(f"{SMALL_FILES + 1} rows were written, {rows} are read")

        return self._growth(all_rows)

    def _growth(self, work: Callable[[], object]) -> float:
        before = high_water()
        work()
        return (high_water() - before) * (1 << 20) / self.size


STEPS: dict[str, Callable[[LongValue], float]] = {
    "add": LongValue.add,
    "compact": LongValue.compact,
    "read": LongValue.read,
}


def alone(step: str, value: LongValue) -> float:
    """Run one of the `STEPS` in a new process; return its growth in multiples of the size of the value.

    Arrow has one thread there, as in a worker of Spark, because more threads use more memory at a time.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=pa.set_cpu_count, initargs=(1,)) as pool:
        return pool.submit(STEPS[step], value).result()


def high_water() -> float:
    """Return the peak memory of this process in MB, without that of its parent."""
    status = Path("/proc/self/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024

"""What waits in memory while rows are written: bounded by `write-buffer-size`, however the rows are scattered."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_spark.core.write.table_writer import TableWriter
from paimon_spark.engine.insert import complete_write, plan_write
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.testing.tables import new_table, read_arrow
from tests.variants import every

BATCHES, ROWS, PARTITIONS = 24, 4096, 40
BUDGET = 2 << 20


@pytest.mark.parametrize(("key", "file_format"), every(2, product([(), ("p", "k")], ["parquet", "orc", "avro"])))
def test_scattered_rows_stay_within_the_budget(key: tuple[str, ...], file_format: str, tmp_path: Path) -> None:
    table = new_table(
        {"p": "INT", "k": "INT", "v": "STRING"},
        primary_key=key,
        partition=("p",),
        options={"bucket": "1" if key else "-1", "write-buffer-size": "2 mb", "file.format": file_format}
        | {"write-only": "true"},
        file_io=LocalFileIO(),
        path=str(tmp_path / "db.db" / "t"),
    )
    plan = plan_write(table)
    before, most = pa.total_allocated_bytes(), 0
    with TableWriter(table, plan.info) as writer:
        for i in range(BATCHES):
            writer.write(_batch(i))
            most = max(most, pa.total_allocated_bytes() - before)
        messages = writer.finish()
    assert most < 5 * BUDGET
    complete_write(plan, messages, LocalRunner())
    assert read_arrow(table, columns=["k"]).num_rows == BATCHES * ROWS


def _batch(i: int) -> pa.RecordBatch:
    """Return rows of which partition 0 gets one: it is never the one that holds most."""
    numbers = np.arange(i * ROWS, (i + 1) * ROWS, dtype=np.int32)
    partitions = 1 + numbers % (PARTITIONS - 1)
    partitions[0] = 0
    values = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 240)
    return pa.record_batch({"p": pa.array(partitions, pa.int32()), "k": pa.array(numbers), "v": values})


class OpenFiles(InMemoryFileIO):
    """Counts the files that are open for writing."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[pa.NativeFile] = []

    def open_output(self, path: str) -> pa.NativeFile:
        self.opened.append(super().open_output(path))
        return self.opened[-1]

    @property
    def count(self) -> int:
        """Return how many of them are open."""
        self.opened = [f for f in self.opened if not f.closed]
        return len(self.opened)


def test_rows_of_many_partitions_need_few_open_files() -> None:
    """A process can often open no more than 1,024."""
    store, partitions = OpenFiles(), 560
    table = new_table(
        {"p": "INT", "v": "STRING"},
        partition=("p",),
        options={"write-buffer-size": "64 kb", "write-only": "true"},
        file_io=store,
    )
    batch = pa.record_batch({"p": pa.array(range(partitions), pa.int32()), "v": ["x" * 200] * partitions})
    plan = plan_write(table)
    with TableWriter(table, plan.info) as writer:
        writer.write(batch)
        assert 0 < store.count <= 256
        complete_write(plan, writer.finish(), LocalRunner())
    assert store.count == 0
    assert read_arrow(table, columns=["p"]).num_rows == partitions

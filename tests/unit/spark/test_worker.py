"""Python workers whose rows are no longer read."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.core.scan.splits import splits_to_json
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.select import plan_select
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.spark.executor.worker import _task, reader
from paimon_spark.testing.tables import new_table
from tests.unit.spark.test_lifeline import as_worker


@pytest.mark.parametrize(("limit", "rows"), [(None, 40), (5, 5), (20, 20), (33, 33), (50, 40)])
def test_a_task_yields_no_more_rows_than_are_enough(limit: int | None, rows: int, tmp_path: Path) -> None:
    options = {"bucket": "1", "write-only": "true"}
    table = new_table(
        {"p": "INT", "k": "INT"},
        primary_key=["p", "k"],
        partition=["p"],
        options=options,
        file_io=LocalFileIO(),
        path=str(tmp_path / "db.db" / "t"),
    )
    for _ in range(2):
        p, k = zip(*((p, k) for p in (1, 2) for k in range(20)), strict=True)
        write_arrow(table, pa.table({"p": pa.array(p, pa.int32()), "k": pa.array(k, pa.int32())}))
    splits = plan_select(table).splits
    assert len(splits) == 2
    lines = pa.RecordBatch.from_pydict({"value": [splits_to_json([s]) for s in splits]})
    found = list(reader(table, ["p", "k"], None, limit=limit)(iter([lines])))
    assert sum(b.num_rows for b in found) == rows
    keys = [tuple(row.values()) for b in found for row in b.to_pylist()]
    assert len(set(keys)) == rows


@pytest.mark.parametrize("cut", [True, False])
def test_a_worker_whose_rows_nobody_wants_ends_without_a_word(*, cut: bool) -> None:
    """It would fail to say that it failed, and say so; where its task goes on, so does the worker."""
    here, there = socket.socketpair()
    child = os.fork()
    if child == 0:

        def rows() -> Iterator[int]:
            with _task():
                yield 1

        def work() -> None:
            taken = rows()
            next(taken)
            if cut:
                there.shutdown(socket.SHUT_RDWR)
            taken.close()  # type: ignore[attr-defined]

        as_worker(here, work)
        os._exit(0)
    here.close()
    there.close()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == int(cut)

"""The loop that compacts a table while others write."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from paimon_spark.calls.compact_stream import compact_stream
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.run import CallResult, run_call
from paimon_spark.engine.runner import LocalRunner
from tests.unit.procedures.calling import REGISTRY
from tests.unit.procedures.warehouse import Warehouse


def test_partitions_become_idle_without_a_snapshot(tmp_path: Path) -> None:
    house, stop = Warehouse(tmp_path), threading.Event()
    house.create("db.t")
    house.insert("db.t", (1, "a"))
    house.insert("db.t", (2, "a"))
    born = time.time_ns() // 1_000_000
    done: list[bool] = []

    def clock() -> int:
        """An hour goes by after three looks."""
        return born + len(done) + (3_600_000 if len(done) > 2 else 0)

    def look(result: CallResult) -> None:
        done.append(bool(result.changed_tables))
        if len(done) > 4:
            stop.set()

    ctx = CallContext(catalog=house.catalog, catalog_name="paimon", runner=LocalRunner(), clock_millis=clock)
    patience = threading.Timer(30, stop.set)
    patience.start()
    values = {"table": "db.t", "compact_strategy": "full", "partition_idle_time": "10min"}
    compact_stream(ctx, values, stop, interval_millis=10, on_result=look)
    patience.cancel()
    assert done == [False, False, False, True, False]


def test_another_program_ends_the_loop(tmp_path: Path) -> None:
    house = Warehouse(tmp_path)
    house.create("db.t")
    ctx = CallContext(
        catalog=house.catalog,
        catalog_name="paimon",
        runner=LocalRunner(),
        clock_millis=lambda: time.time_ns() // 1_000_000,
    )
    loop = threading.Thread(target=compact_stream, args=(ctx, {"table": "db.t"}, threading.Event()), daemon=True)
    loop.start()
    call = "CALL sys.stop('db.t', 'compact_db.t', '1 min')"
    assert run_call(call, ctx, REGISTRY).rows == [(True,)]
    loop.join(10)
    assert not loop.is_alive()
    assert list((tmp_path / "db.db/t/stream").iterdir()) == []

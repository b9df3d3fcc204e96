"""Ctrl-C in spark-sql and Statement.cancel over Thrift: jobs and planning end in time, the table is as it was."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyhive import hive
from TCLIService.ttypes import TOperationState

from paimon_spark.bridge.jars import spark_home
from paimon_spark.engine.insert import write_arrow
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.testing.tables import new_table
from tests.end_to_end.programs import BIN, ROOT, Place, free_port, plain_conf, server
from tests.end_to_end.terminals import PROMPT, terminal, wait_for

LIMIT_S = 5
SNAPSHOTS = 60
INSERT = (
    "INSERT INTO paimon.c.t SELECT id FROM range(0, 200000, 1, 2) "
    "WHERE id < 199999 OR reflect('java.lang.Thread', 'sleep', 60000L) IS NOT NULL"
)
COMPACT = "CALL paimon.sys.compact('c.many')"


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Place]:
    """A warehouse with an append table, a table of many manifests, and a store that reads these slowly."""
    place = Place(tmp_path)
    database = place.warehouse / "c.db"
    new_table({"id": "BIGINT"}, file_io=LocalFileIO(), path=str(database / "t"))
    options = {"bucket": "1", "write-only": "true", "manifest.merge-min-count": "1000"}
    many = new_table(
        {"id": "INT"}, primary_key=["id"], options=options, file_io=LocalFileIO(), path=str(database / "many")
    )
    for n in range(SNAPSHOTS):
        write_arrow(many, pa.table({"id": pa.array([n % 7], pa.int32())}))
    with pytest.MonkeyPatch.context() as patch:
        kept = os.environ.get("PYTHONPATH", "")
        patch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent / "slow_store"), str(ROOT), kept]))
        patch.setenv("SLOW_STORE_SECONDS", "0.5")
        patch.setenv("SLOW_STORE_LOG", str(tmp_path / "reads.log"))
        yield place


def tree(place: Place) -> set[str]:
    """Return every file and directory of the database."""
    return {p.relative_to(place.warehouse).as_posix() for p in (place.warehouse / "c.db").rglob("*")}


def reads(place: Place) -> int:
    """Return how many manifests the slow store has read."""
    log = place.directory / "reads.log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_control_c_in_spark_sql(slow: Place) -> None:
    with terminal(slow, [spark_home() / "bin" / "spark-sql", *plain_conf(slow.warehouse)]) as shell:
        wait_for(lambda: shell.hears(PROMPT))
        shell.type("USE paimon;\n")
        wait_for(lambda: shell.hears(f"(?s)Time taken.*{PROMPT}"))
        before = tree(slow)

        def cancelled(statement: str, under_way: Callable[[], bool]) -> None:
            shell.type(f"{statement};\n")
            wait_for(under_way)
            since = len(shell.listen())
            shell.interrupt()
            took = wait_for(lambda: shell.hears(rf"(?s)\[STATEMENT_CANCELLED\].*{PROMPT}", since))
            assert tree(slow) == before, shell.said
            assert took < LIMIT_S, shell.said

        cancelled(INSERT, lambda: bool(list((slow.warehouse / "c.db/t").rglob("*.parquet"))))
        cancelled(COMPACT, lambda: reads(slow) > 1)
        done = reads(slow)
        time.sleep(2)
        assert reads(slow) == done < SNAPSHOTS
        since = len(shell.listen())
        shell.type("SELECT count(*) + 1000 FROM paimon.c.t;\n")
        wait_for(lambda: shell.hears("1000", since))
        assert tree(slow) == before


@pytest.mark.slow
def test_cancel_over_thrift(slow: Place) -> None:
    port = free_port()
    command = [BIN / "paimon-spark", "thriftserver", "--warehouse", slow.warehouse, "--port", str(port)]
    settings = ["--master", "local[2]", "--properties-file", ROOT / "conf" / "thrift-server.conf"]
    with server(slow, [*command, *settings], port), hive.connect("localhost", port).cursor() as cursor:
        cursor.execute("SELECT count(*) FROM paimon.c.t")
        before = tree(slow)

        def cancelled(statement: str, under_way: Callable[[], bool]) -> None:
            cursor.execute(statement, async_=True)
            wait_for(under_way)
            cursor.cancel()
            assert cursor.poll().operationState == TOperationState.CANCELED_STATE

        cancelled(INSERT, lambda: bool(list((slow.warehouse / "c.db/t").rglob("*.parquet"))))
        assert wait_for(lambda: tree(slow) == before) < LIMIT_S
        cancelled(COMPACT, lambda: reads(slow) > 1)
        time.sleep(LIMIT_S)
        done = reads(slow)
        time.sleep(2)
        assert reads(slow) == done < SNAPSHOTS
        cursor.execute("SELECT count(*) + 1000 FROM paimon.c.t")
        assert cursor.fetchall() == [(1000,)]
        assert tree(slow) == before

"""A Spark program that writes, deletes, compacts, expires and reads by SQL, by commands on its standard input.

``go KIND SEED ACTIONS`` begins on the table of that kind and goes on until ``stop`` or until a statement fails; the
answers are lines on standard output that begin with `ANSWER`. What it tried and was told stands in its ledger.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from random import Random

from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.testing.ledger import BATCH_ROWS, CONTESTED, Ledger, batch_number, snapshot_faults, writer_of
from paimon_spark.testing.processes import KINDS, batches_tried, ledger_path

ANSWER = "## "
OPTIONS = "LOOP_CATALOG_OPTIONS"
"""The environment variable with the options of the catalogs, as JSON."""
KEPT = 20
_PART = "substring('abc', CAST(pmod(k, 3) AS INT) + 1, 1)"


def insert(target: str, batch: int, *, keyed: bool) -> str:
    """Return the statement that writes a batch; see `ledger.batch_rows`."""
    first = batch * BATCH_ROWS
    keys = f"SELECT id AS k FROM range({first}, {first + BATCH_ROWS}, 1, 2)"
    shared = f" UNION ALL SELECT * FROM VALUES ({-writer_of(batch)}L), ({CONTESTED}L)" if keyed else ""
    return f"INSERT INTO {target} SELECT k, {_PART}, CAST({batch} AS BIGINT) FROM ({keys}{shared})"


class Loop:
    """The statements on one table in one session."""

    def __init__(self, spark: SparkSession, place: Path, kind: str, number: int, seed: int) -> None:
        """Go on where the ledger in `place` ends."""
        self._spark, self._kind, self._number, self._random = spark, kind, number, Random(seed)
        self._target = f"{kind}.default.trial"
        self._next = 1 + batches_tried(place / kind, number)
        self._ledger = Ledger(ledger_path(place / kind, number))
        self._mine: list[int] = []

    def waits_for_the_engine(self) -> bool:
        """Return whether to begin when the engine is there; now and then the first statement starts it."""
        return self._random.random() < 0.9

    def run(self, actions: list[str], stopped: threading.Event) -> tuple[int, str]:
        """Do one action after the other, but at least one; return how many were done, and what the last failed with."""
        done = 0
        while not done or not stopped.is_set():
            try:
                getattr(self, self._random.choice(actions))()
            except (Py4JNetworkError, ConnectionError, EOFError):
                raise
            except Exception as error:  # noqa: BLE001 - the trial judges
                return done, f"{type(error).__name__}: {error}".replace("\n", " ")
            done += 1
        return done, ""

    def write(self) -> None:
        """Write the next batch."""
        batch = batch_number(self._number, self._next)
        self._next += 1
        self._noted("write", batch, insert(self._target, batch, keyed=bool(KINDS[self._kind].primary_key)))
        self._mine.append(batch)

    def delete(self) -> None:
        """Delete one of the own batches."""
        if self._mine:
            batch = self._mine.pop(self._random.randrange(len(self._mine)))
            self._noted("delete", batch, f"DELETE FROM {self._target} WHERE batch = {batch} AND k >= 0")

    def compact(self) -> None:
        """Compact in full or in part."""
        strategy = self._random.choice(["full", "minor"])
        self._sql(f"CALL {self._kind}.sys.compact(table => 'default.trial', compact_strategy => '{strategy}')")

    def expire(self) -> None:
        """Forget all but a few snapshots."""
        self._sql(f"CALL {self._kind}.sys.expire_snapshots('default.trial', {self._random.choice([2, 5, KEPT])})")

    def trim(self) -> None:
        """Forget snapshots that no reader has begun to read a moment ago."""
        self._sql(f"CALL {self._kind}.sys.expire_snapshots('default.trial', {KEPT})")

    def read(self) -> None:
        """Read everything; no snapshot may show a batch in part."""
        faults = snapshot_faults(self._spark.table(self._target).select("k", "p", "batch").toArrow())
        if faults:
            raise AssertionError(f"a reader saw: {faults[:3]}")

    def _sql(self, statement: str) -> None:
        self._spark.sql(statement).collect()

    def _noted(self, what: str, batch: int, statement: str) -> None:
        """Run a statement between two lines of the ledger. An error means that nothing happened, but for some."""
        self._ledger.tries(what, batch)
        try:
            self._sql(statement)
        except (Py4JNetworkError, ConnectionError, EOFError):
            raise
        except Exception as error:
            if not any(code in str(error) for code in ("ENGINE_FAILED", "COMMIT_OUTCOME_UNKNOWN")):
                self._ledger.refused(what, batch)
            raise
        self._ledger.done(what, batch)


def session(warehouses: str, master: str) -> SparkSession:
    """Return a session with a catalog for each kind of table."""
    builder = SparkSession.builder.master(master).appName("loop")
    options = json.loads(os.environ.pop(OPTIONS, "{}"))
    for kind in KINDS:
        builder = paimon_spark.configure(builder, catalog=kind, warehouse=f"{warehouses}/{kind}", **options)
    spark = builder.getOrCreate()
    for kind in KINDS:
        spark.sql(f"SHOW TABLES IN {kind}.default").collect()
    return spark


def main(warehouses: str, place: str, master: str, number: str) -> None:
    """Obey until the input ends."""
    spark, lines, stopped = session(warehouses, master), SimpleQueue[str](), threading.Event()
    threading.Thread(target=partial(_listen, lines.put, stopped), daemon=True).start()
    print(f"{ANSWER}ready", flush=True)
    while (line := lines.get()) != "end":
        _, kind, seed, actions = line.split()
        loop = Loop(spark, Path(place), kind, int(number), int(seed))
        if loop.waits_for_the_engine():
            spark.sql(f"SHOW TABLES IN {kind}.default").collect()
        print(f"{ANSWER}begun", flush=True)
        done, failure = loop.run(actions.split(","), stopped)
        print(f"{ANSWER}over {done} {failure}", flush=True)
    spark.stop()


def _listen(go: Callable[[str], None], stopped: threading.Event) -> None:
    for line in sys.stdin:
        if line.startswith("go"):
            stopped.clear()
            go(line)
        else:
            stopped.set()
    stopped.set()
    go("end")


if __name__ == "__main__":
    main(*sys.argv[1:])

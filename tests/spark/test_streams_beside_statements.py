"""A stream into a table that statements change at the same time: nothing is lost, applied twice or left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark.testing.invariants import leaked, violations

BATCHES, ROWS, ROUNDS = 6, 20, 3
FREQUENT = 10
"""Ids below this are in each batch; all other ids of the stream are in one."""
KEYED = "'primary-key'='id', 'bucket'='2', 'changelog-producer'='lookup', 'num-sorted-run.compaction-trigger'='3'"
Model = dict[int, int]


def batch_of(number: int) -> dict[str, range | list[int]]:
    ids = [*range(FREQUENT), *range(ROWS * (number + 1) + FREQUENT, ROWS * (number + 2))]
    return {"id": ids, "v": range(ROWS * number, ROWS * number + ROWS)}


class Statements:
    """Threads that issue statements, each on keys of its own, and what the table has of these keys at the end."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.snapshots: dict[int, tuple[str, int, str]] = {}
        self.failures: list[Exception] = []
        self.maintained = threading.Event()
        bodies = (self._delete, self._update, self._merge)
        self._changing = [threading.Thread(target=self._guarded, args=(b,), daemon=True) for b in bodies]
        self._maintaining = threading.Thread(target=self._guarded, args=(self._maintain,), daemon=True)

    def __enter__(self) -> Statements:
        for thread in (*self._changing, self._maintaining):
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        for thread in self._changing:
            thread.join(120)
        self.maintained.set()
        self._maintaining.join(120)
        self.note_snapshots()
        if not any(exc) and self.failures:
            raise self.failures[0]

    def _guarded(self, body: Callable[[], None]) -> None:
        try:
            body()
        except Exception as e:  # noqa: BLE001 - the test raises it
            self.failures.append(e)

    def _delete(self) -> None:
        for n in range(ROUNDS):
            self._spark.sql(f"DELETE FROM t WHERE id >= {1000 + 10 * n} AND id < {1005 + 10 * n}")

    def _update(self) -> None:
        for _ in range(ROUNDS):
            self._spark.sql("UPDATE t SET v = v + 1 WHERE id >= 2000 AND id < 2010")

    def _merge(self) -> None:
        for n in range(ROUNDS):
            self._spark.sql(
                f"MERGE INTO t USING (SELECT id AS k, id % 7 + 1 AS a FROM range(3000, {3005 + n})) ON id = k "
                "WHEN MATCHED THEN UPDATE SET v = v + a WHEN NOT MATCHED THEN INSERT (id, v) VALUES (k, a)"
            )

    def _maintain(self) -> None:
        while not self.maintained.wait(0.3):
            try:
                self._spark.sql("CALL sys.compact('t')")
            except PySparkException as e:
                if "[COMMIT_CONFLICT]" not in str(e):  # the stream and the statements compact, too
                    raise
            self.note_snapshots()
            self._spark.sql("CALL sys.expire_snapshots(table => 't', retain_max => 20, retain_min => 1)")
            ((unique,),) = self._spark.sql("SELECT count(*) = count(DISTINCT id) FROM t").collect()
            assert unique

    def note_snapshots(self) -> None:
        """Note what the snapshots are before they expire."""
        rows = self._spark.sql("SELECT snapshot_id, commit_user, commit_identifier, commit_kind FROM `t$snapshots`")
        self.snapshots |= {r[0]: (r[1], r[2], r[3]) for r in rows.collect()}


@pytest.fixture(params=["false", pytest.param("true", marks=pytest.mark.slow)], ids=["rows", "vectors"])
def table(
    spark: SparkSession, warehouse: Path, request: pytest.FixtureRequest
) -> Iterator[paimon_spark.api.table.TableHandle]:
    """A table with the rows that statements change, and one with a commit for each batch."""
    database = spark.catalog.currentDatabase()
    catalog = paimon_spark.connect(warehouse)
    schema = pa.schema([("id", pa.int64()), ("v", pa.int64())])
    source = catalog.create_table(f"{database}.s", schema, options={"write-only": "true"})
    for n in range(BATCHES):
        source.append(pa.table(batch_of(n), schema=schema))
    spark.sql(
        f"CREATE TABLE t (id BIGINT NOT NULL, v BIGINT) TBLPROPERTIES ({KEYED}, 'deletion-vectors.enabled'='{request.param}')"
    )
    spark.sql("INSERT INTO t SELECT id, id % 10 FROM range(1000, 1050) UNION ALL SELECT id, 0 FROM range(2000, 2020)")
    return catalog.table(f"{database}.t")


def expected() -> Model:
    model = {i: v for n in range(BATCHES) for i, v in zip(*batch_of(n).values(), strict=True)}
    model |= {i: i % 10 for i in range(1000, 1050) if i % 10 >= 5 or i >= 1000 + 10 * ROUNDS}
    model |= {i: ROUNDS if i < 2010 else 0 for i in range(2000, 2020)}
    for n in range(ROUNDS):
        for i in range(3000, 3005 + n):
            model[i] = model.get(i, 0) + i % 7 + 1
    return model


class Changes:
    """The changelog of the table as a stream, applied to a model that refuses what it has seen already."""

    def __init__(self, spark: SparkSession, checkpoint: Path) -> None:
        options = {"read.changelog": "true", "consumer-id": "changes"}
        self._frame, self._checkpoint = spark.readStream.options(**options).table("t"), str(checkpoint)
        self.model: Model = {}
        self.seen: set[tuple[int, int]] = set()

    def read(self) -> None:
        """Read what there is."""
        writer = self._frame.writeStream.foreachBatch(self._apply).option("checkpointLocation", self._checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()

    def _apply(self, rows: DataFrame, _batch: int) -> None:
        for kind, key, value in rows.collect():
            if kind in ("-U", "-D"):
                assert self.model.pop(key) == value
            else:
                assert key not in self.model
                assert (key, value) not in self.seen, "no statement gives a key a value that it had"
                self.model[key] = value
                self.seen.add((key, value))


def test_a_stream_beside_all_statements(
    spark: SparkSession, table: paimon_spark.api.table.TableHandle, tmp_path: Path
) -> None:
    changes = Changes(spark, tmp_path / "changes")
    changes.read()
    source = spark.readStream.options(**{"read.stream.maxFilesPerTrigger": 1, "scan.snapshot-id": 1}).table("s")
    writer = source.writeStream.outputMode("update").option("checkpointLocation", str(tmp_path / "checkpoint"))
    with Statements(spark) as statements:
        query = writer.trigger(availableNow=True).toTable("t")
        for _ in range(2):
            changes.read()
        query.awaitTermination()
    spark.sql("CALL sys.compact('t')")
    changes.read()
    found = {r.id: r.v for r in spark.table("t").collect()}
    assert found == expected()
    assert changes.model == found
    batches = [number for user, number, kind in statements.snapshots.values() if (user, kind) == (query.id, "APPEND")]
    assert batches == list(range(BATCHES))
    loaded = table.load()
    assert violations(loaded) == []
    assert [path for path in leaked(loaded) if "/stream/attempt-" not in path] == []

"""Streaming reads: where they start, what they read, how much at once, and what ends them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

KEYED = "'primary-key'='id', 'bucket'='2'"


class Stream:
    """A stream into memory, with a checkpoint of its own; each `read` runs it to the newest snapshot."""

    def __init__(self, spark: SparkSession, checkpoint: Path) -> None:
        self._spark, self._checkpoint = spark, str(checkpoint)
        self.batches: list[list[tuple]] = []
        self.input_rows: list[int] = []

    def read(self, frame: DataFrame, **trigger: object) -> list[tuple]:
        """Return the rows that are new, and keep them by batch."""
        self.batches = []

        def keep(rows: DataFrame, _batch: int) -> None:
            self.batches.append(sorted(tuple(r) for r in rows.collect()))

        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", self._checkpoint)
        query = writer.trigger(**(trigger or {"availableNow": True})).start()
        query.awaitTermination()
        self.input_rows = [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]
        return sorted(row for batch in self.batches for row in batch)


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Callable[[], Stream]:
    numbers = iter(range(100))
    return lambda: Stream(spark, tmp_path / f"checkpoint-{next(numbers)}")


def test_rows_are_read_once_over_restarts(spark: SparkSession, stream: Callable[[], Stream]) -> None:
    spark.sql("CREATE TABLE t (id INT, s STRING)")
    one = stream()
    frame = spark.readStream.table("t")
    assert one.read(frame) == []
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    assert one.read(frame) == [(1, "a"), (2, "b")]
    spark.sql("INSERT INTO t VALUES (3, 'c')")
    spark.sql("CALL sys.compact('t')")
    assert one.read(frame.where("id > 0").select("s")) == [("c",)]
    assert one.input_rows == [1]
    assert one.read(frame) == []


def test_a_full_read_does_not_overlap_the_changes(spark: SparkSession, stream: Callable[[], Stream]) -> None:
    spark.sql(f"CREATE TABLE t (id INT NOT NULL, s STRING) TBLPROPERTIES ({KEYED}, 'changelog-producer'='lookup')")
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    changes, plain = stream(), stream()
    with_kinds = spark.readStream.option("read.changelog", "true").table("t")
    assert changes.read(with_kinds) == [("+I", 1, "a"), ("+I", 2, "b")]
    assert plain.read(spark.readStream.table("t")) == [(1, "a"), (2, "b")]
    spark.sql("INSERT INTO t VALUES (1, 'c')")
    spark.sql("DELETE FROM t WHERE id = 2")
    assert changes.read(with_kinds) == [("+U", 1, "c"), ("-D", 2, "b"), ("-U", 1, "a")]
    assert plain.read(spark.readStream.table("t")) == [(1, "c")]
    audit = stream()
    assert audit.read(spark.readStream.table("`t$audit_log`").select("s", "rowkind")) == [("c", "+I")]


@pytest.mark.parametrize("producer", ["none", "input", "full-compaction"])
def test_producers_deliver_their_changes(spark: SparkSession, stream: Callable[[], Stream], producer: str) -> None:
    spark.sql(f"CREATE TABLE t (id INT NOT NULL, s STRING) TBLPROPERTIES ({KEYED}, 'changelog-producer'='{producer}')")
    one = stream()
    frame = spark.readStream.option("read.changelog", "true").table("t")
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    spark.sql("CALL sys.compact('t')")
    assert one.read(frame) == [("+I", 1, "a"), ("+I", 2, "b")]
    spark.sql("INSERT INTO t VALUES (1, 'c')")
    spark.sql("DELETE FROM t WHERE id = 2")
    spark.sql("CALL sys.compact('t')")
    expected = {
        "none": [("+I", 1, "c"), ("-D", 2, "b")],
        "input": [("+I", 1, "c"), ("-D", 2, "b")],
        "full-compaction": [("+U", 1, "c"), ("-D", 2, "b"), ("-U", 1, "a")],
    }
    assert one.read(frame) == expected[producer]


def test_scan_modes_say_where_a_stream_starts(spark: SparkSession, stream: Callable[[], Stream]) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    for n in range(1, 4):
        spark.sql(f"INSERT INTO t VALUES ({n})")
    spark.sql("CALL sys.create_tag(table => 't', tag => 'two', snapshot => 2)")
    time = spark.sql("SELECT commit_time FROM `t$snapshots` WHERE snapshot_id = 2").first()[0]
    started = {
        "scan.mode=latest": [],
        "scan.snapshot-id=2": [2, 3],
        "scan.snapshot-id=2,scan.mode=from-snapshot-full": [1, 2, 3],
        "scan.tag-name=two": [2, 3],
        f"scan.timestamp={time}": [2, 3],
        "scan.mode=compacted-full": [1, 2, 3],
        "scan.file-creation-time-millis=0": [1, 2, 3],
        "scan.creation-time-millis=0": [1, 2, 3],
    }
    streams = {how: stream() for how in started}
    frames = {h: spark.readStream.options(**dict(o.split("=") for o in h.split(","))).table("t") for h in started}
    found = {how: [i for (i,) in streams[how].read(frames[how])] for how in started}
    assert found == started
    spark.sql("INSERT INTO t VALUES (4)")
    assert streams["scan.mode=latest"].read(frames["scan.mode=latest"]) == [(4,)]


def test_limits_of_a_batch_are_kept(spark: SparkSession, stream: Callable[[], Stream]) -> None:
    spark.sql("CREATE TABLE t (id INT) TBLPROPERTIES ('write-only'='true')")
    for n in range(5):
        spark.sql(f"INSERT INTO t VALUES ({n}), ({n + 10})")
    one = stream()
    frame = spark.readStream.option("read.stream.maxFilesPerTrigger", 2).table("t")
    one.read(frame)
    assert [len(b) for b in one.batches] == [4, 4, 2]
    assert sorted(x for b in one.batches for (x,) in b) == [*range(5), *range(10, 15)]
    once = stream()
    once.read(frame, once=True)
    assert [len(b) for b in once.batches] == [10]
    waits = stream()
    patient = {"read.stream.minRowsPerTrigger": 100, "read.stream.maxTriggerDelayMs": 600_000}
    assert len(waits.read(spark.readStream.options(**patient).table("t"))) == 10


def test_a_path_and_a_branch_are_streams(spark: SparkSession, stream: Callable[[], Stream]) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    spark.sql("INSERT INTO t VALUES (1)")
    spark.sql("CALL sys.create_branch('t', 'b')")
    spark.sql("INSERT INTO `t$branch_b` VALUES (2)")
    path = spark.sql("SHOW TBLPROPERTIES t ('path')").first()[1]
    assert stream().read(spark.readStream.format("paimon").load(path)) == [(1,)]
    changes = spark.readStream.format("paimon").option("read.changelog", "true").load(path)
    assert stream().read(changes) == [("+I", 1)]
    assert stream().read(spark.readStream.option("branch", "b").table("t")) == [(2,)]
    assert stream().read(spark.readStream.table("`t$branch_b`")) == [(2,)]


def test_a_consumer_keeps_the_position(spark: SparkSession, stream: Callable[[], Stream]) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    spark.sql("INSERT INTO t VALUES (1)")
    frame = spark.readStream.option("consumer-id", "c").table("t")
    assert stream().read(frame) == [(1,)]
    assert spark.sql("SELECT * FROM `t$consumers`").collect() == [("c", 2)]
    spark.sql("INSERT INTO t VALUES (2)")
    spark.sql("INSERT INTO t VALUES (3)")
    spark.sql("CALL sys.expire_snapshots(table => 't', retain_max => 1)")
    assert stream().read(frame) == [(2,), (3,)]
    anew = spark.readStream.options(**{"consumer-id": "c", "consumer.ignore-progress": "true"}).table("t")
    assert stream().read(anew) == [(1,), (2,), (3,)]


def test_an_expired_snapshot_ends_a_stream(spark: SparkSession, stream: Callable[[], Stream]) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    spark.sql("INSERT INTO t VALUES (1)")
    one = stream()
    one.read(spark.readStream.table("t"))
    for n in range(2, 5):
        spark.sql(f"INSERT INTO t VALUES ({n})")
    spark.sql("CALL sys.expire_snapshots(table => 't', retain_max => 1)")
    with pytest.raises(Exception, match=r"\[SNAPSHOT_NOT_FOUND\].*snapshot 2 has expired.*'consumer-id'"):
        one.read(spark.readStream.table("t"))


def test_a_rollback_ends_a_stream(spark: SparkSession, stream: Callable[[], Stream]) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    spark.sql("INSERT INTO t VALUES (1)")
    spark.sql("INSERT INTO t VALUES (2)")
    one = stream()
    one.read(spark.readStream.table("t"))
    spark.sql("CALL sys.rollback_to(table => 't', snapshot => 1)")
    for n in (3, 4):
        spark.sql(f"INSERT INTO t VALUES ({n})")
    with pytest.raises(Exception, match=r"\[SNAPSHOT_NOT_FOUND\].*rolled back"):
        one.read(spark.readStream.table("t"))


def test_overwrites_are_read_where_they_are_wanted(spark: SparkSession, stream: Callable[[], Stream]) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    spark.sql("INSERT INTO t VALUES (1)")
    without, wanted = stream(), stream()
    with_them = spark.readStream.option("streaming-read-append-overwrite", "true").table("t")
    assert without.read(spark.readStream.table("t")) == wanted.read(with_them) == [(1,)]
    spark.sql("INSERT OVERWRITE t VALUES (2)")
    spark.sql("INSERT INTO t VALUES (3)")
    assert without.read(spark.readStream.table("t")) == [(3,)]
    assert wanted.read(with_them) == [(2,), (3,)]


def test_an_overwrite_is_its_difference_in_a_keyed_table(spark: SparkSession, stream: Callable[[], Stream]) -> None:
    spark.sql(f"CREATE TABLE t (id INT NOT NULL, s STRING) TBLPROPERTIES ({KEYED})")
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    wanted = {"streaming-read-overwrite": "true", "read.changelog": "true"}
    one, frame = stream(), spark.readStream.options(**wanted).table("t")
    one.read(frame)
    spark.sql("INSERT INTO t VALUES (4, 'd')")
    spark.sql("INSERT OVERWRITE t VALUES (1, 'a'), (2, 'x'), (5, 'e')")
    spark.sql("INSERT INTO t VALUES (6, 'f')")
    one.read(frame)
    replaced = [("+I", 2, "x"), ("+I", 5, "e"), ("-D", 3, "c"), ("-D", 4, "d")]
    assert one.batches == [[("+I", 4, "d")], replaced, [("+I", 6, "f")]]


def test_a_stream_does_not_read_null_as_a_value(spark: SparkSession, stream: Callable[[], Stream]) -> None:
    spark.sql("CREATE TABLE t (id INT NOT NULL)")
    spark.sql("INSERT INTO t VALUES (1)")
    one, frame = stream(), spark.readStream.table("t")
    assert one.read(frame) == [(1,)]
    spark.sql("ALTER TABLE t ALTER COLUMN id DROP NOT NULL")
    spark.sql("INSERT INTO t VALUES (NULL)")
    with pytest.raises(
        Exception, match=r"\[UNSUPPORTED_FEATURE\].*'id' is INT and was INT NOT NULL.*Restart the query"
    ):
        one.read(frame)
    assert one.read(spark.readStream.table("t")) == [(None,)]


def test_columns_may_change_under_a_stream(spark: SparkSession, stream: Callable[[], Stream]) -> None:
    spark.sql("CREATE TABLE t (id INT, s STRING)")
    spark.sql("INSERT INTO t VALUES (1, 'a')")
    one, frame = stream(), spark.readStream.table("t")
    assert one.read(frame) == [(1, "a")]
    spark.sql("ALTER TABLE t ADD COLUMN x INT")
    spark.sql("ALTER TABLE t RENAME COLUMN s TO r")
    spark.sql("INSERT INTO t VALUES (2, 'b', 7)")
    assert one.read(frame) == [(2, "b")]
    spark.sql("INSERT INTO t VALUES (3, 'c', 8)")
    assert one.read(spark.readStream.table("t")) == [(3, "c", 8)]
    old = spark.readStream.table("t")
    spark.sql("ALTER TABLE t ALTER COLUMN id TYPE BIGINT")
    spark.sql("INSERT INTO t VALUES (4, 'd', 9)")
    with pytest.raises(Exception, match=r"\[UNSUPPORTED_FEATURE\].*'id' is BIGINT and was INT.*Restart the query"):
        one.read(old)
    assert one.read(spark.readStream.table("t")) == [(4, "d", 9)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"incremental-between": "1,2"}, r"\[INVALID_OPTION\].*which is not a stream"),
        ({"scan.watermark": "1"}, r"\[INVALID_OPTION\].*'scan.watermark' does not apply to a stream"),
        ({"read.stream.maxRowsPerTrigger": "0"}, r"\[INVALID_OPTION\].*cannot be 0"),
        ({"read.stream.minRowsPerTrigger": "5"}, r"\[INVALID_OPTION\].*belong together"),
        ({"write-only": "true"}, r"\[INVALID_OPTION\].*does not apply to a query"),
    ],
)
def test_wrong_options_are_refused(
    spark: SparkSession, stream: Callable[[], Stream], options: dict[str, str], message: str
) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    with pytest.raises(Exception, match=message):
        stream().read(spark.readStream.options(**options).table("t"))


@pytest.mark.parametrize("option", [{"versionAsOf": "1"}, {"timestampAsOf": "2026-01-01"}])
def test_a_stream_does_not_travel_in_time_as_a_batch(spark: SparkSession, option: dict[str, str]) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    with pytest.raises(Exception, match=r"\[INVALID_OPTION\] A stream of t cannot begin at .*'scan.snapshot-id'"):
        spark.readStream.options(**option).table("t")


def test_what_is_no_stream_is_refused(spark: SparkSession, stream: Callable[[], Stream]) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    with pytest.raises(Exception, match=r"\[UNSUPPORTED_FEATURE\].*\$snapshots cannot be read as a stream"):
        spark.readStream.table("`t$snapshots`")
    console = spark.readStream.table("t").writeStream.format("console").trigger(continuous="1 second")
    with pytest.raises(Exception, match=r"\[UNSUPPORTED_FEATURE\].*continuous trigger"):
        console.start()


@pytest.mark.parametrize("condition", ["p = 2", "id > 15 AND id < 25", "p = 2 AND s LIKE 'c%'"])
def test_a_filter_leaves_out_files(spark: SparkSession, stream: Callable[[], Stream], condition: str) -> None:
    """Files that cannot have matching rows are deleted, and no read needs them."""
    spark.sql("CREATE TABLE t (id INT, p INT, s STRING) PARTITIONED BY (p)")
    for p, text in ((1, "a"), (2, "c"), (3, "b")):
        spark.sql(f"INSERT INTO t VALUES ({10 * p}, {p}, '{text}')")
    for (file,) in spark.sql("SELECT DISTINCT __paimon_file_path FROM t WHERE p <> 2").collect():
        Path(file.removeprefix("file:")).unlink()
    full, changes = stream(), stream()
    assert full.read(spark.readStream.table("t").where(condition)) == [(20, 2, "c")]
    from_the_first = spark.readStream.option("scan.snapshot-id", "1").table("t")
    assert changes.read(from_the_first.where(condition)) == [(20, 2, "c")]
    spark.sql("INSERT INTO t VALUES (21, 2, 'cc'), (99, 9, 'x')")
    assert changes.read(from_the_first.where(condition)) == [(21, 2, "cc")]


def test_filters_of_changes_are_exact(spark: SparkSession, stream: Callable[[], Stream]) -> None:
    keyed = "'primary-key'='p,id', 'bucket'='2', 'changelog-producer'='lookup'"
    spark.sql(f"CREATE TABLE t (id INT NOT NULL, p INT NOT NULL, v INT) PARTITIONED BY (p) TBLPROPERTIES ({keyed})")
    one, kinds = stream(), stream()
    changes = spark.readStream.option("read.changelog", "true").table("t")
    large, deleted = changes.where("v > 15 OR p = 3"), changes.where("rowkind = '-D'")
    for n in range(1, 4):
        spark.sql(f"INSERT INTO t VALUES (1, 1, {n * 10}), (2, 2, 5), ({n}, 3, 1)")
        found = one.read(large)
        assert (
            found
            == [
                [("+I", 1, 3, 1)],
                [("+I", 2, 3, 1), ("+U", 1, 1, 20)],
                [("+I", 3, 3, 1), ("+U", 1, 1, 30), ("-U", 1, 1, 20)],
            ][n - 1]
        )
    spark.sql("DELETE FROM t WHERE id = 2 AND p = 2")
    assert kinds.read(deleted.select("id")) == []
    spark.sql("DELETE FROM t WHERE id = 1 AND p = 1")
    assert kinds.read(deleted.select("id")) == [(1,)]

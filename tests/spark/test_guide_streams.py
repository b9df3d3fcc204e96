"""The numbered steps of docs/flink-guide.md that read tables: as streams, from a position, by consumers, at a time."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlparse

import pytest
from pyspark.sql import DataFrame, SparkSession

KEYED = "WITH ('bucket' = '1', 'changelog-producer' = '{}')"
NEWEST = "SELECT max(snapshot_id) FROM `t$snapshots`"
COLUMNS = "(id INT PRIMARY KEY NOT ENFORCED, v INT)"


def rows(spark: SparkSession, sql: str) -> list[tuple]:
    return sorted((tuple(r) for r in spark.sql(sql).collect()), key=repr)


def until(condition: Callable[[], object]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def home(spark: SparkSession, table: str) -> Path:
    return Path(urlparse(spark.sql(f"SHOW TBLPROPERTIES {table} ('path')").first()[1]).path)


@pytest.fixture
def streamed(spark: SparkSession, tmp_path: Path) -> Callable[..., list[tuple]]:
    """Read what a stream has that its checkpoint has not; without the name of one, all that is there."""
    numbers = iter(range(100))

    def read(frame: DataFrame, checkpoint: str | None = None) -> list[tuple]:
        found: list[tuple] = []

        def keep(batch: DataFrame, _number: int) -> None:
            found.extend(tuple(r) for r in batch.collect())

        place = tmp_path / (checkpoint or f"checkpoint-{next(numbers)}")
        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(place))
        writer.trigger(availableNow=True).start().awaitTermination()
        return sorted(found)

    return read


def test_s43_one_table_for_batches_and_streams(spark: SparkSession, streamed: Callable[..., list[tuple]]) -> None:
    spark.sql(f"CREATE TABLE t {COLUMNS} WITH ('bucket' = '1', 'num-sorted-run.compaction-trigger' = '3')")
    for v in range(4):
        spark.sql(f"INSERT INTO t VALUES (1, {v}), ({v + 2}, {v})")
        assert (1, v) in rows(spark, "SELECT * FROM t")
    assert max(r[0] for r in rows(spark, "SELECT level FROM `t$files`")) > 0  # sorted runs were merged
    files = sorted(home(spark, "t").rglob("*.parquet"))
    assert streamed(spark.readStream.table("t"), "c") == rows(spark, "SELECT * FROM t")
    assert sorted(home(spark, "t").rglob("*.parquet")) == files
    spark.sql("UPDATE t SET v = 9 WHERE id = 2")
    assert streamed(spark.readStream.table("t"), "c") == [(2, 9)]
    assert (2, 9) in rows(spark, "SELECT * FROM t")


def test_s45_the_changelog_as_a_stream(spark: SparkSession, streamed: Callable[..., list[tuple]]) -> None:
    spark.sql(f"CREATE TABLE t {COLUMNS} {KEYED.format('lookup')}")
    spark.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    by_option = spark.readStream.option("read.changelog", "true").table("t")
    by_name = spark.readStream.table("`t$audit_log`")
    first = [("+I", 1, 1), ("+I", 2, 2)]
    assert streamed(by_option, "o") == streamed(by_name, "n") == first
    ((base,),) = rows(spark, NEWEST)
    spark.sql("UPDATE t SET v = 3 WHERE id = 1")
    spark.sql("DELETE FROM t WHERE id = 2")
    changes = [("+U", 1, 3), ("-D", 2, 2), ("-U", 1, 1)]
    assert streamed(by_option, "o") == streamed(by_name, "n") == changes
    between = f"{base},{rows(spark, NEWEST)[0][0]}"
    assert rows(spark, f"SELECT * FROM `t$audit_log` /*+ OPTIONS('incremental-between' = '{between}') */") == changes
    spark.sql("SET 'execution.runtime-mode' = 'streaming'")
    spark.sql(f"SET 'paimon.*.*.t.scan.snapshot-id' = '{base + 1}'")
    spark.sql("SET 'paimon.streaming-select.max-rows' = '3'")
    assert sorted(r[1:] for r in rows(spark, "SELECT * FROM paimon_changes('t')")) == changes


def test_s50_a_lakehouse_of_streaming_tables(spark: SparkSession) -> None:
    producers = ("none", "input", "lookup", "full-compaction")
    names = [producer.replace("-", "_") for producer in producers]
    inserts = []
    for name, producer in zip(names, producers, strict=True):
        every = ", 'full-compaction.delta-commits' = '1')" if producer == "full-compaction" else ")"
        spark.sql(f"CREATE TABLE ods_{name} {COLUMNS} {KEYED.format(producer)[:-1]}{every}")
        spark.sql(f"CREATE TABLE dwd_{name} {COLUMNS} {KEYED.format('lookup')}")
        inserts.append(f"INSERT INTO dwd_{name} SELECT id, v, rowkind FROM paimon_changes('ods_{name}')")
    spark.sql("CREATE TABLE dws (v INT PRIMARY KEY NOT ENFORCED, n BIGINT) WITH ('bucket' = '1')")
    counts = "changelog_count(rowkind) AS n, changelog_kind(rowkind) AS rowkind"
    inserts.append(f"INSERT INTO dws SELECT v, {counts} FROM paimon_changes('dwd_lookup') GROUP BY v")
    spark.sql("SET 'execution.checkpointing.interval' = '500 ms'")
    jobs = rows(spark, f"EXECUTE STATEMENT SET BEGIN {'; '.join(inserts)}; END")
    try:
        for statement, wanted, counted in (
            ("INSERT INTO {} VALUES (1, 5), (2, 5), (3, 6)", [(1, 5), (2, 5), (3, 6)], [(5, 2), (6, 1)]),
            ("INSERT INTO {} VALUES (2, 6), (4, 7)", [(1, 5), (2, 6), (3, 6), (4, 7)], [(5, 1), (6, 2), (7, 1)]),
            ("DELETE FROM {} WHERE id = 1", [(2, 6), (3, 6), (4, 7)], [(6, 2), (7, 1)]),
        ):
            for name in names:
                spark.sql(statement.format(f"ods_{name}"))
            until(lambda w=wanted: all(rows(spark, f"SELECT * FROM dwd_{n}") == w for n in names))
            until(lambda c=counted: rows(spark, "SELECT * FROM dws") == c)
    finally:
        for (job,) in jobs:
            spark.sql(f"STOP JOB '{job}'")


def test_s62_changes_without_a_producer(spark: SparkSession, streamed: Callable[..., list[tuple]]) -> None:
    for producer in ("none", "lookup"):
        spark.sql(f"CREATE TABLE {producer} {COLUMNS} {KEYED.format(producer)}")
        spark.sql(f"INSERT INTO {producer} VALUES (1, 1)")
    frames = {p: spark.readStream.option("read.changelog", "true").table(p) for p in ("none", "lookup")}
    assert {p: streamed(f, p) for p, f in frames.items()} == {"none": [("+I", 1, 1)], "lookup": [("+I", 1, 1)]}
    for producer in frames:
        spark.sql(f"INSERT INTO {producer} VALUES (1, 2), (2, 2)")
    assert streamed(frames["none"], "none") == [("+I", 1, 2), ("+I", 2, 2)]  # upserts, without the earlier row
    assert streamed(frames["lookup"], "lookup") == [("+I", 2, 2), ("+U", 1, 2), ("-U", 1, 1)]
    assert rows(spark, "SELECT * FROM none") == rows(spark, "SELECT * FROM lookup") == [(1, 2), (2, 2)]
    spark.sql(
        f"CREATE TABLE summed {COLUMNS} WITH ('merge-engine' = 'aggregation', 'fields.v.aggregate-function' = 'sum')"
    )
    with pytest.raises(Exception, match=r"\[UNSUPPORTED_FEATURE\].*'changelog-producer'"):
        spark.readStream.table("summed")


def test_s63_where_a_stream_starts(spark: SparkSession, streamed: Callable[..., list[tuple]]) -> None:
    spark.sql("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED) WITH ('bucket' = '1', 'write-only' = 'true')")
    for n in range(1, 4):
        spark.sql(f"INSERT INTO t VALUES ({n})")
    spark.sql("CALL sys.compact('t')")
    spark.sql("INSERT INTO t VALUES (5)")
    spark.sql("CALL sys.create_tag('t', 'two', 2)")
    second = "SELECT commit_time, unix_millis(CAST(commit_time AS TIMESTAMP)) FROM `t$snapshots` WHERE snapshot_id = 2"
    ((at, millis),) = rows(spark, second)
    everything, since_two = [1, 2, 3, 5], [2, 3, 5]
    started = {
        "scan.mode=default": everything,
        "scan.mode=latest-full": everything,
        "scan.mode=full": everything,
        "scan.mode=latest": [],
        "scan.mode=compacted-full": everything,
        f"scan.mode=from-timestamp,scan.timestamp-millis={millis}": since_two,
        f"scan.mode=from-timestamp,scan.timestamp={at}": since_two,
        "scan.mode=from-snapshot,scan.snapshot-id=2": since_two,
        "scan.mode=from-snapshot,scan.tag-name=two": since_two,
        "scan.mode=from-snapshot-full,scan.snapshot-id=2": everything,
        f"scan.mode=from-creation-timestamp,scan.creation-time-millis={millis}": since_two,
    }
    frames = {o: spark.readStream.options(**dict(p.split("=") for p in o.split(","))).table("t") for o in started}
    assert {o: [i for (i,) in streamed(f, str(abs(hash(o))))] for o, f in frames.items()} == started
    created = {"scan.mode": "from-file-creation-time", "scan.file-creation-time-millis": str(millis + 3_600_000)}
    assert streamed(spark.readStream.options(**created).table("t"), "created") == []
    spark.sql("INSERT INTO t VALUES (6)")
    for o in ("scan.mode=latest", "scan.mode=from-snapshot,scan.snapshot-id=2"):
        assert streamed(frames[o], str(abs(hash(o)))) == [(6,)]
    for options, message in (
        ({"scan.mode": "incremental", "incremental-between": "1,2"}, "which is not a stream"),
        ({"scan.mode": "from-snapshot"}, "'from-snapshot' needs one of the options"),
        ({"scan.mode": "latest", "scan.snapshot-id": "2"}, "'latest' excludes the option"),
        ({"scan.mode": "newest"}, "'scan.mode' cannot be 'newest'"),
    ):
        with pytest.raises(Exception, match=rf"\[INVALID_OPTION\].*{message}"):
            streamed(spark.readStream.options(**options).table("t"))


def test_s64_a_consumer_keeps_its_snapshots(spark: SparkSession, streamed: Callable[..., list[tuple]]) -> None:
    spark.sql(f"CREATE TABLE t {COLUMNS} {KEYED.format('input')}")
    spark.sql("INSERT INTO t VALUES (1, 1)")
    spark.sql("ALTER TABLE t SET ('consumer.mode' = 'at-least-once')")  # what other engines obey
    options = {"consumer-id": "myid"}
    frame = spark.readStream.options(**options).table("t")
    assert streamed(frame) == [(1, 1)]
    progress = home(spark, "t") / "consumer" / "consumer-myid"
    assert json.loads(progress.read_text())["nextSnapshot"] == 2
    for v in range(2, 6):
        spark.sql(f"INSERT INTO t VALUES ({v}, {v})")
    spark.sql("CALL sys.expire_snapshots('t', 1)")
    assert rows(spark, "SELECT min(snapshot_id) FROM `t$snapshots`") == [(2,)]
    assert streamed(frame) == [(v, v) for v in range(2, 6)]  # a new checkpoint continues at the progress
    assert rows(spark, "SELECT * FROM `t$consumers`") == [("myid", rows(spark, NEWEST)[0][0] + 1)]
    anew = spark.readStream.options(**options, **{"consumer.ignore-progress": "true"}).table("t")
    assert streamed(anew) == [(v, v) for v in range(1, 6)]
    spark.sql("CREATE TABLE o (id INT)")
    spark.sql("SET 'paimon.*.*.t.consumer-id' = 'sql'")
    spark.sql("SET 'execution.checkpointing.interval' = '200 ms'")
    job = spark.sql("INSERT INTO o SELECT id FROM paimon_changes('t')").first()[0]
    until(lambda: ("sql", rows(spark, NEWEST)[0][0] + 1) in rows(spark, "SELECT * FROM `t$consumers`"))
    spark.sql(f"STOP JOB '{job}'")
    assert rows(spark, "SELECT * FROM o") == [(v,) for v in range(1, 6)]
    with pytest.raises(
        Exception, match=r"\[INVALID_OPTION\].*'consumer.mode' cannot be given.*each batch, exactly once"
    ):
        streamed(spark.readStream.options(**options, **{"consumer.mode": "exactly-once"}).table("t"))


def test_s64_what_ends_the_protection(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE t {COLUMNS} {KEYED.format('input')}")
    spark.sql("ALTER TABLE t SET ('snapshot.num-retained.min' = '1', 'snapshot.num-retained.max' = '1')")
    spark.sql("INSERT INTO t VALUES (0, 0)")
    spark.sql("CALL sys.reset_consumer('t', 'myid', 1)")
    progress = home(spark, "t") / "consumer" / "consumer-myid"

    def earliest() -> int:
        spark.sql("INSERT INTO t VALUES (1, 1)")
        return rows(spark, "SELECT min(snapshot_id) FROM `t$snapshots`")[0][0]

    assert earliest() == 1
    only = "'consumer.changelog-only' = 'true'"
    spark.sql(f"INSERT INTO t /*+ OPTIONS({only}) */ VALUES (2, 2)")
    assert rows(spark, "SELECT min(snapshot_id) FROM `t$snapshots`") == [(1,)]
    spark.sql(f"INSERT INTO t /*+ OPTIONS({only}, 'changelog.num-retained.max' = '9') */ VALUES (2, 2)")
    assert rows(spark, "SELECT min(snapshot_id) FROM `t$snapshots`") == [(4,)]
    spark.sql("CALL sys.reset_consumer('t', 'myid', 4)")
    assert earliest() == 4
    spark.sql("ALTER TABLE t SET ('consumer.expiration-time' = '1 h')")
    assert earliest() == 4
    os.utime(progress, (time.time() - 7200, time.time() - 7200))
    assert earliest() > 4
    assert not progress.exists()


def test_s65_time_travel_of_a_batch(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE t {COLUMNS}")
    for v in (1, 2, 3):
        spark.sql(f"INSERT INTO t VALUES (1, {v})")
        time.sleep(0.05)
    spark.sql("CALL sys.create_tag('t', 'two', 2)")
    second = "SELECT date_format(commit_time, 'yyyy-MM-dd HH:mm:ss.SSS'), unix_millis(CAST(commit_time AS TIMESTAMP)) "
    ((at, millis),) = rows(spark, f"{second} FROM `t$snapshots` WHERE snapshot_id = 2")
    later = rows(spark, f"SELECT string(TIMESTAMP '{at}' + INTERVAL '1' HOUR)")[0][0]
    for how in (
        "VERSION AS OF 2",
        "VERSION AS OF 'two'",
        f"TIMESTAMP AS OF '{at}'",
        f"FOR SYSTEM_TIME AS OF TIMESTAMP '{at}'",
        f"FOR SYSTEM_TIME AS OF TIMESTAMP '{later}' - INTERVAL '1' HOUR",
        "/*+ OPTIONS('scan.snapshot-id' = '2') */",
        "/*+ OPTIONS('scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '2') */",
        "/*+ OPTIONS('scan.tag-name' = 'two') */",
        f"/*+ OPTIONS('scan.timestamp' = '{at}') */",
        f"/*+ OPTIONS('scan.timestamp-millis' = '{millis}') */",
        "/*+ OPTIONS('scan.version' = 'two') */",
    ):
        assert rows(spark, f"SELECT v FROM t {how}") == [(2,)], how
    assert spark.read.option("scan.snapshot-id", "1").table("t").first() == (1, 1)
    with pytest.raises(Exception, match=r"\[INVALID_OPTION\].*exclude each other"):
        rows(spark, "SELECT * FROM t /*+ OPTIONS('scan.snapshot-id' = '2', 'scan.tag-name' = 'two') */")
    for missing in ("VERSION AS OF 99", "VERSION AS OF 'three'", "TIMESTAMP AS OF '2000-01-01'"):
        with pytest.raises(Exception, match=r"\[(SNAPSHOT|TAG)_NOT_FOUND\]"):
            rows(spark, f"SELECT * FROM t {missing}")

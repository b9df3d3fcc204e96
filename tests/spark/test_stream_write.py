"""Streaming writes: output modes, kinds of rows, batches that are replayed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery

Source = Callable[..., DataFrame]
Run = Callable[..., StreamingQuery]


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Source:
    """Add rows to a stream of JSON files, one file in each batch, and return the stream."""
    directory = tmp_path / "source"
    directory.mkdir()
    numbers = iter(range(100))

    def add(schema: str, *lines: str) -> DataFrame:
        (directory / f"{next(numbers):03}.json").write_text("\n".join(lines))
        return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(directory))

    return add


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Write what a stream has to a table, and wait for it."""

    def write(frame: DataFrame, table: str, mode: str = "append", **options: str) -> StreamingQuery:
        writer = frame.writeStream.outputMode(mode).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.options(**options).trigger(availableNow=True).toTable(table)
        query.awaitTermination()
        return query

    return write


def rows(spark: SparkSession, sql: str) -> list[tuple]:
    return sorted(tuple(r) for r in spark.sql(sql).collect())


def test_append_commits_each_batch_by_its_number(spark: SparkSession, source: Source, run: Run) -> None:
    spark.sql("CREATE TABLE t (id BIGINT, s STRING)")
    source("s STRING, id INT", '{"id": 1, "s": "a"}')
    query = run(source("s STRING, id INT", '{"id": 2, "s": "b"}'), "t")
    assert rows(spark, "SELECT * FROM t") == [(1, "a"), (2, "b")]
    run(source("s STRING, id INT", '{"id": 3, "s": "c"}'), "t")
    commits = rows(spark, "SELECT snapshot_id, commit_user, commit_identifier FROM `t$snapshots`")
    assert commits == [(n + 1, query.id, n) for n in range(3)]


def test_update_mode_upserts_running_counts(spark: SparkSession, source: Source, run: Run) -> None:
    spark.sql("CREATE TABLE t (word STRING NOT NULL, cnt BIGINT) TBLPROPERTIES ('primary-key'='word')")
    source("word STRING", '{"word": "a"}', '{"word": "a"}', '{"word": "b"}')
    words = source("word STRING", '{"word": "a"}', '{"word": "c"}')
    run(words.groupBy("word").count().withColumnRenamed("count", "cnt"), "t", "update")
    assert rows(spark, "SELECT * FROM t") == [("a", 3), ("b", 1), ("c", 1)]
    assert rows(spark, "SELECT * FROM t VERSION AS OF 1") == [("a", 2), ("b", 1)]


def test_complete_mode_replaces_the_rows_at_once(spark: SparkSession, source: Source, run: Run) -> None:
    spark.sql("CREATE TABLE t (word STRING, cnt BIGINT)")
    source("word STRING", '{"word": "a"}')
    words = source("word STRING", '{"word": "a"}', '{"word": "b"}')
    run(words.groupBy("word").count().withColumnRenamed("count", "cnt"), "t", "complete")
    assert rows(spark, "SELECT * FROM t") == [("a", 2), ("b", 1)]
    kinds = rows(spark, "SELECT snapshot_id, commit_kind FROM `t$snapshots`")
    assert kinds == [(1, "OVERWRITE"), (2, "OVERWRITE")]


def test_update_mode_needs_a_primary_key(spark: SparkSession, source: Source, run: Run) -> None:
    spark.sql("CREATE TABLE t (word STRING)")
    with pytest.raises(Exception, match=r"\[UNSUPPORTED_FEATURE\].*no primary key.*outputMode\('append'\)"):
        run(source("word STRING", '{"word": "a"}'), "t", "update")


def test_kinds_of_rows_are_applied(spark: SparkSession, source: Source, run: Run) -> None:
    spark.sql("CREATE TABLE t (id INT NOT NULL, s STRING) TBLPROPERTIES ('primary-key'='id')")
    schema = "rowkind STRING, id INT, s STRING"
    changes = source(schema, '{"rowkind": "+I", "id": 1, "s": "a"}', '{"rowkind": "+I", "id": 2, "s": "b"}')
    changes = source(schema, '{"rowkind": "-D", "id": 1}', '{"rowkind": "+U", "id": 2, "s": "c"}')
    run(changes, "t")
    assert rows(spark, "SELECT * FROM t") == [(2, "c")]
    with pytest.raises(Exception, match=r"\[INVALID_ARGUMENT\] A row has rowkind = 'x'"):
        run(source(schema, '{"rowkind": "x", "id": 1}'), "t")
    assert rows(spark, "SELECT * FROM t") == [(2, "c")]


def test_a_replayed_batch_is_not_written_twice(spark: SparkSession, source: Source, run: Run, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    run(source("id INT", '{"id": 1}'), "t")
    commits = tmp_path / "checkpoint" / "commits"
    for file in [*commits.glob("0"), *commits.glob(".0.crc")]:
        file.unlink()  # as after a crash between the commit of the table and that of the checkpoint
    spark.sql("INSERT INTO t VALUES (10)")
    run(source("id INT", '{"id": 2}'), "t")
    assert rows(spark, "SELECT * FROM t") == [(1,), (2,), (10,)]


def test_an_older_checkpoint_is_refused(spark: SparkSession, source: Source, run: Run, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    run(source("id INT", '{"id": 1}'), "t")
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "older")
    run(source("id INT", '{"id": 2}'), "t")
    shutil.rmtree(tmp_path / "checkpoint")
    shutil.copytree(tmp_path / "older", tmp_path / "checkpoint")
    with pytest.raises(Exception, match=r"\[COMMIT_CONFLICT\].*The checkpoint of the query is older than the table"):
        run(source("id INT", '{"id": 3}'), "t")
    spark.sql("CALL sys.rollback_to(table => 't', snapshot => 1)")
    run(source("id INT", '{"id": 4}'), "t")
    assert rows(spark, "SELECT * FROM t") == [(1,), (2,), (3,), (4,)]


def test_a_path_is_written_and_a_missing_one_refused(spark: SparkSession, source: Source, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    location = spark.sql("SHOW TBLPROPERTIES t ('path')").first()[1]
    stream = source("id INT", '{"id": 1}').writeStream.format("paimon").trigger(availableNow=True)
    stream.option("checkpointLocation", str(tmp_path / "c1")).start(location).awaitTermination()
    assert rows(spark, "SELECT * FROM t") == [(1,)]
    absent = stream.option("checkpointLocation", str(tmp_path / "c2")).start(str(tmp_path / "absent"))
    with pytest.raises(Exception, match=r"\[TABLE_NOT_FOUND\]"):
        absent.awaitTermination()


def test_changes_flow_from_table_to_table(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    keyed = "TBLPROPERTIES ('primary-key'='id', 'bucket'='2', 'changelog-producer'='lookup')"
    spark.sql(f"CREATE TABLE ods (id INT NOT NULL, v INT) {keyed}")
    spark.sql(f"CREATE TABLE dwd (id INT NOT NULL, v INT) {keyed}")
    changes = spark.readStream.option("read.changelog", "true").table("ods")
    for n in range(3):
        spark.sql(f"INSERT INTO ods VALUES (1, {n}), (2, {n}), ({n + 3}, {n})")
        spark.sql("DELETE FROM ods WHERE id = 2")
        if n != 1:
            run(changes, "dwd")
    assert rows(spark, "SELECT * FROM dwd") == rows(spark, "SELECT * FROM ods") == [(1, 2), (3, 0), (4, 1), (5, 2)]
    kinds = rows(spark, "SELECT rowkind, id FROM `dwd$audit_log` WHERE id = 1")
    assert kinds in ([("+U", 1)], [("+I", 1)])


@pytest.mark.parametrize("producer", ["none", "input"])
def test_later_changes_of_a_key_win(spark: SparkSession, run: Run, producer: str) -> None:
    keyed = "'primary-key'='id', 'bucket'='1', 'write-only'='true'"
    spark.sql(f"CREATE TABLE s (id INT NOT NULL, v INT) TBLPROPERTIES ({keyed}, 'changelog-producer'='{producer}')")
    spark.sql(f"CREATE TABLE t (id INT NOT NULL, v INT) TBLPROPERTIES ({keyed})")
    for v, rows_of in enumerate((100, 20_000)):  # Spark's own scan reads the larger file first
        spark.sql(f"INSERT INTO s SELECT CAST(id AS INT), {v} FROM range({rows_of})")
    run(spark.readStream.option("scan.snapshot-id", "1").table("s"), "t")
    assert rows(spark, "SELECT v, count(*) FROM t GROUP BY v") == [(1, 20_000)]


def test_a_stream_without_an_order_is_refused(spark: SparkSession) -> None:
    key = "'primary-key'='id', 'bucket'='-1', 'changelog-producer'='lookup'"
    spark.sql(f"CREATE TABLE t (id INT NOT NULL, p INT NOT NULL) PARTITIONED BY (p) TBLPROPERTIES ({key})")
    for options, name in (({"read.changelog": "true"}, "t"), ({}, "`t$audit_log`")):
        with pytest.raises(Exception, match=r"\[UNSUPPORTED_FEATURE\].*with their kinds"):
            spark.readStream.options(**options).table(name)
    assert spark.readStream.table("t").columns == ["id", "p"]


def test_a_table_may_gain_columns_and_rows_may_lack_them(spark: SparkSession, source: Source, run: Run) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    stream = source("id INT", '{"id": 1}')
    run(stream, "t")
    spark.sql("ALTER TABLE t ADD COLUMN s STRING")
    run(source("id INT", '{"id": 2}'), "t")
    assert rows(spark, "SELECT * FROM t") == [(1, None), (2, None)]
    too_many = r"\[COLUMN_NOT_FOUND\] .* lacks: 'x'\. The table has id, s\."
    with pytest.raises(Exception, match=too_many):
        run(source("id INT, x INT", '{"id": 3, "x": 4}'), "t")


def test_a_running_query_sees_news_and_stops_cleanly(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE s (id INT)")
    spark.sql("CREATE TABLE t (id INT)")
    writer = spark.readStream.table("s").writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.toTable("t")
    try:
        for n in range(2):
            spark.sql(f"INSERT INTO s VALUES ({n})")
            deadline = time.monotonic() + 60
            while len(rows(spark, "SELECT * FROM t")) <= n:
                assert time.monotonic() < deadline
                assert query.exception() is None
                time.sleep(0.1)
    finally:
        query.stop()
    assert query.exception() is None
    assert rows(spark, "SELECT * FROM t") == [(0,), (1,)]


@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
def test_postponed_rows_flow_from_table_to_table(spark: SparkSession, run: Run, producer: str, tmp_path: Path) -> None:
    postponed = "TBLPROPERTIES ('primary-key'='id', 'bucket'='-2', 'changelog-producer'='{}')"
    spark.sql("CREATE TABLE src (id INT NOT NULL, s STRING, kind STRING)")
    spark.sql(f"CREATE TABLE mid (id INT NOT NULL, s STRING) {postponed.format(producer)}")
    spark.sql(f"CREATE TABLE copy (id INT NOT NULL, s STRING) {postponed.format('none')}")

    def pass_on() -> list[tuple]:
        changes = spark.readStream.option("read.changelog", "true").table("mid")
        writer = changes.writeStream.option("checkpointLocation", str(tmp_path / "copied")).trigger(availableNow=True)
        writer.toTable("copy").awaitTermination()
        spark.sql("CALL sys.compact(table => 'copy')")
        return rows(spark, "SELECT * FROM copy")

    spark.sql("INSERT INTO src VALUES (1, 'a', '+I'), (2, 'b', '+I'), (1, 'c', '+U')")
    run(spark.readStream.table("src").withColumnRenamed("kind", "rowkind"), "mid")
    assert rows(spark, "SELECT * FROM mid") == []
    assert pass_on() == ([(1, "c"), (2, "b")] if producer == "none" else [])
    spark.sql("CALL sys.compact(table => 'mid')")
    assert rows(spark, "SELECT * FROM mid") == pass_on() == [(1, "c"), (2, "b")]
    spark.sql("INSERT INTO src VALUES (2, 'b', '-D'), (3, 'd', '+I')")
    run(spark.readStream.table("src").withColumnRenamed("kind", "rowkind"), "mid")
    spark.sql("CALL sys.compact(table => 'mid')")
    assert rows(spark, "SELECT * FROM mid") == pass_on() == [(1, "c"), (3, "d")]


def test_batches_of_few_rows_take_one_job(spark: SparkSession, source: Source, run: Run) -> None:
    options = "'primary-key'='id', 'bucket'='2', 'write.local-max-rows'='100'"
    spark.sql(f"CREATE TABLE t (id BIGINT NOT NULL, n BIGINT) TBLPROPERTIES ({options})")
    expected: dict[int, int] = {}

    def jobs(*counts: int) -> int:
        for count in counts:
            lines = [f'{{"id": {i}}}' for i in range(count)]
            stream = source("id BIGINT", *lines)
            expected.update({i: expected.get(i, 0) + 1 for i in range(count)})
        query = run(stream.groupBy("id").count().withColumnRenamed("count", "n"), "t", "update")
        assert rows(spark, "SELECT * FROM t") == sorted(expected.items())
        return len(spark.sparkContext.statusTracker().getJobIdsForGroup(str(query.runId)))

    assert jobs(5) == 1
    assert jobs(1000) == 1
    assert jobs(1001, 1001, 4) == 2 + 1 + 1  # a large batch is tried first, but not the one after it
    assert jobs(0) == 1


def test_rows_of_a_batch_that_was_too_large_count_once(
    spark: SparkSession, source: Source, run: Run, tmp_path: Path
) -> None:
    options = "'primary-key'='id', 'write.local-max-rows'='10'"
    spark.sql(f"CREATE TABLE t (id BIGINT NOT NULL, count BIGINT) TBLPROPERTIES ({options})")
    stream = source("id BIGINT", *(f'{{"id": {i}}}' for i in range(300)))
    progress = run(stream.groupBy("id").count(), "t", "update").recentProgress[0]
    assert (progress["numInputRows"], progress["stateOperators"][0]["numRowsUpdated"]) == (300, 300)
    shutil.rmtree(tmp_path / "checkpoint")
    observed = stream.selectExpr("id", "1L AS count").observe("seen", f.count("*").alias("rows"))
    progress = run(observed, "t", "update").recentProgress[0]
    assert (progress["numInputRows"], progress["observedMetrics"]["seen"]["rows"]) == (300, 300)

"""Streaming writes: output modes, kinds of rows, batches that are replayed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Callable[..., DataFrame]:
    """Add rows to a stream of JSON files, one file in each batch, and return the stream."""
    directory = tmp_path / "source"
    directory.mkdir()
    numbers = iter(range(100))

    def add(schema: str, *lines: str) -> DataFrame:
        (directory / f"{next(numbers):03}.json").write_text("\n".join(lines))
        return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(directory))

    return add


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., StreamingQuery]:
    """Write what a stream has to a table, and wait for it."""

    def write(frame: DataFrame, table: str, mode: str = "append", **options: str) -> StreamingQuery:
        writer = frame.writeStream.outputMode(mode).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.options(**options).trigger(availableNow=True).toTable(table)
        query.awaitTermination()
        return query

    return write


def rows(spark: SparkSession, sql: str) -> list[tuple]:
    return sorted(tuple(r) for r in spark.sql(sql).collect())


def test_append_commits_each_batch_by_its_number(spark: SparkSession, source, run) -> None:
    spark.sql("CREATE TABLE t (id BIGINT, s STRING)")
    source("s STRING, id INT", '{"id": 1, "s": "a"}')
    query = run(source("s STRING, id INT", '{"id": 2, "s": "b"}'), "t")
    assert rows(spark, "SELECT * FROM t") == [(1, "a"), (2, "b")]
    run(source("s STRING, id INT", '{"id": 3, "s": "c"}'), "t")
    commits = rows(spark, "SELECT snapshot_id, commit_user, commit_identifier FROM `t$snapshots`")
    assert commits == [(n + 1, query.id, n) for n in range(3)]


def test_update_mode_upserts_running_counts(spark: SparkSession, source, run) -> None:
    spark.sql("CREATE TABLE t (word STRING NOT NULL, cnt BIGINT) TBLPROPERTIES ('primary-key'='word')")
    source("word STRING", '{"word": "a"}', '{"word": "a"}', '{"word": "b"}')
    words = source("word STRING", '{"word": "a"}', '{"word": "c"}')
    run(words.groupBy("word").count().withColumnRenamed("count", "cnt"), "t", "update")
    assert rows(spark, "SELECT * FROM t") == [("a", 3), ("b", 1), ("c", 1)]
    assert rows(spark, "SELECT * FROM t VERSION AS OF 1") == [("a", 2), ("b", 1)]


def test_complete_mode_replaces_the_rows_at_once(spark: SparkSession, source, run) -> None:
    spark.sql("CREATE TABLE t (word STRING, cnt BIGINT)")
    source("word STRING", '{"word": "a"}')
    words = source("word STRING", '{"word": "a"}', '{"word": "b"}')
    run(words.groupBy("word").count().withColumnRenamed("count", "cnt"), "t", "complete")
    assert rows(spark, "SELECT * FROM t") == [("a", 2), ("b", 1)]
    kinds = rows(spark, "SELECT snapshot_id, commit_kind FROM `t$snapshots`")
    assert kinds == [(1, "OVERWRITE"), (2, "OVERWRITE")]


def test_update_mode_needs_a_primary_key(spark: SparkSession, source, run) -> None:
    spark.sql("CREATE TABLE t (word STRING)")
    with pytest.raises(Exception, match=r"\[UNSUPPORTED_FEATURE\].*no primary key.*outputMode\('append'\)"):
        run(source("word STRING", '{"word": "a"}'), "t", "update")


def test_kinds_of_rows_are_applied(spark: SparkSession, source, run) -> None:
    spark.sql("CREATE TABLE t (id INT NOT NULL, s STRING) TBLPROPERTIES ('primary-key'='id')")
    schema = "rowkind STRING, id INT, s STRING"
    changes = source(schema, '{"rowkind": "+I", "id": 1, "s": "a"}', '{"rowkind": "+I", "id": 2, "s": "b"}')
    changes = source(schema, '{"rowkind": "-D", "id": 1}', '{"rowkind": "+U", "id": 2, "s": "c"}')
    run(changes, "t")
    assert rows(spark, "SELECT * FROM t") == [(2, "c")]
    with pytest.raises(Exception, match=r"\[INVALID_ARGUMENT\] A row has rowkind = 'x'"):
        run(source(schema, '{"rowkind": "x", "id": 1}'), "t")
    assert rows(spark, "SELECT * FROM t") == [(2, "c")]


def test_a_replayed_batch_is_not_written_twice(spark: SparkSession, source, run, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    run(source("id INT", '{"id": 1}'), "t")
    commits = tmp_path / "checkpoint" / "commits"
    for file in [*commits.glob("0"), *commits.glob(".0.crc")]:
        file.unlink()  # as after a crash between the commit of the table and that of the checkpoint
    spark.sql("INSERT INTO t VALUES (10)")
    run(source("id INT", '{"id": 2}'), "t")
    assert rows(spark, "SELECT * FROM t") == [(1,), (2,), (10,)]


def test_an_older_checkpoint_is_refused(spark: SparkSession, source, run, tmp_path: Path) -> None:
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


def test_a_path_is_written_and_a_missing_one_refused(spark: SparkSession, source, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    location = spark.sql("SHOW TBLPROPERTIES t ('path')").first()[1]
    stream = source("id INT", '{"id": 1}').writeStream.format("paimon").trigger(availableNow=True)
    stream.option("checkpointLocation", str(tmp_path / "c1")).start(location).awaitTermination()
    assert rows(spark, "SELECT * FROM t") == [(1,)]
    absent = stream.option("checkpointLocation", str(tmp_path / "c2")).start(str(tmp_path / "absent"))
    with pytest.raises(Exception, match=r"\[TABLE_NOT_FOUND\]"):
        absent.awaitTermination()

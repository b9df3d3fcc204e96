"""Streams from table to table: changes, aggregates of them with retractions, joins with a dimension table."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from paimon_spark import streaming

Run = Callable[..., None]
LOGGED = "TBLPROPERTIES ('primary-key'='{}', 'bucket'='2', 'changelog-producer'='lookup')"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Write what a stream has to a table by key, and wait for it."""

    def write(frame: DataFrame, table: str, mode: str = "append") -> None:
        writer = frame.writeStream.outputMode(mode).option("checkpointLocation", str(tmp_path / table))
        writer.trigger(availableNow=True).toTable(table).awaitTermination()

    return write


def rows(spark: SparkSession, sql: str) -> list[tuple]:
    return sorted((tuple(r) for r in spark.sql(sql).collect()), key=str)


AGGREGATES = {
    "n": streaming.changelog_count,
    "known": lambda: streaming.changelog_count("v"),
    "total": lambda: streaming.changelog_sum("v"),
    "mean": lambda: streaming.changelog_avg("v"),
    "least": lambda: streaming.changelog_min("v"),
    "most": lambda: streaming.changelog_max("v"),
    "exact": lambda: streaming.changelog_avg(f.col("v").cast("decimal(10, 2)")),
    "last": lambda: streaming.changelog_max("s"),
}
BATCH = """SELECT g, count(*), count(v), sum(v), avg(v), min(v), max(v), avg(CAST(v AS DECIMAL(10, 2))), max(s)
  FROM ods WHERE v IS NULL OR v <> 5 GROUP BY g"""


def test_aggregates_follow_every_change(spark: SparkSession, run: Run) -> None:
    spark.sql(f"CREATE TABLE ods (id INT NOT NULL, g INT, v INT, s STRING) {LOGGED.format('id')}")
    spark.sql(f"CREATE TABLE dwd (id INT NOT NULL, g INT, v INT, s STRING) {LOGGED.format('id')}")
    spark.sql(
        "CREATE TABLE dws (g INT NOT NULL, n BIGINT, known BIGINT, total BIGINT, mean DOUBLE, least INT, most INT, "
        f"exact DECIMAL(14, 6), last STRING) {LOGGED.format('g')}"
    )
    cleaned = streaming.changes(spark, "ods").where("v IS NULL OR v <> 5")
    groups = streaming.changes(spark, "dwd").groupBy("g")
    totals = groups.agg(*(made().alias(name) for name, made in AGGREGATES.items()), streaming.changelog_kind())
    rng = random.Random(7)
    for _ in range(3):
        values = [
            f"({rng.randrange(12)}, {rng.randrange(3)}, {rng.choice(['NULL', *'0123456789'])}, 's{rng.randrange(9)}')"
            for _ in range(6)
        ]
        spark.sql(f"INSERT INTO ods VALUES {', '.join(values)}")
        spark.sql(f"DELETE FROM ods WHERE id % 4 = {rng.randrange(4)} OR g = {rng.randrange(3)}")
        run(cleaned, "dwd")
        run(totals, "dws", "update")
        assert rows(spark, "SELECT * FROM dws") == rows(spark, BATCH)
    spark.sql("DELETE FROM ods WHERE id >= 0")
    run(cleaned, "dwd")
    run(totals, "dws", "update")
    assert rows(spark, "SELECT * FROM dws") == []


def test_a_group_without_rows_has_no_values(spark: SparkSession, run: Run) -> None:
    spark.sql(f"CREATE TABLE src (id INT NOT NULL, g INT, v INT NOT NULL) {LOGGED.format('id')}")
    spark.sql(f"CREATE TABLE d (g INT NOT NULL, n BIGINT NOT NULL, s BIGINT NOT NULL, m INT) {LOGGED.format('g')}")
    spark.sql("INSERT INTO src VALUES (1, 1, 5), (2, 2, 6)")
    total, most = streaming.changelog_sum("v"), streaming.changelog_max("v").alias("m")
    groups = streaming.changes(spark, "src").groupBy("g")

    def totals(value: Column) -> DataFrame:
        count, kind = streaming.changelog_count().alias("n"), streaming.changelog_kind()
        return groups.agg(count, value.alias("t"), most, kind).withColumnRenamed("t", "s")

    with pytest.raises(Exception, match=r"(?s)\[UNSUPPORTED_FEATURE\].*NOT NULL columns of table \S+d: 's'"):
        run(totals(total), "d", "update")
    run(totals(f.coalesce(total, f.lit(0))), "d", "update")
    assert rows(spark, "SELECT * FROM d") == [(1, 1, 5, 5), (2, 1, 6, 6)]
    spark.sql("DELETE FROM src WHERE id = 1")
    run(totals(f.coalesce(total, f.lit(0))), "d", "update")
    assert rows(spark, "SELECT * FROM d") == [(2, 1, 6, 6)]


def test_distinct_extrema_are_refused(spark: SparkSession) -> None:
    rowset = "VALUES (5, '+I'), (5, '+I'), (5, '-D'), (3, '+I') AS t(v, k)"
    assert rows(spark, f"SELECT changelog_max(v, k), changelog_sum(v, k) FROM {rowset}") == [(5, 8)]
    for query in (
        "SELECT changelog_max(DISTINCT v, k) FROM {}",
        "SELECT (SELECT changelog_min(DISTINCT v, k) FROM {})",
    ):
        with pytest.raises(Exception, match=r"\[UNSUPPORTED_FEATURE\] changelog_m..\(DISTINCT …\)"):
            spark.sql(query.format(rowset)).collect()


def test_a_join_reads_the_dimension_of_its_batch(spark: SparkSession, run: Run) -> None:
    spark.sql("CREATE TABLE facts (id INT, k INT)")
    spark.sql("CREATE TABLE dim (k INT NOT NULL, name STRING) TBLPROPERTIES ('primary-key'='k', 'bucket'='1')")
    spark.sql("CREATE TABLE out (id INT, name STRING, first_name STRING)")
    spark.sql("INSERT INTO dim VALUES (1, 'a')")
    tagged = spark.sql("SELECT k, name AS first_name FROM dim VERSION AS OF 1")
    stream = spark.readStream.table("facts").join(spark.table("dim"), "k", "left").join(tagged, "k", "left")
    stream = stream.select("id", "name", "first_name")
    for n in (1, 2):
        spark.sql(f"INSERT INTO facts VALUES ({n}, 1)")
        run(stream, "out")
        spark.sql("INSERT INTO dim VALUES (1, 'b')")
    assert rows(spark, "SELECT * FROM out") == [(1, "a", "a"), (2, "b", "a")]


def test_a_running_join_sees_news_of_the_dimension(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE facts (id INT, k INT)")
    spark.sql("CREATE TABLE dim (k INT NOT NULL, name STRING) TBLPROPERTIES ('primary-key'='k', 'bucket'='1')")
    spark.sql("CREATE TABLE out (id INT, name STRING)")
    stream = spark.readStream.table("facts").join(spark.table("dim"), "k").select("id", "name")
    query = stream.writeStream.option("checkpointLocation", str(tmp_path / "c")).toTable("out")
    try:
        for n, name in enumerate("abc"):
            spark.sql(f"INSERT INTO dim VALUES (1, '{name}')")
            spark.sql(f"INSERT INTO facts VALUES ({n}, 1)")
            until = time.monotonic() + 60
            while len(rows(spark, "SELECT * FROM out")) <= n:
                assert time.monotonic() < until
                assert query.exception() is None
                time.sleep(0.1)
    finally:
        query.stop()
    assert rows(spark, "SELECT * FROM out") == [(0, "a"), (1, "b"), (2, "c")]


def test_sql_jobs_pass_changes_on(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE ods (id INT NOT NULL, g INT, v INT) {LOGGED.format('id')}")
    spark.sql(f"CREATE TABLE dwd (id INT NOT NULL, g INT, v INT) {LOGGED.format('id')}")
    spark.sql(f"CREATE TABLE dws (g INT NOT NULL, n BIGINT, most INT) {LOGGED.format('g')}")
    spark.sql("SET 'execution.checkpointing.interval' = '1 s'")
    spark.sql("INSERT INTO ods VALUES (1, 1, 10), (2, 1, 20), (3, 2, 30)")
    jobs = [
        spark.sql(text).first()[0]
        for text in (
            "INSERT INTO dwd SELECT id, g, v + 1, rowkind FROM paimon_changes('ods')",
            "INSERT INTO dws (g, most, n) SELECT g, changelog_max(v, rowkind), changelog_count(rowkind), "
            "changelog_kind(rowkind) AS rowkind FROM paimon_changes('dwd') GROUP BY g",
        )
    ]
    try:
        for change, wanted in (
            (None, [(1, 2, 21), (2, 1, 31)]),
            ("DELETE FROM ods WHERE id >= 2", [(1, 1, 11)]),
        ):
            if change:
                spark.sql(change)
            until = time.monotonic() + 90
            while rows(spark, "SELECT * FROM dws") != wanted:
                assert time.monotonic() < until, rows(spark, "SELECT * FROM dws")
                time.sleep(0.3)
    finally:
        for job in jobs:
            spark.sql(f"STOP JOB '{job}'")


def test_what_cannot_be_a_job_of_changes(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE ods (id INT NOT NULL, g INT, v INT) {LOGGED.format('id')}")
    spark.sql("CREATE TABLE plain (id INT, g INT)")
    with pytest.raises(Exception, match=r"\[UNSUPPORTED_FEATURE\].*cannot overwrite a table"):
        spark.sql("INSERT OVERWRITE plain SELECT id, g FROM paimon_changes('ods')")
    with pytest.raises(Exception, match=r"\[INVALID_ARGUMENT\] The query has 3 columns, but '.*plain' takes 2: id, g"):
        spark.sql("INSERT INTO plain SELECT id, g, v FROM paimon_changes('ods')")
    with pytest.raises(
        Exception, match=r"\[WRONG_NUM_ARGS.*`changelog_max` requires 2 parameters but the actual number is 1"
    ):
        spark.sql("SELECT changelog_max(v) FROM ods")
    with pytest.raises(Exception, match=r"\[INVALID_ARGUMENT\] A row has the kind x"):
        spark.sql("SELECT changelog_sum(v, k) FROM VALUES (1, 'x') AS t(v, k)").collect()

"""INSERT INTO … REPLACE WHERE and `writeTo(…).overwrite(condition)`: rows are deleted and inserted in one commit."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tests.query_results import rows

_KEYED = {
    "deduplicate": "'primary-key' = 'id'",
    "deduplicate with vectors": "'primary-key' = 'id', 'deletion-vectors.enabled' = 'true', 'bucket' = '2'",
    "lookup": "'primary-key' = 'id', 'changelog-producer' = 'lookup'",
    "partial-update": "'primary-key' = 'id', 'merge-engine' = 'partial-update'",
}
_APPEND = {
    "append": "'bucket' = '-1'",
    "append with vectors": "'deletion-vectors.enabled' = 'true'",
    "bucketed": "'bucket' = '2', 'bucket-key' = 'id'",
    "row tracking": "'row-tracking.enabled' = 'true'",
    "data evolution": "'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true', "
    "'deletion-vectors.enabled' = 'true'",
}


def created(spark: SparkSession, properties: str) -> None:
    spark.sql(f"CREATE TABLE t (id BIGINT, v INT, c STRING) TBLPROPERTIES ({properties})")
    spark.sql("INSERT INTO t SELECT id, CAST(id AS INT), 'a' FROM range(6)")


def kinds_of_commits(spark: SparkSession) -> list[str]:
    return [k for (k,) in rows(spark, "SELECT commit_kind FROM `t$snapshots` ORDER BY snapshot_id") if k != "COMPACT"]


@pytest.mark.parametrize("properties", [*_KEYED.values(), *_APPEND.values()], ids=[*_KEYED, *_APPEND])
def test_rows_are_replaced(spark: SparkSession, properties: str) -> None:
    created(spark, properties)
    spark.sql("INSERT INTO t REPLACE WHERE v >= 3 VALUES (3, 30, 'b'), (1, 10, 'c'), (9, 90, 'd')")
    left = [(0, 0, "a"), (2, 2, "a")] + ([] if "primary-key" in properties else [(1, 1, "a")])
    new = [(1, 10, "c"), (3, 30, "b"), (9, 90, "d")]
    assert rows(spark, "SELECT * FROM t ORDER BY ALL") == sorted(left + new)
    assert len(kinds_of_commits(spark)) == 2
    source = spark.range(50, 52).selectExpr("id", "CAST(NULL AS INT) AS v", "'z' AS c")
    source.writeTo("t").overwrite((f.col("c") == "a") | (f.col("id") == 9))
    assert rows(spark, "SELECT * FROM t ORDER BY id") == [(1, 10, "c"), (3, 30, "b"), (50, None, "z"), (51, None, "z")]


def test_a_row_beyond_the_condition_is_merged_as_by_insert(spark: SparkSession) -> None:
    created(spark, "'primary-key' = 'id', 'merge-engine' = 'aggregation', 'fields.v.aggregate-function' = 'sum'")
    spark.sql("INSERT INTO t REPLACE WHERE id > 1 VALUES (1, 10, 'b'), (3, 30, 'b')")
    assert rows(spark, "SELECT * FROM t ORDER BY id") == [(0, 0, "a"), (1, 11, "b"), (3, 30, "b")]


@pytest.mark.parametrize(
    "properties",
    [
        "'sequence.field' = 'v'",
        "'merge-engine' = 'partial-update'",
        "'merge-engine' = 'partial-update', 'sequence.field' = 'v', 'deletion-vectors.enabled' = 'true'",
        "'merge-engine' = 'partial-update', 'fields.v.sequence-group' = 'c'",
        "'merge-engine' = 'first-row'",
        "'merge-engine' = 'aggregation', 'fields.v.aggregate-function' = 'sum'",
    ],
)
def test_nothing_is_left_of_a_replaced_row(spark: SparkSession, properties: str) -> None:
    created(spark, f"'primary-key' = 'id', {properties}")
    spark.sql("INSERT INTO t REPLACE WHERE v >= 3 VALUES (3, 1, NULL), (4, NULL, 'b'), (9, 9, 'b')")
    left = [(n, n, "a") for n in range(3)]
    assert rows(spark, "SELECT * FROM t ORDER BY id") == [*left, (3, 1, None), (4, None, "b"), (9, 9, "b")]
    assert len(kinds_of_commits(spark)) == 2


@pytest.mark.parametrize("properties", ["'primary-key' = 'id'", "'bucket' = '-1'"], ids=["keyed", "append"])
def test_options_concern_the_new_rows(spark: SparkSession, properties: str) -> None:
    created(spark, properties)
    spark.sql("INSERT INTO t WITH ('file.format' = 'orc') REPLACE WHERE v > 4 VALUES (7, 7, 'b')")
    source = spark.range(8, 9).selectExpr("id", "int(id) AS v", "'c' AS c")
    source.writeTo("t").option("file.format", "orc").overwrite(f.col("v") == 0)
    assert [k for (k,) in rows(spark, "SELECT id FROM t ORDER BY id")] == [1, 2, 3, 4, 7, 8]
    formats = {k for (k,) in rows(spark, "SELECT file_format FROM `t$files`")}
    assert "orc" in formats
    with pytest.raises(PySparkException, match=r"INVALID_OPTION.*file.format"):
        spark.sql("INSERT INTO t WITH ('file.fromat' = 'orc') REPLACE WHERE v > 4 VALUES (7, 7, 'b')")


def test_a_null_in_a_condition_on_partitions(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id BIGINT, p INT) PARTITIONED BY (p)")
    spark.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    spark.sql("INSERT INTO t REPLACE WHERE p = CAST(NULL AS INT) OR p = 1 VALUES (5, 1)")
    assert rows(spark, "SELECT * FROM t ORDER BY id") == [(2, 2), (5, 1)]
    with pytest.raises(PySparkException, match=r"INVALID_ARGUMENT.*partition 'p=2'"):
        spark.sql("INSERT INTO t REPLACE WHERE p = 1 VALUES (6, 2)")


def test_the_query_may_read_the_table(spark: SparkSession) -> None:
    for properties in ("'primary-key' = 'id'", "'bucket' = '-1'"):
        created(spark, properties)
        spark.sql("INSERT INTO t REPLACE WHERE id >= 4 SELECT id + 1, v, 'moved' FROM t WHERE id >= 3")
        expected = [
            (0, 0, "a"),
            (1, 1, "a"),
            (2, 2, "a"),
            (3, 3, "a"),
            (4, 3, "moved"),
            (5, 4, "moved"),
            (6, 5, "moved"),
        ]
        assert rows(spark, "SELECT * FROM t ORDER BY id") == expected
        spark.sql("DROP TABLE t")


def test_partitions_are_replaced_whole(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id BIGINT, p STRING) PARTITIONED BY (p)")
    spark.sql("INSERT INTO t SELECT id, CAST(id % 3 AS STRING) FROM range(6)")
    plan = rows(spark, "EXPLAIN INSERT INTO t REPLACE WHERE p IN ('0', '2') SELECT 7L, '2'")[0][0]
    assert "PaimonRowCommand" not in plan
    spark.sql("INSERT INTO t REPLACE WHERE p IN ('0', '2') SELECT 7L, '2'")
    assert rows(spark, "SELECT * FROM t ORDER BY id") == [(1, "1"), (4, "1"), (7, "2")]
    spark.sql("INSERT INTO t REPLACE WHERE p LIKE '%1%' AND id > 1 SELECT 8L, '1'")
    assert rows(spark, "SELECT * FROM t ORDER BY id") == [(1, "1"), (7, "2"), (8, "1")]


def test_explain_of_a_replacement(spark: SparkSession) -> None:
    created(spark, "'primary-key' = 'id'")
    plan = rows(spark, "EXPLAIN INSERT INTO t REPLACE WHERE v >= 3 VALUES (3, 30, 'b')")[0][0]
    assert "REPLACE WHERE (v >= 3)" in plan
    assert kinds_of_commits(spark) == ["APPEND"]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("REPLACE WHERE v >= 3 VALUES (3, 30, 'b'), (3, 31, 'c')", r"MERGE_CARDINALITY_VIOLATION.*REPLACE WHERE"),
        ("REPLACE WHERE nope = 3 VALUES (3, 30, 'b')", r"UNRESOLVED_COLUMN.*nope"),
        ("REPLACE WHERE v = 3 SELECT 3, assert_true(false), 'x'", r"USER_RAISED_EXCEPTION"),
        ("REPLACE WHERE v = 3 SELECT 3, 4", r"INSERT_COLUMN_ARITY_MISMATCH"),
    ],
)
def test_a_failed_replacement_changes_nothing(
    spark: SparkSession, warehouse: Path, statement: str, message: str
) -> None:
    created(spark, "'primary-key' = 'id'")
    before = rows(spark, "SELECT * FROM t ORDER BY id")
    with pytest.raises(PySparkException, match=rf"(?s){message}"):
        spark.sql(f"INSERT INTO t {statement}")
    assert rows(spark, "SELECT * FROM t ORDER BY id") == before
    database = rows(spark, "SELECT current_database()")[0][0]
    assert len(list((warehouse / f"{database}.db" / "t").glob("snapshot/snapshot-*"))) == 1


@pytest.mark.parametrize(
    "properties", ["'primary-key' = 'id', 'bucket' = '2'", "'bucket' = '-1'"], ids=["keyed", "append"]
)
def test_random_replacements(spark: SparkSession, properties: str) -> None:
    chance = random.Random(11)
    keyed = "primary-key" in properties
    spark.sql(f"CREATE TABLE t (id BIGINT, v INT) TBLPROPERTIES ({properties})")
    model: Counter[tuple[int, int]] = Counter()
    for _ in range(8):
        low, new = chance.randrange(100), {chance.randrange(40): chance.randrange(100) for _ in range(10)}
        values = ", ".join(f"({k}, {v})" for k, v in new.items())
        spark.sql(f"INSERT INTO t REPLACE WHERE v BETWEEN {low} AND {low + 30} VALUES {values}")
        kept = {r: n for r, n in model.items() if not low <= r[1] <= low + 30 and not (keyed and r[0] in new)}
        model = Counter(kept) + Counter(new.items())
        assert Counter(rows(spark, "SELECT * FROM t")) == model

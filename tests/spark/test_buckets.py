"""Bucket modes through SQL: bucket functions, rescaling, postponed buckets, cross-partition upserts."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.query_results import rows


def run(spark: SparkSession, *statements: str) -> None:
    for statement in statements:
        spark.sql(statement)


def kinds(spark: SparkSession, table: str = "t") -> list[str]:
    return [k for (k,) in rows(spark, f"SELECT commit_kind FROM `{table}$snapshots` ORDER BY snapshot_id")]


@pytest.mark.parametrize(("function", "key"), [("hive", "s,d,k"), ("mod", "k"), ("default", "k,s")])
def test_a_key_is_found_in_its_bucket(spark: SparkSession, function: str, key: str) -> None:
    run(
        spark,
        "CREATE TABLE t (k BIGINT NOT NULL, s STRING NOT NULL, d DECIMAL(20,3) NOT NULL, v INT) TBLPROPERTIES "
        f"('primary-key'='{key}', 'bucket'='7', 'bucket-function.type'='{function}')",
        "INSERT INTO t SELECT id - 300, concat('s', id), CAST(id AS DECIMAL(20,3)) / 8, id FROM range(1000)",
        "INSERT INTO t SELECT id - 300, concat('s', id), CAST(id AS DECIMAL(20,3)) / 8, -id FROM range(500)",
    )
    assert rows(spark, "SELECT count(*), sum(v) FROM t") == [(1000, sum(range(500, 1000)) - sum(range(500)))]
    assert rows(spark, "SELECT count(DISTINCT __paimon_bucket) FROM t") == [(7,)]
    one = "k = 11 AND s = 's311' AND d = 38.875"
    assert rows(spark, f"SELECT v FROM t WHERE {one}") == [(-311,)]
    run(spark, f"DELETE FROM t WHERE {one}")
    assert rows(spark, f"SELECT v FROM t WHERE {one}") == []


def test_hive_refuses_a_timestamp_key(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="'hive' does not accept the timestamp column 'ts'"):
        run(spark, "CREATE TABLE t (ts TIMESTAMP) TBLPROPERTIES ('bucket'='2', 'bucket-key'='ts', "
                   "'bucket-function.type'='hive')")  # fmt: skip


# ---- rescale


def test_rescale_rewrites_partitions_with_other_buckets(spark: SparkSession) -> None:
    run(
        spark,
        "CREATE TABLE t (k INT NOT NULL, v INT, p STRING NOT NULL) PARTITIONED BY (p) "
        "TBLPROPERTIES ('primary-key'='p,k', 'bucket'='1')",
        "INSERT INTO t SELECT id, id, concat('p', id % 3) FROM range(300)",
        "ALTER TABLE t SET TBLPROPERTIES ('bucket'='2')",
    )
    with pytest.raises(Exception, match=r"p=p1 is still organised in 1 buckets.*sys.rescale"):
        run(spark, "INSERT INTO t VALUES (1, 1, 'p1')")
    run(spark, "INSERT INTO t VALUES (1, 1, 'new')")
    before = rows(spark, "SELECT * FROM t ORDER BY p, k")
    done = spark.sql("CALL sys.rescale(table => 't', partitions => 'p=p1')").collect()[0]
    assert (done.result, done.status, done.files_in, done.files_out) == (True, "done", 1, 2)
    counts = "SELECT `partition`, count(DISTINCT bucket) FROM `t$files` GROUP BY 1 ORDER BY 1"
    assert rows(spark, counts) == [("{new}", 1), ("{p0}", 1), ("{p1}", 2), ("{p2}", 1)]
    run(spark, "INSERT INTO t VALUES (1, -1, 'p1')")
    with pytest.raises(Exception, match="p=p0 is still organised"):
        run(spark, "INSERT INTO t VALUES (0, 1, 'p0')")
    done = spark.sql("CALL sys.rescale('t')").collect()[0]
    assert (done.status, done.files_in) == ("done", 2)
    assert rows(spark, "SELECT * FROM t ORDER BY p, k") == [
        r if r[0::2] != (1, "p1") else (1, -1, "p1") for r in before
    ]
    assert spark.sql("CALL sys.rescale('t', 2)").collect()[0].status == "nothing to do"
    assert kinds(spark)[-1] == "OVERWRITE"
    plan = rows(spark, "CALL sys.rescale(table => 't', bucket_num => 3, where => \"p = 'new'\", dry_run => true)")
    assert [(a, reason) for a, _, _, reason, _ in plan] == [("rescale", "p=new: rewritten from 2 to 3 buckets")]


def test_rescale_of_an_append_table_keeps_rows_and_types(spark: SparkSession) -> None:
    run(
        spark,
        "CREATE TABLE t (k INT, a ARRAY<INT>, ts TIMESTAMP) TBLPROPERTIES ('bucket'='3', 'bucket-key'='k')",
        "INSERT INTO t SELECT id, array(id, null), timestamp_micros(id) FROM range(500)",
        "DELETE FROM t WHERE k % 5 = 0",
    )
    before = rows(spark, "SELECT * FROM t ORDER BY k")
    run(spark, "CALL sys.rescale('t', 4)")
    assert rows(spark, "SELECT * FROM t ORDER BY k") == before
    assert rows(spark, "SELECT count(DISTINCT bucket) FROM `t$files`") == [(4,)]


def test_rescale_is_refused_without_a_number_of_buckets(spark: SparkSession) -> None:
    run(spark, "CREATE TABLE t (k INT NOT NULL) TBLPROPERTIES ('primary-key'='k')", "INSERT INTO t VALUES (1)")
    with pytest.raises(Exception, match="no fixed number of buckets"):
        run(spark, "CALL sys.rescale('t', 2)")
    run(spark, "CREATE TABLE u (k INT NOT NULL) TBLPROPERTIES ('primary-key'='k', 'bucket'='-2')")
    with pytest.raises(Exception, match="Give bucket_num"):
        run(spark, "CALL sys.rescale('u')")
    with pytest.raises(Exception, match="has no snapshot"):
        run(spark, "CALL sys.rescale('u', 2)")


# ---- postponed buckets

POSTPONED = "'bucket'='-2', 'postpone.batch-write-fixed-bucket'='false'"


def test_postponed_rows_are_read_after_a_compaction(spark: SparkSession) -> None:
    run(
        spark,
        f"CREATE TABLE t (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key'='k', {POSTPONED})",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    )
    assert rows(spark, "SELECT * FROM t") == []
    plan = rows(spark, "EXPLAIN CALL sys.compact('t')")
    assert [(a, path.split("/")[-2], reason) for a, path, _, reason, _ in plan] == [
        ("distribute", "bucket-postpone", "the table: postponed rows go to 2 buckets")
    ]
    done = spark.sql("CALL sys.compact('t')").collect()[0]
    assert (done.status, done.files_in, done.rows) == ("done", 1, 3)
    assert rows(spark, "SELECT * FROM t ORDER BY k") == [(1, "a"), (2, "b"), (3, "c")]
    assert kinds(spark) == ["APPEND", "COMPACT"]
    assert spark.sql("CALL sys.compact('t')").collect()[0].status == "nothing to do"


def test_postponed_rows_are_replayed_in_the_order_of_commits(spark: SparkSession) -> None:
    run(spark, f"CREATE TABLE t (k INT NOT NULL, v INT) TBLPROPERTIES ('primary-key'='k', {POSTPONED})")
    for n in range(6):
        run(spark, f"INSERT INTO t SELECT id, {n} FROM range({n}, 40)")
    run(spark, "CALL sys.compact('t')")
    assert rows(spark, "SELECT * FROM t ORDER BY k") == [(k, min(k, 5)) for k in range(40)]
    run(spark, "DELETE FROM t WHERE k = 7", "UPDATE t SET v = -1 WHERE k = 8", "CALL sys.compact('t')")
    run(spark, "INSERT INTO t VALUES (9, 90)", "CALL sys.compact('t')")
    assert rows(spark, "SELECT * FROM t WHERE k BETWEEN 6 AND 9 ORDER BY k") == [(6, 5), (8, -1), (9, 90)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("'merge-engine'='partial-update'", [(1, 1, "z"), (2, 5, "y")]),
        ("'merge-engine'='aggregation', 'fields.a.aggregate-function'='sum'", [(1, 1, "z"), (2, 7, "y")]),
        ("'merge-engine'='first-row'", [(1, 1, "x"), (2, 2, None)]),
    ],
)
def test_every_merge_engine_merges_replayed_rows(spark: SparkSession, options: str, expected: list[Any]) -> None:
    run(
        spark,
        f"CREATE TABLE t (k INT NOT NULL, a INT, b STRING) TBLPROPERTIES ('primary-key'='k', {POSTPONED}, {options})",
        "INSERT INTO t VALUES (1, 1, 'x'), (2, 2, NULL)",
        "INSERT INTO t VALUES (1, NULL, 'z'), (2, NULL, 'y')",
        "CALL sys.compact('t')",
        "INSERT INTO t VALUES (2, 5, NULL)",
        "CALL sys.compact('t')",
    )
    assert rows(spark, "SELECT * FROM t ORDER BY k") == expected


def test_partitions_get_buckets_by_their_rows(spark: SparkSession) -> None:
    run(
        spark,
        "CREATE TABLE t (k INT NOT NULL, p INT NOT NULL) PARTITIONED BY (p) TBLPROPERTIES ('primary-key'='p,k', "
        "'bucket'='-2', 'postpone.target-row-num-per-bucket'='100')",
        "INSERT INTO t SELECT id, CASE WHEN id < 90 THEN 0 WHEN id < 400 THEN 1 ELSE 2 END FROM range(1000)",
    )
    total = "SELECT p, count(DISTINCT __paimon_bucket), count(*) FROM t GROUP BY p ORDER BY p"
    assert rows(spark, total) == [(0, 1, 90), (1, 4, 310), (2, 6, 600)]
    run(spark, "INSERT INTO t SELECT id, id % 4 FROM range(1000)")
    assert rows(spark, total) == [(0, 1, 317), (1, 4, 483), (2, 6, 700), (3, 3, 250)]
    assert rows(spark, "SELECT count(*), count(DISTINCT k, p) FROM t") == [(1750, 1750)]
    assert kinds(spark) == ["APPEND", "APPEND"]
    assert rows(spark, "SELECT k FROM t WHERE p = 1 AND k = 397") == [(397,)]


def test_buckets_by_size_and_by_default(spark: SparkSession) -> None:
    run(
        spark,
        "CREATE TABLE s (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key'='k', 'bucket'='-2', "
        "'postpone.target-size-per-bucket'='1 mb', 'postpone.batch-write-fixed-bucket.max-parallelism'='3')",
        "INSERT INTO s SELECT id, repeat('x', 100) FROM range(20000)",
        f"CREATE TABLE d (k INT NOT NULL) TBLPROPERTIES ('primary-key'='k', {POSTPONED}, "
        "'postpone.default-bucket-num'='5')",
        "INSERT INTO d SELECT id FROM range(1000)",
        "CALL sys.compact('d')",
    )
    assert rows(spark, "SELECT count(DISTINCT __paimon_bucket), count(*) FROM s") == [(3, 20000)]
    assert rows(spark, "SELECT count(DISTINCT __paimon_bucket), count(*) FROM d") == [(5, 1000)]
    run(spark, "CALL sys.rescale('d', 2)", "INSERT INTO d VALUES (-1)", "CALL sys.compact('d')")
    assert rows(spark, "SELECT count(DISTINCT __paimon_bucket), count(*) FROM d") == [(2, 1001)]


def test_compact_takes_partitions_and_a_strategy(spark: SparkSession) -> None:
    run(
        spark,
        "CREATE TABLE t (k INT NOT NULL, p STRING NOT NULL) PARTITIONED BY (p) "
        f"TBLPROPERTIES ('primary-key'='p,k', {POSTPONED})",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        "CALL sys.compact(table => 't', partitions => 'p=a', compact_strategy => 'full')",
    )
    assert rows(spark, "SELECT * FROM t") == [(1, "a")]
    assert rows(spark, "SELECT DISTINCT level FROM `t$files`") == [(5,)]
    run(spark, "INSERT OVERWRITE t PARTITION (p = 'b') VALUES (3)", "CALL sys.compact('t')")
    assert rows(spark, "SELECT * FROM t ORDER BY k") == [(1, "a"), (3, "b")]
    with pytest.raises(Exception, match="postponed buckets, which partition_idle_time does not apply to"):
        run(spark, "CALL sys.compact(table => 't', partition_idle_time => '1 h')")


def test_queries_may_merge_postponed_rows(spark: SparkSession) -> None:
    run(
        spark,
        f"CREATE TABLE t (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key'='k', {POSTPONED}, "
        "'postpone.merge-on-read'='true', 'postpone.default-bucket-num'='2')",
        "INSERT INTO t SELECT id, 'old' FROM range(1000)",
        "CALL sys.compact('t')",
        "INSERT INTO t SELECT id, 'new' FROM range(500, 1500)",
        "DELETE FROM t WHERE k < 100",
    )
    query = "SELECT v, count(*), min(k), max(k) FROM t GROUP BY v ORDER BY v"
    assert rows(spark, query) == [("new", 1000, 500, 1499), ("old", 400, 100, 499)]
    assert rows(spark, "SELECT count(*) FROM t") == [(1400,)]
    assert rows(spark, "SELECT count(*) FROM t /*+ OPTIONS('postpone.merge-on-read' = 'false') */") == [(1000,)]
    with pytest.raises(Exception, match="__paimon_file_path cannot be read while postponed rows"):
        rows(spark, "SELECT __paimon_file_path FROM t")
    run(spark, "CALL sys.compact('t')")
    assert rows(spark, query) == [("new", 1000, 500, 1499), ("old", 400, 100, 499)]


# ---- cross-partition upserts


def crossing(spark: SparkSession, engine: str = "deduplicate", **options: str) -> None:
    more = "".join(f", '{k.replace('__', '.').replace('_', '-')}'='{v}'" for k, v in options.items())
    run(
        spark,
        "CREATE TABLE t (k INT NOT NULL, a INT, b STRING, p STRING) PARTITIONED BY (p) "
        f"TBLPROPERTIES ('primary-key'='k', 'bucket'='-1', 'merge-engine'='{engine}'{more})",
    )


def test_a_key_moves_to_the_partition_of_its_last_row(spark: SparkSession) -> None:
    crossing(spark)
    run(spark, "INSERT INTO t VALUES (1, 1, 'v1', 'A'), (2, 1, 'v1', 'A')", "INSERT INTO t VALUES (1, 2, 'v2', 'B')")
    assert rows(spark, "SELECT * FROM t ORDER BY k") == [(1, 2, "v2", "B"), (2, 1, "v1", "A")]
    run(spark, "INSERT INTO t VALUES (2, 3, 'x', 'C'), (2, 4, 'y', NULL), (3, 1, 'z', 'D'), (3, 2, 'w', 'A')")
    assert rows(spark, "SELECT * FROM t ORDER BY k") == [(1, 2, "v2", "B"), (2, 4, "y", None), (3, 2, "w", "A")]
    run(spark, "UPDATE t SET p = 'E' WHERE k = 2", "DELETE FROM t WHERE k = 1")
    assert rows(spark, "SELECT k, a, p FROM t ORDER BY k") == [(2, 4, "E"), (3, 2, "A")]
    run(
        spark,
        "MERGE INTO t USING (SELECT 2 AS k, 'F' AS p UNION ALL SELECT 9, 'G') s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET p = s.p WHEN NOT MATCHED THEN INSERT (k, a, b, p) VALUES (s.k, 0, NULL, s.p)",
    )
    assert rows(spark, "SELECT k, a, p FROM t ORDER BY k") == [(2, 4, "F"), (3, 2, "A"), (9, 0, "G")]
    run(spark, "CALL sys.compact('t')")
    assert rows(spark, "SELECT k, a, p FROM t ORDER BY k") == [(2, 4, "F"), (3, 2, "A"), (9, 0, "G")]


def test_partial_updates_stay_in_the_partition_of_the_key(spark: SparkSession) -> None:
    crossing(spark, "partial-update")
    run(spark, "INSERT INTO t VALUES (1, 1, NULL, 'A')", "INSERT INTO t VALUES (1, NULL, 'z', 'B'), (2, 2, NULL, 'B')")
    assert rows(spark, "SELECT * FROM t ORDER BY k") == [(1, 1, "z", "A"), (2, 2, None, "B")]


def test_first_row_drops_rows_of_keys_in_other_partitions(spark: SparkSession) -> None:
    crossing(spark, "first-row")
    run(spark, "INSERT INTO t VALUES (1, 1, NULL, 'A')", "INSERT INTO t VALUES (1, 2, NULL, 'B'), (2, 3, NULL, 'B')")
    assert rows(spark, "SELECT k, a, p FROM t ORDER BY k") == [(1, 1, "A"), (2, 3, "B")]


def test_many_keys_move_between_partitions(spark: SparkSession) -> None:
    crossing(spark, dynamic_bucket__assigner_parallelism="3", dynamic_bucket__target_row_num="1000")
    for n in range(4):
        run(spark, f"INSERT INTO t SELECT id, {n}, NULL, concat('p', (id + {n}) % 5) FROM range({n * 500}, 6000)")
    query = "SELECT count(*), count(DISTINCT k), sum(if(p = concat('p', (k + a) % 5), 0, 1)) FROM t"
    assert rows(spark, query) == [(6000, 6000, 0)]
    assert rows(spark, "SELECT a, count(*) FROM t GROUP BY a ORDER BY a") == [(0, 500), (1, 500), (2, 500), (3, 4500)]
    run(spark, "INSERT OVERWRITE t SELECT id, 0, NULL, 'q' FROM range(100)")
    assert rows(spark, "SELECT count(*), min(p) FROM t") == [(100, "q")]


def test_single_partitions_cannot_be_overwritten(spark: SparkSession) -> None:
    crossing(spark)
    run(spark, "INSERT INTO t VALUES (1, 1, NULL, 'A')")
    with pytest.raises(Exception, match="cannot replace single partitions"):
        run(spark, "INSERT OVERWRITE t PARTITION (p = 'A') VALUES (2, 2, NULL)")
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        with pytest.raises(Exception, match="cannot replace single partitions"):
            run(spark, "INSERT OVERWRITE t VALUES (2, 2, NULL, 'B')")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    run(spark, "TRUNCATE TABLE t PARTITION (p = 'A')", "INSERT INTO t VALUES (1, 1, NULL, 'B')")
    assert rows(spark, "SELECT k, p FROM t") == [(1, "B")]


def test_keys_of_old_files_are_forgotten(spark: SparkSession) -> None:
    crossing(spark)
    run(spark, "INSERT INTO t VALUES (1, 1, NULL, 'A')")
    hint = "/*+ OPTIONS('cross-partition-upsert.index-ttl' = '1 ms') */"
    run(spark, f"INSERT INTO t {hint} VALUES (1, 2, NULL, 'B')")
    assert rows(spark, "SELECT k, a, p FROM t ORDER BY p") == [(1, 1, "A"), (1, 2, "B")]


@pytest.mark.parametrize(
    ("options", "message"), [("'sequence.field'='a'", "sequence.field"), ("'ignore-delete'='true'", "ignore-delete")]
)
def test_what_moved_keys_rule_out_is_refused(spark: SparkSession, options: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        run(
            spark,
            "CREATE TABLE t (k INT NOT NULL, a INT, p INT) PARTITIONED BY (p) "
            f"TBLPROPERTIES ('primary-key'='k', {options})",
        )


# ---- statements over all modes

MODES = {
    "postponed": "'primary-key'='k', 'bucket'='-2'",
    "postponed rows": f"'primary-key'='k', {POSTPONED}",
    "cross-partition": "'primary-key'='k', 'bucket'='-1'",
    "hive": "'primary-key'='k,p', 'bucket'='3', 'bucket-function.type'='hive'",
}


@pytest.mark.parametrize("mode", MODES)
def test_tables_of_queries(spark: SparkSession, mode: str) -> None:
    query = "SELECT CAST(id AS INT) AS k, concat('p', id % 3) AS p, id * 2 AS v FROM range(2000)"
    run(
        spark,
        f"CREATE TABLE t PARTITIONED BY (p) TBLPROPERTIES ({MODES[mode]}) AS {query}",
        "CALL sys.compact('t')",
    )
    assert rows(spark, "SELECT count(*), count(DISTINCT k), sum(v) FROM t") == [(2000, 2000, 3998000)]
    run(
        spark,
        f"CREATE OR REPLACE TABLE t PARTITIONED BY (p) TBLPROPERTIES ({MODES[mode]}) AS {query} WHERE id < 50",
        "CALL sys.compact('t')",
    )
    assert rows(spark, "SELECT count(*), count(DISTINCT k), sum(v) FROM t") == [(50, 50, 2450)]


@pytest.mark.parametrize("mode", ["postponed", "postponed rows", "cross-partition"])
def test_merge_into_applies_its_actions_in_order(spark: SparkSession, mode: str) -> None:
    run(
        spark,
        f"CREATE TABLE t (k INT NOT NULL, v INT, p STRING NOT NULL) PARTITIONED BY (p) TBLPROPERTIES ({MODES[mode]})",
        "INSERT INTO t SELECT id, 0, 'a' FROM range(20)",
        "CALL sys.compact('t')",
        "CREATE TABLE s (k INT, v INT)",
        "INSERT INTO s SELECT id, id FROM range(10, 30)",
        "CALL sys.merge_into(target_table => 't', source_table => 's', merge_condition => 't.k = s.k', "
        "matched_upsert_condition => 's.k < 15', matched_upsert_setting => 'v = s.v', "
        "matched_delete_condition => 's.k >= 15', "
        "not_matched_insert_condition => 's.k < 25', not_matched_insert_values => \"s.k, s.v, 'a'\")",
        "CALL sys.compact('t')",
    )
    expected = [(k, 0) for k in range(10)] + [(k, k) for k in range(10, 15)] + [(k, k) for k in range(20, 25)]
    assert rows(spark, "SELECT k, v FROM t ORDER BY k") == expected


@pytest.mark.parametrize("mode", ["divided", "combined"])
def test_compact_database_distributes_postponed_rows(spark: SparkSession, mode: str) -> None:
    run(
        spark,
        f"CREATE TABLE t (k INT NOT NULL) TBLPROPERTIES ('primary-key'='k', {POSTPONED})",
        "INSERT INTO t VALUES (1), (2)",
        "CREATE TABLE u (k INT NOT NULL) TBLPROPERTIES ('primary-key'='k', 'bucket'='1')",
        "INSERT INTO u VALUES (1)",
    )
    name = rows(spark, "SELECT current_database()")[0][0]
    done = spark.sql(f"CALL sys.compact_database(including_databases => '{name}', mode => '{mode}')").collect()
    assert done[0][0] == "Compact database finished. Success: 2, Failed: 0"
    found = {r.table: (r.status, r.files_in, r.snapshot_after) for r in done[1:]}
    assert found[f"{name}.t"] == ("done", 1, 2)
    assert rows(spark, "SELECT * FROM t ORDER BY k") == [(1,), (2,)]

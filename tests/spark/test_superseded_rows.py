"""Merge-on-read by Spark's own scans: workers only find the superseded rows, which the scans leave out."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

import paimon_spark
from paimon_spark.api.row_changes import deletions
from paimon_spark.core.columns import FILE_PATH, VECTOR
from paimon_spark.engine.select import plan_select
from paimon_spark.spark.read_modes import FEWEST_ROWS
from tests.spark.test_engine import engine_pid

COUNT = FEWEST_ROWS + 5_000
LOCAL = "spark.paimon.read.local-max-bytes"
FILTERED = "native without superseded rows"
SUMS = "SELECT count(*), sum(id), sum(v), sum(length(s)), max(s), count(v) FROM {}"


def one(spark: SparkSession, sql: str) -> Row:
    return spark.sql(sql).collect()[0]


def plan_of(spark: SparkSession, sql: str) -> str:
    return str(one(spark, f"EXPLAIN {sql}")[0])


@pytest.fixture(params=["found by a job", "found by the engine"])
def merged(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """A table whose files overlap, and a view of the rows that it must show."""
    spark.sql(
        "CREATE TABLE t (id BIGINT, v INT, s STRING) "
        "TBLPROPERTIES ('primary-key'='id', 'bucket'='2', 'write-only'='true')"
    )
    spark.sql(f"INSERT INTO t SELECT id, 0, 'first' FROM range({COUNT})")
    spark.sql("INSERT INTO t SELECT id * 3, CAST(id AS INT) + 1, 'second ' || id FROM range(9000)")
    spark.sql("DELETE FROM t WHERE id % 1000 = 7 OR id BETWEEN 40000 AND 50000")
    spark.sql("INSERT INTO t SELECT id, -1, NULL FROM range(49990, 50010)")
    spark.sql(
        f"""CREATE OR REPLACE TEMPORARY VIEW wanted AS
        SELECT id,
          CASE WHEN id BETWEEN 49990 AND 50009 THEN -1 WHEN id % 3 = 0 AND id < 27000 THEN CAST(id DIV 3 AS INT) + 1
               ELSE 0 END AS v,
          CASE WHEN id BETWEEN 49990 AND 50009 THEN NULL WHEN id % 3 = 0 AND id < 27000 THEN 'second ' || id DIV 3
               ELSE 'first' END AS s
        FROM range({COUNT})
        WHERE id BETWEEN 49990 AND 50009 OR NOT (id % 1000 = 7 OR id BETWEEN 40000 AND 50000)"""
    )
    if request.param == "found by the engine":
        size = one(spark, "SELECT sum(file_size_in_bytes) FROM `t$files`")[0]
        spark.conf.set(LOCAL, str(size * 2 // 10))  # twice as much is enough for one of three columns
    yield "t", "wanted"
    spark.conf.set(LOCAL, "0")


def test_same_rows(spark: SparkSession, merged: tuple[str, str]) -> None:
    assert f"(0 native, 2 {FILTERED}, 0 merge)" in plan_of(spark, "SELECT * FROM t")
    assert one(spark, SUMS.format("t")) == one(spark, SUMS.format("wanted"))
    assert one(spark, "SELECT count(*) FROM t") == one(spark, "SELECT count(*) FROM wanted")
    for side in ("t EXCEPT ALL SELECT * FROM wanted", "wanted EXCEPT ALL SELECT * FROM t"):
        assert spark.sql(f"SELECT * FROM {side}").isEmpty()


def test_dead_rows_are_found_once_for_each_snapshot(
    spark: SparkSession, merged: tuple[str, str], request: pytest.FixtureRequest
) -> None:
    plan = plan_of(spark, "SELECT sum(v) FROM t")
    assert "Subquery" in plan
    assert "Lambda" not in plan
    assert ("PaimonEngine" in plan) == ("engine" in request.node.callspec.id), plan
    before = one(spark, "SELECT sum(v) FROM t")
    assert "Subquery" not in plan_of(spark, "SELECT max(s) FROM t WHERE v > 3")
    spark.sql("INSERT INTO t VALUES (-1, 1000, 'new')")
    assert "Subquery" in plan_of(spark, "SELECT sum(v) FROM t")
    assert one(spark, "SELECT sum(v) FROM t")[0] == before[0] + 1000
    assert "Subquery" not in plan_of(spark, "SELECT sum(v) FROM t VERSION AS OF 4")


def test_filters_never_see_dead_rows(spark: SparkSession, merged: tuple[str, str]) -> None:
    spark.sql("INSERT INTO t SELECT id, 5, 'third' FROM range(10000, 60000)")
    assert one(spark, "SELECT count(*) FROM t WHERE id BETWEEN 30000 AND 59999 AND 1 / v > 0") == (30000,)
    assert one(spark, "SELECT count(*) FROM t WHERE v = 0 AND id BETWEEN 30000 AND 59999") == (0,)
    assert one(spark, "SELECT count(*) FROM t WHERE s = 'third' AND __paimon_bucket < 9") == (50000,)


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"},
        {"spark.sql.parquet.enableVectorizedReader": "false"},
        pytest.param({"spark.sql.adaptive.enabled": "false"}, marks=pytest.mark.slow),
        pytest.param({"spark.sql.codegen.wholeStage": "false"}, marks=pytest.mark.slow),
        pytest.param({"spark.sql.parquet.filterPushdown": "false"}, marks=pytest.mark.slow),
    ],
)
def test_ways_of_execution(spark: SparkSession, merged: tuple[str, str], settings: dict[str, str]) -> None:
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        assert one(spark, SUMS.format("t")) == one(spark, SUMS.format("wanted"))
        assert one(spark, "SELECT count(*) FROM t a JOIN t b USING (id) WHERE a.v < b.id") == one(
            spark, "SELECT count(*) FROM wanted a JOIN wanted b USING (id) WHERE a.v < b.id"
        )
    finally:
        for name in settings:
            spark.conf.unset(name)


def test_a_new_engine_finds_the_rows_of_a_planned_query(spark: SparkSession, merged: tuple[str, str]) -> None:
    planned = spark.sql(SUMS.format("t"))
    assert "superseded rows" in str(planned._jdf.queryExecution().executedPlan())
    os.kill(engine_pid(spark), signal.SIGKILL)
    spark.sql("INSERT INTO t SELECT id, 0, 'later' FROM range(5000)")
    assert tuple(planned.collect()[0]) == one(spark, SUMS.format("wanted"))


def test_a_planned_query_of_another_branch(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE t (id BIGINT, v INT, s STRING, p INT) PARTITIONED BY (p) "
        "TBLPROPERTIES ('primary-key'='p,id', 'bucket'='1', 'write-only'='true')"
    )
    spark.sql("CALL sys.create_branch('t', 'b')")
    for rows, value in ((COUNT, 0), (1000, 1)):
        spark.sql(f"INSERT INTO `t$branch_b` SELECT id, {value}, 's', 2 FROM range({rows})")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('scan.fallback-branch' = 'b')")
    size = one(spark, "SELECT sum(file_size_in_bytes) FROM `t$branch_b$files`")[0]
    spark.conf.set(LOCAL, str(size * 6 // 10))
    try:
        planned = spark.sql("SELECT count(*), sum(v) FROM t")
        assert "superseded rows" in str(planned._jdf.queryExecution().executedPlan())
        os.kill(engine_pid(spark), signal.SIGKILL)
        spark.sql("INSERT INTO `t$branch_b` SELECT id, 1, 's', 2 FROM range(5000)")
        assert tuple(planned.collect()[0]) == (COUNT, 1000)
    finally:
        spark.conf.set(LOCAL, "0")


def test_cached_and_written_elsewhere(spark: SparkSession, merged: tuple[str, str]) -> None:
    spark.sql("CREATE TABLE other TBLPROPERTIES ('bucket'='-1') AS SELECT * FROM t")
    assert one(spark, SUMS.format("other")) == one(spark, SUMS.format("wanted"))
    kept = spark.table("t").cache()
    try:
        assert kept.count() == kept.count() == one(spark, "SELECT count(*) FROM wanted")[0]
    finally:
        kept.unpersist()


def test_a_missing_file_is_named_as_workers_name_it(spark: SparkSession, merged: tuple[str, str]) -> None:
    path = one(spark, "SELECT file_path FROM `t$files` ORDER BY record_count")[0]
    Path(path).unlink()
    for sql in ("SELECT sum(v) FROM t", "SELECT v FROM t WHERE id IN (49995, 49996)"):
        with pytest.raises(PySparkException, match=r"\[FILE_MISSING\] The data file"):
            spark.sql(sql).collect()


def test_small_looks_stay_with_the_workers(spark: SparkSession, merged: tuple[str, str]) -> None:
    for sql in ("SELECT * FROM t WHERE id = 4", "SELECT * FROM t WHERE id IN (4, 5)", "SELECT * FROM t LIMIT 3"):
        assert FILTERED not in plan_of(spark, sql)
    assert spark.sql("SELECT v FROM t WHERE id IN (4, 6, 7)").count() == 2


def test_columns_added_and_renamed(spark: SparkSession, merged: tuple[str, str]) -> None:
    spark.sql("ALTER TABLE t ADD COLUMN n INT")
    spark.sql("ALTER TABLE t RENAME COLUMN v TO w")
    spark.sql("INSERT INTO t VALUES (8, 8, 'eight', 8)")
    assert FILTERED in plan_of(spark, "SELECT * FROM t")
    assert one(spark, "SELECT count(*), sum(n), sum(w) FILTER (WHERE id = 8) FROM t")[1:] == (8, 8)
    assert one(spark, "SELECT count(*) FROM t WHERE w <> 0") == one(
        spark, "SELECT count(*) FROM wanted WHERE v <> 0 OR id = 8"
    )


def test_where_rows_are(spark: SparkSession, merged: tuple[str, str]) -> None:
    places = "SELECT __paimon_file_path, __paimon_row_index, __paimon_bucket, id FROM t"
    assert FILTERED in plan_of(spark, places)
    found = spark.sql(places).toArrow()
    files = {r.file_path: r for r in spark.sql("SELECT file_path, bucket, record_count FROM `t$files`").collect()}
    assert found.num_rows == one(spark, "SELECT count(*) FROM wanted")[0]
    assert len({tuple(r.values()) for r in found.select([0, 1]).to_pylist()}) == found.num_rows
    for row in found.slice(0, 500).to_pylist():
        file = files[row["__paimon_file_path"]]
        assert 0 <= row["__paimon_row_index"] < file.record_count
        assert row["__paimon_bucket"] == file.bucket


def test_columns_with_names_of_places(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE t (id BIGINT, `__paimon_file_path` STRING, `__paimon_row_index` BIGINT) "
        "TBLPROPERTIES ('primary-key'='id', 'bucket'='1', 'write-only'='true')"
    )
    spark.sql(f"INSERT INTO t SELECT id, 'mine', 7 FROM range({COUNT})")
    spark.sql("INSERT INTO t VALUES (1, 'mine', 7)")
    assert spark.sql("SELECT DISTINCT `__paimon_file_path` FROM t").collect() == [("mine",)]
    assert spark.sql("SELECT DISTINCT `__paimon_row_index` FROM t").collect() == [(7,)]
    assert FILTERED in plan_of(spark, "SELECT id FROM t")


def test_partitions(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE t (id BIGINT, p STRING, v INT) PARTITIONED BY (p) "
        "TBLPROPERTIES ('primary-key'='id,p', 'bucket'='1', 'write-only'='true')"
    )
    spark.sql(f"INSERT INTO t SELECT id, 'p' || id % 2, 0 FROM range({2 * COUNT})")
    spark.sql("INSERT INTO t SELECT id, 'p1', 1 FROM range(1, 1001, 2)")
    assert f"(1 native, 1 {FILTERED}, 0 merge)" in plan_of(spark, "SELECT * FROM t")
    assert [tuple(r) for r in spark.sql("SELECT p, count(*), sum(v) FROM t GROUP BY p ORDER BY p").collect()] == [
        ("p0", COUNT, 0),
        ("p1", COUNT, 500),
    ]
    assert one(spark, "SELECT sum(v), min(p) FROM t WHERE p = 'p1' AND v = 1") == (500, "p1")


def test_deletion_vectors(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE t (id BIGINT, v INT) TBLPROPERTIES ('deletion-vectors.enabled'='true', 'write-only'='true')"
    )
    spark.sql(f"INSERT INTO t SELECT id, 1 FROM range({COUNT})")
    spark.sql("DELETE FROM t WHERE id % 10 = 3")
    spark.sql("UPDATE t SET v = 2 WHERE id % 10 = 4")
    plan = plan_of(spark, "SELECT * FROM t")
    assert FILTERED in plan
    assert "Subquery" not in plan
    tenth = COUNT // 10
    assert one(spark, "SELECT count(*), sum(v), sum(id % 10) FROM t") == (9 * tenth, 10 * tenth, 42 * tenth)
    spark.sql("DELETE FROM t WHERE id % 10 = 5")
    assert one(spark, "SELECT count(*), sum(v), sum(id % 10) FROM t") == (8 * tenth, 9 * tenth, 37 * tenth)


@pytest.mark.parametrize(
    "properties",
    ["", ", 'primary-key'='id', 'bucket'='2', 'deletion-vectors.mark-deletes'='true'"],
    ids=["append", "keyed"],
)
def test_changes_of_files_with_vectors(spark: SparkSession, warehouse: Path, properties: str) -> None:
    """Spark's own scan tells a statement which vector of a file it has seen."""
    spark.sql(f"CREATE TABLE t (id BIGINT, v INT) TBLPROPERTIES ('deletion-vectors.enabled'='true'{properties})")
    spark.sql(f"INSERT INTO t SELECT id, 1 FROM range({2 * COUNT})")
    spark.sql("DELETE FROM t WHERE id % 10 = 3")
    places = "SELECT DISTINCT __paimon_file_path, __paimon_deletion_vector FROM t"
    assert FILTERED in plan_of(spark, places)
    table = paimon_spark.connect(warehouse).table(f"{spark.catalog.currentDatabase()}.t").load()
    batches = pa.Table.from_batches(deletions(plan_select(table, columns=())))
    seen = batches.group_by([FILE_PATH, VECTOR]).aggregate([]).to_pylist()
    assert all(r[VECTOR] for r in seen)
    assert {(Path(r[0]).name, r[1]) for r in spark.sql(places).collect()} == {
        (Path(r[FILE_PATH]).name, r[VECTOR]) for r in seen
    }
    files = one(spark, "SELECT count(*), sum(record_count) FROM `t$files`")
    spark.sql("DELETE FROM t WHERE id % 10 = 4 OR id < 100")
    assert one(spark, "SELECT count(*), sum(record_count) FROM `t$files`") == files
    fifth = 2 * COUNT // 10
    assert one(spark, "SELECT count(*), sum(id % 10) FROM t") == (8 * fifth - 80, 38 * fifth - 380)
    spark.sql("UPDATE t SET v = 2 WHERE id % 10 = 5")
    spark.sql("MERGE INTO t USING (SELECT id FROM t WHERE id % 10 = 6) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert one(spark, "SELECT count(*), sum(v), sum(id % 10) FROM t") == (
        7 * fifth - 70,
        8 * fifth - 80,
        32 * fifth - 320,
    )


def test_vectors_beside_rows_to_merge(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE t (id BIGINT, p INT, v INT) PARTITIONED BY (p) TBLPROPERTIES ('primary-key'='id,p', 'bucket'='1', "
        "'write-only'='true', 'deletion-vectors.enabled'='true', 'deletion-vectors.merge-on-read'='true')"
    )
    spark.sql(f"INSERT INTO t SELECT id, id % 2, 0 FROM range({2 * COUNT})")
    spark.sql("CALL sys.compact('t')")
    spark.sql("INSERT INTO t SELECT id, id % 2, 1 FROM range(1000)")
    spark.sql("CALL sys.compact(table => 't', partitions => 'p=0', compact_strategy => 'minor')")
    plan = plan_of(spark, "SELECT * FROM t")
    assert f"(0 native, 2 {FILTERED}, 0 merge)" in plan
    assert "Subquery" in plan
    for _ in range(2):
        answers = spark.sql("SELECT p, count(*), sum(v) FROM t GROUP BY p ORDER BY p").collect()
        assert [tuple(r) for r in answers] == [(0, COUNT, 500), (1, COUNT, 500)]
    assert "Subquery" not in plan_of(spark, "SELECT * FROM t")


def test_tables_in_other_formats_stay_with_the_workers(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE t (id BIGINT, v INT) "
        "TBLPROPERTIES ('primary-key'='id', 'bucket'='1', 'write-only'='true', 'file.format'='orc')"
    )
    spark.sql(f"INSERT INTO t SELECT id, 1 FROM range({COUNT})")
    spark.sql("INSERT INTO t SELECT id, 2 FROM range(10)")
    assert "(0 native, 1 merge)" in plan_of(spark, "SELECT * FROM t")
    assert one(spark, "SELECT count(*), sum(v) FROM t") == (COUNT, COUNT + 10)

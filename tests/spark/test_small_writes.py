"""Statements that write few rows: the engine process writes them, with the result that workers would have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.spark.test_small_buckets import tasks_of
from tests.variants import every

LOCAL = "write.local-max-rows"
READ = "spark.paimon.read.local-max-bytes"
KINDS = {
    "fixed buckets": "'primary-key'='p,id', 'bucket'='3'",
    "dynamic buckets": "'primary-key'='p,id', 'dynamic-bucket.target-row-num'='3'",
    "cross-partition": "'primary-key'='id', 'bucket'='-1', 'dynamic-bucket.assigner-parallelism'='1'",
    "postponed": "'primary-key'='p,id', 'bucket'='-2'",
    "first row": "'primary-key'='p,id', 'bucket'='1', 'merge-engine'='first-row'",
    "lookup changelog": "'primary-key'='p,id', 'bucket'='1', 'changelog-producer'='lookup'",
    "input changelog": "'primary-key'='p,id', 'bucket'='1', 'changelog-producer'='input'",
    "aggregation": "'primary-key'='p,id', 'bucket'='1', 'merge-engine'='aggregation', "
    "'fields.v.aggregate-function'='sum'",
    "deletion vectors": "'primary-key'='p,id', 'bucket'='2', 'deletion-vectors.enabled'='true'",
    "local merge": "'primary-key'='p,id', 'bucket'='2', 'local-merge-buffer-size'='1 mb'",
    "append": "'bucket'='-1', 'compaction.min.file-num'='100'",
    "append, bucketed": "'bucket'='2', 'bucket-key'='id'",
}
ENGINES_WITHOUT_CHANGES = ("first row", "aggregation")
FILES_BY_TASK = ("append", "append, bucketed")  # how many an INSERT ... SELECT writes depends on how its tasks read


def rows(spark: SparkSession, sql: str) -> list[tuple]:
    return sorted(tuple(r) for r in spark.sql(sql).collect())


def files_of(warehouse: Path, spark: SparkSession, table: str) -> set[str]:
    root = warehouse / f"{spark.catalog.currentDatabase()}.db" / table
    return {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()}


@pytest.fixture
def jobs_of(spark: SparkSession) -> Callable[[str], int]:
    """Counts the jobs of a statement, by those of a group that have started."""
    context = spark.sparkContext
    numbers = iter(range(1 << 20))

    def count(sql: str) -> int:
        tag = f"small-{next(numbers)}-{spark.catalog.currentDatabase()}"
        context.addJobTag(tag)
        try:
            spark.sql(sql).collect()
        finally:
            context.removeJobTag(tag)
        return len(context._jsc.sc().statusTracker().getJobIdsForTag(tag))

    return count


@pytest.mark.parametrize("kind", every(3, KINDS))
def test_small_writes_equal_those_of_workers(spark: SparkSession, kind: str) -> None:
    columns = "id INT NOT NULL, v BIGINT DEFAULT 7, s STRING, p INT NOT NULL"
    for name, most in (("near", 1000), ("far", 0)):
        spark.sql(
            f"CREATE TABLE {name} ({columns}) PARTITIONED BY (p) TBLPROPERTIES ({KINDS[kind]}, '{LOCAL}'='{most}', "
            "'num-sorted-run.compaction-trigger'='3')"
        )
        spark.sql(f"INSERT INTO {name} VALUES (1, 1, 'a', 0), (2, NULL, 'b', 0), (3, 3, NULL, 1), (1, 9, 'c', 0)")
        spark.sql(f"INSERT INTO {name} (id, p) VALUES (4, 1), (5, 0)")
        for n in range(2):
            spark.sql(f"INSERT INTO {name} SELECT id, v + {n}, upper(s), p FROM {name} WHERE id < 4")
        if kind not in ENGINES_WITHOUT_CHANGES:
            spark.sql(f"UPDATE {name} SET v = v + 10, s = 'u' WHERE id = 1")
            spark.sql(f"DELETE FROM {name} WHERE id = 5")
        if kind == "cross-partition":
            spark.sql(f"INSERT INTO {name} VALUES (3, 30, 'moved', 0)")
        else:
            spark.sql(f"INSERT OVERWRITE {name} PARTITION (p = 1) (id, v, s) VALUES (8, 8, 'o')")
    if kind == "postponed":
        spark.sql("CALL sys.compact(table => 'near')")
        spark.sql("CALL sys.compact(table => 'far')")
    for of in ("", "$audit_log", "$snapshots", "$buckets"):
        shown = {
            "": "*",
            "$audit_log": "*",
            "$snapshots": "commit_kind, total_record_count, delta_record_count, changelog_record_count",
            "$buckets": f"partition, bucket, record_count, {'1' if kind in FILES_BY_TASK else 'file_count'}",
        }[of]
        assert rows(spark, f"SELECT {shown} FROM `near{of}`") == rows(spark, f"SELECT {shown} FROM `far{of}`"), of


def test_a_small_insert_starts_no_job(spark: SparkSession, jobs_of: Callable[[str], int]) -> None:
    spark.sql("CREATE TABLE t (id INT, v INT) TBLPROPERTIES ('primary-key'='id', 'bucket'='2')")
    found = [jobs_of(f"INSERT INTO t VALUES ({n}, 1), ({n + 100}, 2)") for n in range(7)]
    assert found == [0] * 7  # those of the compactions included
    assert rows(spark, "SELECT count(*), sum(v) FROM t") == [(14, 21)]


def test_a_small_update_only_reads_in_a_job(spark: SparkSession, jobs_of: Callable[[str], int]) -> None:
    spark.sql("CREATE TABLE t (id INT, v INT) TBLPROPERTIES ('primary-key'='id', 'bucket'='1')")
    spark.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    assert jobs_of("UPDATE t SET v = v + 1 WHERE id = 1") <= 1
    assert jobs_of("DELETE FROM t WHERE id = 2") <= 1
    assert rows(spark, "SELECT * FROM t") == [(1, 2)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, 1 FROM range(1001)",
        "SELECT explode(sequence(1, 1001)), 1",
        "SELECT 1, sequence(1, 100000)[5] FROM range(3)",
    ],
)
def test_workers_write_what_may_be_many(spark: SparkSession, jobs_of: Callable[[str], int], query: str) -> None:
    spark.sql("CREATE TABLE t (id BIGINT, v INT)")
    assert jobs_of(f"INSERT INTO t {query}") >= 1
    assert rows(spark, "SELECT * FROM t") == rows(spark, query)


def test_the_option_bounds_the_rows(spark: SparkSession, jobs_of: Callable[[str], int]) -> None:
    spark.sql(f"CREATE TABLE t (id INT) TBLPROPERTIES ('{LOCAL}'='2')")
    assert jobs_of("INSERT INTO t VALUES (1), (2)") == 0
    assert jobs_of("INSERT INTO t VALUES (3), (4), (5)") == 1
    spark.conf.set(f"spark.paimon.{LOCAL}", "0")
    assert jobs_of("INSERT INTO t VALUES (6)") == 1
    assert rows(spark, "SELECT count(*), sum(id) FROM t") == [(6, 21)]


def test_large_values_go_to_workers(spark: SparkSession, jobs_of: Callable[[str], int]) -> None:
    spark.sql("CREATE TABLE t (id INT, s STRING)")
    assert jobs_of("INSERT INTO t VALUES (1, repeat('x', 200000))") == 1
    assert rows(spark, "SELECT id, length(s) FROM t") == [(1, 200000)]


def test_converted_rows_sent_as_a_file(spark: SparkSession, jobs_of: Callable[[str], int]) -> None:
    spark.sql("CREATE TABLE t (id BIGINT NOT NULL, small TINYINT, price DECIMAL(7, 2), s STRING)")
    values = ", ".join(f"({n}, {n % 100}, {n}, '{'é' * (n % 50)}')" for n in range(1000))
    assert jobs_of(f"INSERT INTO t (id, small, price, s) VALUES {values}") == 0
    wanted = [(1000, sum(range(1000)), sum(n % 100 for n in range(1000)), sum(n % 50 for n in range(1000)))]
    checked = "SELECT count(*), sum(id), sum(small), sum(length(s)) FROM t WHERE price = id"
    assert rows(spark, checked) == wanted
    for value, code in {"(1, 300, 1, '')": "CAST_OVERFLOW", "(NULL, 1, 1, '')": "NOT_NULL"}.items():
        with pytest.raises(Exception, match=code):
            spark.sql(f"INSERT INTO t VALUES {values}, {value}")
    assert rows(spark, checked) == wanted
    context = spark.sparkContext
    local = context._jvm.org.apache.spark.util.Utils.getLocalDir(context._jsc.sc().conf())
    assert list(Path(local).glob("rows*.arrow")) == []


def test_all_types_are_written_alike(spark: SparkSession) -> None:
    values = (
        "true, 1S, 3, 4L, 1.5F, double('NaN'), 12345.67891, 'text', 'ab', X'0102', DATE'0024-05-14', "
        "TIMESTAMP'2024-05-14 10:20:30.123456', TIMESTAMP_NTZ'2024-05-14 10:20:30.5', array(1, NULL), map('k', 1), "
        "named_struct('p', 1, 'q', 'z')"
    )
    for name, most in (("near", 1000), ("far", 0)):
        spark.sql(
            f"CREATE TABLE {name} (b BOOLEAN, i16 SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, m DECIMAL(30, 5), "
            "s STRING, c CHAR(4), x BINARY, dt DATE, ts TIMESTAMP, nt TIMESTAMP_NTZ, a ARRAY<INT>, mp MAP<STRING, INT>, "
            f"r STRUCT<p: INT, q: STRING>) TBLPROPERTIES ('{LOCAL}'='{most}')"
        )
        spark.sql(f"INSERT INTO {name} VALUES ({values}), ({', '.join(['NULL'] * 16)})")
    near, far = (spark.sql(f"SELECT * FROM {name} ORDER BY i").collect() for name in ("near", "far"))
    assert repr(near) == repr(far)


def test_failed_small_writes_leave_nothing(spark: SparkSession, warehouse: Path) -> None:
    spark.sql("CREATE TABLE t (id INT NOT NULL, v INT) TBLPROPERTIES ('primary-key'='id', 'bucket'='4')")
    spark.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    before = files_of(warehouse, spark, "t")
    for statement, code in (
        ("INSERT INTO t SELECT if(id = 1, NULL, id), v FROM t", "NULL"),
        ("UPDATE t SET v = 1 / (id - 2)", "DIVIDE_BY_ZERO"),
    ):
        with pytest.raises(Exception, match=code):
            spark.sql(statement)
        assert files_of(warehouse, spark, "t") == before, statement
    assert rows(spark, "SELECT * FROM t") == [(1, 1), (2, 2)]


KEYED = ("fixed buckets", "dynamic buckets", "lookup changelog", "input changelog", "deletion vectors", "local merge")


@pytest.fixture
def reading(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, in which the engine process answers small reads."""
    spark.conf.set(READ, "16 mb")
    yield spark
    spark.conf.unset(READ)


@pytest.mark.parametrize("kind", every(2, KEYED))
def test_changes_of_few_rows_take_no_job(reading: SparkSession, kind: str) -> None:
    columns = "id INT NOT NULL, v BIGINT, s STRING, p INT NOT NULL"
    changes = [
        "UPDATE {t} SET v = v + 10, s = concat(s, '!') WHERE id = 7 AND p = 1",
        "DELETE FROM {t} WHERE id IN (8, 9, 5000)",
        "UPDATE {t} SET s = NULL WHERE id = 2999 AND v = 1",
        "UPDATE {t} SET v = -1 WHERE v % 1000 = 6",
    ]
    properties = KINDS[kind].replace(", 'dynamic-bucket.target-row-num'='3'", "")
    jobs = {}
    for name, most in (("near", "16 mb"), ("far", "0")):
        reading.sql(f"CREATE TABLE {name} ({columns}) PARTITIONED BY (p) TBLPROPERTIES ({properties})")
        source = "SELECT CAST(id AS INT), id * 2, concat('s', id), CAST(id % 2 AS INT) FROM range(3000)"
        reading.sql(f"INSERT INTO {name} {source}")
        reading.sql(f"INSERT INTO {name} VALUES (7, 70, 'seven', 1), (3001, 3, 'new', 0)")
        reading.conf.set(READ, most)
        before = jobs_on(reading, name)
        for sql in changes:
            reading.sql(sql.format(t=name))
        jobs[name] = jobs_on(reading, name) - before
        reading.sql(f"UPDATE {name} SET v = v + 1 WHERE id < 2500")
        assert jobs_on(reading, name) > before + jobs[name]
    assert jobs["near"] == 0
    assert jobs["far"] >= len(changes)
    near = rows(reading, "SELECT id, v, s, p FROM near")
    assert near == rows(reading, "SELECT id, v, s, p FROM far")
    assert (7, 81, "seven!", 1) in near
    assert len(near) == 2999


def jobs_on(spark: SparkSession, table: str) -> int:
    """Return how many jobs have read or written rows for a table."""
    name = f"{spark.catalog.currentDatabase()}.{table}"
    return sum(len(tasks_of(spark, f"{what} {name}")) for what in ("read rows for", "write"))


def test_changes_by_subqueries_and_random_values(reading: SparkSession) -> None:
    reading.sql("CREATE TABLE t (id INT NOT NULL, v INT) TBLPROPERTIES ('primary-key'='id', 'bucket'='1')")
    reading.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    reading.sql("UPDATE t SET v = (SELECT max(v) FROM t) + v WHERE id IN (SELECT id FROM t WHERE v < 2)")
    reading.sql("UPDATE t SET v = CAST(rand() AS INT) + 5 WHERE id = 2")
    assert rows(reading, "SELECT * FROM t") == [(1, 3), (2, 5)]


@pytest.mark.parametrize("kind", every(3, KEYED))
def test_merges_of_few_rows_take_no_writers(reading: SparkSession, kind: str) -> None:
    columns = "id INT NOT NULL, v BIGINT, s STRING, p INT NOT NULL"
    one = "(SELECT 7 AS id, 1L AS v, 'one' AS s, 1 AS p)"
    three = "(SELECT * FROM VALUES (8, 2L, 'two', 0), (9, 3L, 'three', 1), (5001, 4L, 'new', 1) AS v(id, v, s, p))"
    clauses = "WHEN MATCHED AND s.v = 3 THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    properties = KINDS[kind].replace(", 'dynamic-bucket.target-row-num'='3'", "")
    reading.sql(f"CREATE TABLE t ({columns}) PARTITIONED BY (p) TBLPROPERTIES ({properties})")
    reading.sql("INSERT INTO t SELECT CAST(id AS INT), id, 'x', CAST(id % 2 AS INT) FROM range(3000)")
    before = len(tasks_of(reading, f"write {reading.catalog.currentDatabase()}.t"))
    for source in (one, three):
        reading.sql(f"MERGE INTO t USING {source} s ON t.id = s.id AND t.p = s.p {clauses}")
    assert len(tasks_of(reading, f"write {reading.catalog.currentDatabase()}.t")) == before
    changed = rows(reading, "SELECT * FROM t WHERE s <> 'x'")
    assert changed == [(7, 1, "one", 1), (8, 2, "two", 0), (5001, 4, "new", 1)]
    assert rows(reading, "SELECT count(*) FROM t") == [(3000,)]
    twice = "(SELECT * FROM VALUES (11, 1L, 'a', 1), (11, 2L, 'b', 1) AS v(id, v, s, p))"
    with pytest.raises(PySparkException, match=r"\[MERGE_CARDINALITY_VIOLATION\]"):
        reading.sql(f"MERGE INTO t USING {twice} s ON t.id = s.id AND t.p = s.p WHEN MATCHED THEN UPDATE SET *")
    assert rows(reading, "SELECT s FROM t WHERE id = 11") == [("x",)]

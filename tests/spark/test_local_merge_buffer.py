"""`local-merge-buffer-size` in SQL: far less is shuffled, and tables read as without it."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.variants import mostly_slow

SIZE = "local-merge-buffer-size"
SUMS = "'merge-engine' = 'aggregation', 'fields.a.aggregate-function' = 'sum', 'fields.t.aggregate-function' = 'max'"
ENGINES = {
    "deduplicate": "'sequence.field' = 's'",
    "partial-update": "'merge-engine' = 'partial-update', 'fields.s.sequence-group' = 'a,t'",
    "aggregation": f"{SUMS}, 'bucket' = '-1', 'fields.c.aggregate-function' = 'collect'",
    "postponed": "'bucket' = '-2'",
}
COLUMNS = "k INT NOT NULL, p INT NOT NULL, s INT, a BIGINT, t STRING, b DECIMAL(30, 3), c ARRAY<INT>, d INT DEFAULT 7"
ROWS = """
    SELECT CAST(id % 40 AS INT) AS k, CAST(id % 2 AS INT) AS p, CAST(id * 7919 % 60013 AS INT) AS s, id AS a,
           sha2(CAST(id AS STRING), 512) AS t, CAST(id AS DECIMAL(30, 3)) / 8 AS b,
           IF(id % 9000 < 40, array(CAST(id AS INT), NULL), NULL) AS c, CAST(IF(id % 3 = 0, NULL, id) AS INT) AS d
    FROM range(0, 60000, 1, 1)
"""


def shuffled(spark: SparkSession, sql: str) -> int:
    """Return the bytes that the jobs of a statement shuffle."""
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    before = {job.jobId() for job in _jobs(context)}
    spark.sql(sql)
    context.listenerBus().waitUntilEmpty()
    stages = [job.stageIds() for job in _jobs(context) if job.jobId() not in before]
    numbers = {ids.apply(i) for ids in stages for i in range(ids.size())}
    return sum(context.statusStore().lastStageAttempt(n).shuffleWriteBytes() for n in numbers)


def _jobs(context: Any) -> list[Any]:
    jobs = context.statusStore().jobsList(None)
    return [jobs.apply(i) for i in range(jobs.size())]


@pytest.mark.parametrize("engine", mostly_slow(ENGINES, "aggregation", "postponed"))
def test_rows_are_merged_before_they_are_shuffled(engine: str, spark: SparkSession) -> None:
    options = f"'primary-key' = 'p,k', 'bucket' = '3', {ENGINES[engine]}"
    if "'bucket' = '-" in ENGINES[engine]:
        options = options.replace("'bucket' = '3', ", "")
    for name, more in (("plain", ""), ("merging", f", '{SIZE}' = '2 mb'")):
        spark.sql(f"CREATE TABLE {name} ({COLUMNS}) PARTITIONED BY (p) TBLPROPERTIES ({options}{more})")
    assert 20 * shuffled(spark, f"INSERT INTO merging {ROWS}") < shuffled(spark, f"INSERT INTO plain {ROWS}")
    for name in ("plain", "merging"):
        spark.sql(f"INSERT INTO {name} SELECT k, p, s + 1, a, upper(t), b, c, NULL FROM ({ROWS}) WHERE k < 7")
        spark.sql(f"CALL sys.compact('{name}')")
    found = spark.table("merging")
    assert found.count() == 40
    assert sorted(map(str, found.collect())) == sorted(map(str, spark.table("plain").collect()))


def test_keys_that_change_their_partition(spark: SparkSession) -> None:
    spark.sql(
        f"CREATE TABLE t (k INT, p INT, v INT) PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'k', '{SIZE}' = '1 mb')"
    )
    spark.sql("INSERT INTO t SELECT id, 0, 0 FROM range(5)")
    spark.sql("INSERT INTO t SELECT id % 3, id % 7, id FROM range(0, 30000, 1, 1)")
    expected = {(0, 29997 % 7, 29997), (1, 29998 % 7, 29998), (2, 29999 % 7, 29999), (3, 0, 0), (4, 0, 0)}
    assert set(map(tuple, spark.table("t").collect())) == expected


def test_changes_of_rows_and_options_of_statements(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (k INT, v INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '2')")
    sql = "INSERT INTO t {} SELECT id % 10, id FROM range(0, 50000, 1, 1)"
    assert 20 * shuffled(spark, sql.format(f"/*+ OPTIONS('{SIZE}' = '1 mb') */")) < shuffled(spark, sql.format(""))
    spark.conf.set(f"spark.paimon.{SIZE}", "64 kb")
    spark.sql("DELETE FROM t WHERE k = 1")
    spark.sql("UPDATE t SET v = -v WHERE k < 4")
    spark.sql(
        """MERGE INTO t USING (SELECT id AS k FROM range(3, 20000)) s ON t.k = s.k WHEN MATCHED AND s.k = 4 THEN DELETE
           WHEN MATCHED THEN UPDATE SET v = 0 WHEN NOT MATCHED AND s.k < 12 THEN INSERT (k, v) VALUES (s.k, 1)"""
    )
    expected = {0: -49990, 2: -49992, 10: 1, 11: 1} | dict.fromkeys((3, 5, 6, 7, 8, 9), 0)
    assert {r.k: r.v for r in spark.table("t").collect()} == expected


def test_contradictions_are_refused(spark: SparkSession) -> None:
    create = "CREATE TABLE {} (k INT, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', {})"
    changelog, lists = (
        "'changelog-producer' = 'input'",
        "'merge-engine' = 'aggregation', 'fields.v.aggregate-function' = 'listagg'",
    )
    with pytest.raises(Exception, match="changelog-producer' = 'input' cannot be created"):
        spark.sql(create.format("t", f"{changelog}, '{SIZE}' = '1 mb'"))
    spark.sql(create.format("t", changelog))
    with pytest.raises(Exception, match="cannot be changed to have 'local-merge-buffer-size'"):
        spark.sql(f"ALTER TABLE t SET TBLPROPERTIES ('{SIZE}' = '1 mb')")
    spark.sql(create.format("u", f"{lists}, '{SIZE}' = '16 kb'"))
    spark.sql("INSERT INTO u SELECT id % 2, CAST(id AS STRING) FROM range(0, 20000, 1, 1)")
    expected = [",".join(map(str, range(n, 20_000, 2))) for n in range(2)]
    assert [r.v for r in spark.sql("SELECT v FROM u ORDER BY k").collect()] == expected

"""Limits, first rows and aggregates that Spark gives to the scan: the answers are those of a plain Parquet copy."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf

import paimon_spark
from tests.query_results import rows
from tests.variants import mostly_slow

pytestmark = pytest.mark.spark
COLUMNS = (
    "id BIGINT NOT NULL, i INT, n SMALLINT, f DOUBLE, d DATE, ts TIMESTAMP, ntz TIMESTAMP_NTZ, m DECIMAL(9, 2), "
    "z BOOLEAN, s STRING, p STRING, q INT"
)
ROWS = """
    SELECT id, IF(r < {nulls}, null, CAST(id % 50 AS INT)), CAST(id % 7 AS SMALLINT),
           CASE id % 4 WHEN 0 THEN 0.0D WHEN 1 THEN -0.0D WHEN 2 THEN DOUBLE('NaN') ELSE CAST(id AS DOUBLE) END,
           IF(r < {nulls}, null, DATE '2024-01-01' + CAST(id % 90 AS INT)),
           IF(r < {nulls}, null, timestamp_micros(id * 1234567)), CAST(timestamp_micros(id * 7654321) AS TIMESTAMP_NTZ),
           CAST(id % 1000 AS DECIMAL(9, 2)) / 4, IF(r < {nulls}, null, id % 3 = 0), repeat(chr(97 + id % 5), id % 30),
           IF(id % 5 = 4, null, concat('p', id % 2)), CAST(id % 2 AS INT)
    FROM (SELECT id, rand({seed}) AS r FROM range({start}, {end}))
"""
KINDS = {
    "append": "",
    "vectors": "'deletion-vectors.enabled' = 'true'",
    "orc": "'file.format' = 'orc'",
    "counts": "'metadata.stats-mode' = 'counts'",
    "keyed": "'primary-key' = 'id,p,q', 'bucket' = '1'",
}
ONE_BY_ONE = [
    f"{function}({column})"
    for column in ("id", "i", "n", "f", "d", "ts", "ntz", "m", "z", "s", "p", "q")
    for function in ("count", "min", "max")
]
AGGREGATES = [
    "SELECT count(*) FROM {t}",
    "SELECT count(1), count(*) + 1, count(i) FROM {t} WHERE q = 1",
    *(f"SELECT {', '.join(ONE_BY_ONE[i : i + 3])} FROM {{t}}" for i in range(0, len(ONE_BY_ONE), 3)),
    "SELECT p, q, count(*), min(i), max(d) FROM {t} GROUP BY p, q",
    "SELECT q, max(id) AS last FROM {t} GROUP BY q HAVING max(id) > 1",
    "SELECT DISTINCT p FROM {t}",
    "SELECT count(DISTINCT p), count(DISTINCT q), min(p), max(q) FROM {t}",
    "SELECT p, count(DISTINCT q) FROM {t} WHERE p IS NOT NULL GROUP BY p",
    "SELECT count(*) FROM {t} WHERE p = 'none'",
    "SELECT p, count(*) FROM {t} WHERE q > 5 GROUP BY p",
    "SELECT count(*) FILTER (WHERE i > 3), sum(i), avg(n) FROM {t}",
    "SELECT count(*) FROM {t} WHERE i > 3",
    "SELECT (SELECT max(id) FROM {t}) - count(*) FROM {t}",
    "SELECT count(*) FROM (SELECT * FROM {t} LIMIT 5)",
]
ORDERS = (("ASC", 3), ("DESC", 2), ("ASC NULLS LAST", 4), ("DESC NULLS FIRST", 30))
FIRST = [
    f"SELECT {column} FROM {{t}} ORDER BY {column} {order} LIMIT {count}"
    for i, column in enumerate(("id", "i", "i", "f", "d", "ts", "ntz", "m", "z", "s", "p"))
    for order, count in ORDERS[i % 2 :: 2]
] + ["SELECT i, id FROM {t} WHERE q = 0 ORDER BY i DESC, id LIMIT 9"]


def made(spark: SparkSession, kind: str) -> None:
    """Create a table `t` of random files, with deleted rows and changed columns."""
    rng = random.Random(kind)
    keyed = "primary-key" in KINDS[kind]
    columns = COLUMNS.replace("p STRING, q INT", "p STRING NOT NULL, q INT NOT NULL") if keyed else COLUMNS
    properties = f"TBLPROPERTIES ({KINDS[kind]})" if KINDS[kind] else ""
    spark.sql(f"CREATE TABLE t ({columns}) PARTITIONED BY (p, q) {properties}")
    for step in range(3):
        start = rng.randrange(0, 120)
        values = ROWS.format(nulls=rng.choice([0, 0.3, 1]), seed=step, start=start, end=start + rng.choice([1, 60]))
        if keyed:
            values = values.replace("IF(id % 5 = 4, null, concat('p', id % 2))", "concat('p', id % 3)")
        spark.sql(f"INSERT INTO t (id, i, n, f, d, ts, ntz, m, z, s, p, q) {values}")
        if step == 1:
            spark.sql("DELETE FROM t WHERE id % 11 = 3 OR id = (SELECT max(id) FROM t)")
            spark.sql("ALTER TABLE t ALTER COLUMN i TYPE BIGINT")
            spark.sql("ALTER TABLE t ADD COLUMN late INT")


@pytest.fixture(params=mostly_slow(KINDS, "append", "keyed"))
def pair(spark: SparkSession, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SparkSession]:
    """A table `t`, and the same rows as Parquet files under the view `c`."""
    made(spark, request.param)
    spark.table("t").write.parquet(str(tmp_path / "copy"))
    spark.read.parquet(str(tmp_path / "copy")).createOrReplaceTempView("c")
    yield spark
    spark.sql("DROP VIEW c")


def shown(spark: SparkSession, query: str) -> list[str]:
    return sorted(map(repr, rows(spark, query)))


def explained(spark: SparkSession, query: str) -> str:
    return str(rows(spark, f"EXPLAIN {query}")[0][0])


def test_answers_are_those_of_a_copy(pair: SparkSession) -> None:
    late = ["SELECT count(late), min(late), max(late) FROM {t}", "SELECT late FROM {t} ORDER BY late LIMIT 1"]
    for query in (*AGGREGATES, *FIRST, *late):
        found, wanted = (shown(pair, query.format(t=name)) for name in ("t", "c"))
        if "(f)" in query or " f " in query:
            found, wanted = ([r.replace("-0.0", "0.0") for r in side] for side in (found, wanted))
        assert found == wanted, query


def test_explain_names_what_metadata_answers(spark: SparkSession) -> None:
    made(spark, "append")
    plan = explained(spark, "SELECT p, count(*), max(d) FROM t WHERE q = 1 GROUP BY p")
    assert "PushedAggregation=[COUNT(*), MAX(d)], PushedGroupBy=[p]" in plan
    assert "Aggregate" not in plan.replace("PushedAggregation", "")
    for read in ("max(s)", "min(f)", "count(DISTINCT i)", "sum(i)"):
        assert "PushedAggregation" not in explained(spark, f"SELECT {read} FROM t"), read
    for filtered in ("i > 3", "p = 'p0' AND id < 10"):
        assert "PushedAggregation" not in explained(spark, f"SELECT count(*) FROM t WHERE {filtered}")
    assert "PushedAggregation" in explained(spark, "SELECT count(*) FROM t VERSION AS OF 1")


def test_an_answer_takes_no_job(spark: SparkSession) -> None:
    made(spark, "append")
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("answers", "no job is expected")
    try:
        assert rows(spark, "SELECT count(*), max(id) FROM t")[0][0] > 1
        assert list(tracker.getJobIdsForGroup("answers")) == []
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)


def files_read(spark: SparkSession, query: str) -> str:
    plan = explained(spark, query)
    return plan[plan.index("files=") + 6 :].split(",")[0]


@pytest.mark.parametrize("keys", ["", "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '40')"])
def test_a_limit_and_first_rows_open_one_file_of_many(spark: SparkSession, warehouse: Path, keys: str) -> None:
    spark.sql(f"CREATE TABLE t (id BIGINT, v STRING) {keys}")
    ((database,),) = rows(spark, "SELECT current_database()")
    table = paimon_spark.connect(str(warehouse)).table(f"{database}.t", {"write-only": "true"})
    if "primary-key" in keys:
        for v in "ab":
            table.upsert(pa.table({"id": range(4000), "v": [v] * 4000}))
        assert files_read(spark, "SELECT * FROM t LIMIT 10") == "2/80"
    else:
        for start in range(0, 4000, 100):
            table.append(pa.table({"id": range(start, start + 100), "v": ["a"] * 100}))
        assert files_read(spark, "SELECT * FROM t ORDER BY id DESC LIMIT 10") == "1/40"
        assert files_read(spark, "SELECT * FROM t ORDER BY id LIMIT 150") == "2/40"
        assert files_read(spark, "SELECT * FROM t LIMIT 10") == "1/40"
        assert rows(spark, "SELECT id FROM t ORDER BY id DESC LIMIT 2") == [(3999,), (3998,)]
    assert len(rows(spark, "SELECT * FROM t LIMIT 10")) == 10
    assert len(rows(spark, "SELECT * FROM t LIMIT 3990")) == 3990


def test_other_extensions_keep_their_functions_of_changes(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", sys.executable)
    spark.sql("CREATE TABLE t (id INT) TBLPROPERTIES ('primary-key' = 'id')")
    spark.sql("INSERT INTO t VALUES (1)")
    spark.sql("INSERT INTO t VALUES (2)")
    theirs = "SELECT * FROM paimon_incremental_query('spark_catalog.default.x', '1', '2')"
    with pytest.raises(Exception, match="not in a Paimon catalog"):
        spark.sql(theirs)

    @udtf(returnType="found: string")
    class Theirs:
        def eval(self, table: str, start: str, end: str) -> Iterator[tuple[str]]:
            yield (f"{table} {start} {end}",)

    spark.udtf.register("paimon_incremental_query", Theirs)
    assert rows(spark, theirs) == [("spark_catalog.default.x 1 2",)]
    assert rows(spark, "SELECT * FROM paimon_incremental_query('t', 1, 2)") == [(2,)]

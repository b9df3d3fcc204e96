"""Small reads by the engine: the rows are those of Spark's tasks, and a query that only collects them has no job."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from tests.query_results import answers
from tests.spark.test_small_buckets import rows_and_tasks

LOCAL = "spark.paimon.read.local-max-bytes"
KEYED = "TBLPROPERTIES ('primary-key'='k', 'bucket'='2', 'write-only'='true'"
VECTORS = "TBLPROPERTIES ('primary-key'='k', 'bucket'='2', 'deletion-vectors.enabled'='true')"
ENGINES = {
    "deduplicate": f"(k INT, p INT, v STRING) {KEYED})",
    "partial-update": f"(k INT, p INT, v STRING) {KEYED}, 'merge-engine'='partial-update')",
    "aggregation": f"(k INT, p INT, v STRING) {KEYED}, 'merge-engine'='aggregation', "
    "'fields.p.aggregate-function'='sum')",
    "first-row": f"(k INT, p INT, v STRING) {KEYED}, 'merge-engine'='first-row')",
    "vectors": f"(k INT, p INT, v STRING) {VECTORS}",
    "append": "(k INT, p INT, v STRING)",
    "partitioned": "(k INT, p INT, v STRING) PARTITIONED BY (p) "
    "TBLPROPERTIES ('primary-key'='k,p', 'bucket'='1', 'write-only'='true')",
}
QUERIES = (
    "SELECT * FROM t",
    "SELECT * FROM t WHERE k = 7",
    "SELECT v, k + 1 AS n FROM t WHERE k BETWEEN 5 AND 20 AND v LIKE '%1%'",
    "SELECT count(*), sum(p), max(v) FROM t WHERE k > 3 OR p IS NULL",
    "SELECT p % 3 AS g, count(DISTINCT v) FROM t GROUP BY 1",
    "SELECT 1 FROM t WHERE p = 2",
    "SELECT a.v, b.p FROM t a JOIN t b ON a.k = b.k + 1",
    "SELECT * FROM t WHERE k > (SELECT avg(k) FROM t)",
    "SELECT k, v FROM t ORDER BY v DESC, k LIMIT 5",
    "SELECT k FROM t WHERE k < 9 UNION ALL SELECT p FROM t WHERE k = 3",
    "SELECT v FROM t WHERE k IN (1, 4, 900) AND NOT (p = 3)",
    "SELECT k FROM t VERSION AS OF 1 WHERE k < 10",
    "SELECT k FROM t WHERE k > 1000",
    "SELECT k, rowkind FROM `t$audit_log` WHERE k < 5",
    "SELECT p, count(*), sum(k), avg(k), max(v), collect_list(v) FROM (SELECT * FROM t ORDER BY k) GROUP BY p",
    "SELECT p, count(DISTINCT v), count(DISTINCT k) FROM t GROUP BY p HAVING count(*) > 2",
    "SELECT count(DISTINCT p), count(DISTINCT v), sum(k) FROM t",
    "SELECT p, v, sum(k), grouping_id() FROM t GROUP BY ROLLUP (p, v)",
    "SELECT DISTINCT p FROM t ORDER BY p LIMIT 3 OFFSET 1",
    "SELECT * FROM (SELECT k, p, rank() OVER (PARTITION BY p ORDER BY k DESC) AS r FROM t) WHERE r <= 2",
    "SELECT k, sum(k) OVER (ORDER BY k ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM t ORDER BY k DESC LIMIT 9",
    "SELECT p, percentile(k, 0.5) FROM t GROUP BY p ORDER BY p NULLS LAST",
    "SELECT a.p, a.n, b.m FROM (SELECT p, count(*) AS n FROM t GROUP BY p) a "
    "JOIN (SELECT p, max(k) AS m FROM t GROUP BY p) b ON a.p = b.p",
    "SELECT p, count(*) FROM t WHERE k < (SELECT max(k) FROM t) GROUP BY p",
    "SELECT explode(array(k, p)) FROM (SELECT k, p FROM t ORDER BY k LIMIT 4)",
    "SELECT p, n FROM (SELECT p, count(*) AS n FROM t GROUP BY p UNION ALL SELECT k, 1 FROM t WHERE k < 3)",
)
WITHOUT_COLUMNS = (
    "SELECT 1 FROM t",
    "SELECT sum(1) FROM t",
    "SELECT count(*) FROM t",
    "SELECT a.v FROM t a CROSS JOIN (SELECT 1 FROM t WHERE p = 2) b",
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM t)",
)


@pytest.fixture
def local(spark: SparkSession) -> Iterator[SparkSession]:
    """A session in which small reads are local, in the database of `spark`."""
    session = spark.newSession()
    session.sql(f"USE paimon.{spark.sql('SELECT current_database()').collect()[0][0]}")
    session.conf.unset(LOCAL)
    session.conf.set(LOCAL, "16 mb")
    return session


def plan_of(spark: SparkSession, query: str) -> str:
    return str(spark.sql(f"EXPLAIN {query}").collect()[0][0])


def in_order(rows: list[Row]) -> list[str]:
    return sorted(map(repr, rows))


@pytest.mark.parametrize("kind", ENGINES)
def test_answers_are_those_of_tasks(spark: SparkSession, local: SparkSession, kind: str) -> None:
    spark.sql(f"CREATE TABLE t {ENGINES[kind]}")
    for n in range(3):
        spark.sql(f"INSERT INTO t SELECT int(id), int(id % 5), concat('v{n}-', id) FROM range({n * 10}, 40)")
    if kind in ("deduplicate", "vectors", "append"):
        spark.sql("DELETE FROM t WHERE k % 11 = 3")
    for query in QUERIES if kind == "deduplicate" else QUERIES[:4]:
        assert ("PaimonLocalRead" in plan_of(local, query)) is ("$" not in query)
        assert in_order(local.sql(query).collect()) == in_order(spark.sql(query).collect())
    for query in WITHOUT_COLUMNS:
        assert in_order(local.sql(query).collect()) == in_order(spark.sql(query).collect())


def test_reads_of_other_columns_are_not_reused(local: SparkSession) -> None:
    local.sql("CREATE TABLE t (a INT NOT NULL, b INT NOT NULL)")
    local.sql("INSERT INTO t VALUES (1, 2), (2, 3), (3, 1)")
    halves = [f"SELECT * FROM (SELECT /*+ REPARTITION(2) */ {columns} FROM t)" for columns in ("a, b", "b, a")]
    found = local.sql(" UNION ALL ".join(halves)).collect()
    assert sorted(map(tuple, found)) == [(1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)]
    twice = [f"SELECT * FROM (SELECT /*+ REPARTITION(2) */ a + 1 FROM t WHERE b > {b})" for b in (1, 1, 2)]
    assert sorted(r[0] for r in local.sql(" UNION ALL ".join(twice)).collect()) == [2, 2, 3, 3, 3]


def filled(spark: SparkSession, properties: str = KEYED + ")", rows: int = 1000) -> None:
    spark.sql(f"CREATE TABLE t (k INT, p INT, v STRING) {properties}")
    spark.sql(f"INSERT INTO t SELECT int(id), int(id % 7), concat('v', id) FROM range({rows})")
    spark.sql(f"INSERT INTO t SELECT int(id), int(id % 7), concat('w', id) FROM range(0, {rows}, 2)")


def test_collected_rows_take_no_job(spark: SparkSession, local: SparkSession) -> None:
    filled(spark)
    for query in ("SELECT * FROM t WHERE k = 4", "SELECT v FROM t LIMIT 3", "SELECT k + 1 FROM t WHERE k < 20"):
        assert rows_and_tasks(local, query)[1] == 0
        assert rows_and_tasks(spark, query)[1] > 0


def test_operators_over_a_small_read_take_no_job(spark: SparkSession, local: SparkSession) -> None:
    filled(spark)
    for query, rows in {
        "SELECT count(*), max(v) FROM t WHERE k < 20": [(20, "w8")],
        "SELECT k, v FROM t WHERE k < 9 ORDER BY k DESC LIMIT 2": [(8, "w8"), (7, "v7")],
        "SELECT p, sum(k) FROM t WHERE k < 14 GROUP BY p ORDER BY p LIMIT 2 OFFSET 1": [(1, 9), (2, 11)],
        "SELECT k FROM (SELECT k, row_number() OVER (ORDER BY v) AS n FROM t) WHERE n = 1": [(1,)],
    }.items():
        found, tasks = rows_and_tasks(local, query)
        assert ([tuple(r) for r in found], tasks) == (rows, 0)
        assert local.sql(query).take(1) == found[:1]
        assert local.sql(query).tail(1) == found[-1:]
        assert [tuple(r) for r in local.sql(query).toLocalIterator()] == rows


def test_operators_over_a_small_read_use_the_settings(spark: SparkSession, local: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT, k STRING, s STRING)")
    spark.sql("INSERT INTO t VALUES (1, 'a', '2024-1-5'), (2, NULL, '2024-1-6')")
    for key, value, expression in (
        ("spark.sql.jsonGenerator.ignoreNullFields", "false", "to_json(struct(id, k))"),
        ("spark.sql.legacy.timeParserPolicy", "LEGACY", "try_to_timestamp(s, 'yyyy-MM-dd')"),
        ("spark.sql.mapKeyDedupPolicy", "LAST_WIN", "map(coalesce(k, 'b'), 1, 'b', 2)"),
    ):
        local.conf.set(key, value)
        query = f"SELECT id, {expression} AS c FROM t"
        assert "PaimonDriverTask" in plan_of(local, f"{query} ORDER BY id")
        assert local.sql(f"{query} ORDER BY id").collect() == sorted(local.sql(query).collect(), key=lambda r: r.id)


def test_operators_over_a_small_part_of_large_files_take_no_job(spark: SparkSession, local: SparkSession) -> None:
    spark.sql("CREATE TABLE t (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')")
    spark.sql("INSERT INTO t SELECT int(id), sha2(string(id), 512) FROM range(200000)")
    local.conf.set(LOCAL, "2 mb")
    query = "SELECT count(*), max(length(v)) FROM t WHERE k BETWEEN 100000 AND 100999"
    assert "PaimonDriverTask" in plan_of(local, query)
    found, tasks = rows_and_tasks(local, query)
    assert (tuple(found[0]), tasks) == ((1000, 128), 0)


def test_operators_over_a_larger_read_are_a_job(spark: SparkSession, local: SparkSession) -> None:
    spark.sql("CREATE TABLE t (k INT, v STRING)")
    spark.sql("INSERT INTO t SELECT int(id), sha2(string(id), 512) FROM range(200000)")
    local.conf.set(LOCAL, "64 mb")
    assert "PaimonDriverTask" in plan_of(local, "SELECT k % 2, count(*) FROM t GROUP BY 1")
    query = "SELECT k % 2, count(DISTINCT v) FROM t GROUP BY 1"
    assert "PaimonLocalRead" in plan_of(local, query)
    assert "PaimonDriverTask" not in plan_of(local, query)
    found, tasks = rows_and_tasks(local, query)
    assert sorted(map(tuple, found)) == [(0, 100_000), (1, 100_000)]
    assert tasks == 1


def test_operators_over_a_small_read_within_other_plans(spark: SparkSession, local: SparkSession) -> None:
    filled(spark)
    query = "SELECT p, count(*) AS n FROM t WHERE k < 21 GROUP BY p"
    local.sql(f"CREATE TABLE u AS {query}")
    assert sorted(map(tuple, local.table("u").collect())) == [(p, 3) for p in range(7)]
    frame = local.sql(query).cache()
    assert frame.count() == 7
    assert frame.rdd.map(lambda r: r.n).sum() == 21
    frame.unpersist()
    joined = f"SELECT count(*) FROM range(70) r JOIN ({query}) s ON r.id % 7 = s.p"
    assert local.sql(joined).collect() == [(70,)]
    again = local.sql(f"{query} ORDER BY p")
    assert again.collect() == again.collect() == [(p, 3) for p in range(7)]


def test_an_error_in_an_operator_over_a_small_read(spark: SparkSession, local: SparkSession) -> None:
    filled(spark)
    for session in (spark, local):
        with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
            session.sql("SELECT p, sum(1 / (k - 5)) FROM t GROUP BY p").collect()
        assert session.sql("SELECT max(k) FROM t WHERE v LIKE 'w%'").collect() == [(998,)]


def test_the_bound_decides(spark: SparkSession, local: SparkSession) -> None:
    filled(spark)
    assert "read by the engine" in plan_of(local, "SELECT * FROM t")
    for value, is_local in (("0", False), ("1 kb", False), ("1 gb", True)):
        local.conf.set(LOCAL, value)
        assert ("PaimonLocalRead" in plan_of(local, "SELECT * FROM t WHERE k > 3")) is is_local
    local.conf.set(LOCAL, "many")
    with pytest.raises(PySparkException, match=r"\[INVALID_OPTION\].*read.local-max-bytes' cannot be 'many'"):
        local.sql("SELECT * FROM t").collect()


def test_too_large_an_answer_is_read_by_tasks(spark: SparkSession, local: SparkSession) -> None:
    spark.sql("CREATE TABLE t (k INT, v STRING)")
    spark.sql("INSERT INTO t SELECT int(id), repeat('x', 1000) FROM range(5000)")
    local.conf.set(LOCAL, "200 kb")
    query = "SELECT k, v FROM t WHERE k >= 1000"
    assert "PaimonLocalRead" in plan_of(local, query)
    found, tasks = rows_and_tasks(local, query)
    assert (len(found), {len(r.v) for r in found}) == (4000, {1000})
    assert tasks > 0
    assert local.sql("SELECT count(*), sum(length(v)) FROM t WHERE k >= 1000").collect() == [(4000, 4000000)]
    assert [r.k for r in local.sql(f"{query} ORDER BY k DESC").take(2)] == [4999, 4998]
    assert len(local.sql(query).take(7)) == len(local.sql(query).tail(7)) == 7


def test_explain_reads_no_rows(spark: SparkSession, local: SparkSession, warehouse: Path) -> None:
    filled(spark)
    database = spark.sql("SELECT current_database()").collect()[0][0]
    for bucket in (warehouse / f"{database}.db" / "t").glob("bucket-*"):
        shutil.rmtree(bucket)
    assert "PaimonLocalRead" in plan_of(local, "SELECT * FROM t WHERE k = 3")
    with pytest.raises(PySparkException, match=r"\[FILE_MISSING\]"):
        local.sql("SELECT * FROM t WHERE k = 3").collect()


def test_some_reads_are_not_local(spark: SparkSession, local: SparkSession) -> None:
    filled(spark)
    for query in (
        "SELECT k, __paimon_file_path FROM t",
        "SELECT k, input_file_name() FROM t",
        "SELECT * FROM `t$audit_log`",
    ):
        assert "PaimonLocalRead" not in plan_of(local, query)
        assert len(local.sql(query).collect()) == 1000


def test_statements_read_locally(spark: SparkSession, local: SparkSession) -> None:
    filled(spark)
    local.sql("CREATE TABLE u AS SELECT k, v FROM t WHERE k < 10")
    local.sql("INSERT INTO u SELECT k + 100, v FROM t WHERE k = 5")
    local.sql("DELETE FROM t WHERE k = 3")
    local.sql("UPDATE t SET v = 'x' WHERE k = 4")
    local.sql(
        "MERGE INTO t USING u ON t.k = u.k WHEN MATCHED AND u.k = 6 THEN UPDATE SET v = u.k WHEN NOT MATCHED THEN "
        "INSERT (k, p, v) VALUES (u.k + 5000, 0, 'new')"
    )
    for session in (spark, local):
        assert session.sql("SELECT count(*) FROM u").collect() == [(11,)]
        assert {tuple(r) for r in session.sql("SELECT k, v FROM t WHERE k IN (3, 4, 6, 5003)").collect()} == {
            (4, "x"),
            (6, "6"),
            (5003, "new"),
        }


def test_branches_and_caches(spark: SparkSession, local: SparkSession) -> None:
    filled(spark)
    spark.sql("CALL sys.create_branch('t', 'b')")
    spark.sql("INSERT INTO `t$branch_b` VALUES (1, 1, 'branch')")
    assert [r.v for r in local.sql("SELECT v FROM `t$branch_b` WHERE k = 1").collect()] == ["branch"]
    assert [r.v for r in local.sql("SELECT v FROM t WHERE k = 1").collect()] == ["v1"]
    frame = local.sql("SELECT k, v FROM t WHERE k < 4")
    cached = frame.cache()
    assert sorted(r.k for r in cached.collect()) == [0, 1, 2, 3]
    frame.unpersist()


def test_many_threads_read_at_once(spark: SparkSession, local: SparkSession) -> None:
    filled(spark)

    def look_up(k: int) -> list[str]:
        return [r.v for r in local.sql(f"SELECT v FROM t WHERE k = {k}").collect()]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(look_up, range(24)))
    assert found == [[f"{'v' if k % 2 else 'w'}{k}"] for k in range(24)]


TYPES = {"k": "INT", "d": "DOUBLE", "s": "STRING", "n": "DECIMAL(9, 2)", "day": "DATE", "at": "TIMESTAMP", "p": "INT"}
VALUES = {
    "k": lambda rng: str(rng.randrange(-5, 410)),
    "d": lambda rng: rng.choice(("0.0D", "-0.0D", "double('NaN')", "1.5D", f"{rng.randrange(40)}.25D")),
    "s": lambda rng: f"'{rng.choice('abc')}{rng.randrange(40)}'",
    "n": lambda rng: f"{rng.randrange(40)}.{rng.randrange(100):02}",
    "day": lambda rng: f"DATE '2024-0{rng.randrange(1, 4)}-1{rng.randrange(10)}'",
    "at": lambda rng: f"TIMESTAMP '2024-01-01 00:00:{rng.randrange(60):02}.{rng.randrange(3)}'",
    "p": lambda rng: str(rng.randrange(4)),
}


def condition(rng: random.Random, depth: int = 2) -> str:
    """Return a random predicate over the columns of `TYPES`."""
    if depth and rng.random() < 0.5:
        parts = [condition(rng, depth - 1) for _ in range(2)]
        return rng.choice((f"({parts[0]} AND {parts[1]})", f"({parts[0]} OR {parts[1]})", f"NOT ({parts[0]})"))
    column = rng.choice(list(TYPES))
    value = VALUES[column]
    form = rng.randrange(6)
    if form == 0:
        return f"{column} IS {rng.choice(('', 'NOT '))}NULL"
    if form == 1:
        return f"{column} IN ({', '.join(value(rng) for _ in range(3))})"
    if form == 2:
        return f"{column} BETWEEN {value(rng)} AND {value(rng)}"
    if form == 3:
        return f"s LIKE '{rng.choice('abc')}{rng.randrange(4)}%'"
    return f"{column} {rng.choice(('=', '<', '<=', '>', '>=', '<>', '<=>'))} {value(rng)}"


@pytest.mark.parametrize(
    ("seed", "count"), [(1, 50), *(pytest.param(s, 200, marks=pytest.mark.slow) for s in range(2, 13))]
)
def test_random_filters_over_many_files(
    spark: SparkSession, local: SparkSession, tmp_path: Path, seed: int, count: int
) -> None:
    rng = random.Random(seed)
    columns = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
    groups = "'parquet.block.size'='1 kb'"  # several row groups in each file
    kind = (
        f"PARTITIONED BY (p) TBLPROPERTIES ({groups})",
        f"PARTITIONED BY (p) TBLPROPERTIES ('primary-key'='k,p', 'bucket'='2', 'write-only'='true', {groups})",
        f"TBLPROPERTIES ('primary-key'='k', 'bucket'='3', 'write-only'='true', {groups})",
    )[seed % 3]
    spark.sql(f"CREATE TABLE t ({columns}) {kind}")
    for n in range(6):
        spark.sql(f"""
            INSERT INTO t SELECT int(id), if(id % 9 = 0, double('NaN'), nullif(id % 40 + 0.25D, {n}.25D)),
                nullif(concat(substring('abc', int(1 + id % 3), 1), id % 40), 'a0'), CAST(id % 40 + 0.{n} AS DECIMAL(9, 2)),
                date_add(DATE '2024-01-10', int(id % 60)), timestamp_millis(1704067200000 + id * 100), int(id % 4)
            FROM range({n * 60}, {n * 60 + 100})""")
    copy = str(tmp_path / "copy")
    spark.sql("SELECT row_number() OVER (ORDER BY k, p, day, n) AS id, * FROM t").write.parquet(copy)
    conditions = [condition(rng) for _ in range(count)]
    local.sql("CREATE OR REPLACE TEMPORARY VIEW seen AS SELECT k AS id, * FROM t")
    local.sql(f"CREATE OR REPLACE TEMPORARY VIEW wanted AS SELECT k AS id, * EXCEPT (id) FROM parquet.`{copy}`")
    assert answers(local, "seen", conditions) == answers(local, "wanted", conditions)

"""Joins that look rows up by key in sorted buckets: the rows of Parquet files, for all kinds of joins and keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

ROWS = 60_000
KINDS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "FULL JOIN")
ORDERS = {"runs": 2, "sorted": 1, "unsorted": 0}
"""Streamed tables and how their rows come."""


@pytest.fixture
def joins(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    spark.conf.set("spark.sql.sources.v2.bucketing.enabled", "true")
    yield spark
    for name in spark.sql("SHOW VIEWS LIKE 'p_*'").collect():
        spark.catalog.dropTempView(name.viewName)


def create(spark: SparkSession, at: Path, name: str, keys: dict[str, str], options: str, *loads: str) -> None:
    """Create a table with key columns of expressions of `id` and other values; and a view of its rows in files."""
    types = ", ".join(f"{k} {spark.sql(f'SELECT {e} AS x FROM range(1)').schema[0].dataType.simpleString()}"
                      for k, e in keys.items())  # fmt: skip
    spark.sql(f"CREATE TABLE {name} ({types}, v INT, s STRING) TBLPROPERTIES ('bucket' = '3', {options})")
    columns = ", ".join([*keys.values(), "{v} AS v", "concat('text-', id % 1000) AS s"])
    for number, ids in enumerate(loads):
        spark.sql(
            f"INSERT INTO {name} SELECT {columns.format(v=f'CAST(id * {number + 1} % 9973 AS INT)')} FROM ({ids})"
        )
    spark.table(name).write.parquet(f"{at}/{name}")
    spark.read.parquet(f"{at}/{name}").createOrReplaceTempView(f"p_{name}")


def tables(spark: SparkSession, at: Path, keys: dict[str, str]) -> None:
    """`looked_up` has every second id in one run; the others all of them, see `ORDERS`, some with NULL keys."""
    names = ",".join(keys)
    own = f"'primary-key' = '{names}', 'write-only' = 'true'"
    create(spark, at, "looked_up", keys, own, f"SELECT id * 2 AS id FROM range({ROWS // 2})")
    create(spark, at, "runs", keys, own, f"SELECT id FROM range({ROWS})",
           f"SELECT id * 3 AS id FROM range({ROWS // 3}) UNION ALL SELECT id FROM range({ROWS}, {2 * ROWS})")  # fmt: skip
    create(spark, at, "sorted", keys, own, f"SELECT id + 1000 AS id FROM range({ROWS})")
    create(spark, at, "unsorted", keys, f"'bucket-key' = '{names}'",
           f"SELECT if(id % 11 = 0, NULL, id DIV 3) AS id FROM range({ROWS})")  # fmt: skip


def plan(frame: DataFrame) -> str:
    frame.collect()
    return str(frame._jdf.queryExecution().executedPlan().toString()).split("Initial Plan")[0]


def summary(spark: SparkSession, query: str) -> Any:
    """The number of rows and a sum of their hashes."""
    return spark.sql(f"SELECT count(*), sum(CAST(xxhash64(*) AS DECIMAL(38))) FROM ({query})").first()


def queries(streamed: str, keys: dict[str, str], kinds: tuple[str, ...]) -> Iterator[str]:
    on = " AND ".join(f"t.{k} = u.{k}" for k in keys)
    for kind in kinds:
        half = "t.*" if "SEMI" in kind or "ANTI" in kind else "t.*, u.v AS w, upper(u.s) AS x"
        yield f"SELECT {half} FROM {{{streamed}}} t {kind} {{looked_up}} u ON {on}"
        yield (f"SELECT {half} FROM (SELECT * FROM {{{streamed}}} WHERE v % 3 > 0) t {kind} "
               f"(SELECT *, v + 1 AS more FROM {{looked_up}} WHERE v % 5 > 0) u ON {on} AND t.v < u.more + 5000")  # fmt: skip
    if "RIGHT JOIN" in kinds:
        yield f"SELECT t.*, u.v AS w FROM {{looked_up}} t RIGHT JOIN {{{streamed}}} u ON {on}"
        yield f"SELECT count(*) FROM {{{streamed}}} t JOIN {{looked_up}} u ON {on} AND t.s = u.s"


def check(spark: SparkSession, keys: dict[str, str], kinds: tuple[str, ...]) -> None:
    names = (*ORDERS, "looked_up")
    for streamed in ORDERS:
        for query in queries(streamed, keys, kinds):
            ours = summary(spark, query.format(**{n: n for n in names}))
            assert ours == summary(spark, query.format(**{n: f"p_{n}" for n in names})), query
            assert ours[0] > 0, query


@pytest.mark.slow
@pytest.mark.parametrize("codegen", ["true", "false"])
def test_all_joins_have_the_rows_of_files(joins: SparkSession, tmp_path: Path, codegen: str) -> None:
    keys = {"k": "id"}
    tables(joins, tmp_path, keys)
    joins.conf.set("spark.sql.adaptive.enabled", codegen)
    joins.conf.set("spark.sql.codegen.wholeStage", codegen)
    check(joins, keys, KINDS)


KEYS: list[dict[str, str]] = [
    {"k": "CAST((id - 30000) / 100 AS DECIMAL(12,2))"},
    {"k": "concat('é', id % 251)", "day": "date_add(DATE'1969-12-01', CAST(id DIV 251 AS INT))"},
]
MORE_KEYS: list[dict[str, str]] = [
    {"k": "concat('key ', id * 7919)"},
    {"k": "CAST(id - 70000 AS INT)"},
    {"k": "timestamp_micros(id * 1000003 - 5000000000)"},
    {"a": "CAST(id DIV 300 - 100 AS SMALLINT)", "b": "CAST(id % 300 - 150 AS SMALLINT)"},
]


@pytest.mark.parametrize(
    "keys",
    [*KEYS, *(pytest.param(keys, marks=pytest.mark.slow) for keys in MORE_KEYS)],
    ids=lambda keys: "-".join(e.split("(")[0] for e in keys.values()),
)
def test_keys_of_all_types(joins: SparkSession, tmp_path: Path, keys: dict[str, str]) -> None:
    tables(joins, tmp_path, keys)
    check(joins, keys, ("JOIN", "LEFT JOIN"))


def test_plans(joins: SparkSession, tmp_path: Path) -> None:
    tables(joins, tmp_path, {"k": "id"})
    query = "SELECT count(*), sum(t.v * u.v) FROM {} t JOIN looked_up u ON t.k = u.k"
    for streamed, order in ORDERS.items():
        found = plan(joins.sql(query.format(streamed)))
        assert ("PaimonMergeJoin" in found, "SortMergeJoin" in found) == (True, False), found
        assert found.count("Sort [") == (order == 0), found
    ordered = joins.sql("SELECT t.k, u.v FROM runs t JOIN looked_up u ON t.k = u.k").sortWithinPartitions("k")
    per_task = [[r.k for r in task] for task in ordered.rdd.glom().collect()]
    assert all(ids == sorted(ids) for ids in per_task)
    assert "SortMergeJoin" in plan(joins.sql("SELECT * FROM runs t FULL JOIN looked_up u ON t.k = u.k"))
    joins.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
    assert "SortMergeJoin" in plan(joins.sql(query.format("sorted")))
    assert summary(joins, query.format("runs")) == summary(joins, query.format("p_runs").replace("looked", "p_looked"))


def test_three_tables(joins: SparkSession, tmp_path: Path) -> None:
    tables(joins, tmp_path, {"k": "id"})
    query = (
        "SELECT t.k, u.v AS w, s.v AS x, r.s FROM {unsorted} t JOIN {looked_up} u ON t.k = u.k "
        "LEFT JOIN {sorted} s ON t.k = s.k JOIN {runs} r ON r.k = u.k"
    )
    names = (*ORDERS, "looked_up")
    ours = joins.sql(query.format(**{n: n for n in names}))
    assert "PaimonMergeJoin" in plan(ours)
    assert summary(joins, query.format(**{n: n for n in names})) == summary(
        joins, query.format(**{n: f"p_{n}" for n in names})
    )


def test_deleted_rows_are_not_found(joins: SparkSession, tmp_path: Path) -> None:
    own = "'primary-key' = 'k', 'deletion-vectors.enabled' = 'true'"
    create(joins, tmp_path, "marked", {"k": "id"}, own, f"SELECT id FROM range({2 * ROWS})")
    create(joins, tmp_path, "unsorted", {"k": "id"}, "'bucket-key' = 'k'", f"SELECT id FROM range({ROWS})")
    joins.sql("DELETE FROM marked WHERE v % 4 = 1")
    joins.sql("SELECT count(v) FROM marked").collect()
    joins.table("marked").write.parquet(f"{tmp_path}/left")
    joins.read.parquet(f"{tmp_path}/left").createOrReplaceTempView("p_marked")
    for kind in ("JOIN", "LEFT JOIN", "LEFT ANTI JOIN"):
        query = "SELECT t.* FROM {}unsorted t " + kind + " {}marked u ON t.k = u.k"
        assert summary(joins, query.format("", "")) == summary(joins, query.format("p_", "p_")), kind


def test_looked_up_columns_may_be_of_any_kind(joins: SparkSession) -> None:
    joins.sql("CREATE TABLE u (k BIGINT, v INT, r STRUCT<a: INT, b: STRING>) TBLPROPERTIES "
              "('primary-key' = 'k', 'bucket' = '3')")  # fmt: skip
    joins.sql(f"INSERT INTO u SELECT id * 2, id, named_struct('a', id, 'b', concat('b', id)) FROM range({ROWS // 2})")
    joins.sql("CREATE TABLE t (k BIGINT) TBLPROPERTIES ('bucket-key' = 'k', 'bucket' = '3')")
    joins.sql(f"INSERT INTO t SELECT id FROM range({ROWS})")
    joins.conf.set("spark.sql.codegen.fallback", "false")
    some = joins.sql("SELECT t.k, u.r FROM t JOIN u ON t.k = u.k WHERE t.k < 5 ORDER BY t.k")
    assert [(r.k, tuple(r.r)) for r in some.collect()] == [(0, (0, "b0")), (2, (1, "b1")), (4, (2, "b2"))]
    mapped = "SELECT k, transform(array(v, 1), x -> x + 1)[0] AS m FROM u WHERE exists(array(v), x -> x % 3 = 0)"
    found = joins.sql(f"SELECT count(u.k), sum(u.m) FROM t JOIN ({mapped}) u ON t.k = u.k")
    assert "PaimonMergeJoin" in plan(found)
    ids = range(0, ROWS // 2, 3)
    assert tuple(found.first() or ()) == (len(ids), sum(ids) + len(ids))


def test_a_row_keeps_the_name_of_its_file(joins: SparkSession, tmp_path: Path) -> None:
    tables(joins, tmp_path, {"k": "id"})
    for streamed in ("runs", "sorted"):
        query = (f"SELECT count(*), count_if(own LIKE '%/{streamed}/%') FROM "
                 f"(SELECT k, input_file_name() AS own FROM {streamed}) t JOIN looked_up u ON t.k = u.k")  # fmt: skip
        every, right = joins.sql(query).first() or (0, 0)
        assert every == right > 0, streamed


def test_kept_texts_are_those_of_their_rows(joins: SparkSession, tmp_path: Path) -> None:
    """Rows of several runs look up texts with NULLs, repeated and long values, and bytes."""
    text = "CASE id % 4 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN repeat(concat('é', id % 3), 300) ELSE concat('t', id) END"
    joins.sql("CREATE TABLE u (k BIGINT, a STRING, b BINARY, c DECIMAL(38, 2), r STRUCT<x: INT, y: STRING>) "
              "TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '3')")  # fmt: skip
    joins.sql(f"INSERT INTO u SELECT id * 2, a, encode(a, 'UTF-16'), CAST(id / 7 AS DECIMAL(38, 2)), "
              f"named_struct('x', CAST(id AS INT), 'y', a) FROM (SELECT id, {text} AS a FROM range({ROWS // 2}))")  # fmt: skip
    create(joins, tmp_path, "runs", {"k": "id"}, "'primary-key' = 'k', 'write-only' = 'true'",
           f"SELECT id FROM range({ROWS})", f"SELECT id FROM range({ROWS // 2}, {2 * ROWS})")  # fmt: skip
    joins.table("u").write.parquet(f"{tmp_path}/u")
    joins.read.parquet(f"{tmp_path}/u").createOrReplaceTempView("p_u")
    query = "SELECT t.k, u.a, u.b, u.c, u.r FROM {}runs t LEFT JOIN {}u u ON t.k = u.k"
    assert "PaimonMergeJoin" in plan(joins.sql(query.format("", "")))
    assert summary(joins, query.format("", "")) == summary(joins, query.format("p_", "p_"))

"""Expressions over small reads: each execution has its own, and nulls within arrays, maps and structs are seen."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from tests.spark.test_local_read import in_order, plan_of
from tests.spark.test_local_read import local as local  # the fixture

LISTS = "CREATE TABLE t (k INT, a ARRAY<INT>, s ARRAY<STRUCT<x: INT>>)"
ROWS = "INSERT INTO t SELECT int(id), transform(sequence(id, id + 5), x -> int(x)), array(struct(5)) FROM range(5000)"
WITH_STATE = (
    "SELECT k, to_json(struct(k, a)) FROM t WHERE exists(a, e -> e = k + 3)",
    "SELECT sum(aggregate(a, 0, (x, y) -> x + y)), max(to_json(struct(k, a))) FROM t",
    "SELECT k, sum(a[0]) OVER (PARTITION BY k % 3 ORDER BY transform(a, x -> x + 1)) FROM t",
)
TWICE = """
    WITH c AS (SELECT k FROM t WHERE exists(a, e -> e = k + 3))
    SELECT count(*) FROM t WHERE k IN (SELECT k FROM c) AND k + 1 IN (SELECT k + 1 FROM c)
"""
NESTED = (
    "(i INT, l ARRAY<BIGINT>, b ARRAY<BOOLEAN>, d ARRAY<DECIMAL(30, 2)>, t ARRAY<TIMESTAMP>, m MAP<STRING, INT>, "
    "st STRUCT<x: INT, ys: ARRAY<INT>>)"
)
NULLS = """VALUES
    (1, array(1, null, 7), array(true, null), array(null, 1.5BD), array(null, TIMESTAMP '2020-01-01 00:00:00'),
        map('a', null, 'b', 2), named_struct('x', null, 'ys', array(1, null))),
    (2, array(), null, array(), null, map(), null)"""
OVER_NULLS = (
    "exists(l, e -> e > 3)",
    "filter(b, e -> e IS NULL)",
    "transform(d, e -> e + 1)",
    "transform(t, e -> date(e))",
    "hash(l, b, d, t, st)",
    "map_entries(m)",
    "transform_values(m, (k, v) -> v + 1)",
    "map_filter(m, (k, v) -> v IS NULL)",
    "transform(st.ys, y -> y + 1)",
    "zip_with(l, st.ys, (x, y) -> x + y)",
    "to_json(st)",
    "array_sort(l)",
    "collect_list(l)",
    "sum(aggregate(l, 0L, (x, y) -> x + coalesce(y, 10L)))",
)


@pytest.mark.parametrize("query", WITH_STATE)
def test_threads_share_a_frame(local: SparkSession, query: str) -> None:
    local.sql(LISTS)
    local.sql(ROWS)
    frame = local.sql(query)
    wanted = in_order(frame.collect())
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: in_order(frame.collect()), range(12)))
    assert all(rows == wanted for rows in found)


def test_subqueries_share_an_expression(local: SparkSession) -> None:
    local.sql(LISTS)
    local.sql(ROWS)
    assert {local.sql(TWICE).collect()[0][0] for _ in range(20)} == {5000}


def test_a_collected_frame_runs_in_tasks(local: SparkSession) -> None:
    local.sql(LISTS)
    local.sql(ROWS)
    frame = local.sql("SELECT k FROM t WHERE exists(s, e -> e.x = 5) AND k < 9")
    assert len(frame.collect()) == frame.rdd.count() == frame.toArrow().num_rows == 9
    joined = "WITH c AS (SELECT k FROM t WHERE exists(s, e -> e.x = 5)) SELECT 1 FROM c a JOIN c b ON a.k = b.k + 1"
    assert local.sql(joined).count() == 4999


@pytest.mark.parametrize("expression", OVER_NULLS)
def test_null_elements(spark: SparkSession, local: SparkSession, expression: str) -> None:
    spark.sql(f"CREATE TABLE t {NESTED}")
    spark.sql(f"INSERT INTO t {NULLS}")
    query = f"SELECT {expression} FROM t"
    assert "PaimonLocalRead" in plan_of(local, query) or "PaimonDriverTask" in plan_of(local, query)
    assert local.sql(query).collect() == spark.sql(query).collect()


def test_statements_whose_condition_meets_null_elements(local: SparkSession) -> None:
    local.sql(f"CREATE TABLE t {NESTED} TBLPROPERTIES ('primary-key' = 'i', 'bucket' = '1')")
    local.sql(f"INSERT INTO t {NULLS}")
    local.sql("UPDATE t SET l = array(9L) WHERE exists(l, e -> e > 3)")
    local.sql("DELETE FROM t WHERE size(map_entries(m)) = 0")
    assert local.sql("SELECT i, l FROM t").collect() == [(1, [9])]

"""Batches of Python workers go to Spark's operators as they are: what holds a value beyond its batch must copy it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

ROWS = 30_000
"""Several batches of a task."""
TYPES = {
    "n": "id",
    "small": "CAST(id % 100 AS TINYINT)",
    "text": "concat('text-', lpad(CAST(id * 7919 % 30000 AS STRING), 9, '0'))",
    "accented": "concat(repeat('a', CAST(id % 23 AS INT)), IF(id % 20000 = 19000, 'é', ''))",
    "raw": "CAST(concat('b', id % 977) AS BINARY)",
    "price": "CAST(id AS DECIMAL(30, 2)) / 8",
    "ratio": "id / 7.0D",
    "flag": "id % 3 = 0",
    "at": "timestamp_micros(id * 1000003)",
    "day": "date_add(DATE '2024-01-01', CAST(id % 366 AS INT))",
    "words": "array(CAST(id AS STRING), NULL, 'x')",
    "pairs": "map(concat('k', id % 5), id)",
    "nested": "named_struct('a', id, 'b', CAST(id AS STRING))",
}


@pytest.fixture
def tables(spark: SparkSession) -> tuple[str, str]:
    """A table that only workers can merge, and its rows as a temporary view of plain values."""
    values = ", ".join(f"IF(id % 11 = 5, NULL, {e}) AS {n}" for n, e in TYPES.items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW wanted AS SELECT id AS k, {values} FROM range({ROWS})")
    columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in spark.table("wanted").schema)
    spark.sql(
        f"CREATE TABLE t ({columns}) TBLPROPERTIES ('primary-key'='k', 'bucket'='1', 'write-only'='true', "
        "'merge-engine'='partial-update')"
    )
    for part in ("k % 2 = 0", "k % 3 = 0", "k % 3 > 0"):
        spark.sql(f"INSERT INTO t SELECT * FROM wanted WHERE {part}")
    return "t", "wanted"


QUERIES = {
    "extremes": "SELECT max(text), min(text), max(raw), min(raw), max(price), max(at), min(day), max(ratio) FROM {}",
    "of one value": "SELECT max_by(text, k), min_by(raw, k), max_by(words, k), max_by(pairs, k), max_by(nested, k) FROM {}",
    "groups": "SELECT text, count(*), max(price) FROM {} GROUP BY text ORDER BY text",
    "lengths": "SELECT length(accented), count(*), sum(length(text)), max(octet_length(accented)), "
    "max(substr(accented, -2)) FROM {} GROUP BY 1 ORDER BY 1",
    "groups of pieces": "SELECT nested.a % 7, max(nested.b), max(words[0]) FROM {} GROUP BY 1 ORDER BY 1",
    "sets": "SELECT sort_array(collect_set(raw)), size(collect_list(text)) FROM {}",
    "order": "SELECT * EXCEPT (pairs), map_entries(pairs) FROM {} ORDER BY ratio DESC NULLS LAST, k LIMIT 500",
    "windows": "SELECT k, lag(text, 5) OVER (PARTITION BY small ORDER BY k), first(raw) OVER (PARTITION BY flag "
    "ORDER BY k) FROM {} ORDER BY k",
    "joins": "SELECT a.k, b.text, b.words FROM {0} a JOIN {0} b ON a.k = b.n + 1 ORDER BY a.k",
    "filters": "SELECT k, text FROM {} WHERE flag AND text > 'text-000015' AND price IS NOT NULL ORDER BY k",
    "limit": "SELECT count(text), count(k) FROM (SELECT * FROM {} WHERE text IS NOT NULL LIMIT 17)",
}


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("codegen", ["true", pytest.param("false", marks=pytest.mark.slow)])
def test_operators_over_batches(spark: SparkSession, tables: tuple[str, str], query: str, codegen: str) -> None:
    spark.conf.set("spark.sql.codegen.wholeStage", codegen)
    if codegen == "false":
        spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    found, wanted = (spark.sql(QUERIES[query].format(name)).collect() for name in tables)
    assert found == wanted
    assert len(found) > 0


def test_batches_are_not_copied_into_rows(spark: SparkSession, tables: tuple[str, str]) -> None:
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    plan = str(spark.sql(f"EXPLAIN SELECT sum(n) FROM {tables[0]}").collect()[0][0])
    assert "PaimonMergeRead" in plan
    assert "ColumnarToRow" in plan

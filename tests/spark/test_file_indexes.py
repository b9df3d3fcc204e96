"""File indexes through SQL: queries read fewer files and find the same rows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.query_results import answers, rows

pytestmark = pytest.mark.spark

FILES = 4
INDEXES = """
    'file-index.bloom-filter.columns' = 'name, day', 'file-index.bloom-filter.name.items' = '1000',
    'file-index.bitmap.columns' = 'code, flag', 'file-index.bsi.columns' = 'number, price',
    'file-index.range-bitmap.columns' = 'ratio, moment, tag', 'metadata.stats-mode' = 'none'
"""
CONDITIONS = {
    "name = 'n5-2'": 1,
    "name IN ('n5-2', 'n6-3')": 2,
    "name = 'absent'": 0,
    "day = DATE '2024-01-03'": 1,
    "code = 21": 1,
    "code IN (21, 33) AND number = 49": 1,
    "code IN (21, 33) AND number = 41": 0,  # of which each index has rows, but none has both
    "code = 21 OR name = 'n5-3'": 2,
    "code <> 21": 4,
    "code NOT IN (21, 33)": 4,
    "code IS NULL": 4,
    "flag": 2,
    "NOT flag": 2,
    "flag IS NULL": 0,
    "number = 41": 1,
    "number < 4": 4,
    "number < 0": 0,
    "number BETWEEN 5 AND 6": 2,
    "price = 2.25": 1,
    "ratio > 300": 1,
    "ratio >= 200 AND ratio < 200.1": 1,
    "moment = TIMESTAMP '2024-01-01 00:00:02.000007'": 1,
    "tag LIKE 'x2%'": 1,
    "tag > 'x3'": 1,
    "upper(name) = 'N5-2'": 4,
}


def fill(spark: SparkSession, table: str, options: str) -> None:
    """Create a table of some files whose values are spread over all of them."""
    spark.sql(
        f"""CREATE TABLE {table} (id INT, name STRING, day DATE, code INT, flag BOOLEAN, number BIGINT,
            price DECIMAL(10, 2), ratio DOUBLE, moment TIMESTAMP, tag STRING) TBLPROPERTIES ({options})"""
    )
    for f in range(FILES):
        spark.sql(
            f"""INSERT INTO {table} SELECT CAST(id * {FILES} + {f} AS INT), concat('n', id, '-{f}'),
                date_add(DATE '2024-01-01', {f}), IF(id % 9 = 0, NULL, CAST(id % 5 * 10 + {f} AS INT)), {f} % 2 = 0,
                id * {FILES} + {f}, CAST({f} + 0.25 AS DECIMAL(10, 2)), id % 7 + 100.0D * {f},
                timestamp_micros(1704067200000000 + {f} * 1000000 + id), concat('x{f}', id)
                FROM range(0, 60, 1, 1)"""
        )


def files_read(spark: SparkSession, query: str) -> int:
    """Return how many files the plan of a query reads."""
    found = re.search(r"files=(\d+)/", str(rows(spark, f"EXPLAIN EXTENDED {query}")[0][0]))
    return int(found.group(1)) if found else 0


@pytest.mark.parametrize(
    ("threshold", "keys"),
    [
        pytest.param("0 b", "", marks=pytest.mark.slow),
        ("1 mb", ", 'primary-key' = 'id', 'bucket' = '1', 'deletion-vectors.enabled' = 'true'"),
    ],
    ids=["beside", "embedded-in-vectors"],
)
def test_queries_read_fewer_files(spark: SparkSession, threshold: str, keys: str) -> None:
    spark.sql("SET TIME ZONE 'UTC'")
    fill(spark, "plain", "'metadata.stats-mode' = 'none'")
    fill(spark, "indexed", f"{INDEXES}, 'file-index.in-manifest-threshold' = '{threshold}'{keys}")
    conditions = list(CONDITIONS)
    assert answers(spark, "indexed", conditions) == answers(spark, "plain", conditions)
    if not keys:
        read = {c: files_read(spark, f"SELECT id FROM indexed WHERE {c}") for c in CONDITIONS}
        assert read == CONDITIONS
    off = "/*+ OPTIONS('file-index.read.enabled' = 'false') */"
    query = f"SELECT count(id) FROM indexed {off} WHERE name = 'n5-2'"
    assert rows(spark, query) == [(1,)]
    assert files_read(spark, query) >= files_read(spark, query.replace(off, ""))


def test_index_files_come_and_go_with_their_data_files(spark: SparkSession, warehouse: Path) -> None:
    fill(spark, "t", f"{INDEXES}, 'file-index.in-manifest-threshold' = '0 b', 'compaction.min.file-num' = '2'")
    database = rows(spark, "SELECT current_database()")[0][0]
    bucket = warehouse / f"{database}.db" / "t" / "bucket-0"
    names = {p.name for p in bucket.iterdir()}
    assert {n for n in names if n.endswith(".index")} == {f"{n}.index" for n in names if n.endswith(".parquet")}
    spark.sql("CALL sys.compact('t')")
    spark.sql("CALL sys.expire_snapshots('t', 1)")
    left = sorted(p.name for p in bucket.iterdir())
    assert len(left) == 2
    assert left[1] == f"{left[0]}.index"
    assert not rows(spark, "SELECT id FROM t WHERE name = 'absent'")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("'file-index.bitmap.columns' = 'price'", "the index 'bitmap' does not support DECIMAL"),
        ("'file-index.bsi.columns' = 'name'", "the index 'bsi' does not support"),
        ("'file-index.bitmap.columns' = 'missing'", "The column 'missing'"),
        ("'file-index.hash.columns' = 'name'", "The kinds are bloom-filter, bitmap, bsi, range-bitmap"),
        ("'file-index.bitmap.columns' = 'code', 'file-index.bitmap.code.fpp' = '1'", "version, index-block-size"),
        ("'file-index.bitmap.name.version' = '1'", "has no index of the kind 'bitmap'"),
        ("'file-index.bloom-filter.columns' = 'name', 'file-index.bloom-filter.name.fpp' = '2'", "between 0 and 1"),
    ],
)
def test_wrong_options(spark: SparkSession, options: str, says: str) -> None:
    for statement in (
        f"CREATE TABLE t (name STRING, code INT, price DECIMAL(10, 2)) TBLPROPERTIES ({options})",
        f"ALTER TABLE u SET TBLPROPERTIES ({options})",
    ):
        spark.sql("CREATE TABLE IF NOT EXISTS u (name STRING, code INT, price DECIMAL(10, 2))")
        with pytest.raises(PySparkException) as e:
            spark.sql(statement)
        assert says in str(e.value)


def test_renamed_and_changed_columns(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (a INT, b INT, c STRING) TBLPROPERTIES ('file-index.bitmap.columns' = 'a, b, c')")
    spark.sql("INSERT INTO t VALUES (1, 1, '1'), (9, 9, '9')")
    spark.sql("ALTER TABLE t RENAME COLUMN a TO z")
    spark.sql("ALTER TABLE t ALTER COLUMN b TYPE BIGINT")
    spark.sql("INSERT INTO t VALUES (2, 2, '2'), (8, 8, '8')")
    spark.sql("ALTER TABLE t RENAME COLUMN c TO a")
    assert rows(spark, "SHOW TBLPROPERTIES t ('file-index.bitmap.columns')")[0][1].replace(" ", "") == "z,b,a"
    for condition, found in (("z = 9", [9]), ("b = 9", [9]), ("b = 8", [8]), ("a = '8'", [8]), ("z = 5", [])):
        assert rows(spark, f"SELECT z FROM t WHERE {condition}") == [(v,) for v in found]
    assert files_read(spark, "SELECT * FROM t WHERE z = 5") == 0
    assert files_read(spark, "SELECT * FROM t WHERE a = '5'") == 0

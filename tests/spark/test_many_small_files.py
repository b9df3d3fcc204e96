"""Tables of very many small files: workers read them, unless Spark's own reader can leave most of them out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from chispa import assert_df_equality
from pyspark.sql import Row, SparkSession

from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.engine.insert import write_arrow
from paimon_spark.spark.read_modes import FEWEST_ROWS, MANY_FILES
from paimon_spark.spec.identifier import Identifier

ROWS_EACH = 3
ALL = MANY_FILES * ROWS_EACH


@pytest.fixture(scope="module")
def session(spark_app: SparkSession) -> Iterator[SparkSession]:
    """A session in a database of this module's own."""
    session = spark_app.newSession()
    session.sql("CREATE DATABASE paimon.many_files")
    session.sql("USE paimon.many_files")
    yield session
    session.sql("USE spark_catalog.default")
    session.sql("DROP DATABASE paimon.many_files CASCADE")


@pytest.fixture(scope="module")
def many(session: SparkSession, warehouse: Path) -> str:
    """A table of as many partitions as make workers read it, with a file of a few rows in each."""
    session.sql("CREATE TABLE t (k BIGINT, v STRING, d DECIMAL(10, 2), p INT) PARTITIONED BY (p)")
    ids = np.arange(ALL)
    rows = pa.table(
        {
            "k": pa.array(ids),
            "v": [f"v{i}" if i % 7 else None for i in range(ALL)],
            "d": pa.array(ids).cast(pa.decimal128(21, 2)).cast(pa.decimal128(10, 2)),
            "p": pa.array(ids % MANY_FILES, pa.int32()),
        }
    )
    write_arrow(open_catalog({"warehouse": str(warehouse)}).load_table(Identifier("many_files", "t")), rows)
    return "t"


def plan_of(session: SparkSession, sql: str) -> str:
    return str(session.sql(f"EXPLAIN {sql}").collect()[0][0])


def test_workers_read_them(session: SparkSession, many: str) -> None:
    query = f"SELECT count(v), sum(k), min(v), max(d), max(p), min(p) FROM {many}"
    plan = plan_of(session, query)
    assert f"(0 native, {MANY_FILES} of small files, 0 merge)" in plan
    assert "FileScan" not in plan
    nulls = -(-ALL // 7)
    assert session.sql(query).collect() == [Row(ALL - nulls, ALL * (ALL - 1) // 2, "v1", ALL - 1, MANY_FILES - 1, 0)]
    wanted = session.createDataFrame([(k,) for k in {77, *range(5, ALL, MANY_FILES)}], "k BIGINT")
    found = session.sql(f"SELECT k FROM {many} WHERE p = 5 OR k = 77")
    assert_df_equality(found, wanted, ignore_row_order=True)


def test_few_of_them_are_left_to_the_reader_of_spark(session: SparkSession, many: str) -> None:
    assert "(7 native, 0 merge)" in plan_of(session, f"SELECT sum(k) FROM {many} WHERE p < 7")


def test_partitions_that_a_join_leaves_out_are_not_opened(session: SparkSession, many: str) -> None:
    session.sql("CREATE OR REPLACE TEMPORARY VIEW few AS SELECT CAST(id AS INT) AS p, id % 2 AS w FROM range(10)")
    session.sql("CREATE TABLE IF NOT EXISTS few_rows AS SELECT * FROM few")
    query = f"SELECT sum(k), count(*) FROM {many} JOIN few_rows USING (p) WHERE w = 1"
    plan = plan_of(session, query)
    assert "dynamicpruning" in plan
    assert "FileScan parquet" in plan
    wanted = [k for k in range(ALL) if k % MANY_FILES in range(1, 10, 2)]
    assert session.sql(query).collect() == [Row(sum(wanted), len(wanted))]


def test_their_rows_come_in_few_tasks(session: SparkSession, many: str) -> None:
    frame = session.sql(f"SELECT * FROM {many}")
    assert frame.rdd.getNumPartitions() < MANY_FILES // 50
    assert len(frame.limit(5).collect()) == 5


def test_workers_merge_them(session: SparkSession, warehouse: Path) -> None:
    session.sql("""CREATE TABLE merged (k BIGINT, v STRING, p INT) PARTITIONED BY (p)
        TBLPROPERTIES ('primary-key' = 'k,p', 'bucket' = '1', 'write-only' = 'true')""")
    table = open_catalog({"warehouse": str(warehouse)}).load_table(Identifier("many_files", "merged"))
    ids = np.arange(max(FEWEST_ROWS, ALL))
    for text in ("old", "new"):
        columns = {"k": pa.array(ids), "v": [text] * len(ids), "p": pa.array(ids % (MANY_FILES // 2), pa.int32())}
        write_arrow(table, pa.table(columns))
    query = "SELECT count(*), count(DISTINCT k), min(v), max(v) FROM merged"
    assert f"(0 native, {MANY_FILES // 2} of small files, 0 merge)" in plan_of(session, query)
    assert session.sql(query).collect() == [Row(len(ids), len(ids), "new", "new")]

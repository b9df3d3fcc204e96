"""Global indexes through SQL: queries read fewer files and find the same rows."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.query_results import rows
from tests.spark.test_file_indexes import CONDITIONS, files_read, fill
from tests.variants import mostly_slow

pytestmark = pytest.mark.spark

TRACKED = "'row-tracking.enabled' = 'true', 'metadata.stats-mode' = 'none'"
INDEXES = {
    "name": "btree",
    "day": "btree",
    "code": "bitmap",
    "flag": "bitmap",
    "number": "btree",
    "price": "btree",
    "ratio": "btree",
    "moment": "btree",
    "tag": "btree",
}


@pytest.mark.parametrize("evolving", mostly_slow(["true", "false"], "true"))
def test_queries_read_fewer_files(spark: SparkSession, evolving: str) -> None:
    spark.sql("SET TIME ZONE 'UTC'")
    fill(spark, "t", f"{TRACKED}, 'data-evolution.enabled' = '{evolving}'")
    for column, kind in INDEXES.items():
        assert rows(spark, f"CALL sys.create_global_index('t', '{column}', '{kind}')")[0][0] is True
    off = "/*+ OPTIONS('global-index.enabled' = 'false') */"
    for condition, files in CONDITIONS.items():
        query = f"SELECT id FROM t WHERE {condition} ORDER BY id"
        plain = query.replace("t WHERE", f"t {off} WHERE")
        assert rows(spark, query) == rows(spark, plain), condition
        assert files_read(spark, query) <= files_read(spark, plain)
        assert files_read(spark, query) == files, condition


def test_rows_written_later_are_read_until_they_are_indexed(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE t (id INT, v STRING, p INT) PARTITIONED BY (p) TBLPROPERTIES ({TRACKED})")
    spark.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)")
    spark.sql("CALL sys.create_global_index(table => 't', index_column => 'id', index_type => 'BTREE')")
    spark.sql("INSERT INTO t VALUES (3, 'c', 1)")
    query = "SELECT v FROM t WHERE id = 3"
    assert (files_read(spark, query), rows(spark, query)) == (1, [("c",)])
    assert files_read(spark, "SELECT v FROM t WHERE id = 1") == 2
    spark.sql("CALL sys.create_global_index('t', 'id', 'btree')")
    assert files_read(spark, "SELECT v FROM t WHERE id = 1") == 1
    listed = "SELECT index_type, row_range_start, row_range_end, index_field_name FROM `t$table_indexes` ORDER BY 2"
    assert rows(spark, listed) == [("btree", i, i, "id") for i in range(3)]
    dropped = "CALL sys.drop_global_index(table => 't', index_column => 'id', index_type => 'btree', dry_run => {})"
    assert rows(spark, dropped.format("true"))[0][:2] == (True, 3)
    assert len(rows(spark, listed)) == 3
    assert rows(spark, dropped.format("false"))[0][:2] == (True, 3)
    assert rows(spark, listed) == []
    assert rows(spark, query) == [("c",)]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("create_global_index('t', 'id', 'lumina')", "the types are 'btree', 'bitmap'"),
        ("create_global_index('t', 'missing', 'btree')", "has no column 'missing'"),
        ("create_global_index('plain', 'id', 'btree')", "does not number its rows"),
        ("drop_global_index('t', 'id', 'hash')", "the types are 'btree', 'bitmap'"),
        ("vector_search('t', 'id', '1', 3)", "only the types 'btree' and 'bitmap'"),
    ],
)
def test_wrong_arguments(spark: SparkSession, call: str, says: str) -> None:
    spark.sql(f"CREATE TABLE IF NOT EXISTS t (id INT) TBLPROPERTIES ({TRACKED})")
    spark.sql("CREATE TABLE IF NOT EXISTS plain (id INT)")
    with pytest.raises(PySparkException) as e:
        spark.sql(f"CALL sys.{call}")
    assert says in str(e.value)

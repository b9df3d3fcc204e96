"""Tables with data evolution in SQL: Paimon's sample tables read, deleted from and added to."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

SAMPLES = Path(__file__).parents[1] / "tables"


@pytest.fixture
def sample(spark: SparkSession, warehouse: Path, request: pytest.FixtureRequest) -> str:
    """The name of the sample table, in the database of the test."""
    database = spark.sql("SELECT current_database()").collect()[0][0]
    with tarfile.open(SAMPLES / f"{request.param}.tar.gz") as tar:
        tar.extractall(warehouse / f"{database}.db", filter="data")
    return f"{database}.{request.param}"


def rows(spark: SparkSession, sql: str) -> list[tuple]:
    return [tuple(r) for r in spark.sql(sql).collect()]


@pytest.mark.parametrize("sample", ["evolved_columns"], indirect=True)
def test_columns_in_several_files(spark: SparkSession, sample: str) -> None:
    names = [(1, "uno"), (2, "dos"), (3, "tres"), (6, "six"), (5000000000, "four"), (6000000000, "five")]
    assert rows(spark, f"SELECT id, name FROM {sample} ORDER BY id") == names
    assert rows(spark, f"SELECT id FROM {sample} WHERE name = 'dos' AND price > 15") == [(2,)]
    assert rows(spark, f"SELECT count(*) FROM {sample}") == [(6,)]
    assert rows(spark, f"SELECT name FROM {sample} VERSION AS OF 3 WHERE id = 1") == [("ONE",)]
    ids = "SELECT name, _ROW_ID, _SEQUENCE_NUMBER FROM {} WHERE _ROW_ID BETWEEN 2 AND 3 ORDER BY _ROW_ID"
    assert rows(spark, ids.format(sample)) == [("tres", 2, 5), ("four", 3, 7)]
    database, table = sample.split(".")
    assert rows(spark, ids.format(f"{database}.`{table}$row_tracking`")) == [("tres", 2, 5), ("four", 3, 7)]
    assert rows(spark, f"SELECT count(*) FROM {database}.`{table}$files`") == [(7,)]
    spark.sql(f"INSERT INTO {sample} VALUES (7, 'seven', 7, null)")
    assert rows(spark, f"SELECT name, _ROW_ID FROM {sample} WHERE id = 7") == [("seven", 6)]
    for statement in (f"UPDATE {sample} SET name = 'x'", f"DELETE FROM {sample} WHERE id = 1"):
        with pytest.raises(Exception, match=r"data-evolution\.enabled"):
            spark.sql(statement)
    with pytest.raises(Exception, match=r"data-evolution\.enabled"):
        spark.sql(f"CALL sys.compact(table => '{sample}')")
    assert rows(spark, f"SELECT count(*) FROM {sample}") == [(7,)]


def test_rows_are_marked_as_deleted(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE t (id INT, v STRING) TBLPROPERTIES ('row-tracking.enabled'='true', "
        "'data-evolution.enabled'='true', 'deletion-vectors.enabled'='true')"
    )
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    spark.sql("DELETE FROM t WHERE id = 2")
    assert rows(spark, "SELECT id, _ROW_ID FROM t ORDER BY id") == [(1, 0), (3, 2)]
    assert rows(spark, "SELECT count(*) FROM t") == [(2,)]

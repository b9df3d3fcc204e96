"""Tables with data evolution in SQL: Paimon's sample tables read, deleted from and added to."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.query_results import rows

SAMPLES = Path(__file__).parents[1] / "tables"


@pytest.fixture
def sample(spark: SparkSession, warehouse: Path, request: pytest.FixtureRequest) -> str:
    """The name of the sample table, in the database of the test."""
    database = spark.sql("SELECT current_database()").collect()[0][0]
    with tarfile.open(SAMPLES / f"{request.param}.tar.gz") as tar:
        tar.extractall(warehouse / f"{database}.db", filter="data")
    return f"{database}.{request.param}"


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


def test_blobs_are_binary(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE t (id INT, image BINARY, v STRING) TBLPROPERTIES ('row-tracking.enabled'='true', "
        "'data-evolution.enabled'='true', 'blob-field'='image')"
    )
    spark.sql("INSERT INTO t VALUES (1, X'00FF', 'a'), (2, NULL, 'b'), (3, X'', 'c')")
    spark.sql("INSERT INTO t SELECT id + 3, image, upper(v) FROM t")
    expected = [
        (1, b"\x00\xff", "a"),
        (2, None, "b"),
        (3, b"", "c"),
        (4, b"\x00\xff", "A"),
        (5, None, "B"),
        (6, b"", "C"),
    ]
    assert rows(spark, "SELECT * FROM t ORDER BY id") == expected
    assert rows(spark, "SELECT v FROM t WHERE image = X'00FF' ORDER BY id") == [("a",), ("A",)]
    assert rows(spark, "SELECT count(*), count(image) FROM t") == [(6, 4)]
    stored = "SELECT count(*) FROM `t$files` WHERE file_path LIKE '%.blob'"
    assert rows(spark, stored)[0][0] >= 2
    assert "BLOB" in rows(spark, "SELECT fields FROM `t$schemas`")[0][0]
    spark.conf.set("spark.paimon.blob-as-descriptor", "true")
    try:
        assert rows(spark, "SELECT hex(image) LIKE '0243534544424F4C42%' FROM t WHERE id = 1") == [(True,)]
    finally:
        spark.conf.unset("spark.paimon.blob-as-descriptor")


@pytest.mark.parametrize("sample", ["evolved_blobs"], indirect=True)
def test_blobs_of_paimon(spark: SparkSession, sample: str) -> None:
    found = rows(spark, f"SELECT id, length(image), text FROM {sample} ORDER BY id")
    assert found[:4] == [(1, 1, "A"), (2, 2, None), (3, None, "C"), (4, 3000, "D")]

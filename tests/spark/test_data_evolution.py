"""Tables with data evolution in SQL: Paimon's sample tables read, deleted from and added to."""

from __future__ import annotations

import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

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
    with pytest.raises(Exception, match=r"data-evolution\.enabled"):
        spark.sql(f"DELETE FROM {sample} WHERE id = 1")
    spark.sql(f"UPDATE {sample} SET name = upper(name), price = price + 1 WHERE id IN (2, 7)")
    found = rows(spark, f"SELECT id, name, price, _ROW_ID FROM {sample} WHERE id IN (1, 2, 7) ORDER BY id")
    assert [(i, n, r) for i, n, _, r in found] == [(1, "uno", 0), (2, "DOS", 1), (7, "SEVEN", 6)]
    before = rows(spark, f"SELECT *, _ROW_ID FROM {sample} ORDER BY id")
    (done,) = spark.sql(f"CALL sys.compact(table => '{sample}')").collect()
    assert (done["status"], done["files_out"]) == ("done", 1)
    assert rows(spark, f"SELECT *, _ROW_ID FROM {sample} ORDER BY id") == before
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


EVOLVING = "'row-tracking.enabled'='true', 'data-evolution.enabled'='true'"


def held(spark: SparkSession, table: str = "t") -> list[tuple[Any, ...]]:
    """The files of a table by the columns that they hold: the number of each."""
    return rows(
        spark, f"SELECT array_join(write_cols, ','), count(*) FROM `{table}$files` GROUP BY ALL ORDER BY 1 NULLS FIRST"
    )


def test_update_writes_only_changed_columns(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE t (id INT, v STRING, n INT NOT NULL, c CHAR(3)) TBLPROPERTIES ({EVOLVING})")
    spark.sql("INSERT INTO t VALUES (1, 'a', 10, 'x'), (2, 'b', 20, 'y')")
    spark.sql("INSERT INTO t VALUES (3, 'c', 30, 'z')")
    spark.sql("UPDATE t SET v = concat(v, c), n = n + 1 WHERE id IN (SELECT max(id) - 1 FROM t)")
    expected = [(1, "a", 10, "x  ", 0), (2, "by  ", 21, "y  ", 1), (3, "c", 30, "z  ", 2)]
    assert rows(spark, "SELECT *, _ROW_ID FROM t ORDER BY id") == expected
    assert held(spark) == [(None, 2), ("v,n", 1)]
    spark.sql("UPDATE t SET c = NULL")
    assert rows(spark, "SELECT c, v FROM t ORDER BY id") == [(None, "a"), (None, "by  "), (None, "c")]
    assert held(spark) == [(None, 2), ("c", 2), ("v,n", 1)]
    spark.sql("UPDATE t SET v = 'x' WHERE id > 5")
    assert rows(spark, "SELECT operation FROM `t$snapshots` ORDER BY snapshot_id DESC LIMIT 1") == [("UPDATE",)]
    with pytest.raises(Exception, match=r"INVALID_ARGUMENT.*UPDATE cannot set _ROW_ID"):
        spark.sql("UPDATE t SET _ROW_ID = 7, v = 'x' WHERE id = 1")
    with pytest.raises(Exception, match="NOT_NULL"):
        spark.sql("UPDATE t SET n = NULL WHERE id = 1")


def test_merge_of_all_clauses(spark: SparkSession) -> None:
    marks = "'deletion-vectors.enabled'='true'"
    spark.sql(f"CREATE TABLE t (id INT, v STRING, n INT, p INT) PARTITIONED BY (p) TBLPROPERTIES ({EVOLVING}, {marks})")
    spark.sql("INSERT INTO t SELECT id, concat('v', id), id, id % 2 FROM range(8)")
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW s AS SELECT * FROM VALUES (0, 'A'), (1, 'B'), (2, 'C'), (9, 'N') s(id, v)"
    )
    merge = (
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND s.v = 'C' THEN DELETE "
        "WHEN MATCHED AND s.v = 'B' THEN UPDATE SET n = t.n + 100 WHEN MATCHED THEN UPDATE SET v = s.v "
        "WHEN NOT MATCHED THEN INSERT (id, v, p) VALUES (s.id, s.v, 1) "
        "WHEN NOT MATCHED BY SOURCE AND t.id > 5 THEN UPDATE SET n = -t.id"
    )
    ids = dict(rows(spark, "SELECT id, _ROW_ID FROM t"))
    spark.sql(merge)
    expected = [
        (0, "A", 0, 0),
        (1, "v1", 101, 1),
        (3, "v3", 3, 1),
        (4, "v4", 4, 0),
        (5, "v5", 5, 1),
        (6, "v6", -6, 0),
        (7, "v7", -7, 1),
        (9, "N", None, 1),
    ]
    assert rows(spark, "SELECT * FROM t ORDER BY id") == expected
    after = dict(rows(spark, "SELECT id, _ROW_ID FROM t"))
    assert after.pop(9) == 8
    assert all(ids[i] == r for i, r in after.items())
    with pytest.raises(Exception, match="partition column 'p'"):
        spark.sql("UPDATE t SET p = 5 WHERE id = 1")
    same = "MERGE INTO t USING (SELECT * FROM t WHERE id = 3) s ON t.id = s.id AND t.p = s.p WHEN MATCHED THEN UPDATE SET *"
    spark.sql(same)
    with pytest.raises(Exception, match="MERGE_CARDINALITY_VIOLATION"):
        spark.sql(
            "MERGE INTO t USING (SELECT 1 AS id FROM range(2)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = 0"
        )
    assert rows(spark, "SELECT * FROM t ORDER BY id") == expected


def test_new_blobs_refer_to_older_files(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE t (id INT, image BINARY, v STRING) TBLPROPERTIES ({EVOLVING}, 'blob-field'='image')")
    spark.sql("INSERT INTO t VALUES (1, X'00FF', 'a'), (2, NULL, 'b'), (3, X'33', 'c')")
    spark.sql("UPDATE t SET image = X'22' WHERE id = 2")
    spark.sql("UPDATE t SET image = NULL, v = 'C' WHERE id = 3")
    assert rows(spark, "SELECT * FROM t ORDER BY id") == [(1, b"\x00\xff", "a"), (2, b"\x22", "b"), (3, None, "C")]
    assert held(spark) == [("id,v", 1), ("image", 3), ("v", 1)]


def test_updates_of_one_column_at_a_time_run_again(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE t (id INT, n INT) TBLPROPERTIES ({EVOLVING})")
    spark.sql("INSERT INTO t SELECT /*+ COALESCE(1) */ id, 0 FROM range(4)")
    with ThreadPoolExecutor(2) as pool:
        statements = [f"UPDATE t SET n = n + {10**i} WHERE id >= {i}" for i in range(3)]
        for done in [pool.submit(spark.sql, s) for s in statements]:
            done.result()
    assert rows(spark, "SELECT id, n FROM t ORDER BY id") == [(0, 1), (1, 11), (2, 111), (3, 111)]


def test_columns_are_merged_by_the_procedure(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE t (id INT, v STRING, p INT) PARTITIONED BY (p) TBLPROPERTIES ({EVOLVING})")
    spark.sql("INSERT INTO t VALUES (1, 'a', 0), (2, 'b', 1)")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW s AS SELECT 2 AS id, 'B' AS v")
    call = "CALL sys.data_evolution_merge_into(target_table => 't', source_table => 's', merge_condition => '{}', "
    call += "matched_update_set => '{}')"
    with pytest.raises(Exception, match=r"sets p, by which table .* is partitioned"):
        spark.sql(call.format("t.id = s.id", "p = 5"))
    with pytest.raises(Exception, match="names the column 'x'"):
        spark.sql(call.format("t.id = s.id", "x = 5"))
    (nothing,) = spark.sql(call.format("t.id = s.id + 7", "*")).collect()
    assert (nothing["result"], nothing["status"]) == ("Success", "nothing to do")
    (done,) = spark.sql(call.format("t.id = s.id", "*")).collect()
    assert (done["status"], done["files_out"], done["snapshot_after"]) == ("done", 1, 2)
    assert rows(spark, "SELECT * FROM t ORDER BY id") == [(1, "a", 0), (2, "B", 1)]
    spark.sql("CREATE TABLE plain (id INT, v STRING)")
    with pytest.raises(Exception, match=r"no 'data-evolution\.enabled' = 'true'"):
        spark.sql(call.format("t.id = s.id", "*").replace("'t'", "'plain'"))

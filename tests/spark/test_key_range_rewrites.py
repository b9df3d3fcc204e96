"""DELETE, UPDATE and MERGE in SQL where the merge engine has no rows for them: key ranges are rewritten."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

KEYED = "'primary-key'='id', 'bucket'='2', 'merge-engine'="
SUMS = f"{KEYED}'aggregation', 'fields.n.aggregate-function'='sum', 'fields.w.aggregate-function'='listagg'"
PARTIAL = f"{KEYED}'partial-update'"

INTERFERENCE = """
import sys, pyarrow as pa, paimon_spark
row = {"id": pa.array([2], pa.int32()), "n": pa.array([40], pa.int32()), "w": pa.array(["c"])}
paimon_spark.connect(sys.argv[1]).table(sys.argv[2]).append(pa.table(row))
"""


def create(spark: SparkSession, properties: str, columns: str = "id INT, n INT, w STRING", name: str = "t") -> None:
    spark.sql(f"CREATE TABLE {name} ({columns}) TBLPROPERTIES ({properties})")


def rows(spark: SparkSession, query: str = "SELECT * FROM t") -> list[tuple]:
    return sorted(tuple(r) for r in spark.sql(query).collect())


def last_snapshot(spark: SparkSession) -> tuple[str, str]:
    query = "SELECT commit_kind, operation FROM `t$snapshots` ORDER BY snapshot_id DESC LIMIT 1"
    return tuple(spark.sql(query).first())


def test_aggregation(spark: SparkSession) -> None:
    create(spark, SUMS)
    spark.sql("INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c'), (4, 4, 'd')")
    spark.sql("INSERT INTO t VALUES (1, 10, 'x'), (2, 20, 'y'), (3, 30, 'z')")
    spark.sql("DELETE FROM t WHERE n = 22")
    assert last_snapshot(spark) == ("OVERWRITE", "DELETE")
    spark.sql("UPDATE t SET n = 5, w = NULL WHERE id IN (1, 2)")
    assert rows(spark) == [(1, 5, None), (3, 33, "c,z"), (4, 4, "d")]
    spark.sql("INSERT INTO t VALUES (1, 1, 'e'), (2, 1, 'f')")
    spark.sql(
        """MERGE INTO t USING (SELECT * FROM VALUES (1, 100), (3, 0), (9, 90), (9, 9) AS v (id, n)) s ON t.id = s.id
           WHEN MATCHED AND s.n = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET n = s.n
           WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, s.n)
           WHEN NOT MATCHED BY SOURCE AND t.id = 4 THEN UPDATE SET w = 'left'"""
    )
    expected = [(1, 100, "e"), (2, 1, "f"), (4, 4, "left"), (9, 99, None)]
    assert rows(spark) == expected
    spark.sql("CALL sys.compact('t')")
    assert rows(spark) == expected
    plan = spark.sql("EXPLAIN UPDATE t SET n = 0 WHERE id = 1").first()[0]
    assert "rewrites the files of these rows" in plan


def test_partial_update_with_a_changelog(spark: SparkSession) -> None:
    create(spark, f"{PARTIAL}, 'changelog-producer'='lookup'")
    spark.sql("INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, NULL)")
    spark.sql("INSERT INTO t (id, w) VALUES (1, 'x'), (3, 'z')")
    spark.sql("UPDATE t SET n = NULL WHERE id = 1")
    spark.sql("UPDATE t SET n = nullif(n, 3) WHERE id > 1")
    spark.sql(
        """MERGE INTO t USING (SELECT * FROM VALUES (1, 10), (2, NULL), (7, 7) AS v (id, n)) s ON t.id = s.id
           WHEN MATCHED AND s.id = 2 THEN DELETE WHEN MATCHED THEN UPDATE SET n = s.n, w = NULL
           WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, s.n)"""
    )
    assert rows(spark) == [(1, 10, "x"), (3, None, "z"), (7, 7, None)]
    spark.sql("INSERT INTO t (id, w) VALUES (2, 'new')")
    assert rows(spark, "SELECT * FROM t WHERE id = 2") == [(2, None, "new")]
    spark.sql("DELETE FROM t WHERE id = 7")
    last = spark.sql("SELECT max(snapshot_id) FROM `t$snapshots`").first()[0]
    changes = f"SELECT rowkind, id, n FROM `t$audit_log` WITH ('incremental-between' = '{last - 1},{last}')"
    assert rows(spark, changes) == [("-D", 7, 7)]


def test_first_row_in_partitions(spark: SparkSession) -> None:
    spark.sql(
        """CREATE TABLE t (id INT, n INT, day STRING) PARTITIONED BY (day)
           TBLPROPERTIES ('primary-key'='id,day', 'bucket'='-1', 'merge-engine'='first-row')"""
    )
    spark.sql("INSERT INTO t VALUES (1, 1, 'mon'), (2, 2, 'mon'), (1, 3, 'tue'), (2, 4, 'tue')")
    spark.sql("DELETE FROM t WHERE n IN (1, 4)")
    spark.sql("UPDATE t SET n = n + 10 WHERE id = 2")
    spark.sql("INSERT INTO t VALUES (1, 7, 'mon'), (2, 8, 'mon'), (1, 9, 'tue')")
    assert rows(spark) == [(1, 3, "tue"), (1, 7, "mon"), (2, 12, "mon")]
    spark.sql(
        """MERGE INTO t USING (SELECT * FROM VALUES (1, 'mon', 5), (5, 'wed', 6) AS v (id, day, n)) s
           ON t.id = s.id AND t.day = s.day
           WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT *"""
    )
    assert rows(spark) == [(1, 3, "tue"), (1, 5, "mon"), (2, 12, "mon"), (5, 6, "wed")]


def test_keys_across_partitions(spark: SparkSession) -> None:
    spark.sql(
        """CREATE TABLE t (id INT, n INT, day STRING) PARTITIONED BY (day)
           TBLPROPERTIES ('primary-key'='id', 'merge-engine'='aggregation', 'fields.n.aggregate-function'='sum')"""
    )
    spark.sql("INSERT INTO t VALUES (1, 1, 'mon'), (2, 2, 'mon'), (3, 3, 'tue')")
    spark.sql("INSERT INTO t VALUES (1, 1, 'tue')")
    with pytest.raises(Exception, match="cannot move to another partition"):
        spark.sql("UPDATE t SET day = 'wed' WHERE id = 1")
    spark.sql(
        """MERGE INTO t USING (SELECT * FROM VALUES (1, 9), (2, 0), (4, 4) AS v (id, n)) s ON t.id = s.id
           WHEN MATCHED AND s.n = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET n = s.n
           WHEN NOT MATCHED THEN INSERT (id, n, day) VALUES (s.id, s.n, 'wed')"""
    )
    spark.sql("INSERT INTO t VALUES (2, 5, 'tue'), (4, 1, 'mon')")
    assert rows(spark) == [(1, 9, "mon"), (2, 5, "tue"), (3, 3, "tue"), (4, 5, "wed")]


def test_postponed_rows_come_first(spark: SparkSession) -> None:
    create(spark, SUMS.replace("'bucket'='2'", "'bucket'='-2', 'postpone.batch-write-fixed-bucket'='false'"))
    spark.sql("INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')")
    with pytest.raises(Exception, match=r"postponed rows, which are in no bucket. Call sys.compact first"):
        spark.sql("DELETE FROM t WHERE id = 1")
    spark.sql(  # adds rows only, which rewrites nothing
        """MERGE INTO t USING (SELECT 3 AS id, 3 AS n, 'c' AS w) s ON t.id = s.id
           WHEN NOT MATCHED THEN INSERT (id, n, w) VALUES (s.id, s.n, s.w)"""
    )
    spark.sql("CALL sys.compact('t')")
    spark.sql("DELETE FROM t WHERE id = 1")
    assert rows(spark) == [(2, 2, "b"), (3, 3, "c")]


def test_branch(spark: SparkSession) -> None:
    create(spark, SUMS)
    spark.sql("INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')")
    spark.sql("CALL sys.create_branch('t', 'b')")
    spark.sql("INSERT INTO `t$branch_b` VALUES (1, 1, 'a'), (2, 2, 'b')")
    spark.sql("DELETE FROM `t$branch_b` WHERE id = 1")
    assert rows(spark, "SELECT * FROM `t$branch_b`") == [(2, 2, "b")]
    assert rows(spark) == [(1, 1, "a"), (2, 2, "b")]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE t SET n = 1 / (n - 2) WHERE id > 0",
        "UPDATE t SET id = 9 WHERE id = 1",
        """MERGE INTO t USING (SELECT * FROM VALUES (1), (1) AS v (id)) s ON t.id = s.id
           WHEN MATCHED THEN UPDATE SET n = 0""",
    ],
)
def test_a_failed_statement_changes_nothing(spark: SparkSession, statement: str) -> None:
    create(spark, SUMS)
    spark.sql("INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')")
    before = _state(spark)
    with pytest.raises(Exception, match=r"DIVIDE_BY_ZERO|cannot change the primary key|MERGE_CARDINALITY_VIOLATION"):
        spark.sql(statement)
    assert _state(spark) == before


def test_a_conflict_makes_the_statement_run_again(spark: SparkSession, tmp_path: Path) -> None:
    create(spark, SUMS.replace("'bucket'='2'", "'bucket'='1'"))
    spark.sql("INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')")
    place = spark.sql("SELECT input_file FROM (SELECT __paimon_file_path AS input_file FROM t) LIMIT 1").first()[0]
    warehouse, _, _ = place.rpartition(".db/")
    root, _, database = warehouse.rpartition("/")
    done = tmp_path / "done"
    program = [sys.executable, "-c", INTERFERENCE, root, f"{database}.t"]

    def interfering(n: int) -> bool:
        if not done.exists():
            done.touch()
            subprocess.run(program, check=True, capture_output=True)
        return n > 1

    spark.udf.register("interfering", interfering, "boolean")
    spark.sql("UPDATE t SET n = n + 100 WHERE interfering(n)")
    assert done.exists()
    assert rows(spark) == [(1, 1, "a"), (2, 142, "b,c")]


def _state(spark: SparkSession) -> Sequence[object]:
    return rows(spark), rows(spark, "SELECT snapshot_id FROM `t$snapshots`")

"""The merge engines partial-update, aggregation and first-row in SQL, and the examples of their page."""

from __future__ import annotations

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession

from tests.spark.page_examples import run_examples

PARTIAL = "'primary-key'='id', 'bucket'='1', 'merge-engine'='partial-update'"
SUMS = "'primary-key'='id', 'bucket'='1', 'merge-engine'='aggregation', 'fields.n.aggregate-function'='sum'"


def check(spark: SparkSession, sql: str, rows: list[tuple], columns: str) -> None:
    assert_df_equality(
        spark.sql(sql), spark.createDataFrame(rows, columns), ignore_row_order=True, ignore_nullable=True
    )


def refused(spark: SparkSession, sql: str, said: str) -> None:
    with pytest.raises(Exception, match=said):
        spark.sql(sql)


def test_examples_of_the_page(spark: SparkSession) -> None:
    assert run_examples(spark, "merge-engines.md") == 7
    spark.sql("DELETE FROM customers")
    assert spark.table("customers").isEmpty()


def test_partial_updates_over_time(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE t (id INT, a INT, b STRING, c ARRAY<INT>) TBLPROPERTIES ({PARTIAL})")
    spark.sql("INSERT INTO t VALUES (1, 1, NULL, array(1)), (2, 2, 'b', NULL), (3, NULL, NULL, NULL)")
    spark.sql("INSERT INTO t (id, b) VALUES (1, 'x'), (3, 'z')")
    before = [(1, 1, "x", [1]), (2, 2, "b", None), (3, None, "z", None)]
    check(spark, "SELECT * FROM t", before, "id INT, a INT, b STRING, c ARRAY<INT>")
    spark.sql("CALL sys.compact('t')")
    spark.sql("INSERT INTO t (id, a, c) VALUES (1, 10, NULL), (4, 4, array(4))")
    spark.sql("UPDATE t SET a = a + 1, b = upper(b) WHERE a >= 2 AND id < 4")
    spark.sql(
        """MERGE INTO t USING (SELECT * FROM VALUES (3, CAST(NULL AS INT), 'm'), (5, 5, NULL) AS v (id, a, b)) s
           ON t.id = s.id
           WHEN MATCHED THEN UPDATE SET a = s.a, b = s.b WHEN NOT MATCHED THEN INSERT (id, a, b) VALUES (s.id, s.a, s.b)
           WHEN NOT MATCHED BY SOURCE AND t.id = 4 THEN UPDATE SET a = 40"""
    )
    after = [(1, 11, "X", [1]), (2, 3, "B", None), (3, None, "m", None), (4, 40, None, [4]), (5, 5, None, None)]
    for compacted in (False, True):
        if compacted:
            spark.sql("CALL sys.compact('t')")
        check(spark, "SELECT * FROM t", after, "id INT, a INT, b STRING, c ARRAY<INT>")
        check(spark, "SELECT b FROM t", [(r[2],) for r in after], "b STRING")
        check(spark, "SELECT c FROM t WHERE a = 11", [([1],)], "c ARRAY<INT>")
        check(spark, "SELECT id FROM t WHERE a IN (1, 2, 10)", [], "id INT")
        check(spark, "SELECT id FROM t WHERE b IS NULL", [(4,), (5,)], "id INT")
        check(spark, "SELECT count(*) AS n, sum(a) AS s FROM t", [(5, 59)], "n LONG, s LONG")
        check(spark, "SELECT * FROM t VERSION AS OF 2", before, "id INT, a INT, b STRING, c ARRAY<INT>")


def test_sequence_groups(spark: SparkSession) -> None:
    groups = "'fields.g.sequence-group'='a', 'fields.h.sequence-group'='b'"
    removing = "'partial-update.remove-record-on-sequence-group'='g'"
    spark.sql(
        f"CREATE TABLE t (id INT, a INT, g INT, b STRING, h INT, op STRING) "
        f"TBLPROPERTIES ({PARTIAL}, {groups}, {removing}, 'rowkind.field'='op')"
    )
    spark.sql("INSERT INTO t VALUES (1, 1, 5, 'x', 5, '+I'), (2, 2, 5, 'y', 5, '+I'), (3, 3, 5, 'z', NULL, '+I')")
    spark.sql("INSERT INTO t VALUES (1, 9, 4, 'w', 6, '+U'), (2, NULL, 5, 'v', 4, '+U')")
    columns = "id INT, a INT, g INT, b STRING, h INT"
    query = "SELECT id, a, g, b, h FROM t"
    check(spark, query, [(1, 1, 5, "w", 6), (2, None, 5, "y", 5), (3, 3, 5, "z", None)], columns)
    spark.sql("UPDATE t SET a = 7, g = 4 WHERE id = 1")
    spark.sql("UPDATE t SET b = 'u' WHERE id = 3")
    check(spark, query, [(1, 7, 4, "w", 6), (2, None, 5, "y", 5), (3, 3, 5, "u", None)], columns)
    spark.sql("UPDATE t SET a = NULL, g = 6 WHERE id = 1")
    check(spark, f"{query} WHERE id = 1", [(1, None, 6, "w", 6)], columns)
    spark.sql("INSERT INTO t VALUES (2, NULL, 4, NULL, NULL, '-D'), (3, NULL, 5, NULL, NULL, '-D')")
    check(spark, "SELECT id FROM t", [(1,), (2,)], "id INT")
    spark.sql("CALL sys.compact('t')")
    spark.sql("DELETE FROM t WHERE b = 'y'")
    check(spark, query, [(1, None, 6, "w", 6)], columns)


def test_aggregates(spark: SparkSession) -> None:
    listed = "'fields.w.aggregate-function'='listagg', 'fields.w.ignore-retract'='true'"
    spark.sql(
        f"CREATE TABLE t (id INT, n BIGINT, w STRING, op STRING) "
        f"TBLPROPERTIES ({SUMS}, {listed}, 'rowkind.field'='op', 'fields.op.ignore-retract'='true')"
    )
    spark.sql("INSERT INTO t VALUES (1, 10, 'a', '+I'), (1, 5, 'b', '+I'), (2, 7, NULL, '+I')")
    spark.sql("INSERT INTO t VALUES (1, 3, 'c', '-U'), (2, NULL, 'd', '+U')")
    for compacted in (False, True):
        if compacted:
            spark.sql("CALL sys.compact('t')")
        check(spark, "SELECT id, n, w FROM t", [(1, 12, "a,b"), (2, 7, "d")], "id INT, n LONG, w STRING")
        check(spark, "SELECT w FROM t WHERE n = 12", [("a,b",)], "w STRING")
        check(spark, "SELECT n FROM t WHERE w = 'd' OR n = 10", [(7,)], "n LONG")
    check(spark, "SELECT n FROM t VERSION AS OF 1", [(15,), (7,)], "n LONG")
    spark.sql("CREATE TABLE s (id INT, n SMALLINT) TBLPROPERTIES ({})".format(f"{SUMS}, 'write-only'='true'"))
    spark.sql("INSERT INTO s VALUES (1, 32767)")
    spark.sql("INSERT INTO s VALUES (1, 1)")
    with pytest.raises(Exception, match="ARITHMETIC_OVERFLOW"):
        spark.sql("SELECT * FROM s").collect()


def test_deletes(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE t (id INT, n INT) TBLPROPERTIES ({SUMS}, 'aggregation.remove-record-on-delete'='true')")
    spark.sql("INSERT INTO t VALUES (1, 1), (2, 2), (1, 10)")
    spark.sql("DELETE FROM t WHERE n = 11")
    check(spark, "SELECT * FROM t", [(2, 2)], "id INT, n INT")
    spark.sql("CALL sys.compact('t')")
    spark.sql("INSERT INTO t VALUES (1, 5), (2, 5)")
    check(spark, "SELECT * FROM t", [(1, 5), (2, 7)], "id INT, n INT")
    spark.sql(
        f"CREATE TABLE p (id INT, a INT) TBLPROPERTIES ({PARTIAL}, 'partial-update.remove-record-on-delete'='true')"
    )
    spark.sql("INSERT INTO p VALUES (1, 1), (2, 2), (3, 3)")
    spark.sql(
        """MERGE INTO p USING (SELECT id FROM VALUES (1), (2) AS v (id)) s ON p.id = s.id
           WHEN MATCHED AND s.id = 1 THEN DELETE WHEN NOT MATCHED BY SOURCE THEN DELETE"""
    )
    check(spark, "SELECT * FROM p", [(2, 2)], "id INT, a INT")


def test_first_row(spark: SparkSession) -> None:
    spark.sql(
        """CREATE TABLE t (id INT, a STRING)
           TBLPROPERTIES ('primary-key'='id', 'bucket'='1', 'merge-engine'='first-row')"""
    )
    spark.sql("INSERT INTO t SELECT id, 'old' FROM range(0, 4000, 2)")
    spark.sql("INSERT INTO t VALUES (2, 'new'), (3, 'new')")
    check(spark, "SELECT * FROM t WHERE id < 5", [(0, "old"), (2, "old"), (3, "new"), (4, "old")], "id INT, a STRING")
    check(spark, "SELECT count(*) AS n FROM t", [(2001,)], "n BIGINT")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('write-only'='true')")
    spark.sql("INSERT INTO t VALUES (1, 'later')")
    check(spark, "SELECT a FROM t WHERE id = 1", [], "a STRING")
    spark.sql("CALL sys.compact('t')")
    check(spark, "SELECT a FROM t WHERE id = 1", [("later",)], "a STRING")
    spark.sql("INSERT OVERWRITE t VALUES (4, 'w')")
    check(spark, "SELECT * FROM t", [(4, "w")], "id INT, a STRING")
    spark.sql("TRUNCATE TABLE t")
    check(spark, "SELECT * FROM t", [], "id INT, a STRING")

"""Tables whose versions of rows are ordered by snapshot, through SQL."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.query_results import rows

COLUMNS = "CREATE TABLE {} (k INT, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '2', {})"
ORDERED = "'sequence.snapshot-ordering' = 'true', 'write-only' = 'true'"


def test_statements_in_turn(spark: SparkSession) -> None:
    spark.sql(COLUMNS.format("t", f"{ORDERED}, 'table-read.sequence-number.enabled' = 'true'"))
    spark.sql("INSERT INTO t SELECT id, 'first' FROM range(8)")
    spark.sql("INSERT INTO t VALUES (1, 'second')")
    spark.sql("UPDATE t SET v = 'third' WHERE k = 2")
    spark.sql("DELETE FROM t WHERE k = 3")
    spark.sql("MERGE INTO t USING (SELECT 4 AS k) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = 'fifth'")
    want = [(0, "first"), (1, "second"), (2, "third"), (4, "fifth"), (5, "first"), (6, "first"), (7, "first")]
    log = "SELECT k, rowkind, _SEQUENCE_NUMBER FROM `t$audit_log` WHERE k < 5 ORDER BY k"
    numbers = [(0, "+I", 1), (1, "+I", 2), (2, "+U", 3), (4, "+U", 5)]
    assert rows(spark, "SELECT * FROM t ORDER BY k") == want
    assert rows(spark, log) == [*numbers[:3], (3, "-D", 4), numbers[3]]
    spark.sql("CALL sys.compact('t')")
    assert rows(spark, "SELECT * FROM t ORDER BY k") == want
    assert [(k, n) for k, _, n in rows(spark, log)] == [(k, n) for k, _, n in numbers]
    spark.sql("INSERT INTO t VALUES (2, 'last')")
    assert rows(spark, "SELECT v FROM t WHERE k = 2") == [("last",)]
    files = "SELECT DISTINCT min_sequence_number, max_sequence_number FROM `t$files` WHERE level = 0"
    assert rows(spark, files) == [(7, 7)]


def test_what_does_not_fit_is_refused(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match=r"'sequence.snapshot-ordering' needs 'write-only'"):
        spark.sql(COLUMNS.format("t", "'sequence.snapshot-ordering' = 'true'"))
    spark.sql(COLUMNS.format("t", ORDERED))
    with pytest.raises(PySparkException, match=r"'sequence.snapshot-ordering' needs 'write-only'"):
        spark.sql("ALTER TABLE t SET TBLPROPERTIES ('write-only' = 'false')")
    spark.sql("INSERT INTO t VALUES (1, 'a')")
    with pytest.raises(PySparkException, match=r"'sequence.snapshot-ordering' of this table cannot change"):
        spark.sql("ALTER TABLE t UNSET TBLPROPERTIES ('sequence.snapshot-ordering')")
    with pytest.raises(PySparkException, match="ordered by its own snapshots"):
        spark.sql("CALL sys.copy('t', 'copy')")

"""Row tracking in SQL: ids that rows keep, selected by name."""

from __future__ import annotations

from itertools import product

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession

from tests.query_results import rows
from tests.variants import mostly_slow


@pytest.mark.parametrize(
    ("file_format", "marked"),
    mostly_slow(product(["parquet", "orc"], ["false", "true"]), ("parquet", "true"), ("orc", "false")),
)
def test_ids_are_selected_and_kept(spark: SparkSession, file_format: str, marked: str) -> None:
    spark.sql(
        "CREATE TABLE t (id INT, v STRING) TBLPROPERTIES ('row-tracking.enabled'='true', "
        f"'deletion-vectors.enabled'='{marked}', 'file.format'='{file_format}', 'compaction.min.file-num'='2')"
    )
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    spark.sql("UPDATE t SET v = 'B' WHERE id = 2")
    spark.sql("DELETE FROM t WHERE id = 1")
    tracked = "SELECT id, v, _ROW_ID, _SEQUENCE_NUMBER FROM t"
    assert rows(spark, f"{tracked} ORDER BY id") == [(2, "B", 1, 2), (3, "c", 2, 1)]
    spark.sql(
        "MERGE INTO t USING (SELECT explode(array(3, 4)) AS k) s ON t.id = s.k "
        "WHEN MATCHED THEN UPDATE SET v = 'C' WHEN NOT MATCHED THEN INSERT (id, v) VALUES (k, 'new')"
    )
    expected = [(2, "B", 1, 2), (3, "C", 2, 4), (4, "new", 3, 4)]
    assert rows(spark, f"{tracked} ORDER BY id") == expected
    assert_df_equality(
        spark.table("`t$row_tracking`"),
        spark.sql(tracked),
        ignore_row_order=True,
        ignore_nullable=True,
        ignore_metadata=True,
    )
    assert rows(spark, "SELECT _ROW_ID FROM t WHERE _SEQUENCE_NUMBER = 4 AND id > 3") == [(3,)]
    assert rows(spark, "SELECT count(*) FROM t WHERE __paimon_row_index = 0 AND _ROW_ID >= 0")[0][0] >= 1
    spark.sql("CALL sys.compact(table => 't')")
    assert rows(spark, f"{tracked} ORDER BY id") == expected
    assert rows(spark, "SELECT id FROM t ORDER BY id") == [(2,), (3,), (4,)]
    assert rows(spark, "SELECT next_row_id FROM `t$snapshots` ORDER BY snapshot_id DESC LIMIT 1") == [(4,)]


def test_tables_without_ids_do_not_have_them(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    with pytest.raises(Exception, match="_ROW_ID"):
        spark.sql("SELECT _ROW_ID FROM t").collect()
    with pytest.raises(Exception, match="row_tracking"):
        spark.sql("SELECT * FROM `t$row_tracking`").collect()

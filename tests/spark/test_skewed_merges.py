"""MERGE INTO where adaptive execution would split the skewed partitions of its join."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.variants import every

SKEWED = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.forceOptimizeSkewedJoin": "true",
    "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "0",
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "1b",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1b",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
}
SOURCE = "SELECT CAST(IF(id % 100 = 0, {}, 1000 + id) AS INT) AS k, CAST(id AS INT) AS v FROM range(0, 800, 1, 8)"
"""One row of each task has a key of its own, or the same key as those of the other tasks."""
CLAUSES = ("WHEN MATCHED THEN UPDATE SET v = s.v", "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)")


@pytest.mark.parametrize("properties", every(2, ["TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '2')", ""]))
def test_rows_that_match_twice_are_found_in_split_tasks(spark: SparkSession, properties: str) -> None:
    for key, value in SKEWED.items():
        spark.conf.set(key, value)
    spark.sql(f"CREATE TABLE t (k INT NOT NULL, v INT) {properties}")
    spark.sql("INSERT INTO t SELECT id, -1 FROM range(10)")
    joined = spark.sql(f"SELECT * FROM t RIGHT JOIN ({SOURCE.format(1)}) s ON t.k = s.k")
    joined.collect()
    assert "skew=true" in joined._jdf.queryExecution().executedPlan().toString()
    for clauses in (CLAUSES, CLAUSES[:1]):
        merge = "MERGE INTO t USING ({}) s ON t.k = s.k " + " ".join(clauses)
        with pytest.raises(Exception, match=r"MERGE_CARDINALITY_VIOLATION"):
            spark.sql(merge.format(SOURCE.format(1)))
        assert spark.sql("SELECT count(*), sum(v) FROM t").collect() == [(10, -10)]
    spark.sql(f"MERGE INTO t USING ({SOURCE.format('id / 100')}) s ON t.k = s.k {' '.join(CLAUSES)}")
    assert spark.sql("SELECT k, v FROM t WHERE k < 10 ORDER BY k").collect() == [
        *((n, 100 * n) for n in range(8)),
        (8, -1),
        (9, -1),
    ]
    assert spark.table("t").count() == 10 + 792

"""Native scans: tasks of about equal work, whatever the sizes of the files."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.query_results import rows

LARGE, SMALL = 60_000, 6_000


def filled(spark: SparkSession, large: int, small: int) -> None:
    spark.sql("CREATE TABLE t (id BIGINT, v STRING) TBLPROPERTIES ('write-only'='true')")
    for size in [LARGE] * large + [SMALL] * small:
        spark.sql(f"INSERT INTO t SELECT /*+ COALESCE(1) */ id, sha2(CAST(id AS STRING), 256) FROM range({size})")


def rows_of_tasks(spark: SparkSession) -> list[int]:
    return [n for (n,) in rows(spark, "SELECT count(v) FROM t GROUP BY spark_partition_id() ORDER BY 1")]


def test_small_files_fill_the_tasks_beside_large_ones(spark: SparkSession) -> None:
    filled(spark, 4, 12)
    found = rows_of_tasks(spark)
    assert sum(found) == 4 * LARGE + 12 * SMALL
    assert len(found) == 2
    assert found[1] <= 1.2 * found[0]
    assert rows(spark, "SELECT count(*), sum(id) FROM t WHERE v IS NOT NULL") == [
        (sum(found), 4 * LARGE * (LARGE - 1) // 2 + 12 * SMALL * (SMALL - 1) // 2)
    ]


@pytest.mark.parametrize(("settings", "tasks"), [({}, 4), ({"spark.sql.files.maxPartitionNum": "100"}, 3)])
def test_all_slots_have_the_same_number_of_tasks(spark: SparkSession, settings: dict[str, str], tasks: int) -> None:
    """Spark makes three tasks of them: two large files, one large and a small one, three small ones."""
    filled(spark, 3, 4)
    for name, value in ({"spark.sql.files.maxPartitionBytes": "9mb"} | settings).items():
        spark.conf.set(name, value)
    found = rows_of_tasks(spark)
    assert sum(found) == 3 * LARGE + 4 * SMALL
    assert len(found) == tasks

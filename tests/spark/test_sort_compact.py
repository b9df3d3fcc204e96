"""compact with an order_strategy: files cover few values afterwards, and queries skip most of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession

from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.core.table import Table
from paimon_spark.engine.select import plan_select
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.predicate import Comparison, and_
from tests.query_results import rows

CHECKSUM = "SELECT count(*), bit_xor(xxhash64(*)), sum(xxhash64(*) % 1000003) FROM t"


def scattered(spark: SparkSession) -> None:
    """Four files a partition, each with rows from everywhere on a plane of 100 × 100 points."""
    spark.sql("CREATE TABLE t (a INT, b INT, s STRING, p INT) PARTITIONED BY (p)")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('write-only'='true')")
    for part in range(4):
        spark.sql(
            "INSERT INTO t SELECT /*+ COALESCE(1) */ id DIV 100, id % 100, if(id % 9 = 0, NULL, 's' || id), q "
            f"FROM range(10000), (SELECT explode(array(0, 1)) AS q) WHERE (id * 7919) % 4 = {part}"
        )
    spark.sql("INSERT OVERWRITE t PARTITION (p = 2) SELECT 1, 2, NULL")
    spark.sql("ALTER TABLE t ALTER COLUMN s SET DEFAULT 'unset'")


def table_of(spark: SparkSession, warehouse: Path) -> Table:
    catalog = open_catalog({"warehouse": str(warehouse)})
    return catalog.load_table(Identifier(spark.catalog.currentDatabase(), "t"))


def read_rows(table: Table, column: str, low: int, high: int) -> int:
    """Return how many rows the files hold that a query for a range of values in p=0 has to open."""
    wanted = and_(Comparison("=", "p", 0), Comparison(">=", column, low), Comparison("<", column, high))
    return plan_select(table, predicate=wanted).counts.rows


def names(table: Table, partition: int) -> set[str]:
    plan = plan_select(table, predicate=Comparison("=", "p", partition))
    return {f.file_name for s in plan.splits for f in s.files}


@pytest.mark.parametrize(
    ("order", "share_a", "share_b"), [("order", 0.2, 1.0), ("zorder", 0.6, 0.6), ("hilbert", 0.6, 0.6)]
)
def test_queries_read_less_afterwards(
    spark: SparkSession, warehouse: Path, order: str, share_a: float, share_b: float
) -> None:
    scattered(spark)
    before = rows(spark, CHECKSUM)
    table = table_of(spark, warehouse)
    assert read_rows(table, "a", 10, 15) == read_rows(table, "b", 10, 15) == 10000
    untouched = names(table, 1), names(table, 2)
    columns = "a" if order == "order" else "A, b"
    done = spark.sql(f"CALL sys.compact('t', 'p=0', '{order}', '{columns}', 'sink.parallelism=16')").collect()[0]
    assert (done.result, done.status, done.files_in, done.files_out) == (True, "done", 4, 16)
    assert rows(spark, "SELECT commit_kind, operation FROM `t$snapshots` ORDER BY snapshot_id DESC LIMIT 1") == [
        ("OVERWRITE", None)
    ]
    assert rows(spark, CHECKSUM) == before
    past = spark.sql(f"SELECT * FROM t VERSION AS OF {done.snapshot_before}")
    assert_df_equality(spark.table("t"), past, ignore_row_order=True, ignore_metadata=True)  # a later default
    assert 0 < read_rows(table, "a", 10, 15) <= 10000 * share_a
    assert 0 < read_rows(table, "b", 10, 15) <= 10000 * share_b
    assert (names(table, 1), names(table, 2)) == untouched
    wanted = rows(spark, "SELECT count(*) FROM t WHERE p = 0 AND a >= 10 AND a < 15 AND b > 50")
    assert wanted == [(245,)]


def test_all_partitions_by_name_with_nulls_texts_and_a_filter(spark: SparkSession, warehouse: Path) -> None:
    scattered(spark)
    before = rows(spark, CHECKSUM)
    plan = rows(
        spark,
        "EXPLAIN CALL sys.compact(table => 't', order_strategy => 'ZORDER', order_by => 's,b', where => 'p < 2')",
    )
    assert {r[0] for r in plan} == {"rewrite"}
    assert sorted(r[3] for r in plan)[:: len(plan) - 1] == [
        "p=0: sorted by s, b (zorder) in 2 ranges",
        "p=1: sorted by s, b (zorder) in 2 ranges",
    ]
    done = spark.sql("CALL sys.compact(table => 't', order_strategy => 'hilbert', order_by => 's,b')").collect()[0]
    assert done.files_in == len(plan) + 1
    assert done.rows == 20001
    assert rows(spark, CHECKSUM) == before
    assert rows(spark, "SELECT count(*) FROM t WHERE s IS NULL") == [(2225,)]
    assert len(names(table_of(spark, warehouse), 2)) == 1


def test_what_cannot_be_sorted(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE k (a INT, b INT) TBLPROPERTIES ('primary-key'='a')")
    spark.sql("CREATE TABLE f (a INT, b INT) TBLPROPERTIES ('bucket'='2', 'bucket-key'='a')")
    spark.sql("CREATE TABLE t (a INT, m MAP<INT, INT>, p INT) PARTITIONED BY (p)")
    for arguments, message in [
        ("'k', '', 'order', 'b', ''", "has a primary key"),
        ("'f', '', 'zorder', 'b', ''", "has 2 buckets"),
        ("'t', '', 'zorder', 'p', ''", "partition columns"),
        ("'t', '', 'order', 'm', ''", "'m' has a type"),
        ("'t', '', 'order', 'x', ''", "does not exist"),
        ("'t', '', 'order', '', ''", "needs order_by"),
        ("'t', '', '', 'a', ''", "needs an order_strategy"),
        ("'t', '', 'order', 'a', 'sink.parallelism=many'", "sink.parallelism"),
    ]:
        with pytest.raises(Exception, match=message):
            spark.sql(f"CALL sys.compact({arguments})")
    assert spark.sql("CALL sys.compact('t', 'order', 'a')").collect()[0].status == "nothing to do"

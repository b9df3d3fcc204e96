"""The program of the cluster test: it is sent to a cluster by `spark-submit`, with nothing installed but Spark's needs."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

import paimon_spark

DAYS = 86_400
ROWS = 120_000


def one(spark: SparkSession, statement: str) -> list[object]:
    return list(spark.sql(statement).collect()[0])


def rows_where(spark: SparkSession, table: str) -> list[object]:
    return one(spark, f"SELECT count(*), sum(id), sum(v), count(DISTINCT note) FROM {table}")


def places(_: object) -> list[tuple[str, str]]:
    """Tell where a worker has this package from, and which Python it runs."""
    import paimon_spark

    return [(os.path.abspath(paimon_spark.__file__), sys.executable)]  # noqa: PTH100


def keyed_table(spark: SparkSession, found: dict[str, object]) -> None:
    spark.conf.set("spark.paimon.read.local-max-bytes", "0")
    spark.sql(
        "CREATE TABLE orders (id BIGINT, region INT, v BIGINT, note STRING) PARTITIONED BY (region) "
        "TBLPROPERTIES ('primary-key' = 'id,region', 'bucket' = '2', 'write-only' = 'true')"
    )
    new = "CAST(id % 2 AS INT), id, concat('n', id % 7)"
    spark.sql(f"INSERT INTO orders SELECT id, {new} FROM range(0, {ROWS}, 1, 4)")
    spark.sql(f"INSERT INTO orders SELECT id, CAST(id % 2 AS INT), -1, 'again' FROM range({ROWS // 2}, {ROWS}, 1, 4)")
    plan = spark.sql("EXPLAIN SELECT v FROM orders").collect()[0][0]
    found["way"] = "native without superseded rows" in plan
    found["merged"] = rows_where(spark, "orders")
    done = spark.sql("CALL sys.compact(table => 'shop.orders')").collect()[0].asDict()
    found["compacted"] = [done["status"], done["files_out"] > 0]
    found["after compaction"] = rows_where(spark, "orders")
    spark.sql("DELETE FROM orders WHERE id % 10 = 0")
    found["after delete"] = rows_where(spark, "orders")
    spark.sql(
        "MERGE INTO orders t USING (SELECT id, CAST(id % 2 AS INT) AS region FROM range(0, 100)) s "
        "ON t.id = s.id AND t.region = s.region WHEN MATCHED THEN UPDATE SET v = 7 "
        "WHEN NOT MATCHED THEN INSERT (id, region, v, note) VALUES (s.id, s.region, 8, 'back')"
    )
    found["after merge"] = rows_where(spark, "orders")
    found["travelled"] = one(spark, "SELECT count(*), sum(v) FROM orders VERSION AS OF 1")


def append_table(spark: SparkSession, found: dict[str, object]) -> None:
    spark.sql("CREATE TABLE log (id BIGINT, v BIGINT, note STRING)")
    spark.sql(f"INSERT INTO log SELECT id, id, 'x' FROM range(0, {ROWS}, 1, 4)")
    spark.sql("UPDATE log SET v = 0 WHERE id % 2 = 1")
    found["append"] = rows_where(spark, "log")
    spark.sql("CALL sys.compact(table => 'shop.log', order_strategy => 'zorder', order_by => 'id,v')")
    found["sorted"] = rows_where(spark, "log")


def maintenance(spark: SparkSession, warehouse: Path, found: dict[str, object]) -> None:
    before = one(spark, "SELECT count(*) FROM `orders$snapshots`")
    spark.sql("CALL sys.expire_snapshots(table => 'shop.orders', retain_max => 1)")
    found["snapshots"] = [before, one(spark, "SELECT count(*) FROM `orders$snapshots`")]
    stray = warehouse / "shop.db/orders/region=0/bucket-0/data-stray-0.parquet"
    stray.write_bytes(b"nobody knows me")
    old = time.time() - 3 * DAYS
    os.utime(stray, (old, old))
    told = spark.sql("CALL sys.remove_orphan_files(table => 'shop.orders', dry_run => true)").collect()
    found["orphans"] = [any("data-stray-0" in str(row) for row in told), stray.exists()]
    spark.sql("CALL sys.remove_orphan_files(table => 'shop.orders')")
    found["orphans after"] = stray.exists()
    found["last"] = rows_where(spark, "orders")


def main(warehouse: str) -> None:
    found: dict[str, object] = {"driver": [str(paimon_spark.__file__), sys.executable]}
    builder = paimon_spark.configure(SparkSession.builder.appName("job"), warehouse=warehouse, default_catalog=True)
    spark = builder.getOrCreate()
    spark.sql("CREATE DATABASE shop")
    spark.sql("USE shop")
    keyed_table(spark, found)
    append_table(spark, found)
    maintenance(spark, Path(warehouse), found)
    found["workers"] = sorted(set(spark.sparkContext.parallelize(range(8), 8).flatMap(places).collect()))
    spark.stop()
    print("ANSWER", json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])

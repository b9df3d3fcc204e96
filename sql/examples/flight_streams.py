"""Streams over three tables: reported flights, cleaned flights with the name of their carrier, totals of each carrier.

``python sql/examples/flight_streams.py build/flights`` needs PySpark and ``pip install 'paimon-spark[examples]'``. It
takes the departures of one day after the other, then corrects and cancels some of them; the totals follow, and are
compared with what a query of the whole table answers.
"""

from __future__ import annotations

import runpy
import sys
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark.streaming import changelog_avg, changelog_count, changelog_kind, changelog_max, changelog_sum, changes

DAYS = 5
TABLES = """
CREATE TABLE reported (time_hour TIMESTAMP, carrier STRING, flight INT, origin STRING, dep_delay INT, distance INT)
  TBLPROPERTIES ('primary-key' = 'time_hour,carrier,flight', 'bucket' = '2', 'changelog-producer' = 'lookup');
CREATE TABLE departed (time_hour TIMESTAMP, carrier STRING, flight INT, name STRING, dep_delay INT, distance INT)
  TBLPROPERTIES ('primary-key' = 'time_hour,carrier,flight', 'bucket' = '2', 'changelog-producer' = 'lookup');
CREATE TABLE totals (name STRING, flights BIGINT, distance BIGINT, mean_delay DOUBLE, worst_delay INT)
  TBLPROPERTIES ('primary-key' = 'name', 'bucket' = '1', 'changelog-producer' = 'lookup');
CREATE TABLE carriers (carrier STRING, name STRING) TBLPROPERTIES ('primary-key' = 'carrier', 'bucket' = '1');
INSERT INTO carriers VALUES ('UA', 'United'), ('B6', 'JetBlue'), ('AA', 'American'), ('DL', 'Delta')
"""
ANSWER = """
SELECT coalesce(name, 'another'), count(*), sum(CAST(distance AS BIGINT)), avg(dep_delay), max(dep_delay)
FROM reported LEFT JOIN carriers USING (carrier) WHERE dep_delay IS NOT NULL GROUP BY 1
"""


def cleaned(spark: SparkSession) -> DataFrame:
    """Return the changes of the flights that have departed; each batch reads the carriers as they are then."""
    carriers = spark.table("carriers")
    flights = changes(spark, "reported").where("dep_delay IS NOT NULL")
    named = flights.join(carriers, "carrier", "left").selectExpr("*", "coalesce(name, 'another') AS known")
    return named.drop("name", "origin").withColumnRenamed("known", "name")


def totals(spark: SparkSession) -> DataFrame:
    """Return the totals of each carrier."""
    return (
        changes(spark, "departed")
        .groupBy("name")
        .agg(
            changelog_count().alias("flights"),
            changelog_sum("distance").alias("distance"),
            changelog_avg("dep_delay").alias("mean_delay"),
            changelog_max("dep_delay").alias("worst_delay"),
            changelog_kind(),
        )
    )


def main(spark: SparkSession, data: Path, place: Path) -> list[tuple[object, ...]]:
    """Run the streams beside writes of their source; return the totals.

    Raises:
        AssertionError: they are not what the batch query answers.
    """
    for statement in TABLES.strip().split(";"):
        spark.sql(statement)
    running = [
        (frame.writeStream.outputMode(mode).option("checkpointLocation", str(place / table)).toTable(table))
        for frame, table, mode in ((cleaned(spark), "departed", "append"), (totals(spark), "totals", "update"))
    ]
    try:
        spark.read.parquet(str(data / "flights.parquet")).createOrReplaceTempView("raw_flights")
        for day in range(1, DAYS + 1):
            of_day = spark.table("raw_flights").where(f"month = 1 AND day = {day}")
            of_day.select(*spark.table("reported").columns).writeTo("reported").append()
        spark.sql("UPDATE reported SET dep_delay = 0 WHERE dep_delay > 300")
        spark.sql("DELETE FROM reported WHERE origin = 'LGA' AND carrier = 'DL'")
        for query in running:  # the second one reads what the first one has written by then
            query.processAllAvailable()
    finally:
        for query in running:
            query.stop()
    found = sorted(tuple(row) for row in spark.table("totals").collect())
    wanted = sorted(tuple(row) for row in spark.sql(ANSWER).collect())
    if found != wanted:
        message = f"the streams made {found}, but the answer is {wanted}"
        raise AssertionError(message)
    return found


if __name__ == "__main__":
    target = Path(sys.argv[1])
    runpy.run_path(str(Path(__file__).with_name("flights_to_parquet.py")))["export"](target)
    builder = paimon_spark.configure(SparkSession.builder, warehouse=target / "warehouse-streams", default_catalog=True)
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    session.sql("DROP DATABASE IF EXISTS flight_streams CASCADE")
    session.sql("CREATE DATABASE flight_streams")
    session.sql("USE flight_streams")
    with tempfile.TemporaryDirectory() as checkpoints:
        for each in main(session, target, Path(checkpoints)):
            print(*each, sep="\t")  # noqa: T201 - the answer
    session.stop()

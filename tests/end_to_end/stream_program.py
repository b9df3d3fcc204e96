"""A program that copies a table as a stream, one commit in each batch: killed and started again by its test."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import paimon_spark
from tests.conftest import SESSION

SOURCE, COPY = "d.source", "d.copy"


def main(warehouse: str, checkpoint: str) -> None:
    """Copy what there is."""
    builder = SparkSession.builder.appName("stream")
    for key, value in SESSION.items():
        builder = builder.config(key, value)
    spark = paimon_spark.configure(builder, catalog="paimon", warehouse=warehouse).getOrCreate()
    rows = spark.readStream.option("read.stream.maxFilesPerTrigger", 1).table(f"paimon.{SOURCE}")
    writer = rows.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    writer.toTable(f"paimon.{COPY}").awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

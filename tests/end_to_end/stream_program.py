"""A program that copies a table as a stream, one commit in each batch: killed and started again by its test.

With `forever` it copies until it is killed, and starts a query that has failed again; so it does with `workers`, which
leaves also small batches to the workers. With `rest` it copies what there is in larger batches.
"""

from __future__ import annotations

import sys

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import paimon_spark
from tests.conftest import SESSION

SOURCE, COPY = "d.source", "d.copy"


def main(warehouse: str, checkpoint: str, how: str = "once") -> None:
    """Copy what there is, or also what comes."""
    builder = SparkSession.builder.appName("stream")
    for key, value in SESSION.items():
        builder = builder.config(key, value)
    spark = paimon_spark.configure(builder, catalog="paimon", warehouse=warehouse).getOrCreate()
    files = 1 if how == "once" else 20
    rows = spark.readStream.option("read.stream.maxFilesPerTrigger", files).table(f"paimon.{SOURCE}")
    writer = rows.writeStream.option("checkpointLocation", checkpoint)
    if how == "workers":
        writer = writer.option("write.local-max-rows", 0)
    while how in ("forever", "workers"):
        query = writer.trigger(processingTime="100 milliseconds").toTable(f"paimon.{COPY}")
        try:
            query.awaitTermination()
        except StreamingQueryException as e:
            print(f"the query has failed: {str(e)[:2000]}", flush=True)
    writer.trigger(availableNow=True).toTable(f"paimon.{COPY}").awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A Spark session of one engine that executes requests line by line; runs on any PySpark, without this project.

Each input line is a JSON object: the first one the settings of the session, the others `{"statements": [...]}`.
Each output line is a response: wall seconds of planning (queries only) and in total, the rows of the last statement.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

from pyspark.sql import SparkSession


def _run(spark: SparkSession, statements: list[str], *, write: dict[str, str] | None) -> dict[str, Any]:
    """Run statements; with `write`, the rows of the last one are written there as Parquet instead of returned."""
    started = time.perf_counter()
    planned = None
    rows: list[list[str]] = []
    for statement in statements:
        began = time.perf_counter()
        frame = spark.sql(statement)
        if statement.startswith("SELECT"):
            frame._jdf.queryExecution().executedPlan()
            planned = time.perf_counter() - began
        if write:
            frame.write.mode("overwrite").parquet(write["path"])
        else:
            rows = [[str(value) for value in row] for row in frame.collect()]
    return {"seconds": time.perf_counter() - started, "planning": planned, "rows": rows}


def _time_each(spark: SparkSession, statements: list[str]) -> dict[str, Any]:
    """Run statements and return the wall seconds of each."""
    each = []
    for statement in statements:
        began = time.perf_counter()
        spark.sql(statement).collect()
        each.append(time.perf_counter() - began)
    return {"each": each}


def _cancel(spark: SparkSession, order: dict[str, Any]) -> dict[str, Any]:
    """Run a CALL in a session of its own, and cancel it so many seconds after it was listed as running.

    The response has the seconds from the cancel to the end of the CALL, None if it ended before, and whether it failed.
    """
    ended: list[tuple[float, str]] = []
    other = spark.newSession()

    def call() -> None:
        try:
            other.sql(order["statement"]).collect()
        except Exception as e:  # noqa: BLE001 - told in the response
            ended.append((time.perf_counter(), str(e)))
        else:
            ended.append((time.perf_counter(), ""))

    thread = threading.Thread(target=call)
    thread.start()
    listed: list[Any] = []
    while not listed and not ended:
        listed = spark.sql("CALL paimon.sys.running()").collect()
    time.sleep(order["after"])
    began, asked = time.perf_counter(), bool(listed) and not ended
    if asked:
        spark.sql(f"CALL paimon.sys.cancel('{listed[0].id}')").collect()
    thread.join()
    at, error = ended[0]
    if error and "STATEMENT_CANCELLED" not in error:
        raise RuntimeError(error)
    return {"seconds": at - began if asked else None, "failed": bool(error)}


def _stream(spark: SparkSession, order: dict[str, Any]) -> dict[str, Any]:
    """Run a streaming query to its end and return the durations of its batches; start or stop an idle one."""
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "100000")
    ((kind, how),) = order.items()
    if kind == "stop":
        for query in spark.streams.active:
            query.stop()
        return {}
    started = time.perf_counter()
    query = _upserts(spark, how) if kind == "write" else _changes(spark, how, ends=kind == "read")
    if kind == "idle":
        query.processAllAvailable()
        return {}
    query.awaitTermination()
    seconds = time.perf_counter() - started
    busy = [p for p in query.recentProgress if p["numInputRows"]]
    return {
        "seconds": seconds,
        "triggers": [p["durationMs"]["triggerExecution"] for p in busy],
        "rows_of": [p["numInputRows"] for p in busy],
    }


def _changes(spark: SparkSession, how: dict[str, Any], *, ends: bool) -> Any:
    reader = spark.readStream.format("paimon").option("read.changelog", "true")
    if "from" in how:
        reader = reader.option("scan.snapshot-id", how["from"])
    writer = reader.load(how["path"]).writeStream.format("noop").option("checkpointLocation", how["checkpoint"])
    return (writer.trigger(availableNow=True) if ends else writer).start()


def _upserts(spark: SparkSession, how: dict[str, Any]) -> Any:
    source = spark.readStream.schema(spark.read.parquet(how["source"]).schema).option("maxFilesPerTrigger", 1)
    writer = source.parquet(how["source"]).writeStream.option("checkpointLocation", how["checkpoint"])
    writer = writer.trigger(availableNow=True)
    if "table" in how:
        return writer.toTable(how["table"])
    if "path" in how:
        return writer.format("paimon").start(how["path"])

    def merge(rows: Any, _batch: int) -> None:
        rows.createOrReplaceTempView("stream_batch")
        rows.sparkSession.sql(how["merge"])

    return writer.foreachBatch(merge).start()


def main() -> None:
    """Serve the lines of the standard input."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    conf = json.loads(sys.stdin.readline())
    builder = SparkSession.builder.appName("benchmark")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    answers.write(json.dumps({"spark": spark.version}) + "\n")
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if order.get("stream"):
                answer = _stream(spark, order["stream"])
            elif order.get("each"):
                answer = _time_each(spark, order["statements"])
            elif order.get("cancel"):
                answer = _cancel(spark, order["cancel"])
            else:
                answer = _run(spark, order["statements"], write=order.get("write"))
        except Exception as e:  # noqa: BLE001 - whatever an engine fails with is told, and the others go on
            answer = {"error": f"{type(e).__name__}: {str(e).strip().splitlines()[0] if str(e).strip() else ''}"}
        answers.write(json.dumps(answer) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()

"""The engine process: it is respawned after a kill, and the bucket hash agrees with the format."""

from __future__ import annotations

import datetime
import decimal
import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit
from pyspark.sql.types import StructType

from paimon_spark.spark.shuffle_spec import HashColumn, ShuffleSpec, hashed_fields
from paimon_spark.spark.types import plain_struct
from paimon_spark.spec.types import AtomicType, DataField, TypeRoot, type_from_json

_EPOCH = datetime.datetime(1970, 1, 1)


def bridge_class(spark: SparkSession, name: str) -> Any:
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.loadClass(f"org.apache.spark.sql.paimonbridge.{name}")


def engine_pid(spark: SparkSession) -> int:
    gateway = spark.sparkContext._gateway
    none = gateway.new_array(gateway.jvm.java.lang.Class, 0)
    nothing = gateway.new_array(gateway.jvm.java.lang.Object, 0)
    return int(bridge_class(spark, "Engine").getMethod("pid", none).invoke(None, nothing))


def test_a_killed_engine_comes_back(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT) TBLPROPERTIES ('primary-key'='id')")
    spark.sql("INSERT INTO t VALUES (1)")
    planned = spark.sql("SELECT * FROM t")
    first = engine_pid(spark)
    os.kill(first, signal.SIGKILL)
    assert spark.sql("SELECT count(*) FROM t").collect()[0][0] == 1
    assert engine_pid(spark) != first
    assert [tuple(r) for r in planned.collect()] == [(1,)]
    spark.sql("INSERT INTO t VALUES (2)")
    assert spark.sql("SELECT count(*) FROM t").collect()[0][0] == 2


def test_an_engine_killed_in_mid_write_leaves_the_table_alone(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id BIGINT) TBLPROPERTIES ('primary-key'='id', 'bucket'='1')")
    spark.sql("INSERT INTO t VALUES (1)")
    slow = "SELECT id FROM range(2) WHERE reflect('java.lang.Thread', 'sleep', 60000L) IS NOT NULL"
    with ThreadPoolExecutor(1) as pool:
        insert = pool.submit(spark.sql, f"INSERT INTO t {slow}")
        until = time.monotonic() + 100
        while not spark.sparkContext.statusTracker().getActiveStageIds():
            assert time.monotonic() < until, "the job does not begin"
            time.sleep(0.1)
        os.kill(engine_pid(spark), signal.SIGKILL)
        with pytest.raises(Exception, match=r"ENGINE_FAILED.*engine-\d+\.log") as told:
            insert.result(30)
    assert ".." not in str(told.value)
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
    assert [tuple(r) for r in spark.sql("SELECT * FROM t").collect()] == [(1,)]


def test_the_engine_lives_through_an_interrupt(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id BIGINT) TBLPROPERTIES ('primary-key'='id', 'bucket'='1')")
    spark.sql("INSERT INTO t VALUES (1)")
    engine = engine_pid(spark)
    os.kill(engine, signal.SIGINT)
    time.sleep(0.5)
    spark.sql("INSERT INTO t VALUES (2)")
    assert spark.sql("SELECT count(*) FROM t").collect()[0][0] == 2
    assert engine_pid(spark) == engine


def value_of(text: Any, t: AtomicType) -> Any:
    if text is None:
        return None
    if t.root is TypeRoot.BIGINT:
        return int(text)
    if t.root is TypeRoot.DECIMAL:
        return decimal.Decimal(str(text))
    if t.root is TypeRoot.DATE:
        return (
            datetime.date.fromisoformat(text) if isinstance(text, str) else (_EPOCH + datetime.timedelta(text)).date()
        )
    if t.root is TypeRoot.TIMESTAMP:
        return datetime.datetime.fromisoformat(text)
    if t.root is TypeRoot.TIMESTAMP_LTZ:
        return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)
    if t.root in (TypeRoot.BINARY, TypeRoot.VARBINARY):
        return bytes.fromhex(text.removeprefix("0x"))
    return float(text) if t.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE) else text


FUNCTIONS = (("default", 0, "hash"), ("default", 8, "bucket_of_8"), ("mod", 8, "mod_bucket_of_8"),
             ("hive", 8, "hive_bucket_of_8"))  # fmt: skip


def test_the_bucket_functions_are_the_formats(spark: SparkSession, shared_dir: Path) -> None:
    vectors = json.loads((shared_dir / "spec" / "bucket_vectors.json").read_text())["vectors"]
    gateway = spark.sparkContext._gateway
    none = gateway.new_array(gateway.jvm.java.lang.Class, 0)
    nothing = gateway.new_array(gateway.jvm.java.lang.Object, 0)
    jvm_frames = bridge_class(spark, "JvmFrames").getDeclaredConstructor(none).newInstance(nothing)
    hashes, wanted = [], []
    for case in vectors:
        if case["name"].startswith("nested") or "timestamp9" in case["name"]:
            continue
        types = [type_from_json(t) for t in case["types"]]
        fields = [DataField(i, f"c{i}", t) for i, t in enumerate(types)]
        row = tuple(value_of(v, t) for v, t in zip(case["values"], types, strict=True))
        frame = spark.createDataFrame([row], StructType.fromJson(plain_struct(fields)))
        for function, buckets, expected in FUNCTIONS:
            if expected in case:
                column = HashColumn(expected, buckets, hashed_fields(fields), function)
                spec = ShuffleSpec(tuple(f.name for f in fields), hash=column)
                frame = DataFrame(jvm_frames.bucketShuffle(frame._jdf, spec.to_json()), spark)
            else:
                frame = frame.withColumn(expected, lit(None).cast("int"))
        hashes.append(frame.select(*(expected for *_, expected in FUNCTIONS)))
        wanted.append(tuple(case.get(expected) for *_, expected in FUNCTIONS))
    found = [tuple(r) for r in reduce(DataFrame.unionAll, hashes).collect()]
    assert found == wanted
    assert len(found) >= 60


@pytest.mark.parametrize("tasks", [1, 3, 8])
def test_one_task_serves_each_bucket(spark: SparkSession, tasks: int) -> None:
    spark.sql(f"CREATE TABLE t (id INT) TBLPROPERTIES ('bucket'='{tasks}', 'bucket-key'='id')")
    spark.sql("INSERT INTO t SELECT id FROM range(20000)")
    files = spark.sql("SELECT bucket, count(*) FROM `t$files` GROUP BY bucket").collect()
    assert {n for _, n in files} == {1}
    assert spark.sql("SELECT count(*) FROM t").collect()[0][0] == 20000

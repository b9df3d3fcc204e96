"""Rows on their way to the writers: Arrow batches that stay small, whatever the rows are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from paimon_spark.spark.arrow_map import map_in_arrow
from paimon_spark.spark.jvm_frames import arrow_batches, bucket_shuffle_packed, install_jvm_frames, single_row_batches
from paimon_spark.spark.shuffle_spec import HashColumn, HashedField, ShuffleSpec
from tests.spark.test_engine import bridge_class

pytestmark = pytest.mark.spark
MB = 1 << 20
LIMIT = 8 * MB
EVERYTHING = """
    id, CAST(id % 3 = 0 AS BOOLEAN) AS flag, CAST(id % 100 AS TINYINT) AS tiny, CAST(id AS SMALLINT) AS small,
    CAST(id AS FLOAT) / 3 AS f, CAST(id AS DOUBLE) / 7 AS d, CAST(id AS DECIMAL(9,2)) / 4 AS dec9,
    CAST(id AS DECIMAL(30,5)) * -7 AS dec30, IF(id % 5 = 0, NULL, concat('text ', id)) AS s,
    CAST(concat('b', id) AS BINARY) AS bytes, date_add(DATE'1960-01-01', CAST(id AS INT)) AS day,
    timestamp_micros(id * 1000003 - 77) AS at, CAST(timestamp_micros(id * 999) AS TIMESTAMP_NTZ) AS ntz,
    IF(id % 4 = 0, NULL, array(id, NULL, -id)) AS list, map(concat('k', id), id) AS m,
    named_struct('x', id, 'y', named_struct('z', concat('z', id))) AS nested
"""


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    gateway = spark.sparkContext._gateway
    none = gateway.new_array(gateway.jvm.java.lang.Class, 0)
    nothing = gateway.new_array(gateway.jvm.java.lang.Object, 0)
    jvm_frames = bridge_class(spark, "JvmFrames").getDeclaredConstructor(none).newInstance(nothing)
    install_jvm_frames(spark.sparkContext, jvm_frames)
    return spark


def by_bucket(frame: DataFrame, buckets: int, tasks: int) -> DataFrame:
    column = HashColumn("bucket", buckets, (HashedField("id", 0),))
    return bucket_shuffle_packed(frame, ShuffleSpec(tuple(frame.columns), hash=column, tasks=tasks))


def batches(frame: DataFrame) -> list[tuple[int, pa.Table]]:
    """Return the number of the task and the rows of each batch."""
    found = frame.select(f.spark_partition_id().alias("task"), "rows").collect()
    return [(row.task, pa.ipc.open_stream(bytes(row.rows)).read_all()) for row in found]


def test_a_batch_has_rows_of_one_task_and_no_more_than_the_limit(session: SparkSession) -> None:
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "700")
    found = batches(by_bucket(session.range(0, 20_000, 1, 3).withColumn("text", f.hex("id")), 6, 3))
    assert max(table.num_rows for _, table in found) == 700
    tasks: dict[int, set[int]] = {}
    for task, table in found:
        for bucket in table["bucket"].unique().to_pylist():
            tasks.setdefault(bucket, set()).add(task)
    assert sorted(tasks) == list(range(6))
    assert all(len(numbers) == 1 for numbers in tasks.values())
    assert {task for numbers in tasks.values() for task in numbers} == {0, 1, 2}
    ids = pa.concat_tables([table for _, table in found])["id"].to_pylist()
    assert sorted(ids) == list(range(20_000))


def test_batches_of_huge_rows_stay_small(session: SparkSession) -> None:
    width = f.when(f.col("id") == 17, 12 * MB).otherwise(MB).cast("int")
    frame = session.range(0, 60, 1, 2).select("id", f.repeat(f.lit("x"), width).alias("text"))
    for shape in (arrow_batches(frame), by_bucket(frame, 2, 2)):
        found = [table for _, table in batches(shape)]
        alone = [table for table in found if 17 in table["id"].to_pylist()]
        assert [table.num_rows for table in alone] == [1]
        assert {table.num_rows for table in found if table is not alone[0]} <= set(range(1, 8))
        assert max(table.nbytes for table in found if table is not alone[0]) <= LIMIT
        assert sorted(n for table in found for n in table["id"].to_pylist()) == list(range(60))


@pytest.mark.parametrize(("columns", "tasks", "before"), [(600, 8, True), (600, 60, False), (1, 1024, True)])
def test_rows_are_packed_first_unless_batches_were_too_small(
    session: SparkSession, columns: int, tasks: int, before: bool
) -> None:
    wide = session.range(0, 500, 1, 2).select("id", *(f.col("id").alias(f"c{n}") for n in range(1, columns)))
    frame = by_bucket(wide.repartition(2).persist(), tasks, tasks)
    plan = frame._jdf.queryExecution().optimizedPlan().toString()
    assert (plan.index("ArrowBatches") > plan.index("RepartitionByExpression")) is before
    if tasks <= 60:
        found = batches(frame)
        assert sorted(n for _, table in found for n in table["id"].to_pylist()) == list(range(500))
        assert all(len(table["bucket"].unique()) == 1 for _, table in found)


def test_a_sort_before_a_shuffle_runs_only_below_a_limit(session: SparkSession) -> None:
    rows = session.range(0, 50_000, 1, 3).withColumn("text", f.hex("id"))
    rows.createOrReplaceTempView("unsorted")
    ordered = session.sql("SELECT * FROM (SELECT id, upper(text) AS text FROM unsorted ORDER BY text) AS s")
    for frame, sorts in ((ordered, 0), (rows.orderBy("text").limit(20_000), 1)):
        shape = by_bucket(frame, 2, 2)
        plan = shape._jdf.queryExecution().optimizedPlan().toString()
        assert plan.count("Sort [") == sorts
        found = pa.concat_tables([table for _, table in batches(shape)])
        assert sorted(found["id"].to_pylist()) == sorted(row.id for row in frame.collect())


def test_a_smaller_limit_of_sparks_counts(session: SparkSession) -> None:
    session.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(MB))
    frame = session.range(0, 3000, 1, 1).select("id", f.repeat(f.lit("x"), 1000).alias("text"))
    found = [table for _, table in batches(arrow_batches(frame))]
    assert sum(table.num_rows for table in found) == 3000
    assert 3 <= len(found) <= 4


def test_a_python_function_gets_one_batch_at_a_time(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.sparkContext, "pythonExec", sys.executable)

    def sizes(given: Iterator[Any]) -> Iterator[Any]:
        for batch in given:
            yield pa.RecordBatch.from_pydict({"n": pa.array([batch.num_rows], pa.int32())})

    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")
    frame = arrow_batches(session.range(0, 1000, 1, 2))
    assert frame.count() == 100
    together = map_in_arrow(frame, sizes, "n int")
    assert {row.n for row in together.collect()} == {10}
    assert [row.n for row in single_row_batches(together).collect()] == [1] * 100
    assert session.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") == "10"


def test_a_function_of_the_query_gets_its_rows_together(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.sparkContext, "pythonExec", sys.executable)

    def sizes(given: Iterator[Any]) -> Iterator[Any]:
        for batch in given:
            counts = pa.array([batch.num_rows] * batch.num_rows, pa.int32())
            yield pa.RecordBatch.from_arrays([batch.column(0), counts], ["id", "n"])

    session.sql("CREATE TABLE t (id BIGINT, n INT)")
    session.range(0, 1000, 1, 2).mapInArrow(sizes, "id bigint, n int").writeTo("t").append()
    assert {row.n for row in session.table("t").select("n").collect()} == {500}


@pytest.mark.parametrize("buckets", [1, 5])
def test_values_of_all_types_arrive(session: SparkSession, buckets: int) -> None:
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    session.sql(f"SELECT {EVERYTHING} FROM range(0, 30000, 1, 3)").createOrReplaceTempView("source")
    session.sql(
        f"CREATE TABLE t TBLPROPERTIES ('primary-key'='id', 'bucket'='{buckets}') AS SELECT * FROM source WHERE id < 0"
    )
    session.sql("INSERT INTO t SELECT * FROM source")
    columns = [c for c in session.table("t").columns if c != "m"]
    texts = [*columns, "to_json(m) AS m"]
    written, wanted = (session.table(name).selectExpr(*texts) for name in ("t", "source"))
    assert written.count() == 30_000
    assert written.exceptAll(wanted).count() == 0


def test_rows_of_a_megabyte_are_written(session: SparkSession) -> None:
    session.sql("CREATE TABLE t (id BIGINT, text STRING) TBLPROPERTIES ('primary-key'='id', 'bucket'='2')")
    session.sql("INSERT INTO t SELECT id, repeat(hex(id % 7), 1048576) FROM range(0, 80, 1, 3)")
    found = session.sql("SELECT count(*), count(DISTINCT id), sum(length(text)), min(md5(text)) FROM t").head()
    wanted = session.sql("SELECT min(md5(repeat(hex(id % 7), 1048576))) FROM range(80)").head()
    assert found is not None
    assert wanted is not None
    assert tuple(found) == (80, 80, 80 * MB, wanted[0])


def test_a_query_that_fails_in_packing_leaves_the_table_alone(session: SparkSession) -> None:
    session.sql("CREATE TABLE t (id BIGINT) TBLPROPERTIES ('primary-key'='id', 'bucket'='3')")
    for _ in range(3):
        with pytest.raises(Exception, match="no such row"):
            session.sql(
                "INSERT INTO t SELECT IF(id < 15000, id, raise_error('no such row')) FROM range(0, 30000, 1, 2)"
            )
    assert session.table("t").count() == 0
    session.sql("INSERT INTO t SELECT id FROM range(0, 30000, 1, 2)")
    assert session.table("t").count() == 30_000

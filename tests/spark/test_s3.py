"""Spark on an S3 store: moto's server, and Hadoop's own options."""

from __future__ import annotations

import contextlib
import getpass
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.stores import ACCESS_KEY, SECRET_KEY, S3Server, moto_server

HINT = "run `paimon-spark env --s3`"


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with moto_server() as running:
        yield running


@pytest.fixture
def bucket(server: S3Server) -> str:
    return server.bucket()


def add_catalog(session: SparkSession, name: str, warehouse: str, options: dict[str, str]) -> None:
    session.conf.set(f"spark.sql.catalog.{name}", "paimon.spark.Catalog")
    for key, value in {"warehouse": warehouse, **options}.items():
        session.conf.set(f"spark.sql.catalog.{name}.{key}", value)


@pytest.fixture
def lake(spark_app: SparkSession, server: S3Server, bucket: str) -> SparkSession:
    session = spark_app.newSession()
    add_catalog(session, "lake", f"s3://{bucket}/warehouse", server.options)
    session.sql("CREATE DATABASE lake.db")
    session.sql("USE lake.db")
    return session


def taken(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(r) for r in frame.collect())


def plans(frame: DataFrame) -> str:
    execution = frame._jdf.queryExecution()
    modes = frame.sparkSession._jvm.org.apache.spark.sql.execution.ExplainMode
    names = ("simple", "extended", "codegen", "cost", "formatted")
    texts = [execution.explainString(modes.fromString(n)) for n in names]
    json = [execution.analyzed().toJSON(), execution.optimizedPlan().toJSON(), execution.executedPlan().toJSON()]
    return "\n".join([*texts, execution.toString(), *json])


def test_a_table_lives_on_the_store(lake: SparkSession, server: S3Server, bucket: str) -> None:
    lake.sql("CREATE TABLE t (k INT, day STRING, v STRING) PARTITIONED BY (day) TBLPROPERTIES ('primary-key'='k,day')")
    lake.sql("INSERT INTO t SELECT CAST(id AS INT), IF(id < 50, 'mon', 'tue'), 'new' FROM range(100)")
    lake.sql("INSERT INTO t VALUES (1, 'mon', 'paid'), (99, 'tue', 'paid')")
    lake.sql("DELETE FROM t WHERE k = 2")
    counts = "SELECT v, count(*) FROM t GROUP BY v"
    assert taken(lake.sql(counts)) == [("new", 97), ("paid", 2)]
    assert taken(lake.sql("SELECT count(*) FROM t VERSION AS OF 1")) == [(100,)]
    done = lake.sql("CALL sys.compact(table => 'db.t')").collect()[0].asDict()
    assert done["files_out"] >= 2
    assert taken(lake.sql(counts)) == [("new", 97), ("paid", 2)]
    lake.sql("CALL sys.create_tag(table => 'db.t', tag => 'first', snapshot => 1)")
    lake.sql("CALL sys.expire_snapshots(table => 'db.t', retain_max => 1)")
    assert taken(lake.sql("SELECT count(*) FROM t VERSION AS OF 'first'")) == [(100,)]
    lake.sql("ALTER TABLE t RENAME TO u")
    assert taken(lake.sql("SELECT * FROM u WHERE k = 1")) == [(1, "mon", "paid")]
    lake.sql("DROP TABLE u")
    lake.sql("DROP DATABASE db CASCADE")
    assert server.keys(bucket, "warehouse/db.db") == []


def test_append_tables_change_rows_where_they_are(lake: SparkSession) -> None:
    lake.sql("CREATE TABLE a (k INT, v STRING)")
    lake.sql("INSERT INTO a SELECT CAST(id AS INT), 'x' FROM range(10)")
    lake.sql("UPDATE a SET v = 'y' WHERE k = 3")
    lake.sql("MERGE INTO a USING (SELECT 4 AS k) s ON a.k = s.k WHEN MATCHED THEN DELETE")
    assert taken(lake.sql("SELECT v, count(*) FROM a GROUP BY v")) == [("x", 8), ("y", 1)]


def test_workers_read_where_the_hadoop_client_is_missing(lake: SparkSession) -> None:
    if _has_client(lake):
        pytest.skip("Hadoop's client is on the class path of this Spark")
    lake.sql("CREATE TABLE a (k INT)")
    lake.sql("INSERT INTO a VALUES (1), (2)")
    frame = lake.sql("SELECT * FROM a WHERE k > 1")
    assert HINT in lake.sql("EXPLAIN SELECT * FROM a WHERE k > 1").collect()[0][0]
    assert taken(frame) == [(2,)]


def _has_client(session: SparkSession) -> bool:
    loader = session._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    with contextlib.suppress(Exception):
        return bool(loader.loadClass("org.apache.hadoop.fs.s3a.S3AFileSystem"))
    return False


def test_hadoops_own_options_reach_the_store(
    spark_app: SparkSession, server: S3Server, bucket: str, request: pytest.FixtureRequest
) -> None:
    """Those of `spark.hadoop.*` and of core-site.xml end where this test puts them."""
    session, hadoop = spark_app.newSession(), spark_app.sparkContext._jsc.hadoopConfiguration()
    own = f"fs.s3a.bucket.{bucket}"
    hadoop.set("fs.s3a.secret.key", server.secret_key)
    hadoop.set("fs.s3a.access.key", "wrong")
    hadoop.set(f"{own}.access.key", server.access_key)
    hadoop.set(f"{own}.endpoint", server.endpoint)
    hadoop.set(f"{own}.path.style.access", "true")
    request.addfinalizer(lambda: [hadoop.unset(f"fs.s3a.{k}.key") for k in ("secret", "access")])
    add_catalog(session, "hadoop_lake", f"s3a://{bucket}/w", {})
    session.sql("CREATE TABLE hadoop_lake.default.t (k INT)")
    session.sql("INSERT INTO hadoop_lake.default.t VALUES (7)")
    assert taken(session.table("hadoop_lake.default.t")) == [(7,)]
    path = f"s3a://{bucket}/elsewhere/t"
    session.range(3).write.format("paimon").save(path)
    assert taken(session.read.format("paimon").load(path)) == [(0,), (1,), (2,)]


def test_a_path_takes_the_options_of_the_read(spark_app: SparkSession, server: S3Server, bucket: str) -> None:
    path = f"s3://{bucket}/by/path"
    spark_app.range(3).write.format("paimon").options(**server.options).option("file.format", "orc").save(path)
    frame = spark_app.read.format("paimon").options(**server.options).load(path)
    assert taken(frame.filter("id > 0")) == [(1,), (2,)]
    assert SECRET_KEY not in plans(frame)
    for key in server.keys(bucket):
        assert SECRET_KEY.encode() not in server.client().get_object(Bucket=bucket, Key=key)["Body"].read()


def test_credentials_are_nowhere_to_be_seen(lake: SparkSession) -> None:
    lake.sql("CREATE TABLE t (k INT, v STRING) TBLPROPERTIES ('primary-key'='k')")
    lake.sql("INSERT INTO t VALUES (1, 'a')")
    frame = lake.sql("SELECT * FROM t WHERE v = 'a'")
    shown = [plans(frame), repr(frame)]
    statements = (
        "SHOW TBLPROPERTIES t",
        "SHOW CREATE TABLE t",
        "DESCRIBE TABLE EXTENDED t",
        "DESCRIBE NAMESPACE EXTENDED db",
        "SELECT * FROM `t$options`",
        "SELECT * FROM `t$schemas`",
        "SELECT * FROM sys.all_table_options",
        "EXPLAIN CALL sys.compact(table => 'db.t')",
        "SET",
        "SET -v",
    )
    shown.extend(str(lake.sql(statement).collect()) for statement in statements)
    for statement in ("SELECT * FROM none", "SELECT nothing FROM t", "CALL sys.compact(table => 'db.none')"):
        with pytest.raises(Exception) as e:
            lake.sql(statement)
        shown.append(str(e.value))
    log = Path(tempfile.gettempdir(), f"paimon-spark-{getpass.getuser()}")
    pid = lake._jvm.java.lang.ProcessHandle.current().pid()
    shown.append((log / f"engine-{pid}.log").read_text(encoding="utf-8"))
    for text in shown:
        assert SECRET_KEY not in text
        assert ACCESS_KEY not in text


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"s3.secret-key": SECRET_KEY, "s3.access-key": "AKIAWRONG"}, "STORE_ACCESS_DENIED"),
        ({"s3.endpoint": "http://127.0.0.1:9"}, "STORE_UNAVAILABLE"),
        ({"warehouse": "s3://there-is-no-such-bucket/w"}, "BUCKET_NOT_FOUND"),
    ],
)
def test_a_wrong_catalog_is_told_within_seconds(
    spark_app: SparkSession, server: S3Server, bucket: str, change: dict[str, str], code: str
) -> None:
    session = spark_app.newSession()
    add_catalog(session, "bad", change.get("warehouse", f"s3://{bucket}/w"), server.options | change)
    for statement in (
        "SHOW TABLES IN bad.default",
        "CREATE TABLE bad.default.t (k INT)",
        "SELECT * FROM bad.default.t",
    ):
        started = time.monotonic()
        with pytest.raises(Exception, match=code) as e:
            session.sql(statement).collect()
        assert time.monotonic() - started < 20
        assert SECRET_KEY not in str(e.value)

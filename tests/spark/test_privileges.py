"""Privileges in Spark: SQL, frames, streams and CALLs of catalogs with different users of one warehouse."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.query_results import rows


@pytest.fixture(scope="module")
def session(spark_app: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """A session with the catalogs `root`, `reader`, `writer`, `both` and `anonymous` of one warehouse."""
    session, warehouse = spark_app.newSession(), tmp_path_factory.mktemp("guarded")

    def login(catalog: str, user: str | None) -> None:
        session.conf.set(f"spark.sql.catalog.{catalog}", "paimon.spark.Catalog")
        session.conf.set(f"spark.sql.catalog.{catalog}.warehouse", str(warehouse))
        if user is not None:
            session.conf.set(f"spark.sql.catalog.{catalog}.user", user)
            session.conf.set(f"spark.sql.catalog.{catalog}.password", f"of {user}")

    login("anonymous", None)
    session.sql("USE anonymous")
    session.sql("CREATE DATABASE db")
    keyed = "TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '2')"
    for name, properties in {"t": keyed, "appended": "", "more": keyed}.items():
        session.sql(f"CREATE TABLE db.{name} (k INT, v STRING) {properties}")
        session.sql(f"INSERT INTO db.{name} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    session.sql("CALL sys.init_file_based_privilege('of root')")
    login("root", "root")
    for user, privileges in {"reader": ["SELECT"], "writer": ["INSERT"], "both": ["SELECT", "INSERT"]}.items():
        session.sql(f"CALL root.sys.create_privileged_user('{user}', 'of {user}')")
        for privilege in privileges:
            session.sql(f"CALL root.sys.grant_privilege_to_user('{user}', '{privilege}', 'db')")
        login(user, user)
    return session


def refused(run: Callable[[], object], what: str, *told: str) -> None:
    try:
        found = run()
        if isinstance(found, DataFrame):
            found.collect()
    except PySparkException as error:
        message = str(error)
    else:
        message = "nothing is refused"
    for text in ("PRIVILEGE_MISSING", *told):
        assert text in message, what


READS = (
    "SELECT * FROM {}.db.t",
    "SELECT count(*) FROM {}.db.appended",
    "SELECT * FROM {}.db.t VERSION AS OF 1",
    "SELECT * FROM {}.db.`t$audit_log`",
    "SELECT * FROM {}.db.`t$files`",
    "SELECT * FROM {}.db.`t$ro`",
)
CHANGES = (
    "DELETE FROM {}.db.t WHERE k = 3",
    "DELETE FROM {}.db.appended WHERE k = 3",
    "UPDATE {}.db.t SET v = 'x' WHERE k = 2",
    "UPDATE {}.db.appended SET v = 'x' WHERE k = 2",
    "MERGE INTO {}.db.t USING (SELECT 9 AS k, 'z' AS v) s ON t.k = s.k WHEN NOT MATCHED THEN INSERT *",
    "INSERT INTO {0}.db.appended SELECT * FROM {0}.db.t",
)
WRITES = (
    "INSERT INTO {}.db.t VALUES (4, 'd')",
    "INSERT INTO {}.db.appended VALUES (4, 'd')",
    "INSERT OVERWRITE {}.db.more VALUES (5, 'e')",
    "TRUNCATE TABLE {}.db.more",
    "CALL {}.sys.create_tag('db.t', 'x')",
    "CALL {}.sys.delete_tag('db.t', 'x')",
    "CALL {}.sys.compact('db.t')",
    "CALL {}.sys.expire_snapshots('db.t', 5)",
)
DEFINITIONS = (
    "ALTER TABLE {}.db.t SET TBLPROPERTIES ('snapshot.num-retained.max' = '50')",
    "ALTER TABLE {}.db.t ADD COLUMN w INT",
    "ALTER TABLE {}.db.t RENAME TO db.u",
    "DROP TABLE {}.db.t",
    "CREATE TABLE {}.db.new (k INT)",
    "CREATE TABLE {}.db.new AS SELECT 1 AS k",
    "CREATE OR REPLACE TABLE {}.db.t (k INT)",
    "CREATE VIEW {}.db.w AS SELECT 1",
    "CREATE DATABASE {}.other",
    "DROP DATABASE {}.db CASCADE",
    "CALL {}.sys.create_privileged_user('x', 'y')",
)


def test_statements_by_privilege(session: SparkSession) -> None:
    before = state(session)
    for texts, catalogs in (
        (READS, ("anonymous", "writer")),
        (CHANGES, ("anonymous", "reader", "writer")),
        (WRITES, ("anonymous", "reader")),
        (DEFINITIONS, ("both",)),
    ):
        for text in texts:
            for catalog in catalogs:
                statement = text.format(catalog)
                refused(partial(session.sql, statement), statement, f"'{catalog}'", "grant_privilege_to_user")
    assert state(session) == before
    for texts, catalog in ((READS, "reader"), (CHANGES, "both"), (WRITES, "writer")):
        for text in texts:
            session.sql(text.format(catalog)).collect()
    assert rows(session, "SELECT k, v FROM root.db.t ORDER BY k") == [(1, "a"), (2, "x"), (4, "d"), (9, "z")]


def state(session: SparkSession) -> dict[str, bytes]:
    warehouse = Path(session.conf.get("spark.sql.catalog.root.warehouse"))
    return {str(f): f.read_bytes() for f in warehouse.rglob("*") if f.is_file()}


def test_definitions_are_visible(session: SparkSession) -> None:
    assert ("db",) in rows(session, "SHOW DATABASES IN anonymous")
    assert {r[1] for r in rows(session, "SHOW TABLES IN anonymous.db")} == {"t", "appended", "more"}
    assert rows(session, "DESCRIBE anonymous.db.t")[:2] == [("k", "int", None), ("v", "string", None)]
    assert "primary-key" in rows(session, "SHOW CREATE TABLE anonymous.db.t")[0][0]


def test_frames_and_streams(session: SparkSession, tmp_path: Path) -> None:
    frame = session.createDataFrame([(7, "g")], "k INT, v STRING")
    refused(lambda: frame.writeTo("reader.db.more").append(), "append", "INSERT on table db.more")
    frame.writeTo("writer.db.more").append()
    refused(lambda: session.table("writer.db.more").collect(), "read", "SELECT on table db.more")
    assert session.table("reader.db.more").collect() == [(7, "g")]

    def copied(source: str, target: str, place: str) -> None:
        stream = session.readStream.table(f"{source}.db.more").writeStream.trigger(availableNow=True)
        stream.option("checkpointLocation", str(tmp_path / place)).toTable(f"{target}.db.appended").awaitTermination()

    refused(lambda: copied("writer", "writer", "a"), "a stream", "SELECT on table db.more")
    refused(lambda: copied("reader", "reader", "b"), "a stream", "INSERT on table db.appended")
    copied("reader", "writer", "c")
    assert rows(session, "SELECT * FROM root.db.appended WHERE k = 7") == [(7, "g")]


def test_a_wrong_password_in_spark(session: SparkSession) -> None:
    session.conf.set("spark.sql.catalog.wrong", "paimon.spark.Catalog")
    session.conf.set("spark.sql.catalog.wrong.warehouse", session.conf.get("spark.sql.catalog.root.warehouse"))
    session.conf.set("spark.sql.catalog.wrong.user", "root")
    session.conf.set("spark.sql.catalog.wrong.password", "not it")
    with pytest.raises(PySparkException, match="LOGIN_FAILED") as e:
        session.sql("SELECT * FROM wrong.db.t")
    assert "not it" not in str(e.value)
    shown = dict(rows(session, "SET"))
    assert "not it" not in str(shown)

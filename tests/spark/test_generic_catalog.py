"""The session catalog replaced by one with Paimon tables and Spark's own side by side."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlparse

import pytest
from pyspark.errors import AnalysisException, SparkRuntimeException
from pyspark.sql import SparkSession

from tests.query_results import rows


@pytest.fixture
def session(spark_app: SparkSession) -> SparkSession:
    """A session whose `spark_catalog` is the generic catalog; its warehouse is Spark's own."""
    session = spark_app.newSession()
    session.conf.set("spark.sql.catalog.spark_catalog", "paimon.spark.GenericCatalog")
    return session


def test_a_statement_replaces_the_session_catalog(spark_app: SparkSession) -> None:
    session = spark_app.newSession()
    session.sql("USE spark_catalog")
    statement = "CREATE CATALOG {}spark_catalog WITH ('type' = 'paimon-generic')"
    session.sql(statement.format(""))
    session.sql(statement.format("IF NOT EXISTS "))
    with pytest.raises(AnalysisException, match=r"is paimon\.spark\.GenericCatalog already"):
        session.sql(statement.format(""))
    database = f"g_{uuid.uuid4().hex[:8]}"
    session.sql(f"CREATE DATABASE {database}")
    try:
        session.sql(f"CREATE TABLE {database}.p (id INT) USING paimon")
        session.sql(f"CREATE TABLE {database}.f (id INT) USING parquet")
        assert [provider(session, f"{database}.{t}") for t in "pf"] == ["paimon", "parquet"]
    finally:
        session.sql(f"DROP DATABASE {database} CASCADE")


@pytest.fixture
def generic(session: SparkSession) -> Iterator[SparkSession]:
    """A session in a fresh database of the generic catalog."""
    database = f"g_{uuid.uuid4().hex[:8]}"
    session.sql(f"CREATE DATABASE {database}")
    session.sql(f"USE {database}")
    yield session
    session.sql("USE default")
    session.sql(f"DROP DATABASE IF EXISTS {database} CASCADE")


def directory(spark: SparkSession) -> Path:
    """Where the tables of the current database are."""
    warehouse = Path(urlparse(spark.conf.get("spark.sql.warehouse.dir")).path)
    return warehouse / f"{spark.catalog.currentDatabase()}.db"


def provider(spark: SparkSession, table: str) -> str:
    described = {r[0]: r[1] for r in rows(spark, f"DESCRIBE TABLE EXTENDED {table}")}
    return described["Provider"].lower()


def test_both_kinds_live_side_by_side(generic: SparkSession) -> None:
    generic.sql("CREATE TABLE p (id INT, v STRING) USING paimon TBLPROPERTIES ('primary-key'='id')")
    generic.sql("CREATE TABLE f (id INT, v STRING) USING parquet")
    generic.sql("CREATE TABLE n (id INT)")
    assert [provider(generic, t) for t in ("p", "f", "n")] == ["paimon", "parquet", "paimon"]
    assert sorted(r[1] for r in rows(generic, "SHOW TABLES")) == ["f", "n", "p"]
    for table in ("p", "f"):
        generic.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
        generic.sql(f"INSERT INTO {table} VALUES (2, 'c')")
    assert rows(generic, "SELECT * FROM p ORDER BY id") == [(1, "a"), (2, "c")]
    assert rows(generic, "SELECT * FROM f ORDER BY id, v") == [(1, "a"), (2, "b"), (2, "c")]
    assert rows(generic, "SELECT count(*) FROM p JOIN f USING (id)") == [(3,)]
    generic.sql("INSERT OVERWRITE f SELECT * FROM p")
    generic.sql("INSERT OVERWRITE p SELECT id + 10, v FROM f")
    assert rows(generic, "SELECT * FROM p ORDER BY id") == [(11, "a"), (12, "c")]
    assert rows(generic, "SELECT count(*) FROM `p$snapshots`") == [(3,)]


def test_paimon_tables_are_in_sparks_warehouse(generic: SparkSession) -> None:
    generic.sql("CREATE TABLE p (id INT)")
    assert (directory(generic) / "p" / "schema" / "schema-0").is_file()


def test_tables_are_dropped_and_renamed_where_they_are(generic: SparkSession) -> None:
    generic.sql("CREATE TABLE p (id INT)")
    generic.sql("CREATE TABLE f (id INT) USING parquet")
    for table in ("p", "f"):
        with pytest.raises((AnalysisException, SparkRuntimeException), match="ALREADY_EXISTS"):
            generic.sql(f"CREATE TABLE {table} (id INT) USING parquet")
        with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
            generic.sql(f"CREATE TABLE {table} (id INT) USING paimon")
        generic.sql(f"ALTER TABLE {table} RENAME TO {table}2")
        generic.sql(f"ALTER TABLE {table}2 ADD COLUMNS (w STRING)")
        assert generic.table(f"{table}2").columns == ["id", "w"]
    assert sorted(r[1] for r in rows(generic, "SHOW TABLES")) == ["f2", "p2"]
    generic.sql("DROP TABLE p2")
    generic.sql("DROP TABLE f2")
    assert rows(generic, "SHOW TABLES") == []
    with pytest.raises(AnalysisException, match="NOT_FOUND"):
        generic.sql("SELECT * FROM p2")
    with pytest.raises(AnalysisException, match="NOT_FOUND"):
        generic.sql("DROP TABLE f2")


def test_no_table_or_view_hides_another_one(generic: SparkSession, tmp_path: Path) -> None:
    elsewhere, other = (f"LOCATION 'file:{tmp_path}/{name}'" for name in ("f", "p"))
    generic.sql("CREATE TABLE p (id INT)")
    generic.sql("INSERT INTO p VALUES (1)")
    generic.sql(f"CREATE TABLE f (id INT) USING parquet {elsewhere}")
    generic.sql("CREATE VIEW v AS SELECT 1 AS id")
    generic.sql(f"CREATE TABLE IF NOT EXISTS p (other INT) USING parquet {other}")
    for statement in (
        f"CREATE TABLE p (other INT) USING parquet {other}",
        f"CREATE TABLE p USING parquet {other} AS SELECT 2 AS other",
        "CREATE VIEW p AS SELECT 2 AS other",
        "CREATE OR REPLACE VIEW p AS SELECT 2 AS other",
        "ALTER TABLE f RENAME TO p",
        "ALTER VIEW v RENAME TO p",
        "ALTER TABLE p RENAME TO f",
        "ALTER TABLE p RENAME TO v",
    ):
        with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
            generic.sql(statement)
    assert sorted(r[1] for r in rows(generic, "SHOW TABLES")) == ["f", "p", "v"]
    generic.sql("DROP VIEW v")
    generic.sql("ALTER TABLE p RENAME TO v")
    assert rows(generic, "SELECT * FROM v") == [(1,)]


def test_tables_from_queries_and_frames(generic: SparkSession) -> None:
    generic.sql("CREATE TABLE p TBLPROPERTIES ('primary-key'='id') AS SELECT 1 AS id, 'x' AS v")
    generic.sql("CREATE TABLE f USING parquet AS SELECT * FROM p")
    generic.sql("CREATE TABLE l LIKE p USING paimon")
    generic.table("p").write.format("parquet").saveAsTable("g")
    generic.table("p").write.format("paimon").saveAsTable("q")
    generic.table("p").write.mode("append").saveAsTable("f")
    assert [provider(generic, t) for t in "pflgq"] == ["paimon", "parquet", "paimon", "parquet", "paimon"]
    counts = {t: rows(generic, f"SELECT count(*) FROM {t}")[0][0] for t in "pflgq"}
    assert counts == {"p": 1, "f": 2, "l": 0, "g": 1, "q": 1}


def test_commands_of_sparks_own_tables_work_as_ever(generic: SparkSession) -> None:
    generic.sql("CREATE TABLE f (id INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    generic.sql("INSERT INTO f VALUES (1, 'a'), (2, 'b')")
    generic.sql("ANALYZE TABLE f COMPUTE STATISTICS")
    assert "USING parquet" in rows(generic, "SHOW CREATE TABLE f")[0][0]
    assert rows(generic, "SHOW PARTITIONS f") == [("dt=a",), ("dt=b",)]
    generic.sql("ALTER TABLE f DROP PARTITION (dt = 'a')")
    generic.sql("ALTER TABLE f SET TBLPROPERTIES ('x'='y')")
    generic.sql("CREATE VIEW v AS SELECT id FROM f")
    assert rows(generic, "SELECT * FROM v") == [(2,)]
    generic.sql("DROP VIEW v")
    generic.sql("TRUNCATE TABLE f")
    assert rows(generic, "SELECT * FROM f") == []


def test_databases_are_the_session_catalogs(session: SparkSession) -> None:
    session.sql("CREATE DATABASE g_one COMMENT 'of the session catalog'")
    assert ("g_one",) in rows(session, "SHOW DATABASES")
    shown = dict(rows(session, "DESCRIBE DATABASE g_one"))
    assert shown["Comment"] == "of the session catalog"
    session.sql("CREATE TABLE g_one.p (id INT)")
    with pytest.raises(AnalysisException, match=r"(?i)not.?empty"):
        session.sql("DROP DATABASE g_one")
    session.sql("DROP DATABASE g_one CASCADE")
    assert ("g_one",) not in rows(session, "SHOW DATABASES")
    with pytest.raises(AnalysisException, match="NOT_FOUND"):
        session.sql("CREATE TABLE g_one.p (id INT)")
    session.sql("CREATE DATABASE g_one")
    assert rows(session, "SHOW TABLES IN g_one") == []
    session.sql("DROP DATABASE g_one")


def test_procedures_run(generic: SparkSession) -> None:
    generic.sql("CREATE TABLE p (id INT) TBLPROPERTIES ('primary-key'='id', 'bucket'='1')")
    generic.sql("INSERT INTO p VALUES (1)")
    generic.sql("INSERT INTO p VALUES (2)")
    assert generic.sql("CALL sys.compact(table => 'p')").collect()[0].status == "done"
    assert generic.sql("CALL spark_catalog.sys.compact(table => 'p')").collect()[0].status == "nothing to do"
    assert generic.sql("CALL sys.compact(table => :t)", args={"t": "p"}).collect()[0].status == "nothing to do"
    assert rows(generic, "SELECT * FROM p VERSION AS OF 1") == [(1,)]

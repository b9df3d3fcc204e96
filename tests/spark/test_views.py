"""Permanent views in a Paimon catalog."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.query_results import rows


@pytest.fixture
def base(spark: SparkSession) -> SparkSession:
    """A session with a table `t` of two rows."""
    spark.sql("CREATE TABLE t (id INT, name STRING) TBLPROPERTIES ('primary-key' = 'id')")
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    return spark


def test_names_resolve_where_the_view_was_created(base: SparkSession) -> None:
    database = base.catalog.currentDatabase()
    base.sql("CREATE VIEW v (n COMMENT 'the name', k) COMMENT 'named' AS SELECT name, id FROM t WHERE id > 1")
    base.sql("CREATE VIEW w AS SELECT n AS m FROM v WHERE k IN (SELECT id FROM t)")
    base.sql("USE spark_catalog.default")
    assert rows(base, f"SELECT * FROM paimon.{database}.v") == [("b", 2)]
    assert rows(base, f"SELECT w.m, paimon.{database}.w.m FROM paimon.{database}.w") == [("b", "b")]
    base.sql(f"INSERT INTO paimon.{database}.t VALUES (2, 'c'), (3, 'd')")
    assert rows(base, f"SELECT max(n), count(*) FROM paimon.{database}.v") == [("d", 2)]
    other = base.newSession()
    assert other.table(f"paimon.{database}.w").columns == ["m"]
    assert rows(other, f"SELECT v.n FROM paimon.{database}.t JOIN paimon.{database}.v ON t.id = v.k ORDER BY 1") == [
        ("c",),
        ("d",),
    ]


def test_views_are_listed_described_and_shown(base: SparkSession) -> None:
    base.sql("CREATE VIEW v (n COMMENT 'the name') COMMENT 'c' TBLPROPERTIES ('x' = 'y') AS SELECT name FROM t")
    database = base.catalog.currentDatabase()
    assert rows(base, "SHOW VIEWS") == [(database, "v", False)]
    assert rows(base, f"SHOW VIEWS IN paimon.{database} LIKE 'w*'") == []
    assert [r[1] for r in rows(base, "SHOW TABLES")] == ["t", "v"]
    assert rows(base, "DESCRIBE v") == [("n", "string", "the name")]
    details = {r[0]: r[1] for r in rows(base, "DESCRIBE EXTENDED v")}
    assert (details["Type"], details["View Text"]) == ("VIEW", "SELECT name FROM t")
    assert details["View Catalog and Namespace"] == f"paimon.{database}"
    (shown,) = rows(base, "SHOW CREATE TABLE v")[0]
    base.sql("DROP VIEW v")
    base.sql(shown)
    assert rows(base, "SHOW CREATE TABLE v") == [(shown,)]
    assert rows(base, "SHOW TBLPROPERTIES v ('x')") == [("x", "y")]
    assert rows(base, "SHOW COLUMNS IN v") == [("n",)]
    told = {t.name: (t.tableType, t.description, t.catalog) for t in base.catalog.listTables()}
    assert told == {"t": ("MANAGED", None, "paimon"), "v": ("VIEW", "c", "paimon")}
    assert base.catalog.getTable("v").namespace == [database]
    assert base.catalog.tableExists("v")
    assert [c.name for c in base.catalog.listColumns("v")] == ["n"]


def test_views_are_replaced_altered_and_renamed(base: SparkSession) -> None:
    base.sql("CREATE VIEW v COMMENT 'c' TBLPROPERTIES ('x' = 'y', 'z' = '1') AS SELECT id FROM t")
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        base.sql("CREATE VIEW v AS SELECT id FROM t")
    base.sql("CREATE VIEW IF NOT EXISTS v AS SELECT name FROM t")
    assert base.table("v").columns == ["id"]
    base.sql("ALTER VIEW v AS SELECT name FROM t")
    base.sql("ALTER VIEW v SET TBLPROPERTIES ('x' = 'w')")
    base.sql("ALTER VIEW v UNSET TBLPROPERTIES ('z')")
    base.sql("ALTER VIEW v RENAME TO w")
    assert base.table("w").columns == ["name"]
    assert rows(base, "SHOW TBLPROPERTIES w") == [("x", "w")]
    assert ("Comment", "c", "") in rows(base, "DESCRIBE EXTENDED w")
    base.sql("CREATE OR REPLACE VIEW w AS SELECT 1 AS one")
    assert rows(base, "SELECT * FROM w") == [(1,)]
    with pytest.raises(AnalysisException, match=r"VIEW_NOT_FOUND.*Did you mean 'w'"):
        base.sql("ALTER VIEW ww AS SELECT 1")
    base.sql("DROP VIEW IF EXISTS v")
    base.sql("DROP VIEW w")
    with pytest.raises(AnalysisException, match="VIEW_NOT_FOUND"):
        base.sql("DROP VIEW w")


def test_a_table_and_a_view_do_not_share_a_name(base: SparkSession) -> None:
    base.sql("CREATE VIEW v AS SELECT id FROM t")
    for statement in (
        "CREATE TABLE v (id INT)",
        "CREATE VIEW t AS SELECT 1 AS a",
        "CREATE OR REPLACE VIEW t AS SELECT 1",
    ):
        with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
            base.sql(statement)
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        base.sql("ALTER TABLE t RENAME TO v")
    with pytest.raises(AnalysisException, match=r"ALREADY_EXISTS.*`t`"):
        base.sql("ALTER VIEW v RENAME TO t")
    with pytest.raises(AnalysisException, match="is a table, not a view"):
        base.sql("DROP VIEW t")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO v VALUES (1)",
        "DELETE FROM v",
        "UPDATE v SET id = 1",
        "MERGE INTO v USING t ON v.id = t.id WHEN MATCHED THEN DELETE",
        "DROP TABLE v",
        "DROP TABLE IF EXISTS v",
        "ALTER TABLE v ADD COLUMN x INT",
        "ALTER TABLE v RENAME TO w",
        "SELECT * FROM v VERSION AS OF 1",
        "SELECT * FROM v WITH ('scan.snapshot-id' = '1')",
        "TRUNCATE TABLE v",
        "ANALYZE TABLE v COMPUTE STATISTICS",
        "ANALYZE TABLE v COMPUTE STATISTICS FOR ALL COLUMNS",
        "CALL sys.compact(table => 'v')",
    ],
)
def test_what_only_tables_can_do_is_refused(base: SparkSession, statement: str) -> None:
    base.sql("CREATE VIEW v AS SELECT id FROM t")
    with pytest.raises(Exception, match="is a view"):
        base.sql(statement).collect()
    assert rows(base, "SELECT count(*) FROM v") == [(2,)]


def test_a_new_name_that_a_view_reads_is_refused(base: SparkSession) -> None:
    base.sql("CREATE VIEW v AS SELECT id FROM t")
    base.sql("CREATE VIEW w AS SELECT 1 AS id WHERE 1 IN (WITH own AS (SELECT id FROM v) SELECT id FROM own)")
    base.sql("DROP TABLE t")
    for view in ("v", "w"):
        with pytest.raises(AnalysisException, match=r"INVALID_ARGUMENT.*would read itself"):
            base.sql(f"ALTER VIEW {view} RENAME TO T")
    base.sql("ALTER VIEW w RENAME TO own")
    assert [r[1] for r in rows(base, "SHOW VIEWS")] == ["own", "v"]


def test_a_wrong_name_is_that_of_a_view(base: SparkSession) -> None:
    for statement in ("CREATE VIEW `a/b` AS SELECT id FROM t", "DROP VIEW `a$b`", "ALTER VIEW `a/b` AS SELECT 1"):
        with pytest.raises(Exception, match=r"The view name 'a.b' contains the character"):
            base.sql(statement)


def test_a_query_that_cannot_last_is_refused(base: SparkSession) -> None:
    base.sql("CREATE TEMPORARY VIEW passing AS SELECT 1 AS a")
    base.udf.register("passing_function", lambda x: x)
    base.sql("DECLARE VARIABLE passing_variable INT")
    base.sql("CREATE VIEW v AS SELECT id FROM t")
    base.sql("CREATE VIEW w AS SELECT id FROM v")
    for query, message in {
        "SELECT * FROM passing": "passing",
        "SELECT id FROM t WHERE id IN (SELECT a FROM passing)": "passing",
        "SELECT passing_function(id) AS x FROM t": "passing_function",
        "SELECT passing_variable AS x": "passing_variable",
        "SELECT id FROM missing": "TABLE_OR_VIEW_NOT_FOUND",
        "SELECT count(*) FROM t WHERE missing = 1": "missing",
        "SELECT id, id FROM t": "COLUMN_ALREADY_EXISTS",
        "SELECT id + 1 FROM t": "(?i)alias",
        "SELECT id FROM w": "would read itself",
        "SELECT 1 AS id WHERE EXISTS (SELECT id FROM w)": "would read itself",
    }.items():
        with pytest.raises(AnalysisException, match=message):
            base.sql(f"CREATE OR REPLACE VIEW v AS {query}")
        assert rows(base, "SELECT count(*) FROM w") == [(2,)], query
    with pytest.raises(AnalysisException, match="declares 1 columns"):
        base.sql("CREATE VIEW x (a) AS SELECT id, name FROM t")
    with pytest.raises(AnalysisException, match=r"UNSUPPORTED_FEATURE.*SCHEMA EVOLUTION"):
        base.sql("CREATE VIEW x WITH SCHEMA EVOLUTION AS SELECT id FROM t")


def test_changes_of_the_base_table(base: SparkSession) -> None:
    base.sql("ALTER TABLE t ADD COLUMN n INT")
    base.sql("CREATE VIEW v AS SELECT * FROM t")
    base.sql("ALTER TABLE t ADD COLUMN more INT")
    base.sql("ALTER TABLE t ALTER COLUMN n TYPE BIGINT")
    assert base.table("v").dtypes == [("id", "int"), ("name", "string"), ("n", "int")]
    assert rows(base, "SELECT * FROM v ORDER BY id") == [(1, "a", None), (2, "b", None)]
    base.sql("ALTER TABLE t DROP COLUMN name")
    with pytest.raises(AnalysisException, match="INCOMPATIBLE_VIEW_SCHEMA_CHANGE"):
        base.sql("SELECT * FROM v")
    base.sql("DROP TABLE t")
    with pytest.raises(AnalysisException, match=r"Table '.*\.t' does not exist.*The view .*v.? reads it"):
        base.sql("SELECT * FROM v")
    base.sql("DROP VIEW v")


def test_a_view_that_names_a_dropped_column(base: SparkSession) -> None:
    base.sql("CREATE VIEW v AS SELECT id, name FROM t")
    base.sql("ALTER TABLE t DROP COLUMN name")
    said = r"UNRESOLVED_COLUMN.*`name`.*The view .*v.? reads it: CREATE OR REPLACE VIEW"
    with pytest.raises(AnalysisException, match=said):
        base.sql("SELECT * FROM v")
    assert "name" in rows(base, "SHOW CREATE TABLE v")[0][0]
    with pytest.raises(AnalysisException) as caught:
        base.sql("SELECT name FROM t")
    assert "The view" not in str(caught.value)


def test_settings_of_the_session_that_created_the_view(base: SparkSession) -> None:
    base.sql("SET spark.sql.ansi.enabled = false")
    base.sql("CREATE VIEW v AS SELECT CAST('x' AS INT) AS n")
    base.sql("SET spark.sql.ansi.enabled = true")
    assert rows(base, "SELECT n FROM v") == [(None,)]


def test_a_temporary_view_hides_a_permanent_one(base: SparkSession) -> None:
    base.sql("CREATE VIEW v AS SELECT 1 AS a")
    base.sql("CREATE TEMPORARY VIEW v AS SELECT 2 AS a")
    assert rows(base, "SELECT a FROM v") == [(2,)]
    base.sql("DROP VIEW v")
    assert rows(base, "SELECT a FROM v") == [(1,)]
    base.sql("DROP VIEW v")


def test_views_with_ctes_hints_and_changes(base: SparkSession) -> None:
    base.sql("CREATE VIEW c AS WITH x AS (SELECT id FROM t) SELECT a.id FROM x a JOIN x b ON a.id = b.id")
    base.sql("CREATE VIEW h AS SELECT id FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */")
    base.sql("CREATE VIEW i AS SELECT id FROM paimon_incremental_query('t', 0, 1)")
    base.sql("CREATE VIEW s AS SELECT snapshot_id FROM `t$snapshots`")
    base.sql("INSERT INTO t SELECT id + 10, name FROM t")
    counts = [rows(base, f"SELECT count(*) FROM {v}")[0][0] for v in "chis"]
    assert counts == [4, 2, 2, 2]
    base.sql("INSERT INTO t SELECT id + 100, 'v' FROM c")
    assert rows(base, "SELECT count(*) FROM t") == [(8,)]


def test_drop_database_knows_views(base: SparkSession) -> None:
    base.sql("CREATE DATABASE paimon.of_views")
    base.sql("CREATE VIEW paimon.of_views.v AS SELECT 1 AS a")
    with pytest.raises(AnalysisException, match=r"(?i)not.?empty"):
        base.sql("DROP DATABASE paimon.of_views")
    base.sql("DROP DATABASE paimon.of_views CASCADE")
    assert ("of_views",) not in rows(base, "SHOW DATABASES IN paimon")


def test_show_table_extended_is_parsed_as_dbt_does(base: SparkSession) -> None:
    base.sql("CREATE VIEW v COMMENT 'of t' AS SELECT id AS k FROM t")
    base.sql("CREATE TABLE p (d DATE, n DECIMAL(10, 2) NOT NULL) COMMENT 'parts' PARTITIONED BY (d)")
    base.sql("CREATE TEMPORARY VIEW passing AS SELECT 1 AS a")
    found = {r[1]: r for r in rows(base, "SHOW TABLE EXTENDED LIKE '*'")}
    assert {name: (r[0] == base.catalog.currentDatabase(), r[2]) for name, r in found.items()} == {
        "p": (True, False),
        "t": (True, False),
        "v": (True, False),
        "passing": (False, True),
    }
    information = re.compile(r"^ \|-- (.*): (.*) \(nullable = (.*)\b", re.MULTILINE)
    assert information.findall(found["p"][3]) == [("d", "date", "true"), ("n", "decimal(10,2)", "false")]
    assert information.findall(found["v"][3]) == [("k", "integer", "false")]
    assert "Type: VIEW\nProvider: paimon\nComment: of t\n" in found["v"][3]
    assert "Type: MANAGED\nProvider: paimon\nComment: parts\nLocation: " in found["p"][3]
    assert [r[1] for r in rows(base, "SHOW TABLE EXTENDED LIKE 'p'")] == ["p"]
    assert rows(base, "SHOW TABLE EXTENDED IN spark_catalog.default LIKE 'x*'") == []


def test_an_unreadable_table_does_not_hide_the_others(base: SparkSession, warehouse: Path) -> None:
    base.sql("CREATE TABLE broken (id INT)")
    directory = warehouse / f"{base.catalog.currentDatabase()}.db" / "broken" / "schema"
    (directory / "schema-0").write_text("{}")
    found = {r[1]: r[3] for r in rows(base, "SHOW TABLE EXTENDED LIKE '*'")}
    assert sorted(found) == ["broken", "t"]
    assert "Error: [CORRUPT_METADATA]" in found["broken"]
    assert [r[1] for r in rows(base, "SHOW TABLES")] == ["broken", "t"]

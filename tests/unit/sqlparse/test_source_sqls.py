"""Which statements may prepare the source of merge_into."""

from __future__ import annotations

import pytest

from paimon_spark.errors import ArgumentError, SqlSyntaxError
from paimon_spark.sqlparse.source_sqls import CreateCatalog, TemporaryView, UseName, parse_source_sqls


def test_the_kinds_that_may_run() -> None:
    text = """
        -- where the rows are
        CREATE CATALOG other COMMENT 'x y' WITH ('type' = 'paimon', 'warehouse'='/tmp/a b;c');
        USE CATALOG other; use `db 1`; USE other.db;
        create /* why */ or replace TEMP VIEW v AS SELECT 'a;b' AS x -- end
        ;;
        CREATE TEMPORARY VIEW w (a) AS WITH q AS (SELECT /*+ BROADCAST(z) */ 'it''s') SELECT * FROM q
    """
    found = parse_source_sqls(text)
    assert [type(s) for s in found] == [CreateCatalog, UseName, UseName, UseName, TemporaryView, TemporaryView]
    catalog, cat, db, both, v, w = found
    assert isinstance(catalog, CreateCatalog)
    assert (catalog.name, catalog.if_not_exists) == ("other", False)
    assert catalog.options == {"type": "paimon", "warehouse": "/tmp/a b;c"}
    assert [s.name for s in (cat, db, both) if isinstance(s, UseName)] == ["other", "`db 1`", "other.db"]
    assert "why" not in v.text
    assert "-- end" not in v.text
    assert "/*+ BROADCAST(z) */ 'it\\'s'" in w.text


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE t",
        "CREATE TEMPORARY VIEW v AS SELECT 1; DELETE FROM t",
        "CREATE VIEW v AS SELECT 1",
        "CREATE GLOBAL TEMPORARY VIEW v AS SELECT 1",
        "CREATE TEMPORARY VIEW v USING parquet OPTIONS (path '/etc')",
        "CREATE TEMPORARY FUNCTION f AS 'x'",
        "CREATE TABLE t (a INT)",
        "CREATE DATABASE d",
        "INSERT INTO t SELECT 1",
        "SET a = b",
        "CALL sys.compact('db.t')",
        "CACHE TABLE t",
        "ADD JAR 'x'",
        "SELECT 1",
        "BEGIN CREATE TEMPORARY VIEW v AS SELECT 1; DROP TABLE t; END",
        "CREATE /* \r\n*/ TABLE t AS SELECT 1 -- TEMPORARY VIEW v AS SELECT 1",
        "CREATE --\\\r\nTABLE t AS SELECT 1",
        "EXPLAIN CREATE TEMPORARY VIEW v AS SELECT 1",
        "USE a b",
        "CREATE CATALOG c WITH ('type'='hive')",
        "CREATE CATALOG c WITH ('warehouse'='/x')",
        "CREATE CATALOG c WITH ('type'='paimon' 'warehouse'='/x')",
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match="source_sqls"):
        parse_source_sqls(text)


def test_a_line_that_is_a_comment_here_is_never_code_elsewhere() -> None:
    (view,) = parse_source_sqls("CREATE --\\\r\nTABLE t AS SELECT 1 --\nTEMPORARY VIEW v AS SELECT 1")
    assert view.text.split() == ["CREATE", "TEMPORARY", "VIEW", "v", "AS", "SELECT", "1"]


def test_an_open_quote_is_refused() -> None:
    with pytest.raises(SqlSyntaxError):
        parse_source_sqls("CREATE TEMPORARY VIEW v AS SELECT 'x")

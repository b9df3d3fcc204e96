"""Flink's statements, as parsed."""

from __future__ import annotations

import pytest

from paimon_spark.errors import PaimonError, SqlSyntaxError, UnsupportedError
from paimon_spark.spec.column_changes import AddColumn, DropColumn, RenameColumn, UpdateColumnPosition
from paimon_spark.spec.types import DataType, type_to_json
from paimon_spark.sqlparse.cursor import Cursor
from paimon_spark.sqlparse.flink import statements as flink
from paimon_spark.sqlparse.flink.parse import belongs_to_flink, parse_statement
from paimon_spark.sqlparse.flink.types import column_type


def parsed_type(text: str, *, is_flink: bool = True) -> DataType:
    cursor = Cursor(text)
    found = column_type(cursor, flink=is_flink)
    cursor.end()
    return found


@pytest.mark.parametrize(
    ("text", "json"),
    [
        ("int", "INT"),
        ("STRING NOT NULL", "STRING NOT NULL"),
        ("DOUBLE PRECISION", "DOUBLE"),
        ("DECIMAL(10)", "DECIMAL(10, 0)"),
        ("NUMERIC(10, 3)", "DECIMAL(10, 3)"),
        ("TIMESTAMP", "TIMESTAMP(6)"),
        ("TIMESTAMP(9) WITHOUT TIME ZONE", "TIMESTAMP(9)"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE NULL", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        ("BINARY", "BINARY(1)"),
        ("TIME(3)", "TIME(3)"),
        ("ARRAY<ARRAY<INT NOT NULL>>", {"type": "ARRAY", "element": {"type": "ARRAY", "element": "INT NOT NULL"}}),
        ("MAP<STRING, ROW(a INT)>", None),
    ],
)
def test_types(text: str, json: object) -> None:
    found = type_to_json(parsed_type(text))
    assert json is None or found == json


@pytest.mark.parametrize(
    ("text", "json"),
    [
        ("TIMESTAMP", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        ("TIMESTAMP(9)", "TIMESTAMP(9) WITH LOCAL TIME ZONE"),
        ("TIMESTAMP_NTZ", "TIMESTAMP(6)"),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        ("BINARY", "BYTES"),
        ("LONG", "BIGINT"),
    ],
)
def test_sparks_names_of_types(text: str, json: str) -> None:
    assert type_to_json(parsed_type(text, is_flink=False)) == json


@pytest.mark.parametrize(
    "text", ["INTT", "DECIMAL(40, 2)", "VARCHAR(0)", "TIMESTAMP(10)", "MULTISET<INT>", "ROW<>", "MAP<INT>", ""]
)
def test_wrong_types(text: str) -> None:
    with pytest.raises(PaimonError):
        parsed_type(text)


def test_create_table_with_every_clause() -> None:
    found = parse_statement(
        "CREATE TABLE IF NOT EXISTS c.`d b`.t (a INT COMMENT 'it''s', `b c` STRING DEFAULT concat('x', ','), dt STRING, "
        "CONSTRAINT pk PRIMARY KEY (a, dt) NOT ENFORCED) COMMENT 'k' PARTITIONED BY (dt) DISTRIBUTED BY HASH (a) INTO 4 "
        "BUCKETS WITH ('x' = 'y')"
    )
    assert isinstance(found, flink.CreateTable)
    assert found.name == ("c", "d b", "t")
    assert [(f.name, f.description, f.default_value) for f in found.fields] == [
        ("a", "it's", None),
        ("b c", None, "concat('x', ',')"),
        ("dt", None, None),
    ]
    assert (found.primary_key, found.partition_keys, found.comment) == (("a", "dt"), ("dt",), "k")
    assert found.options == {"bucket-key": "a", "bucket": "4", "x": "y"}
    assert found.if_not_exists


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("", 0),
        (" - INTERVAL '5' SECOND", 5_000),
        (" - INTERVAL '1.5' SECOND(3)", 1_500),
        ("-interval 2 hours", 7_200_000),
    ],
)
def test_computed_columns_and_watermarks(text: str, millis: int) -> None:
    found = parse_statement(
        f"CREATE TEMPORARY TABLE t (b AS f(a, ')') COMMENT 'c', a INT, ts AS PROCTIME(), WATERMARK FOR ts AS `TS`{text}) "
        "WITH ('connector' = 'datagen')"
    )
    assert isinstance(found, flink.CreateTable)
    assert [f.name for f in found.fields] == ["a"]
    assert found.computed == (flink.Computed("b", "f(a, ')')", 0), flink.Computed("ts", "current_timestamp()", 1))
    assert found.watermark == flink.Watermark("ts", millis)


def test_the_query_is_the_text_that_was_given() -> None:
    found = parse_statement("CREATE TABLE t (a INT) WITH ('k'='v') AS SELECT /*+ x */ 'a;b'  AS a -- end")
    assert isinstance(found, flink.CreateTable)
    assert found.query == "SELECT /*+ x */ 'a;b'  AS a"


def test_the_columns_may_be_those_of_the_query() -> None:
    found = parse_statement(
        "CREATE TABLE IF NOT EXISTS d.t COMMENT 'c' PARTITIONED BY (p) WITH ('k'='v') AS WITH q AS (SELECT 1) SELECT * FROM q"
    )
    assert found == flink.CreateTable(
        ("d", "t"),
        (),
        {"k": "v"},
        partition_keys=("p",),
        comment="c",
        if_not_exists=True,
        query="WITH q AS (SELECT 1) SELECT * FROM q",
    )
    for text in ("CREATE TABLE t AS WITH q AS (SELECT 1) SELECT * FROM q", "CREATE OR REPLACE TABLE t AS SELECT 1"):
        assert parse_statement(text) is None


@pytest.mark.parametrize("text", ["(a INT) WITH ('k'='v')", "WITH ('k'='v') AS SELECT 1"])
def test_or_replace_is_sparks_alone(text: str) -> None:
    with pytest.raises(UnsupportedError, match=r"TBLPROPERTIES"):
        parse_statement(f"CREATE OR REPLACE TABLE t {text}")


def test_alter_table() -> None:
    added = parse_statement("ALTER TABLE t ADD (a INT FIRST, b STRING AFTER c)")
    assert isinstance(added, flink.AlterColumns)
    assert [(c.column, c.first, c.after) for c in added.changes if isinstance(c, AddColumn)] == [
        (("a",), True, None),
        (("b",), False, "c"),
    ]
    moved = parse_statement("ALTER TABLE t MODIFY a.b BIGINT FIRST")
    assert isinstance(moved, flink.AlterColumns)
    assert UpdateColumnPosition(("a", "b"), None, first=True) in moved.changes
    assert parse_statement("ALTER TABLE t RENAME a TO b") == flink.AlterColumns(("t",), (RenameColumn(("a",), "b"),))
    assert parse_statement("ALTER TABLE t DROP `column`") == flink.AlterColumns(("t",), (DropColumn(("column",)),))
    assert parse_statement("ALTER TABLE IF EXISTS t DROP a") == flink.AlterColumns(("t",), (DropColumn(("a",)),), True)
    assert parse_statement("ALTER TABLE t RESET ('a', 'b')") == flink.SetTableOptions(("t",), removed=("a", "b"))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "SHOW TABLES",
        "CREATE TABLE t AS SELECT 1",
        "CREATE VIEW v AS SELECT 1",
        "ALTER TABLE t RENAME TO u",
        "ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')",
        "ALTER TABLE t DROP PARTITION (a = 1)",
        "ALTER TABLE t ADD COLUMN date",
        "ALTER TABLE t ADD COLUMN c INTT",
        "ALTER TABLE t ADD CONSTRAINT k PRIMARY KEY (a)",
        "ALTER TABLE t DROP COLUMN",
        "USE db",
        "EXECUTE IMMEDIATE 'SELECT 1'",
        "",
        ";",
    ],
)
def test_other_statements_are_sparks(text: str) -> None:
    assert parse_statement(text) is None


def test_statement_sets() -> None:
    text = "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT ';'; INSERT INTO b SELECT 1; END;"
    assert parse_statement(text) == flink.StatementSet(("INSERT INTO a SELECT ';'", "INSERT INTO b SELECT 1"))
    assert parse_statement("BEGIN STATEMENT SET;") == flink.StatementSet()
    with pytest.raises(SqlSyntaxError, match="INSERT statements only, not 'DROP'"):
        parse_statement("EXECUTE STATEMENT SET BEGIN DROP TABLE t; END")


@pytest.mark.parametrize(
    ("text", "owned"),
    [
        ("CREATE CATALOG", True),
        ("USE CATALOG 1", True),
        ("CREATE TABLE t (a INT,) WITH ('a'='b')", True),
        ("CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCD)", False),
        ("CREATE TEMPORARY TABLE t", True),
        ("SET 'a' =", True),
        ("STOP JOB 1", True),
        ("ALTER TABLE t ADD COLUMNS a", False),
        ("SELECT 'a' FRM t", False),
    ],
)
def test_whose_error_a_wrong_statement_has(text: str, *, owned: bool) -> None:
    assert belongs_to_flink(text) is owned


@pytest.mark.parametrize(
    ("clauses", "message"),
    [
        ("COMMENT 'x' COMMENT 'y'", r"more than one COMMENT"),
        ("PARTITIONED BY (a) PARTITIONED BY (b)", r"more than one PARTITIONED BY"),
        ("WITH ('k' = '1') WITH ('l' = '2')", r"more than one WITH"),
        ("WITH ('k' = '1', 'l' = '2', 'k' = '3')", r"the key 'k' more than once"),
        ("DISTRIBUTED INTO 4 BUCKETS WITH ('bucket' = '8')", r"'bucket' is '4', and '8' by the clause WITH"),
    ],
)
def test_clauses_that_contradict_each_other(clauses: str, message: str) -> None:
    with pytest.raises(PaimonError, match=message):
        parse_statement(f"CREATE TABLE t (a INT, b INT) {clauses}")


@pytest.mark.parametrize("text", ["SET 'pipeline.name=a'", "RESET 'pipeline.name=a'", "SET '' = 'a'"])
def test_what_is_no_key(text: str) -> None:
    with pytest.raises(SqlSyntaxError, match=r"is not a key. Write SET 'key' = 'value'"):
        parse_statement(text)


def test_an_unknown_type_names_the_types() -> None:
    with pytest.raises(PaimonError, match=r"'FOR' is not a column type. The types are CHAR"):
        parse_statement("ALTER TABLE t ADD watermark FOR")


@pytest.mark.parametrize("text", ["CREATE CATALOG c WITH ('a'='b'", "SET 'a", "CREATE TABLE t (a INT,) WITH ('x'='y')"])
def test_errors_tell_the_place(text: str) -> None:
    with pytest.raises(SqlSyntaxError, match=r"does not parse|never closed"):
        parse_statement(text)

"""Flink's spelling of statements, in Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import paimon_spark


def rows(spark: SparkSession, sql: str) -> list[tuple]:
    return sorted((tuple(r) for r in spark.sql(sql).collect()), key=repr)


@pytest.fixture
def my_catalog(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """The warehouse of a catalog made by a statement, which is the current one."""
    spark.sql(f"CREATE CATALOG my_catalog WITH ('type' = 'paimon', 'warehouse' = 'file:{tmp_path}/w');")
    spark.sql("USE CATALOG my_catalog;")
    yield tmp_path / "w"
    spark.sql("USE CATALOG paimon")
    spark.sql("DROP CATALOG my_catalog")


def test_a_dropped_catalog_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    create = f"CREATE CATALOG gone WITH ('type' = 'paimon', 'warehouse' = '{tmp_path}/w', 's3.access-key' = 'k')"
    for _ in range(2):
        spark.sql(create)
        assert spark.conf.get("spark.sql.catalog.gone.s3.access-key") == "k"
        spark.sql("DROP CATALOG gone")
        assert spark.conf.get("spark.sql.catalog.gone", None) is None
        assert spark.conf.get("spark.sql.catalog.gone.s3.access-key", None) is None
    with pytest.raises(Exception, match="gone"):
        spark.sql("SHOW DATABASES IN gone").collect()


def test_catalogs_of_other_formats_can_be_used(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.catalog.other", "org.apache.spark.sql.delta.catalog.NoSuchClass")
    with pytest.raises(Exception, match="NoSuchClass"):
        spark.sql("USE CATALOG other")


def column_types(warehouse: Path, table: str) -> dict[str, str]:
    (schema,) = (warehouse / "default.db" / table / "schema").glob("schema-0")
    return {f["name"]: f["type"] for f in json.loads(schema.read_text())["fields"]}


def test_the_catalog_and_table_of_the_guide(spark: SparkSession, my_catalog: Path) -> None:
    spark.sql("-- a word count table\nCREATE TABLE word_count (word STRING PRIMARY KEY NOT ENFORCED, cnt BIGINT)")
    spark.sql("INSERT INTO word_count VALUES ('a', 1), ('b', 1)")
    spark.sql("INSERT INTO word_count VALUES ('a', 2)")
    assert rows(spark, "SELECT * FROM my_catalog.default.word_count") == [("a", 2), ("b", 1)]
    assert paimon_spark.connect(my_catalog).table("word_count").primary_key == ("word",)


def test_create_table_takes_all_types(spark: SparkSession, my_catalog: Path) -> None:
    spark.sql(
        "CREATE TABLE t (a TIMESTAMP(9), b TIMESTAMP_LTZ(3), c TIME(3), d VARBINARY(7), e BYTES, f BINARY(4), "
        "g ROW<x INT NOT NULL, y ARRAY<MAP<STRING, DECIMAL(10, 2)>>> COMMENT 'nested', h CHAR(3) NOT NULL, i VARIANT, "
        "dt STRING, PRIMARY KEY (dt, h) NOT ENFORCED) COMMENT 'all' PARTITIONED BY (dt) "
        "WITH ('bucket' = '2', 'file.compression' = 'lz4')"
    )
    types = column_types(my_catalog, "t")
    assert types["a"] == "TIMESTAMP(9)"
    assert types["b"] == "TIMESTAMP(3) WITH LOCAL TIME ZONE"
    assert [types[c] for c in "cdefhi"] == [
        "TIME(3)",
        "VARBINARY(7)",
        "BYTES",
        "BINARY(4)",
        "CHAR(3) NOT NULL",
        "VARIANT",
    ]
    assert types["g"]["fields"][1]["type"]["element"] == {"type": "MAP", "key": "STRING", "value": "DECIMAL(10, 2)"}
    table = paimon_spark.connect(my_catalog).table("t")
    assert (table.primary_key, table.partition_by) == (("dt", "h"), ("dt",))
    assert (table.options["bucket"], table.options["file.compression"]) == ("2", "lz4")


def test_sparks_spelling_keeps_sparks_types(spark: SparkSession, my_catalog: Path) -> None:
    spark.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, a TIMESTAMP, b TIMESTAMP_NTZ, c BINARY, d TIMESTAMP(9), "
        "e STRUCT<x: LONG>) USING paimon TBLPROPERTIES ('bucket' = '1')"
    )
    types = column_types(my_catalog, "t")
    assert types["a"] == "TIMESTAMP(6) WITH LOCAL TIME ZONE"
    assert types["b"] == "TIMESTAMP(6)"
    assert types["c"] == "BYTES"
    assert types["d"] == "TIMESTAMP(9) WITH LOCAL TIME ZONE"
    assert types["e"]["fields"][0]["type"] == "BIGINT"


def test_create_table_as_a_query(spark: SparkSession, my_catalog: Path) -> None:
    columns = "id BIGINT, s STRING, PRIMARY KEY (id) NOT ENFORCED"
    spark.sql(f"CREATE TABLE t ({columns}) WITH ('bucket' = '1') AS SELECT id, 'x' FROM range(3)")
    assert rows(spark, "SELECT * FROM t") == [(0, "x"), (1, "x"), (2, "x")]
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        spark.sql(f"CREATE TABLE u ({columns}) WITH ('bucket' = '1') AS SELECT id, 1 div id FROM range(3)")
    assert rows(spark, "SHOW TABLES") == [("default", "t", False)]


def test_a_table_with_the_columns_of_a_query(spark: SparkSession, my_catalog: Path) -> None:
    spark.sql("CREATE TABLE s (id BIGINT NOT NULL, dt STRING COMMENT 'day')")
    spark.sql("INSERT INTO s VALUES (1, 'a'), (2, 'b')")
    spark.sql("CREATE TABLE t WITH ('partition' = 'dt', 'primary-key' = 'dt,id') AS SELECT * FROM s")
    spark.sql("CREATE TABLE IF NOT EXISTS t WITH ('bucket' = '1') AS SELECT 1 AS other")
    assert rows(spark, "SELECT * FROM t ORDER BY id") == [(1, "a"), (2, "b")]
    created = rows(spark, "SHOW CREATE TABLE t")[0][0]
    assert "PARTITIONED BY (dt)" in created
    assert "'primary-key' = 'dt,id'" in created
    spark.sql("CREATE TABLE u PARTITIONED BY (dt) WITH ('write-only' = 'true') AS SELECT id + 1 AS id, dt FROM s")
    assert rows(spark, "SELECT * FROM u ORDER BY id") == [(2, "a"), (3, "b")]
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("CREATE TABLE v WITH ('write-only' = 'true') AS SELECT * FROM nope")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        spark.sql("CREATE TABLE v WITH ('write-only' = 'true') AS SELECT 1 div (id - 1) AS a FROM s")
    with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):
        spark.sql("CREATE TABLE v WITH ('write-only' = 'true') AS DROP TABLE u")
    assert [r[1] for r in rows(spark, "SHOW TABLES")] == ["s", "t", "u"]


def test_alter_table(spark: SparkSession, my_catalog: Path) -> None:
    spark.sql("CREATE TABLE t (a INT, b INT, c STRING)")
    spark.sql("INSERT INTO t VALUES (1, 2, 'x')")
    spark.sql("ALTER TABLE t SET ('snapshot.num-retained.min' = '3', 'write-only' = 'true')")
    spark.sql("ALTER TABLE default.t RESET ('write-only')")
    spark.sql("ALTER TABLE t ADD (d TIMESTAMP(3) COMMENT 'when' AFTER a, e STRING FIRST)")
    spark.sql("ALTER TABLE t MODIFY a BIGINT COMMENT 'wide'")
    spark.sql("ALTER TABLE t RENAME b TO bb")
    spark.sql("ALTER TABLE t DROP (c)")
    assert spark.table("t").columns == ["e", "a", "d", "bb"]
    assert rows(spark, "SELECT * FROM t") == [(None, 1, None, 2)]
    options = paimon_spark.connect(my_catalog).table("t").options
    assert options["snapshot.num-retained.min"] == "3"
    assert "write-only" not in options


def test_keys_of_the_sql_client(spark: SparkSession) -> None:
    assert rows(spark, "SET 'execution.checkpointing.interval' = '10 s';") == [
        ("execution.checkpointing.interval", "10 s")
    ]
    assert rows(spark, "SET 'execution.checkpointing.interval'") == [("execution.checkpointing.interval", "10 s")]
    spark.sql("RESET 'execution.checkpointing.interval'")
    assert rows(spark, "SET 'execution.checkpointing.interval'") == [
        ("execution.checkpointing.interval", "<undefined>")
    ]
    spark.sql("SET 'sql-client.execution.result-mode' = 'tableau'")
    spark.sql("SET 'taskmanager.numberOfTaskSlots' = '2'")  # none of ours: a warning
    spark.sql("SET 'scan.snapshot-id' = '1'")
    assert spark.conf.get("spark.paimon.scan.snapshot-id") == "1"
    spark.sql("RESET 'scan.snapshot-id'")
    assert spark.conf.get("spark.paimon.scan.snapshot-id", None) is None


def test_generated_rows(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TEMPORARY TABLE g (n INT, w STRING, l BIGINT, b BOOLEAN, d DECIMAL(5, 2), f DOUBLE, day DATE, x INT) "
        "WITH ('connector' = 'datagen', 'number-of-rows' = '200', 'fields.n.kind' = 'sequence', 'fields.n.start' = '5', "
        "'fields.n.end' = '104', 'fields.w.length' = '1', 'fields.f.min' = '2', 'fields.f.max' = '3', "
        "'fields.x.min' = '-1', 'fields.x.max' = '1')"
    )
    found = spark.table("g").collect()
    assert sorted(r.n for r in found) == list(range(5, 105))  # the sequence ends before the number of rows
    assert {r.w for r in found} <= set("0123456789abcdef")
    assert len({r.w for r in found}) > 8
    assert {r.x for r in found} == {-1, 0, 1}
    assert {r.b for r in found} == {True, False}
    assert all(2 <= r.f < 3 for r in found)
    assert len({r.l for r in found}) == 100


def test_computed_columns(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(
        "CREATE TEMPORARY TABLE g (`a b` AS n + 1 COMMENT 'x', n INT, c AS concat('(', n, ',)'), at AS PROCTIME()) WITH "
        "('connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '2')"
    )
    assert spark.table("g").columns == ["a b", "n", "c", "at"]
    assert rows(spark, "SELECT `a b`, n, c, at > TIMESTAMP '2020-01-01' FROM g ORDER BY n") == [
        (2, 1, "(1,)", True),
        (3, 2, "(2,)", True),
    ]
    spark.sql(
        f"CREATE TEMPORARY TABLE f (a INT, b AS a * 2, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH "
        f"('connector' = 'filesystem', 'path' = '{tmp_path}/f', 'format' = 'json')"
    )
    spark.sql("INSERT INTO f VALUES (4, TIMESTAMP_NTZ '2024-01-01 00:00:00')")
    assert rows(spark, "SELECT a, b FROM f") == [(4, 8)]


def test_files_of_a_directory(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(
        f"CREATE TEMPORARY TABLE f (a INT, b STRING) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/f', "
        "'format' = 'csv', 'csv.sep' = ';')"
    )
    spark.sql("INSERT INTO f VALUES (1, 'x'), (2, 'y')")
    assert rows(spark, "SELECT * FROM f") == [(1, "x"), (2, "y")]
    spark.sql("INSERT INTO f (b, a) VALUES ('z', 3)")
    spark.sql("INSERT INTO f BY NAME SELECT 'w' AS b")
    assert sorted(map(str, rows(spark, "SELECT * FROM f WHERE a IS NULL OR a > 2"))) == ["(3, 'z')", "(None, 'w')"]
    with pytest.raises(Exception, match=r"\[COLUMN_NOT_FOUND\].*no column 'c'"):
        spark.sql("INSERT INTO f (c, a) VALUES ('z', 3)")
    assert "1;x" in "".join(p.read_text() for p in (tmp_path / "f").glob("*.csv"))


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE CATALOG c WITH ('type' = 'hudi')", r"\[INVALID_OPTION\].*'hudi' cannot be created"),
        ("CREATE CATALOG g WITH ('type' = 'paimon-generic')", "only the catalog spark_catalog holds tables of Spark"),
        ("CREATE CATALOG paimon WITH ('type' = 'paimon', 'warehouse' = '/tmp/x')", "exists already"),
        ("CREATE CATALOG c ('type' = 'paimon')", r"\[SQL_SYNTAX\].*expected WITH"),
        ("CREATE CATALOG c COMMENT x WITH ('type' = 'paimon')", r"\[SQL_SYNTAX\].*a comment"),
        ("USE CATALOG paimn", "Did you mean 'paimon'"),
        ("DROP CATALOG paimon", "is the current one"),
        (
            "CREATE TABLE t (a INT, b AS a + 1) WITH ('bucket' = '1')",
            r"\[UNSUPPORTED_FEATURE\].*'b' cannot be computed",
        ),
        ("CREATE TEMPORARY TABLE t (a INT, b AS z) WITH ('connector' = 'datagen')", "'b' cannot be computed: .*`z`"),
        (
            "CREATE TEMPORARY TABLE t (a INT, WATERMARK FOR a AS a) WITH ('connector' = 'datagen')",
            "'a' cannot have a watermark: it is int",
        ),
        (
            "CREATE TEMPORARY TABLE t (a TIMESTAMP(3), WATERMARK FOR a AS a - b) WITH ('connector' = 'datagen')",
            r"\[UNSUPPORTED_FEATURE\].*neither the column nor a fixed time before it",
        ),
        ("CREATE TABLE t (a TIMESTAMP(3), WATERMARK FOR a AS a) WITH ('bucket' = '1')", "WATERMARK"),
        ("CREATE TABLE t (a MULTISET<INT>) WITH ('bucket' = '1')", "MULTISET"),
        ("CREATE TABLE t (a INTT) WITH ('bucket' = '1')", "Did you mean 'INT'"),
        ("CREATE TABLE t (a INT PRIMARY KEY ENFORCED)", "cannot be ENFORCED"),
        ("CREATE TABLE t (a MAP<INT, INT> PRIMARY KEY NOT ENFORCED)", r"\[SCHEMA_INVALID\]"),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'kafka')", "CREATE TEMPORARY TABLE"),
        ("CREATE TABLE t (a INT) WITH ('bukcet' = '1')", r"\[INVALID_OPTION\].*Did you mean 'bucket'"),
        ("CREATE TEMPORARY TABLE t (a INT) WITH ('connector' = 'datgen')", "Did you mean 'datagen'"),
        ("CREATE TEMPORARY TABLE t (a INT) WITH ('connector' = 'datagen', 'rows' = '1')", "no option 'rows'"),
        ("CREATE TEMPORARY TABLE t (a ARRAY<INT>) WITH ('connector' = 'datagen')", "generates no values"),
        (
            "CREATE TEMPORARY TABLE t (a DOUBLE) WITH ('connector' = 'datagen', 'fields.a.min' = 'x')",
            r"\[INVALID_OPTION\].*'fields.a.min' is 'x'",
        ),
        ("SET 'execution.runtime-mode' = 'bath'", "Did you mean 'batch'"),
        ("SET 'execution.checkpointing.interval' = 'soon'", "not a duration"),
        ("ALTER TABLE nowhere SET ('bucket' = '1')", "TABLE_NOT_FOUND"),
    ],
)
def test_wrong_statements(spark: SparkSession, statement: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        spark.sql(statement)


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE t (id INT) WITHH ('a' = 'b')", "SELECT 1 FRM x", "ALTER TABLE t ADD COLUMN", "SET a-b"]
)
def test_what_neither_knows_is_sparks_error(spark: SparkSession, statement: str) -> None:
    with pytest.raises(Exception, match=r"PARSE_SYNTAX_ERROR|INVALID_SET_SYNTAX"):
        spark.sql(statement)

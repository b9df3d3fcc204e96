"""COPY INTO: files into tables, and tables into files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.answers import rows


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = tmp_path / "in [1]"
    directory.mkdir()
    return directory


def copy(spark: SparkSession, source: Path, what: str, into: str = "t") -> list[tuple[Any, ...]]:
    return [tuple(r) for r in spark.sql(f"COPY INTO {into} FROM '{source}' FILE_FORMAT = {what}").collect()]


def test_a_file_is_loaded_once(spark: SparkSession, source: Path) -> None:
    spark.sql("CREATE TABLE t (id INT, name STRING, day DATE DEFAULT '2024-01-01')")
    (source / "a b.csv").write_text('id|name\n1|"x|y"\n2|\n')
    (source / "skipped.txt").write_text("9|no|2020-01-01\n")
    (source / "below").mkdir()
    what = "(TYPE = CSV, FIELD_DELIMITER = '|', SKIP_HEADER = 1) PATTERN = '.*[.]csv'"
    assert copy(spark, source, what, "t (id, name)") == [("a b.csv", "LOADED", 2, 2, 0, None)]
    assert rows(spark, "SELECT id, name, cast(day AS STRING) FROM t") == [
        (1, "x|y", "2024-01-01"),
        (2, "", "2024-01-01"),
    ]
    assert copy(spark, source, what, "t (id, name)") == [("a b.csv", "SKIPPED", 0, 0, 0, None)]
    assert copy(spark, source, f"{what} FORCE = TRUE", "t (id, name)")[0][1:3] == ("LOADED", 2)
    (source / "a b.csv").write_text("id|name\n3|c\n")
    assert copy(spark, source, what, "t (id, name)")[0][1:3] == ("LOADED", 1)
    assert rows(spark, "SELECT count(*), count(DISTINCT id) FROM t") == [(5, 3)]


def test_rows_that_cannot_be_loaded(spark: SparkSession, source: Path) -> None:
    spark.sql("CREATE TABLE t (id INT NOT NULL, code VARCHAR(3), n DECIMAL(4, 2)) TBLPROPERTIES ('primary-key' = 'id')")
    (source / "good.csv").write_text("1,abc,1.5\n")
    (source / "wrong.csv").write_text("2,abc,2.5\nx,abc,1\n,abc,1\n3,abcd,1\n4,a,1000\n5,a\n6,a,1,1\n")
    what = "(TYPE = CSV)"
    with pytest.raises(Exception, match=r"6 of 7 rows of wrong.csv cannot be loaded: .*Nothing was loaded"):
        copy(spark, source, what)
    assert rows(spark, "SELECT * FROM t") == []
    good, wrong = copy(spark, source, f"{what} ON_ERROR = SKIP_FILE")
    assert good == ("good.csv", "LOADED", 1, 1, 0, None)
    assert wrong == ("wrong.csv", "LOAD_FAILED", 0, 7, 6, "the value of id is no int NOT NULL: x")
    skipped, partly = copy(spark, source, f"{what} ON_ERROR = CONTINUE")
    assert (skipped[1], partly[1:5]) == ("SKIPPED", ("PARTIALLY_LOADED", 1, 7, 6))
    assert rows(spark, "SELECT id FROM t") == [(1,), (2,)]


def test_nulls_and_nested_values_of_json(spark: SparkSession, source: Path) -> None:
    spark.sql("CREATE TABLE t (id BIGINT, name STRING, tags ARRAY<STRING>, at TIMESTAMP_NTZ)")
    lines = [
        {"NAME": "-", "id": 1, "tags": ["a", "b"], "more": 1},
        {"name": "", "id": "2", "at": "2024-05-14 10:20:30"},
        {"name": "c"},
    ]
    (source / "a.json").write_text("\n".join(map(json.dumps, lines)))
    (source / "b.json").write_text('{"id": 4}\n{"id":\n')
    what = "(TYPE = JSON, NULL_IF = ('-'), EMPTY_FIELD_AS_NULL = TRUE) ON_ERROR = CONTINUE"
    assert [r[1:5] for r in copy(spark, source, what)] == [("LOADED", 3, 3, 0), ("PARTIALLY_LOADED", 1, 2, 1)]
    assert rows(spark, "SELECT id, name, tags, cast(at AS STRING) FROM t ORDER BY id NULLS LAST") == [
        (1, None, ["a", "b"], None),
        (2, None, None, "2024-05-14 10:20:30"),
        (4, None, None, None),
        (None, "c", None, None),
    ]


def test_parquet_columns_go_by_name(spark: SparkSession, source: Path) -> None:
    spark.sql("CREATE TABLE t (id INT, v DOUBLE)")
    pq.write_table(pa.table({"V": [1.5], "other": [True], "id": pa.array([1], pa.int64())}), source / "a.parquet")
    pq.write_table(pa.table({"id": pa.array([1 << 40, 2], pa.int64())}), source / "b.parquet")
    found = copy(spark, source, "(TYPE = PARQUET) ON_ERROR = CONTINUE")
    assert [r[1:5] for r in found] == [("LOADED", 1, 1, 0), ("PARTIALLY_LOADED", 1, 2, 1)]
    assert rows(spark, "SELECT * FROM t ORDER BY id") == [(1, 1.5), (2, None)]


@pytest.mark.parametrize(
    ("kind", "options"),
    [("CSV", "HEADER = TRUE, COMPRESSION = GZIP"), ("JSON", "TIMESTAMP_FORMAT = 'yyyy/MM/dd'"), ("PARQUET", "")],
)
def test_what_was_written_is_loaded_again(spark: SparkSession, tmp_path: Path, kind: str, options: str) -> None:
    out = tmp_path / "out"
    spark.sql("CREATE TABLE t (id INT, name STRING)")
    spark.sql("INSERT INTO t SELECT id, concat('row ', id) FROM range(50)")
    statement = f"COPY INTO '{out}' FROM (SELECT * FROM t WHERE id < 40) FILE_FORMAT = (TYPE = {kind} {options})"
    ((path, files, written),) = map(tuple, spark.sql(statement).collect())
    assert (path, files, written) == (str(out), len([p for p in out.iterdir() if p.name.startswith("part-")]), 40)
    with pytest.raises(Exception, match=r"exists.*OVERWRITE = TRUE"):
        spark.sql(statement)
    assert spark.sql(f"{statement.replace('40', '30')} OVERWRITE = TRUE").first()[2] == 30  # type: ignore[index]
    spark.sql("CREATE TABLE u (id INT, name STRING)")
    header = ", SKIP_HEADER = 1, COMPRESSION = GZIP" if kind == "CSV" else ""
    copy(spark, out, f"(TYPE = {kind} {header})", "u")
    assert rows(spark, "SELECT count(*), sum(id), max(name) FROM u") == [(30, sum(range(30)), "row 9")]


@pytest.mark.parametrize(
    ("into", "what", "told"),
    [
        ("t (nam)", "(TYPE = CSV)", "no column 'nam'. Did you mean 'name'"),
        ("t (name)", "(TYPE = CSV)", "no values for id, which cannot be NULL"),
        ("nosuch", "(TYPE = CSV)", "nosuch"),
        ("spark_catalog.default.t", "(TYPE = CSV)", "does not name a table of a Paimon catalog"),
        ("t", "(TYPE = CSV) PATTERN = '('", "PATTERN is no regular expression"),
        ("t", "(TYPE = CSV, SKIP_HEADER = 2)", "SKIP_HEADER cannot be 2"),
        ("t", "(TYPE = CSV, COMPRESSION = GZIP)", "a.csv is not named as one with COMPRESSION = GZIP"),
        ("t", "(TYPE = PARQUET)", "The files cannot be read"),
    ],
)
def test_wrong_statements_load_nothing(spark: SparkSession, source: Path, into: str, what: str, told: str) -> None:
    spark.sql("CREATE TABLE t (id INT NOT NULL, name STRING)")
    (source / "a.csv").write_text("1,a\n")
    with pytest.raises(Exception, match=told):
        copy(spark, source, what, into)
    assert rows(spark, "SELECT * FROM t") == []


def test_only_queries_are_written(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    with pytest.raises(Exception, match="FROM takes a table, or a query in parentheses"):
        spark.sql(f"COPY INTO '{tmp_path}/out' FROM (INSERT INTO t VALUES (1)) FILE_FORMAT = (TYPE = CSV)")
    with pytest.raises(Exception, match="There is no directory"):
        copy(spark, tmp_path / "nowhere", "(TYPE = CSV)")
    assert rows(spark, "SELECT * FROM t") == []

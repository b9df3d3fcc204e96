"""COPY INTO: files into tables, and tables into files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.query_results import rows


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
    with pytest.raises(
        Exception, match=r"6 of 7 rows of wrong.csv cannot be loaded: .*'x' of column id .*NULL\. Nothing was loaded"
    ):
        copy(spark, source, what)
    assert rows(spark, "SELECT * FROM t") == []
    good, wrong = copy(spark, source, f"{what} ON_ERROR = SKIP_FILE")
    assert good == ("good.csv", "LOADED", 1, 1, 0, None)
    assert wrong == ("wrong.csv", "LOAD_FAILED", 0, 7, 6, "the value 'x' of column id is not of type INT NOT NULL")
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
    assert spark.sql(f"{statement.replace('id < 40', 'id < 30')} OVERWRITE = TRUE").first()[2] == 30  # type: ignore[index]
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
        ("t", "(TYPE = CSV, QUOTE = '<>')", "QUOTE cannot be '<>'"),
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


def test_texts_without_a_number_are_counted(spark: SparkSession, source: Path) -> None:
    spark.sql("CREATE TABLE t (a STRING, b STRING)")
    (source / "a.csv").write_text("1,2\n3\n4,5,6\n7,8,\n")
    found = copy(spark, source, "(TYPE = CSV) ON_ERROR = CONTINUE")
    assert found == [("a.csv", "PARTIALLY_LOADED", 1, 4, 3, "not a row of the columns: 3")]
    spark.sql("CREATE TABLE u (id INT, a STRING, b STRING)")
    (source / "a.csv").write_text("1,a,b\n2,a,b,c\n3,a\n")
    assert copy(spark, source, "(TYPE = CSV) ON_ERROR = CONTINUE", "u")[0][1:5] == ("PARTIALLY_LOADED", 1, 3, 2)
    spark.sql("CREATE TABLE v (a STRING)")
    (source / "a.csv").unlink()
    (source / "a.json").write_text('{"a": "1"}\n{"a": \n')
    assert copy(spark, source, "(TYPE = JSON) ON_ERROR = CONTINUE", "v")[0][1:5] == ("PARTIALLY_LOADED", 1, 2, 1)
    assert rows(spark, "SELECT a, b FROM t UNION ALL SELECT a, b FROM u UNION ALL SELECT a, '' FROM v") == [
        ("1", "2"),
        ("a", "b"),
        ("1", ""),
    ]


def test_quoted_csv(spark: SparkSession, source: Path) -> None:
    spark.sql("CREATE TABLE t (id INT, s STRING, u STRING)")
    lines = ['1,"a ""b"" c",z', '2,"a"",b",z', '3,"a\\"b",z', '4,a"b,\\', '5,"a"b,z', '6,"x\\","',
             '7,"two', 'lines",z', '8,"",', '9,z,"open']  # fmt: skip
    (source / "a.csv").write_text("\n".join(lines) + "\n")
    assert copy(spark, source, "(TYPE = CSV) ON_ERROR = CONTINUE")[0][2:5] == (4, 10, 6)
    good: list[tuple[Any, ...]] = [(1, 'a "b" c', "z"), (2, 'a",b', "z"), (4, 'a"b', "\\"), (8, "", "")]
    assert rows(spark, "SELECT * FROM t ORDER BY id") == good
    spark.sql("TRUNCATE TABLE t")
    (source / "a.csv").write_text("\n".join(line for line in lines if line[0] != "6") + "\n")
    what = "(TYPE = CSV, MULTI_LINE = TRUE, EMPTY_FIELD_AS_NULL = TRUE) ON_ERROR = CONTINUE"
    assert copy(spark, source, what)[0][2:5] == (5, 8, 3)
    good[3:] = [(7, "two\nlines", "z"), (8, "", None)]
    assert rows(spark, "SELECT * FROM t ORDER BY id") == good
    spark.sql("TRUNCATE TABLE t")
    (source / "a.csv").write_text('1|"a\\"b|"|z\n2|"a""b"|z\n')
    what = "(TYPE = CSV, FIELD_DELIMITER = '|', ESCAPE = '\\\\') ON_ERROR = CONTINUE"
    assert copy(spark, source, what)[0][2:5] == (1, 2, 1)
    assert rows(spark, "SELECT * FROM t") == [(1, 'a"b|', "z")]


def test_char_is_padded_and_cut(spark: SparkSession, source: Path) -> None:
    spark.sql("CREATE TABLE t (k CHAR(4), v VARCHAR(2))")
    (source / "a.csv").write_text("ab,x   \nabcd    ,\nabcde,y\na,xyz\n")
    found = copy(spark, source, "(TYPE = CSV) ON_ERROR = CONTINUE")
    assert found[0][2:] == (2, 4, 2, "the value 'abcde' of column k is not of type CHAR(4)")
    assert rows(spark, "SELECT k, length(k), v FROM t WHERE k IN ('ab', 'abcd') ORDER BY k") == [
        ("ab  ", 4, "x "),
        ("abcd", 4, ""),
    ]


def test_nested_values_go_by_name(spark: SparkSession, source: Path) -> None:
    spark.sql("CREATE TABLE t (id INT, s STRUCT<x: INT, y: ARRAY<STRUCT<p: INT, q: STRING>>>, m MAP<INT, INT>)")
    inner = pa.struct([("q", pa.string()), ("P", pa.int64())])
    row = pa.struct([("y", pa.list_(inner)), ("x", pa.int32())])
    values = {
        "id": [1, 2, 3, 4],
        "s": pa.array(
            [{"y": [{"q": "a", "P": 1}], "x": 2}, {"y": [{"q": "b", "P": 1 << 40}], "x": 2}, None, None], row
        ),
        "m": pa.array([[(5, 6)], None, [(1 << 40, 1)], None], pa.map_(pa.int64(), pa.int32())),
    }
    pq.write_table(pa.table(values), source / "a.parquet")
    assert copy(spark, source, "(TYPE = PARQUET) ON_ERROR = CONTINUE")[0][2:5] == (2, 4, 2)
    assert rows(spark, "SELECT id, s.x, s.y[0].p, s.y[0].q, m[5] FROM t ORDER BY id") == [
        (1, 2, 1, "a", 6),
        (4, None, None, None, None),
    ]


def test_keys_that_become_equal_are_errors(spark: SparkSession, source: Path) -> None:
    spark.sql("CREATE TABLE t (id INT, m MAP<INT, STRING>)")
    (source / "a.json").write_text('{"id": 1, "m": {"1": "a", "01": "b"}}\n{"id": 2, "m": {"1": "a", "2": "b"}}\n')
    assert copy(spark, source, "(TYPE = JSON) ON_ERROR = CONTINUE")[0][2:5] == (1, 2, 1)
    spark.sql("CREATE TABLE u (m MAP<DOUBLE, STRING>)")
    (source / "a.json").write_text('{"m": {"0": "a", "-0": "b"}}\n')
    assert copy(spark, source, "(TYPE = JSON) ON_ERROR = CONTINUE", "u")[0][2:5] == (0, 1, 1)


def test_values_that_do_not_fit_are_errors(spark: SparkSession, source: Path) -> None:
    spark.sql("CREATE TABLE t (id INT, v INT, f FLOAT)")
    pq.write_table(pa.table({"id": [1.9, 2.0], "f": [1.5, 1e300]}), source / "a.parquet")
    pq.write_table(pa.table({"id": [3.0]}), source / "b.parquet")
    found = copy(spark, source, "(TYPE = PARQUET) ON_ERROR = CONTINUE")
    assert [r[2:] for r in found] == [(0, 2, 2, "the value '1.9' of column id is not of type INT"), (1, 1, 0, None)]
    pq.write_table(pa.table({"v": [True]}), source / "c.parquet")
    with pytest.raises(Exception, match=r"type boolean, which cannot be stored as INT"):
        copy(spark, source, "(TYPE = PARQUET)")
    spark.sql("CREATE TABLE u (d DATE, at TIMESTAMP, n TIMESTAMP_NTZ, b DOUBLE)")
    days = ["2024-01-05 garbage", "2024-01-05 10:00:00", "2024-01-05 00:00:00", "2024-01-05"]
    lines = [*(f"{day},,," for day in days), ",10:20:30,,", ",2024-01-05 1:2:3Z,,", ",,2024-01-05 1:2:3Z,", ",,,1e999"]
    (source / "a.csv").write_text("\n".join(lines) + "\n,,2024-01-05T10:20:30.5,-Infinity\n")
    assert copy(spark, source, "(TYPE = CSV) PATTERN = '.*csv' ON_ERROR = CONTINUE", "u")[0][2:5] == (4, 9, 5)


@pytest.mark.parametrize(("kind", "how"), [("CSV", ", MULTI_LINE = TRUE"), ("JSON", ""), ("PARQUET", "")])
def test_all_types_survive_files(spark: SparkSession, tmp_path: Path, kind: str, how: str) -> None:
    flat = (
        "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(38, 5), i STRING, j CHAR(4), "
        "k VARCHAR(9), l BINARY, n DATE, o TIMESTAMP, p TIMESTAMP_NTZ, w VARIANT"
    )
    at = "2024-01-02 03:04:05.123456"
    some = (
        "true, -1, -2, -3, 9223372036854775807, float('1.1'), double('NaN'), 123456789012345678901234567890123.12345, "
        f"' \\\\ \"q\" , \\n ', 'ab', '  x ', X'00FF41', DATE '0001-01-01', TIMESTAMP '{at}', TIMESTAMP_NTZ '{at}', "
        """parse_json('{"a": [1, "1"]}')"""
    )
    rest = ", ".join(["'\"'"] + ["NULL"] * 6)
    values = [some, ", ".join(["NULL"] * 16), f"{', '.join(['NULL'] * 6)}, double('-inf'), NULL, '', {rest}"]
    if kind != "CSV":
        flat += (
            ", q ARRAY<BINARY>, r MAP<DATE, STRUCT<x: TIMESTAMP, y: DECIMAL(9, 2)>>, s STRUCT<X: MAP<BIGINT, BINARY>>"
        )
        nested = f"array(X'00', NULL), map(DATE '2024-01-01', struct(TIMESTAMP '{at}', 1.25)), struct(map(1L, X'FF'))"
        values = [f"{values[0]}, {nested}", *(f"{v}, NULL, NULL, NULL" for v in values[1:])]
    for name in ("t", "u"):
        spark.sql(f"CREATE TABLE {name} ({flat})")
    spark.sql(f"INSERT INTO t VALUES {', '.join(f'({v})' for v in values)}")
    spark.sql(f"COPY INTO '{tmp_path}/out' FROM t FILE_FORMAT = (TYPE = {kind})")
    how += ", EMPTY_FIELD_AS_NULL = TRUE" if kind == "CSV" else ""
    copy(spark, tmp_path / "out", f"(TYPE = {kind} {how})", "u")
    formats = "'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timestampNTZFormat', 'HH:mm:ss.SSSSSS'"
    found, expected = (rows(spark, f"SELECT to_json(struct(*), map({formats})) AS row FROM {n}") for n in ("u", "t"))
    assert sorted(found) == sorted(expected)


def test_formats_and_nulls_of_written_csv(spark: SparkSession, tmp_path: Path) -> None:
    query = "(SELECT TIMESTAMP '2024-01-02 03:04:05' AS a, TIMESTAMP_NTZ '2024-01-02 03:04:05' AS b)"
    how = "FILE_FORMAT = (TYPE = CSV, TIMESTAMP_FORMAT = 'yyyy/MM/dd')"
    spark.sql(f"COPY INTO '{tmp_path}/out' FROM {query} {how}")
    assert "".join(p.read_text() for p in (tmp_path / "out").glob("part-*")) == "2024/01/02,2024/01/02\n"
    with pytest.raises(Exception, match=r"\[VALUE_NOT_STORABLE\] A CSV file of one column has no text for NULL"):
        spark.sql(f"COPY INTO '{tmp_path}/one' FROM (SELECT CAST(NULL AS STRING) AS a) FILE_FORMAT = (TYPE = CSV)")


def test_a_failed_export_leaves_the_directory(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export = f"COPY INTO '{out}' FROM (SELECT id, {{}} AS v FROM range(4)) FILE_FORMAT = (TYPE = JSON) OVERWRITE = TRUE"
    failing = "if(id = 3, raise_error('no'), 1)"
    with pytest.raises(Exception, match="COPY INTO cannot write the rows"):
        spark.sql(export.format(failing))
    assert not out.exists()
    spark.sql(export.format("1"))
    (out / "below").mkdir()
    (out / "below" / "a").write_text("x")
    before = {p.relative_to(out) for p in out.rglob("*")}
    with pytest.raises(Exception, match="COPY INTO cannot write the rows"):
        spark.sql(export.format(failing))
    assert {p.relative_to(out) for p in out.rglob("*")} == before
    spark.sql(f"COPY INTO '{out}' FROM (SELECT id FROM json.`{out}`) FILE_FORMAT = (TYPE = JSON) OVERWRITE = TRUE")
    after = {p.relative_to(out) for p in out.rglob("*")}
    assert before & after == {Path("_SUCCESS"), Path("._SUCCESS.crc")}
    assert rows(spark, f"SELECT id FROM json.`{out}` ORDER BY id") == [(0,), (1,), (2,), (3,)]
    (tmp_path / "file").write_text("x")
    with pytest.raises(Exception, match="is a file"):
        spark.sql(export.format("1").replace(str(out), str(tmp_path / "file")))
    with pytest.raises(Exception, match="root of its store"):
        spark.sql(export.format("1").replace(str(out), "/"))


def test_tables_are_not_overwritten(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    spark.sql("INSERT INTO t VALUES (1)")
    place = Path(spark.sql("SELECT __paimon_file_path FROM t").first()[0]).parents[1]  # type: ignore[index]
    for directory in (place, place.parent, place / "below", place / "bucket-0"):
        with pytest.raises(Exception, match=r"t is a Paimon table|exists"):
            spark.sql(f"COPY INTO '{directory}' FROM t FILE_FORMAT = (TYPE = CSV)")
        with pytest.raises(Exception, match=r"cannot be written: .*(t is a Paimon table|is a database of)"):
            spark.sql(f"COPY INTO '{directory}' FROM t FILE_FORMAT = (TYPE = CSV) OVERWRITE = TRUE")
    assert rows(spark, "SELECT * FROM t") == [(1,)]


def test_views_and_databases_are_not_overwritten(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    spark.sql("INSERT INTO t VALUES (1)")
    database = Path(spark.sql("SELECT __paimon_file_path FROM t").first()[0]).parents[2]  # type: ignore[index]
    spark.sql("CREATE VIEW v AS SELECT 1 AS one")
    spark.sql("DROP TABLE t")
    for directory in (database, database.parent, database / ".views", database / ".views" / "v.json"):
        with pytest.raises(Exception, match=r"cannot be written: .*(database of the|warehouse of|views)|is a file"):
            spark.sql(f"COPY INTO '{directory}' FROM (SELECT 1) FILE_FORMAT = (TYPE = CSV) OVERWRITE = TRUE")
    assert rows(spark, "SELECT * FROM v") == [(1,)]
    views = database / "below" / ".views"
    views.mkdir(parents=True)
    (views / "w.json").write_text("{}")
    with pytest.raises(Exception, match=r"views has the views of a database"):
        spark.sql(f"COPY INTO '{views.parent}' FROM (SELECT 1) FILE_FORMAT = (TYPE = CSV) OVERWRITE = TRUE")
    spark.sql("DROP VIEW v")
    shutil.rmtree(views.parent)


def test_history_of_branches_and_rollbacks(spark: SparkSession, source: Path) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    spark.sql("INSERT INTO t VALUES (0)")
    database = spark.catalog.currentDatabase()
    spark.sql(f"CALL sys.create_branch('{database}.t', 'b')")
    (source / "a.csv").write_text("1\n2\n")
    what = "(TYPE = CSV)"
    loaded = [copy(spark, source, what, into)[0][1] for into in ("`t$branch_b`", "t", "`t$branch_b`", "t")]
    assert loaded == ["LOADED", "LOADED", "SKIPPED", "SKIPPED"]
    spark.sql(f"CALL sys.rollback_to('{database}.t', 1)")
    assert copy(spark, source, what)[0][1] == "LOADED"
    spark.sql(f"CALL sys.rollback_to('{database}.t', 1)")
    spark.sql("INSERT INTO t VALUES (3)")  # takes the number of the snapshot that was rolled back
    assert [copy(spark, source, what)[0][1] for _ in range(2)] == ["LOADED", "SKIPPED"]
    assert rows(spark, "SELECT id FROM t ORDER BY id") == [(0,), (1,), (2,), (3,)]

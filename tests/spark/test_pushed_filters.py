"""Filters that Spark gives to its file readers find what it finds without any reader: types, edge values, operators."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession

import paimon_spark
from tests.query_results import answers, rows
from tests.variants import mostly_slow

DAYS = ("0001-01-01", "1500-03-01", "1582-10-04", "1582-10-05", "1582-10-10", "1582-10-14", "1582-10-15", "2024-02-29")
TIMES = (
    "0001-01-01 00:00:00",
    "1582-10-04 23:59:59.999999",
    "1582-10-10 12:00:00.123456",
    "1582-10-15 12:00:00.123456",
    "1899-12-31 23:59:59.999999",
    "1969-12-31 23:59:59.999999",
    "2024-03-31 02:30:00",
    "9999-12-31 23:59:59.999999",
)
TEXTS = ("''", "'a'", "'ab'", "'aü'", "'a😀'", "'%'", "repeat('z', 3000)", "concat(repeat('z', 2999), 'y')")
NUMBERS = ("-" + "9" * 38, "9" * 38, "0", "1", "-1", "2", "3", "4")
COLUMNS = {
    "d": "DATE",
    "ts": "TIMESTAMP",
    "ntz": "TIMESTAMP_NTZ",
    "n": "STRUCT<d: DATE, x: INT>",
    "`a.b`": "INT",
    "dec": "DECIMAL(38, 0)",
    "small": "DECIMAL(5, 2)",
    "s": "STRING",
    "b": "BINARY",
    "r": "DOUBLE",
}
CONDITIONS = (
    *(f"d {op} DATE '{v}'" for v in DAYS for op in ("=", "<", ">=")),
    *(f"d <> DATE '{v}'" for v in DAYS[3:6]),
    *(f"n.d = DATE '{v}'" for v in DAYS[2:7]),
    *(f"ts {op} TIMESTAMP '{v}'" for v in TIMES for op in ("=", "<")),
    *(f"ntz {op} TIMESTAMP_NTZ '{v}'" for v in TIMES[1:5] for op in ("=", ">=")),
    "n.x = 4",
    "d IN (DATE '1582-10-10', DATE '1582-10-14')",
    "d NOT IN (DATE '1582-10-10', DATE '1582-10-14')",
    f"d IN ({', '.join(f'''DATE '1582-10-{day:02}' ''' for day in range(1, 14))})",
    "d = (SELECT max(DATE '1582-10-10') FROM range(1))",
    "ts < (SELECT max(TIMESTAMP '1582-10-10 12:00:00.123457') FROM range(1))",
    "`a.b` = 3",
    "`a.b` > 5",
    "s LIKE 'aü%'",
    "s LIKE 'a%'",
    "s NOT LIKE 'a%'",
    "s = ''",
    "s = repeat('z', 3000)",
    "s > repeat('z', 2999)",
    "s LIKE concat(repeat('z', 2999), '%')",
    "b = CAST('aü' AS BINARY)",
    "b > CAST('a' AS BINARY)",
    f"dec = {'9' * 38}",
    "dec < 0",
    "small = 3.50",
    "small > 3.55",
    "r > 1",
    "r = -0.0D",
)


def plan(spark: SparkSession, sql: str) -> str:
    return str(rows(spark, f"EXPLAIN EXTENDED {sql}")[0][0])


def literal_rows() -> str:
    """Rows of a number and a value of each column, and one of nulls."""
    ratios = ("double('NaN')", "0.0D", "-0.0D")
    made = (
        f"({i}, DATE '{d}', TIMESTAMP '{t}', TIMESTAMP_NTZ '{t}', named_struct('d', DATE '{d}', 'x', {i}), {i}, "
        f"CAST('{x}' AS DECIMAL(38, 0)), CAST({i}.5 AS DECIMAL(5, 2)), {s}, CAST({s} AS BINARY), {ratios[i % 3]})"
        for i, (d, t, x, s) in enumerate(zip(DAYS, TIMES, NUMBERS, TEXTS, strict=True))
    )
    return ", ".join([*made, f"(99{', NULL' * len(COLUMNS)})"])


@pytest.mark.parametrize("file_format", mostly_slow(["parquet", "orc"], "orc"))
def test_readers_find_what_spark_finds(spark: SparkSession, file_format: str) -> None:
    spark.sql(f"CREATE TEMPORARY VIEW v AS SELECT * FROM VALUES {literal_rows()} AS v(id, {', '.join(COLUMNS)})")
    unread = ("ts", "ntz") if file_format == "orc" else ()  # which Spark reads no ORC file with
    columns = [c for c in COLUMNS if c not in unread]
    conditions = [c for c in CONDITIONS if not c.startswith(unread)] if unread else list(CONDITIONS)
    types = ", ".join(f"{c} {COLUMNS[c]}" for c in columns)
    spark.sql(
        f"CREATE TABLE t (id INT, {types}) PARTITIONED BY (id) "
        f"TBLPROPERTIES ('file.format'='{file_format}', 'metadata.stats-mode'='none')"
    )  # one file for each row, of which nothing but the file itself knows what is in it
    spark.sql(f"INSERT INTO t SELECT id, {', '.join(columns)} FROM v")
    texts = ", ".join(f"CAST({c} AS STRING)" for c in columns)
    everything = f"SELECT id, {texts} FROM {{}} ORDER BY id"
    assert_df_equality(spark.sql(everything.format("t")), spark.sql(everything.format("v")), ignore_nullable=True)
    assert answers(spark, "t", conditions) == answers(spark, "v", conditions)


def test_texts_that_are_not_utf_8_sort_by_their_bytes(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TEMPORARY VIEW v AS SELECT * FROM VALUES (1, 'a'), (2, '\uffff'), (3, '😀'), (4, NULL) AS v(id, s)"
    )
    spark.sql("CREATE TABLE t (id INT, s STRING) PARTITIONED BY (id)")
    spark.sql("CREATE TABLE p (id INT, s STRING) PARTITIONED BY (s)")
    for table in ("t", "p"):
        spark.sql(f"INSERT INTO {table} SELECT * FROM v")
    texts = [f"CAST(X'{x}' AS STRING)" for x in ("F0", "F09F", "FF")]
    conditions = [f"s {op} {text}" for text in texts for op in ("=", "<", ">=")]
    conditions += [f"startswith(s, {text})" for text in texts] + [f"s IN ('a', {text})" for text in texts]
    assert answers(spark, "t", conditions) == answers(spark, "v", conditions)
    assert answers(spark, "p", conditions) == answers(spark, "v", conditions)


def test_orc_files_with_a_column_that_their_reader_does_not_know(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT, ts TIMESTAMP, s STRUCT<t: TIMESTAMP>) TBLPROPERTIES ('file.format'='orc')")
    moment = "TIMESTAMP '2024-05-14 10:20:30'"
    spark.sql(f"INSERT INTO t VALUES (1, {moment}, named_struct('t', {moment}))")
    assert rows(spark, "SELECT id FROM t") == [(1,)]
    assert rows(spark, "SELECT id FROM t WHERE id = 1 AND ts > TIMESTAMP '2024-01-01 00:00:00'") == [(1,)]


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_old_days_that_a_scan_of_other_columns_reads(spark: SparkSession, file_format: str) -> None:
    spark.sql(f"CREATE TABLE t (id INT, d DATE, s STRING) TBLPROPERTIES ('file.format'='{file_format}')")
    days = ", ".join(f"({i}, DATE '{d}', 's{i}')" for i, d in enumerate(DAYS))
    spark.sql(f"INSERT INTO t VALUES {days}")
    assert rows(spark, "SELECT CAST(d AS STRING) FROM t ORDER BY id") == [(d,) for d in DAYS]
    assert rows(spark, "SELECT id FROM t WHERE d = DATE '1582-10-10'") == [(4,)]
    assert rows(spark, "SELECT id FROM t WHERE d = DATE '1500-03-01' AND s = 's1'") == [(1,)]
    assert "(1 native, 0 merge)" in plan(spark, "SELECT id FROM t WHERE s = 's1'")


def test_ordinary_filters_reach_the_reader(spark: SparkSession) -> None:
    types = ", ".join(f"{c} {t}" for c, t in COLUMNS.items())
    spark.sql(f"CREATE TABLE t (id INT, {types})")
    spark.sql(f"INSERT INTO t VALUES {literal_rows()}")
    for condition, pushed in (
        ("id = 3", "EqualTo(id,3)"),
        ("id IN (3, 4)", "In(id, [3,4])"),
        ("d = DATE '2024-02-29'", "EqualTo(d,2024-02-29)"),
        ("d >= DATE '2024-02-29'", "GreaterThanOrEqual(d,2024-02-29)"),
        ("n.d = DATE '2024-02-29'", "EqualTo(n.d,2024-02-29)"),
        ("ts > TIMESTAMP '2024-01-01 00:00:00.000001'", "GreaterThan(ts,2024-01-01 00:00:00.000001)"),
        ("s = 'x'", "EqualTo(s,x)"),
        ("s LIKE 'x%'", "StringStartsWith(s,x)"),
        ("small > 3.55", "GreaterThan(small,3.55)"),
        ("`a.b` = 3", "EqualTo(`a.b`,3)"),
    ):
        assert pushed in plan(spark, f"SELECT id FROM t WHERE {condition}"), condition


def test_times_of_milliseconds_compared_with_finer_ones(spark: SparkSession, warehouse: Path) -> None:
    (database,) = rows(spark, "SELECT current_database()")[0]
    table = paimon_spark.connect(warehouse).create_table(
        f"{database}.t",
        pa.schema([("id", pa.int32()), ("t", pa.timestamp("ms")), ("s", pa.struct([("t", pa.timestamp("ms"))]))]),
        options={"metadata.stats-mode": "none"},
    )
    base = datetime(2024, 5, 14, 10, 20, 30)
    for i in range(3):
        moment = base + timedelta(milliseconds=i)
        table.append(pa.table({"id": [i], "t": [moment], "s": [{"t": moment}]}, table.schema))
    between = "TIMESTAMP_NTZ '2024-05-14 10:20:30.0005'"
    for column in ("t", "s.t"):
        for op, found in (("<", [0]), ("<=", [0]), (">", [1, 2]), ("=", []), ("<>", [0, 1, 2])):
            condition = f"{column} {op} {between}"
            assert answers(spark, "t", [condition]) == {condition: found}
    others = ", ".join(f"TIMESTAMP_NTZ '2024-05-15 10:20:30.{n:06}'" for n in range(12))
    for condition in (f"t NOT IN ({between}, {others})", f"t NOT IN ({between})"):
        assert answers(spark, "t", [condition]) == {condition: [0, 1, 2]}
    assert rows(spark, f"SELECT id FROM t WHERE t < (SELECT max({between}) FROM range(1))") == [(0,)]

"""Values of every type as partitions, with their extremes, in every way a table is read, changed and looked at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession

from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.core.arrow import arrow_scalar
from paimon_spark.engine.insert import write_arrow
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.spark.read_modes import FEWEST_ROWS
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.quoted_text import string_literal
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import DataField, parse_atomic
from tests.query_results import answers, rows

DATES = ("0001-01-01", "1582-10-04", "1582-10-10", "1582-10-15", "1970-01-01", "9999-12-31")
TIMES = (
    "0001-01-01 00:00:00",
    "1582-10-10 12:00:00.123456",
    "1899-12-31 23:59:59.999999",
    "1970-01-01 00:00:00",
    "2024-05-14 10:20:30.5",
    "9999-12-31 23:59:59.999999",
)
TEXTS = ("", " ", " a ", "a/b=c%2F", "ü😀", "__DEFAULT_PARTITION__", "null", "..", "[]{}^#?*\"x\\'")


def casts(spelt: str, *texts: str) -> list[str]:
    return [f"CAST('{t}' AS {spelt})" for t in texts]


SINGLES = casts("FLOAT", "NaN", "Infinity", "-Infinity", "0.0", "-0.0", "1.4E-45", "-3.4028235E38", "0.1")
DOUBLES = casts("DOUBLE", "NaN", "Infinity", "-Infinity", "0.0", "-0.0", "4.9E-324", "-1.7976931348623157E308", "1E20")
VALUES: dict[str, Sequence[str]] = {
    "BOOLEAN": ("true", "false"),
    "TINYINT": ("-128Y", "0Y", "127Y"),
    "SMALLINT": ("-32768S", "0S", "32767S"),
    "INT": ("-2147483648", "0", "2147483647"),
    "BIGINT": ("-9223372036854775808L", "0L", "9223372036854775807L"),
    "FLOAT": SINGLES,
    "DOUBLE": DOUBLES,
    "DECIMAL(5,2)": casts("DECIMAL(5,2)", "-999.99", "0", "0.01", "1.50", "999.99"),
    "DECIMAL(38,0)": casts("DECIMAL(38,0)", "-" + "9" * 38, "0", "9" * 38),
    "DECIMAL(38,38)": casts("DECIMAL(38,38)", "-0." + "9" * 38, "0", "0." + "0" * 37 + "1"),
    "STRING": [string_literal(t) for t in TEXTS],
    "DATE": [f"DATE '{d}'" for d in DATES],
    "TIMESTAMP_NTZ": [f"TIMESTAMP_NTZ '{t}'" for t in TIMES],
    "TIMESTAMP": [f"TIMESTAMP '{t}'" for t in TIMES],
}
COLUMNS = {f"p{i}": (t, list(values)) for i, (t, values) in enumerate(VALUES.items())}
COUNT = max(len(values) for _, values in COLUMNS.values())
LAYOUTS = {
    "parquet": ["'file.format'='parquet'"],
    "orc": ["'file.format'='orc'"],
    "merged": ["'primary-key'='id', 'bucket'='1', 'write-only'='true'"],
}


def literal_rows(*, nulls: bool) -> str:
    """Rows of a number and a value of each type; each value stands in one of them at least."""
    rows = [[str(i), *(values[i % len(values)] for _, values in COLUMNS.values())] for i in range(COUNT)]
    if nulls:
        rows.append([str(COUNT), *("NULL" for _ in COLUMNS)])
    return ", ".join(f"({', '.join(r)})" for r in rows)


def shown(spark: SparkSession, table: str, where: str = "true") -> list[tuple]:
    texts = ", ".join(f"CAST({c} AS STRING)" for c in COLUMNS)
    return rows(spark, f"SELECT id, {texts} FROM {table} WHERE {where} ORDER BY id")


@pytest.mark.parametrize(
    ("layout", "zone"),
    [
        ("parquet", "America/St_Johns"),
        *(pytest.param(name, "UTC", marks=pytest.mark.slow) for name in LAYOUTS),
    ],
)
def test_every_value_of_every_type(spark: SparkSession, layout: str, zone: str) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    names = ", ".join(["id", *COLUMNS])
    merged = layout == "merged"
    values = literal_rows(nulls=not merged)
    spark.sql(f"CREATE TEMPORARY VIEW wanted AS SELECT * FROM VALUES {values} AS v({names})")
    types = ", ".join(f"{c} {t}" for c, (t, _) in COLUMNS.items())
    keys = f"'primary-key'='{','.join(['id', *COLUMNS])}', " if merged else ""
    options = LAYOUTS[layout][0].replace("'primary-key'='id', ", keys)
    spark.sql(f"CREATE TABLE t (id INT, {types}) PARTITIONED BY ({', '.join(COLUMNS)}) TBLPROPERTIES ({options})")
    for _ in range(2 if merged else 1):
        spark.sql(f"INSERT INTO t VALUES {values}")
    assert shown(spark, "t") == shown(spark, "wanted")
    conditions = [f"{c} {op} {v}" for c, (_, vs) in COLUMNS.items() for v in vs for op in ("=", "<")]
    conditions += [f"{c} IN ({', '.join(vs[:2])})" for c, (_, vs) in COLUMNS.items()]
    conditions += [f"{c} IS NULL" for c in COLUMNS]
    assert answers(spark, "t", conditions) == answers(spark, "wanted", conditions)
    bounds = ", ".join(f"CAST(min({c}) AS STRING), CAST(max({c}) AS STRING)" for c in COLUMNS)
    totals = f"SELECT count(*), {bounds} FROM"
    assert_df_equality(spark.sql(f"{totals} t"), spark.sql(f"{totals} wanted"), ignore_nullable=True)
    assert len(rows(spark, "SHOW PARTITIONS t")) == len(rows(spark, "SELECT * FROM `t$partitions`"))


@pytest.fixture
def numbers(spark: SparkSession) -> SparkSession:
    """A table partitioned by a DOUBLE, and a view of its rows."""
    values = ", ".join(f"({i}, {i * 10}, {v})" for i, v in enumerate([*DOUBLES, "NULL"]))
    spark.sql("CREATE TABLE d (id INT, v INT, p DOUBLE) PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO d VALUES {values}")
    spark.sql(f"CREATE TEMPORARY VIEW same AS SELECT * FROM VALUES {values} AS x(id, v, p)")
    return spark


def test_directories_are_named_as_java_spells_numbers(numbers: SparkSession, warehouse: Path) -> None:
    (database,) = rows(numbers, "SELECT current_database()")[0]
    names = {p.name for p in (warehouse / f"{database}.db" / "d").iterdir() if "=" in p.name}
    spelt = ("NaN", "Infinity", "-Infinity", "0.0", "-0.0", "4.9E-324", "-1.7976931348623157E308", "1.0E20")
    assert names == {f"p={s}" for s in (*spelt, "__DEFAULT_PARTITION__")}
    assert {r[0] for r in rows(numbers, "SHOW PARTITIONS d")} == {f"p={s}" for s in (*spelt, "null")}


def test_numbers_compare_as_everywhere_in_spark(numbers: SparkSession) -> None:
    conditions = [f"p {op} {v}" for v in DOUBLES for op in ("=", "<=>", "<", "<=", ">", ">=", "<>")]
    conditions += [f"p IN ({DOUBLES[0]}, {DOUBLES[4]})", f"p NOT IN ({DOUBLES[0]}, {DOUBLES[3]})", "NOT p > 0"]
    assert answers(numbers, "d", conditions) == answers(numbers, "same", conditions)
    counts = numbers.sql("SELECT CAST(p AS STRING) AS p, count(*) FROM d GROUP BY d.p")
    wanted = numbers.sql("SELECT CAST(p AS STRING) AS p, count(*) FROM same AS d GROUP BY d.p")
    assert_df_equality(counts, wanted, ignore_nullable=True, ignore_row_order=True)
    for value in (DOUBLES[0], DOUBLES[4]):
        counted = f"SELECT count(*) FROM {{}} WHERE p = {value}"
        assert "PaimonMetadata" in str(rows(numbers, "EXPLAIN " + counted.format("d")))
        assert rows(numbers, counted.format("d")) == rows(numbers, counted.format("same"))


def test_numbers_join_whatever_prunes_their_partitions(numbers: SparkSession) -> None:
    numbers.sql("CREATE TABLE small (p DOUBLE, name STRING)")
    named = f"({DOUBLES[3]}, 'zero'), ({DOUBLES[0]}, 'nan'), ({DOUBLES[1]}, 'inf'), (7D, 'x')"
    numbers.sql(f"INSERT INTO small VALUES {named}")
    join = "SELECT d.id, s.name FROM {} d JOIN small s ON d.p = s.p WHERE s.name <> 'x' ORDER BY id"
    numbers.conf.set("spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly", "false")
    numbers.conf.set("spark.sql.optimizer.dynamicPartitionPruning.fallbackFilterRatio", "10")
    assert_df_equality(numbers.sql(join.format("d")), numbers.sql(join.format("same")), ignore_nullable=True)
    assert [r[0] for r in rows(numbers, join.format("d"))] == [0, 1, 3, 4]


def test_partitions_of_numbers_change(numbers: SparkSession) -> None:
    nan, zero = DOUBLES[0], DOUBLES[3]

    def left() -> list[tuple]:
        return rows(numbers, "SELECT id, v FROM d WHERE id < 5 OR id > 90 ORDER BY id")

    numbers.sql(f"UPDATE d SET v = v + 1 WHERE p = {zero}")
    assert left() == [(0, 0), (1, 10), (2, 20), (3, 31), (4, 41)]
    numbers.sql(f"MERGE INTO d USING (SELECT {nan} AS p) s ON d.p = s.p WHEN MATCHED THEN UPDATE SET v = -1")
    assert left() == [(0, -1), (1, 10), (2, 20), (3, 31), (4, 41)]
    numbers.sql("INSERT OVERWRITE d PARTITION (p = 'Infinity') VALUES (91, 1)")
    assert left() == [(0, -1), (2, 20), (3, 31), (4, 41), (91, 1)]
    numbers.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    numbers.sql(f"INSERT OVERWRITE d VALUES (92, 2, {nan})")
    assert left() == [(2, 20), (3, 31), (4, 41), (91, 1), (92, 2)]
    numbers.sql("ALTER TABLE d DROP PARTITION (p = '-Infinity')")
    assert left() == [(3, 31), (4, 41), (91, 1), (92, 2)]
    numbers.sql(f"DELETE FROM d WHERE p = {nan}")
    assert left() == [(3, 31), (4, 41), (91, 1)]
    numbers.sql(f"DELETE FROM d WHERE p = {zero}")
    assert left() == [(91, 1)]


def test_partitions_of_numbers_are_compacted(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE d (id INT, p DOUBLE) PARTITIONED BY (p) "
        "TBLPROPERTIES ('primary-key'='id,p', 'bucket'='1', 'write-only'='true')"
    )
    for number in (1, 2):
        spark.sql(f"INSERT INTO d VALUES ({number}, {DOUBLES[0]}), ({number}, {DOUBLES[1]})")
    spark.sql("CALL sys.compact(table => 'd', partitions => 'p=NaN', compact_strategy => 'full')")
    files = rows(spark, "SELECT partition, count(*) FROM `d$files` GROUP BY 1")
    assert {p.strip("{}"): n for p, n in files} == {"NaN": 1, "Infinity": 2}
    assert rows(spark, f"SELECT id FROM d WHERE p = {DOUBLES[0]} ORDER BY id") == [(1,), (2,)]


def test_dead_rows_of_partitions_of_any_value_are_left_out(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE t (id INT, v INT, p DOUBLE, d DATE, s STRING) PARTITIONED BY (p, d, s) "
        "TBLPROPERTIES ('primary-key'='id,p,d,s', 'bucket'='1', 'write-only'='true')"
    )
    places = [(DOUBLES[0], "DATE '1582-10-10'", "'a/b'"), (DOUBLES[2], "DATE '0001-01-01'", "' '")]
    for p, d, s in places:
        spark.sql(f"INSERT INTO t SELECT id, 0, {p}, {d}, {s} FROM range({FEWEST_ROWS})")
        spark.sql(f"INSERT INTO t SELECT id, 1, {p}, {d}, {s} FROM range(10)")
    assert "2 native without superseded rows" in str(rows(spark, "EXPLAIN SELECT * FROM t"))
    found = rows(spark, "SELECT CAST(p AS STRING), CAST(d AS STRING), s, count(*), sum(v) FROM t GROUP BY p, d, s")
    wanted = [("NaN", "1582-10-10", "a/b", FEWEST_ROWS, 10), ("-Infinity", "0001-01-01", " ", FEWEST_ROWS, 10)]
    assert sorted(found) == sorted(wanted)
    for p, d, s in places:
        for where in (f"p = {p}", f"d = {d}", f"s = {s}"):
            assert rows(spark, f"SELECT count(id), sum(v) FROM t WHERE {where}") == [(FEWEST_ROWS, 10)], where


def test_partitions_of_types_that_spark_sees_as_others(spark: SparkSession, warehouse: Path) -> None:
    (database,) = rows(spark, "SELECT current_database()")[0]
    moment = Timestamp(1_715_682_030_123, 456_789)
    for name, column_type, value, literal in (
        ("time", "TIME(3)", 86_399_999, "86399999"),
        ("seconds", "TIMESTAMP(0)", Timestamp(-1000), "TIMESTAMP_NTZ '1969-12-31 23:59:59'"),
        ("nanos", "TIMESTAMP(9)", moment, "TIMESTAMP_NTZ '2024-05-14 10:20:30.123456'"),
        ("instant", "TIMESTAMP(9) WITH LOCAL TIME ZONE", moment, "TIMESTAMP '2024-05-14 15:50:30.123456'"),
        ("char", "CHAR(4)", "a", "'a'"),
    ):
        spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
        t = parse_atomic(column_type)
        fields = (DataField(0, "id", parse_atomic("INT")), DataField(1, "p", t))
        schema = TableSchema(id=0, fields=fields, highest_field_id=1, partition_keys=("p",))
        catalog = open_catalog({"warehouse": str(warehouse)})
        identifier = Identifier(database, name)
        catalog.create_table(identifier, schema)
        column = pa.chunked_array([pa.repeat(arrow_scalar(v, t), 1) for v in (value, None)], to_arrow_type(t))
        write_arrow(catalog.load_table(identifier), pa.table({"id": pa.array([1, 2], pa.int32()), "p": column}))
        for condition, found in (
            (f"p = {literal}", [1]),
            (f"p <=> {literal}", [1]),
            (f"p IN ({literal})", [1]),
            (f"p <= {literal}", [1]),
            (f"p < {literal}", []),
            (f"p > {literal}", []),
            (f"p <> {literal}", []),
            ("p IS NULL", [2]),
        ):
            assert answers(spark, name, [condition]) == {condition: found}, name
        assert rows(spark, f"SELECT count(*) FROM {name} WHERE p = {literal}") == [(1,)], name
        spark.sql(f"DELETE FROM {name} WHERE p = {literal}")
        assert rows(spark, f"SELECT id FROM {name}") == [(2,)], name

"""Changed columns through SQL: REPLACE COLUMNS, defaults, nested members, and old files read by Spark and by workers."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.core.table import Table
from paimon_spark.spec.evolution import new_schema
from paimon_spark.spec.identifier import Identifier
from tests.property.test_schema_histories import FORMATS, KINDS, altered, modelled, ordered, written
from tests.query_results import rows
from tests.schema_histories import History
from tests.variants import every


def shown(spark: SparkSession, sql: str) -> list[Any]:
    return [plain(r) for r in spark.sql(sql).collect()]


def plain(value: Any) -> Any:
    """Return a value of Spark as Arrow's Python value, maps as pairs."""
    if isinstance(value, Row):
        return {k: plain(value[k]) for k in value.__fields__}
    if isinstance(value, dict):
        return [(k, plain(v)) for k, v in value.items()]
    return [plain(v) for v in value] if isinstance(value, list) else value


def created(warehouse: Path, database: str, name: str, history: History, options: dict[str, str]) -> Table:
    catalog = open_catalog({"warehouse": str(warehouse)})
    return catalog.create_table(Identifier(database, name), new_schema(history.fields, options=options, now_millis=0))


@pytest.mark.parametrize(("kind", "file_format"), every(4, product(KINDS, FORMATS)))
def test_spark_reads_old_files_as_the_model_says(
    spark: SparkSession, warehouse: Path, kind: str, file_format: str
) -> None:
    ((database,),) = rows(spark, "SELECT current_database()")
    for seed in range(4):
        history = History(Random(seed), partial_update=kind == "partial-update", keyed=kind != "append")
        options = KINDS[kind] | {"file.format": file_format}
        table = created(warehouse, database, f"t{seed}", history, options)
        for _ in range(14):
            if history.rng.random() < 0.4:
                written(table, history.write(4))
                continue
            change = history.change()
            table = table if change is None else altered(table, change)
        assert ordered(shown(spark, f"SELECT * FROM t{seed}")) == modelled(history), seed
        name = history.columns[-1].name
        alone = sorted(repr(r[name]) for r in shown(spark, f"SELECT `{name}` FROM t{seed}"))
        assert alone == sorted(repr(r[name]) for r in shown(spark, f"SELECT * FROM t{seed}")), seed


def test_replace_columns_is_one_change(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE t (id INT, v INT COMMENT 'old', s STRING, r STRUCT<x: INT, y: STRING>) "
        "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')"
    )
    spark.sql("INSERT INTO t VALUES (1, 10, 'a', struct(5, 'b'))")
    spark.sql("ALTER TABLE t REPLACE COLUMNS (n DATE, id INT, r STRUCT<y: STRING, x: BIGINT, z: INT>, v BIGINT)")
    assert rows(spark, "SELECT n, id, r.x, r.y, r.z, v FROM t") == [(None, 1, 5, "b", None, 10)]
    assert spark.table("t").columns == ["n", "id", "r", "v"]
    assert rows(spark, "SELECT max(schema_id) FROM `t$schemas`") == [(1,)]
    with pytest.raises(Exception, match="part of the primary key"):
        spark.sql("ALTER TABLE t REPLACE COLUMNS (v BIGINT)")
    assert spark.table("t").columns == ["n", "id", "r", "v"]


def test_types_are_narrowed_by_replace_columns_and_modify(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT, v BIGINT)")
    spark.sql("INSERT INTO t VALUES (1, 10)")
    with pytest.raises(Exception, match="NOT_SUPPORTED_CHANGE_COLUMN"):
        spark.sql("ALTER TABLE t ALTER COLUMN v TYPE INT")
    spark.sql("ALTER TABLE t REPLACE COLUMNS (id INT, v INT)")
    assert spark.table("t").dtypes == [("id", "int"), ("v", "int")]
    spark.sql("ALTER TABLE t MODIFY v SMALLINT")
    assert spark.table("t").dtypes == [("id", "int"), ("v", "smallint")]
    assert rows(spark, "SELECT * FROM t") == [(1, 10)]
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('disable-explicit-type-casting' = 'true')")
    for statement in ("REPLACE COLUMNS (id INT, v TINYINT)", "MODIFY v TINYINT"):
        with pytest.raises(Exception, match="disable-explicit-type-casting"):
            spark.sql(f"ALTER TABLE t {statement}")


def test_nulls_of_deeply_nested_columns_are_written(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT, n ARRAY<STRUCT<k: STRING, m: MAP<INT, ARRAY<DATE>>>>)")
    spark.sql("INSERT INTO t (id) VALUES (1)")
    assert rows(spark, "SELECT * FROM t") == [(1, None)]


def test_drop_column_if_exists(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT, v INT)")
    spark.sql("ALTER TABLE t DROP COLUMN IF EXISTS nope")
    spark.sql("ALTER TABLE t DROP COLUMN IF EXISTS v")
    assert spark.table("t").columns == ["id"]


def test_defaults_replace_nulls_as_in_paimon(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE t (id INT, s STRING DEFAULT 'it\\'s', n INT DEFAULT 7, a ARRAY<INT> DEFAULT array(1, 2), "
        "m MAP<STRING, INT> DEFAULT map('k', 1))"
    )
    spark.sql("INSERT INTO t (id) VALUES (1)")
    spark.sql("INSERT INTO t VALUES (2, NULL, NULL, NULL, NULL), (3, '', 0, array(), map())")
    spark.sql("INSERT INTO t VALUES (4, DEFAULT, DEFAULT, DEFAULT, DEFAULT)")
    filled = ("it's", 7, [1, 2], {"k": 1})
    assert rows(spark, "SELECT * FROM t ORDER BY id") == [(1, *filled), (2, *filled), (3, "", 0, [], {}), (4, *filled)]


def test_defaults_of_dates_are_texts(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT, d DATE DEFAULT '2024-05-14', ts TIMESTAMP DEFAULT '2024-05-14 10:20:30')")
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        spark.sql("INSERT INTO t (id) VALUES (1)")
        spark.sql("INSERT INTO t VALUES (2, NULL, NULL), (3, DEFAULT, DEFAULT)")
        found = rows(spark, "SELECT DISTINCT CAST(d AS STRING), CAST(ts AS STRING) FROM t")
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert found == [("2024-05-14", "2024-05-14 10:20:30")]


def test_a_default_that_is_no_literal_is_refused(spark: SparkSession) -> None:
    for column in ("s STRING DEFAULT concat('a', 'b')", "n INT DEFAULT 1 + 1", "d DATE DEFAULT current_date()"):
        with pytest.raises(Exception, match="is not a value of type"):
            spark.sql(f"CREATE TABLE t (id INT, {column})")
    spark.sql("CREATE TABLE t (id INT, s STRING)")
    with pytest.raises(Exception, match="is not a value of type"):
        spark.sql("ALTER TABLE t ALTER COLUMN s SET DEFAULT upper('x')")
    spark.sql("ALTER TABLE t ALTER COLUMN s SET DEFAULT 'x'")
    spark.sql("INSERT INTO t (id) VALUES (1)")
    spark.sql("ALTER TABLE t ALTER COLUMN s DROP DEFAULT")
    spark.sql("INSERT INTO t (id) VALUES (2)")
    assert rows(spark, "SELECT * FROM t ORDER BY id") == [(1, "x"), (2, None)]


def test_statements_tell_the_partitions_of_both_zeros_apart(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (k INT, p DOUBLE) PARTITIONED BY (p)")

    def filled() -> None:
        spark.sql("INSERT OVERWRITE t VALUES (1, 0.0D), (2, double('-0.0')), (3, 1.5D)")

    def keys() -> list[int]:
        return [k for (k,) in rows(spark, "SELECT k FROM t ORDER BY k")]

    for statement, left in {
        "INSERT OVERWRITE t PARTITION (p = '0.0') VALUES (9)": [2, 3, 9],
        "INSERT OVERWRITE t PARTITION (p = '-0.0') VALUES (9)": [1, 3, 9],
        "TRUNCATE TABLE t PARTITION (p = '-0.0')": [1, 3],
        "ALTER TABLE t DROP PARTITION (p = '0.0')": [2, 3],
        "ALTER TABLE t DROP PARTITION (p = '0.0'), PARTITION (p = '-0.0')": [3],
        "DELETE FROM t WHERE p = 0": [3],
    }.items():
        filled()
        spark.sql(statement)
        assert keys() == left, statement


def test_truncate_of_a_missing_partition_fails(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (k INT, dt STRING, hh INT) PARTITIONED BY (dt, hh)")
    spark.sql("INSERT INTO t VALUES (1, 'a', 1)")
    with pytest.raises(Exception, match="PARTITIONS_NOT_FOUND"):
        spark.sql("TRUNCATE TABLE t PARTITION (dt = 'a', hh = 2)")
    spark.sql("TRUNCATE TABLE t PARTITION (dt = 'b')")
    assert rows(spark, "SELECT count(*) FROM t") == [(1,)]


def test_the_partitions_that_compact_lists_can_be_given(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (k INT, ts TIMESTAMP, d DATE) PARTITIONED BY (ts, d)")
    spark.sql("INSERT INTO t VALUES (1, TIMESTAMP '2024-05-14 10:20:30', DATE '2024-05-14')")
    spark.sql("INSERT INTO t VALUES (2, TIMESTAMP '2024-05-14 10:20:30', DATE '2024-05-14')")
    missing = rows(spark, "CALL sys.compact(table => 't', partitions => 'd=1999-01-01')")
    spec = "'ts=2024-05-14 10:20:30.000000,d=2024-05-14'"
    assert f"There are: {spec}." in missing[0][1]
    found = rows(spark, f"CALL sys.compact(table => 't', partitions => {spec}, compact_strategy => 'full')")
    assert "no partition" not in found[0][1]


@pytest.mark.parametrize("engine", ["aggregation", "partial-update"])
def test_renamed_members_stay_the_nested_key(spark: SparkSession, engine: str) -> None:
    group = "'fields.g.sequence-group' = 'a', " if engine == "partial-update" else ""
    spark.sql(
        f"CREATE TABLE t (id INT, g INT, a ARRAY<STRUCT<x: INT, y: STRING>>) TBLPROPERTIES ({group}"
        f"'primary-key' = 'id', 'bucket' = '1', 'merge-engine' = '{engine}', "
        "'fields.a.aggregate-function' = 'nested_update', 'fields.a.nested-key' = 'x')"
    )
    spark.sql("INSERT INTO t VALUES (1, 1, array(struct(1, 'a'), struct(2, 'b')))")
    spark.sql("ALTER TABLE t RENAME COLUMN a.element.x TO key")
    spark.sql("ALTER TABLE t RENAME COLUMN a TO items")
    spark.sql("ALTER TABLE t ADD COLUMN items.element.z INT FIRST")
    spark.sql("INSERT INTO t VALUES (1, 2, array(struct(7, 2, 'new')))")
    want = [(1, None, "a"), (2, 7, "new")]
    got = "SELECT i.key, i.z, i.y FROM (SELECT explode(items) AS i FROM t) ORDER BY 1"
    assert rows(spark, got) == want
    spark.sql("CALL sys.compact(table => 't')")
    assert rows(spark, got) == want
    assert dict(rows(spark, "SHOW TBLPROPERTIES t"))["fields.items.nested-key"] == "key"


@pytest.mark.parametrize("properties", ["", "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')"])
def test_variants_are_written_and_read(spark: SparkSession, properties: str) -> None:
    spark.sql(f"CREATE TABLE t (id INT, v VARIANT, a ARRAY<VARIANT>) {properties}")
    spark.sql("INSERT INTO t SELECT 1, parse_json('{\"a\": 1}'), array(parse_json('[2]'), NULL)")
    spark.sql("INSERT INTO t SELECT 2, NULL, NULL")
    spark.sql("ALTER TABLE t RENAME COLUMN v TO w")
    spark.sql("ALTER TABLE t ADD COLUMN v VARIANT")
    spark.sql("UPDATE t SET v = parse_json('true') WHERE id = 2")
    spark.sql("CALL sys.compact(table => 't', compact_strategy => 'full')")
    read = "SELECT id, to_json(w), variant_get(w, '$.a', 'int'), size(a), to_json(get(a, 0)), to_json(v) FROM t ORDER BY id"
    assert rows(spark, read) == [(1, '{"a":1}', 1, 2, "[2]", None), (2, None, None, None, None, "true")]


def test_a_variant_needs_parquet(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="type VARIANT in avro files cannot be created"):
        spark.sql("CREATE TABLE t (id INT, v VARIANT) TBLPROPERTIES ('file.format' = 'avro')")


@pytest.mark.parametrize("change", ["ALTER COLUMN v DROP NOT NULL", "DROP COLUMN v"])
def test_rows_without_a_value_that_a_frame_requires(spark: SparkSession, change: str) -> None:
    spark.sql("DROP TABLE IF EXISTS t")
    spark.sql("CREATE TABLE t (id INT, v INT NOT NULL, w INT)")
    spark.sql("INSERT INTO t VALUES (1, 10, 100)")
    before, frame, one = spark.table("t"), spark.table("t"), spark.table("t").select("id")
    spark.sql(f"ALTER TABLE t {change}")
    assert [tuple(r) for r in before.collect()] == [(1, 10, 100)]
    spark.sql("INSERT INTO t (id, w) VALUES (2, 200)")
    with pytest.raises(Exception, match=r"\[UNSUPPORTED_FEATURE\] The column 'v' .* newer files"):
        frame.collect()
    assert [list(r) for r in one.orderBy("id").collect()] == [[1], [2]]
    assert rows(spark, "SELECT id, w FROM t ORDER BY id") == [(1, 100), (2, 200)]

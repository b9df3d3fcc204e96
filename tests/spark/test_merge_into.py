"""merge_into against a model of it in plain Python, and its rules one by one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.spec.quoted_text import string_literal
from tests.query_results import rows

Row = dict[str, Any]
Target = dict[int, Row]


def call(spark: SparkSession, **arguments: str) -> dict[str, Any]:
    named = ", ".join(f"{name} => {string_literal(value)}" for name, value in arguments.items())
    return spark.sql(f"CALL sys.merge_into({named})").collect()[0].asDict()


TARGET_ROWS = [(1, 5, "a"), (2, 15, "b"), (3, 25, None), (4, None, "d"), (5, 45, "e")]
SOURCE_ROWS = [(1, 100, "x"), (2, 5, None), (4, 400, "y"), (7, 70, "z"), (8, None, "w")]


@pytest.fixture
def tables(spark: SparkSession) -> SparkSession:
    spark.sql("CREATE TABLE T (id INT, price INT, mark STRING) TBLPROPERTIES ('primary-key'='id', 'bucket'='2')")
    spark.sql("CREATE TABLE S (order_id INT, price INT, mark STRING)")
    values = ", ".join(f"({i}, {p or 'NULL'}, {repr(m) if m else 'NULL'})" for i, p, m in TARGET_ROWS)
    spark.sql(f"INSERT INTO T VALUES {values}")
    values = ", ".join(f"({i}, {p or 'NULL'}, {repr(m) if m else 'NULL'})" for i, p, m in SOURCE_ROWS)
    spark.sql(f"INSERT INTO S VALUES {values}")
    return spark


# Each action: its arguments, and what it does to the target by the model.
Effect = Callable[[Target, Mapping[int, Row], Mapping[int, Row]], None]


def over(n: int, value: int | None) -> bool:
    return value is not None and value > n


def upsert(changed: Target, target: Mapping[int, Row], source: Mapping[int, Row]) -> None:
    for key in target.keys() & source.keys():
        if over(4, source[key]["price"]):
            changed[key] = {"price": add(target[key]["price"], source[key]["price"]), "mark": target[key]["mark"]}


def add(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def delete(changed: Target, target: Mapping[int, Row], source: Mapping[int, Row]) -> None:
    for key in target.keys() & source.keys():
        if over(10, target[key]["price"]):
            changed.pop(key)


def insert(changed: Target, target: Mapping[int, Row], source: Mapping[int, Row]) -> None:
    for key in source.keys() - target.keys():
        if source[key]["mark"] != "w":
            changed[key] = {"price": source[key]["price"], "mark": "new-" + source[key]["mark"]}


def by_source_upsert(changed: Target, target: Mapping[int, Row], source: Mapping[int, Row]) -> None:
    for key in target.keys() - source.keys():
        if over(20, target[key]["price"]):
            changed[key] = {"price": target[key]["price"], "mark": "left"}


def by_source_delete(changed: Target, target: Mapping[int, Row], source: Mapping[int, Row]) -> None:
    for key in target.keys() - source.keys():
        if over(40, target[key]["price"]):
            changed.pop(key)


ACTIONS: list[tuple[dict[str, str], Effect]] = [
    ({"matched_upsert_condition": "S.price > 4", "matched_upsert_setting": "price = T.price + S.price"}, upsert),
    (
        {
            "not_matched_by_source_upsert_condition": "price > 20",
            "not_matched_by_source_upsert_setting": "mark = 'left'",
        },
        by_source_upsert,
    ),
    ({"matched_delete_condition": "T.price > 10"}, delete),
    ({"not_matched_by_source_delete_condition": "T.price > 40"}, by_source_delete),
    (
        {
            "not_matched_insert_condition": "mark <> 'w'",
            "not_matched_insert_values": "order_id, price, concat('new-', S.mark)",
        },
        insert,
    ),
]


@pytest.mark.parametrize("size", [1, 2, *(pytest.param(size, marks=pytest.mark.slow) for size in (3, 4, 5))])
def test_every_combination_of_actions_does_what_the_model_does(tables: SparkSession, size: int) -> None:
    for chosen in itertools.combinations(ACTIONS, size):
        arguments: dict[str, str] = {}
        target = {i: {"price": p, "mark": m} for i, p, m in TARGET_ROWS}
        source = {i: {"price": p, "mark": m} for i, p, m in SOURCE_ROWS}
        expected = dict(target)
        for given, effect in chosen:
            arguments |= given
            effect(expected, target, source)
        done = call(tables, target_table="T", source_table="S", merge_condition="T.id = S.order_id", **arguments)
        assert (done["result"], done["status"]) == ("Success", "done")
        assert (done["snapshot_before"], done["snapshot_after"]) == (1, 2)
        assert content(tables) == [(i, r["price"], r["mark"]) for i, r in sorted(expected.items())], arguments
        tables.sql("CALL sys.rollback_to('T', 1)")
        assert content(tables) == TARGET_ROWS


def content(spark: SparkSession) -> list[tuple]:
    return rows(spark, "SELECT * FROM T ORDER BY id")


def merge(spark: SparkSession, **arguments: str) -> dict[str, Any]:
    usual = {"target_table": "T", "source_table": "S", "merge_condition": "T.id = S.order_id"}
    return call(spark, **usual | arguments)


def test_stars_take_all_columns_of_the_source_in_order(tables: SparkSession) -> None:
    merge(tables, matched_upsert_setting="*", not_matched_insert_values="S.*")
    assert content(tables) == [
        (1, 100, "x"),
        (2, 5, None),
        TARGET_ROWS[2],
        (4, 400, "y"),
        TARGET_ROWS[4],
        *SOURCE_ROWS[3:],
    ]


def test_a_new_key_adds_a_row_and_several_matches_write_one_row(tables: SparkSession) -> None:
    merge(tables, matched_upsert_condition="S.order_id = 1", matched_upsert_setting="T.id = S.order_id + 10")
    assert content(tables) == [*TARGET_ROWS, (11, 5, "a")]
    tables.sql("CREATE TEMPORARY VIEW many AS SELECT 1 AS k, id AS v FROM range(100)")
    try:
        arguments = {"source_table": "many", "merge_condition": "T.id = many.k"}
        merge(tables, **arguments, matched_upsert_setting="price = CAST(many.v AS INT) + 1000")
    finally:
        tables.catalog.dropTempView("many")
    price = rows(tables, "SELECT price FROM T WHERE id = 1")[0][0]
    assert 1000 <= price < 1100
    assert rows(tables, "SELECT count(*) FROM T") == [(6,)]


def test_rows_of_one_key_are_upserts_first_and_inserts_last(tables: SparkSession) -> None:
    both = {"merge_condition": "T.id = S.order_id AND T.price = S.price", "not_matched_insert_values": "*"}
    merge(tables, **both, not_matched_by_source_delete_condition="TRUE")
    assert content(tables) == SOURCE_ROWS
    tables.sql("CALL sys.rollback_to('T', 1)")
    always = {"matched_upsert_condition": "TRUE", "matched_upsert_setting": "price = 0"}
    done = merge(tables, **always, matched_delete_condition="T.id < 3")
    assert content(tables) == [TARGET_ROWS[2], (4, 0, "d"), TARGET_ROWS[4]]
    assert done["rows"] == 3
    tables.sql("CALL sys.rollback_to('T', 1)")
    merge(
        tables,
        matched_upsert_condition="TRUE",
        matched_upsert_setting="id = T.id + 20",
        matched_delete_condition="TRUE",
    )
    assert content(tables) == [TARGET_ROWS[2], TARGET_ROWS[4], (21, 5, "a"), (22, 15, "b"), (24, None, "d")]


def test_target_and_source_of_one_name_need_an_alias(tables: SparkSession) -> None:
    itself = {"source_table": "T", "merge_condition": "A.id = T.id + 1", "matched_upsert_setting": "mark = T.mark"}
    with pytest.raises(Exception, match="both called 'T'"):
        merge(tables, **itself)
    merge(tables, target_alias="A", **itself)
    assert [m for _, _, m in content(tables)] == ["a", "a", "b", None, "d"]
    with pytest.raises(Exception, match="name of a table"):
        merge(tables, target_alias="S", **itself)


def test_statements_that_prepare_the_source_leave_nothing(tables: SparkSession, warehouse: Path) -> None:
    database = tables.catalog.currentDatabase()
    tables.sql("CREATE DATABASE IF NOT EXISTS elsewhere")
    tables.sql("CREATE OR REPLACE TABLE elsewhere.news (k INT, v STRING)")
    tables.sql("""INSERT INTO elsewhere.news VALUES (1, "it's; news"), (6, 'six')""")
    before = tables.catalog.listCatalogs()
    done = merge(
        tables,
        target_table=f"paimon.{database}.T",
        target_alias="old",
        source_sqls=f"CREATE CATALOG mine WITH ('type'='paimon', 'warehouse'='{warehouse}'); USE CATALOG mine;"
        "USE elsewhere; CREATE TEMPORARY VIEW fresh AS SELECT n.*, count(*) OVER () AS c, '--;' AS w FROM news n "
        f"WHERE k > (SELECT min(id) - 1 FROM old)",
        source_table="fresh",
        merge_condition="old.id = fresh.k",
        matched_upsert_setting="mark = fresh.v, price = fresh.c",
        not_matched_insert_values="k, -1, concat(v, w)",
    )
    assert done["status"] == "done"
    assert content(tables) == [(1, 2, "it's; news"), *TARGET_ROWS[1:], (6, -1, "six--;")]
    assert (tables.catalog.currentDatabase(), tables.catalog.listCatalogs()) == (database, before)
    assert not tables.catalog.tableExists("fresh")
    assert not tables.catalog.tableExists("old")


BAD = [
    ({"source_sqls": "DROP TABLE T", "matched_delete_condition": "TRUE"}, "is not allowed there"),
    ({"source_sqls": "CREATE TEMPORARY VIEW v AS SELECT * FROM nowhere"}, "failed: CREATE TEMPORARY VIEW v"),
    ({"source_table": "nowhere"}, "not a table or view"),
    ({"target_table": "nowhere"}, "does not exist"),
    ({"target_table": "S"}, "no primary key"),
    ({"merge_condition": "T.id = S.idd"}, "names the column 'S.idd'"),
    ({"merge_condition": "T.id + S.order_id"}, "is not a condition: its type is int"),
    ({"merge_condition": "T.id = array(S.order_id)"}, "'merge_condition' .* does not fit"),
    ({"matched_delete_condition": "T.id = 1; DROP TABLE T"}, "not one expression"),
    ({"matched_delete_condition": "TRUE) UNION SELECT * FROM T WHERE (TRUE"}, "matched_delete_condition"),
    ({"matched_delete_condition": "nosuch(T.id)"}, "'matched_delete_condition' .* does not fit"),
    ({"matched_upsert_setting": "price = 'x' || T.id, nope = 1"}, "Column|names the column 'nope'"),
    ({"matched_upsert_setting": "price = current_date"}, "column 'price' .* value of type date"),
    ({"matched_upsert_setting": "price = 3000000000"}, "(?i)overflow"),
    ({"matched_upsert_setting": "id = NULL"}, "NOT NULL"),
    ({"not_matched_insert_values": "order_id, price"}, "gives 2 values .* has 3 columns"),
    ({"not_matched_insert_values": "order_id, T.price, mark"}, "only columns of the source"),
    ({"not_matched_by_source_upsert_setting": "id = id + 1"}, "primary key"),
    ({"not_matched_by_source_delete_condition": "S.price > 1"}, "only columns of the target"),
]


def test_a_bad_argument_is_named_and_changes_nothing(tables: SparkSession) -> None:
    tables.conf.set("spark.sql.ansi.enabled", "false")
    try:
        for arguments, message in BAD:
            actions = arguments.keys() - {"source_sqls", "source_table", "target_table", "merge_condition"}
            usual = {} if actions else {"matched_delete_condition": "TRUE"}
            with pytest.raises(Exception, match=message):
                merge(tables, **usual | arguments)
    finally:
        tables.conf.unset("spark.sql.ansi.enabled")
    assert content(tables) == TARGET_ROWS
    assert rows(tables, "SELECT count(*) FROM `T$snapshots`") == [(1,)]


def test_the_plan_says_what_would_happen_and_nothing_happens(tables: SparkSession) -> None:
    sql = "sys.merge_into('T', '', '', 'S', 'T.id = S.order_id', '', 'price = 0', 'price > 1', '*', '')"
    found = rows(tables, f"EXPLAIN CALL {sql}")
    assert [(r[0], r[3]) for r in found] == [
        ("read", "2 files of snapshot 1, joined with S on T.id = S.order_id"),
        ("write", "matched-upsert as +U: price = 0"),
        ("write", "not-matched-insert where price > 1 as +I: *"),
    ]
    assert found[0][2] > 0
    assert merge(tables, matched_delete_condition="FALSE")["status"] == "nothing to do"
    assert rows(tables, "SELECT count(*) FROM `T$snapshots`") == [(1,)]


def test_types_of_all_kinds_and_texts_that_are_too_long(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE T (id BIGINT, d DECIMAL(6, 2), v VARCHAR(3), c CHAR(4), a ARRAY<INT>, s STRUCT<x: INT, y: STRING>, "
        "t TIMESTAMP, p DATE) PARTITIONED BY (p) TBLPROPERTIES ('primary-key'='id,p')"
    )
    row = "'ab', 'cd', array(1, 2), struct(1, 'y'), TIMESTAMP '2024-01-02 03:04:05.678901'"
    spark.sql(f"INSERT INTO T SELECT 1, 1.25, {row}, DATE '2024-01-01'")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW S AS SELECT id, 2 AS d, {row}, DATE '2024-01-02' AS p FROM range(3)")
    usual = {"target_table": "T", "source_table": "S", "merge_condition": "T.id = S.id"}
    call(spark, **usual, matched_upsert_setting="d = T.d + 1, v = 'x  ', c = 'abcd  '", not_matched_insert_values="*")
    assert rows(spark, "SELECT id, d, v, c, s.y, a[1], p FROM T ORDER BY id")[1][1:4] == (
        Decimal("2.25"),
        "x  ",
        "abcd",
    )
    assert rows(
        spark, "SELECT id, cast(d AS STRING), c, s.y, a[1], cast(p AS STRING) FROM T WHERE id <> 1 ORDER BY id"
    ) == [
        (0, "2.00", "cd  ", "y", 2, "2024-01-02"),
        (2, "2.00", "cd  ", "y", 2, "2024-01-02"),
    ]
    for setting in ("v = 'abcd'", "c = 'abcde'", "d = 123456"):
        with pytest.raises(Exception, match=r"longer than|NUMERIC_VALUE_OUT_OF_RANGE"):
            call(spark, **usual, matched_upsert_setting=setting)
    spark.catalog.dropTempView("S")


@pytest.mark.parametrize("procedure", ["merge_into", "data_evolution_merge_into"])
def test_the_target_is_read_as_it_is_stored(spark: SparkSession, warehouse: Path, procedure: str) -> None:
    evolving = "'row-tracking.enabled'='true', 'data-evolution.enabled'='true'"
    merges = procedure == "merge_into"
    properties = "'primary-key'='id', 'bucket'='1'" if merges else evolving
    spark.sql(f"CREATE TABLE t (id INT, v STRING, n INT) TBLPROPERTIES ({properties})")
    spark.sql("CREATE TABLE s AS SELECT 1 AS id")
    spark.sql("INSERT INTO t VALUES (1, 'old', 10)")
    spark.sql("CACHE TABLE t")
    spark.sql("SET spark.paimon.scan.snapshot-id = 1")
    other = paimon_spark.connect(warehouse).table(f"{spark.catalog.currentDatabase()}.t")
    other.overwrite(pa.table([[1], ["new"], [20]], schema=other.schema))
    sets = "matched_upsert_setting => 'n = t.n + 1'" if merges else "matched_update_set => 'n = t.n + 1'"
    spark.sql(
        f"CALL sys.{procedure}(target_table => 't', source_table => 's', merge_condition => 't.id = s.id', {sets})"
    )
    spark.sql("RESET spark.paimon.scan.snapshot-id")
    spark.sql("UNCACHE TABLE t")
    assert rows(spark, "SELECT * FROM t") == [(1, "new", 21)]

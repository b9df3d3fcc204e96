"""CALL through the injected parser and through Spark's own route."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from paimon_spark.spec.quoted_text import quoted_name


@pytest.fixture
def table(spark: SparkSession) -> SparkSession:
    spark.sql("CREATE TABLE t (id INT, v INT) TBLPROPERTIES ('primary-key'='id', 'bucket'='1')")
    spark.sql("INSERT INTO t VALUES (1, 1)")
    spark.sql("INSERT INTO t VALUES (1, 2)")
    return spark


def snapshots(spark: SparkSession) -> int:
    return spark.sql("SELECT count(*) FROM `t$snapshots`").collect()[0][0]


def test_compact_reports_what_it_did_once(table: SparkSession) -> None:
    before = snapshots(table)
    frame = table.sql("CALL sys.compact(table => 't')")
    assert frame.columns[:2] == ["result", "status"]
    assert frame.collect()[0].status == "done"
    frame.collect()
    assert snapshots(table) == before + 1
    assert table.sql("CALL sys.compact(table => 't')").collect()[0].status == "nothing to do"


def test_explain_call_and_dry_run_change_nothing(table: SparkSession) -> None:
    before = snapshots(table)
    for text in ("EXPLAIN CALL sys.compact('t')", "CALL sys.compact(table => 't', dry_run => true)"):
        frame = table.sql(text)
        assert frame.columns == ["action", "path", "bytes", "reason", "kept_by"]
        assert frame.count() > 0
    assert snapshots(table) == before


def test_wrong_calls_say_what_is_right(table: SparkSession) -> None:
    with pytest.raises(Exception, match="table"):
        table.sql("CALL sys.compact(tabel => 't')")
    with pytest.raises(Exception, match=r"TABLE_NOT_FOUND|NOT_FOUND"):
        table.sql("CALL sys.compact('nosuch')")


def test_other_statements_reach_sparks_parser(table: SparkSession) -> None:
    with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):
        table.sql("CALLING something")
    assert table.sql("SELECT 'call sys.compact()' AS x").collect()[0].x == "call sys.compact()"


def test_the_native_route_serves_parameter_markers(table: SparkSession) -> None:
    answer = table.sql("CALL sys.compact(table => :t)", args={"t": "t"}).collect()
    assert answer[0].status == "done"


def test_times_are_read_in_the_session_zone_however_spelled(table: SparkSession) -> None:
    now = "date_format(current_timestamp() + INTERVAL 1 HOUR, 'yyyy-MM-dd HH:mm:ss')"
    for zone in ("Asia/Tokyo", "+05:30", "GMT-8"):
        table.sql(f"SET spark.sql.session.timeZone = {zone}")
        soon = table.sql(f"SELECT {now}").collect()[0][0]
        call = f"CALL sys.expire_snapshots(table => 't', older_than => '{soon}', retain_min => 1, dry_run => true)"
        assert [r.action for r in table.sql(call).collect()].count("delete") > 0
        past = table.sql(f"SELECT {now.replace('+', '-')}").collect()[0][0]
        call = f"CALL sys.expire_snapshots(table => 't', older_than => '{past}', retain_min => 1, dry_run => true)"
        assert table.sql(call).collect() == []


def test_a_statement_after_many_comments_is_parsed_at_once(table: SparkSession) -> None:
    assert table.sql("/* a */ " * 40 + "SELECT 1").collect()[0][0] == 1
    assert table.sql("/* a */ -- b\n" * 40 + "CALL sys.help('compact')").count() > 1


def test_procedures_are_listed(table: SparkSession) -> None:
    if table.version < "4.1":
        pytest.skip("SHOW PROCEDURES came with Spark 4.1: make test-spark SPARK=4.1")
    for statement in ("SHOW PROCEDURES IN paimon.sys", "SHOW PROCEDURES"):
        names = {r.procedure_name for r in table.sql(statement).collect()}
        assert {"compact", "create_tag", "rollback_to"} <= names


@pytest.mark.parametrize("name", ["plain", "a-b", "größe", "a.b", "a`b"])
def test_cached_rows_of_a_table_with_any_name_are_dropped(spark: SparkSession, name: str) -> None:
    table = quoted_name(name)
    spark.sql(f"CREATE TABLE {table} (id INT)")
    spark.sql(f"INSERT INTO {table} VALUES (1)")
    spark.sql(f"INSERT INTO {table} VALUES (2)")
    spark.sql(f"CACHE TABLE {table}")
    try:
        assert spark.table(table).count() == 2
        spark.sql(f"CALL sys.rollback_to(table => '{table}', snapshot_id => 1)")
        assert spark.table(table).count() == 1
    finally:
        spark.sql(f"UNCACHE TABLE IF EXISTS {table}")

"""Procedures that only read, as table functions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from paimon_spark.calls.registry import installed_registry


@pytest.fixture(scope="module")
def spark(spark_app: SparkSession) -> Iterator[SparkSession]:
    session = spark_app.newSession()
    session.sql("USE paimon")
    session.sql("CREATE DATABASE tvf")
    session.sql(
        "CREATE TABLE tvf.t (k INT, v STRING) TBLPROPERTIES ('primary-key'='k','bucket'='1','tag.creation-period'='daily')"
    )
    session.sql("INSERT INTO tvf.t VALUES (1, 'a')")
    session.sql("INSERT INTO tvf.t VALUES (2, 'b')")
    yield session
    session.sql("DROP DATABASE paimon.tvf CASCADE")


@pytest.mark.parametrize(
    ("function", "call"),
    [
        ("paimon_doctor('tvf.t')", "sys.doctor('tvf.t')"),
        ("paimon_doctor(table => 'tvf.*', list_files => false)", "sys.doctor('tvf.*')"),
        ("paimon_doctor('tvf.t', NULL)", "sys.doctor('tvf.t')"),
        ("PAIMON_HISTORY('tvf.t', 1)", "sys.history('tvf.t', 1)"),
        ("paimon_diff('tvf.t', '1', '2')", "sys.diff('tvf.t', '1', '2')"),
        ("paimon_verify('tvf.t')", "sys.verify('tvf.t')"),
        ("paimon_why('tvf.t', 'snapshot-1')", "sys.why('tvf.t', 'snapshot-1')"),
        ("paimon_config('tvf.t')", "sys.config('tvf.t')"),
        ("paimon_help()", "sys.help()"),
    ],
)
def test_a_function_returns_what_the_call_returns(spark: SparkSession, function: str, call: str) -> None:
    found, expected = spark.sql(f"SELECT * FROM {function}"), spark.sql(f"CALL {call}")
    assert found.schema == expected.schema
    assert found.collect() == expected.collect()


def test_functions_are_tables_like_any_other(spark: SparkSession) -> None:
    (row,) = spark.sql(
        "SELECT d.finding, count(*) AS n FROM (SELECT * FROM paimon_doctor('tvf.t')) d "
        "JOIN paimon_history('tvf.t') h ON h.event = 'snapshot' WHERE d.severity = 'info' GROUP BY 1"
    ).collect()
    assert tuple(row) == ("OPTION_WITHOUT_EFFECT", 2)


def test_from_another_catalog(spark: SparkSession) -> None:
    spark.sql("USE spark_catalog")
    try:
        assert spark.sql("SELECT * FROM paimon_history('paimon.tvf.t')").count() == 2
        assert spark.sql("SELECT * FROM paimon_doctor('paimon.tvf.*')").count() == 1
    finally:
        spark.sql("USE paimon")


def test_errors_are_those_of_the_call(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="the choices are error, warning, info"):
        spark.sql("SELECT * FROM paimon_doctor('tvf.t', 'fatal')")
    with pytest.raises(Exception, match="is not a literal"):
        spark.sql("SELECT * FROM paimon_doctor(concat('tvf', '.t'))")
    with pytest.raises(Exception, match=r"table-valued|paimon_compact"):
        spark.sql("SELECT * FROM paimon_compact('tvf.t')")


def test_only_procedures_that_read_are_functions() -> None:
    names = {"config", "diff", "doctor", "help", "history", "verify", "why"}
    assert {p.name for p in installed_registry() if p.read_only} == names | {"running", "trash"}

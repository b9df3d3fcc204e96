"""Errors of statements: one short message with a code and a hint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, NumberFormatException, PySparkException, SparkRuntimeException
from pyspark.sql import SparkSession


def said_of(spark: SparkSession, sql: str, kind: type[Exception] = PySparkException) -> str:
    """Return the message of a statement that fails."""
    with pytest.raises(kind) as caught:
        spark.sql(sql)
    return str(caught.value)


@pytest.mark.parametrize("properties", ["", "TBLPROPERTIES ('primary-key' = 'id')"])
def test_a_value_that_fails_at_run_time_is_told_without_stacks(spark: SparkSession, properties: str) -> None:
    spark.sql(f"CREATE TABLE t (id INT NOT NULL, d INT, v STRING NOT NULL, s VARCHAR(3)) {properties}")
    spark.sql("INSERT INTO t VALUES (1, 1, 'a', 'abc')")
    for sql, code, kind in (
        ("UPDATE t SET d = 'abc'", "CAST_INVALID_INPUT", NumberFormatException),
        ("UPDATE t SET v = NULL", "NOT_NULL_ASSERT_VIOLATION", SparkRuntimeException),
        ("UPDATE t SET s = 'abcd'", "EXCEED_LIMIT_LENGTH", SparkRuntimeException),
        ("INSERT INTO t SELECT 2, 2, 'b', repeat('x', 4)", "EXCEED_LIMIT_LENGTH", SparkRuntimeException),
        (
            "INSERT INTO t SELECT 2, 2, IF(rand() < 2, NULL, 'b'), 'x'",
            "NOT_NULL_ASSERT_VIOLATION",
            SparkRuntimeException,
        ),
    ):
        message = said_of(spark, sql, kind)
        assert message.startswith(f"[{code}]")
        assert "JVM stacktrace" not in message
        assert "\tat " not in message
        assert "Job aborted" not in message
    assert [tuple(r) for r in spark.sql("SELECT * FROM t").collect()] == [(1, 1, "a", "abc")]


def test_a_missing_table_is_told_with_what_may_be_meant(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE orders (id INT)")
    database = spark.catalog.currentDatabase()
    for sql, meant in (
        ("SELECT * FROM `orders$snapshot`", "snapshots"),
        ("SELECT * FROM oders", "orders"),
        (f"SELECT * FROM paimon.{database}.oders", "orders"),
        ("SELECT * FROM range(1) WHERE id IN (SELECT id FROM oders)", "orders"),
        ("INSERT INTO oders VALUES (1)", "orders"),
        ("DELETE FROM oders WHERE id = 1", "orders"),
        ("DESCRIBE TABLE oders", "orders"),
        (f"SELECT * FROM {database}x.orders", database),
    ):
        with pytest.raises(AnalysisException, match=f"Did you mean '.*{meant}'") as caught:
            spark.sql(sql)
        assert str(caught.value).startswith("[TABLE_OR_VIEW_NOT_FOUND]")
        assert caught.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    with pytest.raises(AnalysisException, match="oders"):
        spark.range(1).writeTo("oders").append()
    spark.sql("DROP TABLE IF EXISTS oders")
    spark.sql("UNCACHE TABLE IF EXISTS oders")
    assert not spark.catalog.tableExists("oders")


def test_a_paimon_table_in_the_session_catalog_is_refused(spark: SparkSession) -> None:
    spark.sql("USE spark_catalog.default")
    message = said_of(spark, "CREATE TABLE lost (id INT) USING paimon", AnalysisException)
    assert "Run USE paimon first, or name the catalog, as in paimon.default.lost." in message
    with pytest.raises(AnalysisException, match="USE paimon"):
        spark.range(1).write.format("paimon").saveAsTable("lost")
    with pytest.raises(AnalysisException, match="needs a path"):
        spark.read.format("paimon").load()
    assert not spark.catalog.tableExists("lost")


def plan_of(spark: SparkSession, sql: str) -> str:
    return "\n".join(r[0] for r in spark.sql(f"EXPLAIN {sql}").collect())


def test_explain_names_what_a_statement_does_to_which_table(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT, v STRING, p INT) PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'id,p')")
    name = f"{spark.catalog.currentDatabase()}.t"
    source = "(SELECT 1 AS id, 'x' AS v, 1 AS p) s"
    for sql, told in (
        ("INSERT INTO t VALUES (1, 'a', 1)", f"appends to {name}"),
        ("INSERT OVERWRITE t VALUES (1, 'a', 1)", f"overwrites {name}"),
        ("INSERT OVERWRITE t PARTITION (p = 1) VALUES (1, 'a')", f"overwrites {name} where p = 1"),
        ("DELETE FROM t WHERE id = 1 AND v IS NULL", f"DELETE FROM {name} WHERE ((t.id = 1) AND (t.v IS NULL))"),
        ("UPDATE t SET v = concat(v, '!') WHERE p > 1", f"UPDATE {name} SET v = concat(t.v, '!') WHERE (t.p > 1)"),
        (
            f"MERGE INTO t USING {source} ON t.id = s.id AND t.p = s.p WHEN MATCHED AND s.v = 'y' THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *",
            f"MERGE INTO {name} ON ((t.id = s.id) AND (t.p = s.p)) WHEN MATCHED AND (s.v = 'y') THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v, p) VALUES (s.id, s.v, s.p)",
        ),
        ("DELETE FROM t WHERE id IN (SELECT id FROM range(3))", f"DELETE FROM {name} WHERE"),
    ):
        for explained in (plan_of(spark, sql), plan_of(spark, f"FORMATTED {sql}"), plan_of(spark, f"EXTENDED {sql}")):
            assert told in explained
            assert "Lambda" not in explained
            assert "PaimonWrite@" not in explained
    assert spark.sql("SELECT count(*) FROM t").collect()[0][0] == 0


MERGE = "MERGE INTO orders AS o USING source AS q ON {} WHEN {}"


@pytest.mark.parametrize(
    ("sql", "wrong", "meant"),
    [
        ("UPDATE orders SET sate = 'x' WHERE id = 1", "sate", "state"),
        ("UPDATE orders SET state = sate", "sate", "state"),
        ("UPDATE orders SET state = 'x' WHERE ide = 1", "ide", "id"),
        ("UPDATE orders SET state = (SELECT ss FROM source)", "ss", "s"),
        ("DELETE FROM orders WHERE ide = 1", "ide", "id"),
        ("DELETE FROM orders WHERE id IN (SELECT idd FROM source)", "idd", "id"),
        (MERGE.format("o.idd = q.id", "MATCHED THEN DELETE"), "idd", "id"),
        (MERGE.format("o.id = q.id", "MATCHED AND o.sate = 'a' THEN DELETE"), "sate", "state"),
        (MERGE.format("o.id = q.id", "MATCHED THEN UPDATE SET sate = q.s"), "sate", "state"),
        (MERGE.format("o.id = q.id", "MATCHED THEN UPDATE SET state = q.ss"), "ss", "s"),
        (MERGE.format("o.id = q.id", "NOT MATCHED AND q.ss = 'a' THEN INSERT (id) VALUES (q.id)"), "ss", "s"),
        (MERGE.format("o.id = q.id", "NOT MATCHED THEN INSERT (id, sate) VALUES (q.id, q.s)"), "sate", "state"),
        (MERGE.format("o.id = q.id", "NOT MATCHED THEN INSERT (id, state) VALUES (q.id, q.ss)"), "ss", "s"),
        (MERGE.format("o.id = q.id", "NOT MATCHED BY SOURCE AND o.sate = 'a' THEN DELETE"), "sate", "state"),
        (MERGE.format("o.id = q.id", "NOT MATCHED BY SOURCE THEN UPDATE SET sate = 'x'"), "sate", "state"),
        ("INSERT INTO orders (id, sate) VALUES (1, 'x')", "sate", "state"),
        ("INSERT INTO orders SELECT id, sate, dt FROM orders", "sate", "state"),
        ("INSERT INTO orders REPLACE WHERE dtt = 'x' VALUES (1, 'x', 'x')", "dtt", "dt"),
        ("CREATE TABLE other AS SELECT sate FROM orders", "sate", "state"),
        ("SELECT sate FROM orders", "sate", "state"),
        ("SELECT id FROM source WHERE id IN (SELECT idd FROM orders)", "idd", "id"),
        ("ALTER TABLE orders DROP COLUMN sate", "sate", "state"),
        ("ALTER TABLE orders RENAME COLUMN sate TO x", "sate", "state"),
        ("ALTER TABLE orders ALTER COLUMN state AFTER idd", "idd", "id"),
        ("ALTER TABLE orders ADD COLUMN x INT AFTER idd", "idd", "id"),
        ("DESCRIBE orders sate", "sate", "state"),
    ],
)
@pytest.mark.parametrize("properties", ["", "TBLPROPERTIES ('primary-key' = 'id,dt')"])
def test_a_mistyped_column_is_told_without_a_plan(
    spark: SparkSession, properties: str, sql: str, wrong: str, meant: str
) -> None:
    spark.sql(f"CREATE TABLE orders (id INT, state STRING, dt STRING) PARTITIONED BY (dt) {properties}")
    spark.sql("CREATE TABLE source (id INT, s STRING)")
    with pytest.raises(AnalysisException) as caught:
        spark.sql(sql)
    assert caught.value.getCondition() in ("UNRESOLVED_COLUMN.WITH_SUGGESTION", "COLUMN_NOT_FOUND", None)
    message = str(caught.value)
    assert f"{wrong}`" in message or f"'{wrong}'" in message
    assert f"{meant}`" in message.partition("Did you mean")[2] or f"are {meant}," in message
    assert "\n" not in message.strip()


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("ALTER TABLE orders ADD COLUMN state INT", "[FIELD_ALREADY_EXISTS]"),
        ("ALTER TABLE orders ALTER COLUMN state TYPE INT", "[NOT_SUPPORTED_CHANGE_COLUMN]"),
        ("UPDATE orders SET id = id + array(1)", "[DATATYPE_MISMATCH"),
    ],
)
def test_other_errors_of_the_analysis_come_without_a_plan(spark: SparkSession, sql: str, said: str) -> None:
    spark.sql("CREATE TABLE orders (id INT, state STRING)")
    message = said_of(spark, sql)
    assert message.startswith(said)
    assert "\n" not in message.strip()


def test_statements_that_are_right_pass_the_early_check(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE orders (id INT, state STRING)")
    spark.sql("INSERT INTO orders VALUES (1, 'a'), (2, 'b')")
    spark.sql("CREATE TEMPORARY VIEW seen AS SELECT id AS x FROM orders")
    for sql, count in (
        ("SELECT /*+ NO_SUCH_HINT(orders) */ id FROM orders", 2),
        ("SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM seen WHERE seen.x = o.id AND o.state = 'a')", 1),
        ("SELECT id, (SELECT max(x) FROM seen WHERE seen.x <= o.id) AS m FROM orders o", 2),
        ("SELECT id, rand() AS r FROM orders GROUP BY id, rand()", 2),
        ("SELECT * FROM orders, LATERAL (SELECT x FROM seen WHERE x < id)", 1),
        ("WITH c AS (SELECT id FROM orders) SELECT * FROM c WHERE id IN (SELECT x FROM seen)", 2),
    ):
        assert len(spark.sql(sql).collect()) == count, sql


@pytest.mark.parametrize(
    "sql",
    [
        "MERGE INTO oders USING orders ON oders.id = orders.id WHEN MATCHED THEN DELETE",
        "MERGE INTO orders USING oders ON oders.id = orders.id WHEN MATCHED THEN DELETE",
        "UPDATE oders SET id = 1",
        "ALTER TABLE oders ADD COLUMN x INT",
        "ALTER TABLE oders DROP PARTITION (id = 1)",
        "DROP TABLE oders",
        "TRUNCATE TABLE oders",
        "CREATE TABLE other LIKE oders",
        "SHOW CREATE TABLE oders",
    ],
)
def test_a_mistyped_table_is_told_by_every_statement(spark: SparkSession, sql: str) -> None:
    spark.sql("CREATE TABLE orders (id INT)")
    message = said_of(spark, sql)
    assert message.startswith("[TABLE_OR_VIEW_NOT_FOUND]")
    assert "Did you mean 'orders'?" in message
    assert "\n" not in message.strip()


def test_a_mistyped_function_is_named(spark: SparkSession) -> None:
    database = spark.catalog.currentDatabase()
    for name in ("uper", f"{database}.upper"):
        assert said_of(spark, f"SELECT {name}('a')").startswith("[UNRESOLVED_ROUTINE]")
    assert spark.sql("SELECT upper('a')").first() == ("A",)


def test_a_mistyped_name_in_a_call_is_told(spark: SparkSession) -> None:
    database = spark.catalog.currentDatabase()
    spark.sql("CREATE TABLE orders (id INT, dt STRING) PARTITIONED BY (dt)")
    spark.sql("INSERT INTO orders VALUES (1, 'a')")
    spark.sql(f"CREATE DATABASE paimon.{database}_empty")
    try:
        for call, meant in (
            ("compact('oders')", "'orders'"),
            (f"compact('paimon.{database}.oders')", "'orders'"),
            (f"compact('{database}_.orders')", f"'{database}"),
            (f"compact('{database}_empty.orders')", f"'{database}.orders'"),
            ("comapct('orders')", "'compact'"),
            ("compact('orders', 'dtt=a')", "'dt'"),
        ):
            assert f"Did you mean {meant}" in said_of(spark, f"CALL sys.{call}")
    finally:
        spark.sql(f"DROP DATABASE paimon.{database}_empty")
    status = spark.sql("CALL sys.compact('orders', 'dt=aa')").collect()[0].status
    assert status == "nothing to do: no partition matches dt=aa. Did you mean 'dt=a'?"


def test_a_mistyped_database_is_told_by_every_statement(spark: SparkSession) -> None:
    database = spark.catalog.currentDatabase()
    for sql in (
        f"USE {database}x",
        f"USE paimon.{database}x",
        f"SHOW TABLES IN {database}x",
        f"DROP DATABASE {database}x",
        f"DESCRIBE DATABASE {database}x",
        f"CREATE TABLE {database}x.t (id INT)",
    ):
        with pytest.raises(AnalysisException, match=rf"Did you mean '{database}'\?") as caught:
            spark.sql(sql)
        assert caught.value.getCondition() == "SCHEMA_NOT_FOUND"
    spark.sql(f"DROP DATABASE IF EXISTS {database}x")
    assert "'nowhere.d'" in said_of(spark, "SHOW TABLES IN nowhere.d")


def test_statements_of_other_formats_name_the_procedure(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE orders (id INT)")
    for sql, call in (
        ("OPTIMIZE orders", "CALL sys.compact('orders')"),
        ("-- rewrite\noptimize paimon.`x`.orders WHERE id > 1", "CALL sys.compact('paimon.`x`.orders')"),
        ("VACUUM orders RETAIN 7 HOURS", "CALL sys.expire_snapshots('orders')"),
        ("VACUUM orders", "CALL sys.remove_orphan_files('orders')"),
        ("ALTER TABLE orders CREATE BRANCH b", "CALL sys.create_branch('orders', '<branch>')"),
        ("ALTER TABLE orders DROP BRANCH b", "CALL sys.delete_branch('orders', '<branch>')"),
    ):
        message = said_of(spark, sql)
        assert message.startswith("[UNSUPPORTED_FEATURE]")
        assert call in message
    assert "CALL sys.history('orders')" in said_of(spark, "DESCRIBE HISTORY orders")
    for sql in ("VACUUM spark_catalog.default.t", "OPTIMIZE"):
        assert said_of(spark, sql).startswith("\n[PARSE_SYNTAX_ERROR]")


def test_missing_and_existing_names_have_the_codes_of_spark(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    for sql, code in (
        ("SELECT * FROM missing", "TABLE_OR_VIEW_NOT_FOUND"),
        ("CREATE TABLE t (id INT)", "TABLE_OR_VIEW_ALREADY_EXISTS"),
        ("USE missing", "SCHEMA_NOT_FOUND"),
        (f"CREATE DATABASE {spark.catalog.currentDatabase()}", "SCHEMA_ALREADY_EXISTS"),
    ):
        with pytest.raises(AnalysisException) as caught:
            spark.sql(sql)
        assert caught.value.getCondition() == code


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (
            "ALTER TABLE p DROP PARTITION (d = 'zz')",
            "[COLUMN_NOT_FOUND] 'd' is not a column of table {}.p. Its partition",
        ),
        ("ALTER TABLE p DROP IF EXISTS PARTITION (d = 'zz')", "[COLUMN_NOT_FOUND]"),
        (
            "ALTER TABLE p DROP PARTITION (dt = 'a'), PARTITION (k = 1)",
            "[INVALID_ARGUMENT] 'k' is not a partition column",
        ),
        ("ALTER TABLE p DROP PARTITION (dt = 'a', hh = 'zz')", "[TYPE_MISMATCH] 'zz' is not a value of the partition"),
        ("TRUNCATE TABLE p PARTITION (hh = 'zz')", "[TYPE_MISMATCH]"),
        ("TRUNCATE TABLE p PARTITION (d = 'zz')", "[COLUMN_NOT_FOUND]"),
        ("SHOW PARTITIONS p PARTITION (d = 'zz')", "[COLUMN_NOT_FOUND]"),
        ("ALTER TABLE p ADD PARTITION (d = 'zz')", "[COLUMN_NOT_FOUND]"),
        ("ALTER TABLE u DROP PARTITION (k = 1)", "[INVALID_ARGUMENT] Table {}.u has no partitions."),
        ("TRUNCATE TABLE u PARTITION (k = 1)", "[INVALID_ARGUMENT] Table {}.u has no partitions."),
        ("SHOW PARTITIONS u", "[INVALID_ARGUMENT] Table {}.u has no partitions."),
    ],
)
def test_a_wrong_partition_is_told_with_the_partition_columns(
    spark: SparkSession, ansi: str, sql: str, said: str
) -> None:
    spark.sql("CREATE TABLE p (k INT, dt STRING, hh INT) PARTITIONED BY (dt, hh)")
    spark.sql("CREATE TABLE u (k INT)")
    spark.sql("INSERT INTO p VALUES (1, 'a', 1), (2, 'a', NULL)")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    message = said_of(spark, sql)
    assert message.startswith(said.format(spark.catalog.currentDatabase()))
    assert "dt, hh" in message or "COLUMN" not in message
    assert "\n" not in message.strip()
    assert len(spark.sql("SELECT * FROM p").collect()) == 2


@contextmanager
def log_of(spark: SparkSession, name: str, file: Path) -> Iterator[None]:
    """Write the messages of loggers below `name` from INFO on to a file too."""
    jvm: Any = spark._jvm
    log4j = jvm.org.apache.logging.log4j
    level, core = log4j.Level.INFO, log4j.core
    appender = core.appender.FileAppender.newBuilder().withFileName(str(file)).setName(name).build()
    appender.start()
    context = log4j.LogManager.getContext(False)
    logger = core.config.LoggerConfig(name, level, True)
    logger.addAppender(appender, level, None)
    context.getConfiguration().addLogger(name, logger)
    context.updateLoggers()
    try:
        yield
    finally:
        context.getConfiguration().removeLogger(name)
        context.updateLoggers()
        appender.stop()


def test_the_trace_of_a_failed_task_is_once_in_the_log_only(
    spark: SparkSession, warehouse: Path, tmp_path: Path
) -> None:
    options = "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'write-only' = 'true')"
    spark.sql(f"CREATE TABLE t (id INT NOT NULL, v STRING) {options}")
    for value in "ab":
        spark.sql(f"INSERT INTO t VALUES (1, '{value}')")
    for file in (warehouse / f"{spark.catalog.currentDatabase()}.db/t").glob("bucket-0/data-*"):
        file.write_bytes(b"no such format")
    log = tmp_path / "executor.log"
    with (
        log_of(spark, "org.apache.spark.sql.paimonbridge.ErrorReportingRDD", log),
        pytest.raises(PySparkException) as caught,
    ):
        spark.sql("SELECT * FROM t").collect()
    assert "Traceback" not in str(caught.value)
    said = log.read_text(encoding="utf-8")
    assert said.count("A task failed: ") == 1
    assert "Traceback (most recent call last)" in said
    assert str(caught.value).partition("\n")[0][:60] in said

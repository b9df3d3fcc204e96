"""Changes in SQL: table functions, options, `$audit_log` and `$binlog`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
UPDATED, DELETED = (1, "c"), (2, "b")


@pytest.fixture(scope="module")
def changes(spark_app: SparkSession) -> Iterator[SparkSession]:
    """Table T: two rows, an update, a compaction, a delete; tags on the first and the last snapshot."""
    session = spark_app.newSession()
    session.sql("CREATE DATABASE paimon.changes")
    session.sql("USE paimon.changes")
    session.sql(
        "CREATE TABLE T (id INT, v STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'write-only' = 'true')"
    )
    session.sql("INSERT INTO T VALUES (1, 'a'), (2, 'b')")
    session.sql("UPDATE T SET v = 'c' WHERE id = 1")
    session.sql("CALL sys.compact('T')")
    session.sql("DELETE FROM T WHERE id = 2")
    session.sql("CALL sys.create_tag('T', '2026-12-01', 1)")
    session.sql("CALL sys.create_tag('T', '2026-12-02', 4)")
    yield session
    session.sql("USE spark_catalog.default")
    session.sql("DROP DATABASE paimon.changes CASCADE")


def rows(spark: SparkSession, query: str) -> list[tuple[object, ...]]:
    return sorted((tuple(r) for r in spark.sql(query).collect()), key=str)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("SELECT * FROM paimon_incremental_query('T', 1, 4)", [UPDATED, DELETED]),
        ("SELECT x.v FROM PAIMON_INCREMENTAL_QUERY('changes.T', '1', '2') AS x WHERE x.id = 1", [("c",)]),
        ("SELECT * FROM paimon_incremental_query('paimon.changes.T', '2026-12-01', '2026-12-02')", [UPDATED]),
        ("SELECT * FROM paimon_incremental_to_auto_tag('T', '2026-12-02')", [UPDATED]),
        ("SELECT * FROM paimon_incremental_to_auto_tag('T', '2026-12-01')", []),
        ("SELECT count(*) FROM paimon_incremental_between_timestamp('T', 0, 9999999999999)", [(4,)]),
        (
            "SELECT count(*) FROM paimon_incremental_between_timestamp"
            "('T', DATE '2000-01-01', TIMESTAMP '2999-01-01 00:00:00')",
            [(4,)],
        ),
        ("SELECT count(*) FROM paimon_incremental_between_timestamp('T', '2000-01-01', '2999-01-01 10:00:00')", [(4,)]),
        ("SELECT * FROM T WITH ('incremental-between' = '1,2')", [UPDATED]),
        ("SELECT * FROM T /*+ OPTIONS('incremental-between' = '1,2') */", [UPDATED]),
        ("SELECT count(*) FROM T WITH ('incremental-between' = '1,4') WHERE id < 2", [(1,)]),
        ("WITH T AS (SELECT * FROM paimon_incremental_query('T', 1, 2)) SELECT * FROM T", [UPDATED]),
        ("SELECT id FROM T WHERE id IN (SELECT id FROM paimon_incremental_query('T', 1, 2))", [(1,)]),
        ("SELECT a.v, b.v FROM T a JOIN paimon_incremental_query('T', 0, 1) b ON a.id = b.id", [("c", "a")]),
        ("SELECT * FROM `T$audit_log` WITH ('incremental-between' = '1,4')", [("+U", *UPDATED), ("-D", *DELETED)]),
        ("SELECT v, rowkind FROM paimon_incremental_query('`T$audit_log`', 1, 4) WHERE rowkind = '-D'", [("b", "-D")]),
        ("SELECT * FROM paimon_incremental_query('`T$binlog`', 1, 4)", [("+U", [1], ["c"]), ("-D", [2], ["b"])]),
        ("SELECT v[0] FROM `T$binlog` WHERE id[0] = 1 AND id IS NOT NULL", [("c",)]),
        ("SELECT * FROM `T$ro`", [UPDATED, DELETED]),
    ],
)
def test_queries_of_changes(changes: SparkSession, query: str, wanted: list[object]) -> None:
    assert rows(changes, query) == sorted(wanted, key=str)


def test_changes_by_reader_and_session_options(changes: SparkSession) -> None:
    found = changes.read.option("incremental-between", "1,2").table("T")
    assert [tuple(r) for r in found.collect()] == [UPDATED]
    changes.sql("SET `spark.paimon.incremental-between-scan-mode` = diff")
    assert rows(changes, "SELECT * FROM paimon_incremental_query('T', 1, 4)") == [UPDATED]
    both = "SELECT * FROM paimon_incremental_query('`T$audit_log`', 0, 4)"
    assert rows(changes, both) == [("+U", *UPDATED), ("-D", *DELETED)]
    changes.sql("RESET `spark.paimon.incremental-between-scan-mode`")
    changes.sql("SET `spark.paimon.incremental-between` = `1,2`")
    assert rows(changes, "SELECT * FROM T") == [UPDATED]
    with pytest.raises(Exception, match="does not read the state"):
        changes.sql("SELECT * FROM `T$files`").collect()
    assert len(rows(changes, "SELECT * FROM `T$snapshots`")) == 4
    changes.sql("RESET `spark.paimon.incremental-between`")


def test_retracts_can_be_dropped_from_plain_queries(changes: SparkSession) -> None:
    query = "SELECT * FROM paimon_incremental_query('T', 1, 4)"
    changes.sql("SET spark.paimon.incremental.drop-retracts = true")
    assert rows(changes, query) == [UPDATED]
    assert rows(changes, query.replace("*", "count(*)")) == [(1,)]
    changes.sql("SET spark.paimon.incremental.drop-retracts = maybe")
    with pytest.raises(Exception, match="drop-retracts' holds 'maybe'"):
        changes.sql(query).collect()
    changes.sql("RESET spark.paimon.incremental.drop-retracts")
    assert rows(changes, query) == [UPDATED, DELETED]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("paimon_incremental_query('T', 1)", "has 2 arguments instead of 3"),
        ("paimon_incremental_query('T', 1, rand())", "not a literal"),
        ("paimon_incremental_query('T', 4, 1)", "ends before it begins"),
        ("paimon_incremental_query('T', 0, 9)", "1 to 4"),
        ("paimon_incremental_query('nosuch', 0, 1)", "does not exist"),
        ("paimon_incremental_query('V', 0, 1)", "is a view"),
        ("paimon_incremental_query('spark_catalog.default.T', 0, 1)", "not in a Paimon catalog"),
        ("paimon_incremental_qurey('T', 0, 1)", "Did you mean 'paimon_incremental_query'"),
        ("paimon_incremental_query('`T$ro`', 0, 1)", r"\$ro"),
        ("paimon_incremental_to_auto_tag('T', 'other')", "automatic tag"),
    ],
)
def test_wrong_calls_are_refused(changes: SparkSession, call: str, says: str) -> None:
    changes.sql("SELECT 1 AS id").createOrReplaceTempView("V")
    with pytest.raises(Exception, match=says):
        changes.sql(f"SELECT * FROM {call}").collect()


def test_explain_names_the_changes(changes: SparkSession) -> None:
    def plan(mode: str) -> str:
        options = f"'incremental-between' = '1,4', 'incremental-between-scan-mode' = '{mode}'"
        return str(changes.sql(f"EXPLAIN SELECT * FROM T WITH ({options})").head()[0])  # type: ignore[index]

    assert "changes=delta of snapshots 2 to 4, files=2/2" in plan("delta")
    assert "changes=difference of snapshots 1 and 4" in plan("diff")


def test_audit_tables_can_show_sequence_numbers(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE S (k INT, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', "
        "'table-read.sequence-number.enabled' = 'true')"
    )
    spark.sql("INSERT INTO S VALUES (1, 'a'), (2, 'b')")
    spark.sql("INSERT INTO S VALUES (1, 'c')")
    assert rows(spark, "SELECT * FROM `S$audit_log`") == [("+I", 1, 2, "b"), ("+I", 2, 1, "c")]
    assert rows(spark, "SELECT _SEQUENCE_NUMBER, v FROM paimon_incremental_query('`S$audit_log`', 0, 1)") == [
        (0, "a"),
        (1, "b"),
    ]
    assert rows(spark, "SELECT * FROM `S$binlog`") == [("+I", 1, [2], ["b"]), ("+I", 2, [1], ["c"])]
    assert rows(spark, "SELECT * FROM S") == [(1, "c"), (2, "b")]


def test_places_of_changed_rows(changes: SparkSession) -> None:
    for mode in ("delta", "diff"):
        options = f"'incremental-between' = '1,2', 'incremental-between-scan-mode' = '{mode}'"
        found = rows(changes, f"SELECT id, __paimon_row_index, __paimon_bucket FROM T WITH ({options})")
        assert found == [(1, 0, 0)]


def test_modes_that_read_files_by_their_age(changes: SparkSession) -> None:
    latest = rows(changes, "SELECT * FROM T")
    assert rows(changes, "SELECT * FROM T WITH ('scan.file-creation-time-millis' = '1000')") == latest
    assert rows(changes, "SELECT * FROM T WITH ('scan.file-creation-time-millis' = '9999999999999')") == []
    assert rows(changes, "SELECT * FROM T WITH ('scan.creation-time-millis' = '1000')") == latest
    compacted = rows(changes, "SELECT * FROM T WITH ('scan.mode' = 'compacted-full')")
    assert compacted == [UPDATED, DELETED]
    with pytest.raises(Exception, match="needs one of the options 'scan"):
        changes.sql("SELECT * FROM T WITH ('scan.mode' = 'from-creation-timestamp')").collect()

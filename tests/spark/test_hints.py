"""OPTIONS hints: on any table that is read or inserted into, for that reference alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
FIRST = [(1,)]
NOW = [(1, None), (2, "b")]


@pytest.fixture(scope="module")
def hints(spark_app: SparkSession) -> Iterator[SparkSession]:
    """Tables T and U of two snapshots each; the second column came between them."""
    session = spark_app.newSession()
    session.sql("CREATE DATABASE paimon.hints")
    session.sql("USE paimon.hints")
    for name in ("T", "U"):
        session.sql(f"CREATE TABLE {name} (k INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')")
        session.sql(f"INSERT INTO {name} VALUES (1)")
        session.sql(f"ALTER TABLE {name} ADD COLUMN v STRING")
        session.sql(f"INSERT INTO {name} VALUES (2, 'b')")
    session.sql("CALL sys.create_tag('T', 'first', 1)")
    yield session
    session.sql("USE spark_catalog.default")
    session.sql("DROP DATABASE paimon.hints CASCADE")


def rows(spark: SparkSession, query: str) -> list[tuple[object, ...]]:
    return sorted((tuple(r) for r in spark.sql(query).collect()), key=str)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("SELECT * FROM T /*+ OPTIONS('scan.snapshot-id'='1') */", FIRST),
        ("SELECT * FROM T /*+ OPTIONS('scan.tag-name'='first') */ x", FIRST),
        ("SELECT * FROM paimon.hints.T WITH ('scan.version' = 'first')", FIRST),
        ("SELECT x.k FROM T /*+ OPTIONS('scan.snapshot-id'='1') */ AS x WHERE x.k > 0", FIRST),
        (
            "SELECT a.k, b.k FROM T a LEFT JOIN T /*+ OPTIONS('scan.snapshot-id'='1') */ b ON a.k = b.k WHERE a.k < 9",
            [(1, 1), (2, None)],
        ),
        (
            "SELECT a.k, b.k FROM T /*+ OPTIONS('scan.snapshot-id'='1') */ a RIGHT JOIN T b ON a.k = b.k WHERE b.k = 1",
            [(1, 1)],
        ),
        (
            "SELECT count(*), (SELECT count(*) FROM T /*+ OPTIONS('scan.tag-name'='first') */) FROM T",
            [(2, 1)],
        ),
        ("SELECT * FROM T WHERE k NOT IN (SELECT k FROM T /*+ OPTIONS('scan.snapshot-id'='1') */)", [(2, "b")]),
        (
            "WITH T AS (SELECT * FROM T /*+ OPTIONS('scan.snapshot-id'='1') */), n AS (SELECT * FROM U) "
            "SELECT T.k, n.v FROM n LEFT JOIN T ON T.k = n.k WHERE n.k = 1",
            [(1, None)],
        ),
        ("SELECT k FROM T /*+ OPTIONS('scan.snapshot-id'='1') */ UNION ALL SELECT k FROM T", [(1,), (1,), (2,)]),
        ("SELECT count(*) FROM `T$files` /*+ OPTIONS('scan.snapshot-id'='1') */", [(1,)]),
        ("SELECT k FROM T VERSION AS OF 1 /*+ OPTIONS('scan.bucket'='0') */", FIRST),
        ("SELECT /*+ BROADCAST(x) */ x.k FROM T /*+ OPTIONS('scan.snapshot-id'='1') */ x JOIN U ON x.k = U.k", FIRST),
    ],
)
def test_reads(hints: SparkSession, query: str, wanted: list[tuple[object, ...]]) -> None:
    assert rows(hints, query) == sorted(wanted, key=str)


def test_the_hint_beats_the_session_and_the_session_the_table(hints: SparkSession) -> None:
    session = hints.newSession()
    session.sql("USE paimon.hints")
    session.sql("CREATE TABLE kept (k INT)")
    for k in (1, 2, 3):
        session.sql(f"INSERT INTO kept VALUES ({k})")
    session.sql("ALTER TABLE kept SET TBLPROPERTIES ('scan.snapshot-id' = '1')")
    assert len(rows(session, "SELECT * FROM kept")) == 1
    session.sql("SET 'paimon.*.hints.kept.scan.snapshot-id' = '2'")
    assert len(rows(session, "SELECT * FROM kept")) == 2
    assert len(rows(session, "SELECT * FROM kept /*+ OPTIONS('scan.snapshot-id'='3') */")) == 3
    assert len(session.read.option("scan.snapshot-id", "3").table("kept").collect()) == 3
    assert len(rows(session, "SELECT * FROM kept")) == 2


def test_views_keep_their_hints(hints: SparkSession) -> None:
    hints.sql("CREATE TEMPORARY VIEW old AS SELECT * FROM T /*+ OPTIONS('scan.snapshot-id'='1') */")
    assert rows(hints, "SELECT * FROM old") == FIRST
    assert rows(hints, "SELECT old.k, T.v FROM old JOIN T ON old.k = T.k") == [(1, None)]


def test_frames_read_at_the_schema_of_what_they_read(hints: SparkSession) -> None:
    frame = hints.read.option("scan.snapshot-id", "1").table("T")
    assert frame.columns == ["k"]
    assert [tuple(r) for r in frame.collect()] == FIRST
    assert hints.read.option("versionAsOf", "1").table("T").columns == ["k"]
    assert rows(hints, "SELECT * FROM T") == NOW


@pytest.mark.parametrize("at", ["VERSION AS OF 1", "TIMESTAMP AS OF '2200-01-01'"])
@pytest.mark.parametrize("option", ["'scan.snapshot-id'='1'", "'incremental-between'='1,2'", "'scan.mode'='latest'"])
def test_one_clause_selects_what_is_read(hints: SparkSession, at: str, option: str) -> None:
    with pytest.raises(Exception, match=r"INVALID_OPTION.*selects what is read, and so does VERSION AS OF"):
        hints.sql(f"SELECT * FROM T {at} WITH ({option})").collect()


def test_inserts(hints: SparkSession) -> None:
    hints.sql("CREATE TABLE sink (k INT, v STRING) TBLPROPERTIES ('num-sorted-run.compaction-trigger' = '2')")
    hints.sql("ALTER TABLE sink UNSET TBLPROPERTIES ('num-sorted-run.compaction-trigger')")
    hints.sql("INSERT INTO sink /*+ OPTIONS('file.format'='orc', 'write-only'='true') */ SELECT * FROM T")
    assert {r.file_format for r in hints.sql("SELECT file_format FROM `sink$files`").collect()} == {"orc"}
    hints.sql("INSERT INTO sink /*+ OPTIONS('file.format'='avro') */ SELECT * FROM sink")
    formats = [r.file_format for r in hints.sql("SELECT file_format FROM `sink$files`").collect()]
    assert sorted(formats) == ["avro", "orc"]
    hints.sql(
        "INSERT OVERWRITE sink /*+ OPTIONS('file.format'='parquet') */ "
        "SELECT * FROM sink /*+ OPTIONS('scan.snapshot-id'='1') */"
    )
    assert {r.file_format for r in hints.sql("SELECT file_format FROM `sink$files`").collect()} == {"parquet"}
    assert rows(hints, "SELECT * FROM sink") == NOW
    assert "file.format" not in dict(hints.sql("SHOW TBLPROPERTIES sink").collect())


@pytest.mark.parametrize("writers", [1, 3])
def test_as_many_writers_as_asked_for(hints: SparkSession, writers: int) -> None:
    hint = f"/*+ OPTIONS('sink.parallelism'='{writers}') */"
    name = f"written_{writers}"
    hints.sql(f"CREATE TABLE {name} (k BIGINT, p BIGINT)")
    hints.sql(f"INSERT INTO {name} {hint} SELECT id, id % 5 FROM range(40)")
    assert rows(hints, f"SELECT count(*) FROM `{name}$files`") == [(writers,)]
    assert rows(hints, f"SELECT count(*), sum(k) FROM {name}") == [(40, 780)]
    for bucket, partition in ((2, ""), (2, "p"), (-1, ""), (-1, "p")):
        keyed = f"keyed_{writers}_{abs(bucket)}{partition}"
        hints.sql(
            f"CREATE TABLE {keyed} (k BIGINT, p BIGINT) {'PARTITIONED BY (p)' if partition else ''} "
            f"TBLPROPERTIES ('primary-key' = 'k,p', 'bucket' = '{bucket}', 'sink.parallelism' = '{writers}')"
        )
        for _ in range(2):
            hints.sql(f"INSERT INTO {keyed} SELECT k, p FROM {name}")
        assert rows(hints, f"SELECT count(*), sum(k) FROM {keyed}") == [(40, 780)]


def test_frames_create_tables_with_their_options(hints: SparkSession) -> None:
    frame = hints.table("T")
    frame.write.format("paimon").option("primary-key", "k").option("bucket", "2").saveAsTable("made")
    shown = dict(hints.sql("SHOW TBLPROPERTIES made").collect())
    assert (shown["primary-key"], shown["bucket"]) == ("k", "2")
    frame.write.format("paimon").option("bucket", "2").mode("append").saveAsTable("made")
    assert rows(hints, "SELECT * FROM made") == NOW
    with pytest.raises(Exception, match="Did you mean 'bucket'"):
        frame.write.format("paimon").option("buckets", "2").saveAsTable("wrong")
    assert not hints.catalog.tableExists("wrong")


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("SELECT * FROM T /*+ OPTIONS('scan.snapshotid'='1') */", r"Did you mean 'scan\.snapshot-id'"),
        ("SELECT * FROM T /*+ OPTIONS('header'='1') */", "There is no table option 'header'"),
        ("SELECT * FROM T /*+ OPTIONS('scan.snapshot-id'='x') */", "whole number"),
        ("SELECT * FROM T /*+ OPTIONS('scan.snapshot-id'='99') */", "99"),
        ("SELECT * FROM T /*+ OPTIONS('scan.snapshot-id'='1', 'scan.tag-name'='first') */", "exclude each other"),
        ("SELECT * FROM T /*+ OPTIONS('write-only'='true') */", "does not apply to a query"),
        ("SELECT * FROM T /*+ OPTIONS('lookup.async'='true') */", "has no effect on Spark"),
        ("SELECT * FROM T /*+ OPTIONS('merge-engine'='aggregation') */", "ALTER TABLE"),
        ("INSERT INTO T /*+ OPTIONS('bucket'='7') */ VALUES (3, 'c')", "ALTER TABLE"),
        ("INSERT INTO T /*+ OPTIONS('sink.parallelism'='0') */ VALUES (3, 'c')", "cannot be 0"),
        ("INSERT INTO T /*+ OPTIONS('write-onyl'='true') */ VALUES (3, 'c')", "Did you mean 'write-only'"),
        ("INSERT INTO T /*+ OPTIONS('scan.snapshot-id'='1') */ VALUES (3, 'c')", "does not apply to a write"),
        ("SELECT * FROM T x /*+ OPTIONS('scan.snapshot-id'='1') */", "before its alias"),
        ("SELECT /*+ OPTIONS('scan.snapshot-id'='1') */ * FROM T", "follow the name of a table"),
        ("WITH c AS (SELECT 1) SELECT * FROM c /*+ OPTIONS('scan.snapshot-id'='1') */", "the query 'c'"),
        ("DELETE FROM T /*+ OPTIONS('write-only'='true') */ WHERE k = 1", "SET 'paimon"),
    ],
)
def test_hints_without_effect_are_errors(hints: SparkSession, statement: str, part: str) -> None:
    with pytest.raises(Exception, match=part):
        hints.sql(statement).collect()
    assert rows(hints, "SELECT * FROM T") == NOW


def test_a_view_cannot_have_options(hints: SparkSession) -> None:
    hints.sql("CREATE TEMPORARY VIEW seen AS SELECT * FROM T")
    with pytest.raises(Exception, match="the view 'seen'"):
        hints.sql("SELECT * FROM seen /*+ OPTIONS('scan.snapshot-id'='1') */").collect()

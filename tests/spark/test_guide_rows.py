"""The numbered steps of docs/flink-guide.md from the preparation to savepoints, each as the guide prints it."""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlparse

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.sqlparse.script import split_script
from paimon_spark.testing.invariants import leaked, lost

ROOT = Path(__file__).resolve().parents[2]
HEX = set("0123456789abcdef")
WORD_COUNT = "CREATE TABLE word_count (\n    word STRING PRIMARY KEY NOT ENFORCED,\n    cnt BIGINT\n);"
WORD_TABLE = """CREATE TEMPORARY TABLE word_table (
    word STRING
) WITH (
    'connector' = 'datagen',
    'fields.word.length' = '1'
);"""
COUNTING = "INSERT INTO word_count SELECT word, COUNT(*) FROM word_table GROUP BY word;"


def rows(spark: SparkSession, sql: str) -> list[tuple]:
    return sorted((tuple(r) for r in spark.sql(sql).collect()), key=repr)


def until(condition: Callable[[], object]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def in_catalog(spark: SparkSession, directory: Path) -> SparkSession:
    """Create and use the catalog of the guide."""
    spark.sql(f"CREATE CATALOG my_catalog WITH (\n    'type'='paimon',\n    'warehouse'='file:{directory}/paimon'\n);")
    spark.sql("USE CATALOG my_catalog;")
    return spark


def strays(directory: Path, name: str) -> set[str]:
    """Return the files of a table that no snapshot has or that a snapshot lacks, without the notes of its streams."""
    table = paimon_spark.connect(directory / "paimon").table(name).load()
    return lost(table) | {path for path in leaked(table) if "/stream/attempt-" not in path}


@pytest.fixture
def guide(spark_app: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    """A session of its own in the catalog of the guide; its jobs end with the test."""
    session = in_catalog(spark_app.newSession(), tmp_path)
    session.sql("SET 'execution.checkpointing.interval' = '200 ms'")
    yield session
    for query in session.streams.active:
        session.sql(f"STOP JOB '{query.id}'")


@pytest.fixture
def generic(spark_app: SparkSession) -> Iterator[SparkSession]:
    """A session in a fresh database of the generic catalog."""
    session = spark_app.newSession()
    session.conf.set("spark.sql.catalog.spark_catalog", "paimon.spark.GenericCatalog")
    database = f"g_{uuid.uuid4().hex[:8]}"
    session.sql(f"CREATE DATABASE {database}")
    session.sql(f"USE {database}")
    yield session
    session.sql(f"DROP DATABASE {database} CASCADE")


@pytest.fixture
def warnings(spark_app: SparkSession) -> Iterator[Callable[[], str]]:
    """Return what the JVM has logged since the start of the test."""
    jvm = spark_app._jvm
    log4j = jvm.org.apache.logging.log4j
    written = jvm.java.io.StringWriter()
    appender = log4j.core.appender.WriterAppender.createAppender(None, None, written, "of-the-test", False, True)
    appender.start()
    logger = log4j.LogManager.getRootLogger()
    logger.addAppender(appender)
    yield written.toString
    logger.removeAppender(appender)


def trigger_millis(spark: SparkSession, job: str) -> int:
    queries = spark._jsparkSession.sharedState().activeStreamingQueries()
    return queries.get(spark._jvm.java.util.UUID.fromString(job)).trigger().intervalMs()


def test_s3_programs_share_the_statements(spark: SparkSession) -> None:
    """No cluster is started, and the script of `spark-sql` and `submit` is one that `spark.sql` accepts."""
    assert spark.sparkContext.master.startswith("local[")
    script = (ROOT / "sql/guide/quickstart.sql").read_text(encoding="utf-8")
    statements = [s.text for s in split_script(script)]
    assert {WORD_COUNT[:-1], WORD_TABLE[:-1], COUNTING[:-1]} <= {"\n".join(_code(s)) for s in statements}
    parser = spark._jsparkSession.sessionState().sqlParser()
    for statement in statements:
        parser.parsePlan(statement)


def _code(statement: str) -> list[str]:
    return [line for line in statement.splitlines() if not line.startswith("--")]


def test_s4_create_catalog(spark: SparkSession, tmp_path: Path) -> None:
    create = f"CREATE CATALOG my_catalog WITH ('type'='paimon', 'warehouse'='file:{tmp_path}/paimon');"
    spark.sql(create)
    assert spark.conf.get("spark.sql.catalog.my_catalog") == "paimon.spark.Catalog"
    assert spark.conf.get("spark.sql.catalog.my_catalog.warehouse") == f"file:{tmp_path}/paimon"
    assert not (tmp_path / "paimon").exists()
    with pytest.raises(Exception, match="exists already"):
        spark.sql(create)
    spark.sql(create.replace("my_catalog", "IF NOT EXISTS my_catalog"))
    assert rows(spark, "SHOW DATABASES IN my_catalog") == [("default",)]
    assert (tmp_path / "paimon" / "default.db").is_dir()
    with pytest.raises(Exception, match=r"\[INVALID_OPTION\].*no option 'type'"):
        spark.sql(f"CREATE CATALOG c WITH ('warehouse'='file:{tmp_path}')")


def test_s5_use_catalog(guide: SparkSession) -> None:
    assert rows(guide, "SELECT current_catalog(), current_database()") == [("my_catalog", "default")]
    name = f"t_{uuid.uuid4().hex[:8]}"
    guide.sql(f"CREATE TABLE spark_catalog.default.{name} (id INT) USING parquet")
    guide.sql(f"CREATE TABLE {name} (id INT)")
    guide.sql(f"INSERT INTO spark_catalog.default.{name} VALUES (1)")
    guide.sql(f"INSERT INTO {name} VALUES (2)")
    assert rows(guide, f"SELECT * FROM spark_catalog.default.{name}") == [(1,)]
    assert rows(guide, f"SELECT * FROM {name}") == rows(guide, f"SELECT * FROM my_catalog.default.{name}") == [(2,)]
    guide.sql("USE spark_catalog")
    assert rows(guide, f"SELECT * FROM {name}") == [(1,)]
    guide.sql("USE my_catalog")
    assert rows(guide, f"SELECT * FROM {name}") == [(2,)]
    guide.sql(f"DROP TABLE spark_catalog.default.{name}")


def test_s6_create_the_word_count_table(guide: SparkSession, tmp_path: Path) -> None:
    guide.sql(f"-- create a word count table\n{WORD_COUNT}")
    guide.sql("CREATE TABLE a (word STRING, cnt BIGINT, PRIMARY KEY (word) NOT ENFORCED) WITH ('bucket' = '-1')")
    guide.sql("CREATE TABLE b (word STRING NOT NULL, cnt BIGINT) TBLPROPERTIES ('primary-key' = 'word')")
    for name in ("word_count", "a", "b"):
        schema = json.loads((tmp_path / "paimon/default.db" / name / "schema/schema-0").read_text())
        assert schema["primaryKeys"] == ["word"]
        assert [(f["name"], f["type"]) for f in schema["fields"]] == [("word", "STRING NOT NULL"), ("cnt", "BIGINT")]
    options = paimon_spark.connect(tmp_path / "paimon").table("word_count").load().options
    assert (options.get("bucket"), options.get("merge-engine")) == ("-1", "deduplicate")
    guide.sql("INSERT INTO word_count VALUES ('a', 1), ('b', 1)")
    guide.sql("INSERT INTO word_count VALUES ('a', 2)")
    assert rows(guide, "SELECT * FROM word_count") == [("a", 2), ("b", 1)]


def test_s7_the_generic_catalog(generic: SparkSession) -> None:
    generic.sql("CREATE TABLE p (id INT) USING paimon")
    generic.sql("CREATE TABLE f (id INT) USING parquet")
    generic.sql("CREATE FUNCTION twice(i INT) RETURNS INT RETURN 2 * i")
    generic.sql("INSERT INTO p VALUES (1)")
    generic.sql("INSERT INTO f VALUES (1), (2)")
    assert rows(generic, "SELECT twice(id) FROM p JOIN f USING (id)") == [(2,)]
    assert [r[1] for r in rows(generic, "SHOW TABLES")] == ["f", "p"]
    assert {("default",), (generic.catalog.currentDatabase(),)} <= set(rows(generic, "SHOW DATABASES"))
    assert rows(generic, "SELECT count(*) FROM `p$snapshots`") == [(1,)]
    with pytest.raises(Exception, match=r"cannot have the type 'paimon-generic'.*CREATE CATALOG spark_catalog WITH"):
        generic.sql("CREATE CATALOG my_catalog WITH ('type'='paimon-generic')")


def test_s8_the_connector_of_a_generic_table(generic: SparkSession) -> None:
    create = "CREATE TABLE {} (word STRING PRIMARY KEY NOT ENFORCED, cnt BIGINT)"
    with pytest.raises(Exception, match=r"\[INVALID_OPTION\].*needs the option 'connector'.*'connector' = 'paimon'"):
        generic.sql(create.format("word_count"))
    generic.sql(create.format("word_count") + " WITH ('connector'='paimon');")
    generic.sql(create.format("used") + " USING paimon")
    for name in ("word_count", "used"):
        generic.sql(f"INSERT INTO {name} VALUES ('a', 1)")
        assert rows(generic, f"SELECT count(*) FROM `{name}$snapshots`") == [(1,)]
        assert "connector" not in dict(rows(generic, f"SHOW TBLPROPERTIES {name}"))
    generic.sql("CREATE TABLE plain (id INT)")
    generic.sql("CREATE TABLE f (id INT) USING parquet")
    described = {t: {r[0]: r[1] for r in rows(generic, f"DESCRIBE EXTENDED {t}")} for t in ("plain", "f")}
    assert {t: found["Provider"].lower() for t, found in described.items()} == {"plain": "paimon", "f": "parquet"}
    with pytest.raises(Exception, match=r"\[UNSUPPORTED_FEATURE\].*'kafka' cannot be stored in a catalog"):
        generic.sql("CREATE TABLE k (id INT) WITH ('connector'='kafka')")


def test_s9_the_warehouse_of_the_generic_catalog(generic: SparkSession, tmp_path: Path) -> None:
    database = generic.catalog.currentDatabase()
    generic.sql("CREATE TABLE p (id INT)")
    sparks = Path(urlparse(generic.conf.get("spark.sql.warehouse.dir")).path)
    assert (sparks / f"{database}.db/p/schema/schema-0").is_file()
    other = generic.newSession()
    other.conf.set("spark.sql.catalog.spark_catalog", "paimon.spark.GenericCatalog")
    other.conf.set("spark.sql.catalog.spark_catalog.warehouse", str(tmp_path))  # a path without a scheme is local
    other.sql(f"CREATE TABLE {database}.q (id INT)")
    assert (tmp_path / f"{database}.db/q/schema/schema-0").is_file()
    assert rows(other, f"SHOW TBLPROPERTIES {database}.q ('path')") == [("path", f"file:{tmp_path}/{database}.db/q")]


def source_option(spark: SparkSession, view: str, key: str) -> str:
    plan = spark.table(view)._jdf.queryExecution().analyzed()
    return plan.collectLeaves().head().extraOptions().get(key)


def test_s10_datagen_source_of_random_words(guide: SparkSession) -> None:
    guide.sql(f"-- create a word data generator table\n{WORD_TABLE}")
    assert guide.table("word_table").isStreaming
    assert source_option(guide, "word_table", "rowsPerSecond") == "10000"
    guide.sql("CREATE TEMPORARY TABLE slow (n INT) WITH ('connector'='datagen', 'rows-per-second'='7')")
    assert source_option(guide, "slow", "rowsPerSecond") == "7"
    guide.sql(
        "CREATE TEMPORARY TABLE g (s STRING, w STRING, c CHAR(5), n BIGINT, i INT, d DOUBLE, b BOOLEAN, x INT, "
        "t TIMESTAMP(3), day DATE) WITH ('connector'='datagen', 'number-of-rows'='60', 'fields.w.length'='1', "
        "'fields.n.kind'='sequence', 'fields.n.start'='10', 'fields.n.end'='100', 'fields.i.kind'='random', "
        "'fields.i.min'='-3', 'fields.i.max'='3', 'fields.d.min'='1', 'fields.d.max'='2', 'fields.x.null-rate'='1', "
        "'fields.t.max-past'='1 h', 'fields.day.max-past'='3 d')"
    )
    found = guide.sql("SELECT *, current_timestamp() AS now, current_date() AS today FROM g").collect()
    assert not guide.table("g").isStreaming
    assert sorted(r.n for r in found) == list(range(10, 70))
    assert {len(r.s) for r in found} == {100}
    assert set("".join(r.s for r in found)) == HEX
    assert {len(r.w) for r in found} == {1}
    assert {len(r.c) for r in found} == {5}
    assert {r.i for r in found} <= set(range(-3, 4))
    assert all(1 <= r.d < 2 for r in found)
    assert {r.b for r in found} == {True, False}
    assert {r.x for r in found} == {None}
    assert all(0 <= (r.now - r.t).total_seconds() <= 3602 for r in found)
    assert {(r.today - r.day).days for r in found} <= set(range(4))


def test_s11_the_interval_of_checkpoints(guide: SparkSession, warnings: Callable[[], str]) -> None:
    guide.sql("CREATE TABLE words (word STRING)")
    guide.sql(WORD_TABLE)
    guide.sql("SET 'execution.checkpointing.interval' = '500 ms';")
    ((job,),) = rows(guide, "INSERT INTO words SELECT word FROM word_table")
    assert trigger_millis(guide, job) == 500
    until(lambda: len(rows(guide, "SELECT * FROM `words$snapshots`")) > 2)
    guide.sql(f"STOP JOB '{job}'")
    commits = [
        r[0] for r in rows(guide, "SELECT commit_identifier FROM `words$snapshots` WHERE commit_kind = 'APPEND'")
    ]
    assert len(set(commits)) == len(commits)  # one commit for each batch
    assert "execution.checkpointing.interval" not in warnings()
    guide.sql("RESET 'execution.checkpointing.interval';")
    undefined = [("execution.checkpointing.interval", "<undefined>")]
    assert rows(guide, "SET 'execution.checkpointing.interval'") == undefined
    ((job,),) = rows(guide, "INSERT INTO words SELECT word FROM word_table")
    assert trigger_millis(guide, job) == 10_000
    assert "'execution.checkpointing.interval' is not set: the stream commits every 10 s." in warnings()


def test_s16_drop_the_table_under_its_streams(guide: SparkSession, tmp_path: Path) -> None:
    guide.sql(WORD_COUNT)
    guide.sql("CREATE TABLE words (word STRING)")
    guide.sql("CREATE TABLE seen (word STRING, cnt BIGINT)")
    jobs = [
        rows(guide, f"INSERT INTO {statement}")[0][0]
        for statement in (
            "word_count SELECT word, COUNT(*) FROM paimon_changes('words') GROUP BY word",
            "seen SELECT word, cnt FROM paimon_changes('word_count')",
        )
    ]
    queries = {q.id: q for q in guide.streams.active}
    guide.sql("INSERT INTO words VALUES ('a'), ('a')")
    until(lambda: rows(guide, "SELECT * FROM seen") == [("a", 2)])
    guide.sql("DROP TABLE word_count;")
    assert sorted(p.name for p in (tmp_path / "paimon/default.db").iterdir()) == ["seen", "words"]
    guide.sql("INSERT INTO words VALUES ('a')")
    until(lambda: not guide.streams.active)
    for job in jobs:
        assert "[TABLE_NOT_FOUND]" in str(queries[job].exception())
    assert sorted(p.name for p in (tmp_path / "paimon/default.db").iterdir()) == ["seen", "words"]


@pytest.fixture
def copying(guide: SparkSession, tmp_path: Path) -> Callable[[], str]:
    """Start the job that copies `s` to `t`, on the checkpoints of its name."""
    guide.sql("CREATE TABLE s (id INT)")
    guide.sql("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, n INT) WITH ('sink.savepoint.auto-tag' = 'true')")
    guide.sql(f"SET 'execution.checkpointing.dir' = 'file:{tmp_path}/checkpoints'")
    guide.sql("SET 'pipeline.name' = 'copy'")
    return lambda: rows(guide, "INSERT INTO t SELECT id, id FROM paimon_changes('s')")[0][0]


def test_s17_restart_from_an_older_checkpoint(guide: SparkSession, copying: Callable[[], str], tmp_path: Path) -> None:
    def copied(wanted: list[int]) -> None:
        until(lambda: [r[0] for r in rows(guide, "SELECT id FROM t")] == wanted)
        guide.sql("STOP JOB 'copy'")

    kept, older = tmp_path / "checkpoints/copy", tmp_path / "older"
    guide.sql("INSERT INTO s VALUES (1)")
    copying()
    copied([1])
    shutil.copytree(kept, older)
    guide.sql("INSERT INTO s VALUES (2)")
    copying()
    copied([1, 2])
    for file in sorted((kept / "commits").glob("*[0-9]"))[-1:]:  # as after a crash behind the commit of the table
        file.unlink()
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    guide.sql("INSERT INTO s VALUES (3)")
    copying()
    copied([1, 2, 3])
    commits = rows(guide, "SELECT commit_user, commit_identifier FROM `t$snapshots` WHERE commit_kind = 'APPEND'")
    assert len(set(commits)) == len(commits) == 3
    shutil.rmtree(kept)
    shutil.copytree(older, kept)
    guide.sql("INSERT INTO s VALUES (4)")
    copying()
    (query,) = guide.streams.active
    until(lambda: not guide.streams.active)
    assert "[COMMIT_CONFLICT]" in str(query.exception())
    assert rows(guide, "SELECT id FROM t") == [(1,), (2,), (3,)]
    assert strays(tmp_path, "t") == set()


def test_s18_a_graceful_stop_leaves_nothing(guide: SparkSession, tmp_path: Path) -> None:
    guide.sql(WORD_COUNT)
    guide.sql(WORD_TABLE)
    for stop in ("STOP JOB '{}'", "STOP JOB '{}' WITH SAVEPOINT"):
        ((job,),) = rows(guide, COUNTING)
        before = rows(guide, "SELECT max(snapshot_id) FROM `word_count$snapshots`")[0][0] or 0
        until(lambda b=before: (rows(guide, "SELECT max(snapshot_id) FROM `word_count$snapshots`")[0][0] or 0) > b + 1)
        assert rows(guide, stop.format(job)) == [(job, None)]
        assert job not in {r[0] for r in rows(guide, "SHOW JOBS")}
        assert strays(tmp_path, "word_count") == set()
    assert not list((tmp_path / "paimon").rglob("*.tmp"))


def test_s19_a_savepoint_is_a_tag(guide: SparkSession, copying: Callable[[], str], tmp_path: Path) -> None:
    guide.sql("INSERT INTO s VALUES (1)")
    copying()
    until(lambda: rows(guide, "SELECT id FROM t") == [(1,)])
    ((_, tag),) = rows(guide, "STOP JOB 'copy' WITH SAVEPOINT")
    assert tag.startswith("savepoint-")
    assert rows(guide, "SELECT tag_name FROM `t$tags`") == [(tag,)]
    shutil.copytree(tmp_path / "checkpoints/copy", tmp_path / "savepoint")
    guide.sql("INSERT INTO s VALUES (2)")
    copying()
    until(lambda: rows(guide, "SELECT id FROM t") == [(1,), (2,)])
    guide.sql("STOP JOB 'copy'")
    guide.sql(f"CALL sys.rollback_to('default.t', '{tag}')")
    assert rows(guide, "SELECT id FROM t") == [(1,)]
    shutil.rmtree(tmp_path / "checkpoints/copy")
    shutil.move(tmp_path / "savepoint", tmp_path / "checkpoints/copy")
    guide.sql("INSERT INTO s VALUES (3)")
    copying()
    until(lambda: rows(guide, "SELECT id FROM t") == [(1,), (2,), (3,)])
    guide.sql("STOP JOB 'copy'")
    commits = rows(guide, "SELECT commit_user, commit_identifier FROM `t$snapshots` WHERE commit_kind = 'APPEND'")
    assert len(set(commits)) == len(commits)


@pytest.fixture(scope="module")
def counting(spark_app: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of steps 5 and 6 of the guide, whose job runs."""
    session = in_catalog(spark_app.newSession(), tmp_path_factory.mktemp("counting"))
    session.sql(WORD_COUNT)
    session.sql(WORD_TABLE)
    session.sql("SET 'execution.checkpointing.interval' = '1 s';")
    session.sql("SET 'pipeline.name' = 'counting'")
    session.sql(COUNTING)
    until(lambda: len(rows(session, "SELECT * FROM word_count")) == len(HEX))
    yield session
    session.sql("STOP JOB 'counting'")


def test_s12_a_streaming_count(counting: SparkSession) -> None:
    assert [r[1] for r in rows(counting, "SHOW JOBS")] == ["counting"]
    first = dict(rows(counting, "SELECT * FROM word_count"))
    assert set(first) == HEX
    until(lambda: all(n > first[w] for w, n in rows(counting, "SELECT * FROM word_count")))
    assert rows(counting, "SELECT count(*), count(DISTINCT word) FROM word_count") == [(16, 16)]
    assert counting.table("word_table").isStreaming
    totals = "SELECT snapshot_id FROM `word_count$snapshots` WHERE commit_kind = 'APPEND' ORDER BY snapshot_id"
    last = counting.sql(totals).collect()[-1][0]
    (query,) = (q for q in counting.streams.active if q.name == "counting")
    read = {p["batchId"]: p["numInputRows"] for p in query.recentProgress}
    ((batch, counted),) = rows(
        counting,
        f"SELECT (SELECT commit_identifier FROM `word_count$snapshots` WHERE snapshot_id = {last}), "
        f"(SELECT sum(cnt) FROM word_count VERSION AS OF {last})",
    )
    until(lambda: read.update({p["batchId"]: p["numInputRows"] for p in query.recentProgress}) or batch in read)
    assert counted == sum(n for b, n in read.items() if b <= batch)


def test_s13_olap_queries_while_the_stream_runs(counting: SparkSession) -> None:
    seen = {rows(counting, "SELECT sum(cnt) FROM word_count")[0]}
    until(lambda: seen.add(rows(counting, "SELECT sum(cnt) FROM word_count")[0]) or len(seen) > 2)
    joined = "SELECT a.cnt = b.cnt, count(*) FROM word_count a JOIN word_count b USING (word) GROUP BY 1"
    assert rows(counting, joined) == [(True, 16)]  # one snapshot for all of a query
    ids = [r[0] for r in rows(counting, "SELECT snapshot_id FROM `word_count$snapshots`")]
    committed = {rows(counting, f"SELECT sum(cnt) FROM word_count VERSION AS OF {i}")[0] for i in ids}
    assert seen <= committed  # nothing between two commits is ever seen


def test_s14_modes_and_keys_of_the_client(counting: SparkSession) -> None:
    session = counting.newSession()
    session.sql("USE paimon.default")
    assert rows(session, "SET 'sql-client.execution.result-mode' = 'tableau';")[0][1] == "tableau"
    assert rows(session, "SET 'taskmanager.numberOfTaskSlots' = '2'") == [("taskmanager.numberOfTaskSlots", "2")]
    assert rows(session, "SET 'taskmanager.numberOfTaskSlots'") == [("taskmanager.numberOfTaskSlots", "2")]
    with pytest.raises(Exception, match=r"\[INVALID_OPTION\].*'execution.runtime-mode' cannot be 'bounded'"):
        session.sql("SET 'execution.runtime-mode' = 'bounded'")
    counting.sql("SET 'execution.runtime-mode' = 'batch';")
    try:
        assert counting.sql("SELECT * FROM word_count;").columns == ["word", "cnt"]
        with pytest.raises(Exception, match=r"\[UNSUPPORTED_FEATURE\].*runs in batch mode"):
            counting.sql(COUNTING)
        counting.sql("SET 'execution.runtime-mode' = 'streaming';")
        counting.sql("SET 'paimon.streaming-select.max-rows' = '16'")
        found = rows(counting, "SELECT * FROM word_count;")
        assert {(op, word) for op, word, _ in found} == {("+I", word) for word in HEX}
        counting.sql("CREATE TABLE copy (word STRING, cnt BIGINT)")
        counting.sql("INSERT INTO copy VALUES ('first', 1)")
        for statement in (
            "INSERT INTO copy SELECT * FROM word_count",
            "INSERT OVERWRITE copy SELECT * FROM word_count",
            "WITH w AS (SELECT * FROM word_count) INSERT INTO copy SELECT * FROM w",
            "INSERT INTO copy SELECT * FROM copy VERSION AS OF 1 WHERE word IN (SELECT word FROM word_count)",
            "FROM word_count INSERT INTO copy SELECT word, cnt INSERT INTO copy SELECT word, 1L",
            "CREATE TABLE other AS SELECT * FROM word_count",
        ):
            with pytest.raises(Exception, match=r"streaming mode, but the statement would read \S*word_count once"):
                counting.sql(statement)
        counting.sql("INSERT INTO copy SELECT * FROM word_count VERSION AS OF 1")
        counting.sql("INSERT INTO copy VALUES ('once', DEFAULT)")
        counting.sql("INSERT INTO copy SELECT :word, 2", {"word": "bound"})
        counting.table("word_count").writeTo("copy").append()
        assert not counting.catalog.tableExists("other")
    finally:
        counting.sql("RESET 'execution.runtime-mode'")


def test_s15_a_streaming_query_of_intervals(counting: SparkSession) -> None:
    query = """SELECT `interval`, COUNT(*) AS interval_cnt FROM
    (SELECT cnt {} AS `interval` FROM word_count) GROUP BY `interval`;"""
    counting.sql("SET 'execution.runtime-mode' = 'streaming';")
    try:
        for division, kind in (("/ 10000", float), ("DIV 100", int)):
            counting.sql("SET 'paimon.streaming-select.max-rows' = '60'")
            found = [tuple(r) for r in counting.sql(query.format(division)).collect()]
            assert {type(v) for _, v, _ in found} == {kind}
            assert "-D" in {op for op, *_ in found}
            current: dict[float, int] = {}
            for op, interval, n in found:
                if op[0] == "-":
                    assert current.pop(interval) == n
                else:
                    assert interval not in current
                    current[interval] = n
    finally:
        counting.sql("RESET 'execution.runtime-mode'")

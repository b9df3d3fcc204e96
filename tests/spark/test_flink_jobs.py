"""Jobs and queries in streaming mode, as Flink's SQL client has them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import pytest
from pyspark.sql import SparkSession

from tests.query_results import rows

WORDS = "CREATE TEMPORARY TABLE words (word STRING) WITH ('connector' = 'datagen', 'fields.word.length' = '1')"


def eventually(spark: SparkSession, sql: str) -> list[tuple]:
    """Return the rows of a query as soon as there are any."""
    until = time.monotonic() + 120
    while not (found := rows(spark, sql)) and time.monotonic() < until:
        time.sleep(0.2)
    return found


@pytest.fixture
def words(spark: SparkSession) -> Iterator[SparkSession]:
    """A session with an unbounded table; its jobs end with the test."""
    spark.sql(WORDS)
    spark.sql("SET 'execution.checkpointing.interval' = '1 s'")
    yield spark
    for job, *_ in rows(spark, "SHOW JOBS"):
        spark.sql(f"STOP JOB '{job}'")


def test_a_running_count(words: SparkSession) -> None:
    words.sql("CREATE TABLE word_count (word STRING PRIMARY KEY NOT ENFORCED, cnt BIGINT) WITH ('bucket' = '1')")
    words.sql("SET 'pipeline.name' = 'counting'")
    ((job,),) = rows(words, "INSERT INTO word_count SELECT word, COUNT(*) FROM words GROUP BY word")
    assert [(r[0], r[1]) for r in rows(words, "SHOW JOBS")] == [(job, "counting")]
    first = dict(eventually(words, "SELECT * FROM word_count"))
    assert set(first) <= set("0123456789abcdef")
    assert eventually(words, f"SELECT * FROM word_count WHERE cnt > {max(first.values())}")  # updated in place
    assert rows(words, f"STOP JOB '{job}' WITH SAVEPOINT") == [(job, None)]  # the table asks for no tag
    assert rows(words, "SHOW JOBS") == []
    assert rows(words, "SELECT count(*) = count(DISTINCT word) FROM word_count") == [(True,)]


def test_a_job_continues_from_its_checkpoints(words: SparkSession, tmp_path) -> None:  # noqa: ANN001
    words.sql("CREATE TABLE t (n BIGINT) WITH ('bucket' = '-1', 'sink.savepoint.auto-tag' = 'true')")
    words.sql("CREATE TEMPORARY TABLE r (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '50')")
    words.sql(f"SET 'execution.checkpointing.dir' = 'file:{tmp_path}'")
    words.sql("SET 'pipeline.name' = 'copy'")
    ((first,),) = rows(words, "INSERT INTO t SELECT n FROM r")
    eventually(words, "SELECT n FROM t LIMIT 1")
    ((_, tag),) = rows(words, f"STOP JOB '{first}' WITH SAVEPOINT")
    kept = rows(words, f"SELECT count(*) FROM t VERSION AS OF '{tag}'")
    assert kept == rows(words, "SELECT count(*) FROM t")
    ((again,),) = rows(words, "INSERT INTO t SELECT n FROM r")
    assert again == first
    with pytest.raises(Exception, match=r"those of the running job 'copy'.*'pipeline.name'"):
        words.sql("INSERT INTO t SELECT n FROM r")
    words.sql(f"STOP JOB '{again}'")
    with pytest.raises(Exception, match=r"those of another statement: INSERT INTO t SELECT n FROM r"):
        words.sql("INSERT INTO t SELECT -n FROM r")
    identifiers = [
        r[0] for r in rows(words, "SELECT commit_identifier FROM `t$snapshots` WHERE commit_kind = 'APPEND'")
    ]
    assert len(identifiers) == len(set(identifiers))


@pytest.mark.parametrize("name", ["job: daily", "a:b", "größe", ""])
def test_the_name_of_a_job_is_that_of_its_directory(words: SparkSession, tmp_path: Path, name: str) -> None:
    words.sql("CREATE TABLE s (n INT)")
    words.sql("CREATE TABLE `t:u` (n INT)")
    words.sql(f"SET 'execution.checkpointing.dir' = 'file:{tmp_path}'")
    words.sql(f"SET 'pipeline.name' = '{name}'")
    ((first,),) = rows(words, "INSERT INTO `t:u` SELECT n FROM paimon_changes('s')")
    words.sql(f"STOP JOB '{first}'")
    ((again,),) = rows(words, "INSERT INTO `t:u` SELECT n FROM paimon_changes('s')")
    assert (again, len(list(tmp_path.iterdir()))) == (first, 1)


def test_a_statement_that_did_not_start_can_be_corrected(words: SparkSession, tmp_path: Path) -> None:
    words.sql("CREATE TABLE s (n INT)")
    words.sql("CREATE TABLE t (n INT)")
    words.sql(f"SET 'execution.checkpointing.dir' = 'file:{tmp_path}'")
    with pytest.raises(Exception, match=r"(?i)sort"):
        words.sql("INSERT INTO t SELECT n FROM paimon_changes('s') ORDER BY n")
    assert rows(words, "INSERT INTO t SELECT n FROM paimon_changes('s')")


def test_jobs_that_start_at_once_leave_the_settings_alone(words: SparkSession) -> None:
    words.sql("CREATE TABLE s (n INT)")
    keys = ("spark.sql.adaptive.enabled", "spark.sql.shuffle.partitions")
    before = [words.conf.get(key) for key in keys]
    for n in range(4):
        words.sql(f"CREATE TABLE t{n} (n INT)")
    with ThreadPoolExecutor(4) as pool:
        statements = [f"INSERT INTO t{n} SELECT n FROM paimon_changes('s')" for n in range(4)]
        assert len(list(pool.map(lambda text: rows(words, text), statements))) == 4
    assert [words.conf.get(key) for key in keys] == before


def test_what_cannot_be_a_job(words: SparkSession) -> None:
    words.sql("CREATE TABLE plain (word STRING, cnt BIGINT)")
    with pytest.raises(Exception, match=r"\[UNSUPPORTED_FEATURE\].*plain has no primary key"):
        words.sql("INSERT INTO plain SELECT word, COUNT(*) FROM words GROUP BY word")
    with pytest.raises(Exception, match=r"cannot overwrite a table"):
        words.sql("INSERT OVERWRITE plain SELECT word, 1 FROM words")
    words.sql("SET 'execution.runtime-mode' = 'batch'")
    with pytest.raises(Exception, match=r"runs in batch mode"):
        words.sql("INSERT INTO plain SELECT word, 1 FROM words")
    with pytest.raises(Exception, match=r"There is no job 'x'"):
        words.sql("STOP JOB 'x'")


def test_changes_of_a_query(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (k STRING PRIMARY KEY NOT ENFORCED, v INT) WITH ('bucket' = '1')")
    spark.sql("INSERT INTO t VALUES ('a', 1), ('b', 1), ('c', 2)")
    spark.sql("SET 'execution.runtime-mode' = 'streaming'")
    spark.sql("SET 'paimon.streaming-select.max-rows' = '3'")
    assert sorted(rows(spark, "SELECT * FROM t")) == [("+I", "a", 1), ("+I", "b", 1), ("+I", "c", 2)]
    spark.sql("SET 'paimon.streaming-select.max-rows' = '2'")
    assert sorted(rows(spark, "SELECT v, count(*) AS n FROM t GROUP BY v")) == [("+I", 1, 2), ("+I", 2, 1)]
    assert rows(spark, "SELECT 1") == [(1,)]  # no table of ours


def test_a_query_follows_its_table(spark: SparkSession) -> None:
    """The changes of a count by value, while rows get new values: applied one by one they give its results."""
    spark.sql("CREATE TABLE t (k STRING PRIMARY KEY NOT ENFORCED, v INT) WITH ('bucket' = '1')")
    spark.sql("INSERT INTO t VALUES ('a', 0), ('b', 0)")
    spark.sql("SET 'execution.runtime-mode' = 'streaming'")
    spark.sql("SET 'paimon.streaming-select.max-rows' = '9'")
    found: list[tuple] = []
    reader = Thread(target=lambda: found.extend(rows(spark, "SELECT v, count(*) AS n FROM t GROUP BY v")))
    reader.start()
    until = time.monotonic() + 120
    while reader.is_alive() and time.monotonic() < until:
        time.sleep(1.5)
        spark.sql("UPDATE t SET v = v + 1 WHERE k = 'b'")
    reader.join(1)
    assert len(found) == 9
    assert {op for op, *_ in found} == {"+I", "-U", "+U", "-D"} or found[0] == ("+I", 0, 1)
    counts: dict[int, int] = {}
    for op, v, n in found:
        if op[0] == "-":
            assert counts.pop(v) == n
        else:
            assert v not in counts
            counts[v] = n


def shown_changes(spark: SparkSession, query: str, most: int, change: Callable[[], object]) -> list[tuple]:
    """Return the first changes of a query in streaming mode, during which `change` is called once."""
    spark.sql("SET 'execution.runtime-mode' = 'streaming'")
    spark.sql(f"SET 'paimon.streaming-select.max-rows' = '{most}'")
    spark.sql("SET 'paimon.streaming-select.timeout' = '60 s'")
    found: list[tuple] = []
    reader = Thread(target=lambda: found.extend(rows(spark, query)))
    reader.start()
    time.sleep(3)
    change()
    reader.join(120)
    return found


def test_rows_with_bytes_and_not_a_number_stay_the_same(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (k INT, b BINARY, d DOUBLE, n ARRAY<BINARY>)")
    first = "SELECT 1 AS k, X'01' AS b, double('NaN') AS d, array(X'02') AS n"
    spark.sql(f"INSERT INTO t {first}")
    found = shown_changes(spark, "SELECT * FROM t", 2, lambda: spark.sql("INSERT INTO t SELECT 2, X'05', 1.0, null"))
    assert [(op, k, bytes(b)) for op, k, b, *_ in found] == [("+I", 1, b"\x01"), ("+I", 2, b"\x05")]


def test_a_query_follows_the_other_branch_of_its_table(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (k INT, p STRING) PARTITIONED BY (p)")
    spark.sql("INSERT INTO t VALUES (1, 'a')")
    spark.sql("CALL sys.create_branch('t', 'b')")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('scan.fallback-branch' = 'b')")
    found = shown_changes(spark, "SELECT * FROM t", 2, lambda: spark.sql("INSERT INTO `t$branch_b` VALUES (2, 'z')"))
    assert found == [("+I", 1, "a"), ("+I", 2, "z")]


def test_a_query_follows_system_tables(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (k INT)")
    spark.sql("INSERT INTO t VALUES (1)")
    query = "SELECT tag_name FROM `t$tags`"
    assert shown_changes(spark, query, 1, lambda: spark.sql("CALL sys.create_tag('t', 'one', 1)")) == [("+I", "one")]
    database = spark.catalog.currentDatabase()
    query = f"SELECT table_name FROM sys.tables WHERE database_name = '{database}'"
    assert shown_changes(spark, query, 2, lambda: spark.sql("CREATE TABLE u (k INT)")) == [("+I", "t"), ("+I", "u")]


def test_rows_of_an_unbounded_table(words: SparkSession) -> None:
    words.sql("SET 'execution.runtime-mode' = 'streaming'")
    words.sql("SET 'paimon.streaming-select.max-rows' = '7'")
    found = rows(words, "SELECT * FROM words")
    assert len(found) == 7
    assert {op for op, _ in found} == {"+I"}


def test_tables_that_take_rows(spark: SparkSession) -> None:
    spark.sql("CREATE TEMPORARY TABLE p (a INT, b STRING) WITH ('connector' = 'print')")
    spark.sql("CREATE TEMPORARY TABLE gone (a INT) WITH ('connector' = 'blackhole')")
    assert rows(spark, "INSERT INTO p VALUES (1, 'x'), (2, NULL)") == []
    assert rows(spark, "INSERT INTO gone VALUES (1)") == []
    with pytest.raises(Exception, match=r"has 1 columns, but 'p' takes 2: a, b"):
        spark.sql("INSERT INTO p VALUES (1)")
    with pytest.raises(Exception, match=r"the connector 'print' cannot be read"):
        spark.sql("SELECT * FROM p").collect()
    spark.sql("DROP TEMPORARY TABLE gone")
    spark.sql("CREATE TABLE gone (a INT)")
    spark.sql("INSERT INTO gone VALUES (2)")
    assert rows(spark, "SELECT * FROM gone") == [(2,)]
    with pytest.raises(Exception, match=r"There is no temporary table 'gone'"):
        spark.sql("DROP TEMPORARY TABLE gone")


def test_a_wrong_statement_set_starts_nothing(words: SparkSession) -> None:
    words.sql("CREATE TABLE t (word STRING)")
    one, two = "INSERT INTO t SELECT word FROM words", "INSERT INTO t SELECT wrd FROM words"
    with pytest.raises(Exception, match=r"UNRESOLVED_COLUMN"):
        words.sql(f"EXECUTE STATEMENT SET BEGIN {one}; {two}; END")
    assert rows(words, "SHOW JOBS") == []
    assert len(rows(words, f"EXECUTE STATEMENT SET BEGIN {one}; {one}; END")) == 2
    assert len(rows(words, "SHOW JOBS")) == 2


def test_a_watermark_ends_windows_and_is_that_of_snapshots(words: SparkSession) -> None:
    words.sql(
        "CREATE TEMPORARY TABLE events (n BIGINT, ts AS current_timestamp(), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) "
        "WITH ('connector' = 'datagen', 'rows-per-second' = '20')"
    )
    words.sql("CREATE TABLE windows (w TIMESTAMP, n BIGINT)")  # no primary key: windows are written once, when they end
    words.sql("INSERT INTO windows SELECT window.start, count(*) FROM events GROUP BY window(ts, '2 seconds')")
    assert eventually(words, "SELECT * FROM windows")
    for job, *_ in rows(words, "SHOW JOBS"):
        words.sql(f"STOP JOB '{job}'")
    assert rows(words, "SELECT count(*) = count(DISTINCT w) FROM windows") == [(True,)]
    latest = "SELECT max(watermark) FROM `windows$snapshots`"
    ends = "SELECT max(unix_millis(w)) + 2000 FROM windows"
    assert rows(words, f"SELECT ({latest}) >= ({ends}), ({latest}) < unix_millis(now())") == [(True, True)]
    ((found,),) = rows(words, latest)
    words.sql(f"CALL sys.create_tag_from_watermark(table => 'windows', tag => 'w', watermark => {found})")
    assert rows(words, f"SELECT count(*) FROM windows VERSION AS OF 'watermark-{found}'") == rows(
        words, "SELECT count(*) FROM windows VERSION AS OF 'w'"
    )


def test_a_stream_without_a_mode_is_refused_with_a_hint(words: SparkSession) -> None:
    """In a program that shows each result; in others, `spark.sql` may return a stream."""
    words.sql("CREATE TABLE t (k STRING PRIMARY KEY NOT ENFORCED, v INT) WITH ('bucket' = '1')")
    system = words._jvm.java.lang.System  # type: ignore[union-attr]
    command = system.getProperty("sun.java.command")
    system.setProperty("sun.java.command", "org.apache.spark.sql.hive.thriftserver.SparkSQLCLIDriver")
    try:
        for query in ("SELECT * FROM paimon_changes('t')", "SELECT count(*) FROM words"):
            with pytest.raises(Exception, match=r"\[UNSUPPORTED_FEATURE\].*SET 'execution.runtime-mode' = 'streaming'"):
                words.sql(query)
        assert rows(words, "SELECT * FROM t") == []
    finally:
        system.setProperty("sun.java.command", command)
    assert words.sql("SELECT * FROM paimon_changes('t')").isStreaming

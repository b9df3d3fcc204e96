"""Chain tables through SQL: reads of merged partitions, overwrites of branches, and compact_chain_table."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.query_results import rows

BRANCHES = "'scan.fallback-snapshot-branch' = 'snapshot', 'scan.fallback-delta-branch' = 'delta'"


@pytest.fixture
def chain(spark: SparkSession) -> SparkSession:
    """The chain table t (k, v, a, dt) with a snapshot of the 1st, and deltas of the 2nd and 4th."""
    spark.sql(
        "CREATE TABLE t (k INT, v BIGINT, a STRING) PARTITIONED BY (dt STRING) TBLPROPERTIES ("
        "'chain-table.enabled' = 'true', 'primary-key' = 'dt,k', 'sequence.field' = 'v', 'bucket-key' = 'k', "
        "'bucket' = '2', 'partition.timestamp-pattern' = '$dt', 'partition.timestamp-formatter' = 'yyyyMMdd')"
    )
    for name in ("snapshot", "delta"):
        spark.sql(f"CALL sys.create_branch('t', '{name}')")
    for name in ("t", "`t$branch_snapshot`", "`t$branch_delta`"):
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({BRANCHES})")
    return spark


@pytest.fixture
def filled(chain: SparkSession) -> SparkSession:
    """The chain table with a few rows."""
    day = "INSERT OVERWRITE `t$branch_{}` PARTITION (dt = '2025080{}') VALUES {}"
    chain.sql(day.format("snapshot", 1, "(1, 1, 'a'), (2, 1, 'b'), (3, 1, 'c')"))
    chain.sql(day.format("delta", 2, "(2, 2, 'b2'), (4, 1, 'd')"))
    chain.sql(day.format("delta", 4, "(1, 3, 'a3'), (3, 2, 'c2')"))
    chain.sql("DELETE FROM `t$branch_delta` WHERE dt = '20250804' AND k = 3")
    return chain


def test_a_partition_without_snapshot_is_merged(filled: SparkSession) -> None:
    day = "SELECT k, v, a FROM t WHERE dt = '2025080{}' ORDER BY k"
    assert rows(filled, day.format(1)) == [(1, 1, "a"), (2, 1, "b"), (3, 1, "c")]
    assert rows(filled, day.format(2)) == [(1, 1, "a"), (2, 2, "b2"), (3, 1, "c"), (4, 1, "d")]
    assert rows(filled, day.format(3)) == []
    assert rows(filled, day.format(4)) == [(1, 3, "a3"), (2, 2, "b2"), (4, 1, "d")]
    assert rows(filled, "SELECT dt, count(*) FROM t GROUP BY dt ORDER BY dt") == [
        ("20250801", 3),
        ("20250802", 4),
        ("20250804", 3),
    ]
    assert rows(filled, "SELECT dt FROM t WHERE a = 'b'") == [("20250801",)]
    joined = "SELECT t.k FROM t JOIN (SELECT '20250804' AS d) s ON t.dt = s.d ORDER BY 1"
    assert rows(filled, joined) == [(1,), (2,), (4,)]
    assert rows(filled, "SELECT count(*) FROM (SELECT * FROM t LIMIT 9)") == [(9,)]
    filled.sql("INSERT INTO t VALUES (9, 9, 'z', '20250803')")
    filled.sql("INSERT INTO `t$branch_delta` VALUES (8, 8, 'h', '20250805')")
    at = "SELECT count(*) FROM t {} WHERE dt = '20250805'"
    assert rows(filled, at.format("TIMESTAMP AS OF now()")) == rows(filled, at.format("")) == [(4,)]
    assert rows(filled, at.format("VERSION AS OF 1")) == [(0,)]


def test_compaction_writes_the_snapshot_branch(filled: SparkSession) -> None:
    before = rows(filled, "SELECT * FROM t ORDER BY dt, k")
    call = "CALL sys.compact_chain_table(table => 't', partition => 'dt=\"20250804\"')"
    assert rows(filled, call)[0][:2] == (True, "done")
    assert rows(filled, call)[0][:2] == (False, "the snapshot branch has the partition")
    assert rows(filled, "SELECT * FROM t ORDER BY dt, k") == before
    snapshot = "SELECT k, v, a FROM `t$branch_snapshot` WHERE dt = '20250804' ORDER BY k"
    assert rows(filled, snapshot) == [(1, 3, "a3"), (2, 2, "b2"), (4, 1, "d")]
    filled.sql("INSERT INTO `t$branch_delta` VALUES (5, 1, 'e', '20250804')")
    assert rows(filled, call.replace("')", "', overwrite => true)"))[0][:2] == (True, "done")
    assert rows(filled, snapshot)[-1] == (5, 1, "e")
    kinds = rows(filled, "SELECT commit_kind FROM `t$branch_snapshot$snapshots` ORDER BY snapshot_id")
    assert [k for (k,) in kinds] == ["OVERWRITE", "APPEND", "OVERWRITE"]


def test_rescaled_branches_keep_deletions(filled: SparkSession) -> None:
    filled.sql("INSERT INTO `t$branch_delta` VALUES (6, 1, 'f', '20250805')")
    before = rows(filled, "SELECT * FROM t ORDER BY dt, k")
    for branch in ("snapshot", "delta"):
        filled.sql(f"CALL sys.rescale(table => 't$branch_{branch}', bucket_num => 3)")
    assert rows(filled, "SELECT * FROM t ORDER BY dt, k") == before


def test_overwrites_keep_chains_intact(filled: SparkSession) -> None:
    for statement in (
        "ALTER TABLE `t$branch_snapshot` DROP PARTITION (dt = '20250801')",
        "TRUNCATE TABLE `t$branch_snapshot`",
        "INSERT OVERWRITE `t$branch_delta` PARTITION (dt = '20250801') VALUES (9, 9, 'z')",
    ):
        with pytest.raises(PySparkException, match=r"dt=20250801.*cannot be dropped"):
            filled.sql(statement)
    filled.sql("INSERT INTO `t$branch_snapshot` VALUES (7, 7, 'g', '20250804')")
    assert rows(filled, "SELECT k FROM t WHERE dt = '20250804'") == [(7,)]
    filled.sql("INSERT OVERWRITE `t$branch_delta` PARTITION (dt = '20250804') VALUES (8, 8, 'h')")
    assert rows(filled, "SELECT k FROM t WHERE dt = '20250804' ORDER BY k") == [(1,), (2,), (3,), (4,), (8,)]


def test_statements_on_the_table_change_its_own_branch(filled: SparkSession) -> None:
    filled.sql("UPDATE t SET a = 'x' WHERE dt = '20250804'")
    assert rows(filled, "SELECT count(*) FROM t WHERE a = 'x'") == [(0,)]
    filled.sql("INSERT INTO t VALUES (6, 6, 'f', '20250804')")
    assert rows(filled, "SELECT k FROM t WHERE dt = '20250804'") == [(6,)]
    filled.sql("DELETE FROM t WHERE dt = '20250804'")
    assert rows(filled, "SELECT count(*) FROM t WHERE dt = '20250804'") == [(3,)]


def test_a_stream_has_the_newest_rows_and_later_deltas(filled: SparkSession, tmp_path: Path) -> None:
    filled.sql("CREATE TABLE copy (k INT, v INT, a STRING, dt STRING)")

    def run(options: dict[str, str], target: str) -> list[tuple[object, ...]]:
        stream = filled.readStream.options(**options).table("t").writeStream.trigger(availableNow=True)
        query = stream.option("checkpointLocation", str(tmp_path / target)).toTable(target)
        query.awaitTermination(120)
        return rows(filled, f"SELECT * FROM {target} ORDER BY dt, k")

    newest = [(1, 1, "a", "20250801"), (2, 1, "b", "20250801"), (3, 1, "c", "20250801")]
    deltas = [(2, 2, "b2", "20250802"), (4, 1, "d", "20250802"), (1, 3, "a3", "20250804")]
    assert run({}, "copy") == newest + deltas
    filled.sql("CALL sys.compact_chain_table(table => 't', partition => 'dt=\"20250804\"')")
    filled.sql("INSERT INTO `t$branch_delta` VALUES (5, 1, 'e', '20250805')")
    assert run({}, "copy") == [*newest, *deltas, (5, 1, "e", "20250805")]
    filled.sql("CREATE TABLE merged (k INT, v INT, a STRING, dt STRING)")
    merged = run({"chain-table.streaming.merge-snapshot": "true"}, "merged")
    assert merged == [
        (1, 3, "a3", "20250805"),
        (2, 2, "b2", "20250805"),
        (4, 1, "d", "20250805"),
        (5, 1, "e", "20250805"),
    ]
    with pytest.raises(PySparkException, match="begins with the newest rows of both branches"):
        filled.readStream.option("scan.mode", "latest").table("t")


def test_large_snapshots_are_read_natively(chain: SparkSession) -> None:
    chain.sql("INSERT OVERWRITE `t$branch_snapshot` SELECT id, 1, 'a', '20250801' FROM range(150000)")
    chain.sql("INSERT INTO `t$branch_delta` SELECT id * 3, 2, 'b', '20250802' FROM range(60000)")
    chain.sql("DELETE FROM `t$branch_delta` WHERE dt = '20250802' AND k < 30")
    query = "SELECT a, count(*), sum(k), min(dt) FROM t WHERE dt = '20250802' GROUP BY a ORDER BY a"
    plan = chain.sql(query)._jdf.queryExecution().toString()
    assert "native without superseded rows" in plan, plan
    one = [k for k in range(150000) if k % 3]
    two = [k * 3 for k in range(10, 60000)]
    assert rows(chain, query) == [
        ("a", len(one), sum(one), "20250802"),
        ("b", len(two), sum(two), "20250802"),
    ]

"""Joins and aggregations by the bucket key: without a shuffle where the layouts agree, and always the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

KEYED = "TBLPROPERTIES ('primary-key' = '{key}', 'bucket' = '{n}', 'write-only' = 'true')"
APPEND = "TBLPROPERTIES ('bucket-key' = '{key}', 'bucket' = '{n}')"


@pytest.fixture
def joins(spark: SparkSession) -> Iterator[SparkSession]:
    """A session that broadcasts nothing and lets sources report buckets, which Spark 4.0 does not by default."""
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    spark.conf.set("spark.sql.sources.v2.bucketing.enabled", "true")
    yield spark
    spark.catalog.clearCache()


def run(spark: SparkSession, *statements: str) -> None:
    for statement in statements:
        spark.sql(statement)


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(r) for r in frame.collect()), key=repr)


def shuffles(frame: DataFrame) -> int:
    """The number of shuffles in the plan as it ran, except those into one task."""
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan().toString().split("Initial Plan")[0]
    return sum("Exchange " in line and "SinglePartition" not in line for line in plan.splitlines())


def shuffles_of(spark: SparkSession, query: str) -> list[int]:
    """The shuffles of a query with and without adaptive execution."""
    found = []
    for adaptive in ("true", "false"):
        spark.conf.set("spark.sql.adaptive.enabled", adaptive)
        found.append(shuffles(spark.sql(query)))
    return found


def keyed(spark: SparkSession, name: str, n: int = 4, key: str = "id BIGINT") -> None:
    run(
        spark,
        f"CREATE TABLE {name} ({key} NOT NULL, v INT) {KEYED.format(key=key.split()[0], n=n)}",
        f"INSERT INTO {name} SELECT id, id FROM range(300)",
    )


@pytest.fixture
def tables(joins: SparkSession, tmp_path: Path) -> SparkSession:
    """Tables of several kinds, four buckets each, and views `p_…` of their rows in Parquet files."""
    spark = joins
    keyed(spark, "a")
    keyed(spark, "b")
    run(
        spark,
        "INSERT INTO a SELECT id, -id FROM range(200, 400)",
        "CALL sys.compact(table => 'b')",
        f"CREATE TABLE c (id BIGINT, v INT) {APPEND.format(key='id', n=4)}",
        "INSERT INTO c SELECT if(id % 7 = 0, NULL, id DIV 2), id FROM range(300)",
        "INSERT INTO c SELECT if(id % 5 = 0, NULL, id), NULL FROM range(100)",
        "CREATE TABLE p (d STRING NOT NULL, id BIGINT NOT NULL, v INT) PARTITIONED BY (d) "
        + KEYED.format(key="d,id", n=4),
        "INSERT INTO p SELECT concat('d', id % 3), id DIV 2, id FROM range(300)",
        "INSERT INTO p SELECT 'd1', id, -id FROM range(20)",
        f"CREATE TABLE e (id BIGINT NOT NULL, v INT) {KEYED.format(key='id', n=4)}",
    )
    for name in "abcpe":
        spark.table(name).write.parquet(f"{tmp_path}/{name}")
        spark.read.parquet(f"{tmp_path}/{name}").createOrReplaceTempView(f"p_{name}")
    return spark


WITHOUT_SHUFFLE = [
    "SELECT * FROM {a} a JOIN {b} b ON a.id = b.id",
    "SELECT * FROM {a} a LEFT JOIN {c} c ON a.id = c.id",
    "SELECT * FROM {a} a RIGHT JOIN {c} c ON a.id = c.id AND a.v < c.v",
    "SELECT * FROM {c} c FULL JOIN {p} p ON c.id = p.id",
    "SELECT * FROM {c} WHERE id IN (SELECT id FROM {p} WHERE d = 'd1')",
    "SELECT * FROM {c} c WHERE NOT EXISTS (SELECT 1 FROM {a} a WHERE a.id = c.id AND a.v > 0)",
    "SELECT a.id, b.v, c.v, p.d FROM {a} a JOIN {b} b ON a.id = b.id LEFT JOIN {c} c ON b.id = c.id "
    "JOIN {p} p ON p.id = a.id",
    "SELECT x.id, y.v FROM {a} x JOIN {a} y ON x.id = y.id WHERE x.v <> 3",
    "SELECT * FROM {p} x JOIN {p} y ON x.id = y.id AND x.d = y.d WHERE x.d IN ('d0', 'd1') AND y.d <> 'd0'",
    "SELECT * FROM {e} e RIGHT JOIN {a} a ON a.id = e.id",
    "SELECT * FROM {e} e JOIN {a} a ON a.id = e.id",
    "SELECT id, count(*), sum(v) FROM {c} GROUP BY id",
    "SELECT id, d, max(v) FROM {p} GROUP BY d, id",
    "SELECT DISTINCT id FROM {c}",
    "SELECT id, v, row_number() OVER (PARTITION BY id ORDER BY v) FROM {c} WHERE v IS NOT NULL AND id IS NOT NULL",
    "SELECT * FROM (SELECT id k, sum(v) s FROM {p} GROUP BY id) x JOIN {b} b ON x.k = b.id",
    "SELECT x.n, b.v FROM (SELECT id, count(*) n FROM {c} GROUP BY id) x LEFT JOIN {b} b ON b.id = x.id",
]


@pytest.mark.parametrize("adaptive", ["true", pytest.param("false", marks=pytest.mark.slow)])
def test_rows_are_those_of_other_files(tables: SparkSession, adaptive: str) -> None:
    tables.conf.set("spark.sql.adaptive.enabled", adaptive)
    for query in WITHOUT_SHUFFLE:
        found = tables.sql(query.format(a="a", b="b", c="c", p="p", e="e"))
        assert rows(found) == rows(tables.sql(query.format(a="p_a", b="p_b", c="p_c", p="p_p", e="p_e"))), query
        assert shuffles(found) == 0, query


def test_other_rows_are_shuffled_to_buckets(tables: SparkSession) -> None:
    query = "SELECT * FROM {a} a JOIN {b} b ON a.id = b.id JOIN p_b x ON x.id = a.id"
    assert shuffles_of(tables, query.format(a="a", b="b")) == [1, 1]
    assert rows(tables.sql(query.format(a="a", b="b"))) == rows(tables.sql(query.format(a="p_a", b="p_b")))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM a JOIN p_b ON a.id = p_b.id",
        "SELECT * FROM a JOIN b ON a.v = b.v",
        "SELECT * FROM a JOIN b ON a.id + 1 = b.id + 1",
        "SELECT * FROM c x JOIN c y ON x.id <=> y.id",
        "SELECT v, count(*) FROM a GROUP BY v",
        "SELECT * FROM a JOIN (SELECT /*+ COALESCE(2) */ * FROM b) b ON a.id = b.id",
    ],
)
def test_other_keys_are_shuffled(tables: SparkSession, query: str) -> None:
    assert min(shuffles_of(tables, query)) > 0


def test_a_hint_repartitions(tables: SparkSession) -> None:
    frame = tables.sql("SELECT /*+ REPARTITION(3, id) */ * FROM a")
    assert frame.rdd.getNumPartitions() == 3


def test_layouts_that_differ_are_shuffled(joins: SparkSession) -> None:
    keyed(joins, "four")
    keyed(joins, "three", 3)
    keyed(joins, "ints", 4, "id INT")
    run(
        joins,
        "CREATE TABLE modulo (id BIGINT NOT NULL, v INT) TBLPROPERTIES "
        "('primary-key' = 'id', 'bucket' = '4', 'bucket-function.type' = 'mod')",
        "INSERT INTO modulo SELECT id, id FROM range(300)",
        "CREATE TABLE dynamic (id BIGINT NOT NULL, v INT) TBLPROPERTIES ('primary-key' = 'id')",
        "INSERT INTO dynamic SELECT id, id FROM range(300)",
        "CREATE TABLE postponed (id BIGINT NOT NULL, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '-2')",
        "INSERT INTO postponed SELECT id, id FROM range(300)",
    )
    for other in ("three", "ints", "modulo", "dynamic", "postponed"):
        query = f"SELECT count(*), sum(x.v + y.v) FROM four x JOIN {other} y ON x.id = y.id"
        assert min(shuffles_of(joins, query)) > 0, other
        assert rows(joins.sql(query)) == [(300, 299 * 300)], other
    same = "SELECT count(*) FROM modulo x JOIN modulo y ON x.id = y.id"
    assert shuffles_of(joins, same) == [0, 0]
    assert rows(joins.sql(same)) == [(300,)]


def test_rescaled_partitions_are_shuffled(joins: SparkSession) -> None:
    create = "CREATE TABLE {t} (d STRING NOT NULL, id INT NOT NULL, v INT) PARTITIONED BY (d) "
    for name in ("t", "u"):
        run(joins, create.format(t=name) + KEYED.format(key="d,id", n=2),
            f"INSERT INTO {name} SELECT concat('d', id % 2), id, id FROM range(100)")  # fmt: skip
    query = "SELECT count(*), sum(t.v + u.v) FROM t JOIN u ON t.id = u.id"
    assert shuffles_of(joins, query) == [0, 0]
    run(joins, "CALL sys.rescale(table => 't', bucket_num => 3, partitions => 'd=d1')")
    assert min(shuffles_of(joins, query)) > 0
    assert rows(joins.sql(query)) == [(100, 9900)]
    assert shuffles_of(joins, f"{query} WHERE t.d = 'd0'") == [0, 0]


def test_a_version_has_its_own_buckets(joins: SparkSession) -> None:
    keyed(joins, "t", 2)
    keyed(joins, "two", 2)
    keyed(joins, "three", 3)
    run(
        joins,
        "CALL sys.create_tag(table => 't', tag => 'before')",
        "CALL sys.create_branch('t', 'b', 'before')",
        "ALTER TABLE t SET TBLPROPERTIES ('bucket' = '3')",
        "INSERT OVERWRITE t SELECT id, -id FROM range(300)",
    )
    for side, other, wanted in [
        ("t", "three", 0),
        ("t VERSION AS OF 'before'", "two", 0),
        ("t VERSION AS OF 'before'", "three", 1),
        ("`t$branch_b`", "two", 0),
    ]:
        query = f"SELECT sum(x.v + y.v) FROM {side} x JOIN {other} y ON x.id = y.id"
        found = shuffles_of(joins, query)
        assert [min(n, 1) for n in found] == [wanted, wanted], query
        assert rows(joins.sql(query)) == [(0 if side == "t" else 299 * 300,)], query


def test_cached_rows_keep_their_buckets(tables: SparkSession) -> None:
    query = "SELECT a.id, a.v, b.v AS w FROM a JOIN b ON a.id = b.id"
    expected = rows(tables.sql(query))
    cached = tables.sql(query).cache()
    plain = tables.table("c").cache()
    assert rows(cached) == expected
    plain.count()
    joined = cached.join(tables.table("p"), "id")
    again = plain.join(tables.table("a"), "id")
    cached_rows, plain_rows = rows(joined), rows(again)
    tables.catalog.clearCache()
    assert cached_rows == rows(tables.sql(query).join(tables.table("p"), "id"))
    assert plain_rows == rows(tables.table("c").join(tables.table("a"), "id"))


def test_partitions_are_pruned_while_a_query_runs(tables: SparkSession) -> None:
    run(tables, "CREATE TABLE days (d STRING, kind STRING)", "INSERT INTO days VALUES ('d1', 'x'), ('d2', 'y')")
    tables.conf.set("spark.sql.autoBroadcastJoinThreshold", "1mb")
    query = (
        "SELECT /*+ MERGE(c) */ count(*), sum({p}.v + c.v) FROM {p} JOIN days ON {p}.d = days.d AND days.kind = 'x' "
        "JOIN {c} c ON {p}.id = c.id"
    )
    tables.conf.set("spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly", "false")
    assert rows(tables.sql(query.format(p="p", c="c"))) == rows(tables.sql(query.format(p="p_p", c="p_c")))


def sorts(frame: DataFrame) -> int:
    """The sorts of rows for a merge join in the plan as it ran."""
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan().toString().split("Initial Plan")[0]
    return sum("Sort [" in line for line in plan.splitlines())


def test_rows_in_key_order_are_not_sorted(joins: SparkSession) -> None:
    for name, kind in (("t", KEYED), ("u", KEYED.replace("'write-only'", "'target-file-size' = '4 kb', 'write-only'"))):
        run(
            joins,
            f"CREATE TABLE {name} (s STRING NOT NULL, id INT NOT NULL, v INT) {kind.format(key='id,s', n=2)}",
            f"INSERT INTO {name} SELECT concat('s', id % 7), id, id FROM range(3000)",
            f"INSERT INTO {name} SELECT concat('s', id % 7), id, -id FROM range(2000, 5000)",
        )
    joins.conf.set("spark.sql.files.maxPartitionBytes", "1500b")  # divides files
    joins.conf.set("spark.sql.files.openCostInBytes", "0")
    query = "SELECT count(*), sum(t.v - u.v), min(u.v) FROM t JOIN u ON t.id = u.id AND t.s = u.s WHERE t.v % 3 = 0"
    expected = [(1667, 0, -4998)]
    assert (rows(joins.sql(query)), sorts(joins.sql(query))) == (expected, 2)
    run(joins, "CALL sys.compact(table => 'u')")
    assert (rows(joins.sql(query)), sorts(joins.sql(query))) == (expected, 1)
    run(joins, "CALL sys.compact(table => 't')")
    assert (rows(joins.sql(query)), sorts(joins.sql(query))) == (expected, 0)
    descending = joins.sql("SELECT u.id FROM u JOIN t ON u.id = t.id AND u.s = t.s").sortWithinPartitions("id")
    per_task = descending.rdd.glom().collect()
    assert all(ids == sorted(ids) for ids in ([r.id for r in task] for task in per_task))


def test_few_large_buckets_are_shuffled(joins: SparkSession) -> None:
    for name in ("t", "u"):
        keyed(joins, name, 1)
    query = "SELECT count(*) FROM t JOIN u ON t.id = u.id"
    assert shuffles_of(joins, query) == [0, 0]
    joins.conf.set("spark.sql.files.maxPartitionBytes", "100b")
    assert min(shuffles_of(joins, query)) > 0
    joins.conf.set("spark.sql.files.maxPartitionBytes", "128mb")
    joins.conf.set("spark.sql.sources.v2.bucketing.enabled", "false")
    assert min(shuffles_of(joins, query)) > 0


def test_reads_without_use_keep_their_tasks(tables: SparkSession) -> None:
    tables.conf.set("spark.sql.autoBroadcastJoinThreshold", "1mb")
    plan = tables.sql("SELECT a.id FROM a JOIN b ON a.id = b.id")
    plan.collect()
    assert "a task for each bucket" not in plan._jdf.queryExecution().executedPlan().toString().split("Initial")[0]


@pytest.mark.parametrize("merge_read", ["false", "true"])
def test_marked_deletes_stay_deleted(joins: SparkSession, merge_read: str) -> None:
    for name in ("t", "u"):
        run(
            joins,
            f"CREATE TABLE {name} (id STRING NOT NULL, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '3', "
            f"'deletion-vectors.enabled' = 'true', 'deletion-vectors.merge-on-read' = '{merge_read}')",
            f"INSERT INTO {name} SELECT concat('k', id), id FROM range(200)",
        )
    run(joins, "DELETE FROM t WHERE v % 4 = 1", "CALL sys.compact(table => 'u')")
    query = "SELECT count(*), sum(t.v + u.v) FROM t JOIN u ON t.id = u.id"
    assert shuffles_of(joins, query) == [0, 0]
    assert rows(joins.sql(query)) == [(150, 2 * sum(v for v in range(200) if v % 4 != 1))]


@pytest.mark.parametrize(
    ("name", "function", "key"),
    [("bucket", "default", "s, d, at"), ("mod_bucket", "mod", "k"), ("hive_bucket", "hive", "s, d")],
)
def test_bucket_functions_name_the_bucket(spark: SparkSession, name: str, function: str, key: str) -> None:
    run(
        spark,
        "CREATE TABLE t (k BIGINT, s STRING, d DECIMAL(20,3), at TIMESTAMP) TBLPROPERTIES "
        f"('bucket' = '5', 'bucket-key' = '{key}', 'bucket-function.type' = '{function}')",
        "INSERT INTO t SELECT if(id % 9 = 0, NULL, id - 50), concat('text ', id), CAST(id AS DECIMAL(20,3)) / 8, "
        "timestamp_micros(id * 1000001) FROM range(200)",
    )
    assert spark.sql(f"SELECT * FROM t WHERE __paimon_bucket <> paimon.sys.{name}(5, {key})").collect() == []
    assert spark.sql(f"SELECT count(DISTINCT paimon.{name}(5, {key})) FROM t").first()[0] == 5  # type: ignore[index]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("bucket(0, 1)", "got 0 as the number of buckets"),
        ("bucket('4', 1)", r"takes an INT and at least one column, not \(STRING, INT\)"),
        ("mod_bucket(4, 'x')", "'mod' does not accept a column of type string"),
        ("hive_bucket(4, now())", "'hive' does not accept a column of type timestamp"),
    ],
)
def test_bucket_functions_refuse(spark: SparkSession, call: str, told: str) -> None:
    with pytest.raises(Exception, match=told):
        spark.sql(f"SELECT paimon.sys.{call}").collect()


def test_zeros_of_both_signs_are_one_group(joins: SparkSession) -> None:
    joins.sql("CREATE TABLE zeros (d DOUBLE, v INT) TBLPROPERTIES ('bucket-key' = 'd', 'bucket' = '8')")
    joins.sql("INSERT INTO zeros VALUES (0.0D, 1), (-0.0D, 1), (5.0D, 1)")
    found = joins.sql("SELECT d, sum(v) FROM zeros GROUP BY d").collect()
    assert sorted(map(tuple, found)) == [(0.0, 2), (5.0, 1)]

"""DELETE, UPDATE and MERGE INTO: row kinds in tables with a primary key, replaced files in all others."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from chispa import assert_df_equality
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import paimon_spark
from tests.query_results import rows
from tests.variants import every

PK = "TBLPROPERTIES ('primary-key'='id', 'bucket'='2')"
VECTORS = "TBLPROPERTIES ('deletion-vectors.enabled'='true')"
KINDS = pytest.mark.parametrize(
    "properties",
    every(
        2,
        [
            PK,
            "TBLPROPERTIES ('bucket'='2', 'bucket-key'='id')",
            "",
            VECTORS,
            "TBLPROPERTIES ('deletion-vectors.enabled'='true', 'bucket'='2', 'bucket-key'='id')",
        ],
    ),
)


def last(spark: SparkSession, table: str) -> tuple:
    return rows(spark, f"SELECT commit_kind, operation FROM `{table}$snapshots` ORDER BY snapshot_id DESC LIMIT 1")[0]


def snapshots(spark: SparkSession, table: str) -> int:
    return rows(spark, f"SELECT count(*) FROM `{table}$snapshots`")[0][0]


def files_of(spark: SparkSession, warehouse: Path, table: str) -> set[str]:
    database = spark.sql("SELECT current_database()").collect()[0][0]
    root = warehouse / f"{database}.db" / table
    return {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and p.name.startswith("data-")}


def table_of(spark: SparkSession, properties: str) -> None:
    spark.sql(f"CREATE TABLE t (id INT, v STRING, n BIGINT) {properties}")
    spark.sql("INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', NULL)")
    spark.sql("INSERT INTO t VALUES (4, 'd', 40), (5, 'e', 50)")


@KINDS
def test_delete_and_update(spark: SparkSession, properties: str) -> None:
    table_of(spark, properties)
    spark.sql("DELETE FROM t WHERE n > 30 AND id < 5")
    assert last(spark, "t") == ("APPEND" if properties == PK else "OVERWRITE", "DELETE")
    assert rows(spark, "SELECT id FROM t ORDER BY id") == [(1,), (2,), (3,), (5,)]
    spark.sql("UPDATE t AS x SET x.v = concat(v, id), n = DEFAULT WHERE x.n >= 20")
    assert last(spark, "t")[1] == "UPDATE"
    assert rows(spark, "SELECT * FROM t ORDER BY id") == [
        (1, "a", 10),
        (2, "b2", None),
        (3, "c", None),
        (5, "e5", None),
    ]
    before = snapshots(spark, "t")
    spark.sql("DELETE FROM t WHERE n > 1000")
    spark.sql("UPDATE t SET n = 1 WHERE id = 77")
    assert snapshots(spark, "t") == before
    spark.sql("UPDATE t SET n = id")
    assert rows(spark, "SELECT sum(n), count(*) FROM t") == [(11, 4)]
    spark.sql("DELETE FROM t")
    assert last(spark, "t") == ("OVERWRITE", "DELETE")
    assert rows(spark, "SELECT * FROM t") == []


@KINDS
def test_subqueries_in_conditions(spark: SparkSession, properties: str) -> None:
    table_of(spark, properties)
    spark.sql("CREATE TABLE s (id INT, m INT)")
    spark.sql("INSERT INTO s VALUES (1, 100), (4, 400)")
    spark.sql("UPDATE t SET n = (SELECT max(m) FROM s), v = 'u' WHERE id IN (SELECT id FROM s)")
    assert rows(spark, "SELECT id, n FROM t WHERE v = 'u' ORDER BY id") == [(1, 400), (4, 400)]
    spark.sql("DELETE FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.id = t.id AND s.m > 200)")
    assert rows(spark, "SELECT id FROM t ORDER BY id") == [(1,), (2,), (3,), (5,)]
    spark.sql("DELETE FROM t WHERE n = (SELECT max(n) FROM t) OR id NOT IN (SELECT id + 1 FROM t)")
    assert rows(spark, "SELECT id FROM t ORDER BY id") == [(2,), (3,)]


@KINDS
def test_merge_with_every_clause(spark: SparkSession, properties: str) -> None:
    table_of(spark, properties)
    spark.sql(
        """MERGE INTO t USING (
             SELECT * FROM VALUES (1, 'x', 1L), (2, 'y', 2L), (4, 'z', 4L), (8, 'w', 8L), (9, 'skip', 9L) x (id, v, n)) s
           ON t.id = s.id
           WHEN MATCHED AND s.id = 1 THEN UPDATE SET *
           WHEN MATCHED AND t.n > 30 THEN DELETE
           WHEN MATCHED THEN UPDATE SET v = concat(t.v, s.v)
           WHEN NOT MATCHED AND s.v <> 'skip' THEN INSERT (id, v) VALUES (s.id, s.v)
           WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN UPDATE SET n = 33
           WHEN NOT MATCHED BY SOURCE THEN DELETE"""
    )
    assert last(spark, "t") == ("APPEND" if properties == PK else "OVERWRITE", "MERGE")
    assert rows(spark, "SELECT * FROM t ORDER BY id") == [(1, "x", 1), (2, "by", 20), (3, "c", 33), (8, "w", None)]
    spark.sql("MERGE INTO t USING t AS s ON t.id = s.id + 1 WHEN MATCHED THEN UPDATE SET n = s.n")
    assert rows(spark, "SELECT id, n FROM t ORDER BY id") == [(1, 1), (2, 1), (3, 20), (8, None)]
    spark.sql("MERGE INTO t USING (SELECT 8 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)")
    spark.sql("MERGE INTO t USING (SELECT 7 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)")
    assert rows(spark, "SELECT count(*), max(id) FROM t WHERE n IS NULL") == [(2, 8)]
    spark.sql("MERGE INTO t USING (SELECT 7 AS x) s ON t.id = s.x AND t.id < 8 WHEN NOT MATCHED BY SOURCE THEN DELETE")
    assert rows(spark, "SELECT id FROM t") == [(7,)]


@KINDS
def test_merge_refuses_a_row_with_several_matches(spark: SparkSession, properties: str, warehouse: Path) -> None:
    table_of(spark, properties)
    source = "(SELECT 1 AS id, 'x' AS v UNION ALL SELECT 1, 'y')"
    before = files_of(spark, warehouse, "t")
    for clause in ("UPDATE SET v = s.v", "DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (1)"):
        with_condition = f"WHEN MATCHED AND s.v = 'x' THEN {clause}"
        with pytest.raises(Exception, match="MERGE_CARDINALITY_VIOLATION"):
            spark.sql(f"MERGE INTO t USING {source} s ON t.id = s.id {with_condition}")
    assert files_of(spark, warehouse, "t") == before
    spark.sql(f"MERGE INTO t USING {source} s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert rows(spark, "SELECT id FROM t ORDER BY id") == [(2,), (3,), (4,), (5,)]


def test_a_source_is_evaluated_once(spark: SparkSession) -> None:
    table_of(spark, "")
    source = "(SELECT id, uuid() AS v, rand() AS r FROM t)"
    spark.sql(
        f"MERGE INTO t USING {source} s ON t.id = s.id WHEN MATCHED AND r < 0.5 THEN UPDATE SET v = concat('low', s.v) "
        "WHEN MATCHED AND r >= 0.5 THEN UPDATE SET v = concat('high', s.v)"
    )
    assert rows(spark, "SELECT count(*), count(DISTINCT v), min(length(v)) > 36 FROM t") == [(5, 5, True)]


def test_keys_cannot_be_updated(spark: SparkSession) -> None:
    table_of(spark, PK)
    for sql in (
        "UPDATE t SET id = 100 WHERE id = 1",
        "MERGE INTO t USING (SELECT 1 AS id, 'x' AS v, 1L AS n) s ON t.v = s.v WHEN MATCHED THEN UPDATE SET *",
        "MERGE INTO t USING (SELECT 1 AS x) s ON t.id = s.x WHEN NOT MATCHED BY SOURCE THEN UPDATE SET id = 3",
        "MERGE INTO t USING (SELECT 1 AS x, 70 AS y) s ON t.id = s.x WHEN MATCHED THEN UPDATE SET id = s.y",
    ):
        with pytest.raises(Exception, match=r"INVALID_ARGUMENT.*primary key \(id\)"):
            spark.sql(sql)
    spark.sql("CREATE TABLE hours (at TIMESTAMP NOT NULL, v STRING) TBLPROPERTIES ('primary-key'='at')")
    days = "(SELECT DATE'2024-05-01' AS at, TIMESTAMP'2024-05-01 09:00:00' AS ts, 'x' AS v) s"
    for on, value in ("CAST(t.at AS DATE) = s.at", "s.at"), ("t.at = CAST(s.ts AS DATE)", "s.ts"):
        with pytest.raises(Exception, match=r"INVALID_ARGUMENT.*primary key \(at\)"):
            spark.sql(f"MERGE INTO hours t USING {days} ON {on} WHEN MATCHED THEN UPDATE SET at = {value}, v = s.v")
    spark.sql(f"MERGE INTO hours t USING {days} ON t.at = s.at WHEN MATCHED THEN UPDATE SET at = s.at, v = s.v")
    spark.sql("UPDATE t SET id = id, v = 'same' WHERE id = 1")
    spark.sql("MERGE INTO t USING (SELECT 2L AS id, 'm' AS v, 1L AS n) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *")
    assert rows(spark, "SELECT id, v FROM t WHERE id < 3 ORDER BY id") == [(1, "same"), (2, "m")]


def test_what_cannot_be_resolved_or_cast_is_told(spark: SparkSession) -> None:
    table_of(spark, "")
    for sql, said in (
        ("DELETE FROM t WHERE nope = 1", "UNRESOLVED_COLUMN"),
        ("UPDATE t SET nope = 1", "UNRESOLVED_COLUMN"),
        ("UPDATE t SET id = 'abc'", "CAST_INVALID_INPUT"),
        ("UPDATE t SET id = array(1)", "DATATYPE_MISMATCH"),
        ("MERGE INTO t USING (SELECT 1 AS id) s ON t.id IN (SELECT 1) WHEN MATCHED THEN DELETE", "UNSUPPORTED_FEATURE"),
    ):
        with pytest.raises(Exception, match=said):
            spark.sql(sql)
    assert snapshots(spark, "t") == 2


@pytest.mark.parametrize("properties", [PK, ""])
def test_columns_of_all_types_are_kept(spark: SparkSession, properties: str) -> None:
    spark.sql(
        "CREATE TABLE t (id INT, c CHAR(4), vc VARCHAR(5), d DECIMAL(20, 4), ts TIMESTAMP, nt TIMESTAMP_NTZ, dt DATE, "
        f"b BINARY, a ARRAY<INT>, m MAP<STRING, INT>, s STRUCT<x: INT, y: STRING>, f FLOAT) {properties}"
    )
    spark.sql(
        "INSERT INTO t VALUES (1, 'ab', 'vv', 1.5, TIMESTAMP'2024-01-01 00:00:00.123456', "
        "TIMESTAMP_NTZ'2024-01-01 00:00:00.1', DATE'2024-01-01', X'01', array(1, 2), map('k', 1), "
        "named_struct('x', 1, 'y', 'zebra'), 1.5)"
    )
    spark.sql("INSERT INTO t (id) VALUES (2)")
    spark.sql("UPDATE t SET s.x = 9, vc = 'w' WHERE c = 'ab'")
    untouched = "SELECT id, c, d, ts, nt, dt, b, a, m, f FROM t {} ORDER BY id"
    assert_df_equality(spark.sql(untouched.format("")), spark.sql(untouched.format("VERSION AS OF 2")))
    assert rows(spark, "SELECT s.x, s.y, vc FROM t WHERE id = 1") == [(9, "zebra", "w")]
    with pytest.raises(Exception, match="EXCEED_LIMIT_LENGTH"):
        spark.sql("UPDATE t SET vc = 'toolong' WHERE id = 2")
    spark.sql(
        "MERGE INTO t USING t q ON t.id = q.id + 1 WHEN MATCHED THEN UPDATE SET a = q.a, s = q.s, m = q.m, c = 'x'"
    )
    assert rows(spark, "SELECT c, a, m, s.x, s.y FROM t WHERE id = 2") == [("x   ", [1, 2], {"k": 1}, 9, "zebra")]
    spark.sql("DELETE FROM t WHERE c = 'ab'")
    assert rows(spark, "SELECT id FROM t") == [(2,)]


def test_not_null_columns_stay_filled(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT, v STRING NOT NULL)")
    spark.sql("INSERT INTO t VALUES (1, 'a')")
    with pytest.raises(Exception, match="NULL"):
        spark.sql("UPDATE t SET v = NULL")
    assert rows(spark, "SELECT * FROM t") == [(1, "a")]


def test_a_delete_applies_where_written_deletes_are_dropped(spark: SparkSession) -> None:
    options = "'primary-key'='id', 'bucket'='1', 'ignore-delete'='true', 'rowkind.field'='kind'"
    spark.sql(f"CREATE TABLE t (id INT, kind STRING) TBLPROPERTIES ({options})")
    spark.sql("INSERT INTO t VALUES (1, '+I'), (2, '+I'), (3, '+I')")
    spark.sql("INSERT INTO t VALUES (2, '-D')")
    spark.sql("DELETE FROM t WHERE id = 1")
    assert rows(spark, "SELECT id FROM t ORDER BY id") == [(2,), (3,)]


def test_dynamic_buckets_and_sequence_fields(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT, v STRING, ts INT) TBLPROPERTIES ('primary-key'='id', 'sequence.field'='ts')")
    spark.sql("INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 10), (3, 'c', 10)")
    spark.sql("UPDATE t SET v = 'late', ts = 1 WHERE id = 1")
    spark.sql("UPDATE t SET v = 'new' WHERE id = 2")
    spark.sql("DELETE FROM t WHERE id = 3")
    assert rows(spark, "SELECT * FROM t ORDER BY id") == [(1, "a", 10), (2, "new", 10)]


def test_a_kind_column_does_not_stop_a_delete(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE t (id INT, op STRING) TBLPROPERTIES ('primary-key'='id', 'bucket'='1', 'rowkind.field'='op')"
    )
    spark.sql("INSERT INTO t VALUES (1, '+I'), (2, '+I')")
    spark.sql("DELETE FROM t WHERE id = 1")
    assert rows(spark, "SELECT * FROM t") == [(2, "+I")]


def test_whole_partitions_are_dropped_from_the_metadata(spark: SparkSession, warehouse: Path) -> None:
    spark.sql("CREATE TABLE t (id INT, dt DATE, h INT) PARTITIONED BY (dt, h)")
    spark.sql("INSERT INTO t SELECT id, date_add(DATE'2024-01-01', CAST(id / 10 AS INT)), id % 2 FROM range(40)")
    before = files_of(spark, warehouse, "t")
    spark.sql("DELETE FROM t WHERE dt = '2024-01-01' AND 1 = 1")
    spark.sql("DELETE FROM t WHERE dt > DATE'2024-01-03' AND h IN (1)")
    spark.sql("DELETE FROM t WHERE h > 5")
    assert files_of(spark, warehouse, "t") == before
    assert rows(spark, "SELECT dt, h, count(*) FROM t GROUP BY 1, 2 ORDER BY 1, 2")[-1][1:] == (0, 5)
    assert rows(spark, "SELECT count(*) FROM t") == [(25,)]
    spark.sql("DELETE FROM t WHERE h = 0 AND id < 15")
    assert len(files_of(spark, warehouse, "t") - before) == 1
    assert rows(spark, "SELECT count(*) FROM t") == [(22,)]
    spark.sql("TRUNCATE TABLE t PARTITION (dt = '2024-01-03', h = 0)")
    assert rows(spark, "SELECT count(*) FROM t") == [(17,)]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_only_touched_files_are_replaced(spark: SparkSession, warehouse: Path, file_format: str) -> None:
    spark.sql(
        f"CREATE TABLE t (id INT, v STRING, p INT) PARTITIONED BY (p) TBLPROPERTIES ('file.format'='{file_format}')"
    )
    for start in (0, 100):
        spark.sql(f"INSERT INTO t SELECT id, concat('v', id), id % 2 FROM range({start}, {start + 100})")
    before = files_of(spark, warehouse, "t")
    spark.sql("ALTER TABLE t ADD COLUMN w STRING")
    spark.sql("UPDATE t SET p = 5, w = 'moved' WHERE id = 50")
    spark.sql("DELETE FROM t WHERE id = 52")
    live = {r[0].rpartition("/")[2] for r in rows(spark, "SELECT file_path FROM `t$files`")}
    assert len({Path(f).name for f in before} & live) == 3
    assert rows(spark, "SELECT * FROM t WHERE p = 5") == [(50, "v50", 5, "moved")]
    assert rows(spark, "SELECT count(*), sum(id), count(w) FROM t") == [(199, 19900 - 52, 1)]


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_rows_are_marked_in_deletion_vectors(spark: SparkSession, warehouse: Path, file_format: str) -> None:
    spark.sql(
        "CREATE TABLE t (id INT, v STRING, p INT) PARTITIONED BY (p) TBLPROPERTIES "
        f"('deletion-vectors.enabled'='true', 'file.format'='{file_format}')"
    )
    spark.sql("INSERT INTO t SELECT id, 'x', id % 2 FROM range(1000)")
    before = files_of(spark, warehouse, "t")
    spark.sql("DELETE FROM t WHERE id IN (1, 2, 3) OR id >= 995")
    assert files_of(spark, warehouse, "t") == before
    assert rows(spark, "SELECT count(*), sum(id) FROM t") == [(992, sum(range(995)) - 6)]
    spark.sql("UPDATE t SET v = 'y', p = 7 WHERE id BETWEEN 100 AND 109")
    spark.sql("MERGE INTO t USING t AS s ON t.id = s.id + 990 AND s.id < 3 WHEN MATCHED THEN DELETE "
              "WHEN NOT MATCHED AND s.id < 10 THEN INSERT (id, v, p) VALUES (-s.id, s.v, 7)")  # fmt: skip
    expected = sorted([*(i for i in range(995) if i not in (1, 2, 3, 990)), *(-i for i in range(4, 10))])
    assert rows(spark, "SELECT id FROM t ORDER BY id") == [(i,) for i in expected]
    assert rows(spark, "SELECT min(id), max(id), count(*) FROM t WHERE v = 'y'") == [(100, 109, 10)]
    assert before < files_of(spark, warehouse, "t")
    marked = "SELECT sum(size(dv_ranges)), sum(aggregate(dv_ranges, 0L, (n, r) -> n + r._CARDINALITY)) FROM"
    assert rows(spark, f"{marked} `t$table_indexes`")[0][1] == 8 + 10 + 1
    spark.sql("CALL sys.compact(table => 't', order_strategy => 'order', order_by => 'id')")
    assert rows(spark, "SELECT count(*) FROM `t$table_indexes`") == [(0,)]
    assert rows(spark, "SELECT id FROM t ORDER BY id") == [(i,) for i in expected]


@KINDS
def test_columns_of_any_name_keep_their_values(spark: SparkSession, properties: str) -> None:
    names = ("_to_", "_row_kind_", "_bucket_", "_hash_", "_order_", "_route_")
    columns = ", ".join(f"{name} INT" for name in names)
    spark.sql(f"CREATE TABLE t (id INT, {columns}) {properties}")
    spark.sql(f"INSERT INTO t SELECT id, {', '.join(f'id + {n}' for n in range(len(names)))} FROM range(20)")
    spark.sql("UPDATE t SET _to_ = -1 WHERE id < 4")
    spark.sql("DELETE FROM t WHERE _row_kind_ = 8")
    spark.sql(
        f"MERGE INTO t USING (SELECT 5 AS id UNION ALL SELECT 50) s ON t.id = s.id "
        f"WHEN MATCHED THEN UPDATE SET _bucket_ = 99 "
        f"WHEN NOT MATCHED THEN INSERT (id, {', '.join(names)}) VALUES (s.id, {', '.join('0' for _ in names)})"
    )
    expected = [[i, *(i + n for n in range(len(names)))] for i in range(20) if i != 7]
    for row in expected[:4]:
        row[1] = -1
    expected[5][3] = 99
    expected.append([50, *(0 for _ in names)])
    assert rows(spark, "SELECT * FROM t ORDER BY id") == [tuple(row) for row in expected]


def test_where_a_row_is_can_be_selected(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT)")
    spark.sql("INSERT INTO t VALUES (7), (8)")
    assert rows(spark, "SELECT __paimon_row_index, id FROM t ORDER BY 1") == [(0, 7), (1, 8)]
    assert rows(spark, "SELECT count(*) FROM t WHERE __paimon_row_index = 1") == [(1,)]
    assert rows(spark, "SELECT __paimon_file_path LIKE '%/bucket-0/data-%' FROM t LIMIT 1") == [(True,)]
    assert rows(spark, "SELECT * FROM t WHERE id = 8") == [(8,)]


def test_explain_changes_nothing(spark: SparkSession) -> None:
    table_of(spark, "")
    spark.sql("EXPLAIN DELETE FROM t WHERE id = 1").collect()
    assert rows(spark, "SELECT count(*) FROM t") == [(5,)]


def test_cached_tables_show_the_change(spark: SparkSession) -> None:
    table_of(spark, PK)
    spark.sql("CACHE TABLE t")
    assert rows(spark, "SELECT count(*) FROM t") == [(5,)]
    spark.sql("DELETE FROM t WHERE id = 1")
    assert rows(spark, "SELECT count(*) FROM t") == [(4,)]
    spark.sql("UNCACHE TABLE t")


@KINDS
def test_changes_start_from_stored_rows_not_from_cached_ones(
    spark: SparkSession, warehouse: Path, properties: str
) -> None:
    table_of(spark, properties)
    spark.sql("CREATE TABLE s AS SELECT 2 AS id")
    spark.sql("CACHE TABLE t")
    other = paimon_spark.connect(warehouse).table(f"{spark.catalog.currentDatabase()}.t")
    other.delete("id IN (1, 2)")
    other.append(pa.table([[1, 2], ["new", "new"], [11, 21]], schema=other.schema))
    try:
        assert rows(spark, "SELECT max(n) FROM t WHERE v = 'new'") == [(None,)]
        spark.sql("UPDATE t SET n = n + 100 WHERE id = 1")
        spark.sql("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = n + 100")
    finally:
        spark.sql("UNCACHE TABLE t")
    assert rows(spark, "SELECT * FROM t WHERE id < 3 ORDER BY id") == [(1, "new", 111), (2, "new", 121)]


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_changes_of_a_file_meet_whatever_the_buckets(spark: SparkSession, vectors: str) -> None:
    """A join spreads the rows of a file over all tasks, and neither of these tables tells the bucket of its files."""
    spark.sql(
        "CREATE TABLE t (id INT, v STRING) TBLPROPERTIES ('bucket'='2', 'bucket-key'='id', "
        f"'bucket-function.type'='mod', 'deletion-vectors.enabled'='{vectors}')"
    )
    spark.sql("INSERT INTO t SELECT /*+ REPARTITION(1) */ id, 'old' FROM range(1000)")
    spark.sql("CREATE TEMP VIEW s AS SELECT id FROM range(0, 1100, 3)")
    spark.sql(
        "MERGE INTO t USING (SELECT /*+ SHUFFLE_HASH(s) */ * FROM s) s ON t.id = s.id "
        "WHEN MATCHED AND t.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'new' "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'added')"
    )
    kept = {i: "new" if i % 3 == 0 else "old" for i in range(1000) if i % 6}
    expected = list((kept | dict.fromkeys(range(1002, 1100, 3), "added")).items())
    assert_df_equality(spark.table("t"), spark.createDataFrame(expected, "id INT, v STRING"), ignore_row_order=True)
    spark.sql("DROP VIEW s")


def test_rows_are_marked_after_the_number_of_buckets_changed(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE t (id INT) TBLPROPERTIES ('bucket'='2', 'bucket-key'='id', 'deletion-vectors.enabled'='true')"
    )
    spark.sql("INSERT INTO t SELECT id FROM range(100)")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('bucket'='4')")
    spark.sql("DELETE FROM t WHERE id % 2 = 0")
    assert rows(spark, "SELECT count(*), sum(id) FROM t") == [(50, 2500)]


@pytest.mark.parametrize(
    "properties",
    ["'bucket'='2'", "'dynamic-bucket.target-row-num'='20'", "'bucket'='1', 'file.format'='orc'"],
    ids=["fixed", "dynamic", "orc"],
)
def test_rows_of_keyed_tables_are_marked_where_they_lie(spark: SparkSession, warehouse: Path, properties: str) -> None:
    vectors = "'deletion-vectors.enabled'='true', 'deletion-vectors.mark-deletes'='true'"
    given = f"TBLPROPERTIES ('primary-key'='p,id', {vectors}, {properties})"
    spark.sql(f"CREATE TABLE m (id INT, p STRING, v STRING) PARTITIONED BY (p) {given}")
    spark.sql("INSERT INTO m SELECT id, concat('p', id % 2), concat('v', id) FROM range(100)")
    spark.sql("INSERT INTO m SELECT id, concat('p', id % 2), 'w' FROM range(10)")
    before, count = files_of(spark, warehouse, "m"), snapshots(spark, "m")
    spark.sql("DELETE FROM m WHERE id % 10 = 3")
    assert last(spark, "m") == ("OVERWRITE", "DELETE")
    spark.sql("MERGE INTO m USING (SELECT id * 5 AS id FROM range(4)) s ON m.id = s.id WHEN MATCHED THEN DELETE")
    assert last(spark, "m") == ("OVERWRITE", "MERGE")
    assert files_of(spark, warehouse, "m") == before
    assert snapshots(spark, "m") == count + 2
    kept = [i for i in range(100) if i % 10 != 3 and i not in (0, 5, 10, 15)]
    assert rows(spark, "SELECT id, v FROM m ORDER BY id") == [(i, "w" if i < 10 else f"v{i}") for i in kept]
    spark.sql("INSERT INTO m VALUES (3, 'p1', 'again')")
    spark.sql("UPDATE m SET v = 'new' WHERE id IN (3, 4)")
    spark.sql("DELETE FROM m WHERE id > 4")
    assert rows(spark, "SELECT id, v FROM m ORDER BY id") == [(1, "w"), (2, "w"), (3, "new"), (4, "new")]
    spark.sql("CALL paimon.sys.compact(table => 'm', compact_strategy => 'full')")
    assert rows(spark, "SELECT count(*) FROM m") == [(4,)]


def test_columns_that_differ_in_case(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    spark.sql("CREATE TABLE t (k INT, K INT, v STRING) TBLPROPERTIES ('primary-key'='k', 'bucket'='1')")
    spark.sql("INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b')")
    spark.sql("UPDATE t SET K = 11 WHERE k = 1")
    spark.sql("INSERT INTO t REPLACE WHERE k = 2 VALUES (2, 21, 'c')")
    assert rows(spark, "SELECT * FROM t ORDER BY k") == [(1, 11, "a"), (2, 21, "c")]
    with pytest.raises(Exception, match="cannot change the primary key"):
        spark.sql("UPDATE t SET k = 5")


@pytest.mark.parametrize("properties", ["'primary-key' = 'id'", "'bucket' = '-1'"], ids=["keyed", "append"])
def test_members_of_structs_are_assigned_by_name(spark: SparkSession, properties: str) -> None:
    spark.sql(f"""CREATE TABLE t (id INT, s STRUCT<a: INT, b: STRING>, l ARRAY<STRUCT<a: INT, b: STRING>>,
        m MAP<STRING, STRUCT<a: INT, b: VARCHAR(2)>>) TBLPROPERTIES ({properties})""")
    spark.sql("INSERT INTO t VALUES (1, NULL, NULL, NULL), (2, NULL, NULL, NULL)")
    given = "named_struct('b', '1', 'a', 2)"
    spark.sql(f"UPDATE t SET s = {given}, l = array({given}, NULL), m = map('k', {given}) WHERE id = 1")
    assert rows(spark, "SELECT * FROM t WHERE id = 1") == [(1, (2, "1"), [(2, "1"), None], {"k": (2, "1")})]
    spark.sql(f"""MERGE INTO t USING (SELECT id, {given} AS s FROM VALUES (2), (3) AS v (id)) n ON t.id = n.id
        WHEN MATCHED THEN UPDATE SET s = n.s WHEN NOT MATCHED THEN INSERT (id, s) VALUES (n.id, n.s)""")
    assert rows(spark, "SELECT id, s FROM t ORDER BY id") == [(n, (2, "1")) for n in (1, 2, 3)]
    for value in ("struct(1, '2')", "named_struct('b', '1')", "named_struct('b', named_struct('a', 1))"):
        with pytest.raises(PySparkException, match=r"Cannot find data for the output column `s`\.`a`"):
            spark.sql(f"UPDATE t SET s = {value}")
    with pytest.raises(PySparkException, match="EXCEED_LIMIT_LENGTH"):
        spark.sql("UPDATE t SET m = map('k', named_struct('b', 'long', 'a', 1))")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        *((f"{s} t{p} WHERE id", "FILTER_NOT_BOOLEAN") for s, p in (("DELETE FROM", ""), ("UPDATE", " SET v = 1"))),
        ("INSERT INTO t REPLACE WHERE id VALUES (1, 1)", "FILTER_NOT_BOOLEAN"),
        ("MERGE INTO t USING t AS s ON t.id = s.id WHEN MATCHED AND s.id THEN DELETE", "FILTER_NOT_BOOLEAN"),
        ("UPDATE t SET v = max(v)", r"INVALID_ARGUMENT.*max\(v\).*subquery"),
        ("DELETE FROM t WHERE v = max(v)", r"INVALID_ARGUMENT.*max\(v\).*subquery"),
    ],
)
def test_conditions_and_values_of_rows(spark: SparkSession, statement: str, said: str) -> None:
    spark.sql("CREATE TABLE t (id INT, v INT)")
    spark.sql("INSERT INTO t VALUES (1, 1)")
    with pytest.raises(PySparkException, match=said) as raised:
        spark.sql(statement)
    assert "_KEY_" not in str(raised.value)
    assert rows(spark, "SELECT * FROM t") == [(1, 1)]


def test_values_of_windows(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT, v INT) TBLPROPERTIES ('primary-key' = 'id')")
    spark.sql("INSERT INTO t VALUES (1, 10), (2, 20)")
    spark.sql("UPDATE t SET v = sum(v) OVER (ORDER BY id)")
    assert rows(spark, "SELECT * FROM t ORDER BY id") == [(1, 10), (2, 30)]


def test_a_null_among_binary_values(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT, b BINARY)")
    spark.sql("INSERT INTO t VALUES (1, X'61'), (2, X'62'), (3, NULL)")
    assert rows(spark, "SELECT id FROM t WHERE b IN (X'61', NULL)") == [(1,)]
    spark.sql("UPDATE t SET id = 10 WHERE b IN (X'61', NULL)")
    spark.sql("DELETE FROM t WHERE b IN (X'62', NULL)")
    assert rows(spark, "SELECT id FROM t ORDER BY id") == [(3,), (10,)]


def test_a_merge_keeps_the_stored_key(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (k DOUBLE, v INT) TBLPROPERTIES ('primary-key' = 'k')")
    spark.sql("INSERT INTO t VALUES (0.0D, 1)")
    spark.sql("MERGE INTO t USING (SELECT -0.0D AS k, 2 AS v) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET *")
    assert rows(spark, "SELECT * FROM t") == [(0.0, 2)]

"""The operation in snapshots: one of Paimon's names, after every kind of statement."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.spec.identifier import Identifier
from paimon_spark.testing.invariants import violations
from tests.peers.vocabulary import recorded

KEYED = "'primary-key'='k,p', 'bucket'='1', 'write-only'='true'"
APPEND = "'write-only'='true'"
MARKED = "'deletion-vectors.enabled'='true', 'write-only'='true'"
COMMON = (
    ("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 2)", ("APPEND", "WRITE")),
    ("INSERT INTO t VALUES (4, 'd', 2), (5, 'e', 3), (6, 'f', 4)", ("APPEND", "WRITE")),
    ("INSERT OVERWRITE t PARTITION (p = 4) SELECT 7, 'g'", ("OVERWRITE", "OVERWRITE")),
    ("DELETE FROM t WHERE k = 1", (None, "DELETE")),
    ("DELETE FROM t WHERE p = 4", ("OVERWRITE", "DELETE")),
    ("UPDATE t SET v = 'x' WHERE k = 2", (None, "UPDATE")),
    (
        "MERGE INTO t USING (SELECT 3 AS k, 2 AS p) s ON t.k = s.k AND t.p = s.p WHEN MATCHED THEN UPDATE SET v = 'y'",
        (None, "MERGE"),
    ),
    ("ALTER TABLE t DROP PARTITION (p = 3)", ("OVERWRITE", "TRUNCATE")),
    ("CALL sys.create_tag('t', 'keep')", None),
    ("CALL sys.compact('t')", None),
    ("TRUNCATE TABLE t PARTITION (p = 2)", ("OVERWRITE", "TRUNCATE")),
    ("TRUNCATE TABLE t", ("OVERWRITE", "TRUNCATE")),
    ("CALL sys.rollback_to('t', 'keep')", None),
    (
        "CREATE OR REPLACE TABLE t PARTITIONED BY (p) AS SELECT 1 AS k, 'r' AS v, 9 AS p",
        ("OVERWRITE", "CREATE_OR_REPLACE_TABLE_AS_SELECT"),
    ),
    ("REPLACE TABLE t PARTITIONED BY (p) AS SELECT 1 AS k, 'r' AS v, 9 AS p", ("OVERWRITE", "REPLACE_TABLE_AS_SELECT")),
    ("CREATE TABLE c AS SELECT 1 AS k", None),
)
SORTED = (
    ("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 1)", ("APPEND", "WRITE")),
    ("CALL sys.compact(table => 't', order_strategy => 'order', order_by => 'k')", ("OVERWRITE", None)),
)


@pytest.mark.parametrize(
    ("options", "statements"),
    [(KEYED, COMMON), (APPEND, COMMON), (MARKED, COMMON), (APPEND, SORTED)],
    ids=["keyed", "append", "marked", "sorted"],
)
def test_every_statement(
    spark: SparkSession,
    warehouse: Path,
    options: str,
    statements: tuple[tuple[str, tuple[str | None, str | None] | None], ...],
) -> None:
    spark.sql(f"CREATE TABLE t (k INT, v STRING, p INT) PARTITIONED BY (p) TBLPROPERTIES ({options})")
    catalog, database = open_catalog({"warehouse": str(warehouse)}), spark.catalog.currentDatabase()
    for statement, expected in statements:
        spark.sql(statement)
        assert violations(catalog.load_table(Identifier(database, "t"))) == [], statement
        if expected is not None:
            last = spark.sql("SELECT commit_kind, operation FROM `t$snapshots` ORDER BY snapshot_id DESC LIMIT 1")
            kind, operation = last.collect()[0]
            assert operation == expected[1], statement
            assert expected[0] in (None, kind), statement
    known = {None, *recorded()["2.0.0"]["enums"]["operation"]}
    files = [p for d in ("snapshot", "tag") for p in (warehouse / f"{database}.db").glob(f"*/{d}/{d}-*")]
    assert len(files) > len(statements) / 2
    assert {json.loads(p.read_text()).get("operation") for p in files} <= known

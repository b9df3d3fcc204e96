"""The same statements on a Delta table, a table with a primary key and an append table; the frames are compared.

All three live in one Spark Connect server with the extensions of both projects, in a process of its own.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyspark
import pytest
from chispa import assert_df_equality
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from benchmarks.engines import DELTA, spark_minor
from paimon_spark.bridge.jars import jar_path, spark_home
from tests.end_to_end.programs import ROOT, Place, free_port, plain_conf, server
from tests.jars import resolved

DELTA_SPARKS = ("4.0", "4.1", "4.2")
"""The releases of Spark that this release of Delta is made for."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        spark_minor() not in DELTA_SPARKS, reason=f"Delta {DELTA} has no release for Spark {pyspark.__version__}"
    ),
]

LOG = ROOT / "conf" / "log4j2.properties"
Frame = Any  # a frame of Spark Connect: its class is not that of a classic session
COLUMNS = "id INT NOT NULL, p STRING NOT NULL, v STRING, n BIGINT"
VALUES = "(1, 'a', 'one', 10), (2, 'a', 'two', 20), (3, 'b', 'three', NULL), (4, 'b', NULL, 40), (5, 'c', 'five', 50)"
OURS = ("keyed", "append")
BY_PARTITION = "PARTITIONED BY (p)"
DELTA_PROPERTIES = "'delta.columnMapping.mode'='name', 'delta.enableTypeWidening'='true'"
SOURCE = """(SELECT * FROM VALUES
    (1, 'a', 'ONE', 100L), (2, 'a', 'TWO', 200L), (4, 'b', 'FOUR', NULL), (8, 'b', 'EIGHT', 80L), (9, 'd', 'NINE', 90L)
    AS s (id, p, v, n)) AS s"""
MERGE = f"MERGE INTO {{t}} AS t USING {SOURCE} ON t.id = s.id AND t.p = s.p"


def in_order(frame: Frame) -> Frame:
    """Sort a frame by its columns but structures, which chispa itself would hash by a function of classic sessions."""
    return frame.sort(*(f.name for f in frame.schema.fields if not isinstance(f.dataType, StructType)))


@dataclass
class Tables:
    """Three tables of the same columns and rows: one of Delta, one with a primary key, one that is appended to."""

    spark: Any
    columns: str = COLUMNS
    values: str = VALUES
    partitions: str = ""
    names: dict[str, str] = field(default_factory=dict)

    def create(self, *layouts: str) -> Tables:
        """Make the tables of these layouts, or all, under new names."""
        key = "p,id" if self.partitions else "id"
        kinds = {
            "delta": ("spark_catalog.default", f"USING delta {self.partitions} TBLPROPERTIES ({DELTA_PROPERTIES})"),
            "keyed": ("paimon.beside", f"{self.partitions} TBLPROPERTIES ('primary-key'='{key}', 'bucket'='2')"),
            "append": ("paimon.beside", self.partitions),
        }
        for layout in layouts or kinds:
            database, kind = kinds[layout]
            self.names[layout] = f"{database}.t_{uuid.uuid4().hex[:8]}"
            self.sql(layout, f"CREATE TABLE {{t}} ({self.columns}) {kind}")
            self.sql(layout, f"INSERT INTO {{t}} VALUES {self.values}")
        return self

    def sql(self, layout: str, statement: str) -> Frame:
        return self.spark.sql(statement.replace("{t}", self.names[layout]))

    def rows(self, layout: str, query: str) -> list[tuple]:
        return sorted(tuple(row) for row in self.sql(layout, query).collect())

    def run(self, statement: str) -> None:
        for layout in self.names:
            self.sql(layout, statement)

    def assert_equal(self, query: str = "SELECT * FROM {t}") -> None:
        delta = self.sql("delta", query)
        for layout in OURS:
            assert_df_equality(delta, self.sql(layout, query), transforms=[in_order])

    def run_and_compare(self, *statements: str) -> None:
        """Run statements one after the other, and compare the tables after each."""
        for statement in statements:
            self.run(statement)
            self.assert_equal()


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session with both kinds of tables: Delta's in its own catalog, ours in `paimon`."""
    from pyspark.sql.connect.session import SparkSession

    place = Place(tmp_path_factory.mktemp("beside_delta"))
    delta_jars = resolved(
        f"io.delta:delta-spark_{spark_minor()}_2.13:{DELTA}",
        f"io.delta:delta-storage:{DELTA}",
        excludes=("org.*:*", "com.*:*"),  # Spark has what Delta needs of these
    )
    port = free_port()
    conf = {
        "spark.jars": ",".join([jar_path(), *map(str, delta_jars)]),
        "spark.sql.extensions": "paimon.spark.SessionExtension,io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": (place.directory / "delta").as_uri(),
        "spark.sql.session.timeZone": "UTC",
        "spark.databricks.delta.snapshotPartitions": "1",
        # Tables of five rows: to compile a plan takes longer than to run it.
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile={LOG.as_uri()}",
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
    }
    command = [
        *(spark_home() / "bin" / "spark-submit", *plain_conf(place.warehouse)),
        *(part for key, value in conf.items() for part in ("--conf", f"{key}={value}")),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"),
    ]
    with server(place, command, port):
        spark = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
        spark.sql("CREATE DATABASE paimon.beside")
        yield spark
        spark.stop()


MERGES = [
    f"""{MERGE}
        WHEN MATCHED AND s.id = 1 THEN UPDATE SET *
        WHEN MATCHED AND t.n > 30 THEN DELETE
        WHEN MATCHED THEN UPDATE SET v = concat(t.v, s.v), n = NULL
        WHEN NOT MATCHED AND s.id = 8 THEN INSERT (id, p, v) VALUES (s.id, s.p, lower(s.v))
        WHEN NOT MATCHED AND s.id > 100 THEN INSERT *
        WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN UPDATE SET n = 33
        WHEN NOT MATCHED BY SOURCE THEN DELETE""",
    f"{MERGE} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    f"{MERGE} WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 'left', n = t.n + 1",
    f"{MERGE} WHEN MATCHED AND s.n IS NULL THEN DELETE",
    "MERGE INTO {t} AS t USING (SELECT 1 AS id UNION ALL SELECT 1) AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "MERGE INTO {t} AS t USING {t} AS s ON t.id = s.id + 1 WHEN MATCHED THEN UPDATE SET v = s.v, n = NULL",
    "MERGE INTO {t} AS t USING (SELECT 77 AS id) AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
    f"{MERGE} WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND t.v = 'left' THEN DELETE",
]


@pytest.mark.slow
def test_merge_into(session: Any) -> None:
    Tables(session).create().run_and_compare(*MERGES)


def test_merge_into_partitions(session: Any) -> None:
    Tables(session, partitions=BY_PARTITION).create().run_and_compare(*MERGES[:2])


def test_update(session: Any) -> None:
    Tables(session).create().run_and_compare(
        "UPDATE {t} SET v = concat(v, id), n = n + 1 WHERE n >= 20",
        "UPDATE {t} AS x SET x.n = DEFAULT WHERE x.id = 1 OR x.v IS NULL",
        "UPDATE {t} SET n = (SELECT max(m) FROM VALUES (6L), (7L) AS s (m)) WHERE n IS NULL",
        "UPDATE {t} SET v = p, p = v WHERE v IS NOT NULL",
        "UPDATE {t} SET n = 1 WHERE id = 77",
        "UPDATE {t} SET n = id",
    )


def test_delete(session: Any) -> None:
    Tables(session, partitions=BY_PARTITION).create().run_and_compare(
        "DELETE FROM {t} WHERE n > NULL",
        "DELETE FROM {t} WHERE n > 30 AND id < 5",
        "DELETE FROM {t} WHERE p = 'b'",
        "DELETE FROM {t} AS x WHERE x.v LIKE 't%' OR x.n IS NULL",
        "DELETE FROM {t}",
        "INSERT INTO {t} (p, id) VALUES ('e', 6)",
        "TRUNCATE TABLE {t}",
    )


@pytest.fixture
def partitioned(session: Any) -> Tables:
    """Tables with a last column to partition by."""
    columns, values = "id INT NOT NULL, v STRING, p STRING NOT NULL", "(1, 'x', 'a'), (2, 'y', 'a'), (3, 'z', 'b')"
    return Tables(session, columns, values, BY_PARTITION).create()


def test_insert_overwrite_in_static_mode(partitioned: Tables) -> None:
    partitioned.run_and_compare(
        "INSERT OVERWRITE {t} PARTITION (p = 'a') VALUES (9, 'new')",
        "INSERT OVERWRITE {t} PARTITION (p = 'c') VALUES (9, 'first')",
        "INSERT OVERWRITE {t} PARTITION (p = 'a') SELECT 1, 'x' WHERE FALSE",
        "INSERT INTO {t} REPLACE WHERE p IN ('c', 'd') VALUES (8, 'replaced', 'd')",
        "INSERT OVERWRITE {t} PARTITION (p) VALUES (8, 'all', 'd'), (7, 'all', 'e')",
        "INSERT OVERWRITE {t} BY NAME SELECT 'f' AS p, 6 AS id, 'named' AS v",
        "INSERT OVERWRITE {t} VALUES (5, 'last', 'g')",
    )


def test_insert_overwrite_in_dynamic_mode(partitioned: Tables) -> None:
    partitioned.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        partitioned.run_and_compare(
            "INSERT OVERWRITE {t} VALUES (9, 'new', 'a'), (8, 'first', 'c')",
            "INSERT OVERWRITE {t} PARTITION (p) SELECT 7, 'x', 'b'",
            "INSERT OVERWRITE {t} PARTITION (p = 'c') VALUES (6, 'static')",
            "INSERT OVERWRITE {t} SELECT 1, 'x', 'a' WHERE FALSE",
        )
    finally:
        partitioned.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")


def test_time_travel(session: Any) -> None:
    tables = Tables(session).create()
    moments = []
    for statement in ("INSERT INTO {t} VALUES (6, 'd', 'six', 60)", "DELETE FROM {t} WHERE id IN (1, 6)"):
        time.sleep(0.1)  # the clock of a file system is coarser than that of Spark
        moments.append(session.sql("SELECT CAST(current_timestamp() AS STRING)").collect()[0][0])
        time.sleep(0.1)
        tables.run(statement)
    for version in (1, 2, 3):
        tables.assert_equal(f"SELECT * FROM {{t}} VERSION AS OF {version}")
    for moment in moments:
        tables.assert_equal(f"SELECT * FROM {{t}} TIMESTAMP AS OF '{moment}'")
    assert [len(tables.rows("keyed", f"SELECT * FROM {{t}} TIMESTAMP AS OF '{m}'")) for m in moments] == [5, 6]
    tables.assert_equal("SELECT n.* FROM {t} n LEFT ANTI JOIN {t} VERSION AS OF 1 o ON n.id = o.id AND n.n <=> o.n")


@pytest.mark.slow
def test_columns_change(session: Any) -> None:
    Tables(session).create().run_and_compare(
        "ALTER TABLE {t} ADD COLUMNS (w INT COMMENT 'new', s STRUCT<a: INT>)",
        "INSERT INTO {t} VALUES (6, 'd', 'six', 60, 600, named_struct('a', 6))",
        "ALTER TABLE {t} ADD COLUMNS (s.b STRING, first DATE FIRST, later STRING AFTER id)",
        "ALTER TABLE {t} RENAME COLUMN v TO word",
        "ALTER TABLE {t} RENAME COLUMN id TO key",
        "ALTER TABLE {t} DROP COLUMN n",
        "ALTER TABLE {t} ADD COLUMNS (n STRING)",
        "ALTER TABLE {t} DROP COLUMN IF EXISTS nope",
        "ALTER TABLE {t} ALTER COLUMN word COMMENT 'what it is called'",
        "ALTER TABLE {t} ALTER COLUMN key AFTER word",
        "ALTER TABLE {t} ALTER COLUMN w FIRST",
        "INSERT INTO {t} (key, p, w, s) VALUES (7, 'e', 700, named_struct('a', 7, 'b', 'seven'))",
        "UPDATE {t} SET word = 'seven', later = concat(word, n), s.b = 'b' WHERE key > 5",
    )


def test_types_are_widened(session: Any) -> None:
    columns = "id INT NOT NULL, b BYTE, s SHORT, i INT, j INT, f FLOAT, d DECIMAL(6, 2)"
    tables = Tables(
        session, columns, "(1, 1Y, 2S, 3, 4, 0.1F, 10.25), (2, NULL, NULL, NULL, NULL, NULL, NULL)"
    ).create()
    wider = {"b": "SHORT", "s": "INT", "i": "BIGINT", "j": "DOUBLE", "f": "DOUBLE", "d": "DECIMAL(12, 4)"}
    for column, type_ in wider.items():
        tables.run(f"ALTER TABLE {{t}} ALTER COLUMN {column} TYPE {type_}")
    tables.run_and_compare(
        "INSERT INTO {t} VALUES (3, 1000S, 100000, 20000000000L, 0.5D, 0.1D, 12345678.1234)",
        "DELETE FROM {t} WHERE i > 3 OR d IS NULL",
    )


REFUSED = [
    # name, statement, error of Delta, error of ours
    (
        "update by several rows",
        "MERGE INTO {t} AS t USING (SELECT 1 AS id, 'x' AS v UNION ALL SELECT 1, 'y') AS s ON t.id = s.id "
        "WHEN MATCHED AND s.v = 'x' THEN UPDATE SET v = s.v",
        "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
        "MERGE_CARDINALITY_VIOLATION",
    ),
    (
        "star without a column",
        "MERGE INTO {t} AS t USING (SELECT 1 AS id, 'a' AS p, 'x' AS v) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
        "UNRESOLVED_COLUMN",
    ),
    (
        "subquery in a condition of MERGE",
        "MERGE INTO {t} AS t USING (SELECT 1 AS id) AS s ON t.id = s.id WHEN MATCHED AND t.n < (SELECT 11) THEN DELETE",
        "DELTA_UNSUPPORTED_SUBQUERY",
        "UNSUPPORTED_FEATURE",
    ),
    (
        "column set twice",
        "UPDATE {t} SET v = 'a', v = 'b'",
        "DELTA_CONFLICT_SET_COLUMN",
        "INVALID_ROW_LEVEL_OPERATION_ASSIGNMENTS",
    ),
    ("unknown column", "UPDATE {t} SET nope = 1", "UNRESOLVED_COLUMN", "UNRESOLVED_COLUMN"),
    ("number too large", "UPDATE {t} SET n = 1e30D", "CAST_OVERFLOW", "CAST_OVERFLOW"),
    ("NULL where there is none", "INSERT INTO {t} VALUES (NULL, 'a', 'x', 1)", "NULL", "NULL"),
    (
        "new column NOT NULL",
        "ALTER TABLE {t} ADD COLUMNS (x INT NOT NULL)",
        "DELTA_OPERATION_NOT_ALLOWED",
        "SCHEMA_INVALID",
    ),
    ("new column with a default", "ALTER TABLE {t} ADD COLUMNS (x INT DEFAULT 7)", "DEFAULT", "UNSUPPORTED_FEATURE"),
    ("column that is there", "ALTER TABLE {t} ADD COLUMNS (v INT)", "FIELD_ALREADY_EXISTS", "FIELD_ALREADY_EXISTS"),
    ("name that is taken", "ALTER TABLE {t} RENAME COLUMN v TO p", "FIELD_ALREADY_EXISTS", "FIELD_ALREADY_EXISTS"),
    ("drop of a missing column", "ALTER TABLE {t} DROP COLUMN nope", "UNRESOLVED_COLUMN", "UNRESOLVED_COLUMN"),
    (
        "narrower type",
        "ALTER TABLE {t} ALTER COLUMN n TYPE INT",
        "NOT_SUPPORTED_CHANGE_COLUMN",
        "NOT_SUPPORTED_CHANGE_COLUMN",
    ),
    ("NOT NULL afterwards", "ALTER TABLE {t} ALTER COLUMN v SET NOT NULL", "non-nullable", "non-nullable"),
    (
        "version that is not there",
        "SELECT * FROM {t} VERSION AS OF 77",
        "DELTA_VERSION_NOT_FOUND",
        "SNAPSHOT_NOT_FOUND",
    ),
    (
        "moment before the table",
        "SELECT * FROM {t} TIMESTAMP AS OF '2001-01-01'",
        "DELTA_TIMESTAMP_EARLIER",
        "SNAPSHOT_NOT_FOUND",
    ),
]


@pytest.fixture(scope="module")
def shared(session: Any) -> Tables:
    """Tables that the tests of refused statements and of deviations use one after the other."""
    return Tables(session, COLUMNS, "(1, 'a', 'one', 10), (2, 'b', 'two', 20)", BY_PARTITION).create()


@pytest.mark.parametrize(("statement", "by_delta", "by_us"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_what_both_refuse(shared: Tables, statement: str, by_delta: str, by_us: str) -> None:
    for layout in shared.names:
        with pytest.raises(PySparkException, match=by_delta if layout == "delta" else by_us):
            shared.sql(layout, statement).collect()
    shared.assert_equal()


Outcome = str | list[tuple]
"""The error that refuses a statement, or the rows that `shows` returns after it."""


@dataclass(frozen=True)
class Deviation:
    """A statement that Delta and this project do not answer alike; `layouts` are those of ours for which that is so."""

    name: str
    statement: str
    delta: Outcome
    ours: Outcome
    why: str
    shows: str = "SELECT id, n FROM {t}"
    layouts: tuple[str, ...] = OURS


KEYED = ("keyed",)
SUBQUERY = "Delta has no subqueries in conditions; Spark plans them for both kinds of tables of Paimon"
KEY = "the key decides in which bucket and where in its files a row is"
DEVIATIONS = [
    Deviation(
        name="UPDATE … IN (SELECT …)",
        statement="UPDATE {t} SET n = 0 WHERE id IN (SELECT id FROM VALUES (1), (4) AS s (id))",
        delta="DELTA_UNSUPPORTED_SUBQUERY",
        ours=[(1, 0), (2, 20)],
        why=SUBQUERY,
    ),
    Deviation(
        name="DELETE … IN (SELECT …)",
        statement="DELETE FROM {t} WHERE id IN (SELECT id FROM VALUES (1), (4) AS s (id))",
        delta="DELTA_UNSUPPORTED_SUBQUERY",
        ours=[(2, 20)],
        why=SUBQUERY,
    ),
    Deviation(
        name="DELETE … EXISTS",
        statement="DELETE FROM {t} AS t WHERE EXISTS (SELECT 1 FROM VALUES (1), (4) AS s (id) WHERE s.id = t.id)",
        delta="DELTA_UNSUPPORTED_SUBQUERY",
        ours=[(2, 20)],
        why=SUBQUERY,
    ),
    Deviation(
        name="DELETE … = (SELECT …)",
        statement="DELETE FROM {t} WHERE n = (SELECT max(n) FROM {t})",
        delta="DELTA_UNSUPPORTED_SUBQUERY",
        ours=[(1, 10)],
        why=SUBQUERY,
    ),
    Deviation(
        name="DEFAULT in MERGE",
        statement="MERGE INTO {t} AS t USING (SELECT 1 AS id) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = DEFAULT",
        delta="DELTA_MERGE_UNRESOLVED_EXPRESSION",
        ours=[(1, None), (2, 20)],
        why="Delta knows DEFAULT in MERGE only for tables with its feature of default values",
    ),
    Deviation(
        name="MERGE WITH SCHEMA EVOLUTION",
        statement="MERGE WITH SCHEMA EVOLUTION INTO {t} AS t USING (SELECT 1 AS id, 'a' AS p, 'x' AS v, 1L AS n, 5 AS more) "
        "AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
        delta=[(1, 1, 5), (2, 20, None)],
        ours="UNSUPPORTED_FEATURE",
        why="columns are added by ALTER TABLE alone",
        shows="SELECT id, n, more FROM {t}",
    ),
    Deviation(
        name="INSERT of a present key",
        statement="INSERT INTO {t} (id, p, n) VALUES (1, 'a', 11)",
        delta=[(1, 10), (1, 11), (2, 20)],
        ours=[(1, 11), (2, 20)],
        why="a row with the key of another replaces it",
        layouts=KEYED,
    ),
    Deviation(
        name="MERGE that inserts a key twice",
        statement="MERGE INTO {t} AS t USING (SELECT 7 AS id UNION ALL SELECT 7) AS s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT (id, p, n) VALUES (s.id, 'a', 70)",
        delta=[(1, 10), (2, 20), (7, 70), (7, 70)],
        ours=[(1, 10), (2, 20), (7, 70)],
        why="a row with the key of another replaces it",
        layouts=KEYED,
    ),
    Deviation(
        name="UPDATE of the key",
        statement="UPDATE {t} SET id = id + 100 WHERE id = 1",
        delta=[(2, 20), (101, 10)],
        ours="INVALID_ARGUMENT",
        why=KEY,
        layouts=KEYED,
    ),
    Deviation(
        name="MERGE that updates the key",
        statement="MERGE INTO {t} AS t USING (SELECT 1 AS x) AS s ON t.id = s.x WHEN MATCHED THEN UPDATE SET id = 70",
        delta=[(2, 20), (70, 10)],
        ours="INVALID_ARGUMENT",
        why=KEY,
        layouts=KEYED,
    ),
    Deviation(
        name="another type for the key",
        statement="ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",
        delta=[("bigint",)] * 2,
        ours="SCHEMA_INVALID",
        why=KEY,
        shows="SELECT typeof(id) FROM {t}",
        layouts=KEYED,
    ),
    Deviation(
        name="key that may be NULL",
        statement="ALTER TABLE {t} ALTER COLUMN id DROP NOT NULL",
        delta=[(1, 10), (2, 20)],
        ours="SCHEMA_INVALID",
        why="a key has a value in every column",
        layouts=KEYED,
    ),
    Deviation(
        name="key that is dropped",
        statement="ALTER TABLE {t} DROP COLUMN id",
        delta=[(10,), (20,)],
        ours="SCHEMA_INVALID",
        why=KEY,
        shows="SELECT n FROM {t}",
        layouts=KEYED,
    ),
    Deviation(
        name="type that keeps not every value",
        statement="ALTER TABLE {t} ALTER COLUMN n TYPE DOUBLE",
        delta="DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP",
        ours=[(1, 10.0), (2, 20.0)],
        why="Paimon allows every change that is a cast, unless 'disable-explicit-type-casting' is set",
    ),
    Deviation(
        name="type changed to STRING",
        statement="ALTER TABLE {t} ALTER COLUMN n TYPE STRING",
        delta="DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP",
        ours=[(1, "10"), (2, "20")],
        why="Paimon allows every change that is a cast, unless 'disable-explicit-type-casting' is set",
    ),
    Deviation(
        name="another name for a partition column",
        statement="ALTER TABLE {t} RENAME COLUMN p TO q",
        delta=[(1, "a"), (2, "b")],
        ours="SCHEMA_INVALID",
        why="the directories of the partitions carry the name",
        shows="SELECT id, q FROM {t}",
    ),
    Deviation(
        name="version 0",
        statement="SELECT id, n FROM {t} VERSION AS OF 0",
        delta=[],
        ours="SNAPSHOT_NOT_FOUND",
        why="version 0 of Delta is the new, empty table; the first snapshot of Paimon is 1, of the first write",
    ),
    Deviation(
        name="moment after the last commit",
        statement="SELECT id, n FROM {t} TIMESTAMP AS OF '2999-01-01'",
        delta="DELTA_TIMESTAMP_GREATER_THAN_COMMIT",
        ours=[(1, 10), (2, 20)],
        why="the newest snapshot is what the table holds at any later time",
    ),
]


@pytest.mark.parametrize("deviation", DEVIATIONS, ids=[d.name for d in DEVIATIONS])
def test_deviations(shared: Tables, deviation: Deviation) -> None:
    for layout in ("delta", *deviation.layouts):
        outcome = deviation.delta if layout == "delta" else deviation.ours
        if isinstance(outcome, str):
            with pytest.raises(PySparkException, match=outcome):
                shared.sql(layout, deviation.statement).collect()
            assert shared.rows(layout, "SELECT id, n FROM {t}") == [(1, 10), (2, 20)]
        else:
            if deviation.statement.startswith("SELECT"):
                assert shared.rows(layout, deviation.statement) == outcome
                continue
            shared.sql(layout, deviation.statement)
            assert shared.rows(layout, deviation.shows) == outcome
            shared.create(layout)

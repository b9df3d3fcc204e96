"""The stock Thrift server: beeline, and PyHive with several connections at once."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyhive import hive
from sqlalchemy import Column, MetaData, Table, create_engine, insert, inspect, select, text, types

from paimon_spark import connect
from paimon_spark.bridge.jars import spark_home
from paimon_spark.bridge.java import check_java
from paimon_spark.clients.sqlalchemy import quoted
from tests.end_to_end.programs import BIN, ROOT, Place, free_port, server

CONNECTIONS = 4


@pytest.fixture(scope="module")
def thrift(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, int]]:
    """One server for the tests of this module."""
    place = Place(tmp_path_factory.mktemp("thrift"))
    port = free_port()
    command = [BIN / "paimon-spark", "thriftserver", "--warehouse", place.warehouse, "--port", str(port)]
    settings = ["--master", "local[2]", "--properties-file", ROOT / "conf" / "thrift-server.conf"]
    with server(place, [*command, *settings, "--conf", "spark.sql.shuffle.partitions=2"], port):
        yield place, port


def beeline(place: Place, port: int, *arguments: str) -> list[str]:
    command = [spark_home() / "bin/beeline", "-u", f"jdbc:hive2://localhost:{port}", "--silent=true"]
    done = place.run([*command, "--outputformat=tsv2", *arguments])
    return [line for line in done.stdout.splitlines() if line and not line.startswith("WARNING")]


def test_beeline(thrift: tuple[Place, int]) -> None:
    place, port = thrift
    script = place.directory / "beeline.sql"
    script.write_text(
        "CREATE DATABASE paimon.bee;\nUSE paimon.bee;\n"
        "CREATE TABLE t (id INT, v STRING) TBLPROPERTIES ('primary-key' = 'id');\n"
        "INSERT INTO t VALUES (1, 'a'), (2, 'b');\nINSERT INTO t VALUES (2, 'c');\n"
        "SELECT id, v FROM t ORDER BY id;\nCALL sys.compact(table => 'bee.t');\nSHOW TABLES;\n"
    )
    lines = beeline(place, port, "-f", str(script))
    at = next(i for i, line in enumerate(lines) if line.endswith("id\tv"))
    assert lines[at + 1 : at + 3] == ["1\ta", "2\tc"]
    assert any(line.split("\t")[:2] == ["bee", "t"] for line in lines)


def test_four_connections_each_with_its_own_options(thrift: tuple[Place, int]) -> None:
    _, port = thrift
    with hive.connect("localhost", port).cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS paimon.many")
        cursor.execute(
            "CREATE TABLE paimon.many.t (id INT, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')"
        )
        for version in range(1, CONNECTIONS + 1):
            cursor.execute(f"INSERT INTO paimon.many.t VALUES (1, {version}), ({version + 1}, 0)")

    def look(version: int) -> list[tuple[int, int]]:
        """Read the table as of its own snapshot, again and again, while the others read theirs."""
        answers = []
        with hive.connect("localhost", port).cursor() as cursor:
            cursor.execute(f"SET `spark.paimon.*.many.t.scan.snapshot-id` = {version}")
            cursor.execute("USE paimon.many")
            for _ in range(3):
                cursor.execute("SELECT max(v), count(*) FROM t")
                answers += cursor.fetchall()
        return answers

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        seen = list(pool.map(look, range(1, CONNECTIONS + 1)))
    assert [set(answers) for answers in seen] == [{(v, v + 1)} for v in range(1, CONNECTIONS + 1)]


def test_a_short_query_does_not_wait_for_a_long_one(thrift: tuple[Place, int]) -> None:
    _, port = thrift
    ended: list[str] = []

    def ask(name: str, statement: str) -> None:
        with hive.connect("localhost", port).cursor() as cursor:
            cursor.execute(statement)
            cursor.fetchall()
            ended.append(name)

    asleep = "SELECT reflect('java.lang.Thread', 'sleep', id * 0 + 1500) AS x FROM range(0, 12, 1, 12)"
    long = f"SELECT count(x) FROM ({asleep})"
    with hive.connect("localhost", port).cursor() as watching, ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, "long", long)
        time.sleep(2)
        watching.execute("SELECT count(*) FROM range(0, 4, 1, 2) WHERE id > 1")
        watching.fetchall()
        ended.append("short")
        first.result()
    assert ended == ["short", "long"]


def test_what_bi_tools_ask_first(thrift: tuple[Place, int]) -> None:
    _, port = thrift
    with hive.connect("localhost", port).cursor() as cursor:
        cursor.execute("USE paimon")
        cursor.execute("CREATE DATABASE IF NOT EXISTS bi")
        cursor.execute("CREATE TABLE bi.t (id BIGINT, name STRING, price DECIMAL(10, 2))")
        cursor.execute("SELECT * FROM bi.t LIMIT 0")
        assert [column[0].split(".")[-1] for column in cursor.description] == ["id", "name", "price"]
        cursor.execute("DESCRIBE bi.t")
        assert [row[:2] for row in cursor.fetchall()][:3] == [
            ("id", "bigint"),
            ("name", "string"),
            ("price", "decimal(10,2)"),
        ]
        cursor.execute("SHOW TABLES IN bi")
        assert [row[1] for row in cursor.fetchall()] == ["t"]
        cursor.execute("SELECT * FROM (SELECT id, name FROM bi.t) typed WHERE 1 = 0")
        assert cursor.fetchall() == []


def jdbc(port: int, *requests: str) -> dict[str, list[list[str]]]:
    """Return the rows that DatabaseMetaData of Hive's JDBC driver answers to each request."""
    program = Path(__file__).parent / "JdbcMetadata.java"
    command = [
        check_java().command,
        "-cp",
        f"{spark_home()}/jars/*",
        str(program),
        f"jdbc:hive2://localhost:{port}",
        *requests,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows: dict[str, list[list[str]]] = {}
    for line in done.stdout.splitlines():
        if line.startswith("# "):
            found = rows[line[2:]] = []
        else:
            found.append(line.split("\t"))
    return rows


def test_jdbc_metadata_describes_the_tables(thrift: tuple[Place, int]) -> None:
    _, port = thrift
    with hive.connect("localhost", port).cursor() as cursor:
        cursor.execute("CREATE DATABASE jdbc")
        cursor.execute(
            "CREATE TABLE jdbc.Orders (id BIGINT NOT NULL, day DATE NOT NULL, name VARCHAR(10), "
            "price DECIMAL(10, 2) DEFAULT 1.5 COMMENT 'net', tags ARRAY<INT>) TBLPROPERTIES ('primary-key' = 'id,day')"
        )
        cursor.execute("CREATE TABLE jdbc.a_b (x INT)")
        cursor.execute("CREATE TABLE jdbc.axb (x INT)")
    found = jdbc(
        port,
        "catalogs",
        "schemas - jd%",
        "tables - jdbc %",
        "tables - jdbc a\\_b",
        "tables - jdbc orders VIEW",
        "columns - jdbc ord% %",
        "columns - % Orders pri_e",
        "keys - jdbc Orders",
        "keys - jdbc a_b",
    )
    assert found["catalogs"] == [["paimon"], ["spark_catalog"]]
    assert found["schemas - jd%"] == [["jdbc", "paimon"]]
    assert [r[:4] for r in found["tables - jdbc %"]] == [
        ["paimon", "jdbc", "Orders", "TABLE"],
        ["paimon", "jdbc", "a_b", "TABLE"],
        ["paimon", "jdbc", "axb", "TABLE"],
    ]
    assert [r[2] for r in found["tables - jdbc a\\_b"]] == ["a_b"]
    assert found["tables - jdbc orders VIEW"] == []
    columns = found["columns - jdbc ord% %"]
    assert [(r[3], r[5], r[6], r[8], r[17], r[16]) for r in columns] == [
        ("id", "BIGINT", "8", "0", "NO", "1"),
        ("day", "DATE", "4", "null", "NO", "2"),
        ("name", "VARCHAR(10)", "10", "null", "YES", "3"),
        ("price", "DECIMAL(10,2)", "10", "2", "YES", "4"),
        ("tags", "ARRAY<INT>", "null", "null", "YES", "5"),
    ]
    assert [r[3] for r in found["columns - % Orders pri_e"]] == ["price"]
    assert (columns[3][11], columns[3][12]) == ("net", "1.5")
    assert [r[1:5] for r in found["keys - jdbc Orders"]] == [
        ["jdbc", "Orders", "id", "1"],
        ["jdbc", "Orders", "day", "2"],
    ]
    assert found["keys - jdbc a_b"] == []


def test_jdbc_describes_many_tables_without_the_damaged_one(thrift: tuple[Place, int]) -> None:
    """More tables than are described in one request."""
    place, port = thrift
    catalog = connect(place.warehouse)
    catalog.create_database("crowd")
    first = catalog.create_table("crowd.t0000", pa.schema([("a", pa.int64()), ("b", pa.string())])).load()
    for n in range(1, 1100):
        shutil.copytree(first.path, place.warehouse / "crowd.db" / f"t{n:04d}")
    (schema,) = (place.warehouse / "crowd.db" / "t1050" / "schema").iterdir()
    schema.write_text("{")
    found = jdbc(port, "tables - crowd %", "columns - crowd % %", "columns - crowd t1050 %", "keys - crowd t0001")
    assert len(found["tables - crowd %"]) == 1100
    names = [f"t{n:04d}" for n in range(1100) if n != 1050]
    assert [(r[2], r[3]) for r in found["columns - crowd % %"]] == [(name, c) for name in names for c in "ab"]
    assert found["columns - crowd t1050 %"] == []
    assert found["keys - crowd t0001"] == []
    shutil.rmtree(place.warehouse / "crowd.db")


def test_jdbc_lists_views_and_beeline_reads_them(thrift: tuple[Place, int]) -> None:
    place, port = thrift
    with hive.connect("localhost", port).cursor() as cursor:
        cursor.execute("CREATE DATABASE viewed")
        cursor.execute("CREATE TABLE viewed.t (id INT)")
        cursor.execute("CREATE VIEW viewed.v (k COMMENT 'key') AS SELECT id FROM viewed.t")
        cursor.execute("INSERT INTO viewed.t VALUES (1)")
    found = jdbc(port, "tables - viewed %", "tables - viewed % VIEW", "columns - viewed v %")
    assert [r[2:4] for r in found["tables - viewed %"]] == [["t", "TABLE"], ["v", "VIEW"]]
    assert [r[2] for r in found["tables - viewed % VIEW"]] == ["v"]
    assert [(r[3], r[5], r[11]) for r in found["columns - viewed v %"]] == [("k", "INT", "key")]
    assert beeline(place, port, "-e", "SELECT k FROM viewed.v")[-1] == "1"


NAMES = ["my-db", "größe", "2024", "Up", "a.b", "a`b", "p%q"]


def test_jdbc_knows_any_name(thrift: tuple[Place, int]) -> None:
    _, port = thrift
    with hive.connect("localhost", port).cursor() as cursor:
        for name in NAMES:
            cursor.execute(f"CREATE DATABASE paimon.{quoted(name)}")
            cursor.execute(
                f"CREATE TABLE paimon.{quoted(name, name)} (id INT NOT NULL) TBLPROPERTIES ('primary-key' = 'id')"
            )
        cursor.execute("CREATE VIEW paimon.Up.Above AS SELECT 1 AS one")
        cursor.execute("CREATE TABLE paimon.Up.UP (k INT NOT NULL) TBLPROPERTIES ('primary-key' = 'k')")
    patterns = [(n, n.replace("%", "\\%")) for n in NAMES]
    requests = [
        f"{what} - {p} {p} {columns}".strip()
        for _, p in patterns
        for what, columns in (("tables", ""), ("columns", "%"))
    ]
    keys = [f"keys - {n} {n}" for n in NAMES]
    found = jdbc(port, "schemas - %", "tables - Up %", "tables - GRÖSSE %", "tables - GRÖßE %", *requests, *keys)
    assert {r[0] for r in found["schemas - %"]} > set(NAMES)
    assert [(r[2], r[3]) for r in found["tables - Up %"]] == [("UP", "TABLE"), ("Up", "TABLE"), ("Above", "VIEW")]
    assert [r[1] for r in found["tables - GRÖßE %"]] == ["größe"]
    for name, pattern in patterns:
        assert [name, name] in [r[1:3] for r in found[f"tables - {pattern} {pattern}"]]
        assert [name, name, "id"] in [r[1:4] for r in found[f"columns - {pattern} {pattern} %"]]
        assert [r[1:5] for r in found[f"keys - {name} {name}"]] == [[name, name, "id", "1"]]


@pytest.mark.slow
def test_jdbc_metadata_of_one_session_for_all(tmp_path: Path) -> None:
    place, port = Place(tmp_path), free_port()
    command = [BIN / "paimon-spark", "thriftserver", "--warehouse", place.warehouse, "--port", str(port)]
    settings = ["--master", "local[2]", "--conf", "spark.sql.hive.thriftServer.singleSession=true"]
    with server(place, [*command, *settings], port):
        with hive.connect("localhost", port).cursor() as cursor:
            cursor.execute("CREATE TABLE paimon.default.t (id INT)")
        found = jdbc(port, "catalogs", "tables - default %")
    assert found["catalogs"] == [["paimon"], ["spark_catalog"]]
    assert [r[:4] for r in found["tables - default %"]] == [["paimon", "default", "t", "TABLE"]]


def test_statements_that_superset_sends(thrift: tuple[Place, int]) -> None:
    """Those of its engine specifications for Hive and Spark."""
    _, port = thrift
    with hive.connect("localhost", port).cursor() as cursor:

        def answer(statement: str) -> list[tuple]:
            cursor.execute(statement)
            return cursor.fetchall()

        for statement in (
            "CREATE DATABASE superset",
            "CREATE TABLE superset.sales (id INT, d STRING) PARTITIONED BY (d)",
            "CREATE VIEW superset.top AS SELECT max(id) AS best FROM superset.sales",
            "INSERT INTO superset.sales VALUES (1, '2026-01-01'), (2, '2026-01-02')",
        ):
            cursor.execute(statement)
        assert ("superset",) in answer("SHOW SCHEMAS")
        assert ("paimon",) in answer("SHOW CATALOGS")
        assert [r[1] for r in answer("SHOW TABLES IN `superset`")] == ["sales", "top"]
        assert [r[1] for r in answer("SHOW VIEWS IN `superset`")] == ["top"]
        assert answer("SHOW PARTITIONS superset.sales") == [("d=2026-01-01",), ("d=2026-01-02",)]
        assert [r[0] for r in answer("DESCRIBE superset.sales")][:2] == ["id", "d"]
        assert "PaimonLocalRead" in str(answer("EXPLAIN SELECT id FROM superset.sales WHERE d = '2026-01-02'"))
        assert answer("SELECT `id`, `d` FROM `superset`.`sales` WHERE `d` = '2026-01-02' LIMIT 100") == [
            (2, "2026-01-02")
        ]
        assert answer("SELECT * FROM (SELECT best FROM superset.top) AS virtual_table LIMIT 1000") == [(2,)]
        assert (
            answer(
                "SELECT date_trunc('month', CAST(d AS TIMESTAMP)) AS m, count(*) AS n FROM superset.sales "
                "GROUP BY date_trunc('month', CAST(d AS TIMESTAMP)) ORDER BY n DESC LIMIT 10"
            )[0][1]
            == 2
        )


def test_sqlalchemy_reflects_tables_and_views(thrift: tuple[Place, int]) -> None:
    _, port = thrift
    engine = create_engine(f"paimon+thrift://localhost:{port}/paimon.alchemy?session.spark.sql.shuffle.partitions=3")
    with hive.connect("localhost", port).cursor() as cursor:
        cursor.execute("CREATE DATABASE alchemy")
        cursor.execute("USE alchemy")
        cursor.execute(
            "CREATE TABLE every (id BIGINT NOT NULL, day DATE NOT NULL COMMENT 'of it', b BOOLEAN, i INT, s SMALLINT, "
            "y TINYINT, f FLOAT, d DOUBLE, p DECIMAL(10, 2), c CHAR(3), v VARCHAR(5), t STRING COMMENT 'is NOT NULL', "
            "x BINARY, z TIMESTAMP, n TIMESTAMP_NTZ, a ARRAY<INT>, m MAP<STRING, INT>, r STRUCT<k: INT>) "
            "COMMENT 'all types' PARTITIONED BY (day) TBLPROPERTIES ('primary-key' = 'id,day')"
        )
        cursor.execute("CREATE VIEW seen AS SELECT id AS k FROM every WHERE id IS NOT NULL")
    found = inspect(engine)
    assert {"alchemy", "default"} <= set(found.get_schema_names())
    assert (found.get_table_names(), found.get_view_names()) == (["every"], ["seen"])
    assert (found.get_table_names("paimon.alchemy"), found.has_table("seen", "alchemy")) == (["every"], True)
    assert not found.has_table("missing", "alchemy")
    assert not found.has_table("t", "paimon.missing")
    columns = found.get_columns("every", "alchemy")
    assert [str(c["type"]) for c in columns] == [
        *("BIGINT", "DATE", "BOOLEAN", "INTEGER", "SMALLINT", "SMALLINT", "FLOAT", "FLOAT", "DECIMAL(10, 2)"),
        *("CHAR(3)", "VARCHAR(5)", "VARCHAR", "BLOB", "TIMESTAMP", "TIMESTAMP"),
        *("array<int>", "map<string,int>", "struct<k:int>"),
    ]
    assert [c["name"] for c in columns if not c["nullable"]] == ["id", "day"]
    assert [c["comment"] for c in columns if c["comment"]] == ["of it", "is NOT NULL"]
    assert found.get_pk_constraint("every")["constrained_columns"] == ["id", "day"]
    assert found.get_table_comment("every") == {"text": "all types"}
    assert found.get_view_definition("seen").startswith("CREATE VIEW paimon.alchemy.seen")
    with engine.connect() as connection:
        table = Table("every", MetaData(), schema="alchemy", autoload_with=engine)
        connection.execute(text("INSERT INTO every (id, day, i) VALUES (1, DATE '2026-01-01', 7)"))
        assert connection.execute(select(table.c.id, table.c.i).where(table.c.i > 5).limit(1)).all() == [(1, 7)]
        assert connection.execute(text("SET spark.sql.shuffle.partitions")).all()[0][1] == "3"
        assert engine.dialect.get_catalog_names(connection) == ["paimon", "spark_catalog"]
    engine.dispose()


def test_sqlalchemy_knows_any_name(thrift: tuple[Place, int]) -> None:
    _, port = thrift
    engine = create_engine(f"paimon+thrift://localhost:{port}/paimon.default")
    with hive.connect("localhost", port).cursor() as cursor:
        for name in (f"x{n}" for n in NAMES):
            cursor.execute(f"CREATE DATABASE paimon.{quoted(name)}")
            table = quoted("paimon", name, name)
            cursor.execute(f"CREATE TABLE {table} ({quoted(name)} INT, `a.b` INT, `c.b` INT)")
    found = inspect(engine)
    schemas = [s for s in found.get_schema_names() if s.strip("`").startswith("x")]
    assert sorted(schemas) == sorted(quoted(f"x{n}") if "." in n or "`" in n else f"x{n}" for n in NAMES)
    for schema in schemas:
        qualified = f"`paimon`.{schema if '`' in schema else quoted(schema)}"
        # Spark itself fails to look for a catalog whose name has a backquote
        for place in (qualified,) if "``" in schema else (schema, qualified):
            (name,) = found.get_table_names(place)
            table = Table(name, MetaData(), schema=place, autoload_with=engine)
            with engine.begin() as connection:
                connection.execute(insert(table).values({name: 1, "c.b": 3}))
                answer = connection.execute(select(table).where(table.c[name] == 1))
                assert list(answer.keys()) == [name, "a.b", "c.b"]
                assert set(answer.all()) == {(1, None, 3)}
    engine.dispose()


def test_sqlalchemy_writes_what_it_reads(thrift: tuple[Place, int]) -> None:
    _, port = thrift
    engine = create_engine(f"paimon+thrift://localhost:{port}/paimon.default")
    columns = [
        Column("id", types.BigInteger),
        Column("d", types.Date),
        Column("n", types.DateTime),
        Column("p", types.Numeric(10, 2)),
        Column("x", types.LargeBinary),
        Column("f", types.Float),
        Column("s", types.String),
    ]
    table = Table("written", MetaData(), *columns)
    day, moment = date(2026, 1, 2), datetime.fromisoformat("2026-01-02T03:04:05.000006")
    rows = [(1, day, moment, Decimal("1.25"), b"\x00\xff", 0.1, "it's 100% \\ :x"), (2, *[None] * 6)]
    with engine.begin() as connection:
        table.create(connection)
        connection.execute(insert(table), [dict(zip(table.c.keys(), row, strict=True)) for row in rows])
        reflected = Table("written", MetaData(), autoload_with=connection)
        assert connection.execute(select(reflected).order_by(reflected.c.id)).all() == rows
        same = select(reflected.c.id).where(reflected.c.d == day, reflected.c.n == moment, reflected.c.s == rows[0][6])
        assert connection.execute(same).all() == [(1,)]
        assert connection.execute(select(reflected.c.id).order_by(reflected.c.id).offset(1)).all() == [(2,)]
        connection.execute(text("CREATE TEMPORARY VIEW written AS SELECT 1 AS one"))
        assert "written" in inspect(connection).get_table_names("paimon.default")
    engine.dispose()


def test_a_session_starts_in_the_launchers_catalog(thrift: tuple[Place, int]) -> None:
    place, port = thrift
    with hive.connect("localhost", port).cursor() as cursor:
        cursor.execute("CREATE TABLE here (id INT) TBLPROPERTIES ('primary-key' = 'id')")
        cursor.execute("INSERT INTO here VALUES (1), (1)")
        cursor.execute("SELECT count(*) FROM paimon.default.here")
        assert cursor.fetchall() == [(1,)]
    assert (place.warehouse / "default.db" / "here").is_dir()


def test_an_error_keeps_its_code_and_the_session(thrift: tuple[Place, int]) -> None:
    _, port = thrift
    with hive.connect("localhost", port).cursor() as cursor:
        with pytest.raises(hive.OperationalError) as caught:
            cursor.execute("CALL paimon.sys.compakt(table => 'a.b')")
        assert "compact" in str(caught.value)
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == [(1,)]


def test_the_server_leaves_nothing_behind(thrift: tuple[Place, int]) -> None:
    place, _ = thrift
    assert place.left_behind() <= {"warehouse", "server.log", "beeline.sql"}


@pytest.mark.slow
def test_jobs_live_with_the_server(thrift: tuple[Place, int]) -> None:
    place, port = thrift
    with hive.connect("localhost", port).cursor() as cursor:
        for statement in (
            "CREATE DATABASE paimon.live",
            "USE paimon.live",
            "CREATE TABLE s (id INT)",
            "CREATE TABLE t (id INT)",
            "SET 'execution.checkpointing.interval' = '1 s'",
            "SET 'pipeline.name' = 'live'",
            "INSERT INTO t SELECT id FROM paimon_changes('s')",
        ):
            cursor.execute(statement)
    with hive.connect("localhost", port).cursor() as cursor:  # the first connection has ended
        cursor.execute("SHOW JOBS")
        assert [row[1] for row in cursor.fetchall()] == ["live"]
        cursor.execute("INSERT INTO paimon.live.s VALUES (7)")
        until, found = time.monotonic() + 120, []
        while not found and time.monotonic() < until:
            cursor.execute("SELECT id FROM paimon.live.t")
            found = cursor.fetchall()
        assert found == [(7,)]
        stopped = place.cli("stop", "--database", "live", "--table", "t", "--query", "live", "--format", "json")
        assert '"result": true' in stopped.stdout
        cursor.execute("SHOW JOBS")
        assert cursor.fetchall() == []

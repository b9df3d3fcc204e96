"""The stock Thrift server: beeline, and PyHive with several connections at once."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyhive import hive

from paimon_spark.bridge.jars import spark_home
from paimon_spark.bridge.java import check_java
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

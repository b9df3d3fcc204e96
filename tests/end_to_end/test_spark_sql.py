"""The stock spark-sql program."""

from __future__ import annotations

import os
import re
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.bridge.jars import spark_home
from tests.end_to_end.cluster import bare_python
from tests.end_to_end.programs import ROOT, Place, plain_conf

SCRIPT = """
CREATE DATABASE paimon.shop;
USE paimon.shop;
CREATE TABLE orders (id INT, state STRING) TBLPROPERTIES ('primary-key' = 'id');
INSERT INTO orders VALUES (1, 'new'), (2, 'new');
INSERT INTO orders VALUES (1, 'paid');
SELECT id, state FROM orders ORDER BY id;
"""


def test_execute_with_the_plain_settings(place: Place) -> None:
    done = place.stock("spark-sql", "-e", SCRIPT)
    assert done.stdout == "1\tpaid\n2\tnew\n"
    assert place.left_behind() <= {"warehouse", "spark-warehouse"}


def test_a_script_with_the_plain_settings(place: Place) -> None:
    script = place.directory / "script.sql"
    script.write_text(SCRIPT)
    done = place.stock("spark-sql", "-f", script)
    assert done.stdout == "1\tpaid\n2\tnew\n"


@pytest.mark.slow
def test_the_launcher_prints_headers_and_leaves_nothing_behind(place: Place) -> None:
    done = place.cli("sql", "-e", SCRIPT)
    assert done.stdout.splitlines() == ["id\tstate", "1\tpaid", "2\tnew"]
    assert place.left_behind() == {"warehouse"}


@pytest.mark.slow
def test_the_launcher_aligns_answers(place: Place) -> None:
    done = place.cli("sql", "--format", "table", "--echo", "-e", SCRIPT)
    assert "SELECT id, state FROM orders ORDER BY id;\nid  state\n--  -----\n 1  paid\n 2  new\n" in done.stdout
    assert "WARN" not in done.stderr


def test_standard_input_is_a_script_in_the_launchers_catalog(place: Place) -> None:
    """It stops at the first error, whose text comes without stacks, and prints answers alone."""
    done = place.cli(
        "sql",
        check=False,
        stdin="CREATE TABLE mine (id INT, d INT) TBLPROPERTIES ('primary-key' = 'id');\n"
        "INSERT INTO mine VALUES (1, 2),\n  (1, 2);\nSELECT * FROM mine;\nUSE paimon;\n"
        "UPDATE mine SET d = 'abc';\nSELECT 'not reached';\n",
    )
    assert done.stdout == "id\td\n1\t2\n"
    assert done.stderr.endswith("Failed at line 6: UPDATE mine SET d = 'abc'\n")
    assert done.returncode != 0
    assert "[CAST_INVALID_INPUT]" in done.stderr
    assert "spark-sql" not in done.stderr
    assert "\tat " not in done.stderr
    assert (place.warehouse / "default.db" / "mine").is_dir()


@pytest.mark.parametrize(
    ("how", "script", "line", "text"),
    [
        (
            "file",
            "SELECT 1;\n-- a comment\n\n/* and\n another */\nSELECT 1,\n-- inside\n  nope;\nSELECT 3;\n",
            8,
            "nope",
        ),
        ("file", "\ufeff-- first\r\n\r\n-- second\r\nSELEC 1;\r\n", 4, "SELEC 1"),
        pytest.param(
            "stdin",
            "SELECT '-- a; b', \"a;\nb\" AS x; -- ; c\n\nSELECT /*+ COALESCE(1) */ 1\nFROM nope;\n",
            5,
            "FROM nope",
            marks=pytest.mark.slow,
        ),
        ("stdin", "-- x\nSELECT 1;\n\nCALL sys.compact('oders');\n", 4, "CALL sys.compact('oders')"),
    ],
)
def test_a_script_that_fails_names_one_line_and_it_is_right(
    place: Place, how: str, script: str, line: int, text: str
) -> None:
    file = place.directory / "s.sql"
    file.write_bytes(script.encode())
    by_name = how == "file"
    done = place.cli("sql", *(["-f", file] if by_name else []), check=False, stdin=None if by_name else script)
    where = f"line {line} of {file}" if by_name else f"line {line}"
    assert done.stderr.endswith(f"Failed at {where}: {text}\n")
    assert len(re.findall(r"\b[Ll]ine \d+", done.stderr)) == 1, done.stderr
    assert " pos" not in done.stderr
    assert "'Project" not in done.stderr


@pytest.mark.slow
def test_the_launcher_passes_arguments_of_the_stock_program_on(place: Place) -> None:
    jar = place.directory / "other.jar"
    with zipfile.ZipFile(jar, "w") as opened:
        opened.writestr("a.txt", "of another library")
    conf = ("--jars", jar, "--conf", "spark.sql.cli.print.header=false")
    done = place.cli("spark-sql", *conf, "-d", "x=42", "-e", "SELECT ${x}")
    assert done.stdout == "42\n"


@pytest.mark.slow
def test_a_failing_statement_ends_with_its_code_on_stderr(place: Place) -> None:
    done = place.cli(
        "sql", "--format", "table", "-e", "SELECT 1; SELECT * FROM paimon.nowhere.at_all; SELECT 2", check=False
    )
    assert done.returncode != 0
    assert "NOT_FOUND" in done.stderr
    assert done.stdout.count("row") == 1
    assert "Failed at line 1: SELECT * FROM paimon.nowhere.at_all\n" in done.stderr


def test_a_python_without_the_package_is_told_with_the_way_out(place: Place, tmp_path: Path) -> None:
    python = bare_python(tmp_path / "python")
    done = Place(tmp_path, {"PYTHONPATH": ""}).stock(
        "spark-sql", "--conf", f"spark.paimon.python={python}", "-e", "SHOW TABLES IN paimon.shop", check=False
    )
    told = next(line for line in done.stderr.splitlines() if "[ENVIRONMENT]" in line)
    assert told.count("'paimon_spark'") == 1, "whatever how often the engine was started"
    assert str(python) in told
    assert "spark.paimon.pythonPath" in told
    assert "paimon-spark env --archive" in told


@pytest.mark.slow
def test_what_one_program_wrote_the_next_one_reads(place: Place) -> None:
    place.stock("spark-sql", "-e", SCRIPT)
    done = place.cli(
        "sql", "-e", "SELECT count(*) AS n FROM paimon.shop.orders; CALL paimon.sys.compact('shop.orders')"
    )
    assert "n\n2\n" in done.stdout


def test_the_quick_start_runs_and_reads_well(place: Place) -> None:
    done = place.cli(
        *("sql", "--format", "table", "--echo", "-d", f"license={ROOT / 'LICENSE'}"),
        *("-f", ROOT / "sql" / "quickstart.sql"),
    )
    out = done.stdout
    assert "WARN" not in done.stderr + out
    assert re.search(r"^the +\d+$", out, re.MULTILINE)
    answers = [line for line in out.splitlines() if line.startswith(("the ", "paimon "))]
    assert answers
    totals = _totals(out)
    assert totals[1] == totals[2] != totals[0]
    assert place.left_behind() == {"warehouse"}


def _totals(out: str) -> list[str]:
    lines = out.splitlines()
    return [lines[i + 2] for i, line in enumerate(lines) if line.split() == ["words", "total"]]


def test_env_prints_lines_that_work(place: Place, tmp_path: Path) -> None:
    lines = place.cli("env", "--conf").stdout.split()
    arguments = [part for i, part in enumerate(lines) if i % 2 for part in ("--conf", part)]
    assert lines[::2] == ["--conf"] * (len(lines) // 2)
    quiet = ["--conf", "spark.sql.catalogImplementation=in-memory", "--conf", "spark.ui.enabled=false"]
    from paimon_spark.bridge.jars import spark_home

    done = place.run(
        [spark_home() / "bin" / "spark-sql", *arguments, *quiet, "-e", "SHOW CATALOGS; USE paimon; SHOW CATALOGS"]
    )
    assert "paimon" in done.stdout.split()


def _told(stderr: str) -> list[str]:
    """Return the output of a program, without Spark's greeting and the times of statements."""
    own = ("WARNING: Using incubator", "Spark master:", "Time taken:")
    return [line for line in stderr.splitlines() if line.strip() and not line.startswith(own)]


MATCHES_TWICE = """
CREATE DATABASE paimon.shop;
CREATE TABLE paimon.shop.orders (id INT, state STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2');
INSERT INTO paimon.shop.orders VALUES (1, 'new');
MERGE INTO paimon.shop.orders o USING (SELECT * FROM VALUES (1, 'a'), (1, 'b') AS s(id, state)) s ON o.id = s.id
  WHEN MATCHED THEN UPDATE SET state = s.state;
"""


@pytest.mark.slow
def test_what_stops_a_task_is_one_line(place: Place) -> None:
    """Found by a task of Spark, or of Python: no stacks, no words of Spark, no second telling."""
    merged = place.cli("spark-sql", "-e", MATCHES_TWICE, check=False)
    [line] = _told(merged.stderr)
    assert line.startswith("[MERGE_CARDINALITY_VIOLATION] MERGE INTO shop.orders found a row")
    for file in (place.warehouse / "shop.db" / "orders").glob("bucket-*/*.parquet"):
        file.write_bytes(b"broken" * 100)
    table = paimon_spark.connect(place.warehouse).table("shop.orders", {"write-only": "true"})
    table.append(pa.table({"id": pa.array([1], pa.int32()), "state": ["paid"]}))
    read = place.cli("spark-sql", "-e", "SELECT * FROM paimon.shop.orders", check=False)
    [line] = _told(read.stderr)
    assert line.startswith("[CORRUPT_DATA_FILE] ")


@pytest.mark.slow
def test_a_changed_number_of_buckets_is_found_before_the_job(place: Place) -> None:
    script = MATCHES_TWICE.partition("MERGE")[0] + (
        "ALTER TABLE paimon.shop.orders SET TBLPROPERTIES ('bucket' = '3');"
        "INSERT INTO paimon.shop.orders VALUES (2, 'new');"
    )
    done = place.cli("spark-sql", "-e", script, check=False)
    [line] = _told(done.stderr)
    assert line.startswith("[INVALID_OPTION] Table shop.orders now has bucket = 3")
    assert line.endswith("Reorganise it with INSERT OVERWRITE or CALL sys.rescale before adding rows.")


def test_a_warehouse_on_s3_without_the_extra_names_it(place: Place) -> None:
    blocked = Place(place.directory, {"PYTHONPATH": f"{ROOT / 'tests/unit/fs/without_botocore'}{os.pathsep}{ROOT}"})
    asked = ["spark-sql", *plain_conf(place.warehouse)]
    conf = ["--conf", "spark.sql.catalog.paimon.warehouse=s3://bucket/w"]
    done = blocked.run(
        [spark_home() / "bin" / asked[0], *asked[1:], *conf, "-e", "SHOW TABLES IN paimon.a"], check=False
    )
    assert "[ENVIRONMENT] Locations on S3 need the package botocore" in done.stderr
    assert "pip install 'paimon-spark[s3]'" in done.stderr

"""The stock spark-sql program."""

from __future__ import annotations

import re
from pathlib import Path

from tests.end_to_end.cluster import bare_python
from tests.end_to_end.programs import ROOT, Place

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


def test_the_launcher_prints_headers_and_leaves_nothing_behind(place: Place) -> None:
    done = place.cli("sql", "-e", SCRIPT)
    assert done.stdout.splitlines() == ["id\tstate", "1\tpaid", "2\tnew"]
    assert place.left_behind() == {"warehouse"}


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


def test_the_launcher_passes_arguments_of_the_stock_program_on(place: Place) -> None:
    done = place.cli("spark-sql", "--conf", "spark.sql.cli.print.header=false", "-d", "x=42", "-e", "SELECT ${x}")
    assert done.stdout == "42\n"


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

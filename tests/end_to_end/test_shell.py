"""`paimon-spark sql` on a terminal: tables, errors in a line, Ctrl-C and the ends of a session."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.end_to_end.programs import BIN, Place
from tests.end_to_end.terminals import PROMPT, Terminal, terminal, wait_for

SLEEP = "WHERE reflect('java.lang.Thread', 'sleep', 60000L) IS NOT NULL"
LIMIT_S = 10


@contextmanager
def shell(place: Place, *arguments: str) -> Iterator[Terminal]:
    """Run the shell until the block ends, with a history of its own."""
    command = [BIN / "paimon-spark", "sql", "--warehouse", place.warehouse, "--master", "local[2]", *arguments]
    conf = ("--conf", "spark.sql.shuffle.partitions=2")
    with terminal(place, [*command, *conf], {"PAIMON_SPARK_HISTORY": str(place.directory / "history")}) as typed:
        wait_for(lambda: typed.hears(f"{PROMPT}$"), 240)
        yield typed


def ended(typed: Terminal) -> int:
    """Return the status of a shell that ends by itself."""
    wait_for(lambda: typed.process.poll() is not None)
    typed.listen()
    return typed.process.wait()


def test_a_session(place: Place) -> None:
    with shell(place) as typed:
        assert "WARN" not in typed.said
        assert "Spark master" not in typed.said
        assert "end statements with a semicolon" in typed.said
        typed.answer("CREATE DATABASE shop; USE shop;\n")
        assert "spark-sql (shop)> " in typed.said
        typed.answer("CREATE TABLE orders (id INT, state STRING)\n  TBLPROPERTIES ('primary-key' = 'id');\n")
        typed.answer("INSERT INTO orders VALUES (1, 'new;'), (20, 'paid -- x');\n")
        assert "Response code" not in typed.said
        answer = typed.answer("SELECT * -- all\nFROM orders\n\nORDER BY id;\n")
        assert "id  state\n--  ---------\n 1  new;\n20  paid -- x\n(" in answer
        assert "2 rows)" in answer
        answer = typed.answer("SELECT 1 AS a; SELECT 2 AS b;\n")
        assert answer.count("1 row)") == 2
        for wrong, code in (
            ("SELEC 1;\n", "[PARSE_SYNTAX_ERROR]"),
            ("SELECT sate FROM orders;\n", "[UNRESOLVED_COLUMN.WITH_SUGGESTION]"),
            ("SELECT x FROM range(1);\n", "[UNRESOLVED_COLUMN.WITH_SUGGESTION]"),
            ("SELECT 1 / 0;\n", "[DIVIDE_BY_ZERO]"),
            ("CALL sys.compact('oders');\n", "[TABLE_NOT_FOUND]"),
        ):
            said = [line.strip() for line in typed.answer(wrong).splitlines()[1:-1] if line.strip()]
            assert said[0].startswith(code), said
            assert len(said) == 1, said
        assert "hi\n" in typed.answer("!echo hi;\n")
        (place.directory / "some.sql").write_text("SELECT 41 AS x;\nSELECT 42 AS x;\n")
        answer = typed.answer("SOURCE some.sql;\n")
        assert "x\n--\n41\n" in answer
        assert "x\n--\n42\n" in answer
        typed.type("exit\n")
        assert ended(typed) == 0
    assert "CREATE DATABASE shop" in (place.directory / "history").read_text()


@pytest.mark.slow
def test_control_c_and_control_d(place: Place) -> None:
    with shell(place) as typed:
        typed.answer("CREATE TABLE t (id BIGINT);\n")
        typed.type("SELECT 'never")
        wait_for(lambda: typed.hears("never"))
        since = len(typed.listen())
        typed.interrupt()
        wait_for(lambda: typed.hears(f"{PROMPT}$", since))
        for statement in (f"SELECT id FROM range(2) {SLEEP}", f"INSERT INTO t SELECT id FROM range(2) {SLEEP}"):
            typed.type(f"{statement};\n")
            time.sleep(6)
            since = len(typed.listen())
            typed.interrupt()
            took = wait_for(lambda since=since: typed.hears(rf"(?s)\[STATEMENT_CANCELLED\].*{PROMPT}$", since))  # type: ignore[misc]
            assert took < LIMIT_S
            assert "kill JVM" not in typed.said
        assert "7\n" in typed.answer("SELECT count(*) + 7 AS n FROM t;\n")
        typed.type("\x04")
        assert ended(typed) == 0


@pytest.mark.slow
def test_lines_with_tabs_if_asked_for(place: Place) -> None:
    with shell(place, "--format", "tsv") as typed:
        assert "a\tb\n1\tx\n" in typed.answer("SELECT 1 AS a, 'x' AS b;\n")
        assert "Response code" not in typed.answer("CREATE DATABASE shop;\n")
        typed.type("quit;\n")
        assert ended(typed) == 0


def test_a_program_that_cannot_start_says_why(place: Place) -> None:
    done = None
    with terminal(place, [BIN / "paimon-spark", "sql", "--conf", "spark.driver.memory=lots"]) as typed:
        done = ended(typed)
    assert done != 0
    assert "lots" in typed.said
    assert "semicolon" not in typed.said

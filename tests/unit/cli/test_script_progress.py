"""Which statement of a script failed."""

from __future__ import annotations

import pytest

from paimon_spark.cli.script_progress import ScriptProgress, without_position
from paimon_spark.sqlparse.script import split_script

SCRIPT = "SELECT 1;\n\n-- then\nINSERT INTO t\nSELECT 2; SELECT 3"


def progress_of(script: str, ended: int, *messages: str, alone: bool = True, by_line: bool = False) -> ScriptProgress:
    found = ScriptProgress(split_script(script), text=script, alone=alone, read_by_line=by_line)
    for _ in range(ended):
        found.on_end()
    for message in messages:
        found.on_message(message)
    return found


@pytest.mark.parametrize(
    ("ended", "told"),
    [
        (0, "Failed at line 1: SELECT 1"),
        (1, "Failed at line 4: INSERT INTO t …"),
        (2, "Failed at line 5: SELECT 3"),
        (3, None),
    ],
)
def test_the_statement_that_had_not_ended_failed(ended: int, told: str | None) -> None:
    assert progress_of(SCRIPT, ended, "[NO_SUCH_THING] No.").failure_message(1) == told


@pytest.mark.parametrize("status", [0, -15])
def test_a_program_that_went_well_or_was_ended_failed_nowhere(status: int) -> None:
    assert progress_of(SCRIPT, 1).failure_message(status) is None


def test_a_single_statement_needs_no_name() -> None:
    assert progress_of("SELECT nope", 0).failure_message(1) is None


@pytest.mark.parametrize("first", ["SOURCE other.sql", "!ls", "SET hive.cli.errors.ignore=true", "source  'x'"])
def test_nothing_is_told_where_ends_cannot_be_counted(first: str) -> None:
    assert progress_of(f"{first}; SELECT 2; SELECT 3", 2).failure_message(1) is None


def test_nothing_is_told_where_other_statements_run_too() -> None:
    assert progress_of(SCRIPT, 1, alone=False).failure_message(1) is None


@pytest.mark.parametrize(
    "message", ['Exception in thread "main" java.lang.X: no', "Error: Could not create the Java Virtual Machine."]
)
def test_a_program_that_did_not_start_failed_at_no_statement(message: str) -> None:
    assert progress_of(SCRIPT, 0, message).failure_message(1) is None
    assert progress_of(SCRIPT, 1, message).failure_message(1) == "Failed at line 4: INSERT INTO t …"


@pytest.mark.parametrize(
    ("script", "number", "told"),
    [
        ("SELECT 1;\n\n/* a\n b */\nSELECT 2,\n  x", 4, "Failed at line 6: x"),
        ("SELECT 1; \n\nSELECT 2,\n  x", 2, "Failed at line 4: x"),
        ("SELECT 1; -- one\n\nSELECT 2,\n  x", 4, "Failed at line 4: x"),
        ("SELECT 1; SELECT 2,\n  x", 2, "Failed at line 2: x"),
    ],
)
def test_blank_lines_that_the_program_drops_do_not_count(script: str, number: int, told: str) -> None:
    found = ScriptProgress(split_script(script), text=script, trims=True)
    found.on_end()
    found.on_message(ANALYSIS.format(number))
    assert found.failure_message(1) == told


HEAD = "-- A script.\n-- ; of two statements\n\nSELECT '--;',\n  \"x\n --y\" AS b; -- here\n/* and\n   there */\n-- Then:\n"
ANALYSIS = "[UNRESOLVED_COLUMN] No column `x`. SQLSTATE: 42703; line {} pos 7"
PARSER = "[PARSE_SYNTAX_ERROR] Syntax error at or near 'x'. SQLSTATE: 42601 (line {}, pos 2)"
RUN = "== SQL (line {}, position 8) =="
CALL = "[TYPE_MISMATCH] The argument 'n' is 'x' (line {}, column 3), which is no INT."


@pytest.mark.parametrize("said", [ANALYSIS, PARSER, RUN, CALL, ANALYSIS + ";"])
@pytest.mark.parametrize(
    ("by_line", "number", "told"),
    [
        (True, 4, "Failed at line 10: INSERT INTO t …"),
        (True, 6, "Failed at line 13: x"),
        (True, 99, "Failed at line 10: INSERT INTO t …"),
        (False, 5, "Failed at line 10: INSERT INTO t …"),
        (False, 8, "Failed at line 13: x"),
    ],
)
def test_the_line_of_an_error_is_that_of_the_script(said: str, by_line: bool, number: int, told: str) -> None:
    script = f"{HEAD}INSERT INTO t\nSELECT 1, -- one\n-- more\n  x"
    found = progress_of(script, 1, by_line=by_line)
    printed = found.on_message(said.format(number))
    assert found.failure_message(1) == told
    assert "pos" not in printed
    assert "line" not in printed
    assert not printed.endswith(";")


def test_the_line_of_a_statement_that_ended_is_forgotten() -> None:
    found = progress_of("SELECT 1\n\n;SELECT 2;SELECT 3", 0, ANALYSIS.format(2))
    found.on_end()
    assert found.failure_message(1) == "Failed at line 3: SELECT 2"


@pytest.mark.parametrize(("alone", "script"), [(False, SCRIPT), (True, "SELECT nope")])
def test_positions_stay_where_no_line_of_the_script_is_told(alone: bool, script: str) -> None:
    found = progress_of(script, 0, alone=alone)
    assert found.on_message(ANALYSIS.format(2)) == ANALYSIS.format(2)
    assert found.failure_message(1) is None


def test_a_file_with_a_single_statement_is_told_too() -> None:
    assert (
        progress_of("-- x\n\nSELECT nope", 0, ANALYSIS.format(2), by_line=True).failure_message(1)
        == "Failed at line 3: SELECT nope"
    )


def test_plans_are_left_out_and_the_position_is_taken_off() -> None:
    text = f"{ANALYSIS.format(3)};\n'Project ['x]\n+- OneRowRelation\n\nafter"
    assert without_position(text) == ("[UNRESOLVED_COLUMN] No column `x`. SQLSTATE: 42703\nafter", 3)
    assert without_position("[X] No.") == ("[X] No.", None)


def test_a_long_line_is_cut() -> None:
    told = progress_of(f"SELECT 1; SELECT '{'x' * 200}'", 1).failure_message(1)
    assert told is not None
    assert told.endswith("xxx …")
    assert len(told) < 130

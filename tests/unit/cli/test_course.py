"""Which statement of a script failed."""

from __future__ import annotations

import pytest

from paimon_spark.cli.course import Course
from paimon_spark.sqlparse.script import split_script

SCRIPT = "SELECT 1;\n\n-- then\nINSERT INTO t\nSELECT 2; SELECT 3"


def course(script: str, ended: int, *messages: str, alone: bool = True) -> Course:
    found = Course(split_script(script), alone=alone)
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
    assert course(SCRIPT, ended, "[NO_SUCH_THING] No.").told(1) == told


@pytest.mark.parametrize("status", [0, -15])
def test_a_program_that_went_well_or_was_ended_failed_nowhere(status: int) -> None:
    assert course(SCRIPT, 1).told(status) is None


def test_a_single_statement_needs_no_name() -> None:
    assert course("SELECT nope", 0).told(1) is None


@pytest.mark.parametrize("first", ["SOURCE other.sql", "!ls", "SET hive.cli.errors.ignore=true", "source  'x'"])
def test_nothing_is_told_where_ends_cannot_be_counted(first: str) -> None:
    assert course(f"{first}; SELECT 2; SELECT 3", 2).told(1) is None


def test_nothing_is_told_where_other_statements_run_too() -> None:
    assert course(SCRIPT, 1, alone=False).told(1) is None


@pytest.mark.parametrize(
    "message", ['Exception in thread "main" java.lang.X: no', "Error: Could not create the Java Virtual Machine."]
)
def test_a_program_that_did_not_start_failed_at_no_statement(message: str) -> None:
    assert course(SCRIPT, 0, message).told(1) is None
    assert course(SCRIPT, 1, message).told(1) == "Failed at line 4: INSERT INTO t …"


def test_a_long_line_is_cut() -> None:
    told = course(f"SELECT 1; SELECT '{'x' * 200}'", 1).told(1)
    assert told is not None
    assert told.endswith("xxx …")
    assert len(told) < 130

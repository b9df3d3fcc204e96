from __future__ import annotations

from typing import Any

import pytest

from paimon_spark.sqlparse.claims import is_paimon_statement, normalise

NAMES = {"compact", "help"}


@pytest.mark.parametrize(
    "text",
    [
        "CALL sys.compact('t')",
        "call SYS . Compact ('t')",
        "CALL /* no ( */ `paimon`.`sys`\n.`compact` ('t')",
        "CALL any_catalog.sys.compact()",
        "CALL compact('t')",
        "-- first\nEXPLAIN CALL sys.compact('t')",
        "EXPLAIN EXTENDED CALL sys.compact('t')",
        "CALL sys.compact('what? :x')",
    ],
)
def test_calls_of_known_procedures_are_claimed(text: Any) -> None:
    assert is_paimon_statement(text, NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'CALL sys.compact()'",
        "CALL sys.unknown('t')",
        "CALL system.compact('t')",
        "CALL a.b.sys.compact('t')",
        "CALL sys.compact(?)",
        "CALL sys.compact(table => :name)",
        "INSERT INTO t SELECT * FROM call",
        "EXPLAIN SELECT 1",
        "-- CALL sys.compact('t')",
        "",
    ],
)
def test_not_ours(text: Any) -> None:
    assert not is_paimon_statement(text, NAMES)


def test_normalise() -> None:
    assert normalise("SELECT  `A`.b -- x\n, 'Y' /* z */") == "select a.b , ''"

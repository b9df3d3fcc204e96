"""Plan of a procedure: the actions that it will execute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from paimon_spark.core.maintenance.deletion import Action

PayloadT = TypeVar("PayloadT")

PLAN_COLUMNS: tuple[tuple[str, str], ...] = (
    ("action", "string"),
    ("path", "string"),
    ("bytes", "bigint"),
    ("reason", "string"),
    ("kept_by", "string"),
)
"""Columns of EXPLAIN CALL and of a dry run."""
_BYTES = 2
MOST_LISTED = 100_000
"""Maximum number of files in the rows of a plan or dry run that the driver of Spark holds."""


@dataclass(frozen=True, slots=True)
class Plan(Generic[PayloadT]):
    """Actions on files, for display, and the payload that `execute` needs to carry out exactly these actions."""

    actions: tuple[Action, ...]
    payload: PayloadT


def plan_rows(actions: tuple[Action, ...]) -> list[tuple[Any, ...]]:
    """Return the rows of `PLAN_COLUMNS`."""
    return [(a.action, a.path, a.bytes, a.reason, a.kept_by) for a in actions]


def listed_rows(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the first `MOST_LISTED` rows of a plan, and one row for all others."""
    rest = rows[MOST_LISTED:]
    if not rest:
        return rows
    size = sum(row[_BYTES] or 0 for row in rest)
    return [*rows[:MOST_LISTED], ("more", "", size, f"{len(rest)} more actions are not listed", None)]

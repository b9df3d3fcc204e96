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


@dataclass(frozen=True, slots=True)
class Plan(Generic[PayloadT]):
    """Actions on files, for display, and the payload that `execute` needs to carry out exactly these actions."""

    actions: tuple[Action, ...]
    payload: PayloadT


def plan_rows(actions: tuple[Action, ...]) -> list[tuple[Any, ...]]:
    """Return the rows of `PLAN_COLUMNS`."""
    return [(a.action, a.path, a.bytes, a.reason, a.kept_by) for a in actions]

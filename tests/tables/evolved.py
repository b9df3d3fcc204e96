"""Tables with one column for every cast: written as the old type, and read as the new one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from paimon_spark.spec.types import parse_atomic
from tests.tables.cast_values import ZONES
from tests.tables.casting import deviations, good, recorded

FORMATS = ("parquet", "orc", "avro")
_YEARS = range(1900, 2250)
_LAST_SECOND = "1969-12-31T23:59:59."
"""Paimon's readers of ORC see this second of the clock one second late."""
_BLANKS = "ab  "
"""They take the blanks at the end of a CHAR away, other readers do not."""


@dataclass(frozen=True)
class Column:
    """A column that changes its type, and what its values become."""

    name: str
    old: str
    new: str
    values: list[Any]
    answers: list[Any]


def evolved_columns(file_format: str) -> list[Column]:
    """Return every column of the table of a format but the first, which numbers the rows.

    There are only types and values that the format stores, and of which all releases make the same.
    """
    out = []
    for n, case in enumerate(recorded()[ZONES[0]]):
        fine = file_format == "avro" and any(parse_atomic(case[end]).precision in (8, 9) for end in ("from", "to"))
        if not case["allowed"] or fine:
            continue
        pairs = [(v, a) for v, a in good(case) if [a] == deviations(case, [a]) and _near(v) and _near(a)]
        if pairs:
            out.append(Column(f"c{n}", case["from"], case["to"], *map(list, zip(*pairs, strict=True))))
    return out


def _near(value: Any) -> bool:
    day = re.match(r"([+-]?\d{4,})-\d\d-\d\d", str(value))
    return value != _BLANKS and (day is None or (int(day[1]) in _YEARS and not str(value).startswith(_LAST_SECOND)))


def evolved_steps(file_format: str) -> list[dict[str, Any]]:
    """Return the steps that write a table of a format, change the types of its columns, and read it."""
    columns = evolved_columns(file_format)
    rows = [[r, *(c.values[r] if r < len(c.values) else None for c in columns)] for r in range(height(columns))]
    return [
        {"do": "create", "columns": [["id", "INT"], *([c.name, c.old] for c in columns)],
         "options": {"file.format": file_format, "metadata.stats-mode": "full"}},
        {"do": "write", "rows": rows},
        {"do": "alter", "types": {c.name: c.new for c in columns}},
        {"do": "read"},
    ]  # fmt: skip


def height(columns: Sequence[Column]) -> int:
    """Return how many rows hold all values; one more, so that every column ends with a null."""
    return 1 + max(len(c.values) for c in columns)


def expected_rows(columns: Sequence[Column]) -> list[list[Any]]:
    """Return what a reader gets: the recorded answers."""
    return [[r, *(c.answers[r] if r < len(c.answers) else None for c in columns)] for r in range(height(columns))]

"""The rows of plans."""

from __future__ import annotations

from paimon_spark.calls.plan import MOST_LISTED, listed_rows


def test_a_long_plan_ends_with_one_row_for_the_rest() -> None:
    rows = [("delete", f"f{n}", n % 3, "old", None) for n in range(MOST_LISTED + 4)]
    assert listed_rows(rows[:MOST_LISTED]) == rows[:MOST_LISTED]
    found = listed_rows(rows)
    assert found[:MOST_LISTED] == rows[:MOST_LISTED]
    size = sum(row[2] for row in rows[MOST_LISTED:])
    assert found[MOST_LISTED:] == [("more", "", size, "4 more actions are not listed", None)]

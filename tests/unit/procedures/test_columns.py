"""alter_column_default_value."""

from __future__ import annotations

import pytest

from paimon_spark.errors import PaimonError
from tests.unit.procedures.calling import Lake


@pytest.fixture
def lake() -> Lake:
    return Lake({"k": "INT", "s": "STRING"})


def default(lake: Lake, name: str) -> str | None:
    return next(f.default_value for f in lake.table.schema.fields if f.name == name)


@pytest.mark.parametrize(
    ("column", "value", "stored"),
    [("k", "5", "5"), ("s", "kg", "'kg'"), ("s", "'kg'", "'kg'"), ("s", "5", "'5'"), ("s", "two words", "'two words'")],
)
def test_defaults(lake: Lake, column: str, value: str, stored: str) -> None:
    text = value.replace("'", "''")
    (action,) = lake.call(f"EXPLAIN CALL sys.alter_column_default_value('t', '{column}', '{text}')")
    assert (action["action"], action["path"]) == ("write", lake.table.paths.schema(1))
    assert default(lake, column) is None
    row = lake.one(f"alter_column_default_value('t', '{column}', '{text}')")
    assert (row["result"], row["status"], row["files_out"]) == ("Success", "done", 1)
    assert default(lake, column) == stored
    assert lake.one(f"alter_column_default_value('t', '{column}', '{text}')")["status"] == "nothing to do"
    lake.call(f"alter_column_default_value('t', '{column}', 'null')")
    assert default(lake, column) is None


@pytest.mark.parametrize(
    ("column", "value", "part"),
    [("k", "five", "five"), ("x", "5", "x"), ("s", "it''s", "quotes"), ("k", "", "default_value")],
)
def test_wrong_arguments_are_errors_and_change_nothing(lake: Lake, column: str, value: str, part: str) -> None:
    before = lake.state()
    with pytest.raises(PaimonError, match=part):
        lake.call(f"alter_column_default_value('t', '{column}', '{value}')")
    assert lake.state() == before

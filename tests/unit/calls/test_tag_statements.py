"""ALTER TABLE … TAG and SHOW TAGS."""

from __future__ import annotations

from typing import Any

import pytest

from paimon_spark.calls.tag_statements import run_tag_statement, tag_columns
from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.errors import AlreadyExistsError, ArgumentError, NotFoundError, PaimonError
from paimon_spark.sqlparse.tag_statements import parse_tag_statement
from tests.unit.procedures.calling import Lake


@pytest.fixture
def lake() -> Lake:
    lake = Lake({"k": "INT", "v": "INT"}, primary_key=["k"], bucket="1", write_only="true")
    for i in range(3):
        lake.insert((1, i))
    return lake


def run(lake: Lake, text: str) -> list[tuple[Any, ...]]:
    statement = parse_tag_statement(text)
    result = run_tag_statement(statement, lake.ctx())
    assert result.columns == [(name, kind) for name, kind, _ in tag_columns(statement)]
    return result.rows


def tags(lake: Lake) -> dict[str, tuple[int, str | None]]:
    return {n: (t.snapshot.id, t.time_retained_text) for n, t in RefStore.of(lake.table).tags().items()}


def test_create_and_replace(lake: Lake) -> None:
    assert run(lake, "ALTER TABLE db.t CREATE TAG a AS OF VERSION 1 RETAIN 90 MINUTES") == []
    run(lake, "ALTER TABLE t CREATE TAG IF NOT EXISTS a")
    run(lake, "ALTER TABLE paimon.db.t CREATE TAG b")
    assert tags(lake) == {"a": (1, "PT1H30M"), "b": (3, None)}
    run(lake, "ALTER TABLE t REPLACE TAG a")
    run(lake, "ALTER TABLE t CREATE OR REPLACE TAG b AS OF VERSION 2")
    run(lake, "ALTER TABLE t REPLACE TAG c RETAIN 1 DAY")
    assert tags(lake) == {"a": (3, None), "b": (2, None), "c": (3, "PT24H")}
    assert run(lake, "SHOW TAGS t") == [("a",), ("b",), ("c",)]


def test_rename_and_delete(lake: Lake) -> None:
    for name in "abc":
        run(lake, f"ALTER TABLE t CREATE TAG {name}")
    run(lake, "ALTER TABLE t RENAME TAG a TO z")
    before = lake.state()
    (row,) = run(lake, "EXPLAIN ALTER TABLE t DELETE TAG z")
    assert (row[0], row[1].rsplit("/", 1)[-1]) == ("delete", "tag-z")
    assert lake.state() == before
    run(lake, "ALTER TABLE t DELETE TAG `z, b`")
    run(lake, "ALTER TABLE t DELETE TAG IF EXISTS z")
    assert list(tags(lake)) == ["c"]


@pytest.mark.parametrize(
    ("text", "error", "part"),
    [
        ("ALTER TABLE t CREATE TAG a", AlreadyExistsError, "'a' already exists"),
        ("ALTER TABLE t CREATE TAG b AS OF VERSION 9", NotFoundError, "9"),
        ("ALTER TABLE t DELETE TAG `a,b`", NotFoundError, "'b' does not exist"),
        ("ALTER TABLE t RENAME TAG b TO c", NotFoundError, "'b' does not exist"),
        ("ALTER TABLE t RENAME TAG a TO a", AlreadyExistsError, "'a'"),
        ("ALTER TABLE t CREATE TAG `a/b`", ArgumentError, "cannot be the name of a tag"),
        ("ALTER TABLE nope CREATE TAG b", NotFoundError, "nope"),
        ("SHOW TAGS `t$files`", ArgumentError, "system table"),
    ],
)
def test_a_failed_statement_changes_nothing(lake: Lake, text: str, error: type[PaimonError], part: str) -> None:
    run(lake, "ALTER TABLE t CREATE TAG a AS OF VERSION 1")
    before = lake.state()
    with pytest.raises(error) as caught:
        run(lake, text)
    assert part in str(caught.value)
    assert lake.state() == before

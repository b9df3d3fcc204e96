"""Tag statements: recognized texts, and their parsed form."""

from __future__ import annotations

import pytest

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.sqlparse.tag_statements import TagAction, TagStatement, is_tag_statement, parse_tag_statement

DAY = 86_400_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ALTER TABLE t CREATE TAG a", TagStatement(TagAction.CREATE, ("t",), "a")),
        (
            "alter table db.t create tag if not exists `a b` as of version 3 retain 2 days;",
            TagStatement(TagAction.CREATE, ("db", "t"), "a b", lenient=True, snapshot_id=3, retained_ms=2 * DAY),
        ),
        (
            "-- first\nALTER TABLE c.`d.b`.t /* x */ REPLACE TAG a AS OF VERSION 3L",
            TagStatement(TagAction.REPLACE, ("c", "d.b", "t"), "a", snapshot_id=3),
        ),
        (
            "ALTER TABLE t CREATE OR REPLACE TAG `b``c` RETAIN 1 HOUR",
            TagStatement(TagAction.REPLACE, ("t",), "b`c", retained_ms=DAY // 24),
        ),
        (
            "EXPLAIN FORMATTED ALTER TABLE t DELETE TAG IF EXISTS `a,b`",
            TagStatement(TagAction.DELETE, ("t",), "a,b", lenient=True, explain=True),
        ),
        ("ALTER TABLE t RENAME TAG a TO b", TagStatement(TagAction.RENAME, ("t",), "a", "b")),
        ("ALTER TABLE t RENAME TAG to TO to", TagStatement(TagAction.RENAME, ("t",), "to", "to")),
        ("SHOW TAGS `t$branch_b`", TagStatement(TagAction.SHOW, ("t$branch_b",))),
    ],
)
def test_statements(text: str, expected: TagStatement) -> None:
    assert is_tag_statement(text)
    assert parse_tag_statement(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE t RENAME TO tag",
        "ALTER TABLE tag RENAME COLUMN tag TO tags",
        "ALTER TABLE t RENAME tag TO label;",
        "ALTER TABLE t ALTER COLUMN tag COMMENT 'create tag'",
        "ALTER TABLE t ADD COLUMNS (tag STRING)",
        "SHOW TABLES LIKE 'tags'",
        "SELECT tags FROM t",
        "-- SHOW TAGS t\nSELECT 1",
        "",
    ],
)
def test_other_statements_are_left_to_spark(text: str) -> None:
    assert not is_tag_statement(text)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("ALTER TABLE t CREATE TAG", "at its end: expected the name of a tag; quote it with backquotes"),
        ("ALTER TABLE t CREATE TAG 'a'", "at ''a'' (line 1, column 26)"),
        ("ALTER TABLE t CREATE TAG 2024-05-14", "at '2024' (line 1, column 26): expected the name of a tag"),
        ("ALTER TABLE t CREATE TAG a AS OF VERSION 'b'", "the id of a snapshot"),
        (
            "ALTER TABLE t CREATE TAG a RETAIN 3 YEARS",
            "at 'YEARS' (line 1, column 37): expected DAYS, HOURS or MINUTES",
        ),
        ("ALTER TABLE t DELETE TAG IF NOT EXISTS a", "at 'NOT'"),
        ("ALTER TABLE t RENAME TAG a b", "expected TO"),
        ("SHOW TAGS", "the name of a table"),
        ("SHOW TAGS\n t extra", "line 2, column 4"),
    ],
)
def test_errors_name_the_position_and_what_is_expected(text: str, part: str) -> None:
    assert is_tag_statement(text)
    with pytest.raises(SqlSyntaxError) as caught:
        parse_tag_statement(text)
    assert part in caught.value.message

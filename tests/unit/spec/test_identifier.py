"""Names of tables."""

from __future__ import annotations

import pytest

from paimon_spark.errors import ArgumentError
from paimon_spark.spec.identifier import Identifier, check_name, split_name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("db.t", Identifier("db", "t")),
        ("t", Identifier("here", "t")),
        ("db.t$files", Identifier("db", "t", None, "files")),
        ("db.t$branch_b1", Identifier("db", "t", "b1")),
        ("db.t$branch_b1$files", Identifier("db", "t", "b1", "files")),
        ("`my.db`.`t$snapshots`", Identifier("my.db", "t", None, "snapshots")),
        (" db . t ", Identifier("db", "t")),
    ],
)
def test_parse(text: str, expected: Identifier) -> None:
    assert Identifier.parse(text, "here") == expected


def test_parts() -> None:
    name = Identifier.parse("db.t$branch_b1$files")
    assert name.full_name == "db.t$branch_b1$files"
    assert name.base == Identifier("db", "t")
    assert name.data_table == Identifier("db", "t", "b1")
    assert split_name("c.`a``b`.t") == ["c", "a`b", "t"]


@pytest.mark.parametrize(
    "text", ["", " ", "a.b.c", ".t", "db.", "db.t$", "db.$files", "db.t$a$b", "db.`t", "db.a/b", "sys.t"]
)
def test_refused(text: str) -> None:
    with pytest.raises(ArgumentError):
        Identifier.parse(text, "here")


def test_a_name_without_database_needs_a_default() -> None:
    with pytest.raises(ArgumentError, match=r"database\.table"):
        Identifier.parse("t")


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\nb", "x" * 250, " a", "a\\b"])
def test_bad_names(name: str) -> None:
    with pytest.raises(ArgumentError, match="tag name"):
        check_name(name, "tag")

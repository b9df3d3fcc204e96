"""Names of tables."""

from __future__ import annotations

import pytest

from paimon_spark.errors import ArgumentError
from paimon_spark.spec.identifier import Identifier, check_name, check_new_name, is_one_name, split_name


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
    "text",
    [
        "",
        " ",
        "a.b.c",
        ".t",
        "db.",
        "db.t$",
        "db.$files",
        "db.t$a$b",
        "db.`t",
        "db.a/b",
        "sys.t",
        "db.t$branch_a/../b",
        "db.t$branch_..",
    ],
)
def test_texts_that_are_not_table_names_are_errors(text: str) -> None:
    with pytest.raises(ArgumentError):
        Identifier.parse(text, "here")


def test_a_name_without_database_needs_a_default() -> None:
    with pytest.raises(ArgumentError, match=r"database\.table"):
        Identifier.parse("t")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "..",
        "a/b",
        "a\nb",
        "x" * 250,
        "é" * 124,
        " a",
        "a\\b",
        "a\0",
        "\ud800",
        "a\udc80",
        "a\x85b",
        "a$b",
        "x" * 4096,
    ],
)
def test_bad_names(name: str) -> None:
    with pytest.raises(ArgumentError, match="tag name"):
        check_name(name, "tag")


LOOK_ALIKES = [
    "\uff0e\uff0e",
    "\u2025",
    "a\uff0fb",
    "a\uff3cb",
    "t\uff04files",
    "a\u202eb",
    "a\u2066b",
    "a\u200bb",
    "\ufeffa",
    "e\u0301",
    "a\u00adb",
    "\u3000\uff0e",
]


@pytest.mark.parametrize("name", LOOK_ALIKES, ids=ascii)
def test_names_that_look_like_others_are_not_given(name: str) -> None:
    check_name("x" + name + "x", "table")
    with pytest.raises(ArgumentError, match="table name") as failed:
        check_new_name(name, "table")
    assert failed.value.message.isascii()


@pytest.mark.parametrize(
    "name",
    ["Größe", "表", "na\u00efve-\ufb01", "a.b", "...", "\u0645\u06cc\u200c\u062e\u0648\u0627", "👩\u200d🔬", "\uff54"],
)
def test_names_of_all_languages_are_given(name: str) -> None:
    check_new_name(name, "table")
    assert Identifier.of(("db", name)) == Identifier("db", name)


def test_the_procedures_database_cannot_be_imitated() -> None:
    with pytest.raises(ArgumentError, match="'sys'"):
        check_new_name("\uff53\uff59\uff53", "database")
    check_new_name("\uff53\uff59\uff53", "table")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/", "a\\b", "a\0", "\x1f", "\ud800"], ids=ascii)
def test_what_is_not_one_part_of_a_path(name: str) -> None:
    assert not is_one_name(name)


@pytest.mark.parametrize("name", ["a", "...", " ", "a b", "%2e%2e", "~", "-rf", "a:b", "\uff0e\uff0e"], ids=ascii)
def test_what_is_one_part_of_a_path(name: str) -> None:
    assert is_one_name(name)

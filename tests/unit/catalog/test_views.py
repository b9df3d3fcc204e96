"""Views in the file system catalog, without Spark."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from paimon_spark.api.catalog import connect
from paimon_spark.catalog.filesystem import FileSystemCatalog
from paimon_spark.errors import (
    AlreadyExistsError,
    ArgumentError,
    CorruptTableError,
    ErrorKind,
    NotFoundError,
    UnsupportedError,
    UsageError,
)
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.evolution import new_schema
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.types import STRING, DataField
from paimon_spark.spec.view import View

V, W, T = Identifier("db", "v"), Identifier("db", "w"), Identifier("db", "t")
VIEW = View("SELECT 1 AS a", [{"name": "a", "type": "integer"}], {"view.x": "1"}, {"p": "q"}, "a comment")
SCHEMA = new_schema((DataField(0, "k", STRING),), now_millis=0)


@pytest.fixture
def catalog() -> FileSystemCatalog:
    made = FileSystemCatalog("/wh", {}, InMemoryFileIO())
    made.create_database("db")
    return made


def test_a_view_is_stored_and_found(catalog: FileSystemCatalog) -> None:
    catalog.create_view(V, VIEW)
    assert catalog.load_view(V) == VIEW
    assert catalog.list_views("db") == ["v"]
    assert catalog.list_tables("db") == []
    assert not catalog.table_exists(V)
    assert catalog.find_view(Identifier("db", "v", "b")) is None


def test_names_of_views_and_tables_are_exclusive(catalog: FileSystemCatalog) -> None:
    catalog.create_view(V, VIEW)
    catalog.create_table(T, SCHEMA)
    for attempt in (
        lambda: catalog.create_view(V, VIEW),
        lambda: catalog.create_view(T, VIEW, replace=True),
        lambda: catalog.create_table(V, SCHEMA),
        lambda: catalog.rename_table(T, V),
        lambda: catalog.rename_view(V, T),
    ):
        with pytest.raises(AlreadyExistsError):
            attempt()
    catalog.create_view(V, replace(VIEW, query="SELECT 2"), ignore_if_exists=True)
    assert catalog.load_view(V) == VIEW
    assert (catalog.list_tables("db"), catalog.list_views("db")) == (["t"], ["v"])


def test_views_are_changed_renamed_and_dropped(catalog: FileSystemCatalog) -> None:
    catalog.create_view(V, VIEW)
    changed = replace(VIEW, query="SELECT 2 AS a", comment=None)
    catalog.alter_view(V, changed)
    catalog.rename_view(V, W)
    assert (catalog.list_views("db"), catalog.load_view(W)) == (["w"], changed)
    for attempt in (lambda: catalog.alter_view(V, VIEW), lambda: catalog.drop_view(V), lambda: catalog.load_view(V)):
        with pytest.raises(NotFoundError, match=r"db\.v.*Did you mean 'w'|There are: 'w'") as caught:
            attempt()
        assert caught.value.kind is ErrorKind.VIEW_NOT_FOUND
    catalog.drop_view(V, ignore_if_not_exists=True)
    catalog.drop_view(W)
    assert catalog.list_views("db") == []


def test_a_view_is_not_a_table(catalog: FileSystemCatalog) -> None:
    catalog.create_view(V, VIEW)
    for attempt in (
        lambda: catalog.load_table(V),
        lambda: catalog.drop_table(V),
        lambda: catalog.drop_table(V, ignore_if_not_exists=True),
        lambda: catalog.rename_table(V, W),
    ):
        with pytest.raises(UnsupportedError, match=r"'db\.v' is a view"):
            attempt()
    with pytest.raises(NotFoundError, match="Did you mean 'v'"):
        catalog.load_table(Identifier("db", "vv"))


def test_a_database_with_views_is_not_empty(catalog: FileSystemCatalog) -> None:
    catalog.create_view(V, VIEW)
    with pytest.raises(UsageError, match="'v'"):
        catalog.drop_database("db")
    catalog.drop_database("db", cascade=True)
    assert not catalog.database_exists("db")


def test_one_of_concurrent_creators_succeeds(catalog: FileSystemCatalog) -> None:
    def create(n: int) -> bool:
        try:
            catalog.create_view(V, replace(VIEW, query=f"SELECT {n}"))
        except AlreadyExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(create, range(8))) == 1


@pytest.mark.parametrize("name", ["a/b", "", "..", "x" * 300, "v$files"])
def test_names_that_no_view_can_have(catalog: FileSystemCatalog, name: str) -> None:
    with pytest.raises(ArgumentError):
        catalog.create_view(Identifier("db", name), VIEW)


@pytest.mark.parametrize(
    ("content", "error"),
    [(b"{}", CorruptTableError), (b"x", CorruptTableError), (b'{"query": 1}', CorruptTableError)],
)
def test_a_malformed_view_is_reported(catalog: FileSystemCatalog, content: bytes, error: type[Exception]) -> None:
    catalog.file_io.write("/wh/db.db/.views/v.json", content)
    with pytest.raises(error, match=r"v\.json"):
        catalog.load_view(V)
    catalog.create_view(V, VIEW, replace=True)
    later = VIEW.to_json().replace('"version": 1', '"version": 2').encode()
    catalog.file_io.write("/wh/db.db/.views/v.json", later)
    with pytest.raises(UnsupportedError, match="version 2"):
        catalog.load_view(V)


def test_the_longest_name_on_a_real_file_system(tmp_path: Path) -> None:
    api = connect(tmp_path)
    api.create_database("db")
    catalog = api._catalog
    name = "v" * 246
    catalog.create_view(Identifier("db", name), VIEW)
    catalog.alter_view(Identifier("db", name), VIEW)
    assert api.list_views("db") == [name]
    assert api.list_tables("db") == []
    with pytest.raises(UnsupportedError, match="is a view"):
        api.table(f"db.{name}")
    api.drop_view(f"db.{name}")
    assert api.list_views("db") == []

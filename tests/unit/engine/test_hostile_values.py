"""Values and names of users that look like paths: they are kept as they are, or refused, and never lead elsewhere."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.catalog.base import Catalog
from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.core.metadata.refs import RefStore, check_tag_name
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.refs.tags import execute_delete_tags, execute_tag, plan_create_tag, plan_delete_tags
from paimon_spark.engine.rollback import plan_rollback
from paimon_spark.errors import ArgumentError, ErrorKind, NotFoundError, PaimonError
from paimon_spark.spec.evolution import new_schema
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.types import STRING, DataField, TypeRoot, atomic
from paimon_spark.testing.tables import read_arrow

FIELDS = (DataField(0, "p", STRING), DataField(1, "id", atomic(TypeRoot.INT)))
VALUES = [
    "..",
    ".",
    "../../../../tmp/x",
    "/etc/passwd",
    "a/../../b",
    "..\\..\\b",
    "C:\\x",
    "file:/etc",
    "s3://b/k",
    "a=b",
    "%2e%2e%2f",
    "%",
    "a\0b",
    "a\nb",
    "\x7f",
    "\uff0e\uff0e\uff0f",
    "\u2025",
    "a\u202eb",
    "e\u0301",
    "\u00e9",
    "~",
    "$HOME",
    "$(id)",
    "`id`",
    "-rf",
    "'; DROP TABLE t; --",
    " lead",
    "*",
    "x" * 200,
]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    catalog = open_catalog({"warehouse": str(tmp_path / "warehouse")})
    catalog.create_database("db")
    return catalog


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.create_table(Identifier("db", "t"), new_schema(FIELDS, partition_keys=("p",)))


def rows(*values: str) -> pa.Table:
    return pa.table({"p": pa.array(values, pa.string()), "id": pa.array(range(len(values)), pa.int32())})


def test_partition_values_stay_below_the_table_and_come_back(tmp_path: Path, table: Table) -> None:
    write_arrow(table, rows(*VALUES))
    found = read_arrow(table).sort_by("id")
    assert found.column("p").to_pylist() == VALUES
    data = [p for p in tmp_path.rglob("*.parquet") if p.is_file()]
    assert len(data) == len(VALUES)
    for path in data:
        partition, bucket, _ = path.relative_to(table.path).parts
        assert (partition[:2], bucket) == ("p=", "bucket-0")
    assert {p.name for p in tmp_path.iterdir()} == {"warehouse"}


@pytest.mark.parametrize("value", ["x" * 4096, "/" * 100, "\U0001f600" * 80], ids=["long", "escaped", "emoji"])
def test_a_partition_value_too_long_for_the_store_is_refused(tmp_path: Path, table: Table, value: str) -> None:
    with pytest.raises(PaimonError, match="partition") as failed:
        write_arrow(table, rows("ok", value))
    assert failed.value.hint
    assert len(str(failed.value)) < 1000
    assert table.snapshots.latest_id() is None
    assert list(tmp_path.rglob("*.parquet")) == []


HOSTILE_TAGS = ["a/b", "../../../schema/schema-0", "..\\x", "a,b", "..", "a\0b", "\ud800", "a\u202eb", "\uff0e\uff0e/"]


@pytest.mark.parametrize("name", [*HOSTILE_TAGS, "x" * 247, "x" * 4096], ids=ascii)
def test_tags_that_cannot_be_made(table: Table, name: str) -> None:
    write_arrow(table, rows("a"))
    with pytest.raises(ArgumentError):
        plan_create_tag(table, name, snapshot_id=1, clock_millis=0)
    assert RefStore.of(table).tag_names() == []


@pytest.mark.parametrize("name", ["...", "t$x", "'; DROP", "~", "x" * 246, "\u00e9" * 123], ids=ascii)
def test_tags_that_can_be_made_are_files_of_the_tag_directory(table: Table, name: str) -> None:
    write_arrow(table, rows("a"))
    execute_tag(table, plan_create_tag(table, check_tag_name(name), snapshot_id=1, clock_millis=0))
    assert [p.name for p in (Path(table.path) / "tag").iterdir()] == [f"tag-{name}"]
    assert read_arrow(table, version=name).num_rows == 1
    assert execute_delete_tags(table, plan_delete_tags(table, name)).names == (name,)


@pytest.mark.parametrize("name", ["x/../../snapshot/snapshot-1", "/etc/passwd", "a\0", "\ud800", "x" * 4096], ids=ascii)
def test_looking_for_a_tag_looks_at_no_other_file(table: Table, name: str) -> None:
    write_arrow(table, rows("a"))
    (Path(table.path) / "tag" / "tag-x").mkdir(parents=True)
    with pytest.raises(NotFoundError) as failed:
        plan_rollback(table, tag=name)
    assert failed.value.kind is ErrorKind.TAG_NOT_FOUND
    with pytest.raises(NotFoundError):
        read_arrow(table, version=name)
    assert plan_delete_tags(table, [name]).missing == (name,)


@pytest.mark.parametrize("branch", ["a/../../t", "..", "x" * 4096, "a\0", "\ud800"], ids=ascii)
def test_branches_lead_to_no_other_table(catalog: Catalog, table: Table, branch: str) -> None:
    (Path(table.path) / "branch" / "branch-a").mkdir(parents=True)
    with pytest.raises(PaimonError):
        Identifier.parse(f"db.`t$branch_{branch}`")
    for use in (catalog.load_table, catalog.table_exists):
        with pytest.raises(PaimonError):
            use(Identifier("db", "t", branch=branch))


@pytest.mark.parametrize("name", ["..", "a/b", "../t2", "a\\b", "a\0b", "\ud800", "x" * 4096, "", " "], ids=ascii)
def test_names_of_databases_and_tables_lead_nowhere_else(tmp_path: Path, catalog: Catalog, name: str) -> None:
    before = sorted(tmp_path.rglob("*"))
    for use in (catalog.create_database, catalog.drop_database, catalog.database_exists, catalog.list_tables):
        with pytest.raises(ArgumentError):
            use(name)
    for identifier in (Identifier("db", name), Identifier(name, "t")):
        with pytest.raises(ArgumentError):
            catalog.create_table(identifier, new_schema(FIELDS))
        with pytest.raises(ArgumentError):
            catalog.rename_table(identifier, Identifier("db", "x"))
        for look in (catalog.drop_table, catalog.load_table, catalog.table_exists):
            with pytest.raises(ArgumentError):
                look(identifier)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_table_is_not_renamed_out_of_the_warehouse(tmp_path: Path, catalog: Catalog, table: Table) -> None:
    for name in ("../x", "..", "/tmp/x", "a\u202eb", "x" * 300):
        with pytest.raises(ArgumentError):
            catalog.rename_table(table.identifier, Identifier("db", name))
    assert catalog.list_tables("db") == ["t"]
    assert {p.name for p in tmp_path.iterdir()} == {"warehouse"}

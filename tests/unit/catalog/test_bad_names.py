"""Wrong names, options and features: one coded error that names the thing and the way out, and nothing changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.catalog.base import Catalog
from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.engine.select import plan_select
from paimon_spark.errors import ErrorKind, NotFoundError, OptionError, PaimonError, UnsupportedError
from paimon_spark.spec.evolution import SetOption, new_schema
from paimon_spark.spec.features import Use, unsupported
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.predicate import Comparison
from paimon_spark.spec.types import STRING, DataField, TypeRoot, atomic
from paimon_spark.testing.tables import read_arrow
from tests.tables.plain import DATABASE, unpacked

SAMPLES = Path(__file__).parents[2] / "tables"
T = Identifier(DATABASE, "pk_compacted")
FIELDS = (DataField(0, "id", atomic(TypeRoot.INT)), DataField(1, "v", STRING))


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return tmp_path / "warehouse"


@pytest.fixture
def catalog(warehouse: Path) -> Catalog:
    return unpacked(SAMPLES / "pk_compacted.tar.gz", warehouse)


def says(action: Callable[[], Any], kind: ErrorKind, *words: str) -> None:
    with pytest.raises(PaimonError) as failed:
        action()
    assert failed.value.kind is kind
    assert failed.value.hint
    for word in words:
        assert word in str(failed.value)


class TestNames:
    def test_table(self, catalog: Catalog) -> None:
        names = ("pk_compactd", "Did you mean 'pk_compacted'?")
        says(lambda: catalog.load_table(Identifier(DATABASE, names[0])), ErrorKind.TABLE_NOT_FOUND, *names)
        says(lambda: catalog.load_table(Identifier(DATABASE, "zzz")), ErrorKind.TABLE_NOT_FOUND, "zzz")
        says(lambda: catalog.drop_table(Identifier(DATABASE, "zzz")), ErrorKind.TABLE_NOT_FOUND, "zzz")

    def test_database(self, catalog: Catalog) -> None:
        catalog.create_database("sales")
        missing = Identifier("salse", "t")
        says(lambda: catalog.load_table(missing), ErrorKind.DATABASE_NOT_FOUND, "'salse'", "Did you mean 'sales'?")
        says(lambda: catalog.list_tables("nowhere"), ErrorKind.DATABASE_NOT_FOUND, "'nowhere'")

    def test_branch(self, catalog: Catalog) -> None:
        says(
            lambda: catalog.load_table(Identifier(DATABASE, T.table, branch="dev")), ErrorKind.TABLE_NOT_FOUND, "'dev'"
        )

    def test_a_branch_that_may_be_meant(self, catalog: Catalog) -> None:
        table = catalog.load_table(T)
        for schema in table.file_io.list(f"{table.path}/schema"):
            table.file_io.write(f"{table.path}/branch/branch-dev/schema/{schema.name}", table.file_io.read(schema.path))
        missing = Identifier(DATABASE, T.table, branch="dve")
        says(lambda: catalog.load_table(missing), ErrorKind.TABLE_NOT_FOUND, "'dve'", "Did you mean 'dev'?")

    def test_column(self, catalog: Catalog) -> None:
        table = catalog.load_table(T)
        says(lambda: read_arrow(table, columns=["idd"]), ErrorKind.COLUMN_NOT_FOUND, "'idd'", "Did you mean 'id'?")
        says(lambda: read_arrow(table, columns=["ID"]), ErrorKind.COLUMN_NOT_FOUND, "'ID'", "Did you mean 'id'?")
        wrong = Comparison("=", "zzz", 1)
        says(lambda: read_arrow(table, predicate=wrong), ErrorKind.COLUMN_NOT_FOUND, "'zzz'", "id, v")

    @pytest.mark.parametrize("version", [0, 5, 99, "12345678901234567890"])
    def test_snapshot(self, catalog: Catalog, version: int | str) -> None:
        table = catalog.load_table(T)
        words = (f"Snapshot {version} ", "1 to 4")
        says(lambda: read_arrow(table, version=version), ErrorKind.SNAPSHOT_NOT_FOUND, *words)
        decode_errors = table.with_options({"scan.snapshot-id": str(version)}) if len(str(version)) < 19 else None
        if decode_errors:
            says(lambda: read_arrow(decode_errors), ErrorKind.SNAPSHOT_NOT_FOUND, *words)

    @pytest.mark.parametrize("name", ["befor", "BEFORE", "nothing", "", "a/b", "../tag-before", "-1", "1.5"])
    def test_tag(self, catalog: Catalog, name: str) -> None:
        table = catalog.load_table(T)
        says(lambda: read_arrow(table, version=name), ErrorKind.TAG_NOT_FOUND, f"'{name}'", "before")
        if name == "befor":
            says(lambda: read_arrow(table, version=name), ErrorKind.TAG_NOT_FOUND, "Did you mean 'before'?")

    def test_time_before_the_first_snapshot(self, catalog: Catalog) -> None:
        table = catalog.load_table(T)
        says(lambda: read_arrow(table, timestamp_millis=0), ErrorKind.SNAPSHOT_NOT_FOUND, "1970-01-01", "earliest, 1")
        says(lambda: read_arrow(table, timestamp_millis=-(10**30)), ErrorKind.SNAPSHOT_NOT_FOUND, "earliest, 1")

    def test_a_directory_that_is_no_table(self, catalog: Catalog, warehouse: Path) -> None:
        place = warehouse / f"{DATABASE}.db" / "notes"
        place.mkdir()
        (place / "readme.txt").write_text("hello")
        (place / "schema").mkdir()
        notes = Identifier(DATABASE, "notes")
        says(lambda: catalog.load_table(notes), ErrorKind.TABLE_NOT_FOUND, "notes", "not a Paimon table", str(place))
        says(lambda: catalog.load_table_at(str(place)), ErrorKind.TABLE_NOT_FOUND, str(place))
        says(lambda: catalog.drop_table(notes), ErrorKind.TABLE_NOT_FOUND, "not a Paimon table")
        says(lambda: catalog.create_table(notes, new_schema(FIELDS)), ErrorKind.TABLE_EXISTS, str(place))
        assert catalog.list_tables(DATABASE) == [T.table]
        assert (place / "readme.txt").read_text() == "hello"
        (warehouse / f"{DATABASE}.db" / "file").write_text("a file, no directory")
        says(lambda: catalog.load_table(Identifier(DATABASE, "file")), ErrorKind.TABLE_NOT_FOUND, "not a Paimon table")

    @pytest.mark.parametrize("name", ["", "..", "a/b", "a\x00b", "x" * 300])
    def test_names_that_no_table_has(self, catalog: Catalog, name: str) -> None:
        says(lambda: catalog.load_table(Identifier(DATABASE, name)), ErrorKind.INVALID_ARGUMENT)


NEAR_MISSES = {
    "bukcet": "bucket",
    "file-format": "file.format",
    "merge_engine": "merge-engine",
    "scan.snapshotid": "scan.snapshot-id",
    "snapshot.num-retained-min": "snapshot.num-retained.min",
    "Write-Only": "write-only",
}
BAD_VALUES = {
    "bucket": ["x", "0", "-3", "1.5", "", "99999999999"],
    "file.format": [],
    "merge-engine": ["last-row"],
    "write-only": ["maybe", "1"],
    "target-file-size": ["big", "128 parsecs"],
    "snapshot.time-retained": ["soon", "1 moon"],
    "snapshot.num-retained.min": ["0", "x"],
    "scan.snapshot-id": ["first"],
    "metadata.stats-mode": ["some", "truncate(x)"],
}


class TestOptions:
    @pytest.mark.parametrize(("wrong", "meant"), NEAR_MISSES.items())
    def test_near_misses(self, catalog: Catalog, wrong: str, meant: str) -> None:
        words = (f"'{wrong}'", f"Did you mean '{meant}'?")
        says(lambda: new_schema(FIELDS, options={wrong: "1"}), ErrorKind.INVALID_OPTION, *words)
        says(lambda: catalog.alter_table(T, [SetOption(wrong, "1")]), ErrorKind.INVALID_OPTION, *words)
        says(lambda: catalog.load_table(T, {wrong: "1"}), ErrorKind.INVALID_OPTION, *words)
        assert catalog.load_table(T).schema_store.ids() == [0]

    @pytest.mark.parametrize(("key", "value"), [(k, v) for k, values in BAD_VALUES.items() for v in values])
    def test_bad_values(self, catalog: Catalog, key: str, value: str) -> None:
        words = (f"'{key}'", value)
        says(lambda: new_schema(FIELDS, options={key: value}), ErrorKind.INVALID_OPTION, *words)
        says(lambda: catalog.load_table(T, {key: value}), ErrorKind.INVALID_OPTION, *words)
        with pytest.raises(PaimonError):
            catalog.alter_table(T, [SetOption(key, value)])
        assert catalog.load_table(T).schema_store.ids() == [0]

    def test_foreign_properties_are_kept(self, catalog: Catalog) -> None:
        assert catalog.load_table(T, {"my.own": "1"}).options.values["my.own"] == "1"

    def test_bad_values_that_another_writer_stored(self, catalog: Catalog, warehouse: Path) -> None:
        path = warehouse / f"{DATABASE}.db" / T.table / "schema" / "schema-0"
        stored = path.read_text()
        for key, value in (("bucket", "many"), ("merge-engine", "newest"), ("deletion-vectors.enabled", "perhaps")):
            raw = json.loads(stored)
            path.write_text(json.dumps(raw | {"options": raw["options"] | {key: value}}))
            says(lambda: read_arrow(catalog.load_table(T)), ErrorKind.INVALID_OPTION, f"'{key}'", f"'{value}'")
        path.write_text(stored)
        assert read_arrow(catalog.load_table(T)).num_rows == 3

    @pytest.mark.parametrize(
        ("options", "word"),
        [
            ({}, "'warehouse'"),
            ({"warehouse": "  "}, "'warehouse'"),
            ({"warehouse": "/x", "metastore": "filesytem"}, "Did you mean 'filesystem'?"),
        ],
    )
    def test_catalog_options(self, options: dict[str, str], word: str) -> None:
        with pytest.raises(OptionError, match=word.replace("?", r"\?")) as failed:
            open_catalog(options)
        assert failed.value.hint

    @pytest.mark.parametrize("options", [{"metastore": "hive"}, {"metastore": "rest"}, {"warehouse": "s4://bucket/x"}])
    def test_catalogs_of_later_releases(self, options: dict[str, str]) -> None:
        with pytest.raises(UnsupportedError) as failed:
            open_catalog({"warehouse": "/x"} | options)
        assert failed.value.hint


REFUSED_TO_READERS = {
    "type": "format-table",
    "manifest.format": "parquet",
    "query-auth.enabled": "true",
    "fields.v.map.storage-layout": "shared-shredding",
}


class TestFeatures:
    @pytest.mark.parametrize(("key", "value"), REFUSED_TO_READERS.items())
    def test_foreign_tables_are_refused_by_name(self, catalog: Catalog, warehouse: Path, key: str, value: str) -> None:
        path = warehouse / f"{DATABASE}.db" / T.table / "schema" / "schema-0"
        stored = path.read_text()
        raw = json.loads(stored)
        path.write_text(json.dumps(raw | {"options": raw["options"] | {key: value}}))
        says(lambda: plan_select(catalog.load_table(T)), ErrorKind.UNSUPPORTED_FEATURE, value)
        path.write_text(stored)
        assert read_arrow(catalog.load_table(T)).num_rows == 3

    def test_foreign_columns(self, catalog: Catalog, warehouse: Path) -> None:
        path = warehouse / f"{DATABASE}.db" / T.table / "schema" / "schema-0"
        raw = json.loads(path.read_text())
        raw["fields"].append({"id": 2, "name": "extra", "type": "BLOB"})
        path.write_text(json.dumps(raw | {"highestFieldId": 2}))
        says(lambda: read_arrow(catalog.load_table(T)), ErrorKind.UNSUPPORTED_FEATURE, "BLOB")

    def test_every_refusal_has_a_way_out(self, catalog: Catalog) -> None:
        schema = new_schema(FIELDS)
        assert unsupported(schema, Use.CREATE) == []
        with pytest.raises(NotFoundError):
            schema.field("zzz")

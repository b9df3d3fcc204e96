"""Tables whose files name files elsewhere: nothing outside of the table is read, and nothing there is deleted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.catalog.base import Catalog
from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import execute_compaction, plan_compaction
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.refs.tags import execute_delete_tags, execute_tag, plan_create_tag, plan_delete_tags
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import CorruptTableError, PaimonError, UnsupportedError
from paimon_spark.format.manifest import codec as manifests
from paimon_spark.spec.evolution import new_schema
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.manifest import DataFileMeta, IndexFileMeta, IndexManifestEntry
from paimon_spark.spec.types import DataField, TypeRoot, atomic, not_null
from paimon_spark.testing.tables import read_arrow

FIELDS = (DataField(0, "id", not_null(atomic(TypeRoot.INT))), DataField(1, "v", atomic(TypeRoot.INT)))
NEWEST = 3
"""Sequence number of the last commit's only row."""
HOSTILE = [
    "../../../victim.db/secret/bucket-0/{name}",
    "{path}",
    "..",
    ".",
    "",
    "a/../b",
    "a\\..\\b",
    "a\0b",
    "./{name}",
]
EXTERNAL = [
    "{path}",
    "file:{path}",
    "file://{path}",
    "{table}/../secret/bucket-0/{name}",
    "{table}x/f",
    "s3://b/f",
    "..",
]


def expire(table: Table) -> None:
    config = ExpireConfig(retain_max=1, retain_min=1, max_deletes=100)
    execute_expire(table, plan_expire(table, config, clock_millis=10**14))


def compact(table: Table) -> None:
    execute_compaction(plan_compaction(table), LocalRunner())


def untag(table: Table) -> None:
    for snapshot in (1, 2):
        table.file_io.delete(table.paths.snapshot(snapshot))
    execute_delete_tags(table, plan_delete_tags(table, "keep"))


WHY = "lead out of|outside of its own directory|holds '|holds \""
OPERATIONS: dict[str, Callable[[Table], Any]] = {
    "read": read_arrow,
    "expire": expire,
    "compact": compact,
    "delete tag": untag,
}


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32()), "v": pa.array(ids, pa.int32())})


def made(catalog: Catalog, name: Identifier) -> Table:
    catalog.create_database(name.database, ignore_if_exists=True)
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "100"}
    return catalog.create_table(name, new_schema(FIELDS, primary_keys=("id",), options=options))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a warehouse with a table of three commits, a compaction, one more commit, and a tag of the second."""
    warehouse = tmp_path_factory.mktemp("template")
    catalog = open_catalog({"warehouse": str(warehouse)})
    write_arrow(made(catalog, Identifier("victim", "secret")), rows(7, 8))
    t = made(catalog, Identifier("shared", "t"))
    for i in range(3):
        write_arrow(t, rows(i))
    execute_tag(t, plan_create_tag(t, "keep", snapshot_id=2, clock_millis=0))
    compact(t)
    write_arrow(t, rows(4))
    return warehouse


@pytest.fixture
def catalog(tmp_path: Path, template: Path) -> Catalog:
    shutil.copytree(template, tmp_path / "warehouse")
    return open_catalog({"warehouse": str(tmp_path / "warehouse")})


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    return next((tmp_path / "warehouse").glob("victim.db/secret/bucket-0/*.parquet"))


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.load_table(Identifier("shared", "t"))


def filled(pattern: str, victim: Path, table: Table) -> str:
    return pattern.format(name=victim.name, path=victim, table=table.path)


def rewrite_manifests(table: Table, change: Callable[[DataFileMeta], DataFileMeta]) -> None:
    for path in Path(table.path).glob("manifest/manifest-*"):
        if path.name.startswith("manifest-list-"):
            metas = manifests.read_manifest_list(path.read_bytes())
            path.write_bytes(manifests.write_manifest_list(replace(m, file_size=1) for m in metas))
        else:
            entries = manifests.read_manifest(path.read_bytes())
            path.write_bytes(manifests.write_manifest(replace(e, file=change(e.file)) for e in entries))
    rewrite_snapshots(table)


def rewrite_snapshots(table: Table, **changes: str) -> None:
    for path in (*Path(table.path).glob("snapshot/snapshot-*"), *Path(table.path).glob("tag/tag-*")):
        raw = {k: v for k, v in json.loads(path.read_text()).items() if not k.endswith("ListSize")}
        path.write_text(json.dumps(raw | changes))
    clear_cache()


def stand(table: Table, victim: Path, operations: Iterable[str], *errors: type[PaimonError]) -> None:
    """Expect every operation to fail with one of `errors`, and everything outside of the table to be as it was."""
    outside = [p for p in victim.parents[3].rglob("*") if p.is_file() and Path(table.path) not in p.parents]
    before = {p: p.read_bytes() for p in outside}
    assert victim in before
    for operation in operations:
        with pytest.raises(errors, match=WHY):
            OPERATIONS[operation](table)
        assert all(p.exists() and p.read_bytes() == content for p, content in before.items())


@pytest.mark.parametrize("pattern", HOSTILE)
def test_names_of_data_files_do_not_lead_out_of_the_bucket(table: Table, victim: Path, pattern: str) -> None:
    name = filled(pattern, victim, table)
    rewrite_manifests(table, lambda f: replace(f, file_name=name) if f.min_sequence_number == NEWEST else f)
    stand(table, victim, ("read", "compact"), CorruptTableError)


@pytest.mark.parametrize("pattern", HOSTILE)
def test_names_of_files_to_delete_do_not_lead_out_of_the_bucket(table: Table, victim: Path, pattern: str) -> None:
    name = filled(pattern, victim, table)
    rewrite_manifests(table, lambda f: replace(f, file_name=name) if f.level == 0 else f)
    stand(table, victim, ("expire", "delete tag"), CorruptTableError)


@pytest.mark.parametrize("pattern", HOSTILE[:3])
def test_names_of_companions_do_not_lead_out_of_the_bucket(table: Table, victim: Path, pattern: str) -> None:
    name = filled(pattern, victim, table)
    rewrite_manifests(table, lambda f: replace(f, extra_files=(name,)))
    stand(table, victim, ("expire", "delete tag"), CorruptTableError)


@pytest.mark.parametrize("pattern", EXTERNAL)
def test_full_paths_do_not_lead_out_of_the_table(table: Table, victim: Path, pattern: str) -> None:
    path = filled(pattern, victim, table)
    rewrite_manifests(table, lambda f: replace(f, external_path=path))
    stand(table, victim, OPERATIONS, UnsupportedError, CorruptTableError)


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_full_paths_inside_of_the_table_are_followed(table: Table, prefix: str) -> None:
    before = read_arrow(table)
    rewrite_manifests(table, lambda f: replace(f, external_path=f"{prefix}{table.path}/bucket-0/{f.file_name}"))
    assert read_arrow(table).equals(before)


@pytest.mark.parametrize("pattern", HOSTILE[:3])
def test_names_of_manifests_do_not_lead_out_of_their_directory(table: Table, victim: Path, pattern: str) -> None:
    name = filled(pattern, victim, table)
    for path in Path(table.path).glob("manifest/manifest-list-*"):
        metas = manifests.read_manifest_list(path.read_bytes())
        path.write_bytes(manifests.write_manifest_list(replace(m, file_name=name, file_size=1) for m in metas))
    rewrite_snapshots(table)
    stand(table, victim, OPERATIONS, CorruptTableError)


@pytest.mark.parametrize("pattern", HOSTILE[:3])
@pytest.mark.parametrize("key", ["baseManifestList", "deltaManifestList", "indexManifest", "statistics"])
def test_names_in_snapshots_do_not_lead_out_of_their_directory(
    table: Table, victim: Path, pattern: str, key: str
) -> None:
    rewrite_snapshots(table, **{key: filled(pattern, victim, table)})
    stand(table, victim, OPERATIONS if "anifest" in key else ["expire"], CorruptTableError)


@pytest.mark.parametrize("field", ["file_name", "external_path"])
@pytest.mark.parametrize("pattern", ["../../../victim.db/secret/bucket-0/{name}", "{path}", "file:{path}"])
def test_index_files_outside_are_not_read_and_not_deleted(table: Table, victim: Path, pattern: str, field: str) -> None:
    wanted = IndexFileMeta(index_type="HASH", file_name="index-x-0", file_size=4, row_count=1)
    wanted = replace(wanted, **{field: filled(pattern, victim, table)})
    entry = IndexManifestEntry(manifests.FileKind.ADD, b"\0" * 12, 0, wanted)
    (Path(table.path) / "manifest" / "index-manifest-x-0").write_bytes(manifests.write_index_manifest([entry]))
    rewrite_snapshots(table, indexManifest="index-manifest-x-0")
    stand(table, victim, ("expire", "delete tag"), CorruptTableError, UnsupportedError)


@pytest.mark.parametrize("key", ["data-file.prefix", "data-file.path-directory", "changelog-file.prefix"])
@pytest.mark.parametrize("value", ["../../../victim.db/secret/", "/tmp/x", "..", "a/../../b", "a\\b", "a\0b"])
def test_options_that_name_places_stay_inside(catalog: Catalog, table: Table, key: str, value: str) -> None:
    with pytest.raises(PaimonError, match="a path inside the table"):
        new_schema(FIELDS, options={key: value})
    path = Path(table.path) / "schema" / "schema-0"
    raw = json.loads(path.read_text())
    path.write_text(json.dumps(raw | {"options": raw["options"] | {key: value}}))
    before = sorted(Path(catalog.warehouse).rglob("*"))
    if key != "changelog-file.prefix":
        with pytest.raises(PaimonError, match="a path inside the table"):
            write_arrow(catalog.load_table(table.identifier), rows(9))
    assert sorted(Path(catalog.warehouse).rglob("*")) == before


def test_a_table_has_no_say_in_where_it_is(catalog: Catalog, table: Table, victim: Path) -> None:
    path = Path(table.path) / "schema" / "schema-0"
    raw = json.loads(path.read_text())
    path.write_text(json.dumps(raw | {"options": raw["options"] | {"path": str(victim.parents[1])}}))
    again = catalog.load_table(table.identifier)
    assert again.path == table.path
    assert sorted(read_arrow(again).column("id").to_pylist()) == [0, 1, 2, 4]

"""copy, clone and copy_files."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from paimon_spark.errors import ArgumentError, NotFoundError, PaimonError, UnsupportedError, UsageError
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.spec.evolution import AddColumn, SetOption, new_schema
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.types import DataField, parse_atomic
from paimon_spark.testing.faults import FaultFileIO, Mode, Nth
from tests.unit.procedures.warehouse import OPTIONS, Warehouse

SUM = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
PARTIAL = {"merge-engine": "partial-update"}


@pytest.fixture
def lake(tmp_path: Path) -> Warehouse:
    lake = Warehouse(tmp_path / "wh")
    lake.create("db.t")
    lake.insert("db.t", (1, "a"), (2, "b"))
    lake.insert("db.t", (1, "a"), (3, "a"))
    return lake


def test_a_copy_has_the_rows_and_goes_its_own_way(lake: Warehouse) -> None:
    plan = lake.call("EXPLAIN CALL sys.copy('t', 'u')")
    assert plan[0]["path"].rsplit("/", 1)[-1] == "schema-0"
    assert not lake.catalog.table_exists(Identifier.parse("db.u"))
    (row,) = lake.call("copy('t', 'u')")
    assert (row["result"], row["status"], row["snapshot_before"], row["snapshot_after"]) == (True, "done", None, 1)
    assert row["files_out"] == len(plan) - 1
    assert lake.rows("db.u") == lake.rows("db.t") == [(1, "a"), (2, "b"), (3, "a")]
    lake.call("compact('u')")
    lake.call("compact('t')")
    lake.call("expire_snapshots(table => 't', retain_max => 1, retain_min => 1)")
    lake.insert("db.u", (9, "a"))
    assert lake.rows("db.u") == [(1, "a"), (2, "b"), (3, "a"), (9, "a")]


@pytest.mark.parametrize(
    "text", ["copy('t', 'other.u')", "clone(database => 'db', target_database => 'other', clone_from => 'paimon')"]
)
def test_the_plan_names_a_new_database(lake: Warehouse, text: str) -> None:
    lake.create("db.second")
    reasons = [[row["reason"] for row in lake.call(f"EXPLAIN CALL sys.{text}")]]
    assert not lake.catalog.database_exists("other")
    lake.call(text)
    reasons.append([row["reason"] for row in lake.call(f"EXPLAIN CALL sys.{text}")])
    assert [found.count("the database other is created") for found in reasons] == [1, 0]


def test_a_misspelt_database_is_told(lake: Warehouse) -> None:
    lake.catalog.create_database("archive")
    text = "the database archiv is created. Did you mean 'archive'?"
    assert lake.call("EXPLAIN CALL sys.copy('t', 'archiv.u')")[0]["reason"] == text
    (row,) = lake.call("copy('t', 'archiv.u')")
    assert row["status"] == f"done: {text}"
    (row,) = lake.call("copy('t', 'archiv.v')")
    assert row["status"] == "done"
    (row,) = lake.call("copy('t', 'archive_copy.v')")
    assert row["status"] == "done: the database archive_copy is created"


def test_a_repeated_copy_replaces_the_partitions_of_the_source(lake: Warehouse) -> None:
    lake.call("copy('t', 'u')")
    lake.insert("db.u", (7, "a"), (8, "c"))
    lake.insert("db.t", (5, "b"))
    (row,) = lake.call("copy(source_table => 't', target_table => 'db.u')")
    assert (row["snapshot_before"], row["snapshot_after"]) == (2, 3)
    assert lake.rows("db.u") == [(1, "a"), (2, "b"), (3, "a"), (5, "b"), (8, "c")]
    lake.insert("db.t", (6, "a"), (6, "b"))
    lake.call("copy('t', 'u', 'p = ''b''')")
    assert lake.rows("db.u") == [(1, "a"), (2, "b"), (3, "a"), (5, "b"), (6, "b"), (8, "c")]


def test_deletion_vectors_and_schemas_are_copied(lake: Warehouse) -> None:
    lake.create("db.d", deletion_vectors__enabled="true", write_only="false")
    lake.insert("db.d", (1, "a"), (2, "a"))
    lake.insert("db.d", (2, "a"), (3, "a"))
    lake.catalog.alter_table(Identifier.parse("db.d"), [AddColumn(("extra",), parse_atomic("INT"))])
    lake.insert("db.d", (4, "b"))
    lake.call("copy('d', 'e')")
    assert lake.rows("db.e") == lake.rows("db.d")
    assert lake.catalog.load_table(Identifier.parse("db.e")).schema_store.ids() == [0, 1]
    lake.insert("db.e", (2, "a"))
    assert len(lake.rows("db.e")) == 4


def test_append_tables_with_deletion_vectors(lake: Warehouse) -> None:
    lake.create("db.d", keys=(), bucket="-1")
    lake.insert("db.d", (1, "a"), (2, "b"))
    lake.call("copy('d', 'e')")
    lake.call("copy('d', 'e')")
    assert lake.rows("db.e") == [(1, "a"), (2, "b")]


def test_a_warehouse_is_cloned(lake: Warehouse, tmp_path: Path) -> None:
    lake.create("db.u")
    lake.catalog.create_database("other")
    lake.create("other.v")
    lake.insert("other.v", (4, "x"))
    target = Warehouse(tmp_path / "copy")
    conf = f"target_catalog_conf => 'warehouse={target.path}', clone_from => 'paimon'"
    rows = lake.call(f"clone({conf}, excluded_tables => 'db.u', parallelism => 2)")
    assert [(r["result"], r["source"], r["target"]) for r in rows] == [
        ("Success", "db.t", "db.t"),
        ("Success", "other.v", "other.v"),
    ]
    assert (target.rows("db.t"), target.rows("other.v")) == (lake.rows("db.t"), [(4, "x")])
    lake.call(f"clone({conf}, database => 'db', included_tables => 'u', target_database => 'new', meta_only => true)")
    assert target.rows("new.u") == []
    lake.insert("db.t", (8, "b"))
    (row,) = lake.call(f"clone({conf}, database => 'db', table => 't', clone_if_exists => false)")
    assert (row["source"], row["status"]) == (None, "nothing to do")
    assert len(target.rows("db.t")) == 3
    lake.call(f"clone({conf}, database => 'db', table => 't', where => 'p = ''b''')")
    assert len(target.rows("db.t")) == 4
    lake.call(f"copy_files('', 'db', 't', '', '{target.path}', 'files', 'w')")
    assert target.rows("files.w") == lake.rows("db.t")


@pytest.mark.parametrize(
    ("text", "error", "part"),
    [
        ("copy('t', 't')", ArgumentError, "onto itself"),
        ("copy('t', 'keyless')", UsageError, "primary key differ"),
        ("copy('t', 'wide')", UsageError, "option 'bucket' differ"),
        ("copy('tracked', 'x')", UnsupportedError, "row-tracking.enabled"),
        ("copy('fallback', 'x')", UnsupportedError, "scan.fallback-branch"),
        ("copy('t', 'x', 'k = 1')", PaimonError, "k"),
        ("clone('db')", UnsupportedError, "clone_from => 'paimon'"),
        ("clone(clone_from => 'iceberg')", ArgumentError, "choices are hive, paimon"),
        ("clone(clone_from => 'paimon', prefer_file_format => 'orc')", UnsupportedError, "prefer_file_format"),
        ("clone(clone_from => 'paimon', table => 't')", ArgumentError, "without database"),
        ("clone(clone_from => 'paimon', database => 'db', where => 'p = 1')", ArgumentError, "without table"),
        ("clone(clone_from => 'paimon', database => 'db')", ArgumentError, "onto itself"),
        ("clone(clone_from => 'paimon', included_tables => 'db.wied')", NotFoundError, "Did you mean 'db.wide'"),
        ("clone(clone_from => 'paimon', excluded_tables => 'dc.x,db.t')", NotFoundError, "names 'dc.x'"),
        ("clone(clone_from => 'paimon', database => 'db', included_tables => 'x')", NotFoundError, "names 'db.x'"),
        ("copy_files('db')", ArgumentError, "target_warehouse"),
    ],
)
def test_what_is_refused_changes_nothing(lake: Warehouse, text: str, error: type[Exception], part: str) -> None:
    lake.create("db.keyless", keys=(), bucket="-1")
    lake.create("db.wide", bucket="2")
    lake.create("db.fallback")
    lake.call("create_branch('fallback', 'dev')")
    lake.catalog.alter_table(Identifier.parse("db.fallback"), [SetOption("scan.fallback-branch", "dev")])
    lake.create("db.tracked", keys=(), bucket="-1", row_tracking__enabled="true")
    before = sorted(Path(lake.path).rglob("*"))
    with pytest.raises(error) as caught:
        lake.call(text)
    assert part in str(caught.value)
    assert sorted(Path(lake.path).rglob("*")) == before


def test_postponed_files_are_refused_until_compacted(lake: Warehouse) -> None:
    lake.create("db.late", bucket="-2", postpone__batch_write_fixed_bucket="false")
    lake.insert("db.late", (1, "a"))
    with pytest.raises(UnsupportedError, match="1 postponed files"):
        lake.call("copy('late', 'v')")
    assert not lake.catalog.table_exists(Identifier.parse("db.v"))
    lake.call("compact('late')")
    lake.call("copy('late', 'v')")
    assert lake.rows("db.v") == [(1, "a")]


@pytest.mark.parametrize(
    ("one", "other", "key"),
    [
        ({"merge-engine": "first-row"}, {}, "merge-engine"),
        ({"sequence.field": "v"}, {"sequence.field": "v", "sequence.field.sort-order": "descending"}, "sort-order"),
        ({}, {"ignore-delete": "true"}, "ignore-delete"),
        ({"ignore-update-before": "true"}, {}, "ignore-update-before"),
        ({"rowkind.field": "kind"}, {}, "rowkind.field"),
        (SUM, SUM | {"fields.v.aggregate-function": "max"}, "fields.v.aggregate-function"),
        (SUM, SUM | {"fields.v.ignore-retract": "true"}, "fields.v.ignore-retract"),
        (SUM, SUM | {"aggregation.remove-record-on-delete": "true"}, "aggregation.remove-record-on-delete"),
        (PARTIAL, PARTIAL | {"partial-update.remove-record-on-delete": "true"}, "remove-record-on-delete"),
        (PARTIAL, PARTIAL | {"fields.v.sequence-group": "kind"}, "fields.v.sequence-group"),
        (SUM | {"fields.v.stats-mode": "none"}, SUM | {"file.format": "orc"}, None),
        ({"ignore-delete": "TRUE", "bucket-key": "k"}, {"ignore-delete": "true", "bucket-key": " k"}, None),
    ],
)
def test_rows_are_merged_alike_in_both_tables(
    lake: Warehouse, one: dict[str, str], other: dict[str, str], key: str | None
) -> None:
    columns = {"k": "INT", "v": "INT", "kind": "STRING"}
    fields = [DataField(i, name, parse_atomic(t)) for i, (name, t) in enumerate(columns.items())]
    for name, options in (("one", one), ("other", other)):
        schema = new_schema(fields, primary_keys=["k"], options=OPTIONS | options)
        lake.catalog.create_table(Identifier.parse(f"db.{name}"), schema)
    if key is None:
        lake.call("copy('one', 'other')")
        return
    with pytest.raises(UsageError, match=f"option '.*{key}' differ"):
        lake.call("copy('one', 'other')")


@pytest.mark.parametrize("n", range(1, 30, 6))
def test_an_interrupted_copy_is_completed_by_the_next(lake: Warehouse, n: int) -> None:
    store = lake.file_io
    broken = FaultFileIO(LocalFileIO(), Nth(n, Mode.CRASH_AFTER))
    lake.file_io = broken
    with contextlib.suppress(PaimonError, OSError):
        lake.call("copy('t', 'u')")
    lake.file_io = store
    lake.call("copy('t', 'u')")
    assert lake.rows("db.u") == lake.rows("db.t")


def interrupt(operation: str, path: str) -> None:
    """Interrupt the statement right after it has published a snapshot."""
    if operation == "create_exclusive" and path.rpartition("/")[2].startswith("snapshot-"):
        raise KeyboardInterrupt


def test_an_interrupt_after_the_commit_keeps_the_copy(lake: Warehouse) -> None:
    store = lake.file_io
    lake.file_io = FaultFileIO(store, watch=interrupt)
    with pytest.raises(KeyboardInterrupt):
        lake.call("copy('t', 'u')")
    lake.file_io = store
    assert lake.rows("db.u") == lake.rows("db.t")

"""Commits to a table that was dropped, renamed or changed while rows were written to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.catalog import CatalogHandle
from paimon_spark.core.commit.committer import Committed, FileStoreCommit
from paimon_spark.core.table import Table
from paimon_spark.errors import ConflictError, ErrorKind, NotFoundError
from paimon_spark.spec.evolution import AddColumn, RenameColumn, SchemaChange, SetOption, apply_changes
from paimon_spark.testing.faults import FaultFileIO, Mode, Recorder
from tests.unit.core import samples

K = pa.schema([("k", pa.int32())])
OTHER = pa.schema([("a", pa.int32())])


@pytest.fixture
def catalog(tmp_path: Path) -> CatalogHandle:
    return paimon_spark.connect(tmp_path / "w")


def numbers(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int32())], schema=K)


def append_while(catalog: CatalogHandle, change: Callable[[], object]) -> None:
    """Append rows to table t; another statement makes a change after the first of them."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield numbers(1)
        change()
        yield numbers(2)

    catalog.table("t").append(pa.RecordBatchReader.from_batches(K, batches()))


def names(directory: Path) -> list[str]:
    return sorted(p.name for p in directory.iterdir())


def test_rows_for_a_dropped_table_are_refused(catalog: CatalogHandle, tmp_path: Path) -> None:
    catalog.create_table("t", K, partition_by=["k"])
    with pytest.raises(NotFoundError, match="dropped or renamed while this statement wrote to it") as caught:
        append_while(catalog, lambda: catalog.drop_table("t"))
    assert caught.value.kind is ErrorKind.TABLE_NOT_FOUND
    assert names(tmp_path / "w/default.db") == []
    assert catalog.create_table("t", OTHER).count() == 0


def test_rows_for_a_renamed_table_are_refused(catalog: CatalogHandle, tmp_path: Path) -> None:
    catalog.create_table("t", K).append(pa.Table.from_batches([numbers(0)]))
    with pytest.raises(NotFoundError, match="dropped or renamed"):
        append_while(catalog, lambda: catalog.rename_table("t", "u"))
    assert names(tmp_path / "w/default.db") == ["u"]
    catalog.rename_table("u", "t")
    assert catalog.table("t").to_arrow().to_pydict() == {"k": [0]}


@pytest.mark.parametrize("schema", [K, OTHER], ids=["same columns", "other columns"])
def test_rows_for_a_table_of_the_same_name_are_refused(catalog: CatalogHandle, schema: pa.Schema) -> None:
    catalog.create_table("t", K)

    def create_again() -> None:
        catalog.drop_table("t")
        time.sleep(0.002)  # a schema differs from others by its time, in milliseconds
        catalog.create_table("t", schema)

    with pytest.raises(NotFoundError, match=r"Schema 0 of table default\.t, by which this statement wrote") as caught:
        append_while(catalog, create_again)
    assert caught.value.kind is ErrorKind.TABLE_NOT_FOUND
    assert catalog.table("t").count() == 0


def altered(table: Table, *changes: SchemaChange) -> Table:
    """Publish a changed schema as ALTER TABLE does; return the table at it."""
    newest = table.schema_store.latest()
    assert newest is not None
    has_snapshots = table.snapshots.latest_id() is not None
    schema = apply_changes(newest, changes, 0, has_snapshots=has_snapshots)
    assert table.schema_store.try_create(schema)
    return table.with_schema(schema)


def commit(table: Table) -> object:
    return FileStoreCommit(table).commit([samples.message(samples.file())])


def test_a_schema_that_was_taken_back_is_refused() -> None:
    table = samples.table()
    newer = altered(table, AddColumn(("w",), samples.INT))
    table.file_io.delete(table.paths.schema(1))
    with pytest.raises(NotFoundError, match=r"Schema 1 of table db\.t"):
        commit(newer)
    assert [s.name for s in table.file_io.list(table.path)] == ["schema"]


def test_ordinary_changes_of_the_table_let_rows_in() -> None:
    table = samples.table({"bucket": "2"}, keys=["k"])
    assert commit(table) == Committed((1,))
    altered(table, AddColumn(("w",), samples.INT))
    altered(table, RenameColumn(("k",), "key"), SetOption("snapshot.num-retained.max", "50"))
    altered(table, SetOption("bucket", "4"))
    assert commit(table) == Committed((2,))
    assert table.snapshots.get(2).schema_id == 3


def test_a_commit_reads_its_schema_and_lists_the_others_once() -> None:
    made = samples.table()
    recorder = Recorder()
    commit(replace(made, file_io=FaultFileIO(made.file_io, recorder)))
    about = [(operation, path.rpartition("/")[2]) for operation, path in recorder.log if "/schema" in path]
    assert about == [("read", "schema-0"), ("list", "schema")]


def test_a_replaced_table_refuses_rows_of_the_old_layout() -> None:
    table = samples.table({"bucket": "1"}, keys=["k"])
    commit(table)
    replaced = replace(table.schema, id=1, primary_keys=("p",))
    table.schema_store.try_create(replaced)
    with pytest.raises(ConflictError, match=r"its primary key is \(p\) instead of \(k\)\. Nothing") as caught:
        commit(table)
    assert caught.value.kind is ErrorKind.COMMIT_CONFLICT
    assert table.snapshots.latest_id() == 1


def test_a_schema_between_the_attempts_of_a_commit_counts() -> None:
    made = samples.table({"bucket": "1"}, keys=["k"])
    store = FaultFileIO(made.file_io)
    store.schedule = Meanwhile(made)
    with pytest.raises(ConflictError, match="its option 'bucket' is '-1' instead of '1'"):
        FileStoreCommit(replace(made, file_io=store), sleep=lambda _: None).commit([samples.message(samples.file())])
    assert made.snapshots.latest_id() == 1
    assert len(made.file_io.list(made.paths.manifest_dir)) == 0


@dataclass
class Meanwhile:
    """Replaces a table before its first snapshot is created, and takes the id of that snapshot."""

    table: Table
    done: bool = False

    def choose(self, operation: str, path: str) -> Mode | None:
        if operation == "create_exclusive" and path == self.table.paths.snapshot(1) and not self.done:
            self.done = True
            replaced = replace(self.table.schema, id=1, options={"bucket": "-1"})
            self.table.schema_store.try_create(replaced)
            self.table.snapshots.try_create(replace(samples.snapshot(1), schema_id=1))
        return None

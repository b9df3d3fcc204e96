"""Every snapshot of the tables that Paimon wrote: the scan finds exactly the files whose rows the snapshot counts."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.scan.scan import live_in_partitions, scan
from paimon_spark.core.scan.splits import plan_splits
from paimon_spark.core.schemas import SchemaStore
from paimon_spark.core.table import Table
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.paths import TablePaths

TABLES = sorted((Path(__file__).parents[3] / "tables").glob("*.tar.gz"))


@pytest.mark.parametrize("archive", TABLES, ids=lambda p: p.name.removesuffix(".tar.gz"))
def test_live_files_of_every_snapshot(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    name = archive.name.removesuffix(".tar.gz")
    root, file_io = str(tmp_path / name), LocalFileIO()
    schema = SchemaStore(file_io, TablePaths(root, CoreOptions({}))).latest()
    assert schema is not None
    table = Table.of(Identifier("db", name), root, schema, file_io)
    assert table.snapshots.ids()
    for snapshot_id in table.snapshots.ids():
        snapshot = table.snapshots.get(snapshot_id)
        live = live_in_partitions(ManifestStore(table), snapshot, None)
        assert sum(e.file.row_count for e in live) == snapshot.total_record_count
        for e in live:
            assert file_io.status(table.paths.data_file(e.partition, e.bucket, e.file)).size == e.file.file_size
        result = scan(table.at_schema(snapshot.schema_id), snapshot)
        assert {e.identity for e in result.entries} == {e.identity for e in live}
        splits = plan_splits(table, result)
        assert sorted(f.file_name for s in splits for f in s.files) == sorted(e.file.file_name for e in live)

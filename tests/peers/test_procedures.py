"""Tables after procedures that write metadata: Paimon reads them, and goes on writing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.spec.identifier import Identifier
from tests.peers.java_peer import run_steps
from tests.unit.procedures.test_migration import ROWS, Session
from tests.unit.procedures.warehouse import Warehouse

pytestmark = [pytest.mark.peer, pytest.mark.slow]


def test_paimon_reads_and_goes_on_writing(tmp_path: Path) -> None:
    lake, session = Warehouse(tmp_path / "wh"), Session(tmp_path / "src")
    for name, options in {
        "merged": {},
        "purged": {},
        "vectors": {"deletion_vectors__enabled": "true", "write_only": "false"},
        "lost_manifest": {},
        "lost_file": {},
        "dropped": {},
    }.items():
        lake.create(f"db.{name}", **options)
        for rows in ([(1, "a"), (2, "b")], [(1, "a"), (3, "a")], [(2, "b"), (4, "b")]):
            lake.insert(f"db.{name}", *rows)
    for text in (
        "compact('merged')",
        "compact_manifest('merged')",
        "purge_files('purged')",
        "copy('vectors', 'copied')",
    ):
        assert lake.call(text)[0]["status"] == "done"
    lost = lake.catalog.load_table(Identifier.parse("db.lost_manifest"))
    latest = lost.snapshots.get(3)
    lost.file_io.delete(lost.paths.manifest(ManifestStore(lost).data_manifests(latest)[1].file_name))
    next(iter(sorted(Path(lake.catalog.table_path(Identifier.parse("db.lost_file"))).rglob("data-*")))).unlink()
    for text in ("remove_unexisting_manifests('lost_manifest')", "remove_unexisting_files('lost_file')"):
        assert lake.call(text)[0]["status"] == "done"
    assert lake.call("drop_partition('dropped', 'p=a')")[0]["status"] == "done"
    session.write("t", ROWS)
    lake.call("migrate_table('hive', 'db.t')", session)
    names = [f"db.{name}" for name in lake.catalog.list_tables("db")]
    steps: list[dict[str, Any]] = []
    for name in names:
        read = {"do": "read", "table": name}
        steps += [read, {"do": "write", "table": name, "rows": [[70, "a"]]}, read]
    answers = run_steps(tmp_path / "wh", steps)
    for name, before, after in zip(names, answers[::3], answers[2::3], strict=True):
        own = [tuple(map(str, row)) for row in read_rows(lake, name)]
        assert sorted(tuple(map(str, r)) for r in after["rows"]) == own, name
        assert len(before["rows"]) == len(own) - 1, name


def read_rows(lake: Warehouse, name: str) -> list[tuple[Any, ...]]:
    table = lake.catalog.load_table(Identifier.parse(name))
    return sorted((tuple(r.values()) for r in lake.read(table)), key=lambda row: tuple(map(str, row)))

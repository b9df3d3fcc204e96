"""kill -9 during each procedure: the table can be read, nothing is lost, and the same CALL completes it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from paimon_spark.calls.binding import bind
from paimon_spark.calls.run import run_named
from paimon_spark.catalog.filesystem import FileSystemCatalog
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.refs import RefStore, branch_name, branches
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.core.table import Table
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.spec.evolution import SetOption
from paimon_spark.sqlparse.call import parse_call
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.scenarios import NAME, Kind, create, open_warehouse, rows_of
from paimon_spark.testing.tables import read_arrow
from tests.end_to_end.killed_calls import call, context_of
from tests.end_to_end.procedure_calls import CALLS, UNKILLED
from tests.end_to_end.programs import ROOT
from tests.unit.procedures.calling import REGISTRY

KIND = Kind(
    ("p", "k"),
    ("p",),
    {
        "bucket": "1",
        "changelog-producer": "input",
        "snapshot.num-retained.max": "50",
        "changelog.num-retained.max": "100",
        "tag.automatic-creation": "process-time",
        "tag.creation-period": "daily",
    },
)
APPEND = Kind((), ("p",), {"write-only": "true"})
DONE_BEFORE = ("TAG_EXISTS", "BRANCH_EXISTS", "TAG_NOT_FOUND", "BRANCH_NOT_FOUND", "RUN_NOT_FOUND", "already")
"""What a CALL says if its predecessor had finished when it was killed."""


UUID = re.compile("[0-9a-f]{8}-[0-9a-f-]{27}")
"""In the names of the tags of rollback_to_as_latest; a killed CALL leaves its tag."""


class Calls:
    """The process that runs the CALLs."""

    def __init__(self) -> None:
        path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH", "")) if p)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.end_to_end.killed_calls"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def run(self, warehouse: Path, text: str, at: int = 0, after: float = 0) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"warehouse": str(warehouse), "text": f"CALL sys.{text}", "at": at, "after": after}
        self._process.stdin.write(f"{json.dumps(order)}\n")
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@pytest.fixture(scope="module")
def calls() -> Iterator[Calls]:
    process = Calls()
    yield process
    process.end()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with a table that every procedure has something to do on, and a branched append table."""
    warehouse = tmp_path_factory.mktemp("kills") / "warehouse"
    catalog = open_warehouse(LocalFileIO(), str(warehouse))
    create(catalog, KIND)
    catalog.create_table("default.a", rows_of([]).schema, partition_by=["p"], options=APPEND.options)

    def sql(text: str) -> None:
        call(str(warehouse), f"CALL sys.{text}", LocalFileIO())

    for i in range(6):
        rows = rows_of([(k, ("20200101", "21000101")[k % 2], 10 * i + k) for k in range(i, i + 4)])
        catalog.table(NAME, {"end-input.watermark": str(i)}).append(rows)
        if i == 1:
            sql("create_tag('t', 'first', 1)")
            sql("create_branch(table => 't', branch => 'dev', snapshot_id => 2)")
            sql("create_branch(table => 't', branch => 'gone', snapshot_id => 2)")
            catalog.table("default.t$branch_dev").append(rows)
    sql("create_tag('t', 'last', 6, '1 ms')")
    sql("reset_consumer('t', 'reader', 4)")
    sql("expire_snapshots(table => 't', retain_max => 5, retain_min => 1, older_than => '2000-01-01')")
    sql("delete_branch('t', 'gone')")
    catalog.table("default.a").append(rows_of([(1, "x", 1)]))
    sql("create_branch(table => 'a', branch => 'dev', snapshot_id => 1)")
    catalog.table("default.a$branch_dev").append(rows_of([(2, "x", 2)]))
    path = catalog.table(NAME).load().path
    for name in ("manifest/manifest-left", "p=20200101/bucket-0/data-left.parquet"):
        LocalFileIO().write(f"{path}/{name}", b"left")
    return warehouse


def rows_of_tag(table: Table, name: str) -> int:
    return read_arrow(table.with_options({"scan.tag-name": name})).num_rows


def observe(warehouse: Path) -> dict[str, Any]:
    """Return what users see of every table, without the ids of snapshots: a CALL that runs again may commit again."""
    clear_cache()
    catalog, found = open_warehouse(LocalFileIO(), str(warehouse)), {}
    for name in catalog.list_tables("default"):
        table = catalog.table(f"default.{name}").load()
        assert violations(table) == []
        for branch in ("main", *map(branch_name, branches(table))):
            state = replace(table, branch=branch)
            refs = RefStore.of(state)
            states = [read_arrow(state, version=i) for i in state.snapshots.ids()]
            found[f"{name} {branch}"] = {
                "rows": sorted(map(str, states[-1].to_pylist())) if states else None,
                "tags": {UUID.sub("", n): rows_of_tag(state, n) for n in refs.tag_names()},
                "consumers": refs.consumers(),
                "changelogs": refs.changelog_ids(),
            }
    return found


def latest_rows(warehouse: Path) -> dict[str, Any]:
    """Return the rows and the earliest snapshot of the table."""
    clear_cache()
    table = open_warehouse(LocalFileIO(), str(warehouse)).table(NAME).load()
    return {"rows": sorted(map(str, read_arrow(table).to_pylist())), "earliest": table.snapshots.earliest_id()}


def prepared(name: str, template: Path, place: Path) -> tuple[Path, str]:
    """Return a copy of the warehouse with something to do for a procedure, and its CALL."""
    warehouse = place / "warehouse"
    shutil.copytree(template, warehouse)
    table = open_warehouse(LocalFileIO(), str(warehouse)).table(NAME).load()
    text = CALLS[name]
    if "{fourth}" in text:
        text = text.format(fourth=table.snapshots.get(4).time_millis)
    if name == "remove_unexisting_files":
        live = live_in_partitions(ManifestStore(table), table.snapshots.latest(), None)
        Path(table.paths.data_file(live[-1].partition, live[-1].bucket, live[-1].file)).unlink()
    if name == "remove_unexisting_manifests":
        latest = table.snapshots.latest()
        Path(table.paths.manifest(ManifestStore(table).data_manifests(latest)[-1].file_name)).unlink()
    if name == "repair_earliest_snapshot":
        Path(table.paths.snapshot(3)).unlink()
    if name == "rewrite_file_index":
        catalog = FileSystemCatalog(str(warehouse), {}, LocalFileIO())
        catalog.alter_table(table.identifier, [SetOption("file-index.bloom-filter.columns", "v")])
    if name == "repair_snapshots":
        path = Path(table.paths.snapshot(5))
        path.write_text(path.read_text().replace('"commitKind"', '"operation": "COMPACT", "commitKind"'))
    return warehouse, text.format(warehouse=warehouse)


def kill(name: str, template: Path, place: Path, calls: Calls, random: Random, kills: int) -> int:
    """Kill a CALL at random changes and run it again each time; return how many kills there were."""
    place.mkdir()
    done, text = prepared(name, template, place / "done")
    whole = calls.run(done, text)
    assert not whole["error"], whole["error"]
    assert whole["changes"] or name in TIMED, f"{name} changes nothing"
    look = latest_rows if name in BROKEN else observe
    wanted, happened = look(done), 0
    every = range(1, (kills if name in TIMED else whole["changes"]) + 1)
    for at in sorted(random.sample(every, min(kills, len(every)))):
        warehouse, text = prepared(name, template, place / f"at-{at}")
        after = random.random() * whole["seconds"] if name in TIMED else 0
        first = calls.run(warehouse, text, 0 if name in TIMED else at, after)
        happened += first["signal"] == signal.SIGKILL
        if name not in BROKEN:
            observe(warehouse)
        again = calls.run(warehouse, text)
        assert not again["error"] or any(word in again["error"] for word in DONE_BEFORE), f"{at}: {again['error']}"
        found = look(warehouse)
        assert found == wanted, f"{name}, killed before change {at}"
        assert not calls.run(warehouse, "trash('t')")["error"]
        shutil.rmtree(warehouse)
    return happened


KILLS = int(os.environ.get("PAIMON_SPARK_KILLS", "25"))
"""How often each CALL is killed."""
BROKEN = {"remove_unexisting_files", "remove_unexisting_manifests", "repair_earliest_snapshot", "repair_snapshots"}
"""The table is damaged before, so only its latest snapshot is looked at."""
TIMED = {"copy_files"}
"""It opens its stores on its own, so it is killed after a time, not before a change."""


@pytest.mark.parametrize("name", CALLS)
def test_plans_change_nothing(name: str, template: Path, tmp_path: Path) -> None:
    """EXPLAIN of the CALL by position, and a dry run of the same arguments by name."""
    warehouse, text = prepared(name, template, tmp_path / "x")
    before = {p: p.read_bytes() for p in warehouse.rglob("*") if p.is_file()}
    call(str(warehouse), f"EXPLAIN CALL sys.{text}", LocalFileIO())
    statement = parse_call(f"CALL sys.{text}")
    procedure = REGISTRY.get(statement.procedure)
    values = bind(procedure, statement.positional, statement.named).values
    context = context_of(str(warehouse), LocalFileIO())
    rows = run_named(name, {**values, "dry_run": True}, context, REGISTRY).rows
    assert rows or not procedure.reports
    clear_cache()
    assert {p: p.read_bytes() for p in warehouse.rglob("*") if p.is_file()} == before


def test_every_procedure_is_killed() -> None:
    assert {p.name for p in REGISTRY} == CALLS.keys() | UNKILLED.keys()


@pytest.mark.parametrize("name", ["rollback_to", "purge_files", "undo", "expire_snapshots", "remove_orphan_files"])
def test_a_few_kills_of_procedures(name: str, template: Path, tmp_path: Path, calls: Calls) -> None:
    assert kill(name, template, tmp_path / "x", calls, Random(name), 2) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_kills_of_procedures(name: str, template: Path, tmp_path: Path, calls: Calls) -> None:
    assert kill(name, template, tmp_path / "x", calls, Random(name), KILLS) > 0

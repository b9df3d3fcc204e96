"""Procedures that are interrupted at any write, or meet another commit, and then run again."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from paimon_spark.calls.binding import bind
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.metadata.branches import on_branch
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.errors import PaimonError
from paimon_spark.sqlparse.call import parse_call
from paimon_spark.testing.faults import FaultFileIO, Mode, Nth
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.tables import read_arrow
from tests.unit.procedures.calling import REGISTRY, Lake

DAY = 86_400_000
CALLS = {
    "compact_manifest('t')": lambda lake: len(manifests(lake)) == 1,
    "drop_partition('t', 'p=1')": lambda lake: {r["p"] for r in rows(lake)} == {0, 2},
    "create_tag_from_timestamp('t', 'x', 0)": lambda lake: tags(lake) >= {"x", "brief"},
    "expire_tags('t')": lambda lake: tags(lake) == set(),
    "rollback_to_watermark('t', 2)": lambda lake: lake.table.snapshots.latest_id() == 3,
    "purge_files('t')": lambda lake: (rows(lake), len(lake.table.snapshots.ids()), tags(lake)) == ([], 1, set()),
    "alter_column_default_value('t', 'v', '7')": lambda lake: lake.table.schema_store.ids() == [0, 1],
}
LOSSES: dict[str, Callable[[Lake], str]] = {
    "remove_unexisting_files('t')": lambda lake: newest(lake)[0],
    "remove_unexisting_manifests('t')": lambda lake: newest(lake)[1],
}
"""The file that is missing before a CALL."""


def files_in(lake: Lake, directory: str) -> dict[str, bytes]:
    return {path: data for path, data in lake.state().items() if path.startswith(f"{directory}/")}


def newest(lake: Lake) -> tuple[str, str]:
    """Return the paths of the data file and of the manifest that the last commit added."""
    latest, store = lake.table.snapshots.latest(), ManifestStore(lake.table)
    assert latest is not None
    (entry,) = store.delta_entries(latest)
    manifest = store.data_manifests(latest)[-1].file_name
    paths = lake.table.paths
    return paths.file_paths(entry.partition, entry.bucket, entry.file)[0], paths.manifest(manifest)


def rows(lake: Lake) -> list[dict[str, Any]]:
    return read_arrow(lake.table).to_pylist()


def tags(lake: Lake) -> set[str]:
    return set(RefStore.of(lake.table).tag_names())


def manifests(lake: Lake) -> list[str]:
    latest = lake.table.snapshots.latest()
    assert latest is not None
    return [m.file_name for m in ManifestStore(lake.table).data_manifests(latest)]


@pytest.fixture
def lake() -> Lake:
    lake = Lake(
        {"k": "INT", "p": "INT", "v": "INT"},
        primary_key=["k", "p"],
        partition=["p"],
        bucket="1",
        write_only="true",
        commit__max_retries="0",
    )
    table = lake.table
    for i in range(4):
        lake.table = table.with_options({"end-input.watermark": str(i)})
        lake.insert((i, i % 3, i))
    lake.table = table
    lake.call("create_tag('t', 'brief', 2, '1 d')")
    lake.now += 2 * DAY
    return lake


@pytest.mark.parametrize("mode", [Mode.CRASH_BEFORE, Mode.CRASH_AFTER])
@pytest.mark.parametrize("text", CALLS)
def test_an_interrupted_call_is_completed_by_the_next(lake: Lake, text: str, mode: Mode) -> None:
    done: Callable[[Lake], bool] = CALLS[text]
    store, files = lake.table.file_io, lake.state()
    for n in range(1, 9):
        schedule = Nth(n, mode)
        lake.table = replace(lake.table, file_io=FaultFileIO(store, schedule))
        with contextlib.suppress(PaimonError, OSError, AssertionError):
            lake.call(text)
        lake.table = replace(lake.table, file_io=store)
        clear_cache()
        assert violations(lake.table) == []
        with contextlib.suppress(PaimonError):  # it exists, if the first CALL got that far
            lake.call(text)
        assert done(lake), schedule.fired
        if schedule.fired is None:
            break
        restore(lake, files)


@pytest.mark.parametrize("mode", [Mode.CRASH_BEFORE, Mode.CRASH_AFTER])
@pytest.mark.parametrize("text", LOSSES)
def test_an_interrupted_repair_is_completed_by_the_next(lake: Lake, text: str, mode: Mode) -> None:
    store = lake.table.file_io
    store.delete(LOSSES[text](lake))
    clear_cache()
    files = lake.state()
    for n in range(1, 9):
        schedule = Nth(n, mode)
        lake.table = replace(lake.table, file_io=FaultFileIO(store, schedule))
        with contextlib.suppress(PaimonError, OSError, AssertionError):
            lake.call(text)
        lake.table = replace(lake.table, file_io=store)
        clear_cache()
        lake.call(text)
        assert lake.call(text)[0]["status"] == "nothing to do"
        assert {r["k"] for r in rows(lake)} == {0, 1, 2}, schedule.fired
        if schedule.fired is None:
            break
        restore(lake, files)


def restore(lake: Lake, files: dict[str, bytes]) -> None:
    """Make the store hold just these files again."""
    for path in lake.state().keys() - files.keys():
        lake.table.file_io.delete(path)
    for path, data in files.items():
        lake.table.file_io.write(path, data)
    lake.table = replace(lake.table, schema=lake.table.schema_store.get(0))
    clear_cache()


@pytest.mark.parametrize("mode", [Mode.CRASH_BEFORE, Mode.CRASH_AFTER])
def test_the_undo_of_an_interrupted_deletion_restores_the_branch(lake: Lake, mode: Mode) -> None:
    lake.call("alter_column_default_value('t', 'v', '7')")
    lake.insert((9, 0, 9))
    lake.call("create_branch(table => 't', branch => 'b', snapshot_id => 5)")
    branch, store = on_branch(lake.table, "b"), lake.table.file_io
    wanted = sorted(read_arrow(branch).to_pylist(), key=repr)
    directory = branch.paths.metadata_root
    kept = files_in(lake, directory)
    for n in range(1, 30):
        schedule = Nth(n, mode)
        lake.table = replace(lake.table, file_io=FaultFileIO(store, schedule))
        with contextlib.suppress(PaimonError, OSError):
            lake.call("delete_branch('t', 'b')")
        lake.table = replace(lake.table, file_io=store)
        if schedule.fired is None:
            break
        lake.now += 1000
        with contextlib.suppress(PaimonError):  # nothing is left of it
            lake.call("delete_branch('t', 'b')")
        lake.call("undo('t', 'last')")
        assert files_in(lake, directory) == kept, schedule.fired
        assert sorted(read_arrow(on_branch(lake.table, "b")).to_pylist(), key=repr) == wanted
    assert n > 5


def test_a_creation_that_died_in_the_middle_of_a_file_runs_again(lake: Lake) -> None:
    left = f"{lake.table.paths.branch_dir('b')}/schema/.schema-0.{uuid.uuid4()}.tmp"
    lake.table.file_io.write(left, b"{")
    assert lake.one("create_branch(table => 't', branch => 'b', snapshot_id => 2)")["status"] == "done"
    assert on_branch(lake.table, "b").snapshots.ids() == [2]


@pytest.mark.parametrize("text", ["compact_manifest('t')", "drop_partition('t', 'p=1')"])
def test_a_commit_between_plan_and_execution_stays(lake: Lake, text: str) -> None:
    statement = parse_call(f"CALL sys.{text}")
    procedure = REGISTRY.get(statement.procedure)
    plan = procedure.body.plan(lake.ctx(), bind(procedure, statement.positional, statement.named))
    lake.insert((9, 2, 9))
    report = procedure.body.execute(lake.ctx(), plan)
    assert (report.status, report.snapshot_after) == ("done", 6)
    assert {"k": 9, "p": 2, "v": 9} in rows(lake)
    assert CALLS[text](lake)
    assert violations(lake.table) == []

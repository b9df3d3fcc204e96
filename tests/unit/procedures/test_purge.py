"""purge_files."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest

from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.engine.expiry.purge import plan_purge
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import ArgumentError, PaimonError
from paimon_spark.testing.faults import FaultFileIO, Mode, Nth
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.tables import read_arrow
from tests.unit.procedures.calling import NOW, Lake


@pytest.fixture
def lake() -> Lake:
    lake = Lake(
        {"k": "INT", "p": "STRING"},
        primary_key=["k", "p"],
        partition=["p"],
        bucket="1",
        changelog_producer="input",
        changelog__num_retained__max="100",
        commit__max_retries="0",
    )
    for i in range(4):
        lake.insert((i, "a"), (i, "b"))
    lake.call("create_tag('t', 'first', 1)")
    lake.call("create_tag('t', 'last')")
    lake.call("create_branch('t', 'dev', 'first')")
    lake.call("reset_consumer('t', 'job', 2)")
    lake.call("expire_snapshots(table => 't', retain_max => 2, retain_min => 2)")
    lake.table.file_io.write(f"{lake.table.path}/p=a/bucket-0/data-left-behind.parquet", b"x")
    return lake


def test_only_an_empty_snapshot_remains(lake: Lake) -> None:
    before = lake.state()
    plan = lake.call("EXPLAIN CALL sys.purge_files('t')")
    assert lake.state() == before
    row = lake.one("purge_files('t')")
    assert (row["result"], row["status"]) == ("Success", "done")
    after = lake.state()
    planned = {a["path"] for a in plan if a["action"] == "delete"}
    assert before.keys() - after.keys() == planned & before.keys()
    written = {a["path"] for a in plan if a["action"] == "write"}
    assert written == {lake.table.paths.snapshot(row["snapshot_after"])} <= after.keys()
    assert row["files_in"] >= len(before.keys() - after.keys())
    assert lake.table.snapshots.ids() == [row["snapshot_after"]]
    assert read_arrow(lake.table).num_rows == 0
    clear_cache()
    assert violations(lake.table) == []
    again = lake.one("purge_files('t')")
    assert (again["status"], again["files_in"]) == ("nothing to do", 0)
    assert lake.state() == after
    lake.insert((9, "a"))
    assert read_arrow(lake.table).to_pylist() == [{"k": 9, "p": "a"}]


def test_a_table_without_snapshots() -> None:
    lake = Lake({"k": "INT"})
    assert lake.one("purge_files('t')")["status"] == "nothing to do"


def test_a_branch_is_refused(lake: Lake) -> None:
    before = lake.state()
    with pytest.raises(ArgumentError, match="the branch 'dev'"):
        plan_purge(replace(lake.table, branch="dev"), LocalRunner(), NOW)
    assert lake.state() == before


@pytest.mark.parametrize("n", range(1, 120, 7))
def test_an_interrupted_purge_is_completed_by_the_next(lake: Lake, n: int) -> None:
    store = lake.table.file_io
    lake.table = replace(lake.table, file_io=FaultFileIO(store, Nth(n, Mode.CRASH_AFTER)))
    with contextlib.suppress(PaimonError, OSError):
        lake.call("purge_files('t')")
    lake.table = replace(lake.table, file_io=store)
    clear_cache()
    assert violations(lake.table) == []
    lake.call("purge_files('t')")
    assert lake.one("purge_files('t')")["status"] == "nothing to do"
    assert read_arrow(lake.table).num_rows == 0
    assert len(lake.table.snapshots.ids()) == 1

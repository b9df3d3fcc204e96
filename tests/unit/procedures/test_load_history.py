"""The history of COPY INTO: a file counts as loaded while its rows are part of the table."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from paimon_spark.core.metadata.branches import on_branch
from paimon_spark.engine.load_history import LoadHistory, SourceFile
from paimon_spark.errors import PaimonError
from paimon_spark.testing.faults import FaultFileIO, Mode, Nth, Recorder
from tests.unit.procedures.calling import Lake

FIRST, SECOND = (SourceFile(f"file:/in/{name}.csv", 9, 1) for name in ("a", "b"))


@pytest.fixture
def lake() -> Lake:
    """A table that has loaded a file with its second snapshot, and another one with the fourth."""
    lake = Lake({"k": "INT"})
    for i in range(1, 5):
        lake.insert((i,))
        if i in (2, 4):
            load(lake, FIRST if i == 2 else SECOND, i)
    return lake


def load(lake: Lake, source: SourceFile, snapshot_id: int) -> None:
    snapshot = lake.table.snapshots.get(snapshot_id)
    LoadHistory.of(lake.table).record([(source, 1)], snapshot_id, snapshot.time_millis)


def loaded(lake: Lake) -> set[SourceFile]:
    return LoadHistory.of(lake.table).loaded([FIRST, SECOND])


def test_a_load_that_was_rolled_back_does_not_count(lake: Lake) -> None:
    assert loaded(lake) == {FIRST, SECOND}
    listed = [a["path"].rpartition("/")[2] for a in lake.call("EXPLAIN CALL sys.rollback_to('t', 3)")]
    assert [n.partition("-")[0] for n in listed] == ["LATEST", "load", "snapshot"]
    lake.call("rollback_to('t', 3)")
    assert loaded(lake) == {FIRST}
    for i in range(2):
        lake.insert((7 + i,))
    lake.call("expire_snapshots(table => 't', retain_max => 1, retain_min => 1, older_than => '2100-01-01')")
    assert min(lake.table.snapshots.ids()) > 4
    assert loaded(lake) == {FIRST}


def test_an_undone_rollback_brings_the_load_back(lake: Lake) -> None:
    before = lake.state()
    lake.call("rollback_to('t', 1)")
    assert loaded(lake) == set()
    lake.call("undo('t', 'last')")
    assert loaded(lake) == {FIRST, SECOND}
    assert lake.state().keys() == before.keys()


@pytest.mark.parametrize("trash", ["true", "false"])
def test_a_purge_forgets_loads(lake: Lake, trash: str) -> None:
    lake.call(f"purge_files(table => 't', trash => {trash})")
    assert loaded(lake) == set()
    if trash == "true":
        lake.call("undo('t', 'last')")
        assert loaded(lake) == {FIRST, SECOND}


def test_a_fast_forward_forgets_loads_of_main(lake: Lake) -> None:
    lake.call("create_tag('t', 'third', 3)")
    lake.call("create_branch('t', 'dev', 'third')")
    main, lake.table = lake.table, on_branch(lake.table, "dev")
    for i in range(2):
        lake.insert((8 + i,))
    lake.table = main
    lake.insert((5,))
    load(lake, SECOND, 5)
    lake.call("fast_forward('t', 'dev')")
    assert loaded(lake) == {FIRST}


@pytest.mark.parametrize("more", [0, 5])
def test_a_fast_forward_to_an_expired_branch(lake: Lake, more: int) -> None:
    """The branch starts at snapshot 3; its earliest is one that main does not have, or has with other content."""
    lake.call("create_tag('t', 'third', 3)")
    lake.call("create_branch('t', 'dev', 'third')")
    main, lake.table = lake.table, on_branch(lake.table, "dev")
    for i in range(5):
        lake.insert((8 + i,))
    lake.call("expire_snapshots(table => 't', retain_max => 1, retain_min => 1, older_than => '2100-01-01')")
    assert (lake.table.snapshots.earliest_id() or 0) > 4
    lake.table = main
    for _ in range(more):
        lake.insert((5,))
    lake.call("fast_forward('t', 'dev')")
    assert loaded(lake) == {FIRST}


def test_a_fast_forward_keeps_loads_before_a_shared_tag(lake: Lake) -> None:
    lake.call("create_tag('t', 'third', 3)")
    lake.call("create_branch('t', 'dev', 'third')")
    lake.call("expire_snapshots(table => 't', retain_max => 1, retain_min => 1, older_than => '2100-01-01')")
    assert loaded(lake) == {FIRST, SECOND}
    lake.call("fast_forward('t', 'dev')")
    assert loaded(lake) == {FIRST}


def test_a_fast_forward_forgets_loads_if_nothing_is_shared(lake: Lake) -> None:
    lake.call("create_branch('t', 'dev')")
    main, lake.table = lake.table, on_branch(lake.table, "dev")
    for i in range(5):
        lake.insert((8 + i,))
    lake.table = main
    lake.call("fast_forward('t', 'dev')")
    assert loaded(lake) == set()


@pytest.mark.parametrize("operation", range(1, 7))
def test_an_interrupted_fast_forward_forgets_loads(lake: Lake, operation: int) -> None:
    """The earliest snapshot of the branch is its own fourth, which main has with another load."""
    lake.call("create_tag('t', 'third', 3)")
    lake.call("create_branch('t', 'dev', 'third')")
    main, lake.table = lake.table, on_branch(lake.table, "dev")
    lake.insert((8,))
    lake.call("expire_snapshots(table => 't', retain_max => 1, retain_min => 1, older_than => '2100-01-01')")
    lake.table = replace(main, file_io=FaultFileIO(main.file_io, Nth(operation, Mode.CRASH_BEFORE)))
    with suppress(PaimonError, OSError):
        lake.call("fast_forward('t', 'dev')")
    lake.table = main
    lake.call("fast_forward('t', 'dev')")
    assert loaded(lake) == {FIRST}
    assert len(LoadHistory.of(main).records.files()) == 1


def test_a_rollback_reads_only_records_that_may_be_newer(lake: Lake) -> None:
    target = lake.table.snapshots.get(3)
    for i in range(1, 9):
        old = SourceFile(f"file:/in/old-{i}.csv", 9, 1)
        LoadHistory.of(lake.table).record([(old, 1)], 0, target.time_millis - i * 100_000_000)
    table, recorder = lake.table, Recorder()
    lake.table = replace(table, file_io=FaultFileIO(table.file_io, recorder))
    lake.call("rollback_to('t', 3)")
    lake.table = table
    assert loaded(lake) == {FIRST}
    read = [path for operation, path in recorder.log if operation == "read" and "/copy-into/history/" in path]
    assert len(read) == 2 * 2, "the plan and the rollback read the records of both recent loads"


class AtListing:
    """A schedule without failures; something happens before the nth listing of load records."""

    def __init__(self, n: int, then: Callable[[], object]) -> None:
        self._left, self._then = n, then

    def choose(self, operation: str, path: str) -> None:
        if operation == "list" and path.endswith("/copy-into/history"):
            self._left -= 1
            if self._left == 0:
                self._then()


def test_a_purge_of_an_empty_table_keeps_a_load_meanwhile(lake: Lake) -> None:
    """Another program loads a file after the purge has found no rows."""
    lake.call("purge_files(table => 't', trash => false)")
    table, latest = lake.table, lake.table.snapshots.latest_id() or 0
    load(lake, FIRST, latest)
    other = Lake({"k": "INT"})
    other.table = table

    def late() -> None:
        other.insert((9,))
        load(other, SECOND, latest + 1)

    lake.table = replace(table, file_io=FaultFileIO(table.file_io, AtListing(3, late)))
    lake.call("purge_files(table => 't', trash => false)")
    lake.table = table
    assert loaded(lake) == {SECOND}


def test_a_malformed_record_counts_as_none(lake: Lake) -> None:
    history = LoadHistory.of(lake.table)
    for path in history.records.read([SECOND.path]):
        lake.table.file_io.write(path, b"{")
    assert loaded(lake) == {FIRST}
    lake.call("rollback_to('t', 1)")
    assert loaded(lake) == set()

"""The history of COPY INTO: a file counts as loaded while its rows are part of the table."""

from __future__ import annotations

import pytest

from paimon_spark.core.metadata.branches import on_branch
from paimon_spark.engine.load_history import LoadHistory, SourceFile
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


def test_a_malformed_record_counts_as_none(lake: Lake) -> None:
    history = LoadHistory.of(lake.table)
    for path in history.records.read([SECOND.path]):
        lake.table.file_io.write(path, b"{")
    assert loaded(lake) == {FIRST}
    lake.call("rollback_to('t', 1)")
    assert loaded(lake) == set()

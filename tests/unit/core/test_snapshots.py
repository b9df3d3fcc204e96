from __future__ import annotations

import dataclasses
import itertools
import time
from typing import Any

import pytest

from paimon_spark.core.snapshots import SnapshotStore
from paimon_spark.core.table import Table
from paimon_spark.errors import CorruptTableError, ErrorKind, NotFoundError, UnsupportedError
from paimon_spark.fs.base import FileStatus
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.testing.faults import FaultFileIO, Recorder
from tests.unit.core import samples
from tests.unit.core.samples import snapshot


@pytest.fixture
def table() -> Table:
    table = samples.table()
    for i in range(1, 6):
        assert table.snapshots.try_create(snapshot(i, i * 10))
    return table


def put(table: Table, *ids: int) -> None:
    for i in ids:
        table.file_io.write(table.paths.snapshot(i), snapshot(i, i * 10).to_json().encode())


def test_empty_table() -> None:
    store = samples.table().snapshots
    assert (store.latest_id(), store.latest(), store.earliest_id(), store.earliest(), store.ids()) == (
        None,
        None,
        None,
        None,
        [],
    )
    with pytest.raises(NotFoundError, match="no snapshot yet"):
        store.get(1)


@pytest.mark.parametrize("hint", [b"1", b"3", b"9", b"0", b"", b"5\n", b"-1", b"junk", None])
def test_wrong_hints_do_no_harm(table: Table, hint: bytes | None) -> None:
    for path in (table.paths.latest_hint, table.paths.earliest_hint):
        if hint is None:
            table.file_io.delete(path)
        else:
            table.file_io.write(path, hint)
    assert table.snapshots.latest_id() == 5
    assert table.snapshots.earliest_id() == (3 if hint == b"3" else 1)


def test_stray_names_are_no_snapshots(table: Table) -> None:
    for name in ("snapshot-7.tmp", "snapshot-", ".snapshot-9.x.tmp", "snapshot-٣", "other"):
        table.file_io.write(f"{table.paths.snapshot_dir}/{name}", b"x")
    table.file_io.delete(table.paths.latest_hint)
    assert table.snapshots.ids() == [1, 2, 3, 4, 5]
    assert table.snapshots.latest_id() == 5


def test_a_taken_id_stays_and_the_own_content_is_success(table: Table) -> None:
    other = dataclasses.replace(snapshot(5, 50), commit_user="other")
    assert not table.snapshots.try_create(other)
    assert table.snapshots.try_create(snapshot(5, 50))
    assert table.snapshots.get(5).commit_user == "u"


@pytest.mark.parametrize(("millis", "found"), [(9, None), (10, 1), (29, 2), (30, 3), (1000, 5)])
def test_at_or_before(table: Table, millis: int, found: int | None) -> None:
    got = table.snapshots.at_or_before(millis)
    assert (got.id if got else None) == found


def test_at_or_before_with_expired_ones(table: Table) -> None:
    for i in (1, 2):
        table.file_io.delete(table.paths.snapshot(i))
    assert table.snapshots.earliest_id() == 3
    assert table.snapshots.at_or_before(29) is None
    got = table.snapshots.at_or_before(45)
    assert got is not None
    assert got.id == 4


def test_at_or_before_with_gaps() -> None:
    """A fast-forward of another program may leave gaps."""
    for ids in (c for n in range(1, 8) for c in itertools.combinations(range(1, 8), n)):
        table = samples.table()
        put(table, *ids)
        for millis in range(5, 85, 5):
            got = table.snapshots.at_or_before(millis)
            assert (got.id if got else None) == max((i for i in ids if i * 10 <= millis), default=None)


def test_at_or_before_takes_few_requests() -> None:
    recorder = Recorder()
    table = samples.table(file_io=FaultFileIO(InMemoryFileIO(), recorder))
    put(table, *range(1, 301), *range(900, 1001))
    table.snapshots.write_earliest_hint(1)
    table.snapshots.write_latest_hint(1000)
    for millis, found in ((2550, 255), (5000, 300), (9500, 950)):
        recorder.log.clear()
        got = table.snapshots.at_or_before(millis)
        assert got is not None
        assert got.id == found
        assert sum(operation == "list" for operation, _ in recorder.log) == 1
        assert len(recorder.log) < 25


def test_at_or_before_during_an_expiry() -> None:
    """The listing still shows snapshots that have expired."""

    class Stale(InMemoryFileIO):
        def list(self, path: str) -> list[FileStatus]:
            there = [s.path for s in super().list(path)]
            gone = [p for i in range(1, 9) if (p := f"{path}/snapshot-{i}") not in there]
            return [*super().list(path), *(FileStatus(p, 0, 0, is_dir=False) for p in gone)]

    table = samples.table(file_io=Stale())
    put(table, 1, 9)
    for millis, found in ((10, 1), (89, 1), (90, 9)):
        got = table.snapshots.at_or_before(millis)
        assert got is not None
        assert got.id == found


def test_missing_and_malformed(table: Table) -> None:
    with pytest.raises(NotFoundError, match=r"Snapshot 8 does not exist.*1 to 5") as caught:
        table.snapshots.get(8)
    assert caught.value.kind is ErrorKind.SNAPSHOT_NOT_FOUND
    table.file_io.write(table.paths.snapshot(5), b"{")
    with pytest.raises(CorruptTableError, match="snapshot-5"):
        table.snapshots.latest()
    table.file_io.write(table.paths.snapshot(5), snapshot(4).to_json().encode())
    with pytest.raises(CorruptTableError, match="its id is 4"):
        table.snapshots.get(5)
    assert table.snapshots.get(4).id == 4


def test_a_store_without_exclusive_create_is_refused(table: Table) -> None:
    class Plain(InMemoryFileIO):
        @property
        def exclusive_create(self) -> bool:
            return False

    with pytest.raises(UnsupportedError, match="exclusively"):
        SnapshotStore(Plain(), table.paths).try_create(snapshot(6))


def test_schemas() -> None:
    table = samples.table()
    assert table.schema_store.latest() == table.schema
    assert not table.schema_store.try_create(dataclasses.replace(table.schema, comment="other"))
    assert table.schema_store.try_create(dataclasses.replace(table.schema, id=10, comment="new"))
    table.file_io.write(f"{table.paths.schema_dir}/schema-11.tmp", b"x")
    latest = table.schema_store.latest()
    assert latest is not None
    assert (latest.id, latest.comment) == (10, "new")
    with pytest.raises(NotFoundError, match=r"Schema 4 does not exist.*0, 10"):
        table.schema_store.get(4)


@pytest.mark.parametrize("late", [1, 2, 3])
def test_an_expired_id_is_not_used_again(table: Table, late: int) -> None:
    """A committer may stall for longer than snapshots are kept; its id is free again then, and leads nowhere."""
    for i in range(1, 4):
        table.file_io.delete(table.paths.snapshot(i))
    stalled = dataclasses.replace(snapshot(late), commit_user="stalled", total_record_count=7)
    assert not table.snapshots.try_create(stalled)
    assert table.snapshots.ids() == [4, 5]
    assert table.snapshots.latest_id() == 5


def test_an_expired_id_is_not_used_again_though_row_counts_agree(table: Table) -> None:
    table.file_io.delete(table.paths.snapshot(1))
    table.file_io.delete(table.paths.snapshot(2))
    time.sleep(0.01)
    stalled = dataclasses.replace(snapshot(2), commit_user="stalled")
    assert stalled.total_record_count == table.snapshots.get(3).total_record_count
    assert not table.snapshots.try_create(stalled)
    assert table.snapshots.ids() == [3, 4, 5]


def test_a_snapshot_stays_though_its_predecessor_expires(table: Table) -> None:
    class Busy(InMemoryFileIO):
        """A store in which others work right after a create."""

        def create_exclusive(self, path: str, data: bytes) -> bool:
            created = table.file_io.create_exclusive(path, data)
            table.file_io.create_exclusive(table.paths.snapshot(7), snapshot(7).to_json().encode())
            table.file_io.delete(table.paths.snapshot(5))
            return created

        def __getattribute__(self, name: str) -> Any:
            own = name == "create_exclusive"
            return super().__getattribute__(name) if own else getattr(table.file_io, name)

    assert SnapshotStore(Busy(), table.paths).try_create(snapshot(6))
    assert table.snapshots.exists(6)


def test_the_newest_is_kept_though_all_before_it_expire_at_once(table: Table) -> None:
    for i in range(1, 6):
        table.file_io.delete(table.paths.snapshot(i))
    assert table.snapshots.try_create(snapshot(6))
    table.file_io.write(table.paths.snapshot(8), snapshot(8).to_json().encode())
    assert table.snapshots.try_create(snapshot(9))
    assert table.snapshots.ids() == [6, 8, 9]

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from paimon_spark.core.commit.committer import Committed, EmptyCommit, FileStoreCommit
from paimon_spark.core.commit.snapshot_builder import CommitMetadata
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.table import Table
from paimon_spark.errors import ArgumentError, ConflictError, ErrorKind, OutcomeUnknownError
from paimon_spark.fs.base import FileStatus
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.kinds import CommitKind, FileKind
from paimon_spark.spec.manifest import HASH_INDEX, DataFileMeta, IndexFileMeta
from paimon_spark.spec.predicate import Comparison
from paimon_spark.testing.faults import FaultFileIO, Recorder
from tests.unit.core import samples

PK = {"bucket": "1"}
_WRITES = ("write", "create_exclusive", "sync")


def committer(table: Table, user: str | None = None) -> FileStoreCommit:
    return FileStoreCommit(table, user, sleep=lambda _: None)


def live(table: Table) -> list[DataFileMeta]:
    return [e.file for e in scan(table, table.snapshots.latest()).entries]


def names(table: Table) -> set[str]:
    return {f.file_name for f in live(table)}


def metadata_files(table: Table) -> set[str]:
    return {s.name for s in table.file_io.list(table.paths.manifest_dir)}


def referenced(table: Table) -> set[str]:
    out: set[str] = set()
    for snapshot_id in table.snapshots.ids():
        s = table.snapshots.get(snapshot_id)
        out |= {s.base_manifest_list, s.delta_manifest_list}
        out |= {n for n in (s.changelog_manifest_list, s.index_manifest) if n}
        out |= {m.file_name for m in ManifestStore(table).data_manifests(s)}
    return out


def test_first_commit_writes_snapshot_hints_and_exact_sizes() -> None:
    table = samples.table()
    f = samples.file(rows=7)
    assert committer(table, "me").commit([samples.message(f)], CommitMetadata(operation="WRITE")) == Committed((1,))
    s = table.snapshots.get(1)
    assert (s.commit_kind, s.commit_user, s.total_record_count, s.delta_record_count) == ("APPEND", "me", 7, 7)
    assert s.uuid is None
    assert s.operation == "WRITE"
    assert table.file_io.read(table.paths.latest_hint) == b"1"
    for name, size in (
        (s.base_manifest_list, s.base_manifest_list_size),
        (s.delta_manifest_list, s.delta_manifest_list_size),
    ):
        assert len(table.file_io.read(table.paths.manifest(name))) == size
    (meta,) = ManifestStore(table).data_manifests(s)
    assert len(table.file_io.read(table.paths.manifest(meta.file_name))) == meta.file_size
    assert (meta.num_added_files, meta.num_deleted_files) == (1, 0)
    assert names(table) == {f.file_name}


def test_the_disk_is_waited_for_before_the_snapshot_names_files() -> None:
    made = samples.table()
    recorder = Recorder()
    table = dataclasses.replace(made, file_io=FaultFileIO(made.file_io, recorder))
    for _ in range(2):
        recorder.log.clear()
        committer(table).commit([samples.message(samples.file())])
        written = [(op, path.rpartition("/")[2].partition("-")[0]) for op, path in recorder.log if op in _WRITES]
        manifests = [("write", "manifest")] * 3
        assert written[:5] == [*manifests, ("sync", "manifest"), ("create_exclusive", "snapshot")]
        assert {name for _, name in written[5:]} <= {"LATEST", "EARLIEST"}


def test_nothing_to_commit_makes_no_snapshot_unless_asked() -> None:
    table = samples.table()
    assert committer(table).commit([]) == EmptyCommit()
    assert table.snapshots.latest() is None
    assert committer(table).commit([], ignore_empty=False) == Committed((1,))


def test_append_and_compact_parts_give_two_snapshots() -> None:
    table = samples.table(PK, keys=["k"])
    old, new = samples.file(1, 5), samples.file(3, 9)
    committer(table).commit([samples.message(old, total_buckets=1)])
    both = samples.file(1, 9, rows=2, level=5)
    m = samples.message(new, total_buckets=1, compact_before=(old, new), compact_after=(both,))
    assert committer(table).commit([m], CommitMetadata(identifier=4)) == Committed((2, 3))
    kinds = [table.snapshots.get(i).commit_kind for i in (1, 2, 3)]
    assert kinds == [CommitKind.APPEND, CommitKind.APPEND, CommitKind.COMPACT]
    assert {table.snapshots.get(i).commit_identifier for i in (2, 3)} == {4}
    assert names(table) == {both.file_name}
    assert table.snapshots.get(3).total_record_count == 2
    first, *_ = ManifestStore(table).delta_entries(table.snapshots.get(3))
    assert first.kind is FileKind.DELETE


def test_a_second_compaction_is_a_conflict_that_names_the_files() -> None:
    table = samples.table(PK, keys=["k"])
    old = samples.file(1, 5)
    committer(table).commit([samples.message(old, total_buckets=1)])
    one = samples.message(total_buckets=1, compact_before=(old,), compact_after=(samples.file(1, 5, level=5),))
    two = samples.message(total_buckets=1, compact_before=(old,), compact_after=(samples.file(1, 5, level=5),))
    committer(table).commit([one])
    before = metadata_files(table)
    with pytest.raises(ConflictError, match=f"'{old.file_name}' .*bucket 0.*gone"):
        committer(table).commit([two])
    assert metadata_files(table) == before
    assert table.snapshots.latest_id() == 2


def test_an_append_during_a_compaction_is_no_conflict() -> None:
    table = samples.table(PK, keys=["k"])
    old, late = samples.file(1, 5), samples.file(2, 3)
    committer(table).commit([samples.message(old, total_buckets=1)])
    committer(table).commit([samples.message(late, total_buckets=1)])
    top = samples.file(1, 5, level=5)
    committer(table).commit([samples.message(total_buckets=1, compact_before=(old,), compact_after=(top,))])
    assert names(table) == {late.file_name, top.file_name}


def test_level_promotion_without_rewriting() -> None:
    table = samples.table(PK, keys=["k"])
    f = samples.file(1, 5)
    committer(table).commit([samples.message(f, total_buckets=1)])
    promoted = f.upgrade(5)
    m = samples.message(total_buckets=1, compact_before=(f,), compact_after=(promoted,))
    committer(table).commit([m])
    assert [(x.file_name, x.level) for x in live(table)] == [(f.file_name, 5)]
    table.file_io.write(table.paths.data_file(m.partition, 0, f), b"rows")
    committer(table).abort([m])
    assert table.file_io.exists(table.paths.data_file(m.partition, 0, f))


def test_abort_deletes_new_files_only() -> None:
    table = samples.table()
    f = samples.file()
    m = samples.message(f)
    path = table.paths.data_file(m.partition, 0, f)
    table.file_io.write(path, b"rows")
    committer(table).abort([m])
    assert not table.file_io.exists(path)


def test_changed_bucket_count_is_refused_unless_overwritten() -> None:
    table = samples.table({"bucket": "2"}, keys=["k"])
    old = samples.file(1, 1)
    committer(table).commit([samples.message(old, total_buckets=1)])
    m = samples.message(total_buckets=2, compact_before=(), compact_after=(samples.file(1, 1, level=5),))
    with pytest.raises(ConflictError, match=r"1 buckets.*2"):
        committer(table).commit([m])
    committer(table).overwrite([samples.message(samples.file(1, 1), total_buckets=2)])
    assert {e.total_buckets for e in scan(table, table.snapshots.latest()).entries} == {2}


class TestOverwrite:
    @pytest.fixture
    def table(self) -> Table:
        table = samples.table(partitions=["p"])
        for p in ("a", "b", "c"):
            committer(table).commit([samples.message(samples.file(rows=2), partition_value=p)])
        return table

    def partitions(self, table: Table) -> dict[str, int]:
        out: dict[str, int] = {}
        for e in scan(table, table.snapshots.latest()).entries:
            (p,) = table.partition_values(e.partition)
            out[str(p)] = out.get(str(p), 0) + e.file.row_count
        return out

    def test_static_with_a_predicate(self, table: Table) -> None:
        m = samples.message(samples.file(rows=5), partition_value="a")
        committer(table).overwrite([m], partitions=Comparison("=", "p", "a"))
        assert self.partitions(table) == {"a": 5, "b": 2, "c": 2}
        s = table.snapshots.latest()
        assert s is not None
        assert (s.commit_kind, s.delta_record_count, s.total_record_count) == (CommitKind.OVERWRITE, 3, 9)

    def test_rows_outside_are_refused(self, table: Table) -> None:
        m = samples.message(samples.file(rows=5), partition_value="b")
        with pytest.raises(ArgumentError, match="p=b"):
            committer(table).overwrite([m], partitions=Comparison("=", "p", "a"))

    def test_dynamic(self, table: Table) -> None:
        m = samples.message(samples.file(rows=5), partition_value="b")
        committer(table).overwrite([m], dynamic=True)
        assert self.partitions(table) == {"a": 2, "b": 5, "c": 2}
        assert committer(table).overwrite([], dynamic=True) == EmptyCommit()

    def test_whole_table_and_truncate(self, table: Table) -> None:
        committer(table).overwrite([samples.message(samples.file(rows=5), partition_value="d")])
        assert self.partitions(table) == {"d": 5}
        committer(table).overwrite([])
        assert self.partitions(table) == {}
        assert committer(table).overwrite([]) == EmptyCommit()

    def test_is_computed_anew_when_the_race_is_lost(self, table: Table) -> None:
        io = _Racing(table.file_io)  # type: ignore[arg-type]
        mine = dataclasses.replace(table, file_io=io)
        io.before_create = lambda: committer(table).commit([samples.message(samples.file(rows=9), partition_value="a")])
        committer(mine).overwrite([samples.message(samples.file(rows=1), partition_value="a")], dynamic=True)
        assert self.partitions(table)["a"] == 1
        assert metadata_files(table) <= referenced(table)

    def test_drops_index_entries_of_the_partitions(self) -> None:
        table = samples.table(keys=["k", "p"], partitions=["p"])
        for p in ("a", "b"):
            index = IndexFileMeta(index_type=HASH_INDEX, file_name=f"index-{p}", file_size=4, row_count=1)
            m = samples.message(samples.file(1, 1), partition_value=p, new_index_files=(index,))
            committer(table).commit([m])
        fresh = IndexFileMeta(index_type=HASH_INDEX, file_name="index-new", file_size=4, row_count=1)
        m = samples.message(samples.file(2, 2), partition_value="a", new_index_files=(fresh,))
        committer(table).overwrite([m], dynamic=True)
        found = scan(table, table.snapshots.latest()).index_entries
        assert {i.file.file_name for i in found} == {"index-b", "index-new"}

    def test_puts_disjoint_files_straight_to_the_top(self) -> None:
        table = samples.table(PK, keys=["k"])
        one, two = samples.file(1, 2), samples.file(3, 4)
        committer(table).overwrite([samples.message(one, two, total_buckets=1)])
        assert {f.level for f in live(table)} == {table.options.num_levels - 1}
        committer(table).overwrite([samples.message(samples.file(1, 5), samples.file(3, 4), total_buckets=1)])
        assert {f.level for f in live(table)} == {0}


def test_hash_index_is_replaced_and_a_lost_one_is_a_conflict() -> None:
    table = samples.table(keys=["k"])

    def index(name: str) -> IndexFileMeta:
        return IndexFileMeta(index_type=HASH_INDEX, file_name=name, file_size=4, row_count=1)

    committer(table).commit([samples.message(samples.file(1, 1), new_index_files=(index("i1"),))])
    m = samples.message(samples.file(2, 2), new_index_files=(index("i2"),), deleted_index_files=(index("i1"),))
    committer(table).commit([m])
    found = scan(table, table.snapshots.latest()).index_entries
    assert [i.file.file_name for i in found] == ["i2"]
    stale = samples.message(samples.file(3, 3), new_index_files=(index("i3"),), deleted_index_files=(index("i1"),))
    with pytest.raises(ConflictError, match="'i1'"):
        committer(table).commit([stale])


def test_statistics_watermark_and_next_row_id_are_inherited() -> None:
    table = samples.table()
    committer(table).commit([samples.message(samples.file())], CommitMetadata(watermark=50))
    first = table.snapshots.get(1)
    table.snapshots.try_create(dataclasses.replace(first, id=2, statistics="stat-x-0", next_row_id=12))
    committer(table).commit([samples.message(samples.file())], CommitMetadata(watermark=40))
    third = table.snapshots.get(3)
    assert (third.watermark, third.statistics, third.next_row_id) == (50, "stat-x-0", 12)
    table.schema_store.try_create(dataclasses.replace(table.schema, id=1))
    committer(table).commit([samples.message(samples.file())])
    fourth = table.snapshots.get(4)
    assert (fourth.statistics, fourth.schema_id, fourth.next_row_id) == (None, 1, 12)


def test_lists_of_a_commit_are_numbered_as_in_paimon() -> None:
    table = samples.table()
    committer(table).commit([samples.message(samples.file(), new_changelog=(samples.file(),))])
    first = table.snapshots.get(1)
    base, _, _ = first.base_manifest_list.rpartition("-")
    lists = (first.base_manifest_list, first.delta_manifest_list, first.changelog_manifest_list)
    assert lists == (f"{base}-0", f"{base}-1", f"{base}-2")
    assert first.next_row_id == 0
    committer(table).commit([samples.message(samples.file())])
    assert not table.snapshots.get(2).base_manifest_list.startswith(base)


class _Racing:
    """A store in which something happens once, right before a snapshot is created."""

    def __init__(self, inner: InMemoryFileIO) -> None:
        self._inner = inner
        self.before_create = lambda: None

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def create_exclusive(self, path: str, data: bytes) -> bool:
        act, self.before_create = self.before_create, lambda: None
        act()
        return self._inner.create_exclusive(path, data)


class _LosesAnswers:
    """A store that fails `failures` times after (or before) it has created a snapshot."""

    def __init__(self, inner: InMemoryFileIO, *, landed: bool, failures: int = 1) -> None:
        self._inner = inner
        self._landed = landed
        self._failures = failures

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def create_exclusive(self, path: str, data: bytes) -> bool:
        if self._failures and "/snapshot/" in path:
            self._failures -= 1
            if self._landed:
                self._inner.create_exclusive(path, data)
            raise OutcomeUnknownError("the connection broke")
        return self._inner.create_exclusive(path, data)


@pytest.mark.parametrize("landed", [True, False])
def test_a_lost_answer_never_commits_twice(landed: bool) -> None:
    table = samples.table()
    committer(table).commit([samples.message(samples.file())])
    mine = dataclasses.replace(table, file_io=_LosesAnswers(table.file_io, landed=landed))  # type: ignore[arg-type]
    assert committer(mine).commit([samples.message(samples.file())]) == Committed((2,))
    assert table.snapshots.ids() == [1, 2]
    assert len(live(table)) == 2


def test_an_outcome_that_stays_unknown_deletes_nothing() -> None:
    table = samples.table({"commit.max-retries": "2"})
    io = _LosesAnswers(table.file_io, landed=False, failures=99)  # type: ignore[arg-type]
    with pytest.raises(OutcomeUnknownError, match="did not report"):
        committer(dataclasses.replace(table, file_io=io)).commit([samples.message(samples.file())])  # type: ignore[arg-type]
    assert len(metadata_files(table)) == 9


def test_giving_up_the_race_has_a_code() -> None:
    table = samples.table({"commit.max-retries": "1"})

    class Busy(_Racing):
        def create_exclusive(self, path: str, data: bytes) -> bool:
            return False if "/snapshot/" in path else self._inner.create_exclusive(path, data)

    mine = dataclasses.replace(table, file_io=Busy(table.file_io))  # type: ignore[arg-type]
    with pytest.raises(ConflictError) as caught:
        committer(mine).commit([samples.message(samples.file())])
    assert caught.value.kind is ErrorKind.COMMIT_RETRIES_EXHAUSTED
    assert metadata_files(table) == set()


@pytest.mark.parametrize("store", ["memory", "local"])
def test_two_writers_of_50_commits_each_lose_nothing(store: str, tmp_path: Path) -> None:
    file_io = InMemoryFileIO() if store == "memory" else LocalFileIO()
    table = samples.table(file_io=file_io, path=str(tmp_path / "db.db" / "t"))

    def work() -> set[str]:
        files = [samples.file() for _ in range(50)]
        for f in files:
            FileStoreCommit(table).commit([samples.message(f)])
        return {f.file_name for f in files}

    with ThreadPoolExecutor(2) as pool:
        written = set().union(*(f.result() for f in [pool.submit(work), pool.submit(work)]))
    assert table.snapshots.ids() == list(range(1, 101))
    assert names(table) == written
    assert table.snapshots.get(100).total_record_count == 100
    assert table.file_io.read(table.paths.latest_hint) in (b"99", b"100")
    assert metadata_files(table) == referenced(table)


def test_abort_after_a_failed_compaction_keeps_published_writes() -> None:
    table = samples.table(PK, keys=["k"])
    old, new = samples.file(1, 5), samples.file(1, 5)
    top, late = samples.file(1, 5, level=5), samples.file(1, 5, level=5)
    committer(table).commit([samples.message(old, total_buckets=1)])
    committer(table).commit([samples.message(total_buckets=1, compact_before=(old,), compact_after=(top,))])
    m = samples.message(new, total_buckets=1, compact_before=(old,), compact_after=(late,))
    for f in (old, new, top, late):
        table.file_io.write(table.paths.data_file(m.partition, 0, f), b"rows")
    mine = committer(table)
    with pytest.raises(ConflictError):
        mine.commit([m])
    mine.abort([m])
    there = {f for f in (old, new, top, late) if table.file_io.exists(table.paths.data_file(m.partition, 0, f))}
    assert there == {old, new, top}
    assert names(table) == {new.file_name, top.file_name}


def test_an_unknown_outcome_that_was_a_loss_is_a_conflict() -> None:
    table = samples.table({"bucket": "1", "commit.max-retries": "3"}, keys=["k"])
    old = samples.file(1, 5)
    committer(table).commit([samples.message(old, total_buckets=1)])
    one, two = (
        samples.message(total_buckets=1, compact_before=(old,), compact_after=(samples.file(1, 5, level=5),))
        for _ in range(2)
    )

    class LosesAndFails(_Racing):
        def create_exclusive(self, path: str, data: bytes) -> bool:
            super().create_exclusive(path, data)
            raise OutcomeUnknownError("the connection broke")

    io = LosesAndFails(table.file_io)  # type: ignore[arg-type]
    io.before_create = lambda: committer(table).commit([one])
    with pytest.raises(ConflictError, match="gone"):
        committer(dataclasses.replace(table, file_io=io)).commit([two])  # type: ignore[arg-type]


class _LosesSight:
    """A store that creates the snapshot, breaks before it answers, and is out of reach for a while."""

    def __init__(self, inner: InMemoryFileIO, outage: int) -> None:
        self._inner = inner
        self._outage = outage
        self._broken = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def create_exclusive(self, path: str, data: bytes) -> bool:
        created = self._inner.create_exclusive(path, data)
        if "/snapshot/" in path:
            self._broken = True
            raise OutcomeUnknownError("the connection broke")
        return created

    def read(self, path: str) -> bytes:
        if self._broken and "/snapshot/" in path:
            self._outage -= 1
            self._broken = self._outage > 0
            raise PermissionError(13, "out of reach", path)
        return self._inner.read(path)


def test_an_outage_after_a_lost_answer_is_no_failed_commit() -> None:
    table = samples.table({"commit.max-retries": "3"})
    lasting = dataclasses.replace(table, file_io=_LosesSight(table.file_io, 99))  # type: ignore[arg-type]
    with pytest.raises(OutcomeUnknownError, match="did not report"):
        committer(lasting).commit([samples.message(samples.file())])
    assert len(live(table)) == 1
    short = dataclasses.replace(table, file_io=_LosesSight(table.file_io, 2))  # type: ignore[arg-type]
    assert committer(short).commit([samples.message(samples.file())]) == Committed((2,))
    assert len(live(table)) == 2


class _LooksAway(_Racing):
    """A store that fails to look around, `failures` times, once it has created a snapshot."""

    def __init__(self, inner: InMemoryFileIO, failures: int) -> None:
        super().__init__(inner)
        self._failures = failures
        self._created = False

    def create_exclusive(self, path: str, data: bytes) -> bool:
        self._created |= "/snapshot/" in path
        return super().create_exclusive(path, data)

    def list(self, path: str) -> list[FileStatus]:
        if self._created and self._failures:
            self._failures -= 1
            raise PermissionError(13, "out of reach", path)
        return self._inner.list(path)


def test_a_store_failing_after_the_create_is_no_failed_commit() -> None:
    """The files of a failed commit are deleted, and the table has them already."""
    table = samples.table({"commit.max-retries": "2"})
    short = dataclasses.replace(table, file_io=_LooksAway(table.file_io, 1))  # type: ignore[arg-type]
    assert committer(short).commit([samples.message(samples.file())]) == Committed((1,))
    assert len(live(table)) == 1
    table = samples.table({"commit.max-retries": "2"})
    lasting = dataclasses.replace(table, file_io=_LooksAway(table.file_io, 99))  # type: ignore[arg-type]
    with pytest.raises(OutcomeUnknownError, match="did not report"):
        committer(lasting).commit([samples.message(samples.file())])
    assert len(live(table)) == 1
    assert metadata_files(table) == referenced(table)


def test_a_commit_that_may_have_expired_is_not_made_twice() -> None:
    table = samples.table()
    committer(table).commit([samples.message(samples.file())])
    io = _LosesAnswers(table.file_io, landed=True)  # type: ignore[arg-type]

    def meanwhile(_: float) -> None:
        for _ in range(2):
            committer(table).commit([samples.message(samples.file())])
        for expired in (1, 2):
            table.file_io.delete(table.paths.snapshot(expired))

    mine = FileStoreCommit(dataclasses.replace(table, file_io=io), sleep=meanwhile)  # type: ignore[arg-type]
    with pytest.raises(OutcomeUnknownError, match="did not report"):
        mine.commit([samples.message(samples.file())])
    assert len(live(table)) == 4


def test_an_append_to_a_partition_rescaled_meanwhile_is_refused() -> None:
    table = samples.table({"bucket": "2"}, keys=["p", "k"], partitions=["p"])
    committer(table).commit([samples.message(samples.file(1, 1), total_buckets=2, partition_value="a")])
    late = samples.message(samples.file(2, 2), total_buckets=1, partition_value="a")
    other = samples.message(samples.file(2, 2), total_buckets=1, partition_value="b")
    with pytest.raises(ConflictError, match=r"2 buckets.*uses 1"):
        committer(table).commit([late])
    assert committer(table).commit([other]) == Committed((2,))

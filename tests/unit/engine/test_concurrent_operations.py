"""Several programs change one table: an operation comes between two steps of another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

import pyarrow as pa
import pytest

from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.metadata import refs
from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.metadata_io import create_once
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.expiry.orphans import DAY_MILLIS, execute_orphans, plan_orphans
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.refs.tags import execute_delete_tags, execute_tag, plan_create_tag, plan_delete_tags
from paimon_spark.engine.rollback import execute_rollback, plan_rollback
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import ConflictError, CorruptTableError, NotFoundError, OutcomeUnknownError, PaimonError
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.testing.faults import FaultFileIO, Mode, Nth
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.tables import new_table, read_arrow
from tests.unit.core import samples
from tests.unit.core.history import MINUTE, History, leaked, lost
from tests.variants import every

ALL_BUT_ONE = ExpireConfig(retain_max=1, retain_min=1)


def history(count: int, **tags: int) -> History:
    h = History()
    for _ in range(count):
        h.add()
    for name, snapshot_id in tags.items():
        execute_tag(h.table, plan_create_tag(h.table, name, snapshot_id=snapshot_id, clock_millis=0))
    return h


def test_a_tag_whose_snapshot_expired_after_planning_is_refused() -> None:
    h = history(3)
    plan = plan_create_tag(h.table, "late", snapshot_id=1, clock_millis=0)
    execute_expire(h.table, plan_expire(h.table, ALL_BUT_ONE, 10**4 * MINUTE))
    with pytest.raises(NotFoundError, match="expired while tag 'late'"):
        execute_tag(h.table, plan)
    assert RefStore.of(h.table).tag_names() == []


def test_another_tag_of_the_expired_snapshot_will_do() -> None:
    h = history(3, first=1)
    execute_expire(h.table, plan_expire(h.table, ALL_BUT_ONE, 10**4 * MINUTE))
    execute_tag(h.table, plan_create_tag(h.table, "second", snapshot_id=1, clock_millis=0))
    assert RefStore.of(h.table).tag_names() == ["first", "second"]
    assert lost(h.table) == set()


def three_small_files() -> Table:
    table = new_table({"k": "INT"}, options={"compaction.min.file-num": "2", "write-only": "true"})
    for k in range(3):
        write_arrow(table, pa.table({"k": pa.array([k], pa.int32())}))
    return table.with_options({"write-only": "false"})


def test_files_replaced_and_expired_before_the_compaction() -> None:
    table = three_small_files()
    plan = plan_compaction(table, strategy=Strategy.FULL)
    execute_compaction(plan_compaction(table, strategy=Strategy.FULL), LocalRunner())
    execute_expire(table, plan_expire(table, ALL_BUT_ONE, 10**15))
    with pytest.raises(ConflictError, match="was compacted or overwritten by another commit"):
        execute_compaction(plan, LocalRunner())
    assert violations(table) == []
    assert sorted(read_arrow(table).column("k").to_pylist()) == [0, 1, 2]


def test_files_that_are_the_tables_and_missing_are_no_conflict() -> None:
    table = three_small_files()
    plan = plan_compaction(table, strategy=Strategy.FULL)
    task = plan.groups[0].tasks[0]
    table.file_io.delete(table.paths.data_file(task.partition, task.bucket, task.files[0]))
    with pytest.raises(CorruptTableError, match="does not exist"):
        execute_compaction(plan, LocalRunner())


def test_snapshots_that_are_committed_during_a_rollback_go_too() -> None:
    h = history(5)
    before, between = plan_rollback(h.table, snapshot_id=2), [h.table.paths.snapshot(4)]
    h.add()

    def commit_once(operation: str, path: str) -> None:
        if operation == "delete" and path in between:
            between.remove(path)
            h.add()

    table = replace(h.table, file_io=FaultFileIO(h.table.file_io, watch=commit_once))
    execute_rollback(table, before)
    assert between == []
    assert h.table.snapshots.ids() == [1, 2]
    assert h.table.snapshots.latest_id() == 2
    assert violations(h.table) == []


def test_a_dead_rollback_to_a_tag_never_hides_newer_snapshots() -> None:
    """The hint must not name the target while a gap follows it: commits would fill the gap up to a stale snapshot."""
    h = history(7, old=2)
    execute_expire(h.table, plan_expire(h.table, ExpireConfig(retain_max=2, retain_min=2), 10**4 * MINUTE))
    plan = plan_rollback(h.table, tag="old")
    h.table.file_io.create_exclusive(h.table.paths.snapshot(2), plan.target.snapshot.to_json().encode())
    assert h.table.snapshots.latest_id() == 7
    h.table.file_io.delete(h.table.paths.snapshot(7))
    assert h.table.snapshots.latest_id() == 6
    assert h.add() == 7
    execute_rollback(h.table, plan_rollback(h.table, tag="old"))
    assert h.table.snapshots.ids() == [2]
    assert h.table.file_io.read(h.table.paths.latest_hint) == b"2"


def test_a_rollback_mends_the_hint_that_a_dead_one_left() -> None:
    h = history(3)
    h.table.file_io.delete(h.table.paths.snapshot(3))
    execute_rollback(h.table, plan_rollback(h.table, snapshot_id=2))
    assert h.table.file_io.read(h.table.paths.latest_hint) == b"2"


def test_a_listing_that_lags_does_not_hide_the_newest_snapshot() -> None:
    h = history(2)
    store = FaultFileIO(h.table.file_io)
    table = replace(h.table, file_io=store)
    store.remember(table.paths.snapshot(3))
    h.add()
    h.table.file_io.delete(table.paths.latest_hint)
    store.schedule = Nth(1, Mode.STALE)
    assert table.snapshots.latest_id() == 3


@pytest.mark.parametrize("mode", [Mode.AFTER, Mode.UNKNOWN_AFTER, Mode.LOST_ACK])
def test_a_file_that_was_created_after_all_is_found(mode: Mode) -> None:
    io = FaultFileIO(InMemoryFileIO(), Nth(1, mode))
    assert create_once(io, "/f", b"mine")
    assert not create_once(io, "/f", b"other")


@pytest.mark.parametrize(("mode", "error"), [(Mode.BEFORE, OSError), (Mode.UNKNOWN_BEFORE, OutcomeUnknownError)])
def test_a_file_that_was_not_created_is_not_claimed(mode: Mode, error: type[Exception]) -> None:
    io = FaultFileIO(InMemoryFileIO(), Nth(1, mode))
    with pytest.raises(error):
        create_once(io, "/f", b"mine")
    assert not io.exists("/f")


def test_where_nobody_answers_the_outcome_is_unknown() -> None:
    io = FaultFileIO(InMemoryFileIO(), Nth(1, Mode.CRASH_AFTER))
    with pytest.raises(OutcomeUnknownError):
        create_once(io, "/f", b"mine")
    assert io.inner.exists("/f")


NOW = 10_000 * MINUTE
Operation = Callable[[Table], object]


def expire(retain: int) -> Operation:
    config = ExpireConfig(retain_max=retain, retain_min=1)
    return lambda table: execute_expire(table, plan_expire(table, config, NOW))


def delete_tags(table: Table) -> None:
    execute_delete_tags(table, plan_delete_tags(table, "first,third"))


def roll_back(table: Table) -> None:
    execute_rollback(table, plan_rollback(table, snapshot_id=3))


def roll_back_to_tag(table: Table) -> None:
    execute_rollback(table, plan_rollback(table, tag="fifth"))


def commit(table: Table) -> None:
    History(file_io=table.file_io, path=table.path).add(samples.file(1, 9, v=77))


def roll_back_and_commit(table: Table) -> None:
    roll_back_to_tag(table)
    commit(table)


def clean(table: Table) -> None:
    later = NOW * 10**6
    execute_orphans(plan_orphans([table], LocalRunner(), clock_millis=later, older_than=later - DAY_MILLIS))


OPERATIONS: dict[str, Operation] = {
    "expire to two": expire(2),
    "expire to one": expire(1),
    "delete tags": delete_tags,
    "roll back": roll_back,
    "roll back, then commit": roll_back_and_commit,
    "clean": clean,
}
FIRST = [o for o in OPERATIONS if not o.startswith("roll back")]


@dataclass
class Interloper:
    """Runs something before the nth operation of a store."""

    left: int
    run: Callable[[], object]

    def choose(self, operation: str, path: str) -> Mode | None:
        self.left -= 1
        if self.left == 0:
            self.run()
        return None


@pytest.fixture(scope="module")
def prepared() -> Table:
    """Return a table of six snapshots, the first, third and fifth of which have tags."""
    h = History()
    files = [samples.file(1, 9, v=i) for i in range(6)]
    h.add(files[0])
    h.add(files[1])
    h.compact(files[0], files[1], into=samples.file(1, 9, level=5))
    for file in files[2:5]:
        h.add(file)
    for name, snapshot_id in {"first": 1, "third": 3, "fifth": 5}.items():
        execute_tag(h.table, plan_create_tag(h.table, name, snapshot_id=snapshot_id, clock_millis=0))
    return h.table


def between(prepared: Table, first: str, second: str) -> Iterator[tuple[int, Table, PaimonError | None]]:
    """Yield the table after `first`, with all of `second` before its nth step, for every n."""
    assert isinstance(prepared.file_io, InMemoryFileIO)
    n = 0
    while True:
        n += 1
        clear_cache()
        inner = prepared.file_io.fork()
        table = replace(prepared, file_io=inner)
        schedule = Interloper(n, lambda table=table: OPERATIONS[second](table))  # type: ignore[misc]
        failure = None
        try:
            OPERATIONS[first](replace(prepared, file_io=FaultFileIO(inner, schedule)))
        except PaimonError as e:
            failure = e
        if schedule.left > 0:
            return
        clear_cache()
        yield n, table, failure


@pytest.mark.parametrize(("first", "second"), every(8, product(FIRST, OPERATIONS)))
def test_who_comes_second_has_nothing_to_do(prepared: Table, first: str, second: str) -> None:
    for n, table, failure in between(prepared, first, second):
        assert failure is None, f"step {n}: {failure}"
        assert table.snapshots.latest() is not None, f"step {n}"
        assert lost(table) == set(), f"step {n}"


@pytest.mark.parametrize("second", ["expire to two", "expire to one", "delete tags", "clean"])
def test_a_rollback_whose_target_expires_leaves_a_table(prepared: Table, second: str) -> None:
    for n, table, failure in between(prepared, "roll back", second):
        latest = table.snapshots.latest()
        assert latest is not None, f"step {n}"
        assert lost(table) == set(), f"step {n}"
        assert table.snapshots.rollback_target() is None, f"step {n}"
        if failure is None:
            assert latest.id == 3, f"step {n}"
        else:
            assert isinstance(failure, CorruptTableError), f"step {n}: {failure}"
            assert "expired" in str(failure), f"step {n}: {failure}"


@dataclass
class Script:
    """Runs each of some things before the next operation on a path with a given end, one after the other."""

    left: list[tuple[str, Callable[[], object]]]

    def choose(self, operation: str, path: str) -> Mode | None:
        if self.left and path.endswith(self.left[0][0]):
            self.left.pop(0)[1]()
        return None


@pytest.mark.parametrize("gone", ["snapshot/snapshot-6", "tag/tag-third"])
def test_a_holder_under_the_id_of_another_one_is_found(prepared: Table, gone: str) -> None:
    assert isinstance(prepared.file_io, InMemoryFileIO)
    inner = prepared.file_io.fork()
    table = replace(prepared, file_io=inner)
    old = table.snapshots.get(6)

    def vanish() -> None:
        execute_delete_tags(table, plan_delete_tags(table, "third"))
        roll_back_to_tag(table)

    script = Script([(gone, vanish), ("/snapshot", lambda: commit(table))])
    found = refs.protecting_refs(replace(prepared, file_io=FaultFileIO(inner, script)), threads=1)
    assert not script.left
    assert table.snapshots.get(6) != old
    own = [h.snapshot for h in found if h.kind is refs.RefKind.SNAPSHOT]
    assert own == [table.snapshots.get(i) for i in range(1, 7)]
    assert [h.name for h in found if h.kind is refs.RefKind.TAG] == ["first", "fifth"]


def test_two_expiries_leave_what_one_leaves(prepared: Table) -> None:
    for n, table, failure in between(prepared, "expire to one", "expire to one"):
        assert failure is None
        assert table.snapshots.ids() == [6], f"step {n}"
        assert leaked(table) == set(), f"step {n}"
        assert RefStore.of(table).tag_names() == ["fifth", "first", "third"]

"""Two programs maintain one table: the whole of one operation comes between any two steps of the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.metadata import refs
from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.table import Table
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.expiry.orphans import DAY_MILLIS, execute_orphans, plan_orphans
from paimon_spark.engine.refs.tags import execute_delete_tags, execute_tag, plan_create_tag, plan_delete_tags
from paimon_spark.engine.rollback import execute_rollback, plan_rollback
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import CorruptTableError, PaimonError
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.testing.faults import FaultFileIO, Mode
from tests.unit.core import samples
from tests.unit.core.history import MINUTE, History, leaked, lost

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


@pytest.mark.parametrize("second", OPERATIONS)
@pytest.mark.parametrize("first", [o for o in OPERATIONS if not o.startswith("roll back")])
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
    """Runs each of some things before the next operation on a path that ends as it says, one after the other."""

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

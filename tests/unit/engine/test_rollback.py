from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.refs.tags import execute_tag, plan_create_tag
from paimon_spark.engine.rollback import RollbackResult, execute_rollback, plan_rollback
from paimon_spark.errors import ArgumentError, CorruptTableError, ErrorKind, NotFoundError
from paimon_spark.testing.faults import FaultFileIO, Mode
from tests.unit.core import samples
from tests.unit.core.history import History, lost, present


def tag(history: History, name: str, snapshot_id: int) -> None:
    execute_tag(history.table, plan_create_tag(history.table, name, snapshot_id=snapshot_id, clock_millis=0))


def history(snapshots: int = 6, **tags: int) -> History:
    h = History()
    for _ in range(snapshots):
        h.add()
    for name, snapshot_id in tags.items():
        tag(h, name, snapshot_id)
    return h


def test_snapshots_and_tags_above_go_and_data_stays() -> None:
    h = history(a=2, b=5)
    before = present(h.table)
    plan = plan_rollback(h.table, snapshot_id=3)
    assert [a.name for a in plan.actions] == ["LATEST", "snapshot-6", "snapshot-5", "snapshot-4", "tag-b"]
    result = execute_rollback(h.table, plan)
    assert (result.previous_snapshot_id, result.current_snapshot_id, result.files) == (6, 3, 4)
    assert h.table.snapshots.ids() == [1, 2, 3]
    assert RefStore.of(h.table).tag_names() == ["a"]
    assert present(h.table) == before
    assert h.add() == 4


def test_a_tag_of_an_expired_snapshot_brings_it_back() -> None:
    h = history(7, tag3=3, tag5=5)
    execute_expire(
        h.table, plan_expire(h.table, ExpireConfig(retain_max=3, retain_min=1, older_than_millis=-1), 10**15)
    )
    assert h.table.snapshots.ids() == [5, 6, 7]
    result = execute_rollback(h.table, plan_rollback(h.table, tag="tag3"))
    assert (result.previous_snapshot_id, result.current_snapshot_id) == (7, 3)
    assert h.table.snapshots.ids() == [3]
    assert RefStore.of(h.table).tag_names() == ["tag3"]
    assert h.table.file_io.read(h.table.paths.earliest_hint) == b"3"
    assert h.table.file_io.read(h.table.paths.latest_hint) == b"3"
    assert lost(h.table) == set()


def test_the_id_of_an_expired_snapshot_is_found_through_its_tag() -> None:
    h = history(5, old=2)
    execute_expire(h.table, plan_expire(h.table, ExpireConfig(retain_max=1, retain_min=1), 10**15))
    assert execute_rollback(h.table, plan_rollback(h.table, snapshot_id=2)).current_snapshot_id == 2
    assert h.table.snapshots.ids() == [2]


def test_a_tag_wins_over_an_id_and_its_name_may_be_digits() -> None:
    h = history(6, **{"3": 5})
    assert plan_rollback(h.table, tag="3", snapshot_id=1).current_id == 5
    assert plan_rollback(h.table, snapshot_id=3).current_id == 3


def test_rolling_back_to_the_newest_changes_nothing() -> None:
    h = history(3)
    plan = plan_rollback(h.table, snapshot_id=3)
    assert plan.actions == []
    assert execute_rollback(h.table, plan) == RollbackResult(3, 3)
    assert h.table.snapshots.ids() == [1, 2, 3]


def test_long_lived_changelogs_above_go() -> None:
    h = history(4)
    io, paths = h.table.file_io, h.table.paths
    for i in (1, 2, 3):
        io.write(paths.changelog(i), io.read(paths.snapshot(i)))
    execute_rollback(h.table, plan_rollback(h.table, snapshot_id=2))
    assert RefStore.of(h.table).changelog_ids() == [1, 2]
    assert io.read(f"{paths.changelog_dir}/LATEST") == b"2"
    io.delete(paths.snapshot(1))
    for i in (1, 2):
        io.delete(paths.changelog(i))
    io.write(paths.changelog(3), io.read(paths.snapshot(2)))
    execute_rollback(h.table, plan_rollback(h.table, snapshot_id=2))
    assert io.read(f"{paths.changelog_dir}/LATEST") == b"-1"


def died(h: History, target: int, removed: int) -> None:
    """Begin a rollback that dies after the removal of some snapshots."""
    plan = plan_rollback(h.table, snapshot_id=target)
    h.table.snapshots.begin_rollback(target)
    for action in plan.deletions[:removed]:
        h.table.file_io.delete(action.path)


@pytest.mark.parametrize("removed", [0, 1, 3])
def test_a_rollback_that_died_is_completed_by_the_next_one(removed: int) -> None:
    h = history(6, b=5)
    died(h, 3, removed)
    assert (h.table.snapshots.latest_id(), h.table.snapshots.ids()) == (3, [1, 2, 3])
    execute_rollback(h.table, plan_rollback(h.table, snapshot_id=3))
    assert h.table.snapshots.listed_ids() == [1, 2, 3]
    assert h.table.file_io.read(h.table.paths.latest_hint) == b"3"
    assert RefStore.of(h.table).tag_names() == []
    assert not plan_rollback(h.table, snapshot_id=3).actions


@pytest.mark.parametrize("removed", [0, 1, 2])
def test_a_commit_completes_a_rollback_that_died_and_is_not_lost(removed: int) -> None:
    h = history(6)
    died(h, 3, removed)
    assert [h.add(), h.add(), h.add()] == [4, 5, 6]
    assert h.table.snapshots.listed_ids() == [1, 2, 3, 4, 5, 6]
    assert h.table.snapshots.latest_id() == 6
    assert lost(h.table) == set()


@dataclass
class BeforeDeletion:
    """Lets another program commit when a rollback is about to remove its first snapshot."""

    other: History
    added: list[int] = field(default_factory=list)

    def choose(self, operation: str, path: str) -> Mode | None:
        if not self.added and operation == "status" and path.endswith("snapshot-6"):
            self.added.append(self.other.add())
        return None


def test_completing_a_rollback_spares_commits_after_its_end() -> None:
    h = history(6)
    died(h, 3, 0)
    late = BeforeDeletion(h)
    store = FaultFileIO(h.table.file_io, late)
    assert (History(file_io=store).add(), late.added) == (5, [4])
    assert h.table.snapshots.listed_ids() == [1, 2, 3, 4, 5]
    assert h.table.file_io.read(h.table.paths.latest_hint) == b"5"


def test_a_commit_completes_a_rollback_to_an_expired_tag() -> None:
    h = history(5, old=2)
    execute_expire(h.table, plan_expire(h.table, ExpireConfig(retain_max=1, retain_min=1), 10**15))
    io, paths = h.table.file_io, h.table.paths
    h.table.snapshots.begin_rollback(2)
    assert h.table.snapshots.latest_id() == 5
    io.write(paths.snapshot(2), RefStore.of(h.table).get_tag("old").snapshot.to_json().encode())
    assert (h.table.snapshots.latest_id(), h.table.snapshots.ids()) == (2, [2])
    assert [h.add() for _ in range(4)] == [3, 4, 5, 6]
    assert h.table.snapshots.latest_id() == 6


def test_half_a_hint_of_a_rollback_is_none() -> None:
    h = history(12)
    h.table.snapshots.begin_rollback(10)
    whole = h.table.file_io.read(h.table.paths.latest_hint)
    assert h.table.snapshots.latest_id() == 10
    assert not whole.isdigit()
    for end in range(len(whole)):
        h.table.file_io.write(h.table.paths.latest_hint, whole[:end])
        assert h.table.snapshots.latest_id() == 12


def test_a_commit_of_another_program_ends_a_rollback_that_died() -> None:
    """It sees what is there, builds on the newest, and writes a hint that is a number."""
    h = history(6)
    died(h, 3, 1)
    io, paths = h.table.file_io, h.table.paths
    newest = h.table.snapshots.get(5)
    io.create_exclusive(paths.snapshot(6), replace(newest, id=6).to_json().encode())
    h.table.snapshots.write_latest_hint(6)
    assert h.add() == 7
    assert h.table.snapshots.ids() == [1, 2, 3, 4, 5, 6, 7]


def test_unknown_targets_are_named() -> None:
    h = history(3, good=1)
    with pytest.raises(NotFoundError, match="Snapshot 99 does not exist") as caught:
        plan_rollback(h.table, snapshot_id=99)
    assert caught.value.kind is ErrorKind.SNAPSHOT_NOT_FOUND
    with pytest.raises(NotFoundError, match="Did you mean 'good'") as caught:
        plan_rollback(h.table, tag="god")
    assert caught.value.kind is ErrorKind.TAG_NOT_FOUND
    with pytest.raises(ArgumentError):
        plan_rollback(h.table)
    with pytest.raises(NotFoundError, match="has no snapshot"):
        plan_rollback(samples.table(), snapshot_id=1)


def test_a_target_whose_manifests_are_gone_is_refused() -> None:
    h = history(3)
    h.table.file_io.delete(h.table.paths.manifest(h.table.snapshots.get(1).delta_manifest_list))
    clear_cache()
    with pytest.raises(CorruptTableError):
        plan_rollback(h.table, snapshot_id=1)
    assert h.table.snapshots.ids() == [1, 2, 3]

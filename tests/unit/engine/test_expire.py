from __future__ import annotations

from dataclasses import replace

import pytest

from paimon_spark.core.maintenance.deletion import DELETE, KEEP, WRITE
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.engine.expiry.expire import ExpireConfig, ExpirePlan, ExpireResult, execute_expire, plan_expire
from paimon_spark.engine.refs.tags import execute_delete_tags, execute_tag, plan_create_tag, plan_delete_tags
from paimon_spark.errors import ArgumentError, CorruptTableError
from paimon_spark.spec.kinds import FileSource
from paimon_spark.spec.refs import Consumer
from paimon_spark.testing.faults import FaultFileIO, Recorder
from tests.unit.core import samples
from tests.unit.core.history import MINUTE, History, leaked, lost, needed, present

ALL_BUT_ONE = ExpireConfig(retain_max=1, retain_min=1, max_deletes=1000)
LATER = 10_000 * MINUTE


def tag(history: History, name: str, snapshot_id: int) -> None:
    execute_tag(history.table, plan_create_tag(history.table, name, snapshot_id=snapshot_id, clock_millis=0))


def untag(history: History, names: str) -> None:
    execute_delete_tags(history.table, plan_delete_tags(history.table, names))


def expire(history: History, config: ExpireConfig = ALL_BUT_ONE, now: int = LATER) -> ExpireResult:
    clear_cache()
    return execute_expire(history.table, plan_expire(history.table, config, now))


def compacted() -> tuple[History, list[samples.DataFileMeta]]:
    """Return f0 added in 1, f1 in 2, both compacted into g in 3, f2 added in 4."""
    h = History()
    f = [samples.file(1, 9, v=i) for i in range(3)]
    g = samples.file(1, 9, level=5, file_source=FileSource.COMPACT)
    h.add(f[0])
    h.add(f[1])
    h.compact(f[0], f[1], into=g)
    h.add(f[2])
    return h, [*f, g]


def test_nothing_to_do_on_a_new_table() -> None:
    h = History()
    plan = plan_expire(h.table, ALL_BUT_ONE, LATER)
    assert plan.actions == []
    assert execute_expire(h.table, plan) == ExpireResult()
    h.add()
    assert plan_expire(h.table, ALL_BUT_ONE, LATER).actions == []
    assert h.table.snapshots.ids() == [1]


def test_removed_files_and_metadata_go_with_their_snapshots() -> None:
    h, (f0, f1, f2, g) = compacted()
    result = expire(h)
    assert result.count == 3
    assert h.table.snapshots.ids() == [4]
    assert h.table.file_io.read(h.table.paths.earliest_hint) == b"4"
    assert [h.exists(x) for x in (f0, f1, f2, g)] == [False, False, True, True]
    assert (lost(h.table), leaked(h.table)) == (set(), set())


def test_the_plan_is_exactly_what_is_done() -> None:
    h, _ = compacted()
    before = {s.path: s.size for s in h.table.file_io.list_recursive(h.table.path)}
    plan = plan_expire(h.table, ALL_BUT_ONE, LATER)
    assert {s.path: s.size for s in h.table.file_io.list_recursive(h.table.path)} == before
    result = execute_expire(h.table, plan)
    after = {s.path for s in h.table.file_io.list_recursive(h.table.path)}
    gone = {path: size for path, size in before.items() if path not in after}
    assert {a.path: a.bytes for a in plan.deletions} == gone
    assert result == ExpireResult(3, len(gone), sum(gone.values()))
    assert {a.action for a in plan.actions} == {DELETE, WRITE}


def test_an_upgraded_file_stays() -> None:
    h = History()
    f = samples.file(1, 9)
    h.add(f)
    h.compact(f, into=f.upgrade(5))
    h.add(samples.file(1, 9))
    expire(h)
    assert h.exists(f)
    assert lost(h.table) == set()


def test_a_tag_keeps_what_it_needs_until_it_is_deleted() -> None:
    h, (f0, f1, _, _) = compacted()
    tag(h, "keep", 2)
    plan = plan_expire(h.table, ALL_BUT_ONE, LATER)
    assert {a.kept_by for a in plan.kept} == {"tag 'keep'"}
    assert {h.path(f0), h.path(f1)} == {a.path for a in plan.kept if "/bucket-0/" in a.path}
    assert all(a.action == KEEP for a in plan.kept)
    expire(h)
    assert h.table.snapshots.ids() == [4]
    assert (lost(h.table), leaked(h.table)) == (set(), set())
    assert h.exists(f0)
    untag(h, "keep")
    assert not h.exists(f0)
    assert (lost(h.table), leaked(h.table)) == (set(), set())


def test_a_branch_keeps_its_files_even_after_its_tag_is_gone() -> None:
    h, (f0, f1, _, _) = compacted()
    io, paths = h.table.file_io, h.table.paths
    branch = replace(h.table, branch="dev").paths
    io.write(branch.snapshot(2), io.read(paths.snapshot(2)))
    io.write(branch.schema(0), io.read(paths.schema(0)))
    plan = plan_expire(h.table, ALL_BUT_ONE, LATER)
    assert "snapshot 2 of branch 'dev'" in {a.kept_by for a in plan.kept}
    expire(h)
    assert h.exists(f0)
    assert h.exists(f1)
    assert (lost(h.table), leaked(h.table)) == (set(), set())


def test_a_consumer_stops_the_expiry() -> None:
    h, _ = compacted()
    h.table.file_io.write(h.table.paths.consumer("c"), Consumer(2).to_json().encode())
    assert expire(h).count == 1
    assert h.table.snapshots.ids() == [2, 3, 4]
    h.table.file_io.write(h.table.paths.consumer("c"), b"{")
    with pytest.raises(CorruptTableError, match="consumer-c"):
        expire(h)
    assert h.table.snapshots.ids() == [2, 3, 4]


def test_metadata_that_cannot_be_read_stops_the_deletion() -> None:
    h, _ = compacted()
    tag(h, "keep", 2)
    io, paths = h.table.file_io, h.table.paths
    io.write(paths.tag("broken"), b"{}")
    before = present(h.table)
    with pytest.raises(CorruptTableError, match="tag-broken"):
        expire(h)
    io.delete(paths.tag("broken"))
    io.delete(paths.manifest(h.table.snapshots.get(2).base_manifest_list))
    with pytest.raises(CorruptTableError):
        expire(h)
    assert len(before - present(h.table)) == 1
    assert h.table.snapshots.ids() == [1, 2, 3, 4]


def test_a_tag_made_between_plan_and_execution_is_respected() -> None:
    h, (f0, f1, _, _) = compacted()
    plan = plan_expire(h.table, ALL_BUT_ONE, LATER)
    tag(h, "late", 2)
    execute_expire(h.table, plan)
    assert h.exists(f0)
    assert h.exists(f1)
    assert lost(h.table) == set()


@pytest.mark.parametrize("survivors", [0, 1, 3, 5, 7, 9])
def test_an_expiry_that_died_is_completed_by_the_next_one(survivors: int) -> None:
    h, _ = compacted()
    tag(h, "keep", 1)
    plan = plan_expire(h.table, ALL_BUT_ONE, LATER)
    for action in plan.deletions[:survivors]:
        h.table.file_io.delete(action.path)
    assert lost(h.table) <= {a.path for a in plan.deletions} if survivors else True
    expire(h)
    assert h.table.snapshots.ids() == [4]
    assert lost(h.table) == set()
    assert expire(h) == ExpireResult()


def test_age_minimum_and_limit_come_from_the_table() -> None:
    options = {"snapshot.num-retained.min": "2", "snapshot.time-retained": "65 min", "snapshot.expire.limit": "2"}
    h = History(options)
    for minute in (0, 10, 20, 30, 40):
        h.at(minute).add()
    assert expire(h, ExpireConfig(), 100 * MINUTE).count == 2
    assert expire(h, ExpireConfig(), 100 * MINUTE).count == 1
    assert h.table.snapshots.ids() == [4, 5]
    assert expire(h, ExpireConfig(retain_min=1, older_than_millis=41 * MINUTE), 0).count == 1
    with pytest.raises(ArgumentError, match=r"retain_max \(1\) is less than retain_min \(2\)"):
        plan_expire(h.table, ExpireConfig(retain_max=1, retain_min=2), 0)


def test_an_upper_limit_takes_the_default_lower_one_along() -> None:
    h = History({"snapshot.num-retained.min": "10"})
    for minute in range(4):
        h.at(minute).add()
    assert expire(h, ExpireConfig(retain_max=3), 4 * MINUTE).count == 1
    assert h.table.snapshots.ids() == [2, 3, 4]


def test_changelogs_that_live_longer_keep_a_copy_of_the_snapshot() -> None:
    h = History({"changelog.num-retained.min": "20", "changelog.num-retained.max": "20"})
    f = samples.file(1, 9)
    h.add(f)
    h.compact(f, into=samples.file(1, 9, level=5, file_source=FileSource.COMPACT))
    h.add()
    expire(h, ExpireConfig(retain_max=1, retain_min=1))
    assert h.table.snapshots.ids() == [3]
    assert RefStore.of(h.table).changelog_ids() == [1, 2]
    assert h.exists(f)
    assert lost(h.table) == set()


def test_files_of_other_kinds_go_too() -> None:
    h = History()
    f = samples.file(1, 9, extra_files=("data-x.index",))
    h.table.file_io.write(h.path(f).rpartition("/")[0] + "/data-x.index", b"i")
    h.add(f)
    h.compact(f, into=samples.file(1, 9, level=5))
    h.add()
    assert needed(h.table) == present(h.table)
    expire(h)
    assert needed(h.table) == present(h.table)
    assert not any(p.endswith("data-x.index") for p in present(h.table))


def test_without_a_look_at_the_files_the_result_is_the_same() -> None:
    a, b = compacted()[0], compacted()[0]
    assert expire(a).files == expire(b, replace(ALL_BUT_ONE, exact=False)).files
    assert leaked(b.table) == set()
    assert plan_expire(b.table, ALL_BUT_ONE, LATER) == ExpirePlan(4, 4)


def test_the_second_look_reads_only_new_manifests() -> None:
    h, (f0, f1, f2, g) = compacted()
    clear_cache()
    plan = plan_expire(h.table, ALL_BUT_ONE, LATER)
    before = {m.file_name for m in ManifestStore(h.table).data_manifests(h.table.snapshots.get(4))}
    h.add()
    newest = ManifestStore(h.table).data_manifests(h.table.snapshots.get(5))
    clear_cache()
    recorder = Recorder()
    execute_expire(replace(h.table, file_io=FaultFileIO(h.table.file_io, recorder)), plan)
    opened = [path.rpartition("/")[2] for operation, path in recorder.log if operation == "read"]
    manifests = {n for n in opened if n.startswith("manifest-") and not n.startswith("manifest-list-")}
    assert manifests == {m.file_name for m in newest} - before != set()
    assert [h.exists(x) for x in (f0, f1, f2, g)] == [False, False, True, True]
    assert (lost(h.table), leaked(h.table)) == (set(), set())

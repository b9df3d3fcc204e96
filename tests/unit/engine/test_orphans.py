"""Exactly the old files that nothing reaches go; everything else stays, whatever happened to the table before."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.maintenance.deletion import DELETE, WARN
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.table import Table
from paimon_spark.engine.expiry.orphans import OrphanPlan, execute_orphans, plan_orphans
from paimon_spark.engine.refs.tags import execute_tag, plan_create_tag
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import ArgumentError, CorruptTableError, ErrorKind, UnsupportedError
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.refs import Consumer
from tests.unit.core import samples
from tests.unit.core.history import leaked, lost, needed
from tests.unit.engine.test_maintenance_histories import Story

NOW = 4_102_444_800_000
HOUR = 3_600_000
OLD_S, YOUNG_S = (NOW - 100 * HOUR) / 1000, (NOW - HOUR) / 1000
UUID = "0b0e7c0e-9d5c-4b52-8d3a-3f0d1c9b2a11"


def plan(*tables: Table, older_than: int | None = None, parallelism: int | None = None) -> OrphanPlan:
    clear_cache()
    return plan_orphans(tables, LocalRunner(), clock_millis=NOW, older_than=older_than, parallelism=parallelism)


def age(root: str, seconds: float = OLD_S) -> None:
    """Set the time of everything below a directory."""
    for path in [*Path(root).rglob("*"), Path(root)]:
        os.utime(path, (seconds, seconds))


def plant(root: str, name: str, *, old: bool = True, data: bytes = b"orphan") -> str:
    """Write an unreferenced file; return its path."""
    path = Path(root) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    seconds = OLD_S if old else YOUNG_S
    os.utime(path, (seconds, seconds))
    return str(path)


def files(root: str) -> set[str]:
    """Return every file below a directory."""
    return {str(p) for p in Path(root).rglob("*") if p.is_file()}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of two partitions with two snapshots, everything old."""
    made = samples.table(
        {"bucket": "1"}, keys=["k", "p"], partitions=["p"], file_io=LocalFileIO(), path=str(tmp_path / "db.db" / "t")
    )
    for value in ("a", "b"):
        file = samples.file(1, 9)
        made.file_io.write(made.paths.data_file(samples.partition(value), 0, file), b"x" * file.file_size)
        FileStoreCommit(made).commit([samples.message(file, partition_value=value, total_buckets=1)])
    age(made.path)
    return made


GARBAGE = (
    "manifest/manifest-0",
    f"manifest/.manifest-list-1.{UUID}.tmp",
    "index/index-0",
    "statistics/stat-0",
    "p=a/bucket-0/junk-0.parquet",
    "p=c/bucket-7/junk-1.orc",
    "p=a/bucket-postpone/junk-2.parquet",
    f"snapshot/.snapshot-3.{UUID}.tmp",
    "snapshot/notes.txt",
    "changelog/old",
    f"tag/.tag-x.{UUID}.tmp",
    f"schema/.schema-1.{UUID}.tmp",
    f"consumer/.consumer-c.{UUID}.tmp",
)
FOREIGN = (
    "README",
    "p=a/README",
    "p=a/other/junk-3.parquet",
    "p=a/q=b/bucket-0/junk-4.parquet",
    "bucket-0/junk-5.parquet",
    "other/bucket-0/junk-6.parquet",
    "service/service-primary",
    "manifest/deep/manifest-1",
    "p=a/bucket-0/deep/junk-7.parquet",
    "p=a/bucket-0/b.managed.blob",
    "snapshot/snapshot-9.tmp",
    "snapshot/LATEST.tmp/x",
    "consumer/.hidden",
    "schema/.tmp",
    ".trash/bucket-0/junk-8.parquet",
)


def test_only_known_places_are_cleaned(table: Table) -> None:
    gone = {plant(table.path, name) for name in GARBAGE}
    kept = files(table.path) - gone | {plant(table.path, name) for name in FOREIGN}
    young = {plant(table.path, f"{name}-young", old=False) for name in GARBAGE if not name.endswith(".tmp")}
    found = plan(table)
    assert {a.path for a in found.files} == gone
    assert {a.bytes for a in found.files} == {6}
    assert files(table.path) == gone | kept | young
    done = execute_orphans(found)
    assert (done.files, done.bytes) == (len(gone), 6 * len(gone))
    assert files(table.path) == kept | young
    assert lost(table) == set()
    assert plan(table).files == []


def test_empty_directories_go_with_their_last_file(table: Table) -> None:
    plant(table.path, "p=c/bucket-0/junk-0.parquet")
    plant(table.path, "p=d/bucket-0/junk-0.parquet")
    plant(table.path, "p=d/bucket-1/junk-0.parquet", old=False)
    plant(table.path, "p=e/bucket-0/junk-0.parquet")
    plant(table.path, "p=e/foreign")
    (Path(table.path) / "p=f/bucket-0").mkdir(parents=True)
    (Path(table.path) / "p=g").mkdir()
    age(f"{table.path}/p=c")
    age(f"{table.path}/p=e")
    age(f"{table.path}/p=f")
    os.utime(f"{table.path}/p=d/bucket-0", (OLD_S, OLD_S))
    os.utime(f"{table.path}/p=g", (NOW / 1000, NOW / 1000))
    found = plan(table)
    gone = ["p=c/bucket-0", "p=c", "p=d/bucket-0", "p=e/bucket-0", "p=f/bucket-0", "p=f"]
    assert {a.path for a in found.actions if a.bytes == 0} == {f"{table.path}/{d}" for d in gone}
    execute_orphans(found)
    left = {p.relative_to(table.path).as_posix() for p in Path(table.path).rglob("p=*") if p.is_dir()}
    assert left == {"p=a", "p=b", "p=d", "p=e", "p=g"}
    assert not (Path(table.path) / "p=e/bucket-0").exists()


def test_a_directory_that_got_a_file_meanwhile_stays(table: Table) -> None:
    plant(table.path, "p=c/bucket-0/junk-0.parquet")
    age(f"{table.path}/p=c")
    found = plan(table)
    new = plant(table.path, "p=c/bucket-0/junk-1.parquet", old=False)
    execute_orphans(found)
    assert Path(new).exists()


def test_what_a_commit_published_after_the_plan_stays(table: Table) -> None:
    file = samples.file(1, 9)
    path = table.paths.data_file(samples.partition("a"), 0, file)
    plant(path.rpartition("/")[0], file.file_name, data=b"x" * file.file_size)
    found = plan(table)
    assert [a.path for a in found.files] == [path]
    FileStoreCommit(table).commit([samples.message(file, partition_value="a", total_buckets=1)])
    assert execute_orphans(found).files == 0
    assert lost(table) == set()


def test_files_of_branches_and_tags_stay(table: Table) -> None:
    branch = replace(table, branch="dev")
    branch.schema_store.try_create(table.schema)
    file = samples.file(1, 9)
    table.file_io.write(table.paths.data_file(samples.partition("z"), 0, file), b"x" * file.file_size)
    FileStoreCommit(branch).commit([samples.message(file, partition_value="z", total_buckets=1)])
    execute_tag(table, plan_create_tag(table, "keep", snapshot_id=1, clock_millis=0))
    table.file_io.delete(table.paths.snapshot(1))
    age(table.path)
    stray = plant(table.path, "branch/branch-dev/snapshot/leftover")
    assert [a.path for a in plan(table).files] == [stray]
    assert [a.path for a in plan(branch).files] == [stray]
    assert lost(table) == set()
    table.file_io.delete(table.paths.tag("keep"))
    assert len(plan(table).files) > 1


def test_a_branch_without_schema_stops_everything(table: Table) -> None:
    plant(table.path, "manifest/manifest-0")
    plant(table.path, "branch/branch-odd/snapshot/snapshot-1")
    with pytest.raises(CorruptTableError, match="branch 'odd'"):
        plan(table)


def test_an_unreadable_manifest_stops_everything(table: Table) -> None:
    plant(table.path, "manifest/manifest-0")
    latest = table.snapshots.latest()
    assert latest is not None
    table.file_io.delete(table.paths.manifest(latest.base_manifest_list))
    with pytest.raises(CorruptTableError) as caught:
        plan(table)
    assert caught.value.kind is ErrorKind.FILE_MISSING


class Stale(LocalFileIO):
    """A store whose listing of snapshots lags behind."""

    __slots__ = ()

    def list(self, path: str) -> list[object]:  # type: ignore[override]
        found = super().list(path)
        return [s for s in found if s.name != "snapshot-2"]


def test_a_listing_without_the_newest_snapshot_stops_everything(table: Table) -> None:
    stale = replace(table, file_io=Stale())
    with pytest.raises(CorruptTableError, match="does not show snapshot 2"):
        plan(stale)


def test_links_are_not_followed(table: Table, tmp_path: Path) -> None:
    outside = plant(str(tmp_path), "elsewhere/bucket-0/junk-0.parquet")
    (Path(table.path) / "p=l").symlink_to(tmp_path / "elsewhere")
    (Path(table.path) / "p=a/bucket-9").symlink_to(tmp_path / "elsewhere/bucket-0")
    (Path(table.path) / "manifest/link").symlink_to(outside)
    assert plan(table).actions == []


def test_bad_arguments(table: Table) -> None:
    for older_than in (NOW, NOW + HOUR):
        with pytest.raises(ArgumentError, match="not in the past"):
            plan(table, older_than=older_than)
    with pytest.raises(ArgumentError, match="parallelism is 0"):
        plan(table, parallelism=0)
    with pytest.raises(UnsupportedError, match="format-table"):
        plan(replace(table, options=CoreOptions({"type": "format-table"})))


def test_files_in_other_places_are_named(table: Table) -> None:
    found = plan(table.with_options({"data-file.external-paths": "file:/elsewhere"}))
    assert [(a.action, a.path) for a in found.actions] == [(WARN, "file:/elsewhere")]


@pytest.mark.parametrize("parallelism", [1, 2, 7, 100])
def test_any_number_of_tasks_finds_the_same(table: Table, parallelism: int) -> None:
    gone = {plant(table.path, f"p={v}/bucket-{b}/junk-{v}{b}.parquet") for v in "abcdefgh" for b in range(3)}
    other = samples.table({"bucket": "1"}, keys=["k"], file_io=LocalFileIO(), path=f"{table.path}2")
    gone.add(plant(other.path, "bucket-0/junk-x.parquet"))
    age(f"{other.path}/bucket-0")
    found = plan(table, other, parallelism=parallelism)
    assert {a.path for a in found.files} == gone
    assert {a.action for a in found.actions} == {DELETE}
    assert f"{other.path}/bucket-0" in {a.path for a in found.actions}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "compact", "upgrade", "tag", "untag", "expire", "rollback", "branch", "crash"]),
        st.integers(0, 99),
    ),
    max_size=16,
)
PLANTS = st.lists(
    st.tuples(st.sampled_from(["manifest", "index", "statistics", "bucket-0", "bucket-3"]), st.booleans()), max_size=5
)


@given(steps=STEPS, plants=PLANTS, consumer=st.booleans())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_after_any_history_the_reachable_and_the_young_stay(
    steps: list[tuple[str, int]], plants: list[tuple[str, bool]], *, consumer: bool
) -> None:
    with TemporaryDirectory() as directory:
        story = Story(file_io=LocalFileIO(), path=f"{directory}/db.db/t")
        for step, n in steps:
            story.run(step, n)
        table = story.history.table
        if consumer:
            table.file_io.write(table.paths.consumer("c"), Consumer(1).to_json().encode())
        age(table.path)
        young = {plant(table.path, f"{where}/planted-{n}", old=old) for n, (where, old) in enumerate(plants) if not old}
        for n, (where, old) in enumerate(plants):
            if old:
                plant(table.path, f"{where}/planted-{n}")
        clear_cache()
        unreachable, reachable = leaked(table) - young, needed(table)
        others = files(table.path) - unreachable
        found = plan(table)
        assert {a.path for a in found.files} == unreachable
        assert execute_orphans(found).files == len(unreachable)
        clear_cache()
        assert files(table.path) == others
        assert lost(table) == set()
        assert leaked(table) == young
        assert reachable == needed(table)

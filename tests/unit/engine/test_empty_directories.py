"""Expiry with `snapshot.clean-empty-directories`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.maintenance.empty_directories import remove_empty_directories
from paimon_spark.core.table import Table
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.refs.tags import execute_delete_tags, execute_tag, plan_create_tag, plan_delete_tags
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.spec.predicate import Comparison
from paimon_spark.testing.faults import FaultFileIO, Mode
from tests.unit.core import samples

KEY = "snapshot.clean-empty-directories"
ALIAS = "snapshot.expire.clean-empty-directories"
ALL_BUT_ONE = ExpireConfig(retain_max=1, retain_min=1, max_deletes=1000)
LATER = 10**12


@pytest.fixture
def made(tmp_path: Path, request: pytest.FixtureRequest) -> Table:
    options = getattr(request, "param", {KEY: "true"})
    table = samples.table(options, partitions=["p"], file_io=LocalFileIO(), path=str(tmp_path / "t"))
    add(table, "a")
    add(table, "b")
    return table


def add(table: Table, day: str) -> None:
    file = samples.file()
    table.file_io.write(table.paths.data_file(samples.partition(day), 0, file), b"x")
    FileStoreCommit(table).commit([samples.message(file, partition_value=day)])


def drop(table: Table, day: str) -> None:
    FileStoreCommit(table).overwrite([], partitions=Comparison("=", "p", day))


def expire(table: Table) -> None:
    execute_expire(table, plan_expire(table, ALL_BUT_ONE, LATER))


def partitions(table: Table) -> set[str]:
    return {s.name for s in table.file_io.list(table.path) if s.name.startswith("p=")}


@pytest.mark.parametrize("made", [{KEY: "true"}, {ALIAS: "true"}], indirect=True)
def test_an_emptied_partition_goes_with_its_last_file(made: Table) -> None:
    drop(made, "a")
    assert partitions(made) == {"p=a", "p=b"}
    expire(made)
    assert partitions(made) == {"p=b"}


@pytest.mark.parametrize("made", [{}], indirect=True)
def test_directories_stay_by_default(made: Table) -> None:
    drop(made, "a")
    expire(made)
    assert partitions(made) == {"p=a", "p=b"}


def test_a_directory_with_other_files_stays(made: Table) -> None:
    Path(made.path, "p=a", "_SUCCESS").write_text("{}")
    drop(made, "a")
    expire(made)
    assert [p.name for p in Path(made.path, "p=a").iterdir()] == ["_SUCCESS"]


def test_the_tag_that_kept_a_partition_takes_its_directory(made: Table) -> None:
    execute_tag(made, plan_create_tag(made, "keep", clock_millis=0))
    drop(made, "a")
    expire(made)
    assert partitions(made) == {"p=a", "p=b"}
    execute_delete_tags(made, plan_delete_tags(made, "keep"))
    assert partitions(made) == {"p=b"}


def test_a_writer_whose_directory_was_removed_creates_it_again(made: Table) -> None:
    drop(made, "a")
    Path(made.path, "p=a", "bucket-1").mkdir()  # a writer is about to open its file
    plan = plan_expire(made, ALL_BUT_ONE, LATER)
    execute_expire(made, plan)
    assert partitions(made) == {"p=a", "p=b"}
    remove_empty_directories(made, [f"{made.path}/p=a/bucket-1/data-0.parquet"])
    assert partitions(made) == {"p=b"}
    add(made, "a")
    assert partitions(made) == {"p=a", "p=b"}


@pytest.mark.parametrize(
    "path", ["manifest/manifest-1", "bucket-0/data-1", "p=a/data-1", "p=a/q=b/bucket-0/data-1", "p=a/other/data-1"]
)
def test_only_directories_of_buckets_are_removed(made: Table, path: str) -> None:
    directory = Path(made.path, path).parent
    directory.mkdir(parents=True, exist_ok=True)
    remove_empty_directories(made, [f"{made.path}/{path}", f"/elsewhere/{path}"])
    assert directory.exists()


def test_an_unpartitioned_table_keeps_its_own_directory(tmp_path: Path) -> None:
    table = samples.table({KEY: "true"}, file_io=LocalFileIO(), path=str(tmp_path / "t"))
    Path(table.path, "bucket-0").mkdir()
    remove_empty_directories(table, [f"{table.path}/bucket-0/data-1"])
    assert not Path(table.path, "bucket-0").exists()
    assert Path(table.path).exists()


class _NoRemoval:
    """A schedule in which no directory can be removed."""

    def choose(self, operation: str, path: str) -> Mode | None:
        return Mode.BEFORE if operation == "delete_empty_dir" else None


def test_a_directory_that_cannot_be_removed_stays(made: Table) -> None:
    drop(made, "a")
    expire(replace(made, file_io=FaultFileIO(made.file_io, _NoRemoval())))
    assert made.snapshots.ids() == [3]
    assert partitions(made) == {"p=a", "p=b"}

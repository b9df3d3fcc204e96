"""remove_orphan_files in a Spark session: directories are listed by a job, and exactly the old orphans go."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

DAY_S = 86_400


def files(root: Path) -> set[str]:
    """Return the files below a directory without those in the trash."""
    found = {p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file()}
    return {p for p in found if ".trash/" not in p}


def trash(table: Path) -> set[str]:
    """Return the files in the only run of the trash, as they were called in the table."""
    (run,) = (table / ".trash").iterdir()
    return {p.relative_to(run / "files").as_posix() for p in (run / "files").rglob("*") if p.is_file()}


def age(root: Path, days: float) -> None:
    seconds = time.time() - days * DAY_S
    for path in [*root.rglob("*"), root]:
        os.utime(path, (seconds, seconds))


def plant(table: Path, name: str, days: float) -> str:
    path = table / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"nobody's")
    age(table / name.split("/", 1)[0], days)
    return name


@pytest.fixture
def database(spark: SparkSession, warehouse: Path) -> Path:
    """A database of an append table in twelve partitions and a table with a primary key, all three days old."""
    spark.sql("CREATE TABLE a (id BIGINT, p INT) PARTITIONED BY (p)")
    spark.sql("INSERT INTO a SELECT id, id % 12 FROM range(24)")
    spark.sql("DELETE FROM a WHERE id = 3")
    spark.sql("CREATE TABLE k (id BIGINT, v STRING) TBLPROPERTIES ('primary-key'='id')")
    spark.sql("INSERT INTO k SELECT id, 'x' FROM range(9)")
    spark.sql("CALL sys.create_tag('k', 'first')")
    spark.sql("INSERT INTO k VALUES (1, 'y')")
    place = warehouse / f"{spark.sql('SELECT current_database()').first()[0]}.db"  # type: ignore[index]
    age(place, 3)
    return place


def test_exactly_the_old_orphans_go(spark: SparkSession, database: Path) -> None:
    table = database / "a"
    needed = files(table)
    old = {plant(table, f"p={n}/bucket-0/junk-{n}.parquet", 3) for n in range(15)}
    old |= {plant(table, "manifest/junk", 3), plant(table, "snapshot/.snapshot-9.tmp", 3)}
    young = {plant(table, "p=77/bucket-0/junk.parquet", 0.5)}
    rows = spark.sql("CALL sys.remove_orphan_files(table => 'a', dry_run => true)").collect()
    assert {r.path.partition(f"{database.name}/a/")[2] for r in rows} == old
    assert {(r.deletedFileCount, r.deletedFileTotalLenInBytes) for r in rows} == {(17, 8 * 17)}
    assert files(table) == needed | old | young
    done = spark.sql("CALL sys.remove_orphan_files('a')").collect()
    assert [(r.deletedFileCount, r.deletedFileTotalLenInBytes, r.path) for r in done] == [(17, 8 * 17, None)]
    assert (files(table), trash(table)) == (needed | young, old)
    assert {p.name for p in table.glob("p=*")} == {f"p={n}" for n in range(12)} | {"p=77"}
    assert spark.sql("SELECT count(*), sum(id) FROM a").collect() == [(23, sum(range(24)) - 3)]
    assert spark.sql("SELECT count(*) FROM a VERSION AS OF 1").collect() == [(24,)]


def test_a_whole_database_in_one_job(spark: SparkSession, database: Path) -> None:
    needed = files(database)
    for name in ("a/p=1/bucket-0/junk", "k/bucket-0/junk", "k/index/junk"):
        plant(database, name, 3)
    context = spark.sparkContext
    context.setJobGroup("cleaning", "remove_orphan_files")
    call = f"CALL sys.remove_orphan_files('{database.name.removesuffix('.db')}.*', '', '', 5)"
    assert spark.sql(call).collect()[0].deletedFileCount == 3
    tracker = context.statusTracker()
    stages = [
        tracker.getStageInfo(s) for j in tracker.getJobIdsForGroup("cleaning") for s in tracker.getJobInfo(j).stageIds
    ]  # type: ignore[union-attr]
    assert [s.numTasks for s in stages if s is not None] == [5]
    assert files(database) == needed
    assert [len(trash(database / name)) for name in ("a", "k")] == [1, 2]
    assert spark.sql("SELECT v FROM k WHERE id = 1").collect() == [("y",)]
    assert spark.sql("SELECT v FROM k VERSION AS OF 'first' WHERE id = 1").collect() == [("x",)]

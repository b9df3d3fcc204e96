"""The tables that list files which are not there are tables like any other, and the measurements really do their work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import scaling
from benchmarks.synthetic import Shape, build, open_synthetic
from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.engine.select import plan_select

SHAPE = Shape(files=240, partitions=4, buckets=6, snapshots=3)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    build(tmp_path, SHAPE)
    return tmp_path


def test_a_table_lists_what_its_shape_says(place: Path) -> None:
    table = open_synthetic(place, SHAPE).table
    latest = table.snapshots.latest()
    assert latest is not None
    assert latest.id == 2 + SHAPE.snapshots - 1
    plan = plan_select(table)
    one_more, really_written = 1, 1
    assert plan.counts.files == SHAPE.files + one_more + really_written
    assert plan.counts.partitions == SHAPE.partitions
    assert latest.total_record_count == plan.counts.rows
    overlapping = {(s.partition, s.bucket) for s in plan.splits if not s.raw}
    assert len(overlapping) == SHAPE.partitions * SHAPE.buckets // 8 + one_more + really_written


def test_filters_find_the_files_of_a_day_and_of_a_key(place: Path) -> None:
    table = open_synthetic(place, SHAPE).table
    of_a_day = plan_select(table, predicate=scaling._day(1))
    assert of_a_day.counts.files == SHAPE.files // SHAPE.partitions
    with_a_key = plan_select(table, predicate=scaling.one_key(1))
    assert 1 <= with_a_key.counts.files <= 2


def test_measurements_do_what_they_say(place: Path) -> None:
    table = open_synthetic(place, SHAPE).table
    before = table.snapshots.latest_id() or 0
    names = [c.operation for body in scaling.MEASUREMENTS for c in body(place, SHAPE)]
    assert len(names) == len(set(names)) == 11
    assert (table.snapshots.latest_id() or 0) == before + 4
    assert len(table.snapshots.ids()) == 1


def test_a_commit_replaces_the_file_that_it_is_told_to(place: Path) -> None:
    synthetic = open_synthetic(place, SHAPE)
    first = synthetic.one_more(1_000)
    FileStoreCommit(synthetic.table).commit([first])
    FileStoreCommit(synthetic.table).commit([synthetic.one_more(1_001, first.new_files[0])])
    assert plan_select(synthetic.table).counts.files == SHAPE.files + 3


def test_the_program_writes_what_it_measured(tmp_path: Path) -> None:
    axes = ["--files", "200", "--spread", "200", "--partitions", "", "--buckets", "", "--snapshots", "3"]
    here = [*axes, "--out", str(tmp_path)]
    assert scaling.main(here, lambda body, place, shape: body(place, shape)) == 0
    written = json.loads((tmp_path / "scaling.json").read_text())
    assert [t["axis"] for t in written["tables"]] == ["files", "snapshots"]
    assert written["tables"][0]["manifests"] >= 1
    assert all(c["seconds"] >= 0 and c["memory_mb"] > 0 for t in written["tables"] for c in t["costs"])

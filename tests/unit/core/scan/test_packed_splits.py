"""Splits of packed files are those of the same files as objects."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.core import many_files
from paimon_spark import connect
from paimon_spark.core.manifest_cache import ManifestCache, ManifestLimits
from paimon_spark.core.scan.packed_files import PackedFileList, PackedFileStore, PackingLimits
from paimon_spark.core.scan.result import PackedScan, ScanCounts, ScanResult
from paimon_spark.core.scan.splits import Split, plan_splits
from paimon_spark.engine.select import plan_select
from paimon_spark.format.manifest.lazy_manifest import Manifest
from paimon_spark.spec.kinds import FileKind
from paimon_spark.spec.manifest import EMPTY_STATS, BucketKey, DataFileMeta, ManifestEntry
from tests.unit.core import samples

SEQUENCES = st.one_of(st.integers(0, 3), st.integers(-(2**62), 2**63 - 1))
LETTERS = st.text(st.sampled_from("ab\u00e9\u4e00\U0001f600"), min_size=1, max_size=30)
NAMES = st.one_of(LETTERS, st.builds("data-{}-{}.parquet".format, st.uuids(), st.integers(0, 20)))
FILES = st.lists(st.tuples(NAMES, SEQUENCES, st.integers(0, 1 << 33), st.integers(0, 1 << 40)), min_size=1, max_size=60)


def packed_scan(files: list[DataFileMeta], places: list[int], parts: int, limits: PackingLimits) -> PackedScan:
    pool = PackedFileStore(statistics=False, limits=limits)
    for some in np.array_split(np.arange(len(files)), parts):
        manifest = Manifest(ManifestEntry(FileKind.ADD, samples.partition(), 0, 1, f) for f in files)
        columns = manifest.entry_columns()
        pool.add(manifest.packed_files(some, statistics=False), columns.size[some], columns.rows[some])
    buckets = sorted(set(places))
    numbers = tuple(np.flatnonzero(np.array(places) == b).astype(np.uint32) for b in buckets)
    where = tuple((BucketKey(samples.partition(), b), 4) for b in buckets)
    return PackedScan(samples.snapshot(4), pool, where, numbers, (), ScanCounts())


def plain(split: Split) -> Split:
    return replace(split, files=tuple(split.files))


@given(FILES, st.data())
def test_any_files_of_an_append_table(drawn: list[tuple[str, int, int, int]], data: st.DataObject) -> None:
    table = samples.table({"bucket": "4", "bucket-key": "k", "source.split.target-size": "6 gb"})
    files = [
        samples.file(file_name=name, min_sequence_number=first, file_size=size, rows=rows, value_stats=EMPTY_STATS)
        for name, first, size, rows in drawn
    ]
    places = data.draw(st.lists(st.integers(0, 3), min_size=len(files), max_size=len(files)))
    parts = data.draw(st.integers(1, 5))
    limits = PackingLimits(
        files_at_once=data.draw(st.integers(1, 70)),
        gap_bytes=data.draw(st.sampled_from([0, 100, 10_000])),
        parts=2,
        buffered_bytes=data.draw(st.sampled_from([0, 500, 1 << 20])),
    )
    found = plan_splits(table, packed_scan(files, places, parts, limits))
    order = sorted(range(len(files)), key=places.__getitem__)
    entries = tuple(ManifestEntry(FileKind.ADD, samples.partition(), places[i], 4, files[i]) for i in order)
    usual = plan_splits(table, ScanResult(samples.snapshot(4), entries))
    assert all(isinstance(s.files, PackedFileList) for s in found)
    assert [plain(s) for s in found] == usual
    assert [(s.size, s.file_rows) for s in found] == [(s.size, s.file_rows) for s in usual]


def memory_of_a_plan(place: Path, files: int) -> tuple[int, int]:
    """Return the bytes that the plan of an append table takes in the end, and at most."""
    connect(place).create_database("bench")
    table, _ = many_files(place, files)
    table = replace(table, manifest_cache=ManifestCache(ManifestLimits(cached_bytes=1, many_files=0)))
    tracemalloc.start()
    try:
        plan = plan_select(table)
        assert plan.counts.files == files + 1
        return tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


def test_a_plan_has_nothing_of_a_single_file_in_memory(tmp_path: Path) -> None:
    few, many = 10_000, 30_000
    memory_of_a_plan(tmp_path / "first", 100)
    before, most_before = memory_of_a_plan(tmp_path / "few", few)
    after, most_after = memory_of_a_plan(tmp_path / "many", many)
    assert after - before < 40 * (many - few)
    assert most_after - most_before < 120 * (many - few)

"""Plans of very many files are the plans of few, packed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.scaling import _day, one_key
from benchmarks.synthetic import FIRST_DAY, Shape, build, open_synthetic
from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.manifest_cache import EntryCache, ManifestCache, ManifestLimits, clear_cache
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.scan.bucket_totals import bucket_totals
from paimon_spark.core.scan.packed_files import PackedFileList
from paimon_spark.core.scan.scan import live_in_partitions, scan_buckets, scan_places
from paimon_spark.core.scan.splits import Split, splits_from_json, splits_to_json
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import Strategy, plan_compaction
from paimon_spark.engine.select import plan_select
from paimon_spark.spec.manifest import EMPTY_STATS, BucketKey, DataFileMeta
from paimon_spark.spec.predicate import Comparison, Predicate, and_
from tests.unit.core import samples

SHAPE = Shape(files=1_500, partitions=5, buckets=6, snapshots=4)
FILTERS: dict[str, Predicate | None] = {
    "none": None,
    "partition": _day(3),
    "partitions": Comparison(">", "day", FIRST_DAY + 2),
    "no partition": _day(77),
    "key": one_key(2),
    "part of a key": Comparison("<", "id", 2_500),
    "value": Comparison(">", "note", "note 9"),
    "no value": Comparison(">", "note", "z"),
    "both": and_(_day(1), Comparison("<", "amount", 1_000)),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a table with some DELETE entries, of a file in the same manifest and of one in another."""
    root = tmp_path_factory.mktemp("packed")
    build(root, SHAPE)
    synthetic = open_synthetic(root, SHAPE)
    gone = next(s for s in plan_select(synthetic.table, predicate=_day(4)).splits if s.bucket == 0 and len(s.files) > 1)
    for number, file in enumerate(gone.files):
        FileStoreCommit(synthetic.table).commit([synthetic.one_more(1_000 + number, file)])
    return root


def packed(table: Table, **limits: int) -> Table:
    """Return the table with a cache of its own, by which all that scans find of it is packed."""
    return replace(
        table, manifest_cache=ManifestCache(ManifestLimits(**{"many_files": 0, "fewest_blocks": 1} | limits))
    )


def paths_in_cache(table: Table) -> set[str]:
    assert table.manifest_cache is not None
    return set(table.manifest_cache.manifests._items)


def lean(file: DataFileMeta) -> DataFileMeta:
    return replace(file, key_stats=EMPTY_STATS, value_stats=EMPTY_STATS)


def plain(split: Split) -> Split:
    return replace(split, files=tuple(map(lean, split.files)))


@pytest.mark.parametrize("name", FILTERS)
def test_a_packed_plan_is_the_same(name: str, place: Path) -> None:
    table = open_synthetic(place, SHAPE).table

    _same(table, FILTERS[name])


def _same(table: Table, predicate: Predicate | None) -> None:
    clear_cache()
    usual = plan_select(table, predicate=predicate)
    found = plan_select(packed(table), predicate=predicate)
    assert found.counts == usual.counts
    assert found.row_count == usual.row_count
    assert all(isinstance(s.files, PackedFileList) for s in found.splits)
    assert [plain(s) for s in found.splits] == [plain(s) for s in usual.splits]
    assert [(s.size, s.file_rows) for s in found.splits] == [(s.size, s.file_rows) for s in usual.splits]
    assert splits_from_json(splits_to_json(found.splits)) == [plain(s) for s in usual.splits]


def append_table() -> Table:
    table = samples.table(partitions=["p"])
    for p in "abc":
        files = [samples.file(v=i, rows=i + 1) for i in range(7)]
        FileStoreCommit(table).commit([samples.message(*files, partition_value=p)])
    return table


@pytest.mark.parametrize("predicate", [None, Comparison("=", "p", "b"), Comparison(">", "v", 3)])
def test_a_packed_plan_of_an_append_table_is_the_same(predicate: Predicate | None) -> None:
    table = append_table()
    _same(table, predicate)


@pytest.mark.parametrize("strategy", Strategy)
def test_a_choice_among_packed_files_is_the_same(strategy: Strategy, place: Path) -> None:
    table = open_synthetic(place, SHAPE).table
    clear_cache()
    usual = plan_compaction(table, strategy=strategy)
    assert plan_compaction(packed(table), strategy=strategy) == usual
    assert usual.tasks


def test_more_than_the_cache_holds_leaves_what_is_in_it(place: Path) -> None:
    table = packed(open_synthetic(place, SHAPE).table)
    plan_select(table, predicate=_day(1))
    assert paths_in_cache(table)
    small = packed(table, cached_bytes=1)
    assert len(plan_select(small, predicate=_day(1)).splits) > 0
    assert not paths_in_cache(small)


def test_small_manifests_that_the_cache_cannot_hold_stay_out() -> None:
    table = samples.table({"manifest.target-file-size": "4 kb"})
    FileStoreCommit(table).commit([samples.message(*(samples.file() for _ in range(2_000)))])
    table, small = packed(table), packed(table, cached_bytes=1_000_000)
    plan = plan_select(table)
    assert plan.counts.manifests_read > 1
    assert len(paths_in_cache(table)) == plan.counts.manifests_read
    assert plan_select(small) == plan
    assert not paths_in_cache(small)


@pytest.mark.parametrize("name", FILTERS)
def test_warm_plans_are_what_cold_ones_are(name: str, place: Path) -> None:
    table = replace(open_synthetic(place, SHAPE).table, manifest_cache=ManifestCache(ManifestLimits(fewest_blocks=1)))
    cold = plan_select(table, predicate=FILTERS[name])
    assert plan_select(table, predicate=FILTERS[name]) == cold
    plan_select(table)  # whose entries all plans are made of from here on
    assert plan_select(table, predicate=FILTERS[name]) == cold


@pytest.mark.parametrize(("limit", "forgotten"), [(1 << 24, False), (1 << 19, True), (1, True)])
def test_entries_are_unpacked_once_as_far_as_the_limit_goes(limit: int, forgotten: bool, place: Path) -> None:
    cache = ManifestCache(ManifestLimits(fewest_blocks=1))
    cache.entries = EntryCache(limit)
    table = replace(open_synthetic(place, SHAPE).table, manifest_cache=cache)
    first = _entry_of(table, 0)
    assert (_entry_of(table, 0) is first) == (limit > 1)
    for day in range(1, SHAPE.partitions):
        plan_select(table, predicate=_day(day))
    assert (_entry_of(table, 0) is not first) == forgotten
    assert cache.entries._weight <= limit


def _entry_of(table: Table, day: int) -> DataFileMeta:
    return plan_select(table, predicate=_day(day)).splits[0].files[0]


@pytest.mark.parametrize("limits", [{}, {"fewest_blocks": 1 << 30}], ids=["packed", "objects"])
def test_the_totals_of_buckets_are_those_of_their_files(limits: dict[str, int], place: Path) -> None:
    table = packed(open_synthetic(place, SHAPE).table, **limits)
    store, latest = ManifestStore(table), table.snapshots.latest()
    expected: dict[tuple[BucketKey, int], tuple[int, int]] = {}
    for e in live_in_partitions(store, latest, None):
        sequence, rows = expected.get((e.bucket_key, e.total_buckets), (-1, 0))
        expected[e.bucket_key, e.total_buckets] = (max(sequence, e.file.max_sequence_number), rows + e.file.row_count)
    found: dict[tuple[BucketKey, int], tuple[int, int]] = {}
    for t in bucket_totals(store, latest):
        key = BucketKey(t.partition, t.bucket)
        sequence, rows = found.get((key, t.total_buckets), (-1, 0))
        found[key, t.total_buckets] = (max(sequence, t.max_sequence), rows + t.rows)
    assert found == expected
    assert len(found) >= SHAPE.partitions * SHAPE.buckets
    assert list(bucket_totals(store, None)) == []
    some = {k.partition for k, _ in expected if k.partition > min(k.partition for k, _ in expected)}
    assert {t.partition for t in bucket_totals(store, latest, some)} == some


@pytest.mark.parametrize("many_files", [0, 1 << 30])
def test_some_buckets_are_found_without_the_other_partitions(many_files: int, place: Path) -> None:
    synthetic = open_synthetic(place, SHAPE)
    table = packed(synthetic.table, many_files=many_files)
    latest = table.snapshots.latest()
    places = {BucketKey(synthetic.day(1), 2), BucketKey(synthetic.day(3), 4), BucketKey(synthetic.day(99), 4)}
    whole = {(b.partition, b.bucket): b.files for b in scan_buckets(table, latest, statistics=True).buckets()}
    found = {(b.partition, b.bucket): b.files for b in scan_places(table, latest, places).buckets()}
    assert {p for p, _ in found} == {synthetic.day(1), synthetic.day(3)}
    assert {b for _, b in found} == {2, 4}
    assert found == {key: whole[key] for key in found}

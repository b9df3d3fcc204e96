from __future__ import annotations

from paimon_spark.core.scan.result import ScanResult
from paimon_spark.core.scan.splits import Split, plan_splits, splits_from_json, splits_to_json
from paimon_spark.core.table import Table
from paimon_spark.spec.kinds import FileKind
from paimon_spark.spec.manifest import (
    DELETION_VECTORS_INDEX,
    DataFileMeta,
    DeletionRange,
    IndexFileMeta,
    IndexManifestEntry,
    ManifestEntry,
)
from tests.small_tables import option_keys
from tests.unit.core import samples
from tests.unit.core.samples import snapshot

MB = 1 << 20
P = samples.partition()


def pk(**options: str) -> Table:
    return samples.table({"bucket": "1"} | option_keys(options), keys=["k"])


def plan(
    table: Table, files: list[DataFileMeta], index: tuple[IndexManifestEntry, ...] = (), **more: bool
) -> list[Split]:
    entries = tuple(ManifestEntry(FileKind.ADD, P, 0, 1, f) for f in files)
    return plan_splits(table, ScanResult(snapshot(4), entries, index), **more)


def shape(splits: list[Split]) -> list[tuple[int, bool]]:
    return [(len(s.files), s.raw) for s in splits]


def test_sections_are_packed_and_a_lone_clean_file_is_raw() -> None:
    files = [samples.file(i * 10, i * 10 + 5, file_size=size * MB) for i, size in enumerate((60, 70, 20))]
    assert shape(plan(pk(), files)) == [(1, True), (2, False)]


def test_settled_files_of_one_level_are_raw() -> None:
    files = [samples.file(i, i, level=5, file_size=MB) for i in range(40)]
    splits = plan(pk(), files)
    assert shape(splits) == [(32, True), (8, True)]
    assert [s.row_count for s in splits] == [32, 8]


def test_an_overlap_makes_a_merge_split() -> None:
    splits = plan(pk(), [samples.file(1, 2, level=5), samples.file(2, 2)])
    assert shape(splits) == [(2, False)]
    assert splits[0].row_count is None


def test_an_item_never_splits_a_section() -> None:
    def f(low: int, high: int, mb: int) -> DataFileMeta:
        return samples.file(low, high, file_size=mb * MB)

    files = [f(1, 9, 30), f(11, 15, 40), f(20, 90, 50), f(20, 95, 50), f(100, 300, 60), f(150, 320, 60)]
    assert shape(plan(pk(), files)) == [(2, False), (2, False), (2, False)]


def test_a_file_with_deletes_is_merged_even_alone() -> None:
    assert shape(plan(pk(), [samples.file(1, 2, delete_row_count=1)])) == [(1, False)]
    assert shape(plan(pk(), [samples.file(1, 2, delete_row_count=None)])) == [(1, False)]
    assert shape(plan(pk(), [samples.file(1, 2, level=5, delete_row_count=None)])) == [(1, True)]
    assert shape(plan(pk(), [samples.file(1, 2)], always_merge=True)) == [(1, False)]


def test_append_files_go_by_sequence_and_are_raw() -> None:
    files = [samples.file(min_sequence_number=n, max_sequence_number=n, file_size=100 * MB) for n in (5, 1, 3)]
    splits = plan(samples.table(), files)
    assert [s.files[0].min_sequence_number for s in splits] == [1, 3, 5]
    assert all(s.raw and s.row_count == 1 for s in splits)


def _vector(f: DataFileMeta, cardinality: int | None) -> IndexManifestEntry:
    file = IndexFileMeta(
        index_type=DELETION_VECTORS_INDEX,
        file_name="index-1",
        file_size=9,
        row_count=1,
        deletion_ranges=(DeletionRange(f.file_name, 1, 24, cardinality),),
    )
    return IndexManifestEntry(FileKind.ADD, P, 0, file)


def test_deletion_vectors_are_attached_and_counted() -> None:
    table = samples.table()
    one, two = samples.file(rows=10), samples.file(rows=5)
    (split,) = plan(table, [one, two], (_vector(two, 2),))
    assert split.row_count == 13
    assert split.vector_of(0) is None
    found = split.vector_of(1)
    assert found is not None
    assert (found.path, found.offset, found.length) == (f"{table.path}/index/index-1", 1, 24)
    (unknown,) = plan(table, [one, two], (_vector(two, None),))
    assert unknown.row_count is None
    assert splits_from_json(splits_to_json([split, unknown])) == [split, unknown]


def test_an_empty_table_has_no_splits() -> None:
    assert plan_splits(samples.table(), ScanResult(None)) == []

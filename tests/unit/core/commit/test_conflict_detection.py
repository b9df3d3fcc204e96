from __future__ import annotations

from dataclasses import replace

from paimon_spark.core.commit.change_set import Change
from paimon_spark.core.commit.conflict_detection import (
    BucketCountChanged,
    FileGone,
    FileLive,
    FileRepeated,
    IndexFileGone,
    KeyRangesOverlap,
    VectorChanged,
    describe,
    find_conflict,
    find_index_conflict,
    vector_conflict,
    vector_of_missing_file,
)
from paimon_spark.spec.kinds import CommitKind, FileKind
from paimon_spark.spec.manifest import (
    DELETION_VECTORS_INDEX,
    DataFileMeta,
    DeletionRange,
    IndexFileMeta,
    IndexManifestEntry,
    ManifestEntry,
)
from paimon_spark.spec.rows import encode_row
from paimon_spark.spec.types import TypeRoot, atomic
from tests.unit.core import samples

KEY = [samples.INT]
P = samples.partition()


def add(f: DataFileMeta, *, bucket: int = 0, total: int = 1) -> ManifestEntry:
    return ManifestEntry(FileKind.ADD, P, bucket, total, f)


def remove(f: DataFileMeta) -> ManifestEntry:
    return add(f).flipped()


def test_a_change_of_live_files_is_fine() -> None:
    a, b = samples.file(1, 5, level=1), samples.file(6, 9, level=1)
    assert find_conflict([add(a)], [remove(a), add(b)], CommitKind.COMPACT, KEY) is None
    assert find_conflict([add(a)], [add(b)], CommitKind.COMPACT, KEY) is None


def test_gone_live_and_repeated_files() -> None:
    a, b = samples.file(1, 5), samples.file(2, 3)
    assert find_conflict([add(b)], [remove(a)], CommitKind.COMPACT, KEY) == FileGone(P, 0, 0, a.file_name)
    assert find_conflict([add(a)], [add(a)], CommitKind.COMPACT, KEY) == FileLive(P, 0, 0, a.file_name)
    twice = FileRepeated(P, 0, 0, a.file_name)
    assert find_conflict([], [add(a), add(a)], CommitKind.COMPACT, KEY) == twice
    assert find_conflict([add(a)], [remove(a), add(a)], CommitKind.COMPACT, KEY) == twice
    assert find_conflict([add(a.upgrade(3))], [remove(a)], CommitKind.COMPACT, KEY) == FileGone(P, 0, 0, a.file_name)


def test_levels_above_0_stay_disjoint() -> None:
    low, high, middle = samples.file(1, 5, level=2), samples.file(6, 9, level=2), samples.file(5, 6, level=2)
    found = find_conflict([add(low), add(high)], [add(middle)], CommitKind.COMPACT, KEY)
    assert found == KeyRangesOverlap(P, 0, 2, low.file_name, middle.file_name)
    assert find_conflict([add(low), add(high)], [add(middle, bucket=1)], CommitKind.COMPACT, KEY) is None
    assert find_conflict([add(low), add(high)], [add(middle.upgrade(0))], CommitKind.COMPACT, KEY) is None
    swap = [remove(low), remove(high), add(middle)]
    assert find_conflict([add(low), add(high)], swap, CommitKind.COMPACT, KEY) is None


def test_files_that_end_and_begin_with_zero_are_disjoint() -> None:
    double = atomic(TypeRoot.DOUBLE)

    def file(low: float, high: float) -> DataFileMeta:
        return replace(samples.file(level=2), min_key=encode_row([low], [double]), max_key=encode_row([high], [double]))

    below, above = file(-1.0, -0.0), file(0.0, 1.0)
    assert find_conflict([], [add(below), add(above)], CommitKind.COMPACT, [double]) is None
    found = find_conflict([add(below)], [add(file(-0.0, 1.0))], CommitKind.COMPACT, [double])
    assert isinstance(found, KeyRangesOverlap)


def test_bucket_counts() -> None:
    a, b = samples.file(1, 1), samples.file(2, 2)
    assert find_conflict([add(a)], [add(b, total=2)], CommitKind.COMPACT, KEY) == BucketCountChanged(P, 0, 1, 2)
    assert find_conflict([add(a, total=-1)], [add(b, total=2)], CommitKind.COMPACT, KEY) is None
    assert find_conflict([add(a)], [remove(a), add(b, total=2)], CommitKind.OVERWRITE, KEY) is None


def _vectors(name: str, data_file: str) -> IndexManifestEntry:
    file = IndexFileMeta(
        index_type=DELETION_VECTORS_INDEX,
        file_name=name,
        file_size=1,
        row_count=1,
        deletion_ranges=(DeletionRange(data_file, 1, 2),),
    )
    return IndexManifestEntry(FileKind.ADD, P, 0, file)


def test_index_files() -> None:
    f = samples.file()
    one, two = _vectors("i1", f.file_name), _vectors("i2", "other")
    assert find_index_conflict([one], [two]) == IndexFileGone(P, 0, DELETION_VECTORS_INDEX, "i2")
    assert find_index_conflict([one, two], [one]) is None


def test_deletion_vectors() -> None:
    f = samples.file()
    place = (P, 0, f.file_name)
    assert vector_of_missing_file([add(f)], {place}) is None
    assert vector_of_missing_file([add(f)], set()) is None
    assert vector_of_missing_file([add(f)], {(P, 1, f.file_name)}) == FileGone(P, 1, 0, f.file_name)
    assert vector_conflict({place}, {}, {}) is None
    assert vector_conflict({place}, {place: 7}, {place: 7}) is None
    assert vector_conflict({place}, {}, {place: 7}) == VectorChanged(*place)
    assert vector_conflict({place}, {place: 7}, {}) == VectorChanged(*place)
    assert vector_conflict(set(), {place: 7}, {place: 8}) is None


def test_what_a_change_does_to_data_files() -> None:
    f, g, h = (samples.file(i, i, file_name=name) for i, name in enumerate("fgh"))
    entries = (remove(f), remove(g), add(g.upgrade(1)), add(h))
    change = Change(kind=CommitKind.OVERWRITE, entries=entries, index_changes=(_vectors("i", "x"),))
    assert change.removed == {(P, 0, "f")}
    assert change.data_files_with_new_vectors == {(P, 0, "x")}
    assert change.partitions == {P}


def test_every_conflict_says_which_file_and_what_to_do() -> None:
    conflicts = [
        FileGone(P, 3, 1, "f"),
        FileLive(P, 3, 1, "f"),
        FileRepeated(P, 3, 1, "f"),
        KeyRangesOverlap(P, 3, 1, "f", "g"),
        IndexFileGone(P, 3, "HASH", "f"),
        VectorChanged(P, 3, "f"),
    ]
    for conflict in conflicts:
        what, hint = describe(conflict, lambda _: "p=a")
        assert "'f'" in what
        assert "bucket 3 of partition 'p=a'" in what
        assert hint.endswith(".")
    what, hint = describe(BucketCountChanged(P, 3, 1, 2), lambda _: "")
    assert "bucket 3" in what
    assert "INSERT OVERWRITE" in hint

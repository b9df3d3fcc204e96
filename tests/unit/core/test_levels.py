"""Sections of overlapping key ranges."""

from __future__ import annotations

from paimon_spark.core.levels import comparable, sections
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.rows import encode_row
from paimon_spark.spec.types import AtomicType, TypeRoot

INT = AtomicType(TypeRoot.INT, nullable=False)


def file(low: int, high: int) -> DataFileMeta:
    return DataFileMeta(
        file_name=f"{low}-{high}", file_size=1, row_count=1, min_key=encode_row([low], [INT]),
        max_key=encode_row([high], [INT]), min_sequence_number=0, max_sequence_number=0, schema_id=0, level=0,
    )  # fmt: skip


def names(*files: DataFileMeta) -> list[list[list[str]]]:
    return [[[f.file_name for f in run.files] for run in s] for s in sections(files, [INT])]


def test_files_with_overlapping_keys_share_a_section() -> None:
    assert names(file(20, 30), file(9, 12), file(1, 10), file(5, 8)) == [[["1-10"], ["5-8", "9-12"]], [["20-30"]]]
    assert names(file(1, 10), file(10, 12)) == [[["1-10"], ["10-12"]]]
    assert names(file(1, 9), file(10, 12)) == [[["1-9"]], [["10-12"]]]
    assert names() == []


def test_negative_keys_and_nan_order() -> None:
    assert names(file(-5, -1), file(-10, -6)) == [[["-10--6"]], [["-5--1"]]]
    assert comparable([float("inf")]) < comparable([float("nan")])
    assert comparable([float("nan"), 1]) == comparable([float("nan"), 1])
    assert comparable([float("nan"), 1]) < comparable([float("nan"), 2])
    assert comparable([-1.0]) < comparable([-0.0]) < comparable([0.0]) < comparable([1e-300])

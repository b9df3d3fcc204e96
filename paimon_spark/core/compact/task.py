"""A compaction unit of one bucket, as sent to executors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

from paimon_spark.core.levels import SortedRun
from paimon_spark.core.metadata.deletion_vectors import VectorRef
from paimon_spark.core.scan.result import ScannedBucket
from paimon_spark.spec.bounds import Int
from paimon_spark.spec.manifest import DataFileKey, DataFileMeta

Section: TypeAlias = Sequence[SortedRun]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactTask:
    """Files of one bucket to compact; `drop_deletes` if no older data lies below the output level."""

    partition: bytes
    bucket: Int
    total_buckets: Int
    files: tuple[DataFileMeta, ...]
    output_level: Int = 0
    to_top: bool = False
    """Whether the output level is the highest of the bucket."""
    drop_deletes: bool = False
    force_rewrite: bool = False
    reason: str = ""
    vectors: tuple[tuple[str, VectorRef], ...] = ()
    """Deletion vectors of the files, and of those above, by file name; only for files that have one."""
    upper: tuple[DataFileMeta, ...] = ()
    """The files above the output level, if the compaction looks up rows there."""
    changelog: bool = True
    """Whether the compaction writes changelog files, if the table's producer does it in compactions."""
    renumber: bool = False
    """Whether deleted rows of a table with data evolution are removed, and the others get new ids."""

    @classmethod
    def of(cls, found: ScannedBucket) -> Self:
        """Return a task of a bucket, without files."""
        return cls(partition=found.partition, bucket=found.bucket, total_buckets=found.total_buckets, files=())

    @property
    def bytes_in(self) -> int:
        """Return the total size of the files to compact."""
        return sum(f.file_size for f in self.files)


def bucket_vectors(found: ScannedBucket, refs: Mapping[DataFileKey, VectorRef]) -> dict[str, VectorRef]:
    """Return the deletion vectors of the files of a bucket, by file name."""
    keys = {f.file_name: DataFileKey(found.partition, found.bucket, f.file_name) for f in found.files}
    return {name: refs[key] for name, key in keys.items() if key in refs}


def vectors_of(files: Iterable[DataFileMeta], vectors: Mapping[str, VectorRef]) -> tuple[tuple[str, VectorRef], ...]:
    """Return the deletion vectors of some files of a bucket, as a task has them."""
    return tuple((f.file_name, vectors[f.file_name]) for f in files if f.file_name in vectors)

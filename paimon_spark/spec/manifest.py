"""Manifest records as values: entries, data files, manifests and index files.

Rows inside (partition, keys, statistics) stay in their serialized BinaryRow form, arity prefix included; `spec.rows`
decodes them (docs/spec/storage.md, sections 5 and 6).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from paimon_spark.spec.bounds import Int, Long
from paimon_spark.spec.kinds import FileKind, FileSource

EMPTY_ROW = bytes(12)
"""Serialized row of arity 0: the partition of an unpartitioned table, the key of an append table."""


@dataclass(frozen=True, slots=True)
class ForeignColumn:
    """A column of a metadata record that is unknown to this release; written back unchanged.

    `path` is the column's name, preceded by the record that contains it if that is nested: ``_FILE._NEW``.
    `avro_type` is the type's Avro JSON.
    """

    path: str
    avro_type: str
    value: Any


@dataclass(frozen=True, slots=True)
class SimpleStats:
    """Minimum and maximum rows and null counts over some columns; a null count may be unknown."""

    min_values: bytes
    max_values: bytes
    null_counts: tuple[Long | None, ...]


EMPTY_STATS = SimpleStats(EMPTY_ROW, EMPTY_ROW, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileMeta:
    """One data file. `creation_time` is the writer's local wall clock in epoch milliseconds."""

    file_name: str
    file_size: Long
    row_count: Long
    min_key: bytes = EMPTY_ROW
    max_key: bytes = EMPTY_ROW
    key_stats: SimpleStats = EMPTY_STATS
    value_stats: SimpleStats = EMPTY_STATS
    min_sequence_number: Long
    max_sequence_number: Long
    schema_id: Long
    level: Int
    extra_files: tuple[str, ...] = ()
    creation_time: Long | None = None
    delete_row_count: Long | None = None
    embedded_index: bytes | None = None
    file_source: FileSource | None = None
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: Long | None = None
    write_cols: tuple[str, ...] | None = None

    def upgrade(self, level: int) -> DataFileMeta:
        """Return the same file at another level (no bytes change)."""
        return replace(self, level=level)


class BucketKey(NamedTuple):
    """A bucket of a table: its partition as a binary row, and its number."""

    partition: bytes
    bucket: int


class DataFileKey(NamedTuple):
    """A data file of a table: its bucket and its name."""

    partition: bytes
    bucket: int
    file_name: str

    @property
    def bucket_key(self) -> BucketKey:
        """Return the bucket of the file."""
        return BucketKey(self.partition, self.bucket)


class FileIdentity(NamedTuple):
    """Identity of a file, equal in an ADD and the DELETE that cancels it."""

    partition: bytes
    bucket: int
    level: int
    file_name: str
    extra_files: tuple[str, ...]
    embedded_index: bytes | None
    external_path: str | None


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One change of one data file."""

    kind: FileKind
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFileMeta
    foreign: tuple[ForeignColumn, ...] = field(default=(), compare=False, repr=False)

    @property
    def bucket_key(self) -> BucketKey:
        """Return the bucket that the entry belongs to."""
        return BucketKey(self.partition, self.bucket)

    @property
    def identity(self) -> FileIdentity:
        """Return the identity that an ADD and its DELETE share."""
        f = self.file
        return FileIdentity(
            self.partition,
            self.bucket,
            f.level,
            f.file_name,
            f.extra_files,
            f.embedded_index,
            f.external_path,
        )

    def flipped(self) -> ManifestEntry:
        """Return the DELETE that cancels this ADD."""
        return replace(self, kind=FileKind.DELETE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFileMeta:
    """One manifest, as described in a manifest list."""

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None
    foreign: tuple[ForeignColumn, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DeletionRange:
    """Location of the deletion vector of one data file inside an index file."""

    data_file: str
    offset: Long
    length: Long
    cardinality: Long | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFileMeta:
    """One index file: the hashes of a dynamic bucket, or deletion vectors."""

    index_type: str
    file_name: str
    file_size: Long
    row_count: Long
    deletion_ranges: tuple[DeletionRange, ...] | None = None
    external_path: str | None = None
    global_index: bytes | None = None
    """Unknown record of a foreign writer, carried as its JSON; never interpreted."""


HASH_INDEX = "HASH"
DELETION_VECTORS_INDEX = "DELETION_VECTORS"


@dataclass(frozen=True, slots=True)
class IndexManifestEntry:
    """One change of one index file."""

    kind: FileKind
    partition: bytes
    bucket: int
    file: IndexFileMeta
    foreign: tuple[ForeignColumn, ...] = field(default=(), compare=False, repr=False)

    @property
    def bucket_key(self) -> BucketKey:
        """Return the bucket that the entry belongs to."""
        return BucketKey(self.partition, self.bucket)

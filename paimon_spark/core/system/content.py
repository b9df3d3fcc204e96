"""System tables about the content of one snapshot: files, manifests, partitions, buckets, index files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paimon_spark.core.clustered_files import has_unsorted_keys
from paimon_spark.core.file_schemas import FileSchemas
from paimon_spark.core.system.context import SystemContext
from paimon_spark.core.system.render import (
    key_list,
    partition_set,
    partition_spec,
    raw_text,
    sorted_map,
    stored_time,
)
from paimon_spark.core.table import Table
from paimon_spark.spec.global_indexes import global_index_of
from paimon_spark.spec.manifest import (
    DELETION_VECTORS_INDEX,
    BucketKey,
    DataFileMeta,
    IndexManifestEntry,
    ManifestEntry,
)
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.stats import UNKNOWN, stats_view
from paimon_spark.spec.types import DataField

Row = tuple[Any, ...]


def files(context: SystemContext) -> Iterator[Row]:
    """Yield one row per live data file."""
    schemas = FileSchemas(context.table)
    for entry in _by_bucket(context):
        f, head = entry.file, _file_head(context, entry, schemas)
        nulls, low, high = _statistics(f, schemas.of(f.schema_id), context.table.schema)
        yield (
            *head[:10],
            nulls,
            low,
            high,
            f.min_sequence_number,
            f.max_sequence_number,
            stored_time(f.creation_time),
            f.delete_row_count,
            None if f.file_source is None else f.file_source.name,
            f.first_row_id,
            None if f.write_cols is None else list(f.write_cols),
        )


def file_key_ranges(context: SystemContext) -> Iterator[Row]:
    """Yield one row per live data file, without the statistics."""
    schemas = FileSchemas(context.table)
    for entry in _by_bucket(context):
        yield (*_file_head(context, entry, schemas), entry.file.first_row_id)


def manifests(context: SystemContext) -> Iterator[Row]:
    """Yield one row per manifest of the snapshot, including changelog manifests."""
    if context.snapshot is None:
        return
    metas = context.store.data_manifests(context.snapshot)
    if context.snapshot.changelog_manifest_list is not None:
        metas += context.store.read_list(context.snapshot.changelog_manifest_list)
    fields = context.table.schema.partition_fields
    for m in metas:
        stats = m.partition_stats
        yield (
            m.file_name,
            m.file_size,
            m.num_added_files,
            m.num_deleted_files,
            m.schema_id,
            partition_set(stats.min_values, fields, context.zone),
            partition_set(stats.max_values, fields, context.zone),
            m.min_row_id,
            m.max_row_id,
        )


def partitions(context: SystemContext) -> Iterator[Row]:
    """Yield one row per partition with files, ordered by its text."""
    deleted = _deleted_counts(context)
    fields, default = context.table.schema.partition_fields, context.table.options.partition_default_name
    sums = _sums((e.partition, e) for e in context.live())
    named = sorted((partition_spec(p, fields, default, context.zone), p, s) for p, s in sums.items())
    for text, partition, s in named:
        yield (
            text,
            s.rows,
            s.size,
            s.files,
            stored_time(s.newest),
            None,
            None,
            None,
            None,
            s.total_buckets,
            False,
            deleted.get(partition, 0),
        )


def buckets(context: SystemContext) -> Iterator[Row]:
    """Yield one row per bucket with files, ordered by partition and bucket; postponed rows are in bucket -2."""
    fields = context.table.schema.partition_fields
    sums = _sums((BucketKey(e.partition, e.bucket), e) for e in context.live(postponed=True))
    rows = [(partition_set(p, fields, context.zone), bucket, s) for (p, bucket), s in sums.items()]
    for text, bucket, s in sorted(rows, key=lambda r: r[:2]):
        yield (text, bucket, s.rows, s.size, s.files, stored_time(s.newest))


def table_indexes(context: SystemContext) -> Iterator[Row]:
    """Yield one row per index file."""
    fields = context.table.schema.partition_fields
    names = {f.id: f.name for f in context.table.schema.fields}
    for e in _index_entries(context):
        ranges = None
        if e.file.deletion_ranges is not None:
            ranges = [
                {"f0": r.data_file, "f1": r.offset, "f2": r.length, "_CARDINALITY": r.cardinality}
                for r in e.file.deletion_ranges
            ]
        yield (
            partition_set(e.partition, fields, context.zone),
            e.bucket,
            e.file.index_type,
            e.file.file_name,
            e.file.file_size,
            e.file.row_count,
            ranges,
            *_global_index(e, names),
        )


def _global_index(entry: IndexManifestEntry, names: Mapping[int, str]) -> Row:
    """Return the rows and the columns of a global index; the names are null if one of them was dropped."""
    found = global_index_of(entry)
    if found is None:
        return (None, None, None, None)
    columns = [names.get(i) for i in found.field_ids]
    known = [c for c in columns if c is not None]
    return (found.first_row, found.last_row, found.field_id, ",".join(known) if len(known) == len(columns) else None)


@dataclass(slots=True)
class _Sum:
    rows: int = 0
    size: int = 0
    files: int = 0
    newest: int | None = None
    total_buckets: int = 0

    def add(self, entry: ManifestEntry) -> None:
        f = entry.file
        self.rows += f.row_count
        self.size += f.file_size
        self.files += 1
        if f.creation_time is not None and (self.newest is None or f.creation_time >= self.newest):
            self.newest = f.creation_time
        self.total_buckets = entry.total_buckets


def _sums(entries: Iterable[tuple[Any, ManifestEntry]]) -> dict[Any, _Sum]:
    sums: dict[Any, _Sum] = {}
    for key, entry in entries:
        sums.setdefault(key, _Sum()).add(entry)
    return sums


def _by_bucket(context: SystemContext) -> list[ManifestEntry]:
    fields = context.table.schema.partition_fields
    entries = list(context.live())
    texts = {p: partition_set(p, fields, context.zone) for p in {e.partition for e in entries}}
    return sorted(entries, key=lambda e: (texts[e.partition], e.bucket))


def _file_head(context: SystemContext, entry: ManifestEntry, schemas: FileSchemas) -> Row:
    f = entry.file
    keys = _fields_of_keys(context.table, f, schemas.of(f.schema_id))
    return (
        partition_set(entry.partition, context.table.schema.partition_fields, context.zone),
        entry.bucket,
        context.table.paths.data_file(entry.partition, entry.bucket, f),
        f.file_name.rpartition(".")[2],
        f.schema_id,
        f.level,
        f.row_count,
        f.file_size,
        key_list(f.min_key, keys),
        key_list(f.max_key, keys),
    )


def _fields_of_keys(table: Table, file: DataFileMeta, written: TableSchema) -> Sequence[DataField]:
    """Return the columns of the first and last key in the record of a file, as they were when it was written."""
    if not has_unsorted_keys(table) or file.level == 0:
        return written.key_fields
    stored = {f.id: f for f in written.fields}
    return [stored[table.schema.field(name).id] for name in table.options.names("clustering.columns")]


def _statistics(file: DataFileMeta, written: TableSchema, current: TableSchema) -> tuple[str, str, str]:
    known = stats_view(file, written, current)
    columns = [(f, known.get(f.name, UNKNOWN)) for f in current.fields]
    return (
        sorted_map({f.name: "null" if s.null_count is None else str(s.null_count) for f, s in columns}),
        sorted_map({f.name: raw_text(s.min, f.type) for f, s in columns}),
        sorted_map({f.name: raw_text(s.max, f.type) for f, s in columns}),
    )


def _index_entries(context: SystemContext) -> tuple[IndexManifestEntry, ...]:
    return () if context.snapshot is None else context.store.read_index(context.snapshot.index_manifest)


def _deleted_counts(context: SystemContext) -> dict[bytes, int | None]:
    """Return the number of deleted rows per partition; None if a deletion vector has no cardinality."""
    counts: dict[bytes, int | None] = {}
    for entry in _index_entries(context):
        if entry.file.index_type != DELETION_VECTORS_INDEX:
            continue
        for r in entry.file.deletion_ranges or ():
            before = counts.get(entry.partition, 0)
            counts[entry.partition] = None if before is None or r.cardinality is None else before + r.cardinality
    return counts

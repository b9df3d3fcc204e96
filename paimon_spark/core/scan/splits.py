"""Splits: the independently readable parts of a scan, each within one bucket.

(docs/spec/semantics.md, R1-R6, R9)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from paimon_spark.core.bin_packing import bin_packed
from paimon_spark.core.clustered_files import has_unsorted_keys
from paimon_spark.core.levels import sections
from paimon_spark.core.messages import MessageCodec
from paimon_spark.core.metadata.deletion_vectors import VectorRef, vector_refs
from paimon_spark.core.metadata.row_ranges import anchors, evolves, row_ranges
from paimon_spark.core.scan.packed_files import PackedFileList
from paimon_spark.core.scan.pruning import reads_above_level_0
from paimon_spark.core.scan.result import Scan, ScannedBucket
from paimon_spark.core.table import Table
from paimon_spark.spec.bounds import Int, Long
from paimon_spark.spec.manifest import DataFileKey, DataFileMeta
from paimon_spark.spec.types import DataType

_SIZE = attrgetter("file_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Files of one bucket to read together; files of a `raw` split need no merge and are in reading order."""

    partition: bytes
    bucket: Int
    total_buckets: Int
    files: Sequence[DataFileMeta]
    """A tuple, or for a very large scan a sequence that decodes records on access."""
    raw: bool
    snapshot_id: Long
    row_count: Long | None = None
    """Exact number of rows that reading returns, or None if unknown without reading."""
    vectors: tuple[VectorRef | None, ...] = ()
    """One entry per file, or empty if no file has a deletion vector."""
    unmerged: bool = False
    """Whether the rows are changes, which are not merged: each row counts, in file order, with its stored kind. A raw
    split has the retracts too, as rows; any other only if the kinds are read."""
    difference: Difference | None = None
    """The two states whose difference the rows are; the split then has no files of its own."""
    postponed: tuple[DataFileMeta, ...] = ()
    """Postponed files whose rows of this bucket are merged on read, in the order in which they were written."""
    chained: bool = False
    """Whether files of earlier partitions are merged into this one; rows in deletion vectors then delete their keys."""

    @property
    def size(self) -> int:
        """Return the total size of the files in bytes."""
        if self.difference is not None:
            return sum(s.size for s in self.difference.splits)
        postponed = sum(map(_SIZE, self.postponed))
        return postponed + (self.files.size if isinstance(self.files, PackedFileList) else sum(map(_SIZE, self.files)))

    @property
    def file_count(self) -> int:
        """Return the number of files to read."""
        if self.difference is not None:
            return sum(len(s.files) for s in self.difference.splits)
        return len(self.files)

    @property
    def file_rows(self) -> int:
        """Return the total row count of the files, including rows that are not visible to readers."""
        if self.difference is not None:
            return sum(s.file_rows for s in self.difference.splits)
        return _rows_in(self.files)

    @property
    def schema_ids(self) -> set[int]:
        """Return the ids of the schemas of the files."""
        splits = (self,) if self.difference is None else self.difference.splits
        return {f.schema_id for s in splits for f in (*s.files, *s.postponed)}

    @property
    def is_state(self) -> bool:
        """Return whether the rows are those of one snapshot or raw rows of files, rather than computed changes."""
        return self.difference is None and (self.raw or not self.unmerged)

    def vector_of(self, index: int) -> VectorRef | None:
        """Return the deletion vector of the file at `index`."""
        return self.vectors[index] if self.vectors else None


@dataclass(frozen=True, slots=True)
class Difference:
    """The files that two snapshots do not have in common, of one range of keys; each split is of one bucket."""

    before: tuple[Split, ...]
    after: tuple[Split, ...]

    @property
    def splits(self) -> tuple[Split, ...]:
        """Return the splits of both sides."""
        return (*self.before, *self.after)


def plan_splits(table: Table, result: Scan, *, always_merge: bool = False) -> list[Split]:
    """Return the splits of a scan by bucket, in the order of the scan's entries.

    Args:
        table: the scanned table.
        result: result of `scan` or `scan_buckets`.
        always_merge: create no raw splits, for readers that need retracts.
    """
    if result.snapshot is None:
        return []
    vectors = vector_refs(table, result.index_entries)
    out: list[Split] = []
    for found in result.buckets():
        for files, raw in _groups(table, found):
            is_raw = raw and not (always_merge and table.is_primary_key_table)
            refs = vectors_of(found, files, vectors)
            split = Split(
                partition=found.partition,
                bucket=found.bucket,
                total_buckets=found.total_buckets,
                files=files,
                raw=is_raw,
                snapshot_id=result.snapshot.id,
                row_count=known_rows(anchors(table, files), refs) if is_raw or evolves(table) else None,
                vectors=refs,
            )
            out.append(split)
    return out


def _groups(table: Table, found: ScannedBucket) -> Iterator[tuple[Sequence[DataFileMeta], bool]]:
    """Yield the file groups of a bucket, and whether each needs no merge."""
    if evolves(table):
        yield from _stitched_groups(table, found)
        return
    if not table.is_primary_key_table:
        yield from ((group, True) for group in _append_groups(table, found))
        return
    for group, raw in _keyed_groups(table, found.files):
        yield found.keep(group), raw


def _append_groups(table: Table, found: ScannedBucket) -> Iterator[Sequence[DataFileMeta]]:
    options = table.options
    return found.groups_by_sequence(options.source_split_target_size, options.source_split_open_file_cost)


def _stitched_groups(table: Table, found: ScannedBucket) -> Iterator[tuple[Sequence[DataFileMeta], bool]]:
    """Yield whole row ranges. A group needs no stitching if each of its ranges is one file with all columns."""
    options = table.options
    target, cost = options.source_split_target_size, options.source_split_open_file_cost
    by_size = options.flag("blob.split-by-file-size") if options.is_set("blob.split-by-file-size") else None
    as_descriptor = options.flag("blob-as-descriptor")
    blob_cost = cost if by_size is False or (by_size is None and as_descriptor) else None
    for together in bin_packed(row_ranges(found.files), lambda r: r.weight(blob_cost), target, cost):
        files = [f for r in together for f in r.files]
        yield found.keep(files), all(f.write_cols is None for f in files) and len(files) == len(together)


def _keyed_groups(table: Table, files: Sequence[DataFileMeta]) -> Iterator[tuple[list[DataFileMeta], bool]]:
    target, cost = table.options.source_split_target_size, table.options.source_split_open_file_cost
    if has_unsorted_keys(table):
        for raw in (True, False):
            alike = (f for f in files if (f.delete_row_count == 0) is raw)
            yield from ((group, raw) for group in bin_packed(alike, _SIZE, target, cost))
        return
    all_merged = all(f.level != 0 and not f.delete_row_count for f in files)
    if all_merged and (reads_above_level_0(table) or len({f.level for f in files}) == 1):
        ordered = _in_key_order(files, table.key_types)
        yield from ((group, True) for group in bin_packed(ordered, _SIZE, target, cost))
        return
    for group in key_range_groups(table, files):
        yield group, needs_no_merge(group)


def key_range_groups(table: Table, files: Sequence[DataFileMeta]) -> Iterator[list[DataFileMeta]]:
    """Yield the files of a bucket in groups of about the target size; files with a common key are in one group."""
    target, cost = table.options.source_split_target_size, table.options.source_split_open_file_cost
    items = [[f for run in section for f in run.files] for section in sections(files, table.key_types)]
    for together in bin_packed(items, lambda item: sum(map(_SIZE, item)), target, cost):
        yield [f for item in together for f in item]


def needs_no_merge(group: Sequence[DataFileMeta]) -> bool:
    """Return whether the rows of a group are those of one file."""
    return len(group) == 1 and group[0].delete_row_count == 0


def _in_key_order(files: Sequence[DataFileMeta], key_types: Sequence[DataType]) -> list[DataFileMeta]:
    return [f for section in sections(files, key_types) for run in section for f in run.files]


def vectors_of(
    found: ScannedBucket, files: Sequence[DataFileMeta], vectors: dict[DataFileKey, VectorRef]
) -> tuple[VectorRef | None, ...]:
    """Return the deletion vectors of files of a bucket, or nothing where none has one."""
    if not vectors:
        return ()
    refs = tuple(vectors.get(DataFileKey(found.partition, found.bucket, f.file_name)) for f in files)
    return refs if any(v is not None for v in refs) else ()


def known_rows(files: Sequence[DataFileMeta], vectors: Iterable[VectorRef | None]) -> int | None:
    """Return the row count of a raw split if the metadata determines it.

    (docs/spec/semantics.md, R9)
    """
    deleted = [v.cardinality for v in vectors if v is not None]
    if not deleted:
        return _rows_in(files)
    return None if None in deleted else _rows_in(files) - sum(d or 0 for d in deleted)


def _rows_in(files: Sequence[DataFileMeta]) -> int:
    return files.row_count if isinstance(files, PackedFileList) else sum(f.row_count for f in files)


_CODEC = MessageCodec[list[Split]](list[Split], "list of splits")


def splits_to_json(splits: Iterable[Split]) -> str:
    """Return splits as one JSON text."""
    return _CODEC.encode([_with_tuple(s) for s in splits])


def splits_from_json(text: str) -> list[Split]:
    """Parse the output of `splits_to_json`.

    Raises:
        EngineError: the text is malformed.
    """
    return [_with_tuple(s) for s in _CODEC.decode(text)]


def _with_tuple(split: Split) -> Split:
    """Return the split with its files, and those that it compares, in tuples."""
    if split.difference is not None:
        sides = (tuple(map(_with_tuple, side)) for side in (split.difference.before, split.difference.after))
        split = replace(split, difference=Difference(*sides))
    return split if isinstance(split.files, tuple) else replace(split, files=tuple(split.files))

"""Reads rows whose columns are in several files: each column from the newest file that holds it.

Only files that hold a wanted column are opened. The columns of a row range are read side by side, in chunks; deleted
rows are removed from a chunk once its columns are combined.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from paimon_spark.core.columns import TRACKING_FIELDS
from paimon_spark.core.metadata.row_ranges import RowRange, row_ranges
from paimon_spark.core.read.blob_values import blob_values
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.predicate import Predicate
from paimon_spark.spec.types import DataField

Files = tuple[DataFileMeta, ...]
_NOTHING = pa.table({})


def stitched_rows(
    files: BucketFiles,
    members: Iterable[DataFileMeta],
    fields: Sequence[DataField],
    condition: Predicate,
    metadata_columns: Sequence[str],
) -> Iterator[pa.Table]:
    """Yield the rows of whole row ranges.

    Args:
        files: the bucket.
        members: all files of the ranges.
        fields: columns of the table, and of `TRACKING_FIELDS`.
        condition: row groups for which it is false may be skipped.
        metadata_columns: see `BucketFiles.chunks`; a row is at its position in the anchor of its range.

    Raises:
        CorruptTableError: the files of a range do not fit together.
    """
    for found in row_ranges(members):
        sources = _sources(files, found, fields)
        alone = next(iter(sources.data), found.newest)
        if sources.are_one_file:
            yield from files.chunks(alone, fields, condition, metadata_columns=metadata_columns, rows_of=found)
        else:
            yield from _side_by_side(files, found, sources, fields, metadata_columns)


class _Sources(NamedTuple):
    """The files of the columns of a range; columns that no file holds are missing."""

    data: dict[DataFileMeta, list[DataField]]
    vectors: dict[Files, list[DataField]]
    blobs: list[tuple[Files, DataField]]

    @property
    def are_one_file(self) -> bool:
        """Return whether all columns are in one file that covers the whole range."""
        return len(self.data) <= 1 and not self.vectors and not self.blobs


def _sources(files: BucketFiles, found: RowRange, fields: Sequence[DataField]) -> _Sources:
    sources = _Sources({}, {}, [])
    held = {f.file_name: {c.id for c in files.held(f)} for f in found.files}
    for field in fields:
        holders = [f for f in found.data if field.id in held[f.file_name]]
        parts, blobs = (
            tuple(f for f in some if field.id in held[f.file_name]) for some in (found.vectors, found.blobs)
        )
        if field in TRACKING_FIELDS or field.name in files.table.schema.partition_keys:
            continue
        if holders:
            sources.data.setdefault(holders[0], []).append(field)
        elif blobs:
            sources.blobs.append((blobs, field))
        elif parts:
            sources.vectors.setdefault(parts, []).append(field)
    return sources


def _side_by_side(
    files: BucketFiles,
    found: RowRange,
    sources: _Sources,
    fields: Sequence[DataField],
    metadata_columns: Sequence[str],
) -> Iterator[pa.Table]:
    streams = [files.columns(file, columns) for file, columns in sources.data.items()]
    streams += [_consecutive(files, found, parts, columns) for parts, columns in sources.vectors.items()]
    streams += [_blobs(files, found, parts, field) for parts, field in sources.blobs]
    known = {f.id for columns in (*sources.data.values(), *sources.vectors.values()) for f in columns}
    known |= {field.id for _, field in sources.blobs}
    rest = [f for f in fields if f.id not in known]
    place, start = files.place(found.newest, found), 0
    for parts in zipped(streams):
        n = parts[0].num_rows
        columns = {name: column for part in parts for name, column in zip(part.column_names, part.columns, strict=True)}
        columns |= files.without_source(rest, n)
        rows = pa.table([columns[f.name] for f in fields], names=[f.name for f in fields])
        yield files.complete(rows, place, start, metadata_columns)
        start += n
    if start != found.rows:
        raise _incomplete(found, start)


def _consecutive(files: BucketFiles, found: RowRange, parts: Files, columns: Sequence[DataField]) -> Iterator[pa.Table]:
    """Yield the columns of files that follow each other in row ids; of files of the same rows, the newest counts."""
    expected = found.first
    for file in parts:
        first = file.first_row_id or 0
        if first < expected:
            continue
        if first > expected:
            raise _incomplete(found, expected - found.first)
        yield from files.columns(file, columns)
        expected += file.row_count


def _blobs(files: BucketFiles, found: RowRange, parts: Files, field: DataField) -> Iterator[pa.Table]:
    table = files.table
    placed = [(file, files.path(file)) for file in parts]
    as_descriptor = table.options.flag("blob-as-descriptor")
    for values in blob_values(table.file_io, found, placed, as_descriptor=as_descriptor):
        yield pa.table([values], names=[field.name])


def zipped(streams: Sequence[Iterator[pa.Table]]) -> Iterator[list[pa.Table]]:
    """Yield slices of equal length of tables that hold different columns of the same rows, until one ends."""
    waiting: list[pa.Table] = [_NOTHING] * len(streams)
    while True:
        for i, stream in enumerate(streams):
            while not waiting[i].num_rows:
                following = next(stream, None)
                if following is None:
                    return
                waiting[i] = following
        n = min(part.num_rows for part in waiting)
        yield [part.slice(0, n) for part in waiting]
        waiting = [part.slice(n) for part in waiting]


def _incomplete(found: RowRange, rows: int) -> CorruptTableError:
    names = ", ".join(f.file_name for f in found.files)
    return CorruptTableError(
        f"The files {names} hold columns of {found.rows} rows, but one of their columns ends after {rows}.",
        hint="Roll back to a snapshot before they were committed.",
    )

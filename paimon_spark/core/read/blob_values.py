"""Reads the values of a BLOB column from its files, or references to them.

A file need not have a value for each of its rows: it then leaves the row to an older file. Until the file of each value
is determined, only the indexes are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from paimon_spark.core.metadata.row_ranges import RowRange
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.errors import CorruptTableError
from paimon_spark.format.arrays import I64
from paimon_spark.format.blob import ELSEWHERE, BlobIndex, descriptors, read_index, read_values
from paimon_spark.fs.base import FileIO
from paimon_spark.spec.manifest import DataFileMeta

_CHUNK_BYTES = 16 << 20
_CHUNK_ROWS = 65536
PlacedFile = tuple[DataFileMeta, str]
"""A file, and its path."""


def blob_values(
    file_io: FileIO, found: RowRange, files: Sequence[PlacedFile], *, as_descriptor: bool
) -> Iterator[pa.Array]:
    """Yield the values of a BLOB column for all rows of a range, in chunks; null where no file has one.

    Args:
        file_io: the store of the files.
        found: the range.
        files: the files of the column.
        as_descriptor: return references to the values.

    Raises:
        CorruptTableError: a file is damaged, or its number of rows differs from its metadata.
    """
    ordered = sorted(files, key=lambda f: (f[0].max_sequence_number, f[0].file_name))
    with translate_io_errors():
        indexes = [_index(file_io, file, path) for file, path in ordered]
    firsts = [(file.first_row_id or 0) - found.first for file, _ in ordered]
    source = np.full(found.rows, -1, np.int64)
    sizes = np.zeros(found.rows, np.int64)
    for i, (index, first) in enumerate(zip(indexes, firsts, strict=True)):
        here = np.flatnonzero(index.lengths != ELSEWHERE)
        here = here[here + first < found.rows]
        source[here + first] = i
        sizes[here + first] = index.sizes[here]
    for start, end in _chunks(np.zeros(found.rows, np.int64) if as_descriptor else sizes):
        parts, rows = [pa.nulls(0, pa.binary())], [np.zeros(0, np.int64)]
        for i in np.unique(source[start:end]).tolist():
            chosen = np.flatnonzero(source[start:end] == i)
            rows.append(chosen)
            if i < 0:
                parts.append(pa.nulls(len(chosen), pa.binary()))
                continue
            low, high = int(chosen[0]) + start - firsts[i], int(chosen[-1]) + start - firsts[i] + 1
            with translate_io_errors():
                some = (
                    descriptors(indexes[i], low, high) if as_descriptor else read_values(file_io, indexes[i], low, high)
                )
            parts.append(some.take(pa.array(chosen + start - firsts[i] - low)))
        yield pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(rows))))


def _index(file_io: FileIO, file: DataFileMeta, path: str) -> BlobIndex:
    index = read_index(file_io, path, file.file_size)
    if len(index.lengths) != file.row_count:
        raise CorruptTableError(
            f"The BLOB file {path} has {len(index.lengths)} rows, but its manifest records {file.row_count}.",
            hint="It is not the file that was committed. Restore it, or roll back to a snapshot without it.",
        )
    return index


def _chunks(sizes: I64) -> Iterator[tuple[int, int]]:
    """Yield consecutive rows whose values take about `_CHUNK_BYTES` together; a larger value is alone."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        fitting = int(np.searchsorted(ends, before + _CHUNK_BYTES, side="right"))
        end = min(max(fitting, start + 1), start + _CHUNK_ROWS, len(sizes))
        yield start, end
        start = end

"""Numbers the rows of several data files consecutively, so that a merge can refer to single rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_spark.core.arrow import one_chunk, values_of
from paimon_spark.core.columns import ROW_INDEX, reserved
from paimon_spark.core.levels import SortedRun
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.format.arrays import I64
from paimon_spark.format.file_index.roaring import bitmap_of
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.predicate import Predicate
from paimon_spark.spec.types import DataField

ORDINAL = reserved("_ordinal_")
"""The ordinal of each row, as int64."""


class RowOrdinals:
    """The ordinals of the rows of `members`: the index of a row among the rows of all of them, in order."""

    def __init__(self, members: Sequence[DataFileMeta]) -> None:
        self.members = members
        self._firsts = np.concatenate([[0], np.cumsum([f.row_count for f in members])]).astype(np.int64)
        self._first_of = {f.file_name: int(n) for f, n in zip(members, self._firsts, strict=False)}

    def read(
        self,
        files: BucketFiles,
        run: SortedRun,
        fields: Sequence[DataField],
        condition: Predicate,
        metadata_columns: Sequence[str],
        chunk_bytes: int,
    ) -> Iterator[pa.Table]:
        """Yield what `BucketFiles.run` does, with the ordinals of the rows as last column."""
        for file in run.files:
            first = self._first_of[file.file_name]
            alone = SortedRun(run.level, (file,))
            for rows in files.run(alone, fields, condition, (*metadata_columns, ROW_INDEX), chunk_bytes):
                ordinals = values_of(one_chunk(rows.column(ROW_INDEX))) + first
                yield rows.drop_columns([ROW_INDEX]).append_column(ORDINAL, pa.array(ordinals))

    def add_to(self, bitmaps: Sequence[BitMap], ordinals: I64) -> None:
        """Add rows, given by ascending ordinals, to the bitmap of their file: one for each of `members`."""
        cuts = np.searchsorted(ordinals, self._firsts)
        for i in np.flatnonzero(np.diff(cuts)).tolist():
            _add(bitmaps[i], ordinals[cuts[i] : cuts[i + 1]] - self._firsts[i])


def ordinals_of(rows: pa.Table) -> I64:
    """Return the ordinals of rows."""
    return values_of(one_chunk(rows.column(ORDINAL)))


def _add(bitmap: BitMap, positions: I64) -> None:
    first, last = int(positions[0]), int(positions[-1])
    if last - first == len(positions) - 1:
        bitmap.add_range(first, last + 1)
        return
    bitmap.update(bitmap_of(positions))

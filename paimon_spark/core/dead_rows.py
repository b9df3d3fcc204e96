"""Which stored rows of a split a reader does not get: superseded, retracted, or marked in a deletion vector.

Only keys, sequence numbers and kinds are decoded, whatever the width of the table. With the answer, every data column
can come from a reader that knows nothing of merging, filtered by the positions of rows in their files.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from paimon_spark.core.key_hash import values_of
from paimon_spark.core.levels import SortedRun, sections
from paimon_spark.core.merge.functions import drop_retracts
from paimon_spark.core.merge.keys import one_chunk
from paimon_spark.core.merge.rules import merge_order, needed_fields
from paimon_spark.core.merge.sort_merge import merge_runs
from paimon_spark.core.read import MERGE_BYTES, ROW_INDEX, BucketFiles, DeletedRows, deleted_rows
from paimon_spark.core.splits import Split
from paimon_spark.core.table import Table
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.predicate import TRUE
from paimon_spark.spec.types import DataField

I64 = npt.NDArray[np.int64]
_PLACE = "_place_"
_MOST = 1 << 32
"""Positions that a bitmap can hold; no data file has that many rows."""


def dead_rows(table: Table, split: Split) -> Iterator[tuple[str, BitMap]]:
    """Yield the path of every file of `split` that has dead rows, and their positions in it.

    Memory: a bit for each row of the split, and what a merge takes.
    """
    deleted = deleted_rows(table, split)
    files = BucketFiles(table, split.partition, split.bucket, deleted)
    if not table.is_primary_key_table or split.raw:
        yield from _marked(files, split.files, deleted)
        return
    for section in sections(split.files, table.key_types):
        members = [f for run in section for f in run.files]
        if len(section) == 1 and all(f.delete_row_count == 0 for f in members):
            yield from _marked(files, members, deleted)
            continue
        for file, live in zip(members, _live(files, section, members), strict=True):
            if len(live) < file.row_count:
                yield files.path(file), BitMap(range(file.row_count)) - live


def _marked(files: BucketFiles, unmerged: Sequence[DataFileMeta], deleted: DeletedRows) -> Iterator[tuple[str, BitMap]]:
    """Yield the deleted rows of files of which no row is superseded by another."""
    for file in unmerged:
        marked = deleted(file)
        if marked is not None:
            yield files.path(file), marked.positions & BitMap(range(min(file.row_count, _MOST)))


def _live(files: BucketFiles, section: Sequence[SortedRun], members: Sequence[DataFileMeta]) -> list[BitMap]:
    """Return the positions of the rows of each file that survive the merge of a section."""
    order = merge_order(files.table)
    read = needed_fields(files.table, order, ())
    firsts = np.concatenate([[0], np.cumsum([f.row_count for f in members])])
    first_of = {f.file_name: int(n) for f, n in zip(members, firsts, strict=False)}
    share = MERGE_BYTES // len(section)
    runs = [_placed(files, run, read, first_of, share) for run in section]
    live = [BitMap() for _ in members]
    for rows in merge_runs(runs, order):
        places = np.sort(values_of(one_chunk(drop_retracts(rows).column(_PLACE))))
        cuts = np.searchsorted(places, firsts)
        for i in np.flatnonzero(np.diff(cuts)):
            _add(live[i], places[cuts[i] : cuts[i + 1]] - firsts[i])
    return live


def _placed(
    files: BucketFiles, run: SortedRun, read: Sequence[DataField], first_of: dict[str, int], share: int
) -> Iterator[pa.Table]:
    """Yield the rows of a run, each with its place among all rows of the section's files."""
    for file in run.files:
        first = first_of[file.file_name]
        for rows in files.run(SortedRun(run.level, (file,)), read, TRUE, places=(ROW_INDEX,), chunk_bytes=share):
            places = values_of(one_chunk(rows.column(ROW_INDEX))) + first
            yield rows.drop_columns([ROW_INDEX]).append_column(_PLACE, pa.array(places))


def _add(live: BitMap, positions: I64) -> None:
    first, last = int(positions[0]), int(positions[-1])
    if last - first == len(positions) - 1:
        live.add_range(first, last + 1)
        return
    numbers = array("I")
    numbers.frombytes(positions.astype(np.uint32).tobytes())
    live.update(BitMap(numbers))

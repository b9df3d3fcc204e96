"""The deleted rows of data files, by their deletion vectors, and how batches are filtered by them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_spark.core.metadata.deletion_vectors import StoredVectors, VectorRef
from paimon_spark.core.metadata_io import in_parallel, threads_for
from paimon_spark.core.scan.splits import Split
from paimon_spark.core.table import Table
from paimon_spark.format.deletion_vectors import positions
from paimon_spark.spec.kinds import SEQUENCE_NUMBER, VALUE_KIND, RowKind
from paimon_spark.spec.manifest import DataFileKey, DataFileMeta


@dataclass(frozen=True, slots=True)
class DeletedPositions:
    """Deleted row positions of a file, and the fingerprint of its deletion vector."""

    positions: BitMap
    fingerprint: int


DeletedRows = Callable[[DataFileMeta], DeletedPositions | None]
"""Returns the deleted rows of a file, or None if it has none."""


def without_deleted(rows: pa.Table, deleted: DeletedPositions, start: int) -> pa.Table:
    """Return a batch without its deleted rows; `start` is the position of its first row in the file."""
    here = positions(deleted.positions, start, start + rows.num_rows)
    if not len(here):
        return rows
    keep = np.ones(rows.num_rows, dtype=np.bool_)
    keep[here - start] = False
    return rows.filter(pa.array(keep))


def as_retracts(rows: pa.Table, deleted: DeletedPositions, start: int) -> pa.Table:
    """Return a batch with its system columns, in which deleted rows are of kind -D; `start` is as in `without_deleted`.

    They are older than all other rows with equal sequence fields: the row that replaced a deleted one may have these,
    and the same sequence number.
    """
    here = positions(deleted.positions, start, start + rows.num_rows)
    if not len(here):
        return rows
    for name, value, arrow in ((VALUE_KIND, RowKind.DELETE, pa.int8()), (SEQUENCE_NUMBER, -1, pa.int64())):
        if name in rows.column_names:
            column = rows.column(name).to_numpy().copy()
            column[here - start] = value
            rows = rows.set_column(rows.column_names.index(name), name, pa.array(column, arrow))
    return rows


def deleted_rows(table: Table, split: Split) -> DeletedRows:
    """Return a lookup of the deleted rows of a split's files."""
    refs = {f.file_name: v for f, v in zip(split.files, split.vectors, strict=False) if v is not None}
    return rows_in_vectors(table, refs)


def vector_fingerprints(table: Table, splits: Sequence[Split]) -> dict[DataFileKey, int]:
    """Return the fingerprints of the deletion vectors of the files of splits; files without vectors are left out."""

    def of_split(split: Split) -> dict[DataFileKey, int]:
        vectors = StoredVectors(table.file_io)
        return {
            DataFileKey(split.partition, split.bucket, f.file_name): vectors.fingerprint(f.file_name, ref)
            for f, ref in zip(split.files, split.vectors, strict=True)
            if ref is not None
        }

    marked = [s for s in splits if any(s.vectors)]
    return dict(chain.from_iterable(d.items() for d in in_parallel(of_split, marked, threads_for(table.path))))


def rows_in_vectors(table: Table, refs: Mapping[str, VectorRef]) -> DeletedRows:
    """Return a lookup of the deleted rows of files whose deletion vectors are at `refs`."""
    vectors = StoredVectors(table.file_io)

    def find(file: DataFileMeta) -> DeletedPositions | None:
        ref = refs.get(file.file_name)
        bitmap = vectors.bitmap(file.file_name, ref)
        return None if bitmap is None else DeletedPositions(bitmap, vectors.fingerprint(file.file_name, ref))

    return find

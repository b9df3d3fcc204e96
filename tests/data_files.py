"""Reads of whole data files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.format.base import DEFAULT_BATCH_ROWS
from paimon_spark.format.registry import open_reader
from paimon_spark.fs.base import FileIO
from paimon_spark.spec.types import DataField


def read_batches(
    file_io: FileIO,
    path: str,
    fields: Sequence[DataField],
    predicate: pc.Expression | None = None,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    file_size: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a data file, skipping row groups whose statistics rule out `predicate`.

    Rows for which the predicate is false may remain. If row groups are skipped, row positions cannot be derived.
    """
    with open_reader(file_io, path, fields, file_size) as reader:
        groups = None if predicate is None else reader.select_row_groups(predicate)
        yield from reader.batches(batch_rows, groups)

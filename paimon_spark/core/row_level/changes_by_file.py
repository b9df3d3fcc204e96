"""The changes of a batch, file by file."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.core.arrow import one_chunk
from paimon_spark.core.columns import FILE_PATH


def changes_by_file(batch: pa.RecordBatch) -> Iterator[tuple[str | None, pa.RecordBatch]]:
    """Yield each run of rows with the same file: its path, or None for new rows, and the rows."""
    paths = pc.run_end_encode(one_chunk(batch.column(FILE_PATH)))
    start = 0
    for path, end in zip(paths.values.to_pylist(), paths.run_ends.to_pylist(), strict=True):
        yield path, batch.slice(start, end - start)
        start = end

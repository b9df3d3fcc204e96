"""Where the values of a column are that global indexes name by row id."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from paimon_spark.core.file_schemas import FileSchemas
from paimon_spark.core.metadata.row_ranges import evolves, row_ranges
from paimon_spark.core.table import Table
from paimon_spark.spec.manifest import BucketKey, DataFileMeta, ManifestEntry
from paimon_spark.spec.types import DataField


@dataclass(frozen=True, slots=True)
class ColumnRows:
    """Rows of one bucket, and the file with their values of a column.

    Attributes:
        key: the bucket.
        first: id of the first row; None if the rows are not numbered in order, because they were moved there.
        rows: number of rows.
        file: the file; None if the column was added after the rows were written.
    """

    key: BucketKey
    first: int | None
    rows: int
    file: DataFileMeta | None

    @property
    def file_name(self) -> str | None:
        """Return the name of the file."""
        return None if self.file is None else self.file.file_name


def column_rows(table: Table, entries: Iterable[ManifestEntry], column: DataField) -> Iterator[ColumnRows]:
    """Yield the rows of live files by bucket; of a row range, the newest file that has the column counts."""
    buckets: dict[BucketKey, list[DataFileMeta]] = defaultdict(list)
    for e in entries:
        buckets[e.bucket_key].append(e.file)
    schemas = FileSchemas(table)
    for key, files in buckets.items():
        yield from _of_bucket(table, schemas, key, files, column)


def _of_bucket(
    table: Table, schemas: FileSchemas, key: BucketKey, files: Sequence[DataFileMeta], column: DataField
) -> Iterator[ColumnRows]:
    if not evolves(table):
        yield from (ColumnRows(key, f.first_row_id, f.row_count, f) for f in files)
        return

    def holds(file: DataFileMeta) -> bool:
        held = schemas.of(file.schema_id).fields
        return any(f.id == column.id and (file.write_cols is None or f.name in file.write_cols) for f in held)

    for found in row_ranges(files):
        in_path = column.name in table.schema.partition_keys
        holder = found.anchor if in_path else next(filter(holds, found.data), None)
        yield ColumnRows(key, found.anchor.first_row_id, found.rows, holder)

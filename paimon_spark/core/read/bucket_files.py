"""Reads the data files of one bucket in the table's current schema, as chunks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from paimon_spark.core.columns import BUCKET, FILE_PATH, LEVEL, ROW_INDEX, TRACKING_FIELDS, VECTOR
from paimon_spark.core.file_schemas import FileSchemas
from paimon_spark.core.levels import SortedRun
from paimon_spark.core.merge.config import SYSTEM_FIELDS
from paimon_spark.core.metadata.row_ranges import RowRange, evolves
from paimon_spark.core.metadata.row_tracking import fill_row_ids, stored_tracking
from paimon_spark.core.metadata.snapshot_order import check_ordered, with_snapshots
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.read.arrow_predicates import to_expression
from paimon_spark.core.read.deleted_rows import (
    DeletedPositions,
    DeletedRows,
    as_retracts,
    deleted_rows,
    without_deleted,
)
from paimon_spark.core.read.projection import ColumnPlan, plan_columns
from paimon_spark.core.scan.file_indexes import FileIndexes
from paimon_spark.core.scan.splits import Split
from paimon_spark.core.table import Table
from paimon_spark.errors import CorruptTableError, ErrorKind
from paimon_spark.format.base import FileReader
from paimon_spark.format.registry import bytes_to_read, open_reader
from paimon_spark.format.schema_conform import empty_columns
from paimon_spark.spec.features import check_maps_stored
from paimon_spark.spec.kinds import VALUE_KIND
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.predicate import TRUE, Predicate, fixed_values, project
from paimon_spark.spec.types import AtomicType, DataField, DataType, TypeRoot

_CHUNK_BYTES = 16 << 20
_NOWHERE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class RowPlace:
    """The location of rows: the file that represents them, its deleted rows, and the file that was written last."""

    path: str
    deleted: DeletedPositions | None
    newest: DataFileMeta


class BucketFiles:
    """The data files of one bucket, read in the table's current schema.

    Args:
        table: the table.
        partition: the partition of the bucket.
        bucket: the bucket.
        deleted_rows: the rows of each file that are left out.
        keep: returns the rows to keep of each chunk; all by default.
        retracts_deleted: whether deleted rows are retracts wherever kinds are read, and not left out.
    """

    def __init__(
        self,
        table: Table,
        partition: bytes,
        bucket: int,
        deleted_rows: DeletedRows = lambda _: None,
        keep: Callable[[pa.Table], pa.Table] | None = None,
        *,
        retracts_deleted: bool = False,
    ) -> None:
        self.table = table
        self.partition = partition
        self.bucket = bucket
        self.deleted_rows = deleted_rows
        self._keep = keep
        self._retracts_deleted = retracts_deleted
        self._by_snapshot = table.is_primary_key_table and table.options.snapshot_ordering
        self._paths = table.paths
        self._schemas = FileSchemas(table)
        self._indexes = FileIndexes(table)

    @classmethod
    def of(cls, table: Table, split: Split) -> BucketFiles:
        """Return the files of the bucket of a split, with the deleted rows of the split's files."""
        deleted = deleted_rows(table, split)
        return cls(table, split.partition, split.bucket, deleted, retracts_deleted=split.chained)

    def path(self, file: DataFileMeta) -> str:
        """Return the path of `file`."""
        return self._paths.data_file(self.partition, self.bucket, file)

    def run(
        self,
        run: SortedRun,
        fields: Sequence[DataField],
        condition: Predicate,
        metadata_columns: Sequence[str],
        chunk_bytes: int,
    ) -> Iterator[pa.Table]:
        """Yield the rows of a sorted run in chunks of about `chunk_bytes`, with as little buffering as possible."""
        for file in run.files:
            with translate_io_errors():
                yield from self._chunks(
                    file, fields, condition, chunk_bytes, metadata_columns=metadata_columns, streamed=True
                )

    def chunks(
        self,
        file: DataFileMeta,
        fields: Sequence[DataField],
        condition: Predicate = TRUE,
        *,
        metadata_columns: Sequence[str] = (),
        rows_of: RowRange | None = None,
    ) -> Iterator[pa.Table]:
        """Yield the rows of one file as `fields` of the table, in chunks of about `_CHUNK_BYTES`.

        Row groups whose statistics or file indexes prove `condition` false are skipped. The `METADATA_FIELDS` named in
        `metadata_columns` come last, then ``_LEVEL`` if it is named. If the file holds some columns of a row range,
        `rows_of` gives that.
        """
        with translate_io_errors():
            yield from self._chunks(
                file, fields, condition, _CHUNK_BYTES, metadata_columns=metadata_columns, rows_of=rows_of
            )

    def columns(self, file: DataFileMeta, fields: Sequence[DataField]) -> Iterator[pa.Table]:
        """Yield some columns of all rows of one file, deleted ones included; each chunk holds about `_CHUNK_BYTES`."""
        plan = self._plan(file, fields)
        with translate_io_errors(), self._open(file, plan) as reader:
            yield from map(plan.apply, reader.chunks(reader.select_row_groups(None), _CHUNK_BYTES))

    def bytes_to_read(self, file: DataFileMeta, fields: Sequence[DataField], condition: Predicate) -> int:
        """Return the number of bytes of one file for `fields` in the row groups in which `condition` may be true."""
        plan = self._plan(file, fields)
        pushed = _pushable(condition, plan)
        with translate_io_errors():
            return bytes_to_read(self.table.file_io, self.path(file), plan.physical, pushed, file.file_size)

    def place(self, file: DataFileMeta, rows_of: RowRange | None = None) -> RowPlace:
        """Return the location of the rows of a file, which may hold some columns of a row range."""
        anchor, newest = (file, file) if rows_of is None else (rows_of.anchor, rows_of.newest)
        return RowPlace(self.path(anchor), self.deleted_rows(anchor), newest)

    def complete(self, rows: pa.Table, place: RowPlace, start: int, metadata_columns: Sequence[str]) -> pa.Table:
        """Return rows with their metadata columns, without those that are deleted or not kept.

        Args:
            rows: rows with all columns of the table and of `TRACKING_FIELDS` that are wanted.
            place: the location of the rows.
            start: position of the first row there.
            metadata_columns: see `chunks`.
        """
        if not self.table.is_primary_key_table:
            rows = fill_row_ids(rows, place.newest, start, place.path)
        elif self._by_snapshot:
            rows = with_snapshots(rows, place.newest)
        rows = self._with_metadata(rows, place, start, metadata_columns)
        if LEVEL in metadata_columns:
            rows = rows.append_column(LEVEL, pa.repeat(pa.scalar(place.newest.level, pa.int8()), rows.num_rows))
        if place.deleted is not None:
            retracts = self._retracts_deleted and VALUE_KIND in rows.column_names
            rows = (as_retracts if retracts else without_deleted)(rows, place.deleted, start)
        return rows if self._keep is None else self._keep(rows)

    def _chunks(
        self,
        file: DataFileMeta,
        fields: Sequence[DataField],
        condition: Predicate,
        chunk_bytes: int,
        *,
        metadata_columns: Sequence[str],
        streamed: bool = False,
        rows_of: RowRange | None = None,
    ) -> Iterator[pa.Table]:
        plan = self._plan(file, fields)
        place = self.place(file, rows_of)
        if self._by_snapshot:
            check_ordered(file, place.path)
        selected = self._selected(file, condition, place.deleted)
        if selected is not None and not selected:
            return
        with self._open(file, plan) as reader:
            # Row group offsets are computed only on demand: some formats have to count rows for them.
            tracked = not self.table.is_primary_key_table and any(f in TRACKING_FIELDS for f in fields)
            located = ROW_INDEX in metadata_columns or tracked or place.deleted is not None or selected is not None
            starts = np.concatenate([[0], np.cumsum(reader.row_group_rows)]) if located else _NOWHERE
            groups = list(self._row_groups(reader, condition, plan))
            if selected is not None:
                groups = [i for i in groups if selected.range_cardinality(int(starts[i]), int(starts[i + 1]))]
            for span in _adjacent(groups):
                start = int(starts[span[0]]) if located else 0
                for batch in reader.chunks(span, chunk_bytes, streamed=streamed):
                    yield self.complete(plan.apply(batch), place, start, metadata_columns)
                    start += batch.num_rows

    def _row_groups(self, reader: FileReader, condition: Predicate, plan: ColumnPlan) -> Iterator[int]:
        """Yield the row groups that may have matching rows: by statistics, and for single keys by the keys in them."""
        keys = self.table.schema.trimmed_primary_keys
        on_keys = project(condition, keys)
        wanted = None if fixed_values(on_keys, keys) is None else _pushable(on_keys, plan)
        for index in reader.select_row_groups(_pushable(condition, plan)):
            if wanted is None or reader.has_match(index, wanted, keys):
                yield index

    def _selected(self, file: DataFileMeta, condition: Predicate, deleted: DeletedPositions | None) -> BitMap | None:
        """Return the rows that may match by the file's indexes and are not deleted; None if they leave none out.

        Deleted rows that are read as retracts count as rows.
        """
        if condition == TRUE or evolves(self.table):
            return None
        rows = self._indexes.rows(self.partition, self.bucket, file, condition)
        return rows if rows is None or deleted is None or self._retracts_deleted else rows - deleted.positions

    def _open(self, file: DataFileMeta, plan: ColumnPlan) -> FileReader:
        path = self.path(file)
        try:
            reader = open_reader(self.table.file_io, path, plan.physical, file.file_size)
        except FileNotFoundError as e:
            raise CorruptTableError(
                f"The data file {path} of table {self.table.name} is missing.",
                hint="If its snapshot was expired meanwhile, run the query again; else roll back.",
                kind=ErrorKind.FILE_MISSING,
            ) from e
        if reader.row_count != file.row_count:
            count = reader.row_count
            reader.close()
            raise CorruptTableError(
                f"The data file {path} has {count} rows, but its manifest records {file.row_count}.",
                hint="It is not the file that was committed. Restore it, or roll back to a snapshot without it.",
                kind=ErrorKind.CORRUPT_DATA_FILE,
            )
        return reader

    def _with_metadata(self, rows: pa.Table, place: RowPlace, start: int, metadata_columns: Sequence[str]) -> pa.Table:
        n = rows.num_rows
        vector = None if place.deleted is None else place.deleted.fingerprint
        columns: dict[str, Callable[[], pa.Array]] = {
            FILE_PATH: lambda: pa.repeat(place.path, n),
            ROW_INDEX: lambda: pa.array(np.arange(start, start + n, dtype=np.int64)),
            BUCKET: lambda: pa.repeat(pa.scalar(self.bucket, pa.int32()), n),
            VECTOR: lambda: pa.repeat(pa.scalar(vector, pa.int64()), n),
        }
        for name, column in columns.items():
            if name in metadata_columns:
                rows = rows.append_column(name, column())
        return rows

    def without_source(self, fields: Sequence[DataField], rows: int) -> dict[str, pa.Array]:
        """Return columns of `rows` rows that no file holds: partition values, and nulls."""
        plan = plan_columns(fields, (), self._constants(fields), self.table.zone)
        empty = plan.apply(empty_columns(rows))
        return dict(zip(empty.column_names, empty.columns, strict=True))

    def _constants(self, fields: Sequence[DataField]) -> dict[str, Any]:
        values = self.table.partition_values(self.partition)
        named = dict(zip(self.table.schema.partition_keys, values, strict=True))
        return {f.name: named[f.name] for f in fields if f.name in named}

    def held(self, file: DataFileMeta) -> tuple[DataField, ...]:
        """Return the columns that a file holds, as they were when it was written."""
        written = self._schemas.of(file.schema_id).fields
        return written if file.write_cols is None else tuple(f for f in written if f.name in file.write_cols)

    def _plan(self, file: DataFileMeta, fields: Sequence[DataField]) -> ColumnPlan:
        table = self.table
        held = self.held(file)
        system = SYSTEM_FIELDS if table.is_primary_key_table else stored_tracking(file)
        plan = plan_columns(fields, (*system, *held), self._constants(fields), table.zone)
        check_maps_stored(self._schemas.of(file.schema_id), plan.physical, file.file_name)
        return plan


def _adjacent(numbers: Sequence[int]) -> list[list[int]]:
    """Return ascending numbers, cut where one is not the next of the one before."""
    cuts = np.flatnonzero(np.diff(numbers) != 1) + 1
    return [part.tolist() for part in np.split(np.asarray(numbers, dtype=np.int64), cuts) if len(part)]


def _pushable(condition: Predicate, plan: ColumnPlan) -> pc.Expression | None:
    """Return the part of `condition` that can be evaluated on the file's own statistics, which leave out NaN."""
    same = {
        w.name: s
        for w, s in zip(plan.wanted, plan.sources, strict=True)
        if s is not None and s.name == w.name and s.type == w.type and _has_bounds(s.type)
    }
    part = project(condition, list(same))
    return None if part == TRUE else to_expression(part, same)


def _has_bounds(t: DataType) -> bool:
    """Return whether statistics in files are of all values of a type."""
    return not (isinstance(t, AtomicType) and t.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE))

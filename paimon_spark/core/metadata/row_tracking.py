"""Row tracking: each row of an append table has an id and the snapshot of its last change.

A new file stores neither: the commit assigns its first row id, and its rows are numbered from there. Files with rows
that were moved from other files store both as columns, because those rows keep their ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.core.columns import TRACKING_FIELDS
from paimon_spark.core.metadata.row_ranges import is_blob_file, is_vector_file
from paimon_spark.core.table import Table
from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.kinds import (
    ROW_ID,
    SEQUENCE_NUMBER,
    FileKind,
    FileSource,
)
from paimon_spark.spec.manifest import DataFileMeta, ManifestEntry
from paimon_spark.spec.types import DataField


def tracks_rows(table: Table) -> bool:
    """Return whether the table tracks rows."""
    return table.options.flag("row-tracking.enabled") and not table.is_primary_key_table


def stored_tracking(file: DataFileMeta) -> tuple[DataField, ...]:
    """Return the tracking columns that a file of an append table stores."""
    return tuple(f for f in TRACKING_FIELDS if file.write_cols is not None and f.name in file.write_cols)


def has_row_ids(file: DataFileMeta) -> bool:
    """Return whether the rows of a file of an append table have ids; writers that do not track rows give none."""
    return file.first_row_id is not None or ROW_ID in (file.write_cols or ())


def fill_row_ids(rows: pa.Table, file: DataFileMeta, start: int, where: str) -> pa.Table:
    """Return rows of a file with the nulls of their tracking columns filled in; columns that were not read stay absent.

    Args:
        rows: rows with the stored tracking columns, null where nothing is stored.
        file: the file.
        start: position of the first row in the file.
        where: path of the file, for error messages.

    Raises:
        CorruptTableError: neither the file nor its metadata has the row ids.
    """
    for i, name in enumerate(rows.schema.names):
        if name == ROW_ID and rows.column(i).null_count:
            if file.first_row_id is None:
                raise CorruptTableError(
                    f"The data file {where} does not store the ids of its rows.",
                    hint="It was written before 'row-tracking.enabled' was set, or by a program that does not track "
                    "rows. Select the other columns only, or write the rows again by INSERT OVERWRITE, which gives "
                    "them ids.",
                )
            ids = pa.array(np.arange(rows.num_rows, dtype=np.int64) + (file.first_row_id + start))
            rows = rows.set_column(i, name, pc.coalesce(rows.column(i), ids))
        elif name == SEQUENCE_NUMBER and rows.column(i).null_count:
            rows = rows.set_column(i, name, pc.fill_null(rows.column(i), file.max_sequence_number))
    return rows


def with_kept_ids(new: pa.Table, old: pa.Table, positions: pa.Array) -> pa.Table:
    """Return new row versions with the ids of the old ones; the commit assigns the snapshot of the change."""
    return with_ids(new, old.column(ROW_ID).take(positions))


def with_ids(new: pa.Table, ids: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Return new row versions with `ids`; the commit assigns the snapshot of the change."""
    return new.append_column(ROW_ID, ids).append_column(SEQUENCE_NUMBER, pa.nulls(new.num_rows, pa.int64()))


def sequence_bounds(column: pa.ChunkedArray) -> tuple[int, int]:
    """Return the lowest and highest sequence number for the metadata of a file; 0 means that the commit assigns it."""
    bounds = pc.min_max(column).as_py()
    return bounds["min"] or 0, 0 if column.null_count else bounds["max"] or 0


def assign_row_ids(
    entries: Iterable[ManifestEntry], snapshot_id: int, next_row_id: int, *, grouped: bool = True
) -> tuple[tuple[ManifestEntry, ...], int]:
    """Return the entries of a commit with row ids and sequence numbers assigned, and the next free row id.

    Args:
        entries: entries that the commit adds and deletes.
        snapshot_id: id of the snapshot being created.
        next_row_id: the first free row id.
        grouped: assign contiguous ids per partition.
    """
    groups: dict[bytes, list[ManifestEntry]] = {}
    for entry in entries:
        groups.setdefault(entry.partition if grouped else b"", []).append(entry)
    out: list[ManifestEntry] = []
    ids = _NextIds(next_row_id)
    for group in groups.values():
        for entry in group:
            file = entry.file
            if entry.kind is FileKind.ADD:
                file = _sequenced(file, snapshot_id)
                if file.file_source is FileSource.APPEND and file.first_row_id is None and not stored_tracking(file):
                    file = replace(file, first_row_id=ids.take(file))
            out.append(replace(entry, file=file))
    return tuple(out), ids.following


class _NextIds:
    """The ids of new rows. Files of single columns have the rows of the data file before them."""

    def __init__(self, following: int) -> None:
        self.following = following
        self._first = following
        self._taken: dict[tuple[str, ...], int] = {}

    def take(self, file: DataFileMeta) -> int:
        """Return the id of the first row of a file."""
        if not is_blob_file(file) and not is_vector_file(file):
            self._first, self._taken = self.following, {}
            self.following += file.row_count
            return self._first
        columns = file.write_cols or ()
        taken = self._taken.get(columns, 0)
        self._taken[columns] = taken + file.row_count
        return self._first + taken


def _sequenced(file: DataFileMeta, snapshot_id: int) -> DataFileMeta:
    if file.min_sequence_number == 0:
        return replace(file, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id)
    return replace(file, max_sequence_number=snapshot_id) if file.max_sequence_number == 0 else file

"""Versions of rows that are ordered by the snapshots that added them, with ``sequence.snapshot-ordering``.

A commit assigns its snapshot to the files that it adds, as their sequence numbers; those in the files are not used. A
compaction writes the assigned numbers into its files, which it reads from there. (docs/spec/semantics.md, W8)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from paimon_spark.errors import CorruptTableError, ErrorKind
from paimon_spark.spec.kinds import SEQUENCE_NUMBER, FileKind, FileSource
from paimon_spark.spec.manifest import DataFileMeta, ManifestEntry


def assign_snapshot(entries: Iterable[ManifestEntry], snapshot_id: int) -> tuple[ManifestEntry, ...]:
    """Return the entries of a commit that writes rows; its snapshot is the sequence number of the added files."""
    return tuple(_assigned(e, snapshot_id) if e.kind is FileKind.ADD else e for e in entries)


def _assigned(entry: ManifestEntry, snapshot_id: int) -> ManifestEntry:
    file = replace(entry.file, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id)
    return replace(entry, file=file)


def check_ordered(file: DataFileMeta, path: str) -> None:
    """Reject a file of which the metadata does not tell whether its rows have the numbers of snapshots.

    Raises:
        CorruptTableError: the file was written before tables were ordered by snapshot.
    """
    if file.file_source is None:
        raise CorruptTableError(
            f"The data file {path} does not record whether a compaction wrote it, so its rows cannot be ordered by "
            "snapshot.",
            hint="Only new tables can have 'sequence.snapshot-ordering'. Create one, and copy the rows into it.",
            kind=ErrorKind.CORRUPT_DATA_FILE,
        )


def with_snapshots(rows: pa.Table, file: DataFileMeta) -> pa.Table:
    """Return rows of a file with the numbers of their snapshots, if they have sequence numbers."""
    if file.file_source is not FileSource.APPEND or SEQUENCE_NUMBER not in rows.column_names:
        return rows
    at = rows.column_names.index(SEQUENCE_NUMBER)
    numbers = pa.repeat(pa.scalar(file.min_sequence_number, pa.int64()), rows.num_rows)
    return rows.set_column(at, rows.schema.field(at), numbers)

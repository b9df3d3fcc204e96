"""Row ranges of data-evolution tables: the files that hold different columns of the same rows.

Each file has the id of its first row, so files of one row range overlap in ids. A data file covers its whole range; a
file of BLOB or VECTOR values may cover a part of it. Where several files hold a column, the newest counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from paimon_spark.core.table import Table
from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.types import AtomicType, TypeRoot

_BLOB_SUFFIX = ".blob"
_VECTOR_MARK = ".vector."


def evolves(table: Table) -> bool:
    """Return whether several files of the table may hold different columns of the same rows."""
    return table.options.flag("data-evolution.enabled") and not table.is_primary_key_table


def blob_columns(table: Table) -> tuple[str, ...]:
    """Return the columns whose values are in files of their own."""
    if not evolves(table):
        return ()
    return tuple(f.name for f in table.schema.fields if isinstance(f.type, AtomicType) and f.type.root is TypeRoot.BLOB)


def is_blob_file(file: DataFileMeta) -> bool:
    """Return whether a file holds the values of a BLOB column."""
    return file.file_name.endswith(_BLOB_SUFFIX)


def is_vector_file(file: DataFileMeta) -> bool:
    """Return whether a file holds the values of VECTOR columns."""
    return _VECTOR_MARK in file.file_name


@dataclass(frozen=True, slots=True)
class RowRange:
    """The files of the rows whose ids overlap.

    Attributes:
        data: files that cover all rows, newest first.
        blobs: files of BLOB values, by first row, newest first.
        vectors: files of VECTOR values, by first row, newest first.
    """

    data: tuple[DataFileMeta, ...]
    blobs: tuple[DataFileMeta, ...] = ()
    vectors: tuple[DataFileMeta, ...] = ()

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """Return all files."""
        return (*self.data, *self.blobs, *self.vectors)

    @property
    def newest(self) -> DataFileMeta:
        """Return the data file that was written last."""
        return self.data[0]

    @property
    def anchor(self) -> DataFileMeta:
        """Return the data file that represents the rows: the oldest. It has the deletion vector."""
        return min(self.data, key=lambda f: (f.max_sequence_number, f.file_name))

    @property
    def first(self) -> int:
        """Return the id of the first row."""
        return self.anchor.first_row_id or 0

    @property
    def rows(self) -> int:
        """Return the number of rows, deleted ones included."""
        return self.anchor.row_count

    def weight(self, blob_cost: int | None) -> int:
        """Return the bytes to read; each BLOB file counts as `blob_cost` bytes if that is given."""
        sizes = (f.file_size if blob_cost is None else blob_cost for f in self.blobs)
        return sum(f.file_size for f in (*self.data, *self.vectors)) + sum(sizes)


def row_ranges(files: Iterable[DataFileMeta]) -> list[RowRange]:
    """Group the files of one bucket by overlapping row ids, in the order of the ids; files without ids come first.

    Raises:
        CorruptTableError: the files of a range do not fit together.
    """
    groups: list[list[DataFileMeta]] = []
    end = -1
    for file in sorted(files, key=lambda f: (-1 if f.first_row_id is None else f.first_row_id, f.file_name)):
        if file.first_row_id is None or file.first_row_id >= end or not groups:
            groups.append([])
        groups[-1].append(file)
        end = max(end, (file.first_row_id or 0) + file.row_count) if file.first_row_id is not None else end
    return [_range(group) for group in groups]


def _range(files: Sequence[DataFileMeta]) -> RowRange:
    blobs = tuple(sorted(filter(is_blob_file, files), key=_by_row))
    vectors = tuple(sorted(filter(is_vector_file, files), key=_by_row))
    plain = [f for f in files if not is_blob_file(f) and not is_vector_file(f)]
    data = sorted(plain, key=lambda f: (f.max_sequence_number, f.file_name), reverse=True)
    names = ", ".join(f.file_name for f in files)
    if not data:
        raise CorruptTableError(
            f"The files {names} hold columns of rows that no other file holds.",
            hint="Restore the data file of these rows, or roll back to a snapshot with it.",
        )
    if len({(f.first_row_id, f.row_count) for f in data}) > 1:
        raise CorruptTableError(
            f"The data files {names} overlap in row ids, but do not hold the same rows.",
            hint="Roll back to a snapshot before they were committed.",
        )
    return RowRange(tuple(data), blobs, vectors)


def _by_row(file: DataFileMeta) -> tuple[int, int]:
    return file.first_row_id or 0, -file.max_sequence_number


def anchors(table: Table, files: Sequence[DataFileMeta]) -> Sequence[DataFileMeta]:
    """Return the files that represent the rows of a split: one for each row range, or all."""
    return [r.anchor for r in row_ranges(files)] if evolves(table) else files

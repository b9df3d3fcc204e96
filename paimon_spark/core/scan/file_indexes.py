"""Tests of data files by their file indexes (docs/spec/semantics.md, R16 and R17).

Columns are found by field id, so a renamed column keeps its index. An index is not used for a column whose type changed
after the file was written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pyroaring import BitMap

from paimon_spark.core.cancellation import checkpoint
from paimon_spark.core.file_schemas import FileSchemas
from paimon_spark.core.metadata_io import in_parallel
from paimon_spark.core.table import Table
from paimon_spark.errors import CorruptTableError, ErrorKind, UnsupportedError
from paimon_spark.format.file_index.container import NewerVersionError, ReadRange
from paimon_spark.format.file_index.reader import FileIndexReader
from paimon_spark.spec.file_indexes import INDEX_SUFFIX
from paimon_spark.spec.manifest import DataFileMeta, ManifestEntry
from paimon_spark.spec.paths import file_in
from paimon_spark.spec.predicate import AlwaysTrue, Predicate, columns_of
from paimon_spark.spec.stats import keeps_order
from paimon_spark.spec.types import AtomicType, DataField, TypeRoot, not_null

_HINT = (
    "Set 'file-index.read.enabled' = 'false' to read without file indexes, or rebuild them: "
    "CALL sys.rewrite_file_index(table => '{table}', force => true)."
)


_FILES_AT_ONCE = 64
"""Number of index files after which cancellation is checked."""


class Answer(NamedTuple):
    """Whether a file may have rows that match the conditions on keys, and rows that match the whole filter."""

    keys: bool
    values: bool


class FileIndexes:
    """The file indexes of a table's data files."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._enabled = table.options.file_index_read_enabled
        self._schemas = FileSchemas(table)

    def usable(self, file: DataFileMeta) -> bool:
        """Return whether the file has indexes, and the options enable them."""
        return self._enabled and (file.embedded_index is not None or bool(index_files(file)))

    def answers(self, entries: Sequence[ManifestEntry], keys: Predicate, predicate: Predicate) -> dict[int, Answer]:
        """Return the results of the index tests by position; none for entries without a usable index."""
        places = [i for i, e in enumerate(entries) if self.usable(e.file)]
        beside = [i for i in places if entries[i].file.embedded_index is None]
        for schema_id in {entries[i].file.schema_id for i in places}:
            self._schemas.of(schema_id)

        def answer(place: int) -> Answer:
            return self._answer(entries[place], keys, predicate)

        found = {i: answer(i) for i in places if entries[i].file.embedded_index is not None}
        for first in range(0, len(beside), _FILES_AT_ONCE):
            checkpoint()
            some = beside[first : first + _FILES_AT_ONCE]
            found |= zip(some, in_parallel(answer, some), strict=True)
        return found

    def _answer(self, entry: ManifestEntry, keys: Predicate, predicate: Predicate) -> Answer:
        found = [
            isinstance(p, AlwaysTrue) or self.rows(entry.partition, entry.bucket, entry.file, p) != BitMap()
            for p in dict.fromkeys((keys, predicate))
        ]
        return Answer(found[0], all(found))

    def rows(self, partition: bytes, bucket: int, file: DataFileMeta, predicate: Predicate) -> BitMap | None:
        """Return the rows of a file that may match; None if its indexes leave none out.

        Raises:
            CorruptTableError: an index is malformed or missing.
            UnsupportedError: an index has an unknown version.
        """
        columns = self._columns(file, predicate) if self.usable(file) else {}
        if not columns:
            return None
        where, read = self._source(partition, bucket, file)
        try:
            return FileIndexReader(read, columns, file.row_count).matching_rows(predicate)
        except NewerVersionError as e:
            raise UnsupportedError(self._message(where, columns, e), hint=self._hint) from e
        except FileNotFoundError as e:
            raise CorruptTableError(
                f"{where} of table {self._table.name} is missing.", hint=self._hint, kind=ErrorKind.FILE_MISSING
            ) from e
        except ValueError as e:
            kind = ErrorKind.CORRUPT_DATA_FILE
            raise CorruptTableError(self._message(where, columns, e), hint=self._hint, kind=kind) from e

    @property
    def _hint(self) -> str:
        return _HINT.format(table=self._table.name)

    def _message(self, where: str, columns: dict[str, tuple[str, AtomicType]], error: Exception) -> str:
        names = ", ".join(f"'{c}'" for c in sorted(columns))
        return f"{where} of table {self._table.name} cannot be used to filter by {names}: {error}."

    def _source(self, partition: bytes, bucket: int, file: DataFileMeta) -> tuple[str, ReadRange]:
        """Return the name of the index in messages, and a function that reads it."""
        data = file.embedded_index
        if data is not None:
            return f"The file index in the manifest entry of {file.file_name}", lambda at, n: data[at : at + n]
        names = index_files(file)
        path = self._table.paths.data_file(partition, bucket, file).rpartition("/")[0]
        if len(names) > 1:
            raise CorruptTableError(
                f"The data file {file.file_name} of table {self._table.name} has several file indexes: "
                f"{', '.join(names)}.",
                hint=self._hint,
            )
        found = file_in(path, names[0])
        return f"The file index {found}", lambda at, n: self._table.file_io.read_range(found, at, n)

    def _columns(self, file: DataFileMeta, predicate: Predicate) -> dict[str, tuple[str, AtomicType]]:
        """Return the columns of the predicate whose values are the same in the file and in the table.

        Partition columns are left out: a file may be read as one of another partition.
        """
        written = {f.id: f for f in self._schemas.of(file.schema_id).fields}
        out = {}
        for name in columns_of(predicate) - set(self._table.schema.partition_keys):
            own = self._table.schema.field(name)
            stored = written.get(own.id)
            if stored is not None and isinstance(stored.type, AtomicType) and same_values(stored, own):
                out[name] = stored.name, stored.type
        return out


def same_values(stored: DataField, own: DataField) -> bool:
    """Return whether the values of a column are the same in the file and in the table."""
    one, other = (t.root if isinstance(t, AtomicType) else None for t in (stored.type, own.type))
    if one is other is TypeRoot.VARCHAR:
        return keeps_order(stored.type, own.type)
    return not_null(stored.type) == not_null(own.type)


def index_files(file: DataFileMeta) -> list[str]:
    """Return the names of the index files of a data file."""
    return [name for name in file.extra_files if name.endswith(INDEX_SUFFIX)]

"""The columns of data files as read by Spark's own reader, and the files that it can read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from paimon_spark.core.columns import FILE_PATH, ROW_INDEX
from paimon_spark.core.file_schemas import FileSchemas
from paimon_spark.core.scan.splits import Split
from paimon_spark.core.table import Table
from paimon_spark.spec.features import maps_not_stored
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.stats import UNKNOWN, may_precede, stats_view
from paimon_spark.spec.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
    children,
)

GREGORIAN_FROM = -141_427
"""The first day of the calendar that all readers share: 15 October 1582."""
_TIMES = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_MILLIS = 3


class FileLayout(NamedTuple):
    """The properties of a file that matter to Spark's own reader."""

    file_format: str
    schema_id: int

    @classmethod
    def of(cls, file: DataFileMeta) -> FileLayout:
        """Return the layout of a file."""
        return cls(format_of(file), file.schema_id)


def format_of(file: DataFileMeta) -> str:
    """Return the format of a file, in lower case."""
    return file.file_name.rpartition(".")[2].lower()


PlacedFile = tuple[Split, DataFileMeta]


@dataclass(frozen=True, slots=True)
class NativeFiles:
    """The files of some splits that have one layout; each iteration reads the splits again."""

    layout: FileLayout
    splits: Sequence[Split]

    def __iter__(self) -> Iterator[PlacedFile]:
        wanted, schema_id = self.layout
        for split in self.splits:
            for file in split.files:
                if file.schema_id == schema_id and format_of(file) == wanted:
                    yield split, file


class NativeColumns:
    """For each file layout: the source of each column, or None if Spark cannot read the files.

    Args:
        table: the table to read.
        read_columns: the columns to read.
        rows_located: whether the position of each row in its file is needed.
    """

    def __init__(self, table: Table, read_columns: Sequence[DataField], *, rows_located: bool) -> None:
        self._table = table
        self._read_columns = read_columns
        self._formats = ("parquet",) if rows_located else ("parquet", "orc")
        self._known: dict[FileLayout, list[DataField | None] | None] = {}
        self._schemas = FileSchemas(table)
        keys = table.schema.partition_keys
        self._days = [f.name for f in read_columns if _is_day(f.type) and f.name not in keys]

    def layouts(self, split: Split) -> tuple[FileLayout, ...] | None:
        """Return the layouts of the files of `split`, or None unless Spark can read all of them."""
        found: dict[FileLayout, None] = {}
        if not split.raw and not self._table.is_primary_key_table:
            return None
        for file in split.files:
            if file.write_cols is not None:
                return None
            if (format_of(file), file.schema_id) not in found:  # cheaper than a FileLayout of each file
                layout = FileLayout.of(file)
                if self.of(layout) is None:
                    return None
                found[layout] = None
            if self._moves_days(file):
                return None
        return tuple(found)

    def _moves_days(self, file: DataFileMeta) -> bool:
        """Return whether the file may have dates that Spark's ORC reader interprets in an older calendar."""
        if not self._days or format_of(file) != "orc":
            return False
        stats = stats_view(file, self._schemas.of(file.schema_id), self._table.schema)
        return any(may_precede(stats.get(day, UNKNOWN), GREGORIAN_FROM, file.row_count) for day in self._days)

    def of(self, layout: FileLayout) -> list[DataField | None] | None:
        """Return the columns of the files, in the order of those that are read."""
        if layout not in self._known:
            self._known[layout] = self._find(layout)
        return self._known[layout]

    def _find(self, layout: FileLayout) -> list[DataField | None] | None:
        if layout.file_format not in self._formats:
            return None
        table, schema = self._table, self._schemas.of(layout.schema_id)
        if layout.file_format == "orc" and any(_holds_instants(f.type) for f in schema.fields):
            return None
        by_id = {f.id: f for f in schema.fields}
        found: list[DataField | None] = []
        for wanted in self._read_columns:
            source = by_id.get(wanted.id)
            if source is not None and source.name.lower() in (FILE_PATH, ROW_INDEX):
                return None  # a scan that leaves rows out adds columns of these names
            if wanted.name in table.schema.partition_keys:
                found.append(wanted)
            elif source is None:
                found.append(None)
            elif _same(source.type, wanted.type) and _readable(source.type, layout.file_format):
                found.append(source)
            else:
                return None
        return None if maps_not_stored(schema, (s for s in found if s is not None)) else found


def _same(a: DataType, b: DataType) -> bool:
    """Return whether two types are equal but for nullability."""
    if isinstance(a, RowType) and isinstance(b, RowType):
        return [(f.id, f.name) for f in a.fields] == [(f.id, f.name) for f in b.fields] and all(
            _same(x.type, y.type) for x, y in zip(a.fields, b.fields, strict=True)
        )
    if isinstance(a, AtomicType) and isinstance(b, AtomicType):
        return (a.root, a.length, a.precision, a.scale) == (b.root, b.length, b.precision, b.scale)
    if type(a) is not type(b):
        return False
    return all(_same(x, y) for x, y in zip(children(a), children(b), strict=True))


def _is_day(t: DataType) -> bool:
    return isinstance(t, AtomicType) and t.root is TypeRoot.DATE


def _holds_instants(t: DataType) -> bool:
    """Return whether Spark's ORC reader fails on the type in a file's schema, even if the column is not read."""
    if isinstance(t, ArrayType | MapType | RowType):
        return any(map(_holds_instants, children(t)))
    return isinstance(t, AtomicType) and t.root is TypeRoot.TIMESTAMP_LTZ


def _readable(t: DataType, file_format: str) -> bool:
    """Return whether Spark's own reader gives exactly the table's values."""
    if isinstance(t, ArrayType | MapType | RowType):
        return all(_readable(c, file_format) and not (file_format == "orc" and _is_day(c)) for c in children(t))
    if not isinstance(t, AtomicType) or t.root in (TypeRoot.TIME, TypeRoot.VARIANT):
        return False
    if t.root in _TIMES:
        return file_format == "parquet" and (t.precision or 0) <= 6
    return not (file_format == "orc" and t.root is TypeRoot.CHAR)


def has_millis(t: DataType) -> bool:
    """Return whether a timestamp of the column has milliseconds only in the files."""
    if isinstance(t, ArrayType | MapType | RowType):
        return any(map(has_millis, children(t)))
    return isinstance(t, AtomicType) and t.root in _TIMES and (t.precision or 0) <= _MILLIS

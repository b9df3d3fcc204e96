"""Checks of single files against the metadata: footers, rows, deletion vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from paimon_spark.core.cancellation import checkpoint
from paimon_spark.core.file_schemas import FileSchemas
from paimon_spark.core.merge.config import SYSTEM_FIELDS
from paimon_spark.core.metadata.deletion_vectors import StoredVectors, VectorRef
from paimon_spark.core.table import Table
from paimon_spark.errors import PaimonError
from paimon_spark.format.registry import open_reader
from paimon_spark.spec.bounds import Long
from paimon_spark.spec.features import check_maps_stored
from paimon_spark.spec.types import DataField


class Defect(StrEnum):
    """Stable codes of defects."""

    MISSING = "MISSING"
    WRONG_SIZE = "WRONG_SIZE"
    UNREADABLE = "UNREADABLE"
    WRONG_ROW_COUNT = "WRONG_ROW_COUNT"
    WRONG_VECTOR = "WRONG_VECTOR"
    DANGLING_VECTOR = "DANGLING_VECTOR"
    SNAPSHOT_GAP = "SNAPSHOT_GAP"
    MORE = "MORE"


@dataclass(frozen=True, slots=True)
class FileCheck:
    """A data file with its manifest entry."""

    path: str
    size: Long
    rows: Long
    schema_id: Long


@dataclass(frozen=True, slots=True)
class VectorCheck:
    """The deletion vector of a data file; `rows` is the row count of that file, None if unknown."""

    path: str
    data_file: str
    offset: Long
    length: Long
    cardinality: Long | None
    rows: Long | None


@dataclass(frozen=True, slots=True)
class Fault:
    """A defect of a file, and what was found."""

    path: str
    defect: str
    found: str


def check_data_files(table: Table, checks: Iterable[FileCheck], *, decode: bool) -> Iterator[Fault]:
    """Yield the files whose footer disagrees with the manifest; with `decode`, all their rows are read, too."""
    schemas = FileSchemas(table)
    for check in checks:
        checkpoint()
        try:
            rows = _rows(table, schemas, check, decode=decode)
        except FileNotFoundError:
            yield Fault(check.path, Defect.MISSING, "the file does not exist")
        except (PaimonError, OSError) as e:
            yield Fault(check.path, Defect.UNREADABLE, str(e))
        else:
            if rows != check.rows:
                yield Fault(
                    check.path, Defect.WRONG_ROW_COUNT, f"it has {rows} rows, its manifest records {check.rows}"
                )


def _rows(table: Table, schemas: FileSchemas, check: FileCheck, *, decode: bool) -> int:
    schema = schemas.of(check.schema_id)
    fields: tuple[DataField, ...] = (*SYSTEM_FIELDS, *schema.fields) if schema.primary_keys else tuple(schema.fields)
    if decode:
        check_maps_stored(schema, schema.fields, check.path)
    with open_reader(table.file_io, check.path, fields, check.size) as reader:
        return sum(batch.num_rows for batch in reader.batches()) if decode else reader.row_count


def check_vectors(table: Table, checks: Iterable[VectorCheck]) -> Iterator[Fault]:
    """Yield the deletion vectors that cannot be decoded, or do not fit their data files."""
    vectors = StoredVectors(table.file_io)
    for check in checks:
        checkpoint()
        try:
            bitmap = vectors.bitmap(check.data_file, VectorRef(check.path, check.offset, check.length))
        except (PaimonError, OSError) as e:
            yield Fault(check.path, Defect.WRONG_VECTOR, str(e))
            continue
        if bitmap is None:
            continue
        if check.cardinality is not None and len(bitmap) != check.cardinality:
            yield Fault(
                check.path,
                Defect.WRONG_VECTOR,
                f"the vector of {check.data_file} marks {len(bitmap)} rows, its index manifest records "
                f"{check.cardinality}",
            )
        if check.rows is not None and bitmap and bitmap.max() >= check.rows:
            yield Fault(
                check.path,
                Defect.WRONG_VECTOR,
                f"the vector of {check.data_file} marks row {bitmap.max()}, but the file has {check.rows} rows",
            )

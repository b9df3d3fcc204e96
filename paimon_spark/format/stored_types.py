"""The types in Parquet and ORC files of other writers, and whether the readers return them as given types.

Only types are accepted that paimon-spark, Spark and Paimon read with the same values from every file: Paimon decodes
Parquet values by the type of the table, regardless of the file's type.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from paimon_spark.format.arrow_types import UNIT_DIGITS, to_arrow_type
from paimon_spark.format.int96 import AS_BYTES, shown_as_bytes
from paimon_spark.format.read_errors import data_file_errors
from paimon_spark.format.variant_shredding import is_shredded
from paimon_spark.fs.base import FileIO
from paimon_spark.spec.types import ArrayType, AtomicType, DataType, MapType, RowType, TypeRoot

_HYBRID_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_SHORT_INTEGERS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32}
_MICROS = 6
_VARIANT = {"value": pa.binary(), "metadata": pa.binary()}


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of columns.

    Attributes:
        rows: the number of its rows.
        schema: its columns; INT96 values are 12 bytes.
        hybrid_calendar: whether Spark has marked old dates or times as those of the Julian and Gregorian calendar.
    """

    rows: int
    schema: pa.Schema
    hybrid_calendar: bool = False


def stored_file(file_io: FileIO, path: str, file_format: str) -> StoredFile:
    """Return the contents of the footer of a Parquet or ORC file, whose name may have any suffix.

    Raises:
        CorruptTableError: it is no such file, or damaged.
    """
    with data_file_errors(path), file_io.open_input(path) as source:
        if file_format == "orc":
            file = orc.ORCFile(source)
            return StoredFile(int(file.nrows), file.schema)
        metadata = pq.read_metadata(source)
        hybrid = any(key in (metadata.metadata or {}) for key in _HYBRID_CALENDAR)
        schema = shown_as_bytes(source, metadata).schema.to_arrow_schema()
        return StoredFile(int(metadata.num_rows), schema, hybrid)


def is_read_as(stored: pa.DataType, t: DataType, file_format: str) -> bool:
    """Return whether all readers return values of a stored type unchanged as values of `t`."""
    found = stored.value_type if pa.types.is_dictionary(stored) else stored
    if isinstance(t, AtomicType):
        return _is_atomic(found, t, file_format)
    if isinstance(t, RowType):
        return (
            pa.types.is_struct(found)
            and [f.name for f in found] == [f.name for f in t.fields]
            and all(is_read_as(a.type, b.type, file_format) for a, b in zip(found, t.fields, strict=True))
        )
    if isinstance(t, ArrayType):
        return pa.types.is_list(found) and is_read_as(found.value_type, t.element, file_format)
    if isinstance(t, MapType):
        return (
            pa.types.is_map(found)
            and is_read_as(found.key_type, t.key, file_format)
            and is_read_as(found.item_type, t.value, file_format)
        )
    return False


def stored_text(t: pa.DataType) -> str:
    """Return a stored type for messages."""
    return "int96" if t == AS_BYTES else str(t)


def _is_atomic(found: pa.DataType, t: AtomicType, file_format: str) -> bool:
    if t.root in _SHORT_INTEGERS:  # all have the physical type INT32
        return pa.types.is_signed_integer(found) and found.bit_width <= _SHORT_INTEGERS[t.root]
    if t.root in (TypeRoot.CHAR, TypeRoot.VARCHAR):
        return pa.types.is_string(found) or pa.types.is_large_string(found)
    if t.root in (TypeRoot.BINARY, TypeRoot.VARBINARY):
        return pa.types.is_binary(found) or pa.types.is_large_binary(found)
    if t.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        return _is_timestamp(found, t, file_format)
    if t.root is TypeRoot.VARIANT:
        return bool(pa.types.is_struct(found)) and _is_variant(found, file_format)
    return bool(found == to_arrow_type(t))


def _is_variant(found: pa.StructType, file_format: str) -> bool:
    if file_format == "parquet" and is_shredded(found):
        return True
    return {f.name: f.type for f in found} == _VARIANT


def _is_timestamp(found: pa.DataType, t: AtomicType, file_format: str) -> bool:
    """Return whether a stored type has the instants, or the wall clock times, of `t`."""
    local, precision = t.root is TypeRoot.TIMESTAMP_LTZ, _MICROS if t.precision is None else t.precision
    if found == AS_BYTES:
        return local and precision >= _MICROS  # writers store instants
    if not pa.types.is_timestamp(found) or local != (found.tz is not None):
        return False
    return file_format == "orc" or UNIT_DIGITS[found.unit] <= min(precision, _MICROS)

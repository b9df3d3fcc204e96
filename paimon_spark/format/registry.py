"""Registry of file formats by format name and file suffix."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from paimon_spark.errors import UnsupportedError
from paimon_spark.format.avro.avro_format import AvroFormat
from paimon_spark.format.base import DataFormat, FileReader
from paimon_spark.format.orc.orc_format import OrcFormat
from paimon_spark.format.parquet import ParquetFormat
from paimon_spark.fs.base import FileIO
from paimon_spark.spec.types import DataField

FORMATS: dict[str, DataFormat] = {f.name: f for f in (ParquetFormat(), OrcFormat(), AvroFormat())}
_TEXT_COMPRESSIONS = {"gz", "bz2", "deflate", "snappy", "lz4", "zst"}


def for_name(name: str) -> DataFormat:
    """Return the format of a case-insensitive name.

    Raises:
        UnsupportedError: the format is not implemented.
    """
    found = FORMATS.get(name.lower())
    if found is None:
        raise UnsupportedError(
            f"The file format '{name}' is not supported.",
            hint=f"Supported formats: {', '.join(sorted(FORMATS))}.",
        )
    return found


def for_file(file_name: str) -> DataFormat:
    """Return the format of a data file by its suffix; raises as `for_name`."""
    parts = file_name.rsplit("/", 1)[-1].lower().split(".")
    if len(parts) > 2 and parts[-1] in _TEXT_COMPRESSIONS:
        parts.pop()
    return for_name(parts[-1] if len(parts) > 1 else "")


def open_reader(file_io: FileIO, path: str, fields: Sequence[DataField], file_size: int | None = None) -> FileReader:
    """Open a data file in the format of its suffix; see `DataFormat.open_reader`."""
    return for_file(path).open_reader(file_io, path, fields, file_size)


def bytes_to_read(
    file_io: FileIO, path: str, fields: Sequence[DataField], predicate: pc.Expression | None, file_size: int
) -> int:
    """Return how many bytes of a data file hold `fields` of the rows that statistics in the file do not rule out.

    An Avro file counts as a whole and is not opened.
    """
    file_format = for_file(path)
    if predicate is None or not isinstance(file_format, ParquetFormat | OrcFormat):
        return file_size
    with file_format.open_reader(file_io, path, fields, file_size) as reader:
        return reader.stored_bytes(reader.select_row_groups(predicate))

"""Writes rows whose bucket is not yet decided: in the order of arrival, into the directory `bucket-postpone`.

(docs/spec/semantics.md, B4)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from paimon_spark.core.table import Table
from paimon_spark.core.write.append_writer import AppendWriter
from paimon_spark.core.write.row_conversion import Rows
from paimon_spark.errors import UnsupportedError
from paimon_spark.format.avro.schema import avro_schema
from paimon_spark.spec.compressions import compression_of
from paimon_spark.spec.kinds import SEQUENCE_NUMBER, VALUE_KIND
from paimon_spark.spec.options import POSTPONE_BUCKET, CoreOptions

_NO_SEQUENCE = -1
_FORMAT = "avro"
_OF_DATA_FILES = ("file.format.per.level", "file.compression.per.level", "metadata.stats-mode.per.level")


class PostponeWriter(AppendWriter):
    """Streams the rows of one partition into postponed files, with their kinds and without sequence numbers.

    Args:
        table: the table.
        partition: the partition.
        user: the commit user.
        writer_id: distinguishes the writers of a statement; the files of one writer have a common prefix.
    """

    def __init__(self, table: Table, partition: bytes, user: str, writer_id: int) -> None:
        super().__init__(_for_postponed_files(table, user, writer_id), partition, POSTPONE_BUCKET, 0)

    def add(self, rows: Rows, size: int) -> None:
        """Buffer rows."""
        numbers = pa.array(np.full(rows.count, _NO_SEQUENCE, dtype=np.int64))
        columns = rows.columns.append_column(SEQUENCE_NUMBER, numbers).append_column(VALUE_KIND, pa.array(rows.kinds))
        super().add(Rows(columns, rows.kinds), size)


def _for_postponed_files(table: Table, user: str, writer_id: int) -> Table:
    """Return the table with the options of postponed files: Avro if it has all types, and no statistics."""
    options = table.options
    values = {k: v for k, v in options.values.items() if k not in _OF_DATA_FILES and not k.endswith(".stats-mode")}
    values["metadata.stats-mode"] = "none"
    values["data-file.prefix"] = f"{options.data_file_prefix}-u-{user}-s-{writer_id}-w-"
    if _fits_avro(table):
        values["file.format"] = _FORMAT
        if compression_of(_FORMAT, options.file_compression) is None:
            values["file.compression"] = "zstd"
    return replace(table, options=CoreOptions(values))


def _fits_avro(table: Table) -> bool:
    try:
        avro_schema(table.schema.fields)
    except UnsupportedError:
        return False
    return True

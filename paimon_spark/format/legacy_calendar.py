"""Parquet files in which Spark stored dates and times in the hybrid Julian and Gregorian calendar."""

from __future__ import annotations

import pyarrow.parquet as pq

from paimon_spark.format.read_errors import data_file_errors
from paimon_spark.fs.base import FileIO

_KEYS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


def has_legacy_calendar(file_io: FileIO, path: str) -> bool:
    """Return whether Spark says in a Parquet file that its ancient dates or times are in the hybrid calendar."""
    if not path.endswith(".parquet"):
        return False
    with data_file_errors(path), file_io.open_input(path) as source:
        found = pq.read_metadata(source).metadata or {}
    return any(key in found for key in _KEYS)

"""The statistics of a table: read from and written to its statistics files."""

from __future__ import annotations

from paimon_spark.core.metadata_io import read_if_there
from paimon_spark.core.table import Table
from paimon_spark.errors import CorruptTableError, ErrorKind
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.table_statistics import TableStatistics, parse_statistics


def statistics_of(table: Table, snapshot: Snapshot | None) -> TableStatistics | None:
    """Return the statistics that are valid for a snapshot, or None if the table was not analyzed.

    Raises:
        CorruptTableError: the file is missing or malformed.
    """
    if snapshot is None or snapshot.statistics is None:
        return None
    path = table.paths.statistics(snapshot.statistics)
    data = read_if_there(table.file_io, path)
    if data is None:
        raise CorruptTableError(
            f"The statistics file {path} is missing.", hint="Run ANALYZE TABLE again.", kind=ErrorKind.FILE_MISSING
        )
    return parse_statistics(data, path)


def write_statistics(table: Table, statistics: TableStatistics) -> str:
    """Write a statistics file; return its name."""
    name = table.paths.new_statistics_name()
    table.file_io.write(table.paths.statistics(name), statistics.to_json().encode())
    return name

"""The statistics of data files, by the columns of the table that reads them."""

from __future__ import annotations

from collections.abc import Mapping

from paimon_spark.core.file_schemas import FileSchemas
from paimon_spark.core.table import Table
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.stats import UNKNOWN, ColumnStats, key_stats_view, stats_view


class FileStatistics:
    """Looks statistics up by column."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._schemas = FileSchemas(table)

    def keys(self, file: DataFileMeta) -> Mapping[str, ColumnStats]:
        """Return the statistics of the key columns of a file."""
        return key_stats_view(file, self.schema_of(file), self._table.schema)

    def values(self, file: DataFileMeta) -> Mapping[str, ColumnStats]:
        """Return the statistics of the columns of a file, except unusable ones."""
        return stats_view(file, self.schema_of(file), self._table.schema)

    def column(self, file: DataFileMeta, name: str) -> ColumnStats:
        """Return the statistics of one column; of a key column also those that only the keys have."""
        values = self.values(file)
        if name in values and values[name] != UNKNOWN:
            return values[name]
        if name in self._table.schema.trimmed_primary_keys:
            return self.keys(file).get(name, UNKNOWN)
        return UNKNOWN

    def schema_of(self, file: DataFileMeta) -> TableSchema:
        """Return the schema with which a file was written."""
        return self._schemas.of(file.schema_id)

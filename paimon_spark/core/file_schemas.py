"""The schemas with which the data files of a table were written."""

from __future__ import annotations

from paimon_spark.core.table import Table
from paimon_spark.spec.schema import TableSchema


class FileSchemas:
    """Looks up schemas by id; reads each schema file once, and that of the table's own schema never."""

    def __init__(self, table: Table) -> None:
        self._store = table.schema_store
        self._known: dict[int, TableSchema] = {table.schema.id: table.schema}

    def of(self, schema_id: int) -> TableSchema:
        """Return the schema with this id.

        Raises:
            NotFoundError: the schema does not exist.
            CorruptTableError: the schema file is malformed.
        """
        known = self._known.get(schema_id)
        if known is None:
            known = self._known[schema_id] = self._store.get(schema_id)
        return known

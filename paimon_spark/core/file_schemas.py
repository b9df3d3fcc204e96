"""The schemas with which the data files of a table were written."""

from __future__ import annotations

from dataclasses import replace

from paimon_spark.core.schemas import SchemaStore
from paimon_spark.core.table import Table
from paimon_spark.spec.chain_tables import chain_branches
from paimon_spark.spec.schema import TableSchema


def of_snapshot_branch(schema_id: int) -> int:
    """Return the number by which `FileSchemas` finds a schema of the snapshot branch of a chain table."""
    return -1 - schema_id


class FileSchemas:
    """Looks up schemas by id; reads each schema file once, and that of the table's own schema never."""

    def __init__(self, table: Table) -> None:
        self._table = table
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
            known = self._known[schema_id] = self._stored(schema_id)
        return known

    def _stored(self, schema_id: int) -> TableSchema:
        branches = chain_branches(self._table.options) if schema_id < 0 else None
        if branches is None:
            return self._store.get(schema_id)
        snapshots = replace(self._table, branch=branches.snapshot)
        return SchemaStore(self._table.file_io, snapshots.paths).get(of_snapshot_branch(schema_id))

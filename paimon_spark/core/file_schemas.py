"""The schemas with which the data files of a table were written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from paimon_spark.core.schemas import SchemaStore
from paimon_spark.core.table import Table
from paimon_spark.spec.chain_tables import chain_branches
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.stored_files import differing_definition


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

    def replaced(self, schema_ids: Iterable[int]) -> tuple[int, str] | None:
        """Return a schema among some whose files must not be read by the rules of the table, and what differs.

        REPLACE TABLE leaves such schemas; ALTER TABLE does not. None if there is none.
        """
        for schema_id in sorted({i for i in schema_ids if i >= 0} - {self._table.schema.id}):
            what = differing_definition(self._table.schema, self.of(schema_id))
            if what is not None:
                return schema_id, what
        return None

    def _stored(self, schema_id: int) -> TableSchema:
        branches = chain_branches(self._table.options) if schema_id < 0 else None
        if branches is None:
            return self._store.get(schema_id)
        snapshots = replace(self._table, branch=branches.snapshot)
        return SchemaStore(self._table.file_io, snapshots.paths).get(of_snapshot_branch(schema_id))

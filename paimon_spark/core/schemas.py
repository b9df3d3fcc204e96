"""The schema files of one table or branch."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.core.metadata_io import create_once, read_if_there, translate_io_errors
from paimon_spark.errors import CorruptTableError, ErrorKind, NotFoundError
from paimon_spark.fs.base import FileIO
from paimon_spark.spec.paths import TablePaths
from paimon_spark.spec.schema import TableSchema, parse_schema

_PREFIX = "schema-"


@dataclass(frozen=True, slots=True)
class SchemaStore:
    """Reads and publishes schema versions; the latest is found by listing, because there is no hint file."""

    file_io: FileIO
    paths: TablePaths

    @translate_io_errors()
    def ids(self) -> list[int]:
        """Return all schema ids, sorted. Files whose names do not end in a number are ignored."""
        names = (s.name for s in self.file_io.list(self.paths.schema_dir) if not s.is_dir)
        ends = (name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX))
        return sorted(int(end) for end in ends if end.isascii() and end.isdigit())

    def any(self) -> bool:
        """Return whether there is a schema, by a lookup of the first version, or else a listing."""
        return self.file_io.exists(self.paths.schema(0)) or bool(self.ids())

    def latest(self) -> TableSchema | None:
        """Return the latest schema, or None if the table does not exist."""
        known = self.ids()
        return self.get(known[-1]) if known else None

    def get(self, schema_id: int) -> TableSchema:
        """Return one schema version.

        Raises:
            NotFoundError: the schema does not exist.
            CorruptTableError: the file is malformed.
        """
        schema = self.find(schema_id)
        if schema is None:
            known = ", ".join(map(str, self.ids())) or "none"
            raise NotFoundError(
                f"Schema {schema_id} does not exist: {self.paths.schema(schema_id)} is missing; there are: {known}.",
                hint="Restore the file from a backup.",
                kind=ErrorKind.SCHEMA_NOT_FOUND,
            )
        return schema

    def find(self, schema_id: int) -> TableSchema | None:
        """Return one schema version, or None if it does not exist.

        Raises:
            CorruptTableError: the file is malformed.
        """
        path = self.paths.schema(schema_id)
        data = read_if_there(self.file_io, path)
        if data is None:
            return None
        schema = parse_schema(data, path)
        if schema.id != schema_id:
            raise CorruptTableError(
                f"The schema file {path} is malformed: its id is {schema.id}.",
                hint="Restore the file from a backup.",
            )
        return schema

    @translate_io_errors()
    def try_create(self, schema: TableSchema) -> bool:
        """Publish a schema version; return False if another writer has published that id."""
        path, data = self.paths.schema(schema.id), schema.to_json().encode()
        return create_once(self.file_io, path, data)

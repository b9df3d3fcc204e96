"""The catalog interface: databases and tables by name, and tables by path."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from paimon_spark.core.table import Table
from paimon_spark.spec.evolution import SchemaChange
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.view import View

SchemaChanges: TypeAlias = Sequence[SchemaChange] | Callable[[TableSchema], Sequence[SchemaChange]]
"""Changes of a schema, or a function that returns them for the schema that they are applied to."""


@dataclass(frozen=True, slots=True)
class Directories:
    """The directories of a database, each sorted: tables, and those with snapshots or manifests but no schema."""

    tables: list[str]
    without_schema: list[str]


class Catalog(Protocol):
    """Databases and tables of one warehouse. Errors for missing objects have a code and suggest the closest match."""

    @property
    def options(self) -> Mapping[str, str]:
        """Return the catalog options."""
        ...

    @property
    def warehouse(self) -> str:
        """Return the root of the warehouse."""
        ...

    @property
    def default_database(self) -> str:
        """Return the database for unqualified names at the start of a session."""
        ...

    def list_databases(self) -> list[str]:
        """Return the names of all databases, sorted."""
        ...

    def database_exists(self, name: str) -> bool:
        """Return whether the database exists."""
        ...

    def create_database(
        self, name: str, *, ignore_if_exists: bool = False, properties: Mapping[str, str] | None = None
    ) -> None:
        """Create a database.

        Raises:
            AlreadyExistsError: it exists and `ignore_if_exists` is false.
        """
        ...

    def drop_database(self, name: str, *, ignore_if_not_exists: bool = False, cascade: bool = False) -> None:
        """Drop a database; with `cascade`, also its tables and views.

        Raises:
            NotFoundError: it does not exist and `ignore_if_not_exists` is false.
            UsageError: it is not empty.
        """
        ...

    def list_tables(self, database: str) -> list[str]:
        """Return the names of the tables of a database, sorted.

        Raises:
            NotFoundError: there is no such database.
        """
        ...

    def list_directories(self, database: str) -> Directories:
        """Return the names of the tables of a database, and of what has lost its schema, by one listing.

        Raises:
            NotFoundError: there is no such database.
        """
        ...

    def table_exists(self, identifier: Identifier) -> bool:
        """Return whether the table (on its branch, if the identifier has one) exists."""
        ...

    def table_path(self, identifier: Identifier) -> str:
        """Return the directory of a table, whether it exists or not."""
        ...

    def load_table(self, identifier: Identifier, dynamic_options: Mapping[str, str] | None = None) -> Table:
        """Return a table at its latest schema; for a system table, its base table.

        Raises:
            NotFoundError: there is no such database, table or branch.
            UnsupportedError: it is a view.
        """
        ...

    def create_table(self, identifier: Identifier, schema: TableSchema, *, ignore_if_exists: bool = False) -> Table:
        """Create a table with a schema made by `spec.evolution.new_schema` and return it.

        Raises:
            AlreadyExistsError: it exists and `ignore_if_exists` is false.
        """
        ...

    def alter_table(self, identifier: Identifier, changes: SchemaChanges) -> Table:
        """Apply schema changes as one new schema version and return the table.

        Changes that depend on the schema are given as a function, which is called again if another writer changes
        the schema first.
        """
        ...

    def replaced_table(self, identifier: Identifier, schema: TableSchema) -> Table:
        """Return a table as REPLACE TABLE with a schema made by `new_schema` would leave it; nothing is stored.

        Raises:
            NotFoundError: there is no such table.
            UnsupportedError: its partition columns would change.
        """
        ...

    def rename_table(self, source: Identifier, target: Identifier) -> None:
        """Rename a table, optionally into another database.

        Raises:
            NotFoundError: the table or the target's database does not exist.
            AlreadyExistsError: the target exists.
        """
        ...

    def drop_table(self, identifier: Identifier, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a table and delete its files."""
        ...

    def load_table_at(self, path: str, dynamic_options: Mapping[str, str] | None = None) -> Table:
        """Return the table whose directory is `path`."""
        ...

    def create_table_at(self, path: str, schema: TableSchema, *, ignore_if_exists: bool = False) -> Table:
        """Create a table whose directory is `path`."""
        ...

    def list_views(self, database: str) -> list[str]:
        """Return the names of the views of a database, sorted.

        Raises:
            NotFoundError: there is no such database.
        """
        ...

    def find_view(self, identifier: Identifier) -> View | None:
        """Return a view, or None if there is none of that name."""
        ...

    def load_view(self, identifier: Identifier) -> View:
        """Return a view.

        Raises:
            NotFoundError: there is none of that name.
        """
        ...

    def create_view(
        self, identifier: Identifier, view: View, *, ignore_if_exists: bool = False, replace: bool = False
    ) -> None:
        """Create a view, or replace one.

        Raises:
            NotFoundError: there is no such database.
            AlreadyExistsError: a table has that name, or a view, and neither flag is true.
        """
        ...

    def alter_view(self, identifier: Identifier, view: View) -> None:
        """Replace a view.

        Raises:
            NotFoundError: there is no such view.
        """
        ...

    def rename_view(self, source: Identifier, target: Identifier) -> None:
        """Rename a view, optionally into another database.

        Raises:
            NotFoundError: the view or the target's database does not exist.
            AlreadyExistsError: the target exists.
        """
        ...

    def drop_view(self, identifier: Identifier, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a view.

        Raises:
            NotFoundError: it does not exist and `ignore_if_not_exists` is false.
        """
        ...

"""The catalog of a warehouse that may have privileges: it checks the user before the catalog behind it acts.

Definitions are checked here. A table is returned with the user's access to it, and with a store that checks it before
every operation, so that reads, writes and procedures are checked whatever leads to them. Tables of a path, and tasks on
other machines, are not checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from paimon_spark.catalog.base import Catalog, Directories, SchemaChanges
from paimon_spark.catalog.privilege_tables import PrivilegeTables
from paimon_spark.core.table import Table
from paimon_spark.fs.guarded import GuardedFileIO
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.privileges import CATALOG, Privilege, Securable, TableAccess
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.view import View


@dataclass(frozen=True, slots=True)
class PrivilegedCatalog:
    """The catalog `inner` for the user of `privileges`; in a warehouse without privileges, just `inner`."""

    inner: Catalog
    privileges: PrivilegeTables

    @property
    def options(self) -> Mapping[str, str]:
        """Return the catalog options."""
        return self.inner.options

    @property
    def warehouse(self) -> str:
        """Return the root of the warehouse."""
        return self.inner.warehouse

    @property
    def default_database(self) -> str:
        """Return the database for unqualified names at the start of a session."""
        return self.inner.default_database

    def require(self, on: Securable, privilege: Privilege) -> bool:
        """Return whether the warehouse has privileges, and the user then this one.

        Raises:
            AccessDeniedError: the user does not have it, or cannot log in.
        """
        grants = self.privileges.grants()
        if grants is not None:
            grants.require(on, privilege)
        return grants is not None

    def _accessible(self, table: Table) -> Table:
        """Return a table with the access of the user."""
        grants = self.privileges.grants()
        if grants is None:
            return table
        access = TableAccess(grants, Securable.of(table.identifier), table.path)
        return replace(table, file_io=GuardedFileIO(table.file_io, access), access=access)

    # ---- databases

    def list_databases(self) -> list[str]:
        """Return the names of all databases, sorted."""
        return self.inner.list_databases()

    def database_exists(self, name: str) -> bool:
        """Return whether the database exists."""
        return self.inner.database_exists(name)

    def create_database(
        self, name: str, *, ignore_if_exists: bool = False, properties: Mapping[str, str] | None = None
    ) -> None:
        """Create a database with CREATE_DATABASE."""
        if self.require(CATALOG, Privilege.CREATE_DATABASE) and not self.inner.database_exists(name):
            self._end_privileges(name)
        self.inner.create_database(name, ignore_if_exists=ignore_if_exists, properties=properties)

    def drop_database(self, name: str, *, ignore_if_not_exists: bool = False, cascade: bool = False) -> None:
        """Drop a database with DROP_DATABASE, and all privileges on it and in it."""
        privileged = self.require(Securable(name), Privilege.DROP_DATABASE)
        try:
            self.inner.drop_database(name, ignore_if_not_exists=ignore_if_not_exists, cascade=cascade)
        finally:  # an error may come after some tables
            if privileged:
                self._end_privileges(name)

    def _end_privileges(self, database: str) -> None:
        """Remove the privileges on what does not exist any more: the database, or tables and views of it."""
        entries, left = self.privileges.entries(Securable(database)), list[Securable]()
        own = Securable(database).identifier
        exists = self.inner.database_exists(database)
        if exists:
            names = (*self.inner.list_tables(database), *self.inner.list_views(database))
            left = [Securable(database, name) for name in names]
        gone = [
            not (exists and identifier == own) and not any(o.contains(identifier) for o in left)
            for identifier in entries.column("identifier").to_pylist()
        ]
        if any(gone):
            self.privileges.delete(entries.filter(pa.array(gone, pa.bool_())))

    # ---- tables

    def list_tables(self, database: str) -> list[str]:
        """Return the names of the tables of a database, sorted."""
        return self.inner.list_tables(database)

    def list_directories(self, database: str) -> Directories:
        """Return the names of the tables of a database, and of what has lost its schema, by one listing."""
        return self.inner.list_directories(database)

    def table_exists(self, identifier: Identifier) -> bool:
        """Return whether the table, on its branch, exists."""
        return self.inner.table_exists(identifier)

    def table_path(self, identifier: Identifier) -> str:
        """Return the directory of a table, whether it exists or not."""
        return self.inner.table_path(identifier)

    def load_table(self, identifier: Identifier, dynamic_options: Mapping[str, str] | None = None) -> Table:
        """Return a table with the user's access to it; everybody who can log in sees its schema."""
        return self._accessible(self.inner.load_table(identifier, dynamic_options))

    def create_table(self, identifier: Identifier, schema: TableSchema, *, ignore_if_exists: bool = False) -> Table:
        """Create a table with CREATE_TABLE."""
        if self.require(Securable(identifier.database), Privilege.CREATE_TABLE):
            self._end_stale(identifier)
        return self._accessible(self.inner.create_table(identifier, schema, ignore_if_exists=ignore_if_exists))

    def alter_table(self, identifier: Identifier, changes: SchemaChanges) -> Table:
        """Change a schema with ALTER_TABLE."""
        self.require(Securable.of(identifier), Privilege.ALTER_TABLE)
        return self._accessible(self.inner.alter_table(identifier, changes))

    def replaced_table(self, identifier: Identifier, schema: TableSchema) -> Table:
        """Return a table as REPLACE TABLE would leave it, which needs ALTER_TABLE; nothing is stored."""
        self.require(Securable.of(identifier), Privilege.ALTER_TABLE)
        return self._accessible(self.inner.replaced_table(identifier, schema))

    def rename_table(self, source: Identifier, target: Identifier) -> None:
        """Rename a table with ALTER_TABLE, and CREATE_TABLE in another database; its privileges follow it."""
        if self._moves(source, target):
            self.inner.rename_table(source, target)
            self.privileges.rename(Securable.of(source), Securable.of(target))
        else:
            self.inner.rename_table(source, target)

    def drop_table(self, identifier: Identifier, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a table with DROP_TABLE, and all privileges on it."""
        table = Securable.of(identifier)
        privileged = self.require(table, Privilege.DROP_TABLE)
        self.inner.drop_table(identifier, ignore_if_not_exists=ignore_if_not_exists)
        if privileged:
            self.privileges.delete(self.privileges.entries(table))

    def load_table_at(self, path: str, dynamic_options: Mapping[str, str] | None = None) -> Table:
        """Return the table whose directory is `path`; nothing is checked."""
        return self.inner.load_table_at(path, dynamic_options)

    def create_table_at(self, path: str, schema: TableSchema, *, ignore_if_exists: bool = False) -> Table:
        """Create a table whose directory is `path`; nothing is checked."""
        return self.inner.create_table_at(path, schema, ignore_if_exists=ignore_if_exists)

    def _moves(self, source: Identifier, target: Identifier) -> bool:
        """Check the privileges for a new name; return whether the warehouse has privileges."""
        privileged = self.require(Securable.of(source), Privilege.ALTER_TABLE)
        if privileged and source.database != target.database:
            self.require(Securable(target.database), Privilege.CREATE_TABLE)
        if privileged:
            self._end_stale(target)
        return privileged

    def _end_stale(self, identifier: Identifier) -> None:
        """Remove the privileges on a table or view that does not exist: an interrupted DROP or RENAME left them."""
        stale = self.privileges.entries(Securable.of(identifier))
        if stale.num_rows and not self.inner.table_exists(identifier) and self.inner.find_view(identifier) is None:
            self.privileges.delete(stale)

    # ---- views, whose privileges are those of tables

    def list_views(self, database: str) -> list[str]:
        """Return the names of the views of a database, sorted."""
        return self.inner.list_views(database)

    def find_view(self, identifier: Identifier) -> View | None:
        """Return a view, or None if there is none of that name."""
        return self.inner.find_view(identifier)

    def load_view(self, identifier: Identifier) -> View:
        """Return a view; whoever queries it needs SELECT on its tables."""
        return self.inner.load_view(identifier)

    def create_view(
        self, identifier: Identifier, view: View, *, ignore_if_exists: bool = False, replace: bool = False
    ) -> None:
        """Create a view with CREATE_TABLE, or replace one with ALTER_TABLE."""
        if replace and self.inner.find_view(identifier) is not None:
            self.require(Securable.of(identifier), Privilege.ALTER_TABLE)
        elif self.require(Securable(identifier.database), Privilege.CREATE_TABLE):
            self._end_stale(identifier)
        self.inner.create_view(identifier, view, ignore_if_exists=ignore_if_exists, replace=replace)

    def alter_view(self, identifier: Identifier, view: View) -> None:
        """Replace a view with ALTER_TABLE."""
        self.require(Securable.of(identifier), Privilege.ALTER_TABLE)
        self.inner.alter_view(identifier, view)

    def rename_view(self, source: Identifier, target: Identifier) -> None:
        """Rename a view with ALTER_TABLE, and CREATE_TABLE in another database; its privileges follow it."""
        if self._moves(source, target):
            self.inner.rename_view(source, target)
            self.privileges.rename(Securable.of(source), Securable.of(target))
        else:
            self.inner.rename_view(source, target)

    def drop_view(self, identifier: Identifier, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a view with DROP_TABLE, and all privileges on it."""
        view = Securable.of(identifier)
        privileged = self.require(view, Privilege.DROP_TABLE)
        self.inner.drop_view(identifier, ignore_if_not_exists=ignore_if_not_exists)
        if privileged:
            self.privileges.delete(self.privileges.entries(view))

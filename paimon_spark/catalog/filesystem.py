"""The file system catalog: `<warehouse>/<database>.db/<table>`. A table is a directory that contains a schema."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from paimon_spark.catalog import drops
from paimon_spark.catalog.base import Directories, SchemaChanges
from paimon_spark.catalog.views import ViewStore
from paimon_spark.core.changelog.lookup_change import merges_differ
from paimon_spark.core.metadata.branches import incomplete_branch
from paimon_spark.core.metadata.refs import BRANCH_PREFIX, branch_name
from paimon_spark.core.metadata_io import in_parallel, threads_for
from paimon_spark.core.schemas import SchemaStore
from paimon_spark.core.table import Table
from paimon_spark.errors import (
    AlreadyExistsError,
    ArgumentError,
    ConflictError,
    ErrorKind,
    NotFoundError,
    OptionError,
    PaimonError,
    StoreError,
    UnsupportedError,
    UsageError,
    did_you_mean,
    some_of,
    suggestion,
)
from paimon_spark.fs.base import FileIO, FileStatus
from paimon_spark.fs.resolve import scheme_of
from paimon_spark.spec.evolution import apply_changes, with_default_options
from paimon_spark.spec.identifier import DATABASE_SUFFIX, DEFAULT_DATABASE, Identifier, check_name, check_new_name
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.paths import MAIN_BRANCH, TablePaths
from paimon_spark.spec.replacement import replacing_schema
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.support import options_of_metastores
from paimon_spark.spec.view import View

_LOG = logging.getLogger(__name__)
_TABLE_DEFAULT = "table-default."
_METADATA = ("snapshot", "manifest")
_ALTER_ATTEMPTS = 10
_LOOKED_INTO = 20
_TOLD = 3
"""Maximum number of databases searched for suggestions, and of suggestions in a message."""


@dataclass(frozen=True, slots=True)
class FileSystemCatalog:
    """Databases and tables below one directory of one store.

    Args:
        warehouse: the directory, without a trailing slash.
        options: catalog options; `table-default.*` are applied to new tables.
        file_io: the store.
        clock: returns epoch seconds.
        creates: whether a missing warehouse and default database are created; a missing warehouse is else an error.
    """

    warehouse: str
    options: Mapping[str, str] = field(repr=False)
    file_io: FileIO
    clock: Callable[[], float] = field(default=time.time, compare=False, repr=False)
    creates: bool = True
    _ensured: set[str] = field(default_factory=set, compare=False, repr=False)
    """The default database after the first check: it is created on first use, and not again after a DROP."""
    _created: set[str] = field(default_factory=set, compare=False, repr=False)
    """The warehouse, if it was created together with the default database."""

    @property
    def default_database(self) -> str:
        """Return the database for unqualified names at the start of a session."""
        return self.options.get("defaultDatabase", "").strip() or DEFAULT_DATABASE

    def _ensure_default_database(self) -> None:
        """Create the default database if it does not exist; errors of read-only stores are ignored.

        Raises:
            OptionError: the warehouse does not exist, and this catalog creates nothing.
        """
        name = self.default_database
        if not self.creates:
            if scheme_of(self.warehouse) == "file" and not self.file_io.exists(self.warehouse):
                raise OptionError(
                    f"The warehouse {self.warehouse} does not exist.",
                    hint="Set the catalog option 'warehouse', --warehouse on the command line, to an existing one.",
                )
            return
        if name not in self._ensured:
            self._ensured.add(name)
            try:
                if scheme_of(self.warehouse) == "file" and not self.file_io.exists(self.warehouse):
                    self._created.add(self.warehouse)
                    _LOG.warning("The warehouse %s does not exist; it is created.", self.warehouse)
                self.file_io.mkdirs(self._database_path(name))
            except OSError as e:
                if isinstance(e, StoreError) and not e.refused:
                    self._ensured.discard(name)
                    raise

    # ---- databases

    def list_databases(self) -> list[str]:
        """Return the names of all databases, sorted."""
        self._ensure_default_database()
        names = (s.name for s in self.file_io.list(self.warehouse) if s.is_dir)
        return sorted(n.removesuffix(DATABASE_SUFFIX) for n in names if n.endswith(DATABASE_SUFFIX) and n[0] != ".")

    def database_exists(self, name: str) -> bool:
        """Return whether the database exists."""
        self._ensure_default_database()
        return self.file_io.exists(self._database_path(name))

    def create_database(
        self, name: str, *, ignore_if_exists: bool = False, properties: Mapping[str, str] | None = None
    ) -> None:
        """Create the directory of a database. Only the location property is supported; others are not stored."""
        self._check_new(name, "database")
        if self.database_exists(name):
            if ignore_if_exists:
                return
            raise AlreadyExistsError(
                f"Database '{name}' already exists.", hint="Use IF NOT EXISTS.", kind=ErrorKind.DATABASE_EXISTS
            )
        if properties and properties.get("location"):
            raise UnsupportedError(
                f"Database '{name}' cannot have its own location.",
                hint=f"Leave LOCATION out; the database will be {self._database_path(name)}.",
            )
        dropped = sorted(set(properties or ()) - {"location", "owner"})
        if dropped:
            _LOG.warning("A filesystem catalog keeps no database properties; dropped: %s", ", ".join(dropped))
        self.file_io.mkdirs(self._database_path(name))
        self._created.clear()  # whoever creates a database in it means this warehouse

    def drop_database(self, name: str, *, ignore_if_not_exists: bool = False, cascade: bool = False) -> None:
        """Drop a database; if it contains anything but tables and views, that is kept and an error is raised."""
        if not self.database_exists(name):
            if ignore_if_not_exists:
                return
            raise self._no_database(name)
        tables, views = self.list_tables(name), self.list_views(name)
        if (tables or views) and not cascade:
            raise UsageError(
                f"Database '{name}' is not empty; it holds {some_of(tables + views)}.",
                hint="Drop its tables and views first, or use CASCADE (cascade=True in Python).",
                kind=ErrorKind.DATABASE_NOT_EMPTY,
            )
        path = self._database_path(name)
        for table in tables:
            self.drop_table(Identifier(name, table))
        for found in self.file_io.list(path):
            if found.is_dir and drops.is_incomplete(self.file_io, found.path):
                drops.complete(self.file_io, found.path)
            elif not self._holds_files(found):
                self.file_io.delete_dir(found.path)
        self._views(name).drop_all()
        left = [s.name for s in self.file_io.list(path)]
        if left:
            raise UsageError(
                f"Database '{name}' cannot be removed: {path} also contains {some_of(left)}, which is not a table.",
                hint="Check these files and remove them by hand.",
                kind=ErrorKind.DATABASE_NOT_EMPTY,
            )
        self.file_io.delete_dir(path)

    # ---- tables

    def list_tables(self, database: str) -> list[str]:
        """Return the names of the tables of a database, sorted; directories without a schema are not listed."""
        return [name for name, is_table in self._listed(database) if is_table]

    def list_directories(self, database: str) -> Directories:
        """Return the names of the tables of a database, and of directories with metadata but no schema."""
        listed, path = self._listed(database), self._database_path(database)
        others = (name for name, is_table in listed if not is_table)
        return Directories(
            [name for name, is_table in listed if is_table],
            [n for n in others if any(self.file_io.list(f"{path}/{n}/{d}") for d in _METADATA)],
        )

    def _listed(self, database: str) -> list[tuple[str, bool]]:
        """Return the directories of a database, sorted by name, and whether each is a table: it has a schema."""
        path = self._existing_database(database)
        names = sorted(s.name for s in self.file_io.list(path) if s.is_dir and not s.name.startswith("."))
        found = in_parallel(lambda n: self._schemas(f"{path}/{n}").any(), names, threads_for(self.warehouse))
        return list(zip(names, found, strict=True))

    def table_exists(self, identifier: Identifier) -> bool:
        """Return whether the table, on its branch, has a schema."""
        return self._schemas(self.table_path(identifier), identifier.branch).any()

    def load_table(self, identifier: Identifier, dynamic_options: Mapping[str, str] | None = None) -> Table:
        """Return a table at its latest schema; for a system table, its base table."""
        path = self.table_path(identifier)
        schema = self._schemas(path, identifier.branch).latest()
        if schema is None:
            raise self._no_table(identifier, path)
        return self._table(identifier.data_table, path, schema, dynamic_options)

    def create_table(self, identifier: Identifier, schema: TableSchema, *, ignore_if_exists: bool = False) -> Table:
        """Create a table by publishing schema 0; of concurrent creators, one succeeds."""
        self._refuse_parts(identifier, "created")
        self._existing_database(identifier.database)
        self._check_new(identifier.table, "table")
        self._check_no_view(identifier)
        for name in schema.field_names:
            self._check_case(name, "column")
        return self._create(identifier, self.table_path(identifier), schema, ignore_if_exists=ignore_if_exists)

    def alter_table(self, identifier: Identifier, changes: SchemaChanges) -> Table:
        """Apply changes to the latest schema; retried on the new schema if another writer publishes first.

        Raises:
            OptionError: an option would change how the rows of the table are merged; see also `apply_changes`.
            ConflictError: other writers kept changing the schema.
        """
        for _ in range(_ALTER_ATTEMPTS):
            table = self.load_table(identifier)
            has_snapshots = table.snapshots.latest_id() is not None
            wanted = changes(table.schema) if callable(changes) else changes
            schema = apply_changes(table.schema, wanted, int(self.clock() * 1000), has_snapshots=has_snapshots)
            if schema == table.schema:
                return table
            _check_merges(table, schema)
            if table.schema_store.try_create(schema):
                _warn_without_metastore(identifier, schema.options, table.schema.options)
                return self._table(table.identifier, table.path, schema, None)
        raise ConflictError(
            f"The schema of table {identifier.full_name} was changed concurrently {_ALTER_ATTEMPTS} times in a row.",
            hint="Nothing was changed by this statement. Run it again.",
        )

    def replaced_table(self, identifier: Identifier, schema: TableSchema) -> Table:
        """Return the table at the schema version after its latest one."""
        self._refuse_parts(identifier, "replaced")
        for name in schema.field_names:
            self._check_case(name, "column")
        table = self.load_table(identifier)
        new = replacing_schema(table.schema, with_default_options(schema, self._table_defaults()))
        return self._table(identifier, table.path, new, None)

    def rename_table(self, source: Identifier, target: Identifier) -> None:
        """Rename the directory of a table."""
        for identifier in (source, target):
            self._refuse_parts(identifier, "renamed")
        old, new = self.table_path(source), self.table_path(target)
        if not self._schemas(old).ids():
            raise self._no_table(source, old)
        self._existing_database(target.database)
        self._check_new(target.table, "table")
        self._check_no_view(target)
        if not self.file_io.rename(old, new):
            raise self._exists(target)

    def drop_table(self, identifier: Identifier, *, ignore_if_not_exists: bool = False) -> None:
        """Delete the directory of a table, or what an interrupted drop has left; another directory is not changed."""
        self._refuse_parts(identifier, "dropped")
        path = self.table_path(identifier)
        schemas = self._schemas(path)
        if schemas.ids():
            drops.drop(self.file_io, path, schemas)
        elif drops.is_incomplete(self.file_io, path):
            drops.complete(self.file_io, path)
        else:
            is_view = self._views(identifier.database).exists(identifier.table)
            held = next(iter(self.file_io.list_recursive(path)), None) is not None
            if not ignore_if_not_exists or is_view or held:
                raise self._no_table(identifier, path)

    def load_table_at(self, path: str, dynamic_options: Mapping[str, str] | None = None) -> Table:
        """Return the table whose directory is `path`, inside the warehouse or not."""
        identifier = _identifier_at(path)
        schema = self._schemas(path, None).latest()
        if schema is None:
            raise NotFoundError(
                f"The directory {path} is not a Paimon table: it has no schema.",
                hint="Give the directory that contains the subdirectory schema/.",
            )
        return self._table(identifier, path, schema, dynamic_options)

    def create_table_at(self, path: str, schema: TableSchema, *, ignore_if_exists: bool = False) -> Table:
        """Create a table whose directory is `path`."""
        return self._create(_identifier_at(path), path.rstrip("/"), schema, ignore_if_exists=ignore_if_exists)

    # ---- views

    def list_views(self, database: str) -> list[str]:
        """Return the names of the views of a database, sorted."""
        self._existing_database(database)
        return self._views(database).names()

    def find_view(self, identifier: Identifier) -> View | None:
        """Return a view; a branch or a system table is none."""
        return self._views(identifier.database).get(identifier.table) if identifier == identifier.base else None

    def load_view(self, identifier: Identifier) -> View:
        """Return a view."""
        view = self.find_view(identifier)
        if view is None:
            raise self._no_view(identifier)
        return view

    def create_view(
        self, identifier: Identifier, view: View, *, ignore_if_exists: bool = False, replace: bool = False
    ) -> None:
        """Create a view by creating its file, or replace it."""
        self._check_new_view(identifier)
        views = self._views(identifier.database)
        if replace:
            views.replace(identifier.table, view)
        elif (views.exists(identifier.table) or not views.try_create(identifier.table, view)) and not ignore_if_exists:
            raise self._exists(identifier, "View")

    def alter_view(self, identifier: Identifier, view: View) -> None:
        """Replace the file of a view."""
        self.load_view(identifier)
        self._views(identifier.database).replace(identifier.table, view)

    def rename_view(self, source: Identifier, target: Identifier) -> None:
        """Create a view of the new name, then drop the old one."""
        view = self.load_view(source)
        self.create_view(target, view)
        self._views(source.database).drop(source.table)

    def drop_view(self, identifier: Identifier, *, ignore_if_not_exists: bool = False) -> None:
        """Delete the file of a view."""
        if not self._views(identifier.database).drop(identifier.table) and not ignore_if_not_exists:
            raise self._no_view(identifier)

    def _views(self, database: str) -> ViewStore:
        return ViewStore(self.file_io, self._database_path(database))

    def _check_new_view(self, identifier: Identifier) -> None:
        if identifier != identifier.base:
            raise ArgumentError(f"The view name '{identifier.object_name}' contains the character '$'.")
        self._existing_database(identifier.database)
        self._check_new(identifier.table, "view")
        if self.table_exists(identifier):
            raise self._exists(identifier)

    def _check_no_view(self, identifier: Identifier) -> None:
        if self._views(identifier.database).exists(identifier.table):
            raise self._exists(identifier, "View")

    def _no_view(self, identifier: Identifier) -> NotFoundError:
        if not self.database_exists(identifier.database):
            return self._no_database(identifier.database)
        if self.table_exists(identifier):
            return NotFoundError(
                f"'{identifier.full_name}' is a table, not a view.",
                hint="Use the statement for tables: DROP TABLE, ALTER TABLE.",
                kind=ErrorKind.VIEW_NOT_FOUND,
            )
        known = self.list_views(identifier.database)
        return NotFoundError(
            f"View '{identifier.full_name}' does not exist.",
            hint=suggestion(identifier.table, known) or f"The database '{identifier.database}' has no views.",
            kind=ErrorKind.VIEW_NOT_FOUND,
        )

    # ---- helpers

    def _create(self, identifier: Identifier, path: str, schema: TableSchema, *, ignore_if_exists: bool) -> Table:
        schemas = self._schemas(path)
        existing = schemas.latest()
        if existing is None:
            self._check_free(path)
            created = with_default_options(schema, self._table_defaults())
            if schemas.try_create(created):
                _warn_without_metastore(identifier, created.options)
                return self._table(identifier, path, created, None)
            existing = schemas.latest()
        if existing is None or not ignore_if_exists:
            raise self._exists(identifier)
        return self._table(identifier, path, existing, None)

    def _check_free(self, path: str) -> None:
        """Reject a directory with files other than schemas and those that an interrupted drop has left."""
        there = self.file_io.list(path)
        if any(s.name == "schema" for s in there) and drops.is_incomplete(self.file_io, path):
            if drops.began_millis(self.file_io, path) + drops.RUNNING_MILLIS > self.clock() * 1000:
                raise AlreadyExistsError(
                    f"The directory {path} belongs to a table that is being dropped, or whose DROP TABLE was "
                    "interrupted less than an hour ago.",
                    hint="If no DROP TABLE is running, call drop_table of the Python API, which completes it.",
                )
            drops.complete(self.file_io, path)
            return
        foreign = [s.name for s in there if s.name != "schema" and self._holds_files(s)]
        if foreign:
            raise AlreadyExistsError(
                f"The directory {path} contains {some_of(foreign)} but is not a table.",
                hint="Choose another name, or remove the directory: a table must not share it with other files.",
            )

    def _holds_files(self, found: FileStatus) -> bool:
        return not found.is_dir or next(iter(self.file_io.list_recursive(found.path)), None) is not None

    def _table_defaults(self) -> dict[str, str]:
        return {k.removeprefix(_TABLE_DEFAULT): v for k, v in self.options.items() if k.startswith(_TABLE_DEFAULT)}

    def _table(
        self, identifier: Identifier, path: str, schema: TableSchema, dynamic_options: Mapping[str, str] | None
    ) -> Table:
        kind = schema.options.get("type", "table").strip().lower()
        if kind not in ("table", "materialized-table"):
            raise UnsupportedError(
                f"'{identifier.full_name}' has the type '{kind}', which is not Paimon's own table format.",
                hint="Read its files with Spark's own data source.",
            )
        return Table.of(identifier, path, schema, self.file_io, dynamic_options)

    def _schemas(self, path: str, branch: str | None = None) -> SchemaStore:
        return SchemaStore(self.file_io, TablePaths(path, CoreOptions({}), branch=branch or MAIN_BRANCH))

    def _database_path(self, name: str) -> str:
        check_name(name, "database")
        return f"{self.warehouse.rstrip('/')}/{name}{DATABASE_SUFFIX}"

    def table_path(self, identifier: Identifier) -> str:
        """Return the directory of a table, whether it exists or not."""
        check_name(identifier.table, "table")
        if identifier.branch is not None:
            check_name(identifier.branch, "branch")
        return f"{self._database_path(identifier.database)}/{identifier.table}"

    def _existing_database(self, name: str) -> str:
        if not self.database_exists(name):
            raise self._no_database(name)
        return self._database_path(name)

    def _check_new(self, name: str, what: str) -> None:
        check_new_name(name, what)
        self._check_case(name, what)

    def _check_case(self, name: str, what: str) -> None:
        sensitive = self.options.get("case-sensitive", "true").strip().lower() != "false"
        if not sensitive and name != name.lower():
            raise ArgumentError(
                f"The {what} name '{name}' has upper-case letters, but the catalog is not case-sensitive.",
                hint=f"Call it '{name.lower()}', or set the catalog option 'case-sensitive' to true.",
            )

    def _refuse_parts(self, identifier: Identifier, verb: str) -> None:
        if identifier.branch or identifier.system_table:
            raise UsageError(
                f"'{identifier.full_name}' is a branch or a system table and cannot be {verb}.",
                hint=f"Name the table itself: {identifier.base.full_name}.",
            )

    def _no_database(self, name: str) -> NotFoundError:
        known = self.list_databases()
        return NotFoundError(
            f"Database '{name}' does not exist in {self.warehouse}.",
            hint=did_you_mean(name, known)
            or self._if_new()
            or suggestion(name, known)
            or "Create it first: the warehouse has no databases.",
            kind=ErrorKind.DATABASE_NOT_FOUND,
        )

    def _no_table(self, identifier: Identifier, path: str) -> PaimonError:
        if not self.database_exists(identifier.database):
            return self._no_database(identifier.database)
        if self._views(identifier.database).exists(identifier.table):
            return UnsupportedError(
                f"'{identifier.base.full_name}' is a view, not a table.",
                hint="Spark's SELECT reads it; ALTER VIEW and DROP VIEW change it.",
            )
        if identifier.branch and self._schemas(path).ids():
            known = self._branches(path)
            if identifier.branch in known:
                return incomplete_branch(identifier.base, identifier.branch)
            return NotFoundError(
                f"Table '{identifier.base.full_name}' has no branch '{identifier.branch}'.",
                hint=suggestion(identifier.branch, known) or "It has no branches.",
            )
        if drops.is_incomplete(self.file_io, path):
            return NotFoundError(
                f"Table '{identifier.base.full_name}' does not exist: a DROP TABLE of it was interrupted.",
                hint="Call drop_table of the Python API, or drop its database, to delete what is left.",
            )
        if self.file_io.exists(path):
            return NotFoundError(
                f"'{identifier.base.full_name}' is not a Paimon table: the directory {path} has no schema.",
                hint=f"It has snapshots: restore its schema files, {path}/schema, from a backup."
                if self.file_io.list(f"{path}/snapshot")
                else "Choose another name, or check the contents of that directory.",
            )
        known = self.list_tables(identifier.database) + self.list_views(identifier.database)
        hint = (
            did_you_mean(identifier.table, known) or self._elsewhere(identifier) or suggestion(identifier.table, known)
        )
        if not hint and identifier.database == self.default_database:
            hint = self._if_new()
        return NotFoundError(
            f"Table '{identifier.base.full_name}' does not exist.",
            hint=hint or f"Create it first: the database '{identifier.database}' has no tables.",
        )

    def _if_new(self) -> str:
        """Return a hint if this catalog created the warehouse: its path may be mistyped."""
        if not self._created:
            return ""
        parent, _, name = self.warehouse.rstrip("/").rpartition("/")
        others = [s.name for s in self.file_io.list(parent or "/") if s.is_dir and s.name != name]
        near = next((n for n in others if did_you_mean(name, [n])), None)
        meant = f" Did you mean '{parent}/{near}'?" if near else ""
        return f"The warehouse {self.warehouse} did not exist and was created: check its path.{meant}"

    def _elsewhere(self, identifier: Identifier) -> str:
        """Return a suggestion of tables of a similar name in other databases."""
        wanted = identifier.table
        others = [d for d in self.list_databases() if d != identifier.database][:_LOOKED_INTO]
        names = [(d, s.name) for d in others for s in self.file_io.list(self._database_path(d)) if s.is_dir]
        near = sorted((n for n in names if did_you_mean(wanted, [n[1]])), key=lambda n: n[1].lower() != wanted.lower())
        found = [f"'{d}.{t}'" for d, t in near[:_TOLD] if self.table_exists(Identifier(d, t))]
        return f"Did you mean {' or '.join(found)}?" if found else ""

    def _branches(self, path: str) -> list[str]:
        found = self.file_io.list(TablePaths(path, CoreOptions({})).branches_dir)
        return [branch_name(s) for s in found if s.is_dir and s.name.startswith(BRANCH_PREFIX)]

    def _exists(self, identifier: Identifier, what: str = "Table") -> AlreadyExistsError:
        return AlreadyExistsError(
            f"{what} '{identifier.full_name}' already exists.", hint="Use IF NOT EXISTS, or choose another name."
        )


def _warn_without_metastore(
    identifier: Identifier, options: Mapping[str, str], before: Mapping[str, str] | None = None
) -> None:
    """Warn of options that a table has got and no file system catalog obeys."""
    old = options_of_metastores(before or {})
    for option in options_of_metastores(options):
        if option not in old:
            _LOG.warning(
                "%s of table %s has no effect: a filesystem catalog has no metastore. It is kept for other catalogs.",
                option,
                identifier.full_name,
            )


def _check_merges(table: Table, new: TableSchema) -> None:
    """Reject options with which the rows of the table would be merged into other ones."""
    if merges_differ(table, table.snapshots.latest(), table.stored_options, CoreOptions(new.options)):
        raise OptionError(
            f"The options of table {table.name} that make compaction look up older rows, such as "
            "'changelog-producer' = 'lookup', cannot be switched on or off while a bucket has rows at several levels: "
            "they would be merged with another result.",
            hint=f"Compact the table fully first: CALL sys.compact(table => '{table.name}').",
            kind=ErrorKind.INVALID_OPTION,
        )


def _identifier_at(path: str) -> Identifier:
    parent, _, name = path.rstrip("/").rpartition("/")
    database = parent.rpartition("/")[2].removesuffix(DATABASE_SUFFIX)
    return Identifier(database or DEFAULT_DATABASE, name)

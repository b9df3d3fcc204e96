"""`connect`: opens a warehouse, with access to its databases and tables."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from paimon_spark.api.arguments import Names, Options, checked, location, names
from paimon_spark.api.arguments import options as option_texts
from paimon_spark.api.rows import unnamed_indexes
from paimon_spark.api.table import TableHandle
from paimon_spark.catalog.base import Catalog
from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.system.tables import SYSTEM_SCANS, check_system_table
from paimon_spark.errors import AlreadyExistsError, ArgumentError, ErrorKind, OptionError
from paimon_spark.format.arrow_types import fields_from_arrow
from paimon_spark.spec.evolution import new_schema
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.schema_rules import check_fit
from paimon_spark.spec.support import Scope, check_given

_OF_JOBS = ("sink.", "read.local-max-bytes", "write.local-max-rows", "write.merge-schema")
_IF_IT_EXISTS = "Pass ignore_if_exists=True, or choose another name."


@checked
def connect(warehouse: str | os.PathLike[str], options: Options = None) -> CatalogHandle:
    """Open a warehouse in this process, without a JVM. No I/O is done yet.

    Args:
        warehouse: a directory, or its URI.
        options: catalog options, as for ``spark.sql.catalog.<name>.*``: ``table-default.*``, those of the store, …

    Raises:
        OptionError: an option is missing or invalid.
        UnsupportedError: the kind of warehouse is not supported.
    """
    return CatalogHandle(
        open_catalog({**option_texts(options, "options"), "warehouse": location(warehouse, "warehouse")})
    )


class CatalogHandle:
    """The databases and tables of one warehouse. Names are ``database.table``, or ``table`` in the default database."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def __repr__(self) -> str:
        return f"<paimon warehouse {self._catalog.warehouse}>"

    @property
    def warehouse(self) -> str:
        """Return the location of the warehouse."""
        return self._catalog.warehouse

    @translate_io_errors()
    def list_databases(self) -> list[str]:
        """Return the names of all databases, sorted."""
        return self._catalog.list_databases()

    @checked
    @translate_io_errors()
    def create_database(self, name: str, *, ignore_if_exists: bool = False) -> None:
        """Create a database.

        Raises:
            AlreadyExistsError: it exists and `ignore_if_exists` is false.
        """
        with _hint_if_exists(_IF_IT_EXISTS):
            self._catalog.create_database(name, ignore_if_exists=ignore_if_exists)

    @checked
    @translate_io_errors()
    def drop_database(self, name: str, *, ignore_if_not_exists: bool = False, cascade: bool = False) -> None:
        """Drop a database; with `cascade`, also its tables and views.

        Raises:
            NotFoundError: it does not exist and `ignore_if_not_exists` is false.
            UsageError: it is not empty.
        """
        self._catalog.drop_database(name, ignore_if_not_exists=ignore_if_not_exists, cascade=cascade)

    @checked
    @translate_io_errors()
    def list_tables(self, database: str | None = None) -> list[str]:
        """Return the names of the tables of a database, or of the default database.

        Raises:
            NotFoundError: there is no such database.
        """
        return self._catalog.list_tables(database or self._catalog.default_database)

    @checked
    @translate_io_errors()
    def list_views(self, database: str | None = None) -> list[str]:
        """Return the names of the views of a database, or of the default database. Only Spark can query them.

        Raises:
            NotFoundError: there is no such database.
        """
        return self._catalog.list_views(database or self._catalog.default_database)

    @checked
    @translate_io_errors()
    def drop_view(self, name: str, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a view.

        Raises:
            NotFoundError: it does not exist and `ignore_if_not_exists` is false.
        """
        self._catalog.drop_view(self._identifier(name), ignore_if_not_exists=ignore_if_not_exists)

    @checked
    @translate_io_errors()
    def table_exists(self, name: str) -> bool:
        """Return whether the table exists."""
        return self._catalog.table_exists(self._identifier(name))

    @checked
    def table(self, name: str, options: Options = None) -> TableHandle:
        """Return a table.

        Args:
            name: ``database.table``; ``database.table$branch_b`` is the table on branch ``b``.
            options: table options that apply to this handle only.

        Raises:
            NotFoundError: there is no such table.
            UnsupportedError: it is a view.
            OptionError: an option is unknown or invalid, is fixed by the stored table, or has no effect here.
        """
        given = option_texts(options, "options")
        handle = TableHandle(self._catalog, self._identifier(name), given)
        _check_options(given, handle.load().schema)
        return handle

    @checked
    @translate_io_errors()
    def create_table(
        self,
        name: str,
        schema: Any,
        *,
        primary_key: Names = None,
        partition_by: Names = None,
        options: Options = None,
        comment: str | None = None,
        ignore_if_exists: bool = False,
    ) -> TableHandle:
        """Create a table and return it.

        Args:
            name: ``database.table``.
            schema: a pyarrow Schema, or any object with ``__arrow_c_schema__`` or ``__arrow_c_stream__``. An index of
                pandas without a name is no column.
            primary_key: primary key column or columns; they become NOT NULL.
            partition_by: partition column or columns.
            options: table options, as in ``TBLPROPERTIES``.
            comment: comment of the table.
            ignore_if_exists: return an existing table, whatever its columns.

        Raises:
            AlreadyExistsError: the table exists and `ignore_if_exists` is false.
            NotFoundError: there is no such database.
            UsageError: the columns, keys or options are invalid.
            UnsupportedError: an Arrow type has no corresponding type, or an option requires an unsupported feature.
        """
        made = new_schema(
            fields_from_arrow(_columns(schema)),
            partition_keys=names(partition_by, "partition_by"),
            primary_keys=names(primary_key, "primary_key"),
            options=option_texts(options, "options"),
            comment=comment,
            now_millis=time.time_ns() // 1_000_000,
        )
        identifier = self._identifier(name)
        with _hint_if_exists(_IF_IT_EXISTS):
            self._catalog.create_table(identifier, made, ignore_if_exists=ignore_if_exists)
        return TableHandle(self._catalog, identifier, {})

    @checked
    @translate_io_errors()
    def rename_table(self, name: str, new_name: str) -> None:
        """Rename a table, optionally into another database.

        Raises:
            NotFoundError: the table or the database does not exist.
            AlreadyExistsError: a table of the new name exists.
        """
        with _hint_if_exists("Choose another name."):
            self._catalog.rename_table(self._identifier(name), self._identifier(new_name))

    @checked
    @translate_io_errors()
    def drop_table(self, name: str, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a table and delete its files.

        Raises:
            NotFoundError: it does not exist and `ignore_if_not_exists` is false.
        """
        self._catalog.drop_table(self._identifier(name), ignore_if_not_exists=ignore_if_not_exists)

    def _identifier(self, name: str) -> Identifier:
        found = Identifier.parse(name, self._catalog.default_database)
        if found.system_table is not None:
            known = check_system_table(found.system_table)
            use = f"Use .table('{found.data_table.full_name}').inspect('{known}')."
            raise ArgumentError(
                f"'{name}' is a system table.",
                hint="It shows rows, not metadata: query it with SQL in Spark." if known in SYSTEM_SCANS else use,
            )
        return found


@contextmanager
def _hint_if_exists(hint: str) -> Iterator[None]:
    """Replace the hint of an AlreadyExistsError, which is about SQL."""
    try:
        yield
    except AlreadyExistsError as e:
        raise AlreadyExistsError(e.message, hint=hint, kind=e.kind) from None


def _check_options(given: Mapping[str, str], schema: TableSchema) -> None:
    check_given(given, of="a table handle", scopes=(Scope.READ, Scope.WRITE), stored=schema.options)
    check_fit(schema, given)
    for key, value in given.items():
        if key.startswith(_OF_JOBS) and schema.options.get(key) != value:
            raise OptionError(
                f"The option '{key}' does not apply to a table handle.",
                hint="It configures reads, writes or tasks of a Spark job. Leave it out.",
            )


def _columns(schema: Any) -> pa.Schema:
    found = _arrow_schema(schema)
    ignored = unnamed_indexes(found)
    return pa.schema([f for f in found if f.name not in ignored])


def _arrow_schema(schema: Any) -> pa.Schema:
    if isinstance(schema, pa.Schema):
        return schema
    if isinstance(schema, pa.Table | pa.RecordBatch):
        return schema.schema
    try:
        if hasattr(schema, "__arrow_c_schema__"):
            return pa.schema(schema)
        if hasattr(schema, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(schema).schema
    except Exception as e:
        raise _no_schema(schema, f": {e}") from e
    raise _no_schema(schema)


def _no_schema(schema: Any, why: str = "") -> ArgumentError:
    return ArgumentError(
        f"A {type(schema).__name__} is not an Arrow schema{why}.",
        hint="Pass pa.schema([('id', pa.int64()), ('name', pa.string())]).",
        kind=ErrorKind.SCHEMA_INVALID,
    )

"""The tables of Spark's own catalog: their definitions and files."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

from pyspark.sql import SparkSession

from paimon_spark.engine.migrate import FORMATS, SourceTable
from paimon_spark.errors import ArgumentError, ErrorKind, NotFoundError, UnsupportedError
from paimon_spark.spark.types import field_from_spark
from paimon_spark.spec.identifier import split_name
from paimon_spark.spec.quoted_text import quoted_name

CATALOG = "spark_catalog"
_HIVE = "hive"


def describe_table(session: SparkSession, name: str) -> SourceTable:
    """Return a table of the session's own catalog, with the files that a query of it reads.

    Raises:
        ArgumentError: the name is not that of a table of this catalog.
        NotFoundError: there is no such table.
        UnsupportedError: it is a view, or a column cannot be stored or has a default.
    """
    quoted = _quoted(name)
    state: Any = session._jsparkSession.sessionState()
    identifier = state.sqlParser().parseTableIdentifier(quoted)
    if not state.catalog().tableExists(identifier):
        raise NotFoundError(
            f"There is no table {name} in the catalog {CATALOG}.",
            hint=f"SHOW TABLES IN {CATALOG}.<database> lists them.",
            kind=ErrorKind.TABLE_NOT_FOUND,
        )
    found = state.catalog().getTableMetadata(identifier)
    if found.tableType().name() == "VIEW":
        raise UnsupportedError(f"{name} is a view.", hint="Use CREATE TABLE … AS SELECT.")
    frame = session.table(f"{CATALOG}.{quoted}")
    columns = json.loads(frame.schema.json())["fields"]
    _check_defaults(name, columns)
    keys = found.partitionColumnNames()
    return SourceTable(
        ".".join(split_name(name)),
        _path(found.location().toString()),
        _format(found),
        tuple(field_from_spark(f) for f in columns),
        tuple(keys.apply(i) for i in range(keys.size())),
        tuple(sorted(_path(uri) for uri in frame.inputFiles())),
        found.comment().get() if found.comment().isDefined() else None,
    )


def table_names(session: SparkSession, database: str) -> list[str]:
    """Return the names of the tables of a database of the session's own catalog, sorted.

    Raises:
        NotFoundError: there is no such database.
    """
    catalog: Any = session._jsparkSession.sessionState().catalog()
    if not catalog.databaseExists(database):
        raise NotFoundError(
            f"There is no database {database} in the catalog {CATALOG}.",
            hint=f"SHOW DATABASES IN {CATALOG} lists them.",
            kind=ErrorKind.DATABASE_NOT_FOUND,
        )
    found = catalog.listTables(database)
    tables = (found.apply(i) for i in range(found.size()))
    return sorted(t.table() for t in tables if t.database().isDefined())


def drop_table(session: SparkSession, name: str) -> None:
    """Drop a table of the session's own catalog; the files of an external table stay."""
    session.sql(f"DROP TABLE {CATALOG}.{_quoted(name)}")


def _check_defaults(name: str, columns: list[dict[str, Any]]) -> None:
    """Reject columns that Spark reads as their default from files that lack them."""
    for column in columns:
        default = (column.get("metadata") or {}).get("EXISTS_DEFAULT")
        if default is not None and default.strip().upper() != "NULL":
            raise UnsupportedError(
                f"The column '{column['name']}' of {name} has a default, which files without the column would lose.",
                hint="Use CREATE TABLE … AS SELECT.",
            )


def _quoted(name: str) -> str:
    parts = split_name(name)
    if len(parts) == 3 and parts[0].lower() == CATALOG:
        parts = parts[1:]
    if len(parts) != 2:
        raise ArgumentError(
            f"'{name}' is not the name of a table of {CATALOG}.", hint=f"Write db.table, or {CATALOG}.db.table."
        )
    return ".".join(map(quoted_name, parts))


def _format(found: Any) -> str:
    """Return the format of a table's files: its provider, or by its SerDe that of a table of Hive."""
    provider = found.provider().get().lower() if found.provider().isDefined() else _HIVE
    if provider != _HIVE:
        return str(provider)
    serde = found.storage().serde()
    text = serde.get().lower() if serde.isDefined() else ""
    return next((f for f in FORMATS if f in text), text or _HIVE)


def _path(uri: str) -> str:
    """Return a path in the notation of the engine's stores: without percent encoding, and without the scheme `file`."""
    text = unquote(uri)
    return "/" + text.removeprefix("file:").lstrip("/") if text.startswith("file:") else text

"""The tables that an argument names: one, or all of a database."""

from __future__ import annotations

from collections.abc import Iterator

from paimon_spark.calls.context import CallContext
from paimon_spark.core.table import Table
from paimon_spark.errors import CorruptTableError, ErrorKind, PaimonError, UnsupportedError
from paimon_spark.spec.identifier import Identifier


def named_tables(ctx: CallContext, text: str) -> Iterator[tuple[str, Table | PaimonError]]:
    """Yield the name and the table that ``t``, ``db.t`` or ``db.*`` names.

    Tables that do not consist of Paimon's files are left out of ``db.*``; one that cannot be loaded, or has lost its
    schemas, is its error.

    Raises:
        PaimonError: a table that is named itself cannot be loaded, or does not consist of Paimon's files.
    """
    database = ctx.whole_database(text)
    if database is None:
        identifier = ctx.identifier(text)
        table = ctx.load(identifier)
        if not table.is_file_store:
            raise UnsupportedError(
                f"{table.name} is not a table of Paimon's files: its 'type' is '{table.options.word('type')}'.",
                hint="Its files belong to the program that wrote them.",
            )
        yield identifier.full_name, table
        return
    directories = ctx.catalog.list_directories(database)
    for name in directories.tables:
        identifier = Identifier(database, name)
        try:
            table = ctx.load(identifier)
        except PaimonError as e:
            yield identifier.full_name, e
            continue
        if table.is_file_store:
            yield identifier.full_name, table
    for name in directories.without_schema:
        identifier = Identifier(database, name)
        yield identifier.full_name, without_schema(ctx, identifier)


def without_schema(ctx: CallContext, identifier: Identifier) -> CorruptTableError:
    """Return the error about a directory that has snapshots or manifests, but no schema."""
    path = ctx.catalog.table_path(identifier)
    return CorruptTableError(
        f"The directory {path} has snapshots or manifests, but no schema.",
        hint="Restore its schemas from a backup. If it is the rest of a dropped table, delete it.",
        kind=ErrorKind.FILE_MISSING,
    )

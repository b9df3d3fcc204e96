"""Descriptions and columns of many tables at once, and the greatest partition of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paimon_spark.bridge.handlers.views import described_view
from paimon_spark.bridge.protocol import Request
from paimon_spark.bridge.tables import TableToken, catalog_of, described, load_named, shown_fields
from paimon_spark.core.metadata_io import in_parallel, threads_for
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.system.render import sql_text
from paimon_spark.errors import NotFoundError, PaimonError, UsageError
from paimon_spark.spark.types import struct_to_spark
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.privileges import Privilege

Json = dict[str, Any]


def describe_tables(request: Request) -> Json:
    """Return the descriptions of tables and views; None for those that were dropped, a message for unreadable ones."""
    return _of_each(request, _describe)


def describe_columns(request: Request) -> Json:
    """Return columns and primary keys of tables; None for those that were dropped, a message for unreadable ones."""
    return _of_each(request, _columns)


def _of_each(request: Request, describe: Callable[[Request, Identifier], Json]) -> Json:
    def one(name: str) -> Json | None:
        try:
            return describe(request, Identifier(request.args["database"], name))
        except NotFoundError:
            return None
        except PaimonError as error:
            return {"kind": "unreadable", "message": str(error)}

    place = catalog_of(request.envelope.catalog).warehouse
    return {"tables": in_parallel(one, request.args["names"], threads_for(place))}


def _describe(request: Request, identifier: Identifier) -> Json:
    view = catalog_of(request.envelope.catalog).find_view(identifier)
    if view is not None:
        return described_view(view)
    table = load_named(request.envelope, identifier)
    return described(request.envelope, table, TableToken(identifier.database, identifier.table, table.schema.id))


def _columns(request: Request, identifier: Identifier) -> Json:
    table = load_named(request.envelope, identifier)
    return {"schema": struct_to_spark(shown_fields(table)), "keys": list(table.schema.primary_keys)}


def max_partition(request: Request) -> Json:
    """Return the greatest value of the first partition column among partitions with files, as text.

    Raises:
        UsageError: the table has no partition columns, or no partition with a value and files.
    """
    table = load_named(request.envelope, Identifier(request.args["database"], request.args["name"]))
    table.require(Privilege.SELECT)
    fields = table.schema.partition_fields
    if not fields:
        raise UsageError(f"Table {table.name} is not partitioned.", hint="max_pt takes a partitioned table.")
    partitions = {e.partition for e in scan(table, table.snapshots.latest()).entries}
    values: list[Any] = [v for v in (table.partition_values(p)[0] for p in partitions) if v is not None]
    if not values:
        raise UsageError(
            f"Table {table.name} has no partition with files and a value of '{fields[0].name}'.",
            hint="Insert rows before calling max_pt.",
        )
    return {"value": sql_text(max(values), fields[0].type, request.envelope.zone)}


HANDLERS = {h.__name__: h for h in (describe_tables, describe_columns, max_partition)}

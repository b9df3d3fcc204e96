"""Databases and tables: the requests of the JVM's catalog."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from paimon_spark.bridge.alter_table import schema_changes
from paimon_spark.bridge.handlers.views import described_view, refuse_uses
from paimon_spark.bridge.protocol import Request
from paimon_spark.bridge.system_tables import SYSTEM_DATABASE, describe_global, describe_system, global_tables
from paimon_spark.bridge.tables import (
    TableToken,
    catalog_of,
    chain_moment,
    check_alone,
    checked_options,
    described,
    load_named,
    path_table,
    split_branch,
    time_travelled,
)
from paimon_spark.catalog.base import Catalog
from paimon_spark.errors import ErrorKind, NotFoundError, UnsupportedError, UsageError, suggestion
from paimon_spark.fs.local import local_path
from paimon_spark.spark.conf import row_options
from paimon_spark.spark.types import field_from_spark
from paimon_spark.spec import evolution
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.support import Scope

Json = dict[str, Any]
_NOT_OPTIONS = ("provider", "comment", "location", "path", "external", "is_managed_location")


def open_catalog(request: Request) -> Json:
    """Open the catalog, creating its default database."""
    catalog = catalog_of(request.envelope.catalog)
    return {"default_database": catalog.default_database}


def list_databases(request: Request) -> Json:
    """Return the names of all databases."""
    return {"databases": catalog_of(request.envelope.catalog).list_databases()}


def load_database(request: Request) -> Json:
    """Return the properties of a database."""
    name = request.args["database"]
    catalog = catalog_of(request.envelope.catalog)
    if name != SYSTEM_DATABASE and not catalog.database_exists(name):
        raise NotFoundError(
            f"Database '{name}' does not exist.",
            hint=suggestion(name, catalog.list_databases()),
            kind=ErrorKind.DATABASE_NOT_FOUND,
        )
    return {"properties": {}}


def create_database(request: Request) -> Json:
    """Create a database."""
    args = request.args
    catalog_of(request.envelope.catalog).create_database(
        args["database"],
        ignore_if_exists=bool(args.get("ignore_if_exists")),
        properties=args.get("properties") or {},
    )
    return {}


def alter_database(request: Request) -> Json:
    """Reject the statement: a filesystem catalog stores no database properties."""
    raise UnsupportedError(
        f"The properties of database '{request.args['database']}' cannot be changed.",
        hint="A filesystem catalog keeps none.",
    )


def drop_database(request: Request) -> Json:
    """Drop a database."""
    args = request.args
    catalog_of(request.envelope.catalog).drop_database(args["database"], cascade=args["cascade"])
    return {"dropped": True}


def list_tables(request: Request) -> Json:
    """Return the names of the tables of a database, with those of the views if requested."""
    name = request.args["database"]
    if name == SYSTEM_DATABASE:
        return {"tables": list(global_tables())}
    catalog = catalog_of(request.envelope.catalog)
    views = catalog.list_views(name) if request.args["views"] else []
    return {"tables": sorted({*catalog.list_tables(name), *views})}


def table_exists(request: Request) -> Json:
    """Return whether a table exists."""
    args = request.args
    if args["database"] == SYSTEM_DATABASE:
        return {"exists": args["name"] in global_tables()}
    catalog = catalog_of(request.envelope.catalog)
    try:
        identifier = _requested(args)
    except NotFoundError:
        return {"exists": False}
    known = catalog.table_exists(identifier) or bool(args.get("views") and catalog.find_view(identifier))
    return {"exists": known and catalog.database_exists(args["database"])}


def load_table(request: Request) -> Json:
    """Return the description of a table, a system table or a view."""
    args = request.args
    if args["database"] == SYSTEM_DATABASE:
        return describe_global(request.envelope, args["name"])
    identifier, options = split_branch(_requested(args), args.get("options") or {})
    _require_database(request, identifier)
    writes = bool(args.get("writes"))
    try:
        loaded = load_named(request.envelope, identifier, writes=writes)
    except (NotFoundError, UnsupportedError):
        view = catalog_of(request.envelope.catalog).find_view(identifier) if args.get("views") else None
        if view is None:
            raise
        refuse_uses(args, identifier)
        return described_view(view)
    given, travels = checked_options(loaded, options, Scope.READ), bool(args["travel"])
    if travels:
        check_alone(given)
    chosen, zone = loaded.with_options(given), request.envelope.zone
    table, snapshot = time_travelled(chosen, args["travel"], zone)
    if identifier.system_table is not None:
        answer = describe_system(table, identifier, snapshot)
    else:
        moment = chain_moment(chosen, args["travel"], zone)
        names = identifier.database, identifier.object_name
        token = TableToken(*names, table.schema.id, snapshot=snapshot, writes=writes, moment=moment, travels=travels)
        answer = described(request.envelope, table, token)
    return _distinguished(request, answer, identifier)


def _distinguished(request: Request, answer: Json, identifier: Identifier) -> Json:
    """Return a description whose token has the options of the session on which rows depend.

    Spark returns cached rows for an equal token.
    """
    envelope = request.envelope
    if found := row_options(envelope.conf, envelope.catalog.name, identifier):
        answer["token"] = {**answer["token"], "session": found}
    return answer


def _requested(args: Mapping[str, Any]) -> Identifier:
    """Return the name of the table to load.

    For a name that no table can have, no table is found, and Spark then tries its other meanings: in
    ``SELECT * FROM text.`/some/file` `` it is a path.
    """
    try:
        return Identifier.of((args["database"], args["name"]))
    except UsageError as error:
        raise NotFoundError(error.message, hint=error.hint, kind=ErrorKind.TABLE_NOT_FOUND) from error


def _require_database(request: Request, identifier: Identifier) -> None:
    catalog = catalog_of(request.envelope.catalog)
    if not catalog.database_exists(identifier.database):
        raise NotFoundError(
            f"Table '{identifier.full_name}' does not exist: there is no database '{identifier.database}'.",
            hint=suggestion(identifier.database, catalog.list_databases()),
            kind=ErrorKind.TABLE_NOT_FOUND,
        )


def load_path(request: Request) -> Json:
    """Return the description of the table at a directory."""
    args = request.args
    named, options = split_branch(Identifier("path", "table"), args["options"])
    found = path_table(request.envelope, args["path"], options, branch=named.branch)
    given = checked_options(found, options, Scope.STREAM)  # the query may be a stream
    if args["travel"]:
        check_alone(given)
    chosen, zone, travel = found.with_options(given), request.envelope.zone, args["travel"]
    table, snapshot = time_travelled(chosen, travel, zone)
    names, moment = (table.identifier.database, table.identifier.object_name), chain_moment(chosen, travel, zone)
    token = TableToken(*names, table.schema.id, args["path"], snapshot, moment=moment, travels=bool(travel))
    return described(request.envelope, table, token)


def create_table(request: Request) -> Json:
    """Create a table."""
    args = request.args
    identifier = Identifier.of((args["database"], args["name"]))
    properties = dict(args["properties"])
    provider = properties.get("provider", "paimon")
    if provider.lower() != "paimon":
        raise UnsupportedError(
            f"A table of the provider '{provider}' cannot be created in the catalog '{request.envelope.catalog.name}'.",
            hint="Leave USING out, write USING paimon or .format('paimon'), or create it in spark_catalog.",
        )
    catalog = catalog_of(request.envelope.catalog)
    refuse_other_location(catalog, identifier, properties)
    schema = new_schema_from_spark(args["schema"], args["partition_keys"], properties)
    catalog.create_table(identifier, schema)
    return {}


def refuse_other_location(catalog: Catalog, identifier: Identifier, properties: Mapping[str, str]) -> None:
    """Refuse a LOCATION, or an option ``path``, that differs from the location of the table in the catalog.

    Raises:
        UnsupportedError: it is another location. The table's own, which SHOW CREATE TABLE prints, may be given.
    """
    managed = properties.get("is_managed_location") == "true"
    given = [properties.get("path"), None if managed else properties.get("location")]
    own = local_path(catalog.table_path(identifier))
    if any(place and local_path(place).rstrip("/") != own for place in given):
        raise UnsupportedError(
            f"Table '{identifier.full_name}' cannot have its own location in a filesystem catalog.",
            hint="Leave LOCATION out, or save the rows with df.write.format('paimon').save(path).",
        )


def new_schema_from_spark(struct: Json, partition_keys: Sequence[str], properties: Mapping[str, str]) -> Any:
    """Return the schema of a new table from Spark's columns and properties."""
    options = {k: v for k, v in properties.items() if k not in _NOT_OPTIONS and not k.startswith("option.")}
    fields = tuple(field_from_spark(f) for f in struct["fields"])
    return evolution.new_schema(
        fields,
        partition_keys=tuple(partition_keys),
        options=options,
        comment=properties.get("comment"),
        now_millis=time.time_ns() // 1_000_000,
    )


def alter_table(request: Request) -> Json:
    """Apply the changes of one ALTER TABLE."""
    args = request.args
    identifier = Identifier.of((args["database"], args["name"]))
    catalog = catalog_of(request.envelope.catalog)
    if identifier.system_table is not None:
        raise UnsupportedError(f"'{identifier.full_name}' is a system table and cannot be altered.")
    catalog.alter_table(identifier, schema_changes(args["changes"]))
    return {}


def drop_table(request: Request) -> Json:
    """Drop a table; return whether it existed."""
    args = request.args
    identifier = Identifier.of((args["database"], args["name"]))
    catalog = catalog_of(request.envelope.catalog)
    if not catalog.database_exists(args["database"]):
        return {"dropped": False}
    if not catalog.table_exists(identifier) and catalog.find_view(identifier) is None:
        return {"dropped": False}
    catalog.drop_table(identifier)
    return {"dropped": True}


def rename_table(request: Request) -> Json:
    """Rename a table inside the catalog."""
    args = request.args
    source = Identifier.of((args["database"], args["name"]))
    catalog_of(request.envelope.catalog).rename_table(source, Identifier.of((args["to_database"], args["to_name"])))
    return {}


HANDLERS = {
    h.__name__: h
    for h in (
        open_catalog,
        list_databases,
        load_database,
        create_database,
        alter_database,
        drop_database,
        list_tables,
        table_exists,
        load_table,
        load_path,
        create_table,
        alter_table,
        drop_table,
        rename_table,
    )
}

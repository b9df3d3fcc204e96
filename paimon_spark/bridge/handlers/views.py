"""Views: the requests of the JVM's catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paimon_spark.bridge.protocol import Request
from paimon_spark.bridge.system_tables import SYSTEM_DATABASE
from paimon_spark.bridge.tables import catalog_of
from paimon_spark.errors import ErrorKind, UnsupportedError, UsageError
from paimon_spark.spec.identifier import Identifier, check_name
from paimon_spark.spec.view import View, view_of

Json = dict[str, Any]


def described_view(view: View) -> Json:
    """Return the description of a view."""
    return {
        "kind": "view",
        "query": view.query,
        "columns": {"type": "struct", "fields": view.columns},
        "context": view.context,
        "properties": view.properties,
        "comment": view.comment,
    }


def _named(args: Mapping[str, Any], database: str = "database", name: str = "name") -> Identifier:
    if args[database] == SYSTEM_DATABASE:
        raise UsageError(
            f"A view cannot be in the database '{SYSTEM_DATABASE}', which has the system tables of all databases.",
            hint="Choose another database.",
            kind=ErrorKind.INVALID_ARGUMENT,
        )
    check_name(args[name], "view")
    return Identifier.of((args[database], args[name]))


def list_views(request: Request) -> Json:
    """Return the names of the views of a database."""
    name = request.args["database"]
    return {"views": [] if name == SYSTEM_DATABASE else catalog_of(request.envelope.catalog).list_views(name)}


def create_view(request: Request) -> Json:
    """Create a view, or replace one."""
    args = request.args
    catalog_of(request.envelope.catalog).create_view(
        _named(args), view_of(args["view"]), ignore_if_exists=args["if_not_exists"], replace=args["replace"]
    )
    return {}


def alter_view(request: Request) -> Json:
    """Replace an existing view."""
    args = request.args
    catalog_of(request.envelope.catalog).alter_view(_named(args), view_of(args["view"]))
    return {}


def drop_view(request: Request) -> Json:
    """Drop a view."""
    args = request.args
    catalog_of(request.envelope.catalog).drop_view(_named(args), ignore_if_not_exists=args["if_exists"])
    return {}


def rename_view(request: Request) -> Json:
    """Rename a view inside the catalog."""
    args = request.args
    catalog_of(request.envelope.catalog).rename_view(_named(args), _named(args, "to_database", "to_name"))
    return {}


def load_view(request: Request) -> Json:
    """Return the description of a view."""
    return described_view(catalog_of(request.envelope.catalog).load_view(_named(request.args)))


def refuse_uses(args: Mapping[str, Any], identifier: Identifier) -> None:
    """Reject writes, time travel and options, which views do not support.

    Raises:
        UnsupportedError: the request has one of these.
    """
    if args.get("writes"):
        wrong, hint = "cannot be written", "Write to the tables that it reads."
    elif args.get("options"):
        wrong, hint = "has no options", "Put them into its query, after the table that they are for."
    elif any(v is not None for v in (args.get("travel") or {}).values()):
        wrong, hint = "has no snapshots", "Put VERSION AS OF into its query, after the table that it is for."
    else:
        return
    raise UnsupportedError(f"'{identifier.full_name}' is a view and {wrong}.", hint=hint)


HANDLERS = {h.__name__: h for h in (list_views, create_view, alter_view, drop_view, rename_view, load_view)}

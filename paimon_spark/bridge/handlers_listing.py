"""Many tables at once: what SHOW TABLE EXTENDED asks."""

from __future__ import annotations

from typing import Any

from paimon_spark.bridge.handlers_views import described_view
from paimon_spark.bridge.protocol import Request
from paimon_spark.bridge.tables import TableToken, catalog_of, described, load_named
from paimon_spark.core.metadata_io import in_parallel
from paimon_spark.errors import NotFoundError, PaimonError
from paimon_spark.spec.identifier import Identifier

Json = dict[str, Any]


def describe_tables(request: Request) -> Json:
    """Return the descriptions of tables and views; None for those that were dropped, a message for unreadable ones."""
    return {"tables": in_parallel(lambda name: _describe(request, name), request.args["names"])}


def _describe(request: Request, name: str) -> Json | None:
    identifier = Identifier(request.args["database"], name)
    try:
        view = catalog_of(request.envelope.catalog).find_view(identifier)
        if view is not None:
            return described_view(view)
        table = load_named(request.envelope, identifier)
        return described(request.envelope, table, TableToken(identifier.database, name, table.schema.id))
    except NotFoundError:
        return None
    except PaimonError as error:
        return {"kind": "unreadable", "message": str(error)}


HANDLERS = {h.__name__: h for h in (describe_tables,)}

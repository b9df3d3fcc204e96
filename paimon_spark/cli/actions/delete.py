"""The action `delete`: rows by a condition, in this process or by a statement of Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from paimon_spark.api.table import TableHandle
from paimon_spark.calls.report import DONE, NOTHING_TO_DO
from paimon_spark.catalog.base import Catalog
from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.cli.actions.arguments import Request
from paimon_spark.cli.env import CatalogChoice
from paimon_spark.cli.local_zone import LocalZone
from paimon_spark.cli.result_formats import Answer
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.quoted_text import quoted_name

_COLUMNS = (("status", "string"), ("snapshot_before", "bigint"), ("snapshot_after", "bigint"))


def delete_here(request: Request, choice: CatalogChoice, options: Mapping[str, str]) -> Answer:
    """Delete the rows in this process, with table options.

    Raises:
        PaimonError: the condition does not fit the table, or the delete failed.
    """
    table = TableHandle(_catalog(choice), _identifier(request), options, LocalZone())
    return answer_around(request, choice, lambda: table.delete(str(request.given.text("where"))))


def delete_statement(request: Request) -> str:
    """Return the statement of Spark that deletes the rows."""
    database, table = request.table or ("", "")
    name = ".".join(map(quoted_name, (request.catalog, database, table)))
    return f"DELETE FROM {name} WHERE {request.given.text('where')}"  # noqa: S608 - a condition of the user


def answer_around(request: Request, choice: CatalogChoice, delete: Callable[[], object]) -> Answer:
    """Run a delete and return its result.

    Raises:
        PaimonError: there is no such table, or the delete failed.
    """
    table = _catalog(choice).load_table(_identifier(request))
    before = table.snapshots.latest_id()
    delete()
    after = table.snapshots.latest_id()
    return Answer(_COLUMNS, [(NOTHING_TO_DO if before == after else DONE, before, after)])


def _catalog(choice: CatalogChoice) -> Catalog:
    return open_catalog({**dict(choice.options), "warehouse": choice.warehouse})


def _identifier(request: Request) -> Identifier:
    return Identifier.of(request.table or ())

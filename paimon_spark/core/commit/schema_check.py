"""The check of a commit against the schemas of its table: is the table still the one that the rows were written for?

A table that was dropped, renamed or created again has other schema files.

(docs/spec/semantics.md, Z5)
"""

from __future__ import annotations

from paimon_spark.core.table import Table
from paimon_spark.errors import NotFoundError

_AGAIN = "Nothing was committed. Run the statement again."


def check_schemas(table: Table) -> int:
    """Return the id of the newest schema, after checking that rows of the table's schema can be committed to it.

    Raises:
        NotFoundError: the table was dropped or renamed, or another table has its name.
    """
    store, own = table.schema_store, table.schema
    found = store.find(own.id)
    ids = store.ids()
    if found is None and not ids:
        raise NotFoundError(
            f"Table {table.name} was dropped or renamed while this statement wrote to it.",
            hint="Nothing was committed. Check the table's name and run the statement again.",
        )
    if found is None or found.to_json() != own.to_json():
        raise NotFoundError(
            f"Schema {own.id} of table {table.name}, by which this statement wrote, does not exist any more: the table "
            "was dropped and created again, or its schemas were replaced.",
            hint=_AGAIN,
        )
    return max([own.id, *ids])

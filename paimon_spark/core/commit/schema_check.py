"""The check of a commit against the schemas of its table: is the table still the one that the rows were written for?

A table that was dropped, renamed or created again has other schema files. REPLACE TABLE publishes a schema of another
layout before it replaces the rows.

(docs/spec/semantics.md, Z5)
"""

from __future__ import annotations

from paimon_spark.core.table import Table
from paimon_spark.errors import ConflictError, NotFoundError
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.table_layout import layout_change

_AGAIN = "Nothing was committed. Run the statement again."


def check_schemas(table: Table) -> int:
    """Return the id of the newest schema, after checking that rows of the table's schema can be committed to it.

    It is called after the base of the commit is read. A REPLACE TABLE that publishes its schema later replaces the rows
    of this commit too, or makes it lose the race.

    Raises:
        NotFoundError: the table was dropped or renamed, or another table has its name.
        ConflictError: the newest schema has another layout.
    """
    newest = _newest(table)
    changed = None if newest is table.schema else layout_change(table.schema, newest)
    if changed is not None:
        raise ConflictError(
            f"The commit to table {table.name} is refused. Another statement changed the table meanwhile: {changed}.",
            hint=_AGAIN,
        )
    return newest.id


def _newest(table: Table) -> TableSchema:
    """Return the newest schema; that of the table is read too, to find out whether the table is the same."""
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
    later = (store.find(i) for i in reversed(ids) if i > own.id)
    return next((schema for schema in later if schema is not None), own)

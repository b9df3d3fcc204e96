"""Whether files of other schemas can be read by a stream with the schema that it began with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from paimon_spark.core.file_schemas import FileSchemas
from paimon_spark.core.scan.splits import Split
from paimon_spark.core.table import Table
from paimon_spark.errors import UnsupportedError
from paimon_spark.spec.types import DataType, type_to_json

_RESTART = "Restart the query with the same checkpoint: it reads the new"


def check_schemas(table: Table, splits: Iterable[Split]) -> None:
    """Check that files of newer schemas have the columns of the query, and that the table was not replaced.

    Raises:
        UnsupportedError: a column was dropped or has another type, or the files are read by other rules.
    """
    schemas, ids = FileSchemas(table), {i for s in splits for i in s.schema_ids}
    _check_definition(table, schemas, ids)
    for schema_id in sorted(i for i in ids if i > table.schema.id):
        newer = {f.id: f for f in schemas.of(schema_id).fields}
        for column in table.schema.fields:
            now = newer.get(column.id)
            if now is not None and _has_values_of(column.type, now.type):
                continue
            was = type_to_json(column.type)
            what = "was dropped" if now is None else f"is {type_to_json(now.type)} and was {was}"
            raise UnsupportedError(
                f"The stream of table {table.name} cannot go on with the columns that it began with: the column "
                f"'{column.name}' {what}.",
                hint=f"{_RESTART} columns.",
            )


def _check_definition(table: Table, schemas: FileSchemas, ids: set[int]) -> None:
    found = schemas.replaced(ids)
    if found is None:
        return
    schema_id, what = found
    if schema_id > table.schema.id:
        raise UnsupportedError(
            f"The stream of table {table.name} cannot go on: the table was replaced by one with another {what}.",
            hint=f"{_RESTART} table.",
        )
    raise UnsupportedError(
        f"The stream of table {table.name} cannot read changes of before the table was replaced by one with another "
        f"{what}.",
        hint="Start with a new checkpoint, which reads the whole table again by default, or at a later "
        "'scan.snapshot-id'.",
    )


def _has_values_of(wanted: DataType, stored: DataType) -> bool:
    """Return whether all values of a stored type are of the type in a query: Spark takes a NULL in it for a value."""
    return replace(stored, nullable=wanted.nullable) == wanted and (wanted.nullable or not stored.nullable)

"""COPY INTO a directory: writes the rows of a table or a query as files (docs/sql.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

from paimon_spark.errors import AlreadyExistsError, ArgumentError, ErrorKind
from paimon_spark.spark.copy_formats import READERS, directory_of, spark_options, told_by_spark
from paimon_spark.spark.copy_values import storable
from paimon_spark.spec.quoted_text import quoted_name
from paimon_spark.sqlparse.copy_into import CopyTo, FileFormat

WRITTEN = [("output_path", "string", False), ("file_count", "int", False), ("rows_written", "bigint", False)]
"""Name, Spark type and nullability of the columns of the one row that is answered."""
_MOMENT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
_SCHEMA = re.compile(r"schema-\d+")


def write_files(session: SparkSession, statement: CopyTo) -> list[tuple[Any, ...]]:
    """Write the rows of a table or a query as files of a directory; return one row, as `WRITTEN` says.

    Raises:
        AlreadyExistsError: the directory exists and OVERWRITE is not TRUE.
        ArgumentError: the directory touches a Paimon table, the query is wrong, or its rows cannot be written in the
            format.
    """
    directory, store = directory_of(session, statement.path)
    exists = store.exists(directory)
    if exists and not statement.overwrite:
        raise AlreadyExistsError(
            f"{statement.path} exists.",
            hint="Name another directory, or write OVERWRITE = TRUE, which replaces all that is in it.",
            kind=ErrorKind.INVALID_ARGUMENT,
        )
    _refuse_tables(store, directory, statement.path)
    options = _options(statement.format)
    counted = Observation()
    hint = "FROM takes a table, or a query in parentheses."
    with told_by_spark("COPY INTO cannot write the rows", hint, ErrorKind.INVALID_ARGUMENT):
        query = session.sql(f"SELECT * FROM {statement.source}")  # noqa: S608, the text is the user's own query
        rows = _storable(query, statement.format).observe(counted, f.count(f.lit(1)).alias("rows"))
        writer = rows.write.mode("overwrite" if statement.overwrite else "errorifexists").options(**options)
        writer.format(READERS[statement.format.kind]).save(statement.path)
    names = [status.getPath().getName() for status in store.listStatus(directory)]
    return [(statement.path, sum(not n.startswith(("_", ".")) for n in names), counted.get["rows"])]


def _options(file_format: FileFormat) -> dict[str, str]:
    """Return the options of Spark's writer: timestamps have all digits, unless a format is given."""
    options = spark_options(file_format)
    if file_format.kind != "PARQUET":
        given = options.get("timestampFormat")
        options |= {"timestampFormat": given or f"{_MOMENT}XXXXX", "timestampNTZFormat": given or _MOMENT}
    if "COMPRESSION" in file_format.options:
        options["compression"] = file_format.text("COMPRESSION", "").lower()
    return options


def _storable(query: DataFrame, file_format: FileFormat) -> DataFrame:
    """Return the rows with values that files of the format can hold and give back."""
    if file_format.kind == "PARQUET":
        return query
    columns = [storable(f.col(quoted_name(c.name)), c.dataType, file_format.kind).alias(c.name) for c in query.schema]
    if file_format.kind == "CSV" and len(columns) == 1:
        message = f"[{ErrorKind.VALUE_NOT_STORABLE}] A CSV file of one column has no text for NULL."
        column = columns[0]
        columns = [f.coalesce(column, f.raise_error(f.lit(message)).cast("string")).alias(query.columns[0])]
    return query.select(*columns)


def _refuse_tables(store: Any, directory: Any, path: str) -> None:
    """Refuse a directory that is a table, lies in one or contains one: files there would destroy it or be deleted.

    Raises:
        ArgumentError: names the table.
    """
    for place in _around(store, directory):
        if _is_table(store, place):
            raise ArgumentError(
                f"{path} cannot be written: {place.toUri().getPath()} is a Paimon table.",
                hint="Name a directory outside of tables and warehouses.",
            )


def _around(store: Any, directory: Any) -> Iterator[Any]:
    """Return a directory, those that it lies in, and those below it."""
    place = directory
    while place is not None:
        yield place
        place = place.getParent()
    waiting = [directory] if store.exists(directory) else []
    while waiting:
        below = [s.getPath() for s in store.listStatus(waiting.pop()) if s.isDirectory()]
        yield from below
        waiting += below


def _is_table(store: Any, place: Any) -> bool:
    schemas = place.suffix("/schema") if place.getParent() is not None else None
    if schemas is None or not store.exists(schemas):
        return False
    return any(_SCHEMA.fullmatch(s.getPath().getName()) for s in store.listStatus(schemas))

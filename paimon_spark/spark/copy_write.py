"""COPY INTO a directory: writes the rows of a table or a query as files (docs/sql.md)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

from paimon_spark.errors import AlreadyExistsError, ArgumentError, ErrorKind
from paimon_spark.spark.copy_formats import READERS, spark_options, told_by_spark
from paimon_spark.spark.copy_places import directory_of, new_files, reached, refuse_databases, refuse_tables
from paimon_spark.spark.copy_values import storable
from paimon_spark.spark.failures import whole_text
from paimon_spark.spark.job_control import cancel_on_failure
from paimon_spark.spec.quoted_text import quoted_name
from paimon_spark.sqlparse.copy_into import CopyTo, FileFormat

WRITTEN = [("output_path", "string", False), ("file_count", "int", False), ("rows_written", "bigint", False)]
"""Name, Spark type and nullability of the columns of the one row that is answered."""
_MOMENT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
_NO_NULL = "A CSV file of one column has no text for NULL."


def write_files(session: SparkSession, statement: CopyTo) -> list[tuple[Any, ...]]:
    """Write the rows of a table or a query as files of a directory; return one row, as `WRITTEN` says.

    Raises:
        AlreadyExistsError: the directory exists and OVERWRITE is not TRUE.
        ArgumentError: the directory touches a Paimon table, the query is wrong, or its rows cannot be written in the
            format.
    """
    directory, store = directory_of(session, statement.path)
    _check_place(store, directory, statement)
    refuse_databases(session, store, directory, statement.path)
    refuse_tables(store, directory, statement.path)
    options = _options(statement.format)
    counted = Observation()
    with _told():
        query = session.sql(f"SELECT * FROM {statement.source}")  # noqa: S608, the text is the user's own query
        rows = _storable(query, statement.format).observe(counted, f.count(f.lit(1)).alias("rows"))
    writer = rows.write.mode("errorifexists").options(**options).format(READERS[statement.format.kind])
    with new_files(store, directory, statement.path) as place, _told(), cancel_on_failure(session):
        writer.save(place)
    with reached(statement.path):
        names = [status.getPath().getName() for status in store.listStatus(directory)]
    return [(statement.path, sum(not n.startswith(("_", ".")) for n in names), counted.get["rows"])]


def _check_place(store: Any, directory: Any, statement: CopyTo) -> None:
    if directory.getParent() is None:
        raise ArgumentError(f"{statement.path} is the root of its store.", hint="Name a directory below it.")
    with reached(statement.path):
        exists = store.exists(directory)
        is_file = exists and store.getFileStatus(directory).isFile()
    if is_file:
        raise ArgumentError(f"{statement.path} is a file.", hint="Name a directory.")
    if exists and not statement.overwrite:
        raise AlreadyExistsError(
            f"{statement.path} exists.",
            hint="Name another directory, or write OVERWRITE = TRUE, which replaces all that is in it.",
            kind=ErrorKind.INVALID_ARGUMENT,
        )


@contextmanager
def _told() -> Iterator[None]:
    """Raise what Spark says of a query or of its rows."""
    hint = "FROM takes a table, or a query in parentheses."
    with told_by_spark("COPY INTO cannot write the rows", hint, ErrorKind.INVALID_ARGUMENT):
        try:
            yield
        except (PySparkException, Py4JJavaError) as e:
            if _NO_NULL not in whole_text(e):
                raise
            raise ArgumentError(
                _NO_NULL,
                hint="Replace NULL in the query, as by coalesce, or write JSON or PARQUET.",
                kind=ErrorKind.VALUE_NOT_STORABLE,
            ) from e


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
        text = f.coalesce(columns[0], f.raise_error(f.lit(_NO_NULL)).cast("string"))
        columns = [text.alias(query.columns[0])]
    return query.select(*columns)

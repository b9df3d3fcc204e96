"""COPY INTO: loads files of a directory into a table, and writes the rows of a query as files (docs/sql.md).

Files are read twice: to find the rows that cannot be loaded, then to write the others, in one commit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from paimon_spark.core.table import Table
from paimon_spark.engine.load_history import LoadHistory, SourceFile
from paimon_spark.errors import (
    AlreadyExistsError,
    ArgumentError,
    ErrorKind,
    NotFoundError,
    OptionError,
    PaimonError,
    suggestion,
)
from paimon_spark.spark.arrow_map import quoted
from paimon_spark.spark.failures import clear_failure, first_line
from paimon_spark.spark.store_assignment import column_type
from paimon_spark.spark.types import MAX_VARCHAR
from paimon_spark.spark.writes import write_frame
from paimon_spark.spec.kinds import Operation
from paimon_spark.spec.types import AtomicType, DataField, TypeRoot
from paimon_spark.sqlparse.copy_into import CopyFrom, CopyTo, FileFormat, OnError

LOADED = [
    ("file_name", "string", False),
    ("status", "string", False),
    ("rows_loaded", "bigint", False),
    ("rows_parsed", "bigint", False),
    ("errors_seen", "bigint", False),
    ("first_error", "string", True),
]
"""Name, Spark type and nullability of the columns of a load's answer: one row for each file."""
WRITTEN = [("output_path", "string", False), ("file_count", "int", False), ("rows_written", "bigint", False)]
"""The same of the one row that a COPY INTO of a directory answers."""
_CORRUPT, _FILE, _ERROR = "__corrupt__", "__file__", "__error__"
_SHOWN = 100
_READERS = {"CSV": "csv", "JSON": "json", "PARQUET": "parquet"}
_OPTIONS = {
    "FIELD_DELIMITER": "sep",
    "QUOTE": "quote",
    "ESCAPE": "escape",
    "HEADER": "header",
    "MULTI_LINE": "multiLine",
    "DATE_FORMAT": "dateFormat",
    "TIMESTAMP_FORMAT": "timestampFormat",
}
_CODECS = {"GZIP": ".gz", "BZIP2": ".bz2", "ZSTD": ".zst", "SNAPPY": ".snappy", "LZ4": ".lz4", "DEFLATE": ".deflate"}
_GLOB = re.compile(r"([\[\]{}*?\\])")
_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)


@dataclass(frozen=True, slots=True)
class _Checked:
    """What is known of a file before it is written: its rows, and those that cannot be loaded."""

    rows: int = 0
    errors: int = 0
    first_error: str | None = None


def load_files(session: SparkSession, table: Table, statement: CopyFrom, millis: int) -> list[tuple[Any, ...]]:
    """Load the files of a directory that have not been loaded; return a row for each file, as `LOADED` says.

    Args:
        session: the session that reads and writes.
        table: the table.
        statement: what to load.
        millis: the time of the load, for the history.

    Raises:
        NotFoundError: there is no such directory, or the table has no such column.
        ArgumentError: a row cannot be loaded and ON_ERROR = ABORT_STATEMENT; nothing is written.
        PaimonError: the write failed; the table is as it was.
    """
    columns = _columns(table, statement.columns)
    history = LoadHistory.of(table)
    files = _listed(session, statement)
    known = set() if statement.force else history.loaded(files)
    wanted = [s for s in files if s not in known]
    checked = _checked(session, table, statement, columns, wanted) if wanted else {}
    _abort(statement, wanted, checked)
    skips = statement.on_error is OnError.SKIP_FILE
    loaded = [s for s in wanted if not (skips and checked[s.path].errors)]
    if any(checked[s.path].rows > checked[s.path].errors for s in loaded):
        frame = _frame(session, table, statement, columns, loaded)
        rows = frame.where(f.col(_ERROR).isNull()).select(*map(quoted, table.schema.field_names))
        write_frame(session, table, rows, operation=Operation.WRITE)
    snapshot = table.snapshots.latest_id()
    history.record([(s, checked[s.path].rows - checked[s.path].errors) for s in loaded], snapshot or 0, millis)
    return [_answer(s, checked.get(s.path), written=s in loaded) for s in files]


def _answer(source: SourceFile, found: _Checked | None, *, written: bool) -> tuple[Any, ...]:
    if found is None:
        return (source.name, "SKIPPED", 0, 0, 0, None)
    if not written:
        return (source.name, "LOAD_FAILED", 0, found.rows, found.errors, found.first_error)
    status = "PARTIALLY_LOADED" if found.errors else "LOADED"
    return (source.name, status, found.rows - found.errors, found.rows, found.errors, found.first_error)


def _abort(statement: CopyFrom, wanted: Sequence[SourceFile], checked: Mapping[str, _Checked]) -> None:
    wrong = next((s for s in wanted if checked[s.path].errors), None)
    if wrong is None or statement.on_error is not OnError.ABORT_STATEMENT:
        return
    found = checked[wrong.path]
    raise ArgumentError(
        f"{found.errors} of {found.rows} rows of {wrong.name} cannot be loaded: {found.first_error}",
        hint="Nothing was loaded. ON_ERROR = CONTINUE leaves such rows out, ON_ERROR = SKIP_FILE such files.",
        kind=ErrorKind.TYPE_MISMATCH,
    )


def _columns(table: Table, names: Sequence[str]) -> list[DataField]:
    """Return the columns to load."""
    known = {field.name.lower(): field for field in table.schema.fields}
    for name in names:
        if name.lower() not in known:
            raise NotFoundError(
                f"Table {table.name} has no column '{name}'.",
                hint=suggestion(name, table.schema.field_names),
                kind=ErrorKind.COLUMN_NOT_FOUND,
            )
    chosen = [known[n.lower()] for n in names] or list(table.schema.fields)
    missing = [c.name for c in table.schema.fields if c not in chosen and not c.type.nullable and not c.default_value]
    if missing:
        raise ArgumentError(
            f"COPY INTO {table.name} has no values for {', '.join(missing)}, which cannot be NULL.",
            hint="Name these columns too, or give them a default.",
            kind=ErrorKind.NOT_NULL_VIOLATION,
        )
    return chosen


# ------------------------------------------------------------------------------------------------------------- reading


def _listed(session: SparkSession, statement: CopyFrom) -> list[SourceFile]:
    """Return the files of the directory, without those below it, whose names match the pattern; by name."""
    try:
        pattern = re.compile(statement.pattern) if statement.pattern is not None else None
    except re.error as e:
        raise ArgumentError(f"PATTERN is no regular expression: {e}.", hint="Example: PATTERN = '.*\\.csv'") from e
    directory, store = _directory(session, statement.path)
    if not store.exists(directory):
        raise NotFoundError(
            f"There is no directory {statement.path}.",
            hint="Name an existing directory, or a file, by its path.",
            kind=ErrorKind.INVALID_ARGUMENT,
        )
    found = []
    for status in store.listStatus(directory):
        name = status.getPath().getName()
        hidden = name.startswith(("_", "."))
        if status.isFile() and not hidden and (pattern is None or pattern.fullmatch(name)):
            found.append(SourceFile(status.getPath().toString(), status.getLen(), status.getModificationTime()))
    _check_codec(statement.format, found)
    return sorted(found, key=lambda s: s.path)


def _directory(session: SparkSession, path: str) -> tuple[Any, Any]:
    """Return a path and its file system, by the session's Hadoop settings."""
    jvm: Any = session.sparkContext._jvm
    conf = session._jsparkSession.sessionState().newHadoopConf()
    store = jvm.org.apache.hadoop.fs.Path(path).getFileSystem(conf)
    return store.makeQualified(jvm.org.apache.hadoop.fs.Path(path)), store


def _check_codec(file_format: FileFormat, files: Sequence[SourceFile]) -> None:
    """Spark finds the codec of a text file by its name, so another one cannot be asked for."""
    codec = file_format.text("COMPRESSION", "NONE").upper()
    if codec in ("NONE", "AUTO"):
        return
    if codec not in _CODECS:
        raise OptionError(f"COMPRESSION cannot be {codec}.", hint=f"Write one of NONE, {', '.join(_CODECS)}.")
    for source in files:
        if not source.name.endswith(_CODECS[codec]):
            raise OptionError(
                f"The file {source.name} is not named as one with COMPRESSION = {codec}.",
                hint=f"Such files end in {_CODECS[codec]}; PATTERN selects files.",
            )


def _checked(
    session: SparkSession,
    table: Table,
    statement: CopyFrom,
    columns: Sequence[DataField],
    files: Sequence[SourceFile],
) -> dict[str, _Checked]:
    path_of = session.sparkContext._jvm.org.apache.hadoop.fs.Path  # type: ignore[union-attr]
    names = {path_of(s.path).toUri().toString().rpartition("/")[2]: s.path for s in files}  # as Spark escapes them
    with _readable():
        rows = _frame(session, table, statement, columns, files).groupBy(_FILE)
        counts = rows.agg(f.count(f.lit(1)), f.count(_ERROR), f.first(_ERROR, ignorenulls=True)).collect()
    found = {names[row[0]]: _Checked(row[1], row[2], row[3]) for row in counts}
    return {s.path: found.get(s.path, _Checked()) for s in files}


@contextmanager
def _readable() -> Iterator[None]:
    """Turn what Spark says of a file that it cannot read into an error of ours."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as e:
        failure = clear_failure(e)
        if isinstance(failure, PaimonError):
            raise failure from e
        said = e.java_exception.getMessage() if isinstance(e, Py4JJavaError) else str(e)
        raise ArgumentError(
            f"The files cannot be read: {said.strip().partition(chr(10))[0]}",
            hint="Check that all files of the directory have the TYPE of FILE_FORMAT; PATTERN selects files.",
            kind=ErrorKind.CORRUPT_DATA_FILE,
        ) from e


def _frame(
    session: SparkSession,
    table: Table,
    statement: CopyFrom,
    columns: Sequence[DataField],
    files: Sequence[SourceFile],
) -> DataFrame:
    """Return the rows of files: the columns of the table, the name of the file, and why a row cannot be loaded.

    The writer replaces the NULL of a column that is not loaded by the default of the column.
    """
    given = _read(session, statement.format, columns, [s.path for s in files])
    values = {c.name: _value(statement.format, given, c) for c in columns}
    casts = {c.name: values[c.name].try_cast(column_type(c)) for c in columns}
    errors = [f.when(_is_wrong(values[c.name], casts[c.name], c), _told(values[c.name], c)) for c in columns]
    if _CORRUPT in given.columns:
        text = f.substring(f.col(_CORRUPT), 1, _SHOWN)
        errors = [f.when(f.col(_CORRUPT).isNotNull(), f.concat(f.lit("not a row of the columns: "), text)), *errors]
    chosen = [casts.get(c.name, f.lit(None).cast(column_type(c))).alias(c.name) for c in table.schema.fields]
    return given.select(*chosen, f.col("_metadata.file_name").alias(_FILE), f.coalesce(*errors).alias(_ERROR))


def _read(session: SparkSession, file_format: FileFormat, columns: Sequence[DataField], paths: list[str]) -> DataFrame:
    paths = [_GLOB.sub(r"\\\1", path) for path in paths]
    if file_format.kind == "PARQUET":
        return session.read.option("mergeSchema", value=True).parquet(*paths)
    fields = [StructField(c.name, _text_or_nested(c)) for c in columns]
    reader = session.read.schema(StructType([*fields, StructField(_CORRUPT, StringType())]))
    reader = reader.options(**_spark_options(file_format), mode="PERMISSIVE", columnNameOfCorruptRecord=_CORRUPT)
    return reader.format(_READERS[file_format.kind]).load(paths)


def _text_or_nested(field: DataField) -> Any:
    """Return the type in which a text file's value is read: text, which is cast then, except for nested types."""
    return StringType() if isinstance(field.type, AtomicType) else column_type(field)


def _spark_options(file_format: FileFormat) -> dict[str, str]:
    options = {_OPTIONS[k]: file_format.text(k, "") for k in file_format.options if k in _OPTIONS}
    for flag in ("HEADER", "MULTI_LINE"):
        if flag in file_format.options:
            options[_OPTIONS[flag]] = str(file_format.flag(flag)).lower()
    skipped = file_format.text("SKIP_HEADER", "0")
    if skipped not in ("0", "1"):
        raise OptionError(f"SKIP_HEADER cannot be {skipped}.", hint="Write 0 or 1.")
    return options | ({"header": "true", "enforceSchema": "true"} if skipped == "1" else {})


def _value(file_format: FileFormat, given: DataFrame, field: DataField) -> Column:
    """Return the value of a column as the file has it; NULL where the file has no such column."""
    name = next((n for n in given.columns if n.lower() == field.name.lower()), None)
    if name is None:
        return f.lit(None).cast(column_type(field))
    value = f.col(quoted(name))
    if file_format.kind == "PARQUET" or not isinstance(field.type, AtomicType):
        return value
    if file_format.kind == "CSV" and field.type.root in _TEXTS:
        value = f.coalesce(value, f.lit(""))  # Spark reads an empty field as NULL, and nothing else
    nulls = [*file_format.texts("NULL_IF"), *([""] if file_format.flag("EMPTY_FIELD_AS_NULL") else [])]
    return f.when(~value.isin(nulls), value) if nulls else value


def _is_wrong(value: Column, cast: Column, field: DataField) -> Column:
    wrong = value.isNotNull() & cast.isNull()
    if not field.type.nullable:
        wrong = cast.isNull()
    if isinstance(field.type, AtomicType) and field.type.root in _TEXTS and field.type.length != MAX_VARCHAR:
        wrong = wrong | (f.length(cast) > f.lit(field.type.length))
    return wrong


def _told(value: Column, field: DataField) -> Column:
    text = f.coalesce(f.substring(value.cast("string"), 1, _SHOWN), f.lit("NULL"))
    wanted = column_type(field).simpleString() + ("" if field.type.nullable else " NOT NULL")
    return f.concat(f.lit(f"the value of {field.name} is no {wanted}: "), text)


# ------------------------------------------------------------------------------------------------------------- writing


def write_files(session: SparkSession, statement: CopyTo) -> list[tuple[Any, ...]]:
    """Write the rows of a table or a query as files of a directory; return one row, as `WRITTEN` says.

    Raises:
        AlreadyExistsError: the directory exists and OVERWRITE is not TRUE.
        ArgumentError: the query is wrong, or its rows cannot be written in the format.
    """
    directory, store = _directory(session, statement.path)
    if store.exists(directory) and not statement.overwrite:
        raise AlreadyExistsError(
            f"{statement.path} exists.",
            hint="Name another directory, or write OVERWRITE = TRUE, which replaces all that is in it.",
            kind=ErrorKind.INVALID_ARGUMENT,
        )
    options = _spark_options(statement.format)
    if "COMPRESSION" in statement.format.options:
        options["compression"] = statement.format.text("COMPRESSION", "").lower()
    counted = Observation()
    try:
        query = session.sql(f"SELECT * FROM {statement.source}")  # noqa: S608, the text is the user's own query
        rows = query.observe(counted, f.count(f.lit(1)).alias("rows"))
        writer = rows.write.mode("overwrite" if statement.overwrite else "errorifexists").options(**options)
        writer.format(_READERS[statement.format.kind]).save(statement.path)
    except PySparkException as e:
        raise ArgumentError(
            f"COPY INTO cannot write the rows: {first_line(e)}",
            hint="FROM takes a table, or a query in parentheses.",
        ) from e
    names = [status.getPath().getName() for status in store.listStatus(directory)]
    return [(statement.path, sum(not n.startswith(("_", ".")) for n in names), counted.get["rows"])]

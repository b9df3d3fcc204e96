"""COPY INTO a table: loads files of a directory (docs/sql.md).

Files are read twice: to find the rows that cannot be loaded, then to write the others, in one commit. Both reads take
every column, since Spark's readers overlook faults in what they do not return.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from paimon_spark.core.columns import reserved
from paimon_spark.core.commit.committer import Committed
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.row_level.upserted_rows import upserts
from paimon_spark.core.table import Table
from paimon_spark.engine.load_history import LoadHistory, SourceFile
from paimon_spark.errors import ArgumentError, ConflictError, ErrorKind, NotFoundError, OptionError, suggestion
from paimon_spark.spark.copy_formats import EMPTY, READERS, record_pattern, spark_options, told_by_spark
from paimon_spark.spark.copy_places import directory_of, reached
from paimon_spark.spark.copy_values import TEXTS, Converted, converted, member, missing, text_type, type_name
from paimon_spark.spark.store_assignment import column_type
from paimon_spark.spark.upserts import insert_checked
from paimon_spark.spec.quoted_text import quoted_name
from paimon_spark.spec.types import AtomicType, DataField, TypeRoot, holds_root
from paimon_spark.sqlparse.copy_into import CopyFrom, FileFormat, OnError

LOADED = [
    ("file_name", "string", False),
    ("status", "string", False),
    ("rows_loaded", "bigint", False),
    ("rows_parsed", "bigint", False),
    ("errors_seen", "bigint", False),
    ("first_error", "string", True),
]
"""Name, Spark type and nullability of the columns of a load's answer: one row for each file."""
_CORRUPT, _FILE, _ERROR, _MORE = map(reserved, ("_corrupt_", "_file_", "_error_", "_more_"))
_SHOWN = 100
_CODECS = {"GZIP": ".gz", "BZIP2": ".bz2", "ZSTD": ".zst", "SNAPPY": ".snappy", "LZ4": ".lz4", "DEFLATE": ".deflate"}
_UNREADABLE = ("[FAILED_READ_FILE", "[CANNOT_READ_FILE_FOOTER", "[MALFORMED_")
"""Spark's conditions of files that cannot be read."""
_GLOB = re.compile(r"([\[\]{}*?\\])")


@dataclass(frozen=True, slots=True)
class _Checked:
    """What is known of a file before it is written: its rows, and those that cannot be loaded."""

    rows: int = 0
    errors: int = 0
    first_error: str | None = None

    @property
    def loadable(self) -> int:
        """Return the number of rows that can be loaded."""
        return self.rows - self.errors


def load_files(
    session: SparkSession, table: Table, statement: CopyFrom, clock: Callable[[], int]
) -> list[tuple[Any, ...]]:
    """Load the files of a directory that have not been loaded; return a row for each file, as `LOADED` says.

    Args:
        session: the session that reads and writes.
        table: the table.
        statement: what to load.
        clock: the time in epoch milliseconds, for the history.

    Raises:
        NotFoundError: there is no such directory, or the table has no such column.
        ArgumentError: a row cannot be loaded and ON_ERROR = ABORT_STATEMENT; nothing is written.
        PaimonError: the write failed; the table is as it was.
    """
    columns = _columns(table, statement.columns)
    history = LoadHistory.of(table)
    files = _listed(session, statement)
    _check_codec(statement.format, files)
    known = set() if statement.force else history.loaded(files)
    wanted = [s for s in files if s not in known]
    checked = _checked(session, table, statement, columns, wanted) if wanted else {}
    _abort(statement, wanted, checked)
    skips = statement.on_error is OnError.SKIP_FILE
    loaded = {s: checked[s.path] for s in wanted if not (skips and checked[s.path].errors)}
    wanted_rows = sum(found.loadable for found in loaded.values())
    snapshot = table.snapshots.latest_id()
    if wanted_rows:
        rows = _frame(session, table, statement, columns, list(loaded)).where(f.col(_ERROR).isNull())
        rows = rows.select(*map(quoted_name, table.schema.field_names))
        check = partial(_check_unchanged, session, table, statement, loaded, wanted_rows)
        with _readable(only=_UNREADABLE):
            commit = insert_checked(session, table, rows, check).commit
        snapshot = commit.snapshot_ids[0] if isinstance(commit, Committed) else table.snapshots.latest_id()
    history.record([(s, found.loadable) for s, found in loaded.items()], snapshot or 0, clock())
    return [_answer(s, checked.get(s.path), written=s in loaded) for s in files]


def _check_unchanged(
    session: SparkSession,
    table: Table,
    statement: CopyFrom,
    loaded: Collection[SourceFile],
    rows: int,
    messages: Sequence[CommitMessage],
) -> None:
    """Refuse a write of other rows than those that were checked.

    The rows of a table with a primary key or an `upsert-key` are merged by key as they are written, so their counts do
    not tell.
    """
    written = sum(file.row_count for m in messages for file in m.new_files)
    merged = table.is_primary_key_table or upserts(table)
    exact = not merged and not any(holds_root(c.type, TypeRoot.BLOB) for c in table.schema.fields)
    changed = sorted(s.name for s in set(loaded).difference(_listed(session, statement)))
    if not changed and (written == rows or not exact):
        return
    what = f"{', '.join(changed)} changed" if changed else f"{written} rows were read instead of {rows}"
    raise ConflictError(
        f"The files cannot be loaded: {what} between the check and the write.",
        hint="Nothing was loaded. Run the statement again when the files are complete.",
    )


def _answer(source: SourceFile, found: _Checked | None, *, written: bool) -> tuple[Any, ...]:
    if found is None:
        return (source.name, "SKIPPED", 0, 0, 0, None)
    if not written:
        return (source.name, "LOAD_FAILED", 0, found.rows, found.errors, found.first_error)
    status = "PARTIALLY_LOADED" if found.errors else "LOADED"
    return (source.name, status, found.loadable, found.rows, found.errors, found.first_error)


def _abort(statement: CopyFrom, wanted: Sequence[SourceFile], checked: Mapping[str, _Checked]) -> None:
    wrong = next((s for s in wanted if checked[s.path].errors), None)
    if wrong is None or statement.on_error is not OnError.ABORT_STATEMENT:
        return
    found = checked[wrong.path]
    raise ArgumentError(
        f"{found.errors} of {found.rows} rows of {wrong.name} cannot be loaded: {found.first_error}.",
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
    directory, store = directory_of(session, statement.path)
    with reached(statement.path):
        listed = list(store.listStatus(directory)) if store.exists(directory) else None
    if listed is None:
        raise NotFoundError(
            f"There is no directory {statement.path}.",
            hint="Name an existing directory, or a file, by its path.",
            kind=ErrorKind.INVALID_ARGUMENT,
        )
    found = []
    for status in listed:
        name = status.getPath().getName()
        hidden = name.startswith(("_", "."))
        if status.isFile() and not hidden and (pattern is None or pattern.fullmatch(name)):
            found.append(SourceFile(status.getPath().toString(), status.getLen(), status.getModificationTime()))
    return sorted(found, key=lambda s: s.path)


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
        frame = _frame(session, table, statement, columns, files)
        told = [f.count(f.lit(1)), f.count(_ERROR), f.first(_ERROR, ignorenulls=True)]
        used = [f.count(quoted_name(c.name)) for c in columns]
        counts = frame.groupBy(_FILE).agg(*told, *used).collect()
    found = {names[row[0]]: _Checked(row[1], row[2], row[3]) for row in counts}
    return {s.path: found.get(s.path, _Checked()) for s in files}


def _readable(only: Sequence[str] = ()) -> AbstractContextManager[None]:
    return told_by_spark(
        "The files cannot be read",
        "Check that all files of the directory have the TYPE of FILE_FORMAT; PATTERN selects files.",
        ErrorKind.CORRUPT_DATA_FILE,
        only,
    )


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
    file_format = statement.format
    given = _read(session, file_format, columns, [s.path for s in files])
    sources = {c.name: _value(file_format, given, c) for c in columns}
    made = {name: source[1] for name, source in sources.items()}
    errors = [f.when(made[c.name].wrong, _told(sources[c.name][0], c)) for c in columns]
    if _CORRUPT in given.columns:
        errors = [_told_corrupt(session, file_format, columns), *errors]
    chosen = [
        (made[c.name].value if c.name in made else f.lit(None).cast(column_type(c))).alias(c.name)
        for c in table.schema.fields
    ]
    return given.select(*chosen, f.col("_metadata.file_name").alias(_FILE), f.coalesce(*errors).alias(_ERROR))


def _told_corrupt(session: SparkSession, file_format: FileFormat, columns: Sequence[DataField]) -> Column:
    """Return what is wrong with the text of a row; NULL for a row of the columns.

    A CSV record has one column less than the schema, so the reader gives its text unless it has one value too many.
    """
    text, names = f.col(_CORRUPT), [quoted_name(c.name) for c in columns]
    wrong = text.isNotNull()
    if file_format.kind == "CSV":
        wrong = text.isNull() | ~text.rlike(record_pattern(session, file_format, len(columns)))
        text = f.coalesce(text, f.concat_ws(file_format.text("FIELD_DELIMITER", ","), *names, f.col(_MORE)))
    return f.when(wrong, f.concat(f.lit("not a row of the columns: "), f.substring(text, 1, _SHOWN)))


def _read(session: SparkSession, file_format: FileFormat, columns: Sequence[DataField], paths: list[str]) -> DataFrame:
    paths = [_GLOB.sub(r"\\\1", path) for path in paths]
    if file_format.kind == "PARQUET":
        return session.read.option("mergeSchema", value=True).parquet(*paths)
    options = spark_options(file_format) | {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    fields = [StructField(c.name, _type_in(file_format, c)) for c in columns]
    if file_format.kind == "CSV":
        fields.append(StructField(_MORE, StringType()))
        options |= {"columnPruning": "false", "emptyValue": EMPTY}
    reader = session.read.schema(StructType([*fields, StructField(_CORRUPT, StringType())])).options(**options)
    return reader.format(READERS[file_format.kind]).load(paths)


def _type_in(file_format: FileFormat, field: DataField) -> Any:
    """Return the type in which a text file's value is read.

    Raises:
        ArgumentError: the format has no such values.
    """
    if file_format.kind == "JSON":
        return text_type(field.type)
    if isinstance(field.type, AtomicType):
        return StringType()
    raise ArgumentError(
        f"CSV has no values for the column '{field.name}', which is {type_name(field.type)}.",
        hint="Name the columns to load, or load JSON or PARQUET.",
        kind=ErrorKind.TYPE_MISMATCH,
    )


def _value(file_format: FileFormat, given: DataFrame, field: DataField) -> tuple[Column, Converted]:
    """Return the value of a column as the file has it, NULL where it has none, and as the column takes it."""
    found = member(given.schema, field.name)
    if found is None:
        return f.lit(None).cast("string"), missing(field.type)
    value, text = f.col(quoted_name(found.name)), file_format.kind != "PARQUET"
    if text and isinstance(found.dataType, StringType):
        value = _text(file_format, value, is_text=cast("AtomicType", field.type).root in TEXTS)
    return value, converted(value, found.dataType, field.type, text=text)


def _text(file_format: FileFormat, value: Column, *, is_text: bool) -> Column:
    """Return a text, NULL for those that mean it."""
    as_null = file_format.flag("EMPTY_FIELD_AS_NULL")
    nulls = list(file_format.texts("NULL_IF"))
    if file_format.kind == "CSV":
        value = f.when(value == f.lit(EMPTY), f.lit("") if is_text else f.lit(None)).otherwise(value)
        value = f.coalesce(value, f.lit("")) if is_text and not as_null else value
    elif as_null:
        nulls.append("")
    return f.when(~value.isin(nulls), value) if nulls else value


def _told(value: Column, field: DataField) -> Column:
    shown = f.substring(value.cast("string"), 1, _SHOWN)
    text = f.coalesce(f.concat(f.lit("'"), shown, f.lit("'")), f.lit("NULL"))
    return f.concat(f.lit("the value "), text, f.lit(f" of column {field.name} is not of type {type_name(field.type)}"))

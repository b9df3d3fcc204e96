"""Temporary tables of Flink's connectors, as temporary views and sinks of the session.

`datagen` generates rows, `print` and `blackhole` take them, `filesystem` reads and writes files of a directory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType, TimestampNTZType, TimestampType

from paimon_spark.errors import OptionError, UnsupportedError, UsageError, did_you_mean
from paimon_spark.spark.failures import first_line
from paimon_spark.spark.flink_settings import PREFIX
from paimon_spark.spark.types import struct_to_spark
from paimon_spark.spec.quoted_text import quoted_name
from paimon_spark.spec.types import AtomicType, DataField, TypeRoot
from paimon_spark.spec.units import parse_duration_ms
from paimon_spark.sqlparse.flink.statements import CreateTable, Watermark

CONNECTORS = ("datagen", "print", "blackhole", "filesystem")
TABLE = f"{PREFIX}temporary-table."
"""The prefix of the session's keys that hold the connectors of temporary tables."""
_FORMATS = ("parquet", "orc", "csv", "json", "avro", "text")
_DIGEST_DIGITS = 64
_RATE, _LENGTH = 10_000, 100
_BOUNDS = {
    TypeRoot.TINYINT: (-(1 << 7), (1 << 7) - 1),
    TypeRoot.SMALLINT: (-(1 << 15), (1 << 15) - 1),
    TypeRoot.INT: (-(1 << 31), (1 << 31) - 1),
    TypeRoot.BIGINT: (-(1 << 63), (1 << 63) - 1),
}
_SECONDS_A_DAY = 86_400


def create_connector(
    session: SparkSession, statement: CreateTable, connector: str, options: Mapping[str, str]
) -> tuple[str, str]:
    """Create the temporary view of a connector's rows, with the computed columns and the watermark of the table.

    Returns: The session key and value that store the connector for INSERT.

    Raises:
        UnsupportedError: there is no such connector, or it generates no values of a column's type.
        OptionError: an option does not exist, lacks or has a wrong value.
        UsageError: a computed column or the watermark is invalid.
    """
    name, fields = statement.name[0], statement.fields
    schema = StructType.fromJson(struct_to_spark(fields))
    stored: dict[str, Any] = {"connector": connector}
    if connector == "datagen":
        frame = _datagen(session, fields, dict(options))
    elif connector == "filesystem":
        frame, own = _filesystem(session, schema, dict(options))
        stored |= own
    elif connector in ("print", "blackhole"):
        known = ("print-identifier",) if connector == "print" else ()
        _refuse_rest(connector, {k: v for k, v in options.items() if k not in known}, known)
        stored["identifier"] = options.get("print-identifier", "")
        frame = _unreadable(session, name, schema, connector)
    else:
        raise UnsupportedError(
            f"The connector '{connector}' is not supported.",
            hint=did_you_mean(connector, CONNECTORS)
            or f"There are {', '.join(CONNECTORS)}. Register any other source of Spark as a temporary view.",
        )
    seen = _with_watermark(_with_computed(frame, statement), statement.watermark)
    seen.createOrReplaceTempView(name)
    described = {**stored, "schema": schema.jsonValue(), "view": seen.schema.jsonValue()}
    return f"{TABLE}{name.lower()}", json.dumps(described)


def _with_computed(frame: DataFrame, statement: CreateTable) -> DataFrame:
    """Return the rows with the computed columns, each at its place among the stored ones."""
    columns = [sf.col(quoted_name(f.name)) for f in statement.fields]
    for number, computed in enumerate(statement.computed):
        column = sf.expr(computed.expression).alias(computed.name)
        try:
            frame.select(column)
        except AnalysisException as e:
            raise UsageError(
                f"The column '{computed.name}' cannot be computed: {first_line(e)}",
                hint="The expression is one of Spark's, over the columns that are not computed.",
            ) from e
        columns.insert(computed.after + number, column)
    return frame.select(*columns) if statement.computed else frame


def _with_watermark(frame: DataFrame, watermark: Watermark | None) -> DataFrame:
    if watermark is None:
        return frame
    found = next((f for f in frame.schema.fields if f.name.lower() == watermark.column.lower()), None)
    if found is None or not isinstance(found.dataType, TimestampType | TimestampNTZType):
        what = "there is none of that name" if found is None else f"it is {found.dataType.simpleString()}"
        raise UsageError(
            f"The column '{watermark.column}' cannot have a watermark: {what}.", hint="Name a column of timestamps."
        )
    return frame.withWatermark(found.name, f"{watermark.delay_millis} milliseconds")


def _unreadable(session: SparkSession, name: str, schema: StructType, connector: str) -> DataFrame:
    """Return the rows of a table that can only be written; a query of them fails."""
    error = sf.raise_error(sf.lit(f"The table '{name}' of the connector '{connector}' cannot be read, only written."))
    columns = [error.cast(f.dataType).alias(f.name) for f in schema.fields]
    return session.range(1).select(*columns)


def _refuse_rest(connector: str, options: Mapping[str, str], known: Sequence[str] = ()) -> None:
    for key in options:
        raise OptionError(
            f"The connector '{connector}' has no option '{key}'.",
            hint=did_you_mean(key, known) or (f"Its options are {', '.join(known)}." if known else "It has none."),
        )


def _filesystem(session: SparkSession, schema: StructType, options: dict[str, str]) -> tuple[DataFrame, dict[str, str]]:
    """Return the rows of the files, and what an INSERT has to know."""
    path, kind = options.pop("path", None), options.pop("format", None)
    if path is None or kind is None:
        raise OptionError("The connector 'filesystem' needs the options 'path' and 'format'.")
    if kind not in _FORMATS:
        raise OptionError(f"The connector 'filesystem' has no format '{kind}'.", hint=f"Use {', '.join(_FORMATS)}.")
    own = {k.removeprefix(f"{kind}."): v for k, v in options.items() if k.startswith(f"{kind}.")}
    _refuse_rest("filesystem", {k: v for k, v in options.items() if not k.startswith(f"{kind}.")}, ("path", "format"))
    jvm: Any = session._jvm
    where = jvm.org.apache.hadoop.fs.Path(path)
    files = where.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
    files.mkdirs(where)
    frame = session.read.format(kind).schema(schema).options(**own).load(path)
    return frame, {"path": path, "format": kind, "options": json.dumps(own)}


@dataclass(slots=True)
class _Generator:
    """The options of one column of `datagen`."""

    field: DataField
    options: dict[str, str]

    def take(self, key: str) -> str | None:
        return self.options.pop(f"fields.{self.field.name}.{key}", None)

    def real(self, key: str, default: float) -> float:
        text = self.take(key)
        try:
            return default if text is None else float(text)
        except ValueError:
            raise OptionError(
                f"The option 'fields.{self.field.name}.{key}' is '{text}'.", hint="Give a number."
            ) from None

    def number(self, key: str) -> int | None:
        text = self.take(key)
        if text is not None and not text.strip().lstrip("-").isdecimal():
            raise OptionError(f"The option 'fields.{self.field.name}.{key}' is '{text}'.", hint="Give a whole number.")
        return None if text is None else int(text)


def _datagen(session: SparkSession, fields: Sequence[DataField], options: dict[str, str]) -> DataFrame:
    rate = _positive(options, "rows-per-second", _RATE)
    rows = _positive(options, "number-of-rows", None)
    columns: list[Column] = []
    for f in fields:
        generator = _Generator(f, options)
        column, ends_after = _column(generator)
        if ends_after is not None:
            rows = ends_after if rows is None else min(rows, ends_after)
        columns.append(column.alias(f.name))
    _refuse_rest("datagen", options, ("rows-per-second", "number-of-rows", "fields.<column>.kind"))
    if rows is None:
        source = session.readStream.format("rate").option("rowsPerSecond", rate).load()
        numbered = source.select(sf.col("value").alias("n"))
    else:
        numbered = session.range(rows).select(sf.col("id").alias("n"))
    return numbered.select(*columns)


def _positive(options: dict[str, str], key: str, default: int | None) -> int | None:
    text = options.pop(key, None)
    if text is None:
        return default
    if not text.isdecimal() or int(text) < 1:
        raise OptionError(f"The option '{key}' is '{text}'.", hint="Give a whole number of at least 1.")
    return int(text)


def _column(of: _Generator) -> tuple[Column, int | None]:
    """Return the values of a column from the number `n` of the row, and the number of rows after which they end."""
    t = of.field.type
    if not isinstance(t, AtomicType):
        raise UnsupportedError(
            f"The connector 'datagen' generates no values for the column '{of.field.name}'.",
            hint="Give it an atomic type, and build arrays, maps and rows in a view.",
        )
    spark_type = struct_to_spark([of.field])["fields"][0]["type"]
    kind = of.take("kind") or "random"
    if kind == "sequence":
        start, end = of.number("start"), of.number("end")
        if start is None or end is None or end < start:
            raise OptionError(
                f"The sequence of the column '{of.field.name}' needs the options 'fields.{of.field.name}.start' and "
                f"'fields.{of.field.name}.end', and the end must not be below the start."
            )
        return (sf.col("n") + sf.lit(start)).cast(spark_type), end - start + 1
    if kind != "random":
        raise OptionError(f"The option 'fields.{of.field.name}.kind' is '{kind}'.", hint="Use random or sequence.")
    nulls = of.real("null-rate", 0)
    column = _random(of, t).cast(spark_type)
    return (sf.when(sf.rand() >= sf.lit(nulls), column) if nulls else column), None


def _random(of: _Generator, t: AtomicType) -> Column:
    if t.root in (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY):
        return _text(of.number("length") or min(t.length or _LENGTH, _LENGTH))
    if t.root is TypeRoot.BOOLEAN:
        return sf.rand() < sf.lit(0.5)
    if t.root in _BOUNDS:
        least, most = _BOUNDS[t.root]
        low, high = of.number("min"), of.number("max")
        return _between(least if low is None else low, most if high is None else high)
    if t.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DECIMAL):
        digits = (t.precision or 0) - (t.scale or 0)
        most_real = float(10**digits - 1) if t.root is TypeRoot.DECIMAL else 1.0
        low_real, high_real = of.real("min", 0), of.real("max", most_real)
        return sf.lit(low_real) + sf.rand() * sf.lit(high_real - low_real)
    past = (parse_duration_ms(of.take("max-past") or "0") + 999) // 1000
    if t.root is TypeRoot.DATE:
        return sf.date_sub(sf.current_date(), sf.floor(sf.rand() * (past // _SECONDS_A_DAY + 1)).cast("int"))
    if t.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        return sf.timestamp_seconds(sf.unix_timestamp() - sf.floor(sf.rand() * (past + 1)))
    raise UnsupportedError(
        f"The connector 'datagen' generates no values of the type {t.root} for the column '{of.field.name}'."
    )


def _between(low: int, high: int) -> Column:
    """Return whole numbers from `low` to `high`, both included, each as likely as any other."""
    if high - low < 1 << 52:
        return sf.lit(low) + sf.floor(sf.rand() * sf.lit(float(high - low + 1)))
    bits = sf.conv(sf.substring(sf.sha2(sf.expr("uuid()"), 256), 1, 16), 16, -10).cast("bigint")
    return sf.lit(low) + sf.pmod(bits, sf.lit(high - low + 1)) if high - low + 1 < 1 << 63 else bits


def _text(length: int) -> Column:
    """Return hexadecimal digits, as Flink's generator does."""
    blocks = [sf.sha2(sf.expr("uuid()"), 256) for _ in range(math.ceil(length / _DIGEST_DIGITS))]
    return sf.substring(sf.concat(*blocks), 1, length)

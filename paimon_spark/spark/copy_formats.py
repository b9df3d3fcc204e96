"""What COPY INTO tells Spark of a file format, and what a CSV record may look like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from paimon_spark.errors import ArgumentError, ErrorKind, OptionError, PaimonError
from paimon_spark.spark.failures import clear_failure, first_line, java_message, whole_text
from paimon_spark.sqlparse.copy_into import FileFormat

READERS = {"CSV": "csv", "JSON": "json", "PARQUET": "parquet"}
EMPTY = "\x00empty\x00"
"""How the CSV reader gives `""`, which is an empty text; it gives an empty field as NULL."""
_OPTIONS = {
    "FIELD_DELIMITER": "sep",
    "HEADER": "header",
    "MULTI_LINE": "multiLine",
    "DATE_FORMAT": "dateFormat",
    "TIMESTAMP_FORMAT": "timestampFormat",
}
_FLAGS = ("HEADER", "MULTI_LINE")


@contextmanager
def told_by_spark(what: str, hint: str, kind: ErrorKind, only: Sequence[str] = ()) -> Iterator[None]:
    """Raise what Spark says as an ArgumentError; errors of ours inside, such as a cancellation, stay as they are.

    Args:
        what: the beginning of the message.
        hint: what to do.
        kind: the code.
        only: texts of which the errors must have one; others are raised as they are.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as e:
        failure = clear_failure(e)
        if isinstance(failure, PaimonError):
            raise failure from e
        if only and not any(text in whole_text(e) for text in only):
            raise
        said = java_message(e) if isinstance(e, Py4JJavaError) else first_line(e)
        raise ArgumentError(f"{what}: {said}", hint=hint, kind=kind) from e


def spark_options(file_format: FileFormat) -> dict[str, str]:
    """Return the options of Spark's reader and writer.

    Raises:
        OptionError: a value is not one of the option's.
    """
    options = {_OPTIONS[k]: file_format.text(k, "") for k in file_format.options if k in _OPTIONS}
    options |= {_OPTIONS[k]: str(file_format.flag(k)).lower() for k in _FLAGS if k in file_format.options}
    if file_format.kind == "CSV":
        quote, escape = _quoting(file_format)
        options |= {"quote": quote, "escape": escape, "ignoreLeadingWhiteSpace": "false"}
        options |= {"ignoreTrailingWhiteSpace": "false"}
    skipped = file_format.text("SKIP_HEADER", "0")
    if skipped not in ("0", "1"):
        raise OptionError(f"SKIP_HEADER cannot be {skipped}.", hint="Write 0 or 1.")
    return options | ({"header": "true", "enforceSchema": "true"} if skipped == "1" else {})


def _quoting(file_format: FileFormat) -> tuple[str, str]:
    """Return the quote, empty for none, and what escapes one; a doubled quote is the default."""
    quote = file_format.text("QUOTE", '"')
    escape = file_format.text("ESCAPE", quote)
    for name, value in (("QUOTE", quote), ("ESCAPE", escape)):
        if len(value) > 1:
            raise OptionError(f"{name} cannot be '{value}'.", hint="Write one character.")
    return quote, escape


def record_pattern(session: SparkSession, file_format: FileFormat, columns: int) -> str:
    """Return a regular expression of Java that matches the text of a CSV record of `columns` well-formed values."""
    quote, escape = _quoting(file_format)
    jvm: Any = session.sparkContext._jvm
    utils = jvm.org.apache.spark.sql.catalyst.csv.CSVExprUtils
    delimiter: str = utils.toDelimiterStr(file_format.text("FIELD_DELIMITER", ","))
    return csv_record(delimiter, quote, escape, columns)


def csv_record(delimiter: str, quote: str, escape: str, columns: int) -> str:
    """Return the expression of `record_pattern`; its loops are possessive, as others overflow the stack of Java."""
    d, q, e = (_literal(text) for text in (delimiter, quote, escape))
    value = f"[^{d}]*+" if len(delimiter) == 1 else f"(?:(?!{d}).)*+"
    if quote:
        inner = f"[^{q}]*+(?:{q}{q}[^{q}]*+)*+" if escape in ("", quote) else f"[^{q}{e}]*+(?:{e}.[^{q}{e}]*+)*+"
        value = f"(?:{q}{inner}{q}|(?!{q}){value})"
    return rf"(?s)\A[\r\n]*{value}(?:{d}{value}){{{columns - 1}}}+[\r\n]*\z"


def _literal(text: str) -> str:
    return "".join(f"\\x{{{ord(c):x}}}" for c in text)

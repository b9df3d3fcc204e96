"""Parsing of ``COPY INTO table FROM 'directory' …`` and ``COPY INTO 'directory' FROM table | (query) …``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from paimon_spark.errors import OptionError, did_you_mean
from paimon_spark.sqlparse.cursor import Cursor
from paimon_spark.sqlparse.tokens import PieceKind, pieces

T = TypeVar("T")
Setting = str | tuple[str, ...]
FORMATS = ("CSV", "JSON", "PARQUET")
_READ: Mapping[str, Sequence[str]] = {
    "CSV": (
        "FIELD_DELIMITER",
        "SKIP_HEADER",
        "MULTI_LINE",
        "QUOTE",
        "ESCAPE",
        "NULL_IF",
        "EMPTY_FIELD_AS_NULL",
        "COMPRESSION",
    ),
    "JSON": ("MULTI_LINE", "NULL_IF", "EMPTY_FIELD_AS_NULL", "COMPRESSION"),
    "PARQUET": (),
}
_WRITTEN: Mapping[str, Sequence[str]] = {
    "CSV": ("FIELD_DELIMITER", "HEADER", "QUOTE", "ESCAPE", "DATE_FORMAT", "TIMESTAMP_FORMAT", "COMPRESSION"),
    "JSON": ("DATE_FORMAT", "TIMESTAMP_FORMAT", "COMPRESSION"),
    "PARQUET": ("COMPRESSION",),
}
_FLAGS = {"TRUE": True, "FALSE": False}
_CLAIM = re.compile(r"copy into\b")
_FORMS = (
    "The forms are COPY INTO t [(columns)] FROM 'directory' FILE_FORMAT = (TYPE = CSV|JSON|PARQUET, option = value, …) "
    "[PATTERN = 'regex'] [FORCE = TRUE|FALSE] [ON_ERROR = ABORT_STATEMENT|CONTINUE|SKIP_FILE], and "
    "COPY INTO 'directory' FROM t|(query) FILE_FORMAT = (…) [OVERWRITE = TRUE|FALSE]."
)


class OnError(StrEnum):
    """The effect of a row that cannot be loaded: fail the statement, skip the row, or skip the file."""

    ABORT_STATEMENT = "ABORT_STATEMENT"
    CONTINUE = "CONTINUE"
    SKIP_FILE = "SKIP_FILE"


@dataclass(frozen=True, slots=True)
class FileFormat:
    """The format of files: one of `FORMATS`, and its options by their names in upper case."""

    kind: str
    options: Mapping[str, Setting] = field(default_factory=dict)

    def text(self, name: str, default: str) -> str:
        """Return an option that is one text."""
        value = self.options.get(name, default)
        if not isinstance(value, str):
            raise OptionError(f"{name} takes one value, not a list.", hint=_FORMS)
        return value

    def flag(self, name: str) -> bool:
        """Return an option that is TRUE or FALSE, which is the default."""
        return one_of(name, self.text(name, "FALSE").upper(), _FLAGS)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return an option that is a list of texts, or one of them."""
        value = self.options.get(name, ())
        return (value,) if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class CopyFrom:
    """Loads the files of a directory into a table; without `columns` into all of its columns."""

    table: tuple[str, ...]
    path: str
    format: FileFormat
    columns: tuple[str, ...] = ()
    pattern: str | None = None
    force: bool = False
    on_error: OnError = OnError.ABORT_STATEMENT


@dataclass(frozen=True, slots=True)
class CopyTo:
    """Writes a table, or a query in parentheses, as files of a directory; `source` is its text."""

    path: str
    source: str
    format: FileFormat
    overwrite: bool = False


def is_copy_statement(text: str) -> bool:
    """Return whether `text` is a COPY INTO, by its first words."""
    words = (p.text.lower() for p in pieces(text) if p.kind not in (PieceKind.BLANK, PieceKind.COMMENT))
    return _CLAIM.match(" ".join((next(words, ""), next(words, "")))) is not None


def parse_copy_statement(text: str) -> CopyFrom | CopyTo:
    """Parse a COPY INTO.

    Raises:
        SqlSyntaxError: it does not parse; the message has line and column.
        OptionError: a format, one of its options or another value is unknown.
    """
    cursor = Cursor(text, hint=_FORMS)
    cursor.expect("COPY", "INTO")
    statement = _to(cursor) if cursor.at_string else _from(cursor)
    cursor.end()
    return statement


def _from(cursor: Cursor) -> CopyFrom:
    table = cursor.path("the name of a table or a directory in quotes")
    columns = cursor.listed(lambda: cursor.identifier("a column")) if cursor.peek() == "(" else []
    cursor.expect("FROM")
    path = cursor.string("a directory")
    clauses = _clauses(
        cursor,
        {
            "FILE_FORMAT": lambda: _file_format(cursor, _READ),
            "PATTERN": lambda: cursor.string("a regular expression"),
            "FORCE": lambda: one_of("FORCE", _word(cursor), _FLAGS),
            "ON_ERROR": lambda: one_of("ON_ERROR", _word(cursor), OnError.__members__),
        },
    )
    return CopyFrom(
        table,
        path,
        _format_of(clauses, cursor),
        tuple(columns),
        pattern=_as(str, clauses.get("PATTERN")),
        force=clauses.get("FORCE") is True,
        on_error=_as(OnError, clauses.get("ON_ERROR")) or OnError.ABORT_STATEMENT,
    )


def _to(cursor: Cursor) -> CopyTo:
    path = cursor.string("a directory")
    cursor.expect("FROM")
    if cursor.peek() != "(" and not cursor.at_name:
        cursor.fail("expected a table, or a query in parentheses")
    source = cursor.expression("FILE_FORMAT", "OVERWRITE")
    clauses = _clauses(
        cursor,
        {
            "FILE_FORMAT": lambda: _file_format(cursor, _WRITTEN),
            "OVERWRITE": lambda: one_of("OVERWRITE", _word(cursor), _FLAGS),
        },
    )
    return CopyTo(path, source, _format_of(clauses, cursor), overwrite=clauses.get("OVERWRITE") is True)


def _clauses(cursor: Cursor, known: Mapping[str, Callable[[], object]]) -> dict[str, object]:
    """Read `NAME = value` clauses in any order, each once."""
    found: dict[str, object] = {}
    while not cursor.done:
        name = cursor.peek()
        if name not in known or name in found:
            cursor.fail(f"expected {', '.join(n for n in known if n not in found) or 'the end of the statement'}")
        cursor.expect(name, "=")
        found[name] = known[name]()
    return found


def _format_of(clauses: Mapping[str, object], cursor: Cursor) -> FileFormat:
    found = clauses.get("FILE_FORMAT")
    if not isinstance(found, FileFormat):
        cursor.fail("expected FILE_FORMAT = (TYPE = …)")
    return found


def _file_format(cursor: Cursor, known: Mapping[str, Sequence[str]]) -> FileFormat:
    cursor.expect("(")
    options: dict[str, Setting] = {}
    while not cursor.accept(")"):
        name = cursor.identifier("an option").upper()
        cursor.expect("=")
        if name in options:
            raise OptionError(f"FILE_FORMAT has the option {name} twice.", hint=_FORMS)
        options[name] = _value(cursor)
        cursor.accept(",")
    kind = options.pop("TYPE", "")
    if not isinstance(kind, str) or kind.upper() not in FORMATS:
        problem = f"The TYPE {kind} of FILE_FORMAT is unknown." if kind else "FILE_FORMAT has no TYPE."
        raise OptionError(problem, hint=f"Write TYPE = {' or TYPE = '.join(FORMATS)}.")
    allowed = known[kind.upper()]
    for name in options:
        if name not in allowed:
            raise OptionError(
                f"FILE_FORMAT has no option {name} for {kind.upper()} here.",
                hint=f"{did_you_mean(name, allowed)} The options are {', '.join(('TYPE', *allowed))}.".strip(),
            )
    return FileFormat(kind.upper(), options)


def _value(cursor: Cursor) -> Setting:
    if cursor.peek() == "(":
        return tuple(cursor.listed(lambda: cursor.string("a text")))
    return cursor.string("a value") if cursor.at_string else _word(cursor)


def _word(cursor: Cursor) -> str:
    """Return a word or a number in upper case."""
    word = cursor.peek()
    if not re.fullmatch(r"\w+", word):
        cursor.fail("expected a value")
    cursor.accept(word)
    return word


def one_of(name: str, value: str, choices: Mapping[str, T]) -> T:
    """Return the choice that a value names.

    Raises:
        OptionError: it names none.
    """
    if value not in choices:
        raise OptionError(f"{name} cannot be {value}.", hint=f"Write one of {', '.join(choices)}.")
    return choices[value]


def _as(kind: type[T], value: object) -> T | None:
    return value if isinstance(value, kind) else None

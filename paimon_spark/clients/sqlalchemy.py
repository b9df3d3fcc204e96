"""The SQLAlchemy dialect ``paimon+thrift://``: PyHive's, with the catalogs, views, types and keys of Spark.

``paimon+thrift://host:10000/catalog.database``, or ``…/database?catalog=name``. Other parameters of the URL are those
of ``pyhive.hive.connect``, and ``session.<key>=<value>`` is set in each session.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from types import ModuleType
from typing import Any

from pyhive import hive
from pyhive.sqlalchemy_hive import HiveDialect, HiveIdentifierPreparer
from sqlalchemy import exc, func, text, types
from sqlalchemy.dialects import registry
from sqlalchemy.engine.default import DefaultExecutionContext
from sqlalchemy.engine.url import URL
from sqlalchemy.sql.compiler import GenericTypeCompiler, SQLCompiler
from sqlalchemy.types import TypeEngine

_PLAIN: dict[str, Callable[[], TypeEngine[Any]]] = {
    "boolean": types.Boolean,
    "tinyint": types.SmallInteger,
    "smallint": types.SmallInteger,
    "int": types.Integer,
    "bigint": types.BigInteger,
    "float": lambda: types.Float(24),
    "double": lambda: types.Float(53),
    "string": types.String,
    "char": types.CHAR,
    "varchar": types.VARCHAR,
    "binary": types.LargeBinary,
    "date": types.Date,
    "time": types.Time,
    "timestamp": lambda: types.TIMESTAMP(timezone=True),
    "timestamp_ntz": types.TIMESTAMP,
}
_SIZED: dict[str, Callable[..., TypeEngine[Any]]] = {
    "decimal": types.DECIMAL,
    "char": types.CHAR,
    "varchar": types.VARCHAR,
}
_SINGLE = 24
"""The most bits of precision of a FLOAT."""
_SPELLINGS: dict[str, Callable[[Any], str]] = {
    **dict.fromkeys(("CHAR", "NCHAR"), lambda t: f"CHAR({t.length})" if t.length else "STRING"),
    **dict.fromkeys(
        ("STRING", "UNICODE", "VARCHAR", "NVARCHAR"), lambda t: f"VARCHAR({t.length})" if t.length else "STRING"
    ),
    **dict.fromkeys(("TEXT", "UNICODE_TEXT", "CLOB", "NCLOB", "JSON"), lambda _: "STRING"),
    **dict.fromkeys(("LARGE_BINARY", "BLOB", "BINARY", "VARBINARY"), lambda _: "BINARY"),
    **dict.fromkeys(("DATETIME", "TIMESTAMP"), lambda t: "TIMESTAMP" if t.timezone else "TIMESTAMP_NTZ"),
    **dict.fromkeys(
        ("NUMERIC", "DECIMAL"),
        lambda t: f"DECIMAL({t.precision}, {t.scale or 0})" if t.precision else "DECIMAL(38, 18)",
    ),
    "INTEGER": lambda _: "INT",
    "FLOAT": lambda t: "FLOAT" if t.precision and t.precision <= _SINGLE else "DOUBLE",
    "REAL": lambda _: "FLOAT",
    "DOUBLE_PRECISION": lambda _: "DOUBLE",
}
"""Types of SQLAlchemy that Spark spells in another way."""
_NAMED = re.compile(r"(\w+)(?:\((\d+(?:,\d+)*)\))?$")
_MISSING = re.compile(r"TABLE_OR_VIEW_NOT_FOUND|SCHEMA_NOT_FOUND")
_COLUMN = re.compile(r"(`(?:[^`]|``)+`|\w+) ")
_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
_SESSION = "session."


def quoted(*parts: str) -> str:
    """Return a name in backquotes."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


class Text(types.UserDefinedType[str]):
    """A type of Spark without a counterpart, such as ARRAY; values are JSON texts, as the server sends them."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_: Any) -> str:
        """Return the type as Spark spells it."""
        return self.name


def type_of(spelling: str) -> TypeEngine[Any]:
    """Return the type of a column that DESCRIBE shows as `spelling`."""
    found = _NAMED.match(spelling.strip().lower())
    name, sizes = (found[1], found[2]) if found else ("", None)
    if sizes is not None and name in _SIZED:
        return _SIZED[name](*map(int, sizes.split(",")))
    if sizes is None and name in _PLAIN:
        return _PLAIN[name]()
    return Text(spelling.strip())


class DateText(types.Date):
    """A date, which is sent as a text in both directions; one beyond the years of Python remains a text."""

    def bind_processor(self, dialect: Any) -> Callable[[Any], Any]:
        """Return the function that writes a value."""
        del dialect
        return _iso

    def bind_expression(self, bindvalue: Any) -> Any:
        """Return the expression of a value."""
        return func.to_date(bindvalue)

    def result_processor(self, dialect: Any, coltype: Any) -> Callable[[Any], Any]:
        """Return the function that reads a value."""
        del dialect, coltype
        return _date


class Moment(types.DateTime):
    """A time, with or without a time zone, which a statement contains as a text."""

    def bind_processor(self, dialect: Any) -> Callable[[Any], Any]:
        """Return the function that writes a value."""
        del dialect
        return _iso

    def bind_expression(self, bindvalue: Any) -> Any:
        """Return the expression of a value."""
        return func.to_timestamp_ltz(bindvalue) if self.timezone else func.to_timestamp_ntz(bindvalue)


class Digits(float):
    """A number that a statement contains with all digits; PyHive takes no decimals."""

    _text: str

    def __new__(cls, value: Decimal) -> Digits:
        """Return the number."""
        number = super().__new__(cls, value)
        number._text = f"{value:f}BD"
        return number

    def __str__(self) -> str:
        return self._text


class Exact(types.Numeric[Any]):
    """A decimal number."""

    def bind_processor(self, dialect: Any) -> Callable[[Any], Any]:
        """Return the function that writes a value."""
        del dialect
        return lambda value: Digits(value) if isinstance(value, Decimal) else value


class Bytes(types.LargeBinary):
    """Bytes, which a statement contains as hexadecimal digits."""

    def bind_processor(self, dialect: Any) -> Callable[[Any], Any]:
        """Return the function that writes a value."""
        del dialect
        return lambda value: None if value is None else bytes(value).hex()

    def bind_expression(self, bindvalue: Any) -> Any:
        """Return the expression of a value."""
        return func.unhex(bindvalue)


class PaimonCompiler(SQLCompiler):
    """Statements of Spark."""

    def limit_clause(self, select: Any, **kw: Any) -> str:
        """Return LIMIT and OFFSET, each of which may be absent."""
        clauses = (("LIMIT", select._limit_clause), ("OFFSET", select._offset_clause))
        return "".join(f"\n {word} {self.process(value, **kw)}" for word, value in clauses if value is not None)


class PaimonTypeCompiler(GenericTypeCompiler):
    """Types in CREATE TABLE."""

    def process(self, type_: Any, **kw: Any) -> str:
        """Return a type as Spark spells it."""
        spell = _SPELLINGS.get(type_.__visit_name__.upper())
        return spell(type_) if spell else str(super().process(type_, **kw))


class PaimonIdentifierPreparer(HiveIdentifierPreparer):
    """Quotes each part of a schema, which may be ``catalog.database``, and names with backquotes."""

    def __init__(self, dialect: Any) -> None:
        super().__init__(dialect)
        self.escape_quote, self.escape_to_quote = "`", "``"

    def quote_schema(self, schema: str, force: Any = None) -> str:
        """Return a schema in backquotes."""
        return ".".join(self.quote_identifier(part) for part in _parts(schema))


class PaimonDialect(HiveDialect):
    """Spark's Thrift server with Paimon catalogs."""

    name = "paimon"
    driver = "thrift"
    preparer = PaimonIdentifierPreparer
    statement_compiler = PaimonCompiler
    type_compiler = PaimonTypeCompiler
    execution_ctx_cls = DefaultExecutionContext
    colspecs = {  # noqa: RUF012 - as in SQLAlchemy
        types.Date: DateText,
        types.DateTime: Moment,
        types.Float: types.Float,
        types.Numeric: Exact,
        types.LargeBinary: Bytes,
    }
    supports_statement_cache = False
    supports_comments = True
    inline_comments = True
    supports_sane_multi_rowcount = False

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """Return PyHive's module."""
        return hive

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of ``pyhive.hive.connect``."""
        query = {k: v for k, v in url.query.items() if k != "catalog" and not k.startswith(_SESSION)}
        session = {k.removeprefix(_SESSION): v for k, v in url.query.items() if k.startswith(_SESSION)}
        catalog, database = _place(url)
        # PyHive runs USE `<database>`.
        known = [part.replace("`", "``") for part in (catalog, database) if part]
        place = {"database": "`.`".join(known)} if known else {}
        arguments = {"host": url.host or "localhost", "port": url.port or 10000, "username": url.username}
        secret = {"password": url.password, "auth": query.get("auth", "LDAP")} if url.password else {}
        return [], {**arguments, **query, **secret, **place, "configuration": _hive(session)}

    def get_schema_names(self, connection: Any, **_: Any) -> list[str]:
        """Return the databases of the current catalog; one whose name has a dot or a backquote is in backquotes."""
        return [_unquoted(row[0]) for row in _answer(connection, "SHOW DATABASES")]

    def get_catalog_names(self, connection: Any, **_: Any) -> list[str]:
        """Return the catalogs of the session."""
        return [row[0] for row in _answer(connection, "SHOW CATALOGS")]

    def get_table_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        """Return the tables of a database, without views."""
        views = set(self.get_view_names(connection, schema))
        rows = _answer(connection, f"SHOW TABLES{_inside(schema)}")
        return [row[1] for row in rows if row[1] not in views and not row[2]]

    def get_view_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        """Return the permanent views of a database."""
        return [row[1] for row in _views(connection, schema) if not row[2]]

    def get_temp_view_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        """Return the temporary views of the session."""
        return [row[1] for row in _views(connection, schema) if row[2]]

    def has_table(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> bool:
        """Return whether there is a table or view of the name."""
        try:
            self._described(connection, table_name, schema)
        except exc.NoSuchTableError:
            return False
        return True

    def get_columns(
        self, connection: Any, table_name: str, schema: str | None = None, **_: Any
    ) -> list[dict[str, Any]]:
        """Return the columns with types and comments."""
        required = self._required(connection, table_name, schema)
        return [
            {
                "name": name,
                "type": type_of(spelling),
                "nullable": name not in required,
                "default": None,
                "comment": comment or None,
            }
            for name, spelling, comment in self._described(connection, table_name, schema)
        ]

    def get_pk_constraint(
        self, connection: Any, table_name: str, schema: str | None = None, **_: Any
    ) -> dict[str, Any]:
        """Return the columns of the table property `primary-key`."""
        keys = self._property(connection, table_name, schema, "primary-key")
        return {"name": None, "constrained_columns": [k.strip() for k in keys.split(",")] if keys else []}

    def get_indexes(
        self, connection: Any, table_name: str, schema: str | None = None, **_: Any
    ) -> list[dict[str, Any]]:
        """Return nothing: there are no indexes that a query can name."""
        self._described(connection, table_name, schema)
        return []

    def get_table_comment(
        self, connection: Any, table_name: str, schema: str | None = None, **_: Any
    ) -> dict[str, Any]:
        """Return the comment of a table or view."""
        rows = self._rows(connection, f"DESCRIBE EXTENDED {_full(table_name, schema)}", table_name)
        start = next((i for i, row in enumerate(rows) if row[0].startswith("# Detailed")), len(rows))
        return {"text": next((row[1] for row in rows[start:] if row[0] == "Comment"), None)}

    def get_view_definition(self, connection: Any, view_name: str, schema: str | None = None, **_: Any) -> str:
        """Return the statement that creates a view."""
        return str(self._rows(connection, f"SHOW CREATE TABLE {_full(view_name, schema)}", view_name)[0][0])

    def _described(self, connection: Any, table: str, schema: str | None) -> list[tuple[str, str, str | None]]:
        rows = self._rows(connection, f"DESCRIBE {_full(table, schema)}", table)
        end = next((i for i, row in enumerate(rows) if not row[0] or row[0].startswith("# ")), len(rows))
        return [(row[0], row[1], row[2]) for row in rows[:end]]

    def _required(self, connection: Any, table: str, schema: str | None) -> set[str]:
        """Return the columns that SHOW CREATE TABLE shows as NOT NULL; DESCRIBE does not show that."""
        (statement,) = self._rows(connection, f"SHOW CREATE TABLE {_full(table, schema)}", table)[0]
        if not statement.startswith("CREATE TABLE"):
            return set()
        declared = (re.split(r" COMMENT '| DEFAULT ", line.strip())[0].rstrip(",)") for line in statement.splitlines())
        names = (_COLUMN.match(line) for line in declared if line.endswith(" NOT NULL"))
        return {m[1].strip("`").replace("``", "`") for m in names if m}

    def _property(self, connection: Any, table: str, schema: str | None, key: str) -> str | None:
        rows = self._rows(connection, f"SHOW TBLPROPERTIES {_full(table, schema)}", table)
        return next((row[1] for row in rows if row[0] == key), None)

    def _rows(self, connection: Any, statement: str, table: str) -> list[Any]:
        try:
            return _answer(connection, statement)
        except exc.DBAPIError as e:
            if _MISSING.search(str(e)):
                raise exc.NoSuchTableError(table) from e
            raise


def _place(url: URL) -> tuple[str | None, str | None]:
    given, whole = url.query.get("catalog"), url.database or ""
    catalog, _, database = (str(given), "", whole) if given else whole.rpartition(".")
    return catalog or None, database or None


def _hive(session: dict[str, Any]) -> dict[str, str]:
    """Return settings as a Hive session takes them: Spark's own need the prefix ``set:hiveconf:``."""
    return {f"set:hiveconf:{key}": str(value) for key, value in session.items()}


def _views(connection: Any, schema: str | None) -> list[Any]:
    """Return the permanent and temporary views: database, name, whether it is temporary."""
    return _answer(connection, f"SHOW VIEWS{_inside(schema)}")


def _answer(connection: Any, statement: str) -> list[Any]:
    """Return the rows of a statement without parameters."""
    return list(connection.execute(text(statement.replace(":", r"\:"))).fetchall())


def _parts(schema: str) -> list[str]:
    """Return the names in ``database`` or ``catalog.database``; names with dots are in backquotes."""
    if "`" not in schema:
        return schema.split(".", 1)
    return [plain or name.replace("``", "`") for name, plain in _PART.findall(schema)]


def _unquoted(name: str) -> str:
    """Return a name that Spark has put in backquotes without them, unless `_parts` needs them."""
    plain = name[1:-1] if name.startswith("`") else name
    return name if "." in plain or "`" in plain else plain


def _inside(schema: str | None) -> str:
    return f" IN {quoted(*_parts(schema))}" if schema else ""


def _full(table: str, schema: str | None) -> str:
    return quoted(*_parts(schema), table) if schema else quoted(table)


def _iso(value: Any) -> Any:
    return value if value is None or isinstance(value, str) else value.isoformat()


def _date(value: Any) -> Any:
    try:
        return date.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return value


registry.register("paimon.thrift", __name__, PaimonDialect.__name__)

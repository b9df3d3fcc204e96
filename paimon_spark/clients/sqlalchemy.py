"""The SQLAlchemy dialect ``paimon+thrift://``: PyHive's, with the catalogs, views, types and keys of Spark.

``paimon+thrift://host:10000/catalog.database``, or ``…/database?catalog=name``. Other parameters of the URL are those
of ``pyhive.hive.connect``, and ``session.<key>=<value>`` is set in each session.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

from pyhive import hive
from pyhive.sqlalchemy_hive import HiveDialect, HiveIdentifierPreparer
from sqlalchemy import exc, text, types
from sqlalchemy.dialects import registry
from sqlalchemy.engine.url import URL
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
_NAMED = re.compile(r"(\w+)(?:\((\d+(?:,\d+)*)\))?$")
_MISSING = re.compile(r"TABLE_OR_VIEW_NOT_FOUND|SCHEMA_NOT_FOUND")
_COLUMN = re.compile(r"(`(?:[^`]|``)+`|\w+) ")
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


class PaimonIdentifierPreparer(HiveIdentifierPreparer):
    """Quotes each part of a schema, which may be ``catalog.database``."""

    def quote_schema(self, schema: str, force: Any = None) -> str:
        """Return a schema in backquotes."""
        return quoted(*schema.split(".", 1))


class PaimonDialect(HiveDialect):
    """Spark's Thrift server with Paimon catalogs."""

    name = "paimon"
    driver = "thrift"
    preparer = PaimonIdentifierPreparer
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
        """Return the databases of the current catalog."""
        return [row[0] for row in connection.execute(text("SHOW DATABASES"))]

    def get_catalog_names(self, connection: Any, **_: Any) -> list[str]:
        """Return the catalogs of the session."""
        return [row[0] for row in connection.execute(text("SHOW CATALOGS"))]

    def get_table_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        """Return the tables of a database, without views."""
        views = {row[1] for row in _views(connection, schema)}
        rows = connection.execute(text(f"SHOW TABLES{_inside(schema)}"))
        return [row[1] for row in rows if row[1] not in views]

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
            return list(connection.execute(text(statement.replace(":", r"\:"))).fetchall())
        except exc.DBAPIError as e:
            if _MISSING.search(str(e)):
                raise exc.NoSuchTableError(table) from e
            raise


def _place(url: URL) -> tuple[str | None, str | None]:
    catalog, _, database = (url.database or "").rpartition(".")
    given = url.query.get("catalog")
    return (str(given) if given else catalog) or None, database or None


def _hive(session: dict[str, Any]) -> dict[str, str]:
    """Return settings as a Hive session takes them: Spark's own need the prefix ``set:hiveconf:``."""
    return {f"set:hiveconf:{key}": str(value) for key, value in session.items()}


def _views(connection: Any, schema: str | None) -> list[Any]:
    """Return the permanent and temporary views: database, name, whether it is temporary."""
    return list(connection.execute(text(f"SHOW VIEWS{_inside(schema)}")))


def _inside(schema: str | None) -> str:
    return f" IN {quoted(*schema.split('.', 1))}" if schema else ""


def _full(table: str, schema: str | None) -> str:
    return quoted(*schema.split(".", 1), table) if schema else quoted(table)


registry.register("paimon.thrift", __name__, PaimonDialect.__name__)
